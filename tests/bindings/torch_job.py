# SPDX-License-Identifier: BSD-3-Clause
"""One rank of a PyTorch job over the backend "coll": torch_job.py CASE STORE, under `coll run`.

Rank 0 prints "ok NAME" or "not ok NAME: ..." for each check; a check holds if it holds on all ranks.
"""

import ctypes
import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import coll_torch  # noqa: F401 (registers the backend)
from torch_futures import circle, futures, hooks
from torch_lib import (CASE, GLOO, GROUP, RANK, SIZE, STORE, attempt, backend_of, data, holds, init, like_gloo, meets,
                       raises, same)

# ------------------------------------------------------------------- collectives

TYPES = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
OPERATIONS = ["SUM", "PRODUCT", "MIN", "MAX"]


def reductions():
    for dtype in TYPES:
        for name in OPERATIONS:
            def allreduce(group, dtype=dtype, op=getattr(dist.ReduceOp, name)):
                x = data(5, 3, dtype=dtype)
                dist.all_reduce(x, op, group=group)
                return x

            same(f"all_reduce of {dtype}, {name}", allreduce)
    for name in ("BAND", "BOR", "BXOR"):
        def bits(group, op=getattr(dist.ReduceOp, name)):
            x = data(9, dtype=torch.int32)
            dist.all_reduce(x, op, group=group)
            return x

        same(f"all_reduce, {name}", bits)
    for root in range(SIZE):
        def reduce(group, root=root):
            x = data(1000)
            dist.reduce(x, root, group=group)
            return x if RANK == root else []

        same(f"reduce to {root}", reduce)

    def strided():
        x, want = data(6, 8)[:, ::2], sum(data(6, 8, rank=rank) for rank in range(SIZE))[:, ::2]
        dist.all_reduce(x)
        return None if torch.equal(x, want) else f"{x} is not {want}"

    holds("all_reduce of every second column", strided)  # Gloo's result is wrong

    def coalesced(group):
        xs = [data(3), data(2, 2), torch.empty(0)]
        dist.all_reduce_coalesced(xs, group=group)
        return xs

    same("all_reduce_coalesced", coalesced)

    def together():
        x, want = data(100), sum(data(100, rank=rank) for rank in range(SIZE)) / SIZE
        dist.all_reduce(x, dist.ReduceOp.AVG)
        flags = torch.tensor([RANK == 0, True, False])
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        short = torch.full((4,), RANK, dtype=torch.bfloat16)
        dist.all_reduce(short)
        if not torch.allclose(x, want):
            return f"AVG: {x}"
        if flags.tolist() != [True, True, False]:
            return f"bool: {flags}"
        return None if short[0] == SIZE * (SIZE - 1) / 2 else f"bfloat16: {short}"

    holds("all_reduce beyond Gloo: AVG, bool, bfloat16", together)


def parts(dtype=torch.float32, shape=(3,)):
    return [torch.full(shape, -1, dtype=dtype) for _ in range(SIZE)]


