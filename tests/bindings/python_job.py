# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for python.t: `python_job.py CASE`, as processes of `coll run`; `python_job.py CASE N`, as N threads.

Each check prints a line: "ok NAME" on rank 0, "not ok NAME" on the rank that failed.
"""
import array
import asyncio
import ctypes
import gc
import os
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np

import coll


class Rank:
    """A rank with its communicator and its checks."""

    def __init__(self, comm):
        self.comm, self.rank, self.size = comm, comm.rank, comm.size

    def ok(self, condition, name, more=""):
        if not condition:
            print(f"not ok {name}: rank {self.rank} of {self.size} {more}", flush=True)
        elif self.rank == 0:
            print(f"ok {name}", flush=True)

    def equal(self, got, want, name):
        self.ok(np.array_equal(got, want), name, f"got {got!r}, not {want!r}")

    def raises(self, kind, words, function, *args, **keys):
        """One check: the call raises an exception of that class whose text has the words."""
        name = f"{kind.__name__}: {words}"
        try:
            function(*args, **keys)
        except kind as error:
            self.ok(words in str(error), name, repr(error))
            return error
        except Exception as error:
            self.ok(False, name, repr(error))
        else:
            self.ok(False, name, "no exception")

    def each(self, function):
        """function(r) of every rank."""
        return [function(r) for r in range(self.size)]


# ---- collectives ----


def of(r, n=6):
    """The input of rank r."""
    return np.arange(n, dtype="f8") + 10 * r


def collectives(t):
    c, n, me = t.comm, t.size, t.rank
    x, every = of(me), t.each(of)
    t.equal(c.allreduce(x), sum(every), "allreduce")
    t.equal(c.allreduce(x, "max", out=np.empty(6)), np.max(every, 0), "allreduce with out")
    y = x.copy()
    t.ok(c.allreduce(y, out=y) is y and np.array_equal(y, sum(every)), "allreduce in place")
    t.equal(c.reduce(x, "min", n - 1) if me == n - 1 else c.reduce(x, "min", n - 1),
            np.min(every, 0) if me == n - 1 else None, "reduce")
    t.equal(c.broadcast(of(me), n - 1), of(n - 1), "broadcast")
    t.equal(c.allgather(x), every, "allgather")
    whole = np.zeros((n, 6))
    whole[me] = x
    t.equal(c.allgather(whole[me], out=whole), every, "allgather in place")
    wide = np.arange(n * 4, dtype="i4").reshape(n, 4) + me
    t.equal(c.reduce_scatter(wide), n * wide[me] - n * me + sum(range(n)), "reduce_scatter")
    t.equal(c.alltoall(np.array(t.each(lambda r: 100 * me + r))), t.each(lambda r: 100 * r + me), "alltoall")
    t.equal(c.gather(x, 0), every if me == 0 else None, "gather")
    t.equal(c.scatter(np.array(every) if me == 0 else None, 0, out=np.empty(6)), x, "scatter")
    t.equal(c.scan(x), sum(every[:me + 1]), "scan")
    t.equal(c.exscan(x), sum(every[:me]) if me else np.zeros(6), "exscan")
    t.ok(c.barrier() is None, "barrier")
    t.equal(c.allreduce(np.array(2.5)), np.array(2.5 * n), "an array without axes")
    t.equal(c.allreduce(np.empty((0, 3))), np.empty((0, 3)), "an array without elements")


def algorithms(t):
    c, n = t.comm, t.size
    for name in ("ring", "recursive_doubling"):
        by = c.using(name, tag=7)
        t.equal(by.allreduce(of(t.rank)), sum(t.each(of)), f"allreduce by {name}")
        t.equal(by.start.allreduce(of(t.rank)).wait(), sum(t.each(of)), f"allreduce by {name}, started")
    t.equal(c.using(tag=8).scan(np.ones(2)), np.full(2, t.rank + 1.0), "a tag alone")
    t.raises(coll.InvalidArgument, "allreduce has no algorithm 'nosuch'", c.using("nosuch").allreduce, 1)


def v_forms(t):
    c, n, me = t.comm, t.size, t.rank
    counts = t.each(lambda r: r + 1)
    total, displs = sum(counts), [sum(counts[:r]) for r in range(n)]
    mine = np.full(counts[me], me, "i8")
    want = np.repeat(range(n), counts)
    t.equal(c.allgatherv(mine, np.empty(total, "i8"), counts), want, "allgatherv")
    gaps = [d + r for r, d in enumerate(displs)]
    spread = c.allgatherv(mine, np.full(total + n, -1), counts, gaps)
    t.ok(all(np.all(spread[gaps[r]:gaps[r] + counts[r]] == r) for r in range(n)) and
         np.sum(spread == -1) == n, "allgatherv with displacements", spread)
    t.equal(c.reduce_scatterv(np.ones(total), np.empty(counts[me]), counts), np.full(counts[me], float(n)),
            "reduce_scatterv")
    out = c.alltoallv(np.full(n * (me + 1), me), [me + 1] * n, np.empty(total, "i8"), counts)
    t.equal(out, want, "alltoallv")
    t.equal(c.gatherv(mine, np.empty(total, "i8"), counts) if me == 0 else c.gatherv(mine),
            want if me == 0 else None, "gatherv")
    t.equal(c.scatterv(want if me == 0 else None, counts, np.empty(counts[me], "i8")), mine, "scatterv")
    t.raises(coll.InvalidArgument, "needs", c.allgatherv, mine, np.empty(total - 1, "i8"), counts)
    t.raises(coll.InvalidArgument, "needs", c.allgatherv, mine, np.empty(total, "i8"), counts, [2**64 - 1] * n)
    t.raises(coll.InvalidArgument, "allgatherv", c.allgatherv, np.ones(9), np.empty(total), counts)
    t.raises(coll.InvalidArgument, "scatterv", c.scatterv, want if me == 0 else None, counts, np.empty(9, "i8"), None, me)
    t.raises(coll.InvalidArgument, "needs", c.reduce_scatterv, np.ones(total), np.empty(9), counts)
    t.raises(coll.InvalidArgument, "one for each rank", c.allgatherv, mine, np.empty(total, "i8"), counts + [1])


def types(t):
    c, n = t.comm, t.size
    for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
        x = np.array([1, 2, 3], name)
        got = c.allreduce(x)
        t.ok(got.dtype == x.dtype and np.array_equal(got, x * n), f"sum of {x.dtype}", got)
    t.equal(c.allreduce(np.array([t.rank == 0, False]), "lor"), [True, False], "lor of bool")
    pair = np.dtype([("value", "f8"), ("index", "i4")], align=True)
    x = np.array([(-t.rank, t.rank), (1, t.rank)], pair)
    t.ok([tuple(p) for p in c.allreduce(x, "minloc")] == [(1 - n, n - 1), (1, 0)], "minloc of a structured array")
    record = np.array([(t.rank, b"abc")], np.dtype([("a", "i4"), ("b", "S3")]))
    t.ok(np.array_equal(c.allgather(record)["a"].ravel(), range(n)), "a structured array moves as opaque elements")
    record = np.array([(t.rank, 2.5)], np.dtype([("X", "i4"), ("Price", "f4")]))
    t.ok(np.array_equal(c.allgather(record)["X"].ravel(), range(n)), "also with the letters of addresses in its names")
    half = array.array("H", [0x3f80, 0x4000])
    got = c.allreduce(coll.view(half, "bfloat16"))
    t.ok(n > 2 or list(got.object) == [0x4000, 0x4080], "bfloat16 by coll.view", got.object)
    t.ok(bytes(c.broadcast(coll.view(bytearray(24), 12)).object) == bytes(24), "opaque elements by coll.view")
    try:
        import ml_dtypes
    except ImportError:
        return
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        x = np.array([1, 2], getattr(ml_dtypes, name))
        t.ok(np.array_equal(c.allreduce(x, "max"), x), f"{name} of ml_dtypes")


def memory(t):
    """Arrays other than numpy's."""
    c, n = t.comm, t.size
    t.ok(c.allreduce(array.array("d", [1, 2])) == array.array("d", [n, 2 * n]), "array.array")
    t.ok(c.allgather(bytes([t.rank])) == bytearray(range(n)), "bytes")
    t.ok(c.allreduce(memoryview(array.array("i", [1]))).tolist() == [n], "memoryview")
    t.ok(c.allreduce(3) == 3 * n and c.allreduce(0.5) == n / 2 and c.allreduce(True, "land") is True and
         c.allreduce(1 + 2j) == n + 2j * n, "numbers")
    t.ok(c.allgather(t.rank) == list(range(n)) and c.broadcast(t.rank, n - 1) == n - 1 and
         c.scan(1) == t.rank + 1 and c.exscan(1) == t.rank and c.reduce(1) == (n if t.rank == 0 else None),
         "more numbers")
    try:
        import torch
    except ImportError:
        return
    x = torch.ones(3)
    got = c.allreduce(x)
    t.ok(isinstance(got, torch.Tensor) and got.tolist() == [n] * 3, "a tensor of PyTorch")
    t.ok(c.allreduce(x.bfloat16()).tolist() == [n] * 3, "a tensor of bfloat16")
    t.ok(c.allgather(x).shape == (n, 3), "allgather of tensors")
    t.raises(coll.InvalidArgument, "not contiguous", c.allreduce, torch.ones(4, 4).t(), out=torch.ones(4, 4))


