# SPDX-License-Identifier: BSD-3-Clause
"""Times of small calls beside mpi4py's upper-case calls, for README.md.

    mpiexec -n 2 python3 speed.py

Both are in one job and take turns, so what else the machine does meets both alike.  Rank 0 prints for each call the least
time and the median of the rounds, in microseconds, over coll and over mpi4py, and the median of the differences.
"""
import statistics
import sys
import time

import numpy
from mpi4py import MPI

sys.path[:] = [path for path in sys.path if path != __file__.rpartition("/")[0]]  # the installed package
import coll  # noqa: E402

ROUNDS, CALLS = 201, 200


def measure(name, comm, ours, theirs, calls=CALLS):
    world, times = MPI.COMM_WORLD, ([], [])
    for _ in range(ROUNDS):
        for function, spent in zip((ours, theirs), times):
            world.Barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            spent.append(1e6 * (time.perf_counter() - begin) / calls)
    if comm.rank == 0:
        median = statistics.median(a - b for a, b in zip(*times))
        print(f"{name:24} coll {min(times[0]):6.2f} {statistics.median(times[0]):6.2f}   mpi4py "
              f"{min(times[1]):6.2f} {statistics.median(times[1]):6.2f}   difference {median:+.2f}", flush=True)


def main():
    world = MPI.COMM_WORLD
    with coll.init() as comm:
        x, y = numpy.ones(1), numpy.empty(1)
        all_of = numpy.empty(comm.size)
        other = (comm.rank + 1) % comm.size
        measure("allreduce of 8 bytes", comm, lambda: comm.allreduce(x, out=y), lambda: world.Allreduce(x, y))
        measure("in place", comm, lambda: comm.allreduce(y, "max", out=y),
                lambda: world.Allreduce(MPI.IN_PLACE, y, MPI.MAX))
        measure("allgather of 8 bytes", comm, lambda: comm.allgather(x, out=all_of), lambda: world.Allgather(x, all_of))
        measure("broadcast of 8 bytes", comm, lambda: comm.broadcast(x), lambda: world.Bcast(x))
        measure("barrier", comm, comm.barrier, world.Barrier)

        def exchange():
            request = comm.irecv(y, other)
            comm.isend(x, other).wait()
            request.wait()

        def mpi_exchange():
            request = world.Irecv(y, other)
            world.Isend(x, other).Wait()
            request.Wait()

        measure("isend and irecv", comm, exchange, mpi_exchange)
        big, sums = numpy.ones(1 << 17), numpy.empty(1 << 17)
        measure("allreduce of 1 MiB", comm, lambda: comm.allreduce(big, out=sums), lambda: world.Allreduce(big, sums), 5)
    with coll.init_all(1)[0] as alone:
        measure("allreduce of one rank", comm, lambda: alone.allreduce(x, out=y),
                lambda: MPI.COMM_SELF.Allreduce(x, y))


main()