def movements():
    for dtype in TYPES + [torch.bool, torch.complex64]:
        def broadcast(group, dtype=dtype):
            x = data(7, dtype=dtype)
            dist.broadcast(x, SIZE - 1, group=group)
            return x

        def allgather(group, dtype=dtype):
            out = parts(dtype)
            dist.all_gather(out, data(3, dtype=dtype), group=group)
            return out

        if dtype not in (torch.bool, torch.complex64):  # not Gloo's
            same(f"broadcast of {dtype}", broadcast)
            same(f"all_gather of {dtype}", allgather)
        else:
            def moved(dtype=dtype):
                out, x = allgather(None), broadcast(None)
                good = torch.equal(x, data(7, dtype=dtype, rank=SIZE - 1)) and all(
                    torch.equal(out[rank], data(3, dtype=dtype, rank=rank)) for rank in range(SIZE))
                return None if good else f"{x} {out}"

            holds(f"broadcast and all_gather of {dtype}", moved)

    def adjacent(group):
        out = torch.zeros(SIZE, 4)
        dist.all_gather(list(out.unbind()), data(4), group=group)
        return out

    same("all_gather into the rows of a tensor", adjacent)

    # Many bytes, which lie where they are: apart, in the output, all in one place, at odd places.
    many = 100_001
    def apart(group):
        out = parts(shape=(many,))
        dist.all_gather(out, data(many), group=group)
        return out

    same("all_gather of many", apart)

    def in_place(group):
        out = parts(shape=(many,))
        out[RANK].copy_(data(many))
        dist.all_gather(out, out[RANK], group=group)
        return out

    same("all_gather of many in place", in_place)

    def unaligned(group):
        raw = [torch.zeros(many + 1 + rank, dtype=torch.uint8) for rank in range(SIZE)]
        out = [x[1 + rank:] for rank, x in enumerate(raw)]
        dist.all_gather(out, data(many, dtype=torch.uint8), group=group)
        return out

    same("all_gather of many bytes", unaligned)

    def together(group):
        one = torch.zeros(many)
        dist.all_gather([one] * SIZE, data(many), group=group)
        return one

    same("all_gather into one tensor", together)

    def rooted(group):
        out, back = parts(shape=(many,)) if RANK == 1 else None, torch.zeros(many)
        dist.gather(data(many), out, 1, group=group)
        dist.scatter(back, out[::-1] if RANK == 1 else None, 1, group=group)
        return back

    same("gather and scatter of many", rooted)

    def own_input():  # Gloo sends what it has just received
        out = parts(shape=(many,))
        out[0].copy_(data(many))
        dist.scatter(out[1], out if RANK == 0 else None, 0)
        want = data(many) if RANK == 0 else torch.full((many,), -1.)
        return None if torch.equal(out[1], want) else f"{out[1]} is not {want}"

    holds("scatter of the output", own_input)

    def strided(group):
        out = torch.zeros(SIZE, 4, 2)
        dist.all_gather(list(out[:, :, 0].unbind()), data(4), group=group)
        return out

    same("all_gather into columns", strided)

    def coalesced(group):
        lists = [[torch.zeros(2), torch.zeros(3, 1)] for _ in range(SIZE)]
        dist.all_gather_coalesced(lists, [data(2), data(3, 1)], group=group)
        return sum(lists, [])

    same("all_gather_coalesced", coalesced)
    for root in range(SIZE):
        def gather(group, root=root):
            out = parts() if RANK == root else None
            dist.gather(data(3), out, root, group=group)
            return out or []

        def scatter(group, root=root):
            out = torch.zeros(2, 2)
            dist.scatter(out, [data(2, 2) + i for i in range(SIZE)] if RANK == root else None, root, group=group)
            return out

        same(f"gather to {root}", gather)
        same(f"scatter from {root}", scatter)


def uneven():
    def alltoall(group):
        rows = [(RANK + to) % 3 for to in range(SIZE)]
        out = torch.zeros(sum(rows), 2)  # symmetric: as many rows come as go
        dist.all_to_all_single(out, data(sum(rows), 2), rows, rows, group=group)
        return out

    same("all_to_all_single with uneven splits", alltoall)

    def even(group):
        out = torch.zeros(2 * SIZE)
        dist.all_to_all_single(out, data(2 * SIZE), group=group)
        return out

    same("all_to_all_single", even)

    def lists():
        out = [torch.zeros(1 + RANK) for _ in range(SIZE)]
        dist.all_to_all(out, [data(1 + to) + to for to in range(SIZE)])
        want = [data(1 + RANK, rank=rank) + RANK for rank in range(SIZE)]
        return None if all(map(torch.equal, out, want)) else f"{out} is not {want}"

    holds("all_to_all of lists", lists)

    def gathered():
        out = [torch.zeros(rank + 1) for rank in range(SIZE)]
        root = [torch.zeros(rank) for rank in range(SIZE)] if RANK == 1 else None
        dist.all_gather(out, data(RANK + 1))
        dist.gather(data(RANK), root, 1)
        want = [data(rank + 1, rank=rank) for rank in range(SIZE)]
        if not all(map(torch.equal, out, want)):
            return f"{out} is not {want}"
        return None if not root or all(
            torch.equal(part, data(rank, rank=rank)) for rank, part in enumerate(root)) else f"{root}"

    holds("all_gather and gather of uneven tensors", gathered)

    def scattered():
        out = torch.zeros(RANK + 1)
        dist.reduce_scatter(out, [data(to + 1) + to for to in range(SIZE)])
        want = sum(data(RANK + 1, rank=rank) + RANK for rank in range(SIZE))
        base = torch.zeros(2)
        dist._reduce_scatter_base(base, data(2 * SIZE))  # pylint: disable=protected-access
        total = sum(data(2 * SIZE, rank=rank) for rank in range(SIZE))[2 * RANK:2 * RANK + 2]
        whole = torch.zeros(2 * SIZE)
        dist._all_gather_base(whole, base)  # pylint: disable=protected-access
        if not torch.equal(out, want):
            return f"{out} is not {want}"
        return None if torch.equal(base, total) and torch.equal(whole[2 * RANK:2 * RANK + 2], total) else f"{base}"

    holds("reduce_scatter of uneven tensors, _reduce_scatter_base, _all_gather_base", scattered)