# ---- messages and requests ----


class Watched(np.ndarray):
    """An array that a weak reference can follow."""


def shared():
    """How many pieces of memory of comm.empty() this process has over tcp; those of other ranks it may only read."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum("coll-memory" in line and "rw-s" in line for line in maps)


def made(t):
    """Arrays of comm.empty(), and when their memory is freed."""
    c, n = t.comm, t.size
    over_tcp, before = c.backend == "tcp", shared()
    x = c.empty((3, 5000), "f4")
    t.ok(x.shape == (3, 5000) and x.dtype == np.float32 and x.flags.writeable, "an array of comm.empty", x.dtype)
    x[:] = t.rank + 1
    t.ok(np.all(c.allreduce(x, out=x) == n * (n + 1) / 2), "allreduce in place in it")
    y = x[1:]
    del x
    t.ok(not over_tcp or shared() == before + 1, "a view keeps its memory, which is shared over tcp")
    t.equal(y[0, :2], [n * (n + 1) / 2] * 2, "which the view shows")
    del y
    t.ok(shared() == before, "the last view frees it")
    dup = c.dup()
    z = dup.empty(20000, "int64")
    dup.destroy()
    z[:] = 7
    t.equal(c.allreduce(z)[-1], 7 * n, "it outlives its communicator")
    request = c.isend(z, t.rank, 9)
    del z
    got = np.zeros(20000, "int64")
    c.irecv(got, t.rank, 9).wait()
    request.wait()
    t.ok(np.all(got == 7), "a request holds it")
    del request
    t.ok(shared() == before, "and then it is freed")
    t.ok(c.empty((0, 3)).shape == (0, 3) and c.empty((), "u1").size == 1, "no elements, and no axes")
    t.equal(c.empty(3, "float64_int32").dtype.names, ("value", "index"), "a type of libcoll's")
    held = [c.empty(1000)]

    def drop(left, inout):
        held.clear()
        inout += left

    t.equal(c.allreduce(np.ones(2), c.op(drop)), [n, n], "an operation of the program may drop it")
    held.clear()  # on ranks where no function ran
    c.barrier()
    t.ok(shared() == before, "and the next call frees it")
    t.raises(coll.InvalidArgument, "negative", c.empty, (2, -1))
    t.raises(coll.InvalidArgument, "references", c.empty, 2, object)
    t.raises(TypeError, "nosuch", c.empty, 2, "nosuch")
    t.raises(TypeError, "not iterable", c.empty, 2.5)
    t.raises(coll.NoMemory, "", c.empty, 2**58)


def messages(t):
    c, n, me = t.comm, t.size, t.rank
    after, before = (me + 1) % n, (me - 1) % n
    with c.group():
        c.send(np.array([me]), after)
        got = c.recv(np.empty(1, int), before)
    t.equal(got, [before], "send and recv in a group")
    with coll.group():
        a = c.allreduce(of(me), out=np.empty(6))
        b = c.allgather(np.array([me]))
    t.equal(a, sum(t.each(of)), "two collectives in a group: the first")
    t.equal(b.ravel(), range(n), "and the second")
    out = c.isend(np.array([me, me]), after, tag=5)
    into = np.full(4, -1)
    request = c.irecv(into, before, 5)
    t.ok(request.wait() is into and into.tolist() == [before, before, -1, -1], "isend and irecv", into)
    status = request.status()
    t.ok(status == (before, 5, 16, "int64"), "status of a receive", status)
    out.wait()
    out = c.isend(b"hello", after, 6)
    found = c.probe()
    t.ok((found.source, found.tag, found.bytes) == (before, 6, 5), "probe", found)
    text = bytearray(c.iprobe(before, 6).bytes)
    c.irecv(text, found.source, found.tag).wait()
    out.wait()
    t.ok(text == b"hello" and c.iprobe() is None, "iprobe")
    request = c.irecv(bytearray(1), before, 7)
    request.cancel()
    t.raises(coll.Aborted, "cancel", request.wait)
    t.raises(coll.Aborted, "cancel", request.wait)
    request = c.irecv(bytearray(1), before, 8)
    t.raises(TimeoutError, "not complete after 0.01 s", request.wait, 0.01)
    t.ok(not request.test(), "a wait of limited time leaves the request")
    request.cancel()
    c.barrier()


def requests(t):
    c, n, me = t.comm, t.size, t.rank
    request = c.start.allreduce(of(me))
    while not request.test():
        pass
    t.equal(request.wait(), sum(t.each(of)), "start, test and wait")
    many = [c.start.allreduce(np.full(100, float(k))) for k in range(20)]
    left = set(range(20))
    while left:
        left -= set(coll.wait_some(many))
        for k in set(range(20)) - left:
            many[k].wait()
    t.ok(all(many[k].wait()[0] == k * n for k in range(20)) and coll.wait_some(many) == [], "wait_some")
    t.ok([r[0] for r in coll.wait_all([c.start.scan(np.ones(1)) for _ in range(3)])] == [me + 1] * 3, "wait_all")
    x, y = np.ones(3), np.empty(3)
    prepared = c.prepare.allreduce(x, out=y)
    for k in range(5):
        x[:] = k
        t.ok(prepared.start().wait() is y and y[0] == k * n, f"start {k} of a prepared call", y)
    array_of_prepared = np.ones(3).view(Watched)
    seen = weakref.ref(array_of_prepared)
    prepared = c.prepare.allreduce(array_of_prepared, out=np.empty(3))
    del array_of_prepared
    t.ok(seen() is not None, "a prepared call keeps its arrays")
    del prepared
    t.ok(seen() is None, "and gives them back if it was never started")
    t.raises(coll.InvalidUsage, "array of one element", c.start.allreduce, 1)
    heard = threading.Event()
    request = c.start.allreduce(np.ones(1))
    request.add_done_callback(lambda r: r.test() and heard.set())
    request.wait()
    t.ok(heard.wait(60), "a callback hears of the end")
    heard.clear()
    request.add_done_callback(lambda r: heard.set())
    t.ok(heard.is_set(), "a callback of a request that is over runs at once")


def refused(t):
    """An error of a wait is not always the end of the operation."""
    c, n, me = t.comm, t.size, t.rank
    x = np.ones(1000).view(Watched)
    seen = weakref.ref(x)
    with c.group():
        request = c.start.allreduce(x, out=np.empty(1000))
        del x
        t.raises(coll.InvalidUsage, "of a group that is open", request.wait)
        t.raises(coll.InvalidUsage, "of a group that is open", coll.wait_some, [request], 5)
        t.ok(seen() is not None, "a request keeps its arrays after a wait that was refused")
    t.equal(request.wait(), np.full(1000, float(n)), "and its operation goes on")
    t.ok(seen() is None, "and gives them back when that is over")
    library, x = ctypes.CDLL("libcoll.so.1"), np.ones(1000).view(Watched)
    seen = weakref.ref(x)
    library.coll_group_start()  # which the package does not know
    t.raises(coll.InvalidUsage, "of a group that is open", c.allreduce, x, out=np.empty(1000))
    del x
    t.ok(seen() is not None, "a call keeps its arrays after a wait that was refused")
    library.coll_group_end()
    c.sync()
    c.barrier()
    t.ok(seen() is None, "and gives them back when its operation is over")
    other = c.dup()
    request = other.irecv(bytearray(1), me, 1)
    other.destroy()
    t.raises(coll.InvalidArgument, "of a communicator that was destroyed", coll.wait_some, [request], 5)
    t.raises(TypeError, "requests[1] is no Request", coll.wait_some, [request, 1])


def ends(t):
    """Requests after an error, and what a communicator keeps."""
    c, me = t.comm, t.rank

    def cancelled():
        request = c.irecv(bytearray(1), me, 9)
        request.cancel()
        try:
            request.wait()
        except coll.Aborted as error:
            kept = error  # whose traceback has this frame
        return weakref.ref(request), kept.code

    seen, tries = cancelled()[0], 500
    while seen() is not None and tries:  # another thread may be collecting, and then gc.collect() does nothing
        gc.collect()
        time.sleep(0.01)
        tries -= 1
    t.ok(seen() is None, "the garbage collector finds a request that its error refers to")
    request = c.isplit(0)
    make = request._make

    def broken(handle):
        make(handle).destroy()
        raise KeyError("broken")

    request._make = broken
    t.raises(KeyError, "broken", request.wait)
    t.ok(request.wait() is None, "a split that was made and lost is not made again")
    heard = threading.Event()
    request = c.start.allreduce(np.ones(1))
    request.add_done_callback(lambda r: sys.exit(1))
    request.wait()
    request = c.start.allreduce(np.ones(1))
    request.add_done_callback(lambda r: heard.set())
    request.wait()
    t.ok(heard.wait(60), "callbacks go on after one that has raised SystemExit")
    other, x = c.dup(), np.ones(1000).view(Watched)
    seen = weakref.ref(x)
    other.register(x)
    del x
    t.ok(seen() is not None, "a communicator keeps registered memory")
    other.destroy()
    t.ok(seen() is None, "until its end")


def kept_alive(t):
    """Arrays live until their operation is complete, and no longer."""
    c, n, me = t.comm, t.size, t.rank

    def make():
        return np.ones(200_000).view(Watched)

    x, y = make(), make()
    seen = [weakref.ref(x), weakref.ref(y)]
    if me:
        c.irecv(bytearray(1), 0, 4).wait()  # so that rank 0's operation is under way meanwhile
    request = c.start.allreduce(x, out=y)
    del x, y
    gc.collect()
    t.ok(all(ref() is not None for ref in seen), "a request keeps its arrays")
    del request
    gc.collect()
    t.ok(me or all(ref() is not None for ref in seen), "without the request they live while the operation does")
    if not me:
        coll.wait_all([c.isend(b"", r, 4) for r in range(1, n)])
    c.sync()
    c.allreduce(1)
    t.ok(all(ref() is None for ref in seen), "and end with it")
    for _ in range(200):
        c.start.allreduce(np.ones(10_000))
    c.sync()
    t.ok(True, "requests that nobody keeps")


def derived(t):
    c, n, me = t.comm, t.size, t.rank
    with c.split(me % 2, -me) as part:
        members = [r for r in reversed(range(n)) if r % 2 == me % 2]
        t.ok(part.members() == members and part.allreduce(me) == sum(members), "split", part.members())
    t.ok(c.split(None) is None, "split without a colour")
    with c.dup() as other, c.idup().wait() as third:
        t.ok(other.allreduce(1) == third.allreduce(1) == n, "dup and idup")
    made = c.isplit(None if me == 0 else 1).wait()
    t.ok((made is None) if me == 0 else made.size == n - 1, "isplit")
    if made:
        made.destroy()
    t.ok(repr(c) == f"<coll.Comm rank {me} of {n}>" and c.failed_ranks() == [] and c.check() is None, "asking")
    with c.event() as event:
        event.record()
        event.wait()
        event.synchronize()
        t.ok(event.query(), "events")
    x = np.ones(1000)
    with c.register(x):
        t.equal(c.allreduce(x), x * n, "registered memory")
    with c.group():
        t.raises(coll.InvalidUsage, "use isplit", c.split, 0)
        t.raises(coll.InvalidUsage, "a number needs a call that waits", c.allreduce, 1)


def operations(t):
    c, n, me = t.comm, t.size, t.rank
    with c.op(np.hypot) as hypot:
        t.ok(np.allclose(c.allreduce(np.full(5, 2.0), hypot), 2 * n ** 0.5), "an operation of numpy")

    def product(left, inout):
        a, b = left.reshape(-1, 2, 2), inout.reshape(-1, 2, 2)
        b[:] = a @ b

    matrix = np.array([[1, me + 1], [0, 1]], "i8")
    whole = coll.op(lambda left, inout: product(left.view("i8"), inout.view("i8")), commutative=False)
    got = c.allreduce(coll.view(matrix.copy(), 32), whole).object
    t.equal(got, [[1, sum(range(1, n + 1))], [0, 1]], "products of matrices as opaque elements")
    whole.destroy()
    with c.premul_sum(0.5, "float32") as scaled:
        t.equal(c.allreduce(np.full(2, 4, "f4"), scaled), np.full(2, 2.0 * n), "premul_sum")
    t.equal(coll.reduce_local(np.array([1, 5]), np.array([4, 2]), "max"), [4, 5], "reduce_local")

    def broken(left, inout):
        raise KeyError("broken")

    with c.op(broken) as bad:
        try:
            c.allreduce(np.ones(4), bad)
            raised = None
        except KeyError as error:
            raised = error
        t.ok(c.allreduce(int(raised is not None)) > 0 and (raised is None or raised.args == ("broken",)),
             "an exception of an operation is raised by the call")

    raised = []

    def once(left, inout):
        if not raised:
            raised.append(1)
            raise KeyError("once")
        return left + inout

    def fails(call):
        try:
            call()
        except KeyError:
            return True
        return False

    with c.op(once) as bad:
        many = [c.start.allreduce(np.ones(4), bad) for _ in range(3)]
        c.sync()
        t.ok([fails(request.wait) for request in many] == [bool(raised)] * 3,
             "every call under way raises the exception of its operation")
        t.ok(fails(lambda: c.allreduce(np.ones(4), bad)) == bool(raised), "and every later call")


def sentences(t):
    c, n = t.comm, t.size
    x = np.ones((4, 4))
    wrong = coll.InvalidArgument
    t.raises(wrong, "allreduce: x is not contiguous", c.allreduce, x[:, :2], out=np.ones((4, 2)))
    t.raises(wrong, "x has elements of float64 and out of float32", c.allreduce, x, out=np.ones((4, 4), "f4"))
    t.raises(wrong, "out has 3 elements, but the call needs 16", c.allreduce, x, out=np.ones(3))
    t.raises(wrong, f"out has 16 elements, but the call needs {16 * n}: 16 for each of {n} ranks", c.allgather, x, out=x)
    t.raises(wrong, "'summ' is no operation", c.allreduce, x, "summ")
    t.raises(wrong, "(band) is not an operation on float64", c.allreduce, x, "band")
    t.raises(wrong, "which libcoll does not have", c.allreduce, np.array([{}]))
    t.raises(wrong, "type list, which is no array", c.allreduce, [1], out=[1])
    t.raises(wrong, "pass out=", c.allreduce, [1])
    t.raises(wrong, "read-only", c.allreduce, x, out=bytes(128))
    t.raises(wrong, "no type of elements", coll.view, x, "float9")
    t.raises(wrong, "no whole elements", c.broadcast, coll.view(bytearray(3), 2))
    t.raises(wrong, "root", c.broadcast, x, n)
    t.raises(wrong, "peer", c.isend, x, n)
    t.raises(wrong, "which libcoll does not have", c.allreduce, np.ones(2, ">f8"))
    t.raises(wrong, "out is None", c.scatter, None, t.rank)
    t.raises(wrong, "type float, which is no array", c.gather, 2.5, out=np.empty(n))
    t.raises(wrong, "type float, which is no array", c.reduce, 2.5, out=np.empty(1))
    t.raises(ValueError, "more than 0 seconds", c.set_timeout, 0)
    t.raises(ValueError, "more than 0 seconds", c.split, 0, timeout=-0.001)
    t.raises(coll.NotFound, "no\ufffd", coll.init_all, 1, backend=os.fsdecode(b"no\xff"))
    t.raises(wrong, "first number is not", c.reduce_scatter, np.ones((n + 1, 2)))
    t.raises(coll.ConfigError, "nosuch", coll.init_rank, 1, coll.unique_id(), 0, nosuch=1)
    t.raises(coll.NotFound, "nosuch", coll.init_all, 1, backend="nosuch")
    error = t.raises(ValueError, "no operation", c.allreduce, x, "summ")
    t.ok(error.code == 4 and error.ranks == [] and error.text == str(error), "code, ranks and text of an error")
    gone = c.dup()
    gone.destroy()
    gone.destroy()
    t.raises(wrong, "comm", gone.allreduce, x)
    t.raises(wrong, "coll_get_counters: ", gone.counters)
    t.raises(coll.Unsupported, "COLL_COUNTERS=yes", c.counters)
    t.ok(c.allreduce(1) == n, "the communicator stays usable")


class Described(ctypes.Structure):
    """coll_counter_info_t."""
    _fields_ = [("size", ctypes.c_uint64), ("name", ctypes.c_char_p), ("unit", ctypes.c_char_p), ("help", ctypes.c_char_p),
                ("offset", ctypes.c_int32), ("of_kind", ctypes.c_int32), ("grows", ctypes.c_int32), ("reserved", ctypes.c_int32)]


def counter_names():
    """The names of the library's counters, as introspect.h tells them."""
    library, row, names = ctypes.CDLL("libcoll.so.1"), Described(ctypes.sizeof(Described)), []
    for index in range(library.coll_counter_count()):
        assert not library.coll_counter_describe(index, ctypes.byref(row))
        names.append(row.name.decode())
    return names


