# SPDX-License-Identifier: BSD-3-Clause
"""The collectives, each once: a communicator waits for them, comm.start and comm.prepare return requests."""
from __future__ import annotations

from typing import Any, Generic, Sequence, TypeVar

from . import _core
from ._arrays import KINDS, NUMBERS, box, like, part, stacked
from ._core import run
from ._errors import InvalidUsage

Array = Any
Op = Any
Stream = Any
Counts = Sequence[int]
Result = TypeVar("Result")

ALLREDUCE, BROADCAST, REDUCE = KINDS["allreduce"], KINDS["broadcast"], KINDS["reduce"]
ALLGATHER, REDUCE_SCATTER, ALLTOALL = KINDS["allgather"], KINDS["reduce_scatter"], KINDS["alltoall"]
GATHER, SCATTER, SCAN, EXSCAN = KINDS["gather"], KINDS["scatter"], KINDS["scan"], KINDS["exscan"]
ALLGATHERV, REDUCE_SCATTERV, ALLTOALLV = KINDS["allgatherv"], KINDS["reduce_scatterv"], KINDS["alltoallv"]
GATHERV, SCATTERV = KINDS["gatherv"], KINDS["scatterv"]
BARRIER, SEND, RECV = KINDS["barrier"], KINDS["send"], KINDS["recv"]