# ---------------------------------------------------------- works, groups, messages

def works():
    def many():
        xs = [data(1000) for _ in range(50)]
        pending = [dist.all_reduce(x, async_op=True) for x in xs]
        pending[-1].wait()
        if not all(work.is_completed() and work.is_success() for work in pending):
            return "a work before a completed work is open"
        want = sum(data(1000, rank=rank) for rank in range(SIZE))
        return None if all(torch.equal(x, want) for x in xs) else "wrong sums"

    holds("50 works at a time", many)

    def future():
        work = dist.all_reduce(torch.ones(3), async_op=True)
        doubled = work.get_future().then(lambda done: done.value()[0] * 2)
        result = doubled.wait()
        again = work.get_future().value()[0]
        return None if result.tolist() == [2 * SIZE] * 3 and again[0] == SIZE else f"{result} {again}"

    holds("a work's future", future)

    def dropped():
        for _ in range(20):
            dist.all_reduce(torch.ones(10000), async_op=True)
        dist.barrier()

    holds("works that nobody waits for", dropped)

    def groups():
        half = [rank for rank in range(SIZE) if rank % 2 == 0]
        group = dist.new_group(half)
        if RANK in half:
            x = torch.ones(1)
            dist.all_reduce(x, group=group)
            return None if x.item() == len(half) else f"{x}"
        return None

    holds("new_group", groups)

    def messages():
        x = torch.zeros(4)
        if RANK == 0:
            for peer in range(1, SIZE):
                dist.send(data(4), peer, tag=peer)
                dist.recv(x, peer)
        else:
            dist.recv(x, 0, tag=RANK)
            dist.send(x, 0)
        return None if torch.equal(x, data(4, rank=0)) else f"{x}"

    holds("send and recv", messages)

    def both():
        x, peer = torch.zeros(70000), RANK ^ 1
        receive = dist.irecv(x, peer)
        total = torch.ones(1)
        dist.all_reduce(total)
        send = dist.isend(data(70000), peer)
        receive.wait()
        send.wait()
        return None if torch.equal(x, data(70000, rank=peer)) else "wrong data"

    holds("both ranks receive first, with a collective between", both)

    def tags():
        peer, x, y = RANK ^ 1, torch.zeros(3), torch.zeros(3)
        sends = [dist.isend(torch.full((3,), float(tag)), peer, tag=tag) for tag in (5, 6)]
        dist.recv(y, peer, tag=6)
        dist.recv(x, peer, tag=5)
        for send in sends:
            send.wait()
        return None if x[0] == 5 and y[0] == 6 else f"{x} {y}"

    holds("messages are received in another order, by their tags", tags)

    def any_source():
        if RANK:
            dist.send(torch.tensor([RANK]), 0, tag=9)
            return None
        x, sources = torch.zeros(1, dtype=torch.int64), []
        for _ in range(SIZE - 1):
            sources.append(dist.recv(x, tag=9))
            if sources[-1] != x.item():
                return f"{x.item()} came from {sources[-1]}"
        return None if sorted(sources) == list(range(1, SIZE)) else f"{sources}"

    holds("recv of any source tells the source", any_source)

    def shorter():
        """Into a tensor that is not contiguous, so that the message goes through a copy."""
        x = torch.full((4, 3), -7.).t()
        if RANK == 0:
            for peer in range(1, SIZE):
                dist.send(data(5, rank=0), peer, tag=11)
            return None
        dist.recv(x, 0, tag=11)
        want = torch.full((12,), -7.)
        want[:5] = data(5, rank=0)
        return None if torch.equal(x.reshape(-1), want) else f"{x}"

    holds("the elements behind a shorter message keep their values", shorter)
    holds("objects", objects)
    raises("a root that does not exist", "invalid root rank", lambda: GROUP().broadcast(torch.ones(1), SIZE))
    raises("tensors of two types", "invalid tensor type", lambda: GROUP().allgather([parts(torch.int32)], [data(3)]))
    raises("bits of floats", "band", lambda: dist.all_reduce(data(3), dist.ReduceOp.BAND))