def counted(t):
    c, n, me, names = t.comm, t.size, t.rank, counter_names()
    t.equal([field for field in coll.Counters._fields if field != "bucket"], names, "a field for each counter")
    t.ok(all(re.search(rf"(?m)^ *{field} ", coll.Counters.__doc__) for field in coll.Counters._fields), "which the class explains")
    for _ in range(3):
        c.allreduce(np.ones(5, "f4"))
    got = c.counters("allreduce")
    t.ok((got.calls, got.bytes, got.ended, sum(got.bucket), len(got.bucket)) == (3, 60, 3, 3, 32), "calls and bytes", got)
    t.ok(got.latency_ns > 0 and c.counters("scan") == c.counters("reduce") and c.counters("scan").calls == 0,
         "of one kind", c.counters("scan"))
    out = c.isend(bytes(7), (me + 1) % n, 9)
    c.irecv(bytearray(7), (me - 1) % n, 9).wait()
    out.wait()
    t.ok([(k.calls, k.bytes) for k in (c.counters("isend"), c.counters("irecv"))] == [(1, 7), (1, 7)], "messages")
    every = c.counters()
    t.ok((every.calls, every.bytes) == (5, 74), "all kinds together", every)
    t.ok(c.counters(rank=n - 1)[:9] == every[:9], "of another rank", c.counters(rank=n - 1))
    t.raises(coll.InvalidArgument, "rank", c.counters, "all", n)
    t.raises(coll.InvalidArgument, "'nosuch' is not counted by itself; there are all, allgather", c.counters, "nosuch")