class Calls(_core.Comm, Generic[Result]):
    """The collectives and ordered messages of a communicator.

    x        The input: an array of numpy, PyTorch, CuPy, JAX (input only), array.array, bytes, memoryview, or
             coll.view(...).  It is contiguous, in C's order.  Some calls take a number too.
    out      The output.  None: the call makes an array like `x`.  The same object as `x`: in place.
    op       "sum", "prod", "max", "min", "avg", "band", "bor", "bxor", "land", "lor", "lxor", "minloc", "maxloc", or
             what comm.op() and comm.premul_sum() made.
    root     The same on all ranks.
    stream   None, or a CUDA stream of the program: its address, or an object of PyTorch or CuPy.  Then the call returns
             when the operation is issued, and the stream waits for it.

    Of a communicator a call returns its output when the operation is complete.  In a group (`with comm.group():`) it
    returns at once, and the end of the group waits.  Of `comm.start` a call returns a Request of the operation, which has
    begun; of `comm.prepare` it returns a Request whose start() begins the operation, as often as the program likes.
    """

    def _number(self, name: str, x: Any, *args: Any) -> Any:
        """Makes a call with a number for an array."""
        if not isinstance(self, Waiting) or _core.in_group():
            raise InvalidUsage(f"{name}: a number needs a call that waits; pass an array of one element")
        array, numbers = box(x)
        result = getattr(self, name)(array, *args)
        return None if result is None else numbers(result)

    def allreduce(self, x: Array, op: Op = "sum", *, out: Array = None, stream: Stream = None) -> Result:
        """Reduces: every rank receives op over all ranks of x[i].

        >>> import coll
        >>> with coll.init() as comm:
        ...     comm.allreduce(2.5), comm.allreduce(7, "max")
        (2.5, 7)
        """
        if out is None:
            if isinstance(x, NUMBERS):
                return self._number("allreduce", x, op)[0]
            out = like(x)
        return run(self, ALLREDUCE, x, out, op, 0, 0, stream, None)

    def reduce(self, x: Array, op: Op = "sum", root: int = 0, *, out: Array = None, stream: Stream = None) -> Result:
        """Reduces as allreduce, with the result on root only; other ranks receive None."""
        if out is None:
            if isinstance(x, NUMBERS):
                numbers = self._number("reduce", x, op, root)
                return numbers[0] if self.rank == root else None
            if self.rank == root:
                out = like(x)
        return run(self, REDUCE, x, out, op, root, 0, stream, None)

    def broadcast(self, x: Array, root: int = 0, *, stream: Stream = None) -> Result:
        """Copies x of root to x of every rank, in place, and returns x.  Numbers are returned."""
        if isinstance(x, NUMBERS):
            return self._number("broadcast", x, root)[0]
        return run(self, BROADCAST, None, x, None, root, 0, stream, None)

    def allgather(self, x: Array, *, out: Array = None, stream: Stream = None) -> Result:
        """Gathers x of every rank on every rank: out[r] is x of rank r.

        >>> import coll
        >>> with coll.init() as comm:
        ...     comm.allgather(1.5)
        [1.5]
        """
        if out is None:
            if isinstance(x, NUMBERS):
                return self._number("allgather", x)
            out = stacked(x, self.size)
        return run(self, ALLGATHER, x, out, None, 0, 0, stream, None)

    def reduce_scatter(self, x: Array, op: Op = "sum", *, out: Array = None, stream: Stream = None) -> Result:
        """Reduces, and gives each rank one part: rank r receives op over all ranks of x[r]."""
        if out is None:
            out = part(x, self.size, "reduce_scatter")
        return run(self, REDUCE_SCATTER, x, out, op, 0, 0, stream, None)

    def alltoall(self, x: Array, *, out: Array = None, stream: Stream = None) -> Result:
        """Exchanges parts between all ranks: out[r] becomes x[rank] of rank r."""
        if out is None:
            out = like(x)
        return run(self, ALLTOALL, x, out, None, 0, 0, stream, None)

    def gather(self, x: Array, root: int = 0, *, out: Array = None, stream: Stream = None) -> Result:
        """Gathers x of every rank on root: out[r] is x of rank r; other ranks receive None."""
        if out is None:
            if isinstance(x, NUMBERS):
                return self._number("gather", x, root)
            if self.rank == root:
                out = stacked(x, self.size)
        return run(self, GATHER, x, out, None, root, 0, stream, None)

    def scatter(self, x: Array, root: int = 0, *, out: Array = None, stream: Stream = None) -> Result:
        """Sends x[r] of root to out of rank r.  Only root uses x; a rank without x passes None, and out."""
        if out is None and x is not None:
            out = part(x, self.size, "scatter")
        return run(self, SCATTER, x, out, None, root, 0, stream, None)

    def scan(self, x: Array, op: Op = "sum", *, out: Array = None, stream: Stream = None) -> Result:
        """Reduces over the ranks up to this rank, in rank order."""
        if out is None:
            if isinstance(x, NUMBERS):
                return self._number("scan", x, op)[0]
            out = like(x)
        return run(self, SCAN, x, out, op, 0, 0, stream, None)

    def exscan(self, x: Array, op: Op = "sum", *, out: Array = None, stream: Stream = None) -> Result:
        """Reduces over the ranks below this rank.  Rank 0 has no result: its out stays, and a new one is zero."""
        if out is None:
            if isinstance(x, NUMBERS):
                return self._number("exscan", x, op)[0]
            out = like(x, zero=True)
        return run(self, EXSCAN, x, out, op, 0, 0, stream, None)

    # The v-forms: a count and a displacement for each rank, in elements.  Displacements of None: parts follow one another.

    def allgatherv(self, x: Array, out: Array, counts: Counts, displs: Counts | None = None, *,
                   stream: Stream = None) -> Result:
        """Gathers as allgather: counts[r] elements of rank r go to offset displs[r] of out."""
        return run(self, ALLGATHERV, x, out, None, 0, 0, stream, (None, None, counts, displs))

    def reduce_scatterv(self, x: Array, out: Array, counts: Counts, op: Op = "sum", *, stream: Stream = None) -> Result:
        """Reduces as reduce_scatter: rank r receives counts[r] elements; the parts of x are in rank order."""
        return run(self, REDUCE_SCATTERV, x, out, op, 0, 0, stream, (None, None, counts, None))

    def alltoallv(self, x: Array, sendcounts: Counts, out: Array, recvcounts: Counts, senddispls: Counts | None = None,
                  recvdispls: Counts | None = None, *, stream: Stream = None) -> Result:
        """Exchanges as alltoall: sendcounts[r] elements go to rank r, recvcounts[r] elements of rank r come."""
        return run(self, ALLTOALLV, x, out, None, 0, 0, stream, (sendcounts, senddispls, recvcounts, recvdispls))

    def gatherv(self, x: Array, out: Array = None, counts: Counts | None = None, displs: Counts | None = None,
                root: int = 0, *, stream: Stream = None) -> Result:
        """Gathers as gather: counts[r] elements of rank r go to offset displs[r] of root's out.  Only root uses out."""
        return run(self, GATHERV, x, out, None, root, 0, stream, (None, None, counts, displs))

    def scatterv(self, x: Array, counts: Counts | None, out: Array, displs: Counts | None = None, root: int = 0, *,
                 stream: Stream = None) -> Result:
        """Sends as scatter: counts[r] elements from offset displs[r] of root's x go to rank r.  Only root uses x."""
        return run(self, SCATTERV, x, out, None, root, 0, stream, (counts, displs, None, None))

    # Ordered messages: operations of the communicator, in the order of its calls.

    def send(self, x: Array, peer: int, tag: int = 0, *, stream: Stream = None) -> Result:
        """Sends x to recv of rank `peer`.  Two ranks that send to each other do so in a group."""
        return run(self, SEND, x, None, None, peer, tag, stream, None)

    def recv(self, x: Array, peer: int = -1, tag: int = 0, *, stream: Stream = None) -> Result:
        """Receives x from send of rank `peer` (-1: any), whose length and type are the same, and returns x."""
        return run(self, RECV, None, x, None, peer, tag, stream, None)

    def barrier(self) -> Result:
        """Waits for all ranks, and until all operations issued before are complete."""
        return run(self, BARRIER, None, None, None, 0, 0, None, None)


class Waiting:
    """Marks the communicator itself among the ways to make a call."""