def objects():
    everything = [None] * SIZE
    dist.all_gather_object(everything, {"rank": RANK})
    some = ["x", 1] if RANK == 0 else [None, None]
    dist.broadcast_object_list(some)
    return None if [o["rank"] for o in everything] == list(range(SIZE)) and some == ["x", 1] else f"{some}"


def pieces():
    """How many pieces of memory of coll_torch.empty this process has over tcp; those of other ranks it may only read."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum("coll-memory" in line and "rw-s" in line for line in maps)


def made():
    """Tensors of coll_torch.empty, and when their memory is freed."""

    def reduces():
        before = pieces()
        x = coll_torch.empty(3, 5000)
        if pieces() != before + 1:
            return "it does not lie in memory of the library"
        if (x.shape, x.dtype, x.device.type) != ((3, 5000), torch.float32, "cpu"):
            return f"{x.shape} {x.dtype} {x.device}"
        x.fill_(RANK + 1)
        dist.all_reduce(x)
        row = x[2]
        del x
        if not torch.equal(row, torch.full((5000,), SIZE * (SIZE + 1) / 2)):
            return f"{row}"
        row = None
        dist.barrier()  # the group may keep the tensors of a call until the next one
        return None if pieces() == before else "the last view does not free it"

    holds("all_reduce in memory of the library", reduces)

    def outlives():
        group = dist.new_group(list(range(SIZE)), backend="coll")
        x = coll_torch.empty((70_000,), dtype=torch.int64, group=group)
        dist.destroy_process_group(group)
        x.fill_(7)
        dist.all_reduce(x)
        return None if torch.equal(x, torch.full((70_000,), 7 * SIZE)) else f"{x}"

    holds("it outlives its group", outlives)
    holds("it may be empty", lambda: None if coll_torch.empty(0, 3).shape == (0, 3) else "another shape")
    raises("a shape below 0", "no tensor has this shape", lambda: coll_torch.empty(2, -1))
    raises("more memory than there is", "coll:empty: ", lambda: coll_torch.empty(2**58))
    raises("memory of another device", "allocates no memory of the device", lambda: coll_torch.empty(2, device="meta"))
    raises("a group of another backend", "not \"coll\"", lambda: coll_torch.empty(2, group=GLOO[0]))


def trains():
    """A small model with DistributedDataParallel has the same parameters, bit for bit, with Gloo."""
    def train(group):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.0005)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(20):
            torch.manual_seed(100 * step + RANK)
            x = torch.randn(16, 8)
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    def close():
        mine, gloos = train(None), train(GLOO[0])
        good = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(mine, gloos))
        moved = mine[0].sub(gloos[0]).abs().max().item()
        return None if good else f"parameters differ by {moved}"

    holds("DistributedDataParallel trains to Gloo's result", close)


def sparse():
    def total(make):
        def function(group):
            x = make()
            dist.all_reduce(x, group=group)
            return [x.to_dense(), torch.tensor(x._nnz())]

        return function

    def coordinates(dtype=torch.float64, **sizes):
        torch.manual_seed(RANK)
        indices = torch.randint(0, 5, (2, 7 * RANK))  # of rank 0 none; some of them twice
        values = torch.arange(7 * RANK).to(dtype)
        if sizes:
            values = values.unsqueeze(1).repeat(1, sizes["dense"])
        return torch.sparse_coo_tensor(indices, values, (5, 5, *sizes.values()))

    same("the sum of sparse tensors", total(coordinates))
    same("the sum of sparse tensors of int32", total(lambda: coordinates(torch.int32)))
    same("the sum of sparse tensors with dense rows", total(lambda: coordinates(dense=3)))
    raises(
        "sparse tensors of other sizes raise",
        "have different sizes",
        lambda: dist.all_reduce(torch.eye(2 + (RANK == 1)).to_sparse()),
    )
    like_gloo(
        "the largest of sparse tensors raises what Gloo raises",
        lambda group: dist.all_reduce(torch.eye(2).to_sparse(), dist.ReduceOp.MAX, group=group),
    )


def several():
    """Several tensors in one call, which only the process group itself takes."""

    def reduces(op, make=data):
        def function(group):
            options = dist.AllreduceOptions()
            options.reduceOp = op
            tensors = [make(3), make(3, rank=RANK + SIZE)]
            (backend_of(group) if group else GROUP()).allreduce(tensors, options).wait()
            return [x.to_dense() if x.is_sparse else x for x in tensors]

        return function

    def gathers(group):
        inputs = [data(3), data(3, rank=RANK + SIZE)]
        outputs = [[torch.empty(3) for _ in range(2 * SIZE)] for _ in inputs]
        (backend_of(group) if group else GROUP()).allgather(outputs, inputs).wait()
        return outputs[0] + outputs[1]

    same("the sum of several tensors", reduces(dist.ReduceOp.SUM))
    same("the largest of several tensors", reduces(dist.ReduceOp.MAX))
    same("the sum of several sparse tensors", reduces(dist.ReduceOp.SUM, lambda *a, **k: data(*a, **k).to_sparse()))
    same("an all_gather of several tensors", gathers)
    one, two = torch.ones(1), torch.ones(2)
    for name, words, tensors in (
        ("no tensor", "requires non-empty tensor list", []),
        ("tensors of two sizes", "invalid tensor size", [one, two]),
        ("a dense and a sparse tensor", "invalid tensor layout", [one, one.to_sparse()]),
    ):
        raises(f"a sum of {name} raises", words, lambda tensors=tensors: GROUP().allreduce(tensors))
    average = dist.AllreduceOptions()
    average.reduceOp = dist.ReduceOp.AVG
    raises("an average of several tensors raises", "take one tensor", lambda: GROUP().allreduce([one, one], average))
    for name, words, outputs in (
        ("too few lists", "tensor lists to have the same length", []),
        ("too short a list", "invalid output tensor list", [[one] * (SIZE - 1)]),
    ):
        raises(f"an all_gather with {name} raises", words, lambda outputs=outputs: GROUP().allgather(outputs, [one]))
    raises(
        "a scatter of too short a list raises",
        f"Incorrect input list size {SIZE - 1}. Input list size should be {SIZE}",
        lambda: dist.scatter(one, [one] * (SIZE - 1), src=RANK),
    )


def untraced():
    """A tracer of the program's operations does not see the copies that a call makes."""
    from torch.utils._python_dispatch import TorchDispatchMode  # pylint: disable=import-outside-toplevel

    seen = []

    class Tracer(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    outputs = [torch.empty(2, SIZE).t()[r] for r in range(SIZE)]  # not one after the other
    with Tracer():
        GROUP().allgather([outputs], [torch.ones(2)]).wait()
    copies = [name for name in seen if "copy_" in name]
    return f"{copies}" if copies or not all(x.eq(1).all() for x in outputs) else None


def inference():
    """Tensors of inference mode get results that are copied into them, on whichever thread."""
    with torch.inference_mode():
        outputs = [torch.zeros(3) for _ in range(SIZE)]
        future, waited = torch.zeros(4, 2).t(), torch.zeros(4, 2).t()
        GROUP().allgather([outputs], [torch.ones(3)]).get_future().wait()
        GROUP().broadcast(future.add_(RANK == 0), 0).get_future().wait()
        work = GROUP().broadcast(waited.add_(RANK == 0), 0)
    work.wait()
    return None if all(x.eq(1).all() for x in (*outputs, future, waited)) else f"{outputs} {future} {waited}"


def options():
    """PyTorch 2 shows the timeout of a group."""
    group = GROUP()
    before = group.options._timeout  # pylint: disable=protected-access
    group.set_timeout(datetime.timedelta(seconds=50))
    after = group.options._timeout  # pylint: disable=protected-access
    group.set_timeout(before)
    wanted = [datetime.timedelta(seconds=seconds) for seconds in (60, 50)]
    return None if [before, after] == wanted else f"{before}, then {after}"


def splits():
    """PyTorch 2.15 makes groups of the parts of a group."""

    def in_parts():
        ranks = [list(range(SIZE))[::-2], list(range(SIZE))[-2::-2]]
        group = dist.split_group(split_ranks=ranks)
        mine = ranks[0] if RANK in ranks[0] else ranks[1]
        tensor = torch.tensor([RANK + 1])
        dist.all_reduce(tensor, group=group)
        if dist.get_rank(group) != mine.index(RANK) or tensor.item() != sum(rank + 1 for rank in mine):
            return f"rank {dist.get_rank(group)} of {mine}: {tensor.item()}"
        return None

    holds("parts of a group", in_parts)

    def without_the_first():
        group = dist.split_group(split_ranks=[list(range(1, SIZE))])
        if RANK == 0:
            return None if group is dist.GroupMember.NON_GROUP_MEMBER else f"rank 0 is a member: {group}"
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        return None if tensor.item() == SIZE - 1 else f"{tensor.item()}"

    holds("a part of a group", without_the_first)


def wrong_arguments():
    one = torch.ones(2)
    like_gloo(
        "tensors of two types raise what Gloo raises",
        lambda group: dist.all_gather([one] * SIZE, one.double(), group=group),
    )
    like_gloo(
        "a sparse tensor in a broadcast raises what Gloo raises",
        lambda group: dist.broadcast(torch.eye(2).to_sparse(), 0, group=group),
    )


def tells(report, text):
    """The error of this rank has rank 0's report, and the words by which programs know Gloo's errors."""
    words = report if RANK == 0 else (f"Rank {RANK} successfully reached monitoredBarrier, "
                                      f"but received errors while waiting for send/recv from rank 0: ")
    return None if text and words in text and report in text else f"{text}"


def monitored():
    timeout = datetime.timedelta(seconds=1)

    def everyone():
        dist.barrier()
        GROUP().monitored_barrier(datetime.timedelta(seconds=30))

    holds("monitored_barrier", everyone)

    def without_one():
        if RANK == 1:
            return None
        _, text = attempt(lambda: GROUP().monitored_barrier(timeout))
        return tells("Rank 1 failed to pass monitoredBarrier in 1000 ms", text)

    def too_late():
        if RANK == 1:
            _, text = attempt(lambda: GROUP().monitored_barrier(datetime.timedelta(seconds=30)))
            return tells("Rank 1 failed to pass monitoredBarrier in 1000 ms", text)
        return None

    def alone(wait_all_ranks):
        """Rank 0 does not wait; each other rank hears it."""
        _, text = attempt(lambda: GROUP().monitored_barrier(datetime.timedelta(seconds=0 if RANK == 0 else 30),
                                                            wait_all_ranks))
        if RANK == 0 and "Rank 0 timed out in monitoredBarrier" not in text:
            return text
        missing = "Ranks 1, 2, 3" if wait_all_ranks and SIZE == 4 else "Rank 1"
        return tells(missing + " failed to pass monitoredBarrier in 0 ms", text)

    def alone_first(wait_all_ranks):
        """As alone(), and no other rank comes before rank 0 has its error."""
        name = f"alone.{wait_all_ranks}"
        if RANK == 0:
            fault = alone(wait_all_ranks)
            meets(name, "0", 1)
            return fault
        while not os.path.exists(f"{STORE}.{name}.0"):
            time.sleep(0.01)
        return alone(wait_all_ranks)

    holds("monitored_barrier names the rank that does not come, on all others", without_one)
    holds("that rank hears of it when it comes", too_late)
    holds("a timeout of 0 is no time", lambda: alone_first(False))
    holds("with wait_all_ranks every missing rank is named", lambda: alone_first(True))
    holds("then all ranks pass another one", lambda: GROUP().monitored_barrier(datetime.timedelta(seconds=30)))
    holds("and the group still works", dist.barrier)


# ------------------------------------------------------------------------- faults

def read_later(path):
    """The text of a file that another rank makes."""
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, encoding="ascii") as file:
        return file.read()