def use_asyncio(t):
    c, n = t.comm, t.size

    async def work():
        first = await c.start.allreduce(np.ones(3))
        many = await asyncio.gather(*(c.start.allreduce(np.full(1000, float(k))) for k in range(10)))
        part = await c.isplit(0)
        into = np.zeros(1)
        request = c.irecv(into)
        await c.isend(np.ones(1), t.rank)
        await request
        try:
            await c.irecv(into, 0, 99) if cancel() else None
            raised = False
        except coll.Aborted:
            raised = True
        total = await part.start.allreduce(np.ones(1))
        part.destroy()
        return first[0], [a[0] for a in many], into[0], total[0], raised

    def cancel():
        return False

    t.ok(asyncio.run(work()) == (n, [k * n for k in range(10)], 1, n, False), "await")

    async def beside():
        request, ticks = c.irecv(bytearray(1), t.rank, 3), 0
        waiting = asyncio.ensure_future(request._finish())
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        c.isend(bytes(1), t.rank, 3)
        await waiting
        return ticks

    t.ok(asyncio.run(beside()) == 20, "the event loop runs while a message is awaited")


def use_threads(t):
    """Threads with a communicator each; one makes an operation of Python's, the others hold and release the GIL."""
    comms = [t.comm.dup() for _ in range(4)]
    results, add = [None] * 4, [comm.op(np.add) for comm in comms]

    def work(k):
        total = 0.0
        for i in range(100):
            total += comms[k].allreduce(np.full(10, 1.0), add[k])[0]
        results[k] = total

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.ok(results == [100.0 * t.size] * 4, "threads with communicators and operations of their own", results)
    for comm in comms:
        comm.destroy()


