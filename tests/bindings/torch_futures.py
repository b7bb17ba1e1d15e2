# SPDX-License-Identifier: BSD-3-Clause
"""Futures whose functions wait for other futures, and hooks of DistributedDataParallel that do so."""

import datetime
import gc
import threading

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook

from torch_lib import GLOO, GROUP, RANK, SIZE, attempt, holds, init, meets, raises


def summed(group=None):
    return dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future()


def is_sum(tensors):
    return None if tensors[0].tolist() == [SIZE] * 4 else f"{tensors}"


def nested(depth, groups=(None,)):
    """So many functions, each of which waits for the future that the next one belongs to, of the groups in turn."""
    future = summed(groups[depth % len(groups)])
    return future.then(lambda _: nested(depth - 1, groups)).wait() if depth else future.wait()


def turns(*args):
    return next(filter(None, (is_sum(nested(*args)) for _ in range(5))), None)


def futures():
    for depth in (1, 2, 3, 9):
        holds(f"functions that wait for futures, {depth} deep", lambda depth=depth: turns(depth))
    other = dist.new_group()
    holds("the same with futures of two groups", lambda: turns(5, (None, other)))
    holds("a function that waits for a future which was there before", earlier)
    holds("a function that makes calls and waits for them", calls)
    holds("futures that nobody keeps", abandoned)
    holds("a function that ends its group", ends_group)
    raises("a function that raises inside others", "of the inner one", lambda: fails(3))
    holds("and the group still works", lambda: turns(3))


def earlier():
    """The function of one message's future waits for another message, whose future another thread has taken."""
    peer, tensors = RANK ^ 1, [torch.zeros(1), torch.zeros(1)]
    first, second = (GROUP().recv([x], peer, tag).get_future() for tag, x in enumerate(tensors))
    both = first.then(lambda _: second.then(lambda _: sum(tensors)).wait())
    for tag in (0, 1):
        GROUP().send([torch.full((1,), tag + 1.)], peer, tag).wait()
    return None if both.wait().item() == 3 else f"{tensors}"


def calls():
    def function(_):
        dist.barrier()
        x = torch.ones(4)
        dist.all_reduce(x)
        return [x]

    return is_sum(summed().then(function).then(lambda done: function(done.value())).wait())


def abandoned():
    results, end = [], threading.Event()

    def last(_):
        results.append(nested(2))
        end.set()

    summed().then(lambda _: nested(1)).then(last)
    gc.collect()
    return is_sum(results[0]) if end.wait(60) else "a function was not called"


def ends_group():
    groups = [dist.new_group()]

    def function(done):
        dist.destroy_process_group(groups[0])
        del groups[:]
        return done.value()

    return is_sum(summed(groups[0]).then(function).wait())


def fails(depth):
    def function(_):
        return fails(depth - 1)

    if depth == 0:
        raise ValueError("of the inner one")
    return summed().then(function).wait()


# ------------------------------------------------------------------------- hooks

def train(group, register):
    """The parameters of a model after some steps."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16)).double()
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    if register:
        register(model, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        torch.manual_seed(100 * step + RANK)
        x = torch.randn(16, 24).double()
        optimizer.zero_grad()
        (model(x) - x[:, :16]).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def power(model, group):
    state = powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=2, start_powerSGD_iter=3, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def plain(hook):
    return lambda model, group: model.register_comm_hook(group, hook)


def brain(group, bucket):
    """By its own name DistributedDataParallel takes this hook with NCCL only."""
    return default_hooks.bf16_compress_hook(group, bucket)


def failing(group, bucket):
    def function(_):
        raise ValueError("of the hook")

    return default_hooks.allreduce_hook(group, bucket).then(function)


def local(model, group):
    state = post_localSGD_hook.PostLocalSGDState(
        process_group=group, subgroup=dist.new_group() if group is None else group, start_localSGD_iter=3)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)


def hooks():
    """Gloo completes its futures on two threads, so what a hook of one bucket waits for ends there too."""
    for name, register, error in (
        ("powerSGD_hook", power, 1e-6),
        ("fp16_compress_hook", plain(default_hooks.fp16_compress_hook), 1e-3),
        ("allreduce_hook", plain(default_hooks.allreduce_hook), 1e-9),
        ("post_localSGD_hook", local, 1e-9),
    ):
        def close(register=register, error=error):
            mine, gloos = train(None, register), train(GLOO[0], register)
            moved = (mine - gloos).abs().max().item()
            return None if moved <= error else f"parameters differ by {moved}"

        holds(f"DistributedDataParallel with {name} trains to Gloo's result", close)

    def nearly():  # Gloo has no bfloat16
        moved = (train(None, plain(brain)) - train(None, None)).abs().max().item()
        return None if moved < 1e-2 else f"parameters differ by {moved}"

    holds("DistributedDataParallel with bf16_compress_hook trains to nearly the same result", nearly)
    raises("a hook whose function raises", "of the hook", lambda: train(None, plain(failing)))


# ------------------------------------------------------------------------- faults

def circle():
    """On rank 0 a function waits for its own future, and another one for a call that rank 1 does not make."""
    init()
    own = []
    if RANK == 1:
        meets("attached")  # a future that is complete would run its function at once
    first, second = summed(), summed()
    if RANK == 0:
        def waits(_):
            GROUP().set_timeout(datetime.timedelta(seconds=2))
            return summed().wait()

        own.append(first.then(lambda _: own[0].wait()))
        second = second.then(waits)
        meets("attached")
    print(f"rank {RANK}, nested: {attempt(second.wait)[1]}", flush=True)
    meets("told")
    print(f"rank {RANK}, its own: {[future.done() for future in own]}", flush=True)