def leaves(name):
    """No rank ends before all but rank 1 have come here: another one would name it, too."""
    meets(name, "[!1]", SIZE - 1)


def killed():
    """Rank 1 dies; every other rank names it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what `coll run` sends when a rank dies
    init()
    dist.all_reduce(torch.ones(1))
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    _, text = attempt(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(1000)])
    # A rank may hear of the loss from another rank first.
    while 1 not in GROUP().failed_ranks() and time.monotonic() < begin + 20:
        time.sleep(0.01)
    print(f"rank {RANK} after {time.monotonic() - begin:.1f} s, lost {GROUP().failed_ranks()}: {text}", flush=True)
    leaves("told")
    os._exit(0)  # pylint: disable=protected-access


def late():
    """Rank 1 does not come to the last call; the others raise."""
    init(timeout=2)
    dist.barrier()
    if RANK != 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        _, soon = attempt(lambda: work.wait(datetime.timedelta(milliseconds=50)))
        _, text = attempt(work.wait)
        _, future = attempt(work.get_future().wait)
        print(f"rank {RANK}, wait of 50 ms: {soon}", flush=True)
        print(f"rank {RANK}, wait: {text}", flush=True)
        print(f"rank {RANK}, future: {future}", flush=True)
    else:
        time.sleep(8)
    os._exit(0)  # pylint: disable=protected-access


def monitored_over_tcp():
    """A barrier that timed out leaves nothing in PyTorch's TCPStore by which the next one passes."""
    port = STORE + ".port"
    store = dist.TCPStore("127.0.0.1", int(read_later(port)) if RANK else 0, SIZE, RANK == 0, wait_for_workers=False)
    if RANK == 0:
        with open(port + ".new", "w", encoding="ascii") as file:
            file.write(str(store.port))
        os.rename(port + ".new", port)
    dist.init_process_group("coll", store=store, rank=RANK, world_size=SIZE)
    for number in range(2):
        if RANK == 1:
            dist.barrier()
        _, text = attempt(lambda: GROUP().monitored_barrier(datetime.timedelta(seconds=1)))
        print(f"rank {RANK}, barrier {number}: {text}", flush=True)
        if RANK != 1:
            dist.barrier()
    dist.barrier()
    os._exit(0)  # pylint: disable=protected-access