def interrupted(t):
    """Ctrl-C ends a wait, and the operation goes on."""
    if t.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            t.comm.allreduce(np.ones(1000))
            t.ok(False, "KeyboardInterrupt")
        except KeyboardInterrupt:
            t.ok(True, "KeyboardInterrupt")
        t.comm.isend(b"", 1).wait()
    else:
        if t.rank == 1:
            t.comm.irecv(bytearray(1)).wait()
        t.comm.allreduce(np.ones(1000))
    t.ok(t.comm.allreduce(1) == t.size, "after KeyboardInterrupt")


# ---- memory of a device, over the stand-in for the CUDA driver ----


class Device:
    """An array in memory of a CUDA device, as CuPy has it."""

    cuda = None

    @classmethod
    def open(cls, rank):
        cls.cuda, context, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
        assert not cls.cuda.cuInit(0)
        assert not cls.cuda.cuDeviceGetCount(ctypes.byref(count))
        assert not cls.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank % count.value)
        assert not cls.cuda.cuCtxSetCurrent(context)

    def __init__(self, values, **more):
        self.host, self.pointer = values.copy(), ctypes.c_uint64()
        assert not self.cuda.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(values.nbytes))
        self.copy(self.pointer.value, values.ctypes.data)
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3,
                                         "data": (self.pointer.value, False), **more}

    def copy(self, to, source):
        assert not self.cuda.cuMemcpy(ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(self.host.nbytes))

    def fill_later(self, values, stream):
        """Has the stream copy the values here, after a pause."""
        pause = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(0.2))
        self.kept = pause, values
        assert not self.cuda.cuLaunchHostFunc(stream, pause, None)
        assert not self.cuda.cuMemcpyAsync(ctypes.c_uint64(self.pointer.value), ctypes.c_uint64(values.ctypes.data),
                                           ctypes.c_size_t(values.nbytes), stream)

    def get(self):
        self.copy(self.host.ctypes.data, self.pointer.value)
        return self.host


