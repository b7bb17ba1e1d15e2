# SPDX-License-Identifier: BSD-3-Clause
"""Times of coll beside Gloo's, for RESULTS.md: all_reduce, and steps of DistributedDataParallel.

    coll run -n 4 -- python3 speed.py /tmp/store-1        (a new file for each run)

Both backends are in one job and take turns, so what else the machine does meets both alike.  Rank 0 prints the medians
of the rounds: microseconds over coll and over Gloo, their ratio, and the same of its processor time.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

# The installed package: that of the same name beside this file is its source.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
import coll_torch  # noqa: E402,F401

ROUNDS = 7


def measure(name, prepare, times):
    """prepare(group) returns a function, which runs `times` times in each round."""
    functions = [prepare(group) for group in GROUPS]
    rounds = []
    for function in functions:
        function()
    for _ in range(ROUNDS):
        spent = []
        for function, group in zip(functions, GROUPS):
            dist.barrier(group=group)
            begin = time.perf_counter(), time.process_time()
            for _ in range(times):
                function()
            dist.barrier(group=group)
            spent.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
        rounds.append(spent)
    if dist.get_rank() == 0:
        row = ""
        for clock in (0, 1):
            pairs = [(mine[clock], other[clock]) for mine, other in rounds]
            coll, gloo = (1e6 * statistics.median(spent) / times for spent in zip(*pairs))
            row += f" {coll:,.0f} | {gloo:,.0f} | {statistics.median(a / b for a, b in pairs):.2f} |"
        print(f"| {name} |{row}", flush=True)


def sums(elements):
    def prepare(group):
        tensor = torch.zeros(elements)
        return lambda: dist.all_reduce(tensor, group=group)
    return prepare


def steps(width, layers):
    """Steps of a stack of linear layers, 16 samples each."""
    def prepare(group):
        torch.manual_seed(1)
        net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
        model = torch.nn.parallel.DistributedDataParallel(net, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        samples = torch.ones(16, width)

        def step():
            optimizer.zero_grad()
            model(samples).square().mean().backward()
            optimizer.step()
        return step
    return prepare


torch.set_num_threads(1)
dist.init_process_group("coll", init_method="file://" + sys.argv[1], rank=int(os.environ["COLL_RANK"]),
                        world_size=int(os.environ["COLL_WORLD_SIZE"]))
GROUPS = [dist.group.WORLD, dist.new_group(backend="gloo")]
for size, count in ((8, 100), (4 << 10, 100), (64 << 10, 50), (1 << 20, 20), (16 << 20, 3)):
    measure(f"all_reduce of {size:,} bytes", sums(size // 4), count)
measure("step of DDP, 4 layers of 256", steps(256, 4), 20)
measure("step of DDP, 4 layers of 512", steps(512, 4), 5)
dist.destroy_process_group()