def stopped():
    """Rank 1 is stopped; every other rank has its limit, and names it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    init(timeout=2)
    dist.all_reduce(torch.ones(1))
    if RANK == 1:
        with open(STORE + ".pid", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    begin = time.monotonic()
    _, text = attempt(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(1000)])
    print(f"rank {RANK} after {time.monotonic() - begin:.1f} s: {text}", flush=True)
    leaves("told")
    if RANK == 0:
        with open(STORE + ".pid", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
    os._exit(0)  # pylint: disable=protected-access


def mismatched():
    """Rank 1 calls with another count; every rank hears both calls, long before the group's timeout."""
    init()
    dist.barrier()
    meets("met")  # else the failure could end the barrier of a slow rank
    begin = time.monotonic()
    _, text = attempt(lambda: [dist.all_reduce(torch.ones(7 if RANK == 1 else 1000)) for _ in range(3)])
    if time.monotonic() - begin > 20:
        text = "after 20 s: " + text
    print(f"rank {RANK}: {text}", flush=True)
    leaves("heard")
    os._exit(0)  # pylint: disable=protected-access


def left_open():
    """The program ends while futures run functions of it, and leaves its group to the interpreter's end."""
    init()
    tensor = torch.ones(1000)
    futures = [dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()) for _ in range(20)]
    print(f"rank {RANK} has {len(futures)} futures", flush=True)