class Exporter:
    """The same by DLPack alone, with the capsule that PyTorch makes for memory of the host and a device's number."""

    def __init__(self, tensor):
        self.tensor, self.streams = tensor, []

    def __dlpack_device__(self):
        return 3, 0  # page-locked memory of the host

    def __dlpack__(self):
        return self.tensor.__dlpack__()


def device(t):
    Device.open(t.rank)
    c, x = t.comm, np.arange(5, dtype="f4") + t.rank
    want = sum(np.arange(5, dtype="f4") + r for r in range(t.size))
    for name, stream in (("no stream", None), ("the default stream", 1)):
        a, b = Device(x, stream=stream), Device(np.zeros(5, "f4"))
        t.ok(c.allreduce(a, out=b) is b and np.array_equal(b.get(), want), f"arrays on a device: {name}", b.get())
    a = Device(x)
    c.allreduce(a, out=a, stream=1)
    c.sync()
    t.equal(a.get(), want, "with the program's stream")
    stream = ctypes.c_void_p()
    assert not Device.cuda.cuStreamCreate(ctypes.byref(stream), 1)  # it does not wait for the default stream
    a, b = Device(np.zeros(5, "f4"), stream=stream.value), Device(np.zeros(5, "f4"), stream=None)
    prepared = c.prepare.allreduce(a, out=b)
    for k in range(1, 3):
        a.fill_later(k * x, stream)
        prepared.start().wait()
        t.equal(b.get(), k * want, f"start {k} of a prepared call begins after the work that fills its memory")
    got = np.zeros(5, "f4")
    a.fill_later(7 * x, stream)
    request = c.isend(a, t.rank, 5)
    c.irecv(got, t.rank, 5).wait()
    request.wait()
    t.equal(got, 7 * x, "a message is sent after the work that fills its memory")
    t.raises(coll.InvalidArgument, "not contiguous", c.allreduce, Device(x, strides=(8,)), out=a)
    t.raises(coll.InvalidArgument, "pass out=", c.allreduce, a)
    if c.backend == "nccl":
        made_on_device(t)
    try:
        import torch
    except ImportError:
        return
    tensor = torch.from_numpy(x.copy())
    t.ok(np.array_equal(c.allreduce(Exporter(tensor), out=np.empty(5, "f4")), want), "page-locked memory by DLPack")


