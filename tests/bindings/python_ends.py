# SPDX-License-Identifier: BSD-3-Clause
"""Programs for python.t that end in an unusual way, or start their ranks in another: `python_ends.py CASE`.

Without numpy: these also show that the package does not need it.
"""
import array
import gc
import multiprocessing
import os
import signal
import sys
import threading

import coll


def say(total):
    """A line in one piece, beside the lines of other ranks."""
    print(f"sum {total}\n", end="", flush=True)


ones = array.array("d", [1.0] * 1000)


def left():
    """A communicator, a request and an operation that nobody ends."""
    global comm, request, operation
    comm = coll.init()
    operation = comm.op(lambda left, inout: [a + b for a, b in zip(left, inout)])
    request = comm.irecv(bytearray(8), comm.rank, 1)
    both = comm.op(lambda left, inout: [a and b for a, b in zip(left, inout)])
    assert comm.allreduce(True, both) is True
    say(comm.allreduce(ones, operation)[0])


def circle():
    """A communicator in a circle of garbage."""
    class Node:
        pass

    node = Node()
    node.self, node.comm = node, coll.init()
    node.request = node.comm.start.allreduce(ones)
    node.comm.start.allreduce(ones)
    print("sum", node.comm.allreduce(1.0))
    del node
    gc.collect()


def leaves():
    """sys.exit(0) in a block is an end in order, sys.exit(1) is not."""
    with coll.init() as comm:
        comm.allreduce(1)
        say(comm.allreduce(1.0))
        sys.exit(0)


def made():
    """Memory of comm.empty() that outlives its communicator and ends with the interpreter."""
    global kept
    with coll.init() as comm:
        kept = comm.empty((2, 500))
        assert (kept.shape, kept.format, comm.empty(0, "int8").nbytes) == ((2, 500), "d", 0)
        half = comm.empty(3, "float16")
        with memoryview(half.object).cast("H") as numbers:
            numbers[0] = numbers[1] = numbers[2] = 0x3c00  # 1
        comm.allreduce(half, out=half)
        assert half.object and memoryview(half.object).cast("H").tolist() == [0x4000] * 3
        for i in range(500):
            kept[0, i] = kept[1, i] = 1.0
        comm.allreduce(kept, out=kept)
        try:
            comm.empty(2, "nosuch")
        except coll.InvalidArgument as error:
            assert "empty: 'nosuch' is no type of elements; there are bfloat16, " in str(error), error
    say(kept[1, 499])


def raises():
    """An exception outside of a block: the other rank hears of it at once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which `coll run` sends after it
    comm = coll.init()
    try:
        comm.barrier()
        if comm.rank == 1:
            raise RuntimeError("of rank 1")
        while True:
            comm.allreduce(1)
    except coll.Error as error:
        print("rank 0 hears:", error)


def daemon():
    """A thread is inside a call when the program ends."""
    comm = coll.init()
    say(comm.allreduce(1.0))
    begun = threading.Event()

    def wait():
        begun.set()
        try:
            comm.irecv(bytearray(1), comm.rank, 1).wait()
        except coll.Error:
            pass  # the communicator has ended

    threading.Thread(target=wait, daemon=True).start()
    begun.wait()


def child():
    """A child of fork has no part in the communicator, and ends like any program."""
    comm = coll.init()
    pid = os.fork()
    if not pid:
        try:
            comm.allreduce(1)
        except coll.InvalidArgument:
            os._exit(0)
        os._exit(1)
    say(comm.allreduce(1.0) + os.waitpid(pid, 0)[1])
    comm.destroy()


# ---- ranks of other launchers ----


def by_id(rank, size, queue):
    id = coll.unique_id() if rank == 0 else None
    if rank == 0:
        for _ in range(size - 1):
            queue.put(id)
    else:
        id = queue.get()
    with coll.init_rank(size, id, rank) as comm:
        say(comm.allreduce(1.0))


def ids():
    """Processes of multiprocessing, which pass the id through a queue: two readers of one pipe would mix their parts."""
    method = multiprocessing.get_context("spawn")
    queue = method.SimpleQueue()
    ranks = [method.Process(target=by_id, args=(rank, 3, queue)) for rank in range(3)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


def by_exchange(rank, barrier, places):
    def exchange(mine, seconds):
        places[rank] = mine
        barrier.wait(seconds)
        result = [places[r] for r in range(2)]
        barrier.wait(seconds)
        return result

    with coll.init_exchange(2, rank, exchange) as comm, comm.dup() as other:
        say(other.allreduce(1.0))


def exchanges():
    """Two threads that exchange bytes through a dict; and functions that fail."""
    barrier, places = threading.Barrier(2), {}
    ranks = [threading.Thread(target=by_exchange, args=(rank, barrier, places)) for rank in range(2)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()

    def broken(mine, seconds):
        raise OSError("no network")

    for function in (broken, lambda mine, seconds: [mine] * 3):
        try:
            coll.init_exchange(2, 0, function)
        except coll.Error as error:
            print("error", type(error).__name__, repr(error.__cause__))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    assert "numpy" not in sys.modules