def closed():
    """A future that a program takes while its group ends, after that, or in a child of fork, is complete in the end."""
    os.environ["COLL_DESTROY_TIMEOUT"] = "60s"
    signal.alarm(120)  # a future that nobody completes
    init()
    works = [dist.all_reduce(torch.ones(1), async_op=True), dist.irecv(torch.ones(1), 1 - RANK)]
    dist.barrier()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        _, text = attempt(works[1].get_future().wait)
        os._exit("abort" not in text)  # pylint: disable=protected-access
    print(f"rank {RANK}, child: {os.waitpid(child, 0)[1]}", flush=True)
    meets("forked")
    if RANK == 0:
        works.append(dist.all_reduce(torch.ones(1), async_op=True))
        end = threading.Thread(target=dist.destroy_process_group)
        end.start()
        time.sleep(0.3)  # it waits for rank 1
        future = works[2].get_future()
        meets("ending", "0", 1)
        print(f"rank 0, while it ends: {future.wait()[0].item()}", flush=True)
        end.join()
    else:
        while not os.path.exists(f"{STORE}.ending.0"):
            time.sleep(0.01)
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    print(f"rank {RANK}, sum: {works[0].get_future().wait()[0].item()}", flush=True)
    print(f"rank {RANK}, message: {attempt(works[1].get_future().wait)[1]}", flush=True)