class CuPy:
    """What comm.empty() needs of the package cupy: arrays on a device whose types are numpy's."""

    dtype = np.dtype

    class Array:
        def __init__(self, memory):
            self.memory, self.made = memory, []
            self.__cuda_array_interface__ = memory.__cuda_array_interface__

        def view(self, kind):
            size = self.__cuda_array_interface__["shape"][0] // kind.itemsize
            self.__cuda_array_interface__.update(shape=(size,), typestr=kind.str)
            return self

        def reshape(self, shape):
            self.__cuda_array_interface__["shape"] = shape
            return self

    asarray = Array


def made_on_device(t):
    """Memory of comm.empty() over nccl: NCCL's own, on the communicator's device."""
    c, x = t.comm, np.arange(6, dtype="f4") + t.rank
    want = sum(np.arange(6, dtype="f4") + r for r in range(t.size))
    y = c.empty((2, 3), "float32")
    t.ok(type(y).__name__ == "View" and y.dtype == coll.DTYPES["float32"],
         "memory on a device is a coll.view without CuPy", y)
    t.raises(BufferError, "on a device", memoryview, y.object)
    Device(x).copy(y.object.__cuda_array_interface__["data"][0], x.ctypes.data)
    b = Device(np.zeros(6, "f4"))
    c.allreduce(y, out=b)
    t.equal(b.get(), want, "whose bytes NCCL sends")
    sys.modules["cupy"] = CuPy
    z = c.empty((2, 3), "f4")
    del sys.modules["cupy"]
    t.ok(z.__cuda_array_interface__["shape"] == (2, 3) and z.__cuda_array_interface__["typestr"] == "<f4",
         "an array of CuPy's", z.__cuda_array_interface__)
    c.allreduce(Device(x), out=z)
    b.copy(b.host.ctypes.data, z.__cuda_array_interface__["data"][0])
    t.equal(b.host, want, "which holds the memory")


