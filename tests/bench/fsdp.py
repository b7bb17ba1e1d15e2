# SPDX-License-Identifier: BSD-3-Clause
"""Steps of FullyShardedDataParallel (FSDP1) on processors over several backends of torch.distributed.

    coll run -n 2 --bind-to none -- python3 fsdp.py [--rounds N] [--steps N] [--programs N] [BACKEND...]

The backends (default: coll gloo) are in one job and take turns in each round, so what else the machine does meets all
alike.  Each turn begins with steps that do not count.  Rank 0 prints one row of Markdown for FSDP1 and one for each of two
patterns of bare calls: milliseconds of a step.  "mean" and "median" are of the steps of a turn, and the row has their medians
over the rounds; the mean also has its least and most.  The ratio is that of the first backend's mean to the second one's in the
same round.  --programs only labels the rows: it says how many other programs spin meanwhile (fsdp.sh starts them).

torchrun starts this as well.  It needs PyTorch 2.5 or later, whose torch.distributed finds the installed coll_torch by itself.
"""
import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

WARM_UP = 6
LAYERS = 25
WIDTH = 64  # float32: the weights of a layer are 16 KiB


def fsdp(group):
    """One step of a stack of layers, each of which is a unit of FSDP: 50 all_gathers and 25 reduce_scatters, or fewer."""
    torch.manual_seed(1)
    layers = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
    net = FullyShardedDataParallel(torch.nn.Sequential(*layers), process_group=group,
                                   device_id=torch.device("cpu"), auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    samples = torch.full((16, WIDTH), 1.0 + dist.get_rank())

    def step():
        optimizer.zero_grad()
        loss = (net(samples) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def sums(group):
    tensor = torch.empty(1024)

    def step():
        for _ in range(2 * LAYERS):
            tensor.fill_(1)
            dist.all_reduce(tensor, group=group)
        return tensor.mean().item()
    return step


def blocks(group):
    whole = torch.ones(WIDTH * WIDTH)
    part = torch.ones(whole.numel() // dist.get_world_size())

    def step():
        for _ in range(LAYERS):
            whole.fill_(1)
            dist.reduce_scatter_tensor(part, whole, group=group)
            dist.all_gather_into_tensor(whole, part, group=group)
        return whole.mean().item()
    return step


def turn(step, group, steps):
    """Returns the seconds of each step, and the result of the last one."""
    for _ in range(WARM_UP):
        step()
    dist.barrier(group=group)
    ends = [time.perf_counter()]
    for _ in range(steps):
        result = step()
        ends.append(time.perf_counter())
    return [after - before for before, after in zip(ends, ends[1:])], result


def rounds_of(prepare, groups, options):
    """Returns for each group a list with the mean and the median of a step in each round, in milliseconds."""
    backends = [(prepare(group), group, []) for group in groups]
    for number in range(options.rounds):
        results = []
        for step, group, found in backends if number % 2 == 0 else backends[::-1]:
            times, result = turn(step, group, options.steps)
            found.append((1e3 * statistics.mean(times), 1e3 * statistics.median(times)))
            results.append(result)
        if not torch.allclose(torch.tensor(results), torch.tensor(results[0]), rtol=1e-3):
            sys.exit(f"fsdp.py: rank {dist.get_rank()}, {prepare.__name__}: the backends' results differ: {results}")
    return [found for _, _, found in backends]


def row(label, found, options):
    cells = [str(options.programs), str(dist.get_world_size()), label]
    means = [[mean for mean, _ in rounds] for rounds in found]
    for mean, rounds in zip(means, found):
        cells.append(f"{statistics.median(mean):.3g} ({min(mean):.3g} to {max(mean):.3g})")
        cells.append(f"{statistics.median(median for _, median in rounds):.3g}")
    if len(means) > 1:
        ratios = [mine / other for mine, other in zip(*means[:2])]
        cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("backends", nargs="*", default=["coll", "gloo"])
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < 1:
        parser.error("--rounds and --steps take numbers from 1 on")
    torch.set_num_threads(1)
    dist.init_process_group(options.backends[0])
    groups = [dist.group.WORLD, *(dist.new_group(backend=name) for name in options.backends[1:])]
    for prepare, label in ((fsdp, f"FSDP1, {LAYERS} layers of 16 KiB"), (sums, f"{2 * LAYERS} all_reduce of 4 KiB"),
                           (blocks, f"{LAYERS} reduce_scatter and all_gather of 16 KiB")):
        found = rounds_of(prepare, groups, options)
        if dist.get_rank() == 0:
            row(label, found, options)
    dist.destroy_process_group()


main()