def locked():
    """One thread asks a work with Python's lock; another ends the work, and with it a tensor, which takes that lock."""
    signal.alarm(120)  # neither thread goes on
    init()
    sys.setswitchinterval(1000)  # a thread keeps the lock until it gives it up
    for name in ("is_completed", "get_future"):
        works = [GROUP().send([torch.ones(1)], 1 - RANK, 0), GROUP().recv([torch.ones(1)], 1 - RANK, 0)]
        futures = [work.get_future() for work in works]
        ctypes.PyDLL(None).usleep(300000)  # with the lock
        getattr(works[0], name)()
        for future in futures:
            future.wait()
        print(f"rank {RANK}, {name}: goes on", flush=True)


def aborted():
    """Every rank aborts while its call waits for rank 1."""
    init()
    dist.barrier()
    if RANK != 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        GROUP().abort()
        _, text = attempt(work.wait)
        print(f"rank {RANK}: {text}", flush=True)
    else:
        time.sleep(1)
    os._exit(0)  # pylint: disable=protected-access


if CASE == "all":
    init()
    GLOO.append(dist.new_group(backend="gloo"))
    reductions()
    movements()
    uneven()
    works()
    futures()
    sparse()
    several()
    holds("a tracer does not see the copies of a call", untraced)
    holds("tensors of inference mode", inference)
    if hasattr(type(GROUP()), "options"):
        holds("the group shows its timeout", options)
    if getattr(GROUP(), "supports_splitting", False):
        splits()
    wrong_arguments()
    monitored()
    made()
    trains()
    hooks()
    dist.destroy_process_group()
    if RANK == 0:
        print("end", flush=True)
else:
    {"killed": killed, "stopped": stopped, "mismatched": mismatched, "late": late, "aborted": aborted,
     "left_open": left_open, "circle": circle, "closed": closed, "locked": locked,
     "monitored_over_tcp": monitored_over_tcp}[CASE]()