CASES = {"all": [collectives, algorithms, v_forms, types, memory, made, messages, requests, refused, ends, kept_alive,
                 derived, operations, sentences, use_asyncio, use_threads],
         "asyncio": [use_asyncio, kept_alive, requests],
         "counted": [counted],
         "interrupted": [interrupted],
         "device": [device]}


# ---- ranks that die ----


def tell(t, error):
    print(f"rank {t.rank}: {type(error).__name__} {error.code} {error.ranks} {error}", flush=True)


def killed(t):
    try:
        t.comm.barrier()
        if t.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            t.comm.allreduce(np.ones(4))
    except coll.Error as error:
        tell(t, error)
        survivors = t.comm.shrink([1])
        print(f"rank {t.rank}: sum of survivors {survivors.allreduce(1)}", flush=True)


def raising(t):
    try:
        t.comm.barrier()
        if t.rank == 1:
            raise RuntimeError("of rank 1")
        while True:
            t.comm.allreduce(np.ones(4))
    except coll.Error as error:
        tell(t, error)


def silent(t):
    t.comm.set_timeout(1)
    if t.rank == 1:
        time.sleep(8)
        os._exit(0)
    try:
        t.comm.allreduce(np.ones(4))
    except coll.Error as error:
        tell(t, error)
        os._exit(0)


def mismatched(t):
    try:
        t.comm.allreduce(np.ones(4 + t.rank))
        t.comm.barrier()
    except coll.Error as error:
        tell(t, error)


FAULTS = {"killed": killed, "raising": raising, "silent": silent, "mismatched": mismatched}


def run(case, comm):
    """One rank.  `coll run` ends the others of a rank that has failed by SIGTERM."""
    with comm:
        t = Rank(comm)
        for part in CASES.get(case, ()):
            part(t)
        comm.barrier() if case in CASES else FAULTS[case](t)
        if t.rank == 0:
            print("end", flush=True)


def main():
    case = sys.argv[1]
    if case in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if len(sys.argv) < 3:
        run(case, coll.init())
        return
    threads = [threading.Thread(target=run, args=(case, comm)) for comm in coll.init_all(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
