# SPDX-License-Identifier: BSD-3-Clause
"""Communicators, from the first call to the last."""
from __future__ import annotations

import array
import atexit
import operator
import os
import struct
import sys
import warnings
from typing import Any, Callable, NamedTuple, Sequence

from . import _core
from ._arrays import DTYPES, KINDS, LETTERS, View, as_memory, empty, typed
from ._calls import Array, Calls, Stream, Waiting
from ._errors import CLASSES, Error, InvalidArgument, InvalidUsage
from ._request import Request, Split, Status, _threaded, make_status

ANY_SOURCE = ANY_TAG = -1

# What must live as long as a communicator: functions that the library calls, and registered memory.  A communicator lives
# until its destroy, or until the program ends.
_living: dict[int, tuple[list[Any], dict[int, Any]]] = {}


class Op(_core.Op):
    """A reduction of the program, as coll.op(), comm.op() and comm.premul_sum() make it."""

    def __init__(self, holders: list[Any]) -> None:
        self._holders = holders
        holders.append(self)

    def destroy(self) -> None:
        """Ends the operation.  Calls that were issued with it, and prepared ones, keep it."""
        _core.op_destroy(self)
        self._holders.remove(self)

    def __enter__(self) -> Op:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()


def make_op(function: Callable[[Any, Any], Any], commutative: bool, comm: int, holders: list[Any]) -> Op:
    def call(left: memoryview, inout: memoryview, dtype: int) -> None:
        target = typed(inout, dtype)
        result = function(typed(left, dtype), target)
        if result is None or result is target:
            return
        if isinstance(target, memoryview) and not isinstance(result, (memoryview, array.array)):
            result = as_memory(result, target.format)
        target[:] = result

    op = Op(holders)
    try:
        _core.op_create(op, call, commutative, comm)
    except Error:
        holders.remove(op)
        raise
    return op


class Event:
    """A position in the order of a stream's work; see the events of coll.h.

    >>> import coll
    >>> with coll.init() as comm, comm.event() as event:
    ...     event.record()
    ...     event.query()
    True
    """

    def __init__(self, comm: Comm) -> None:
        self._comm = comm
        self._event = _core.event_create(comm.handle)

    def record(self, stream: Stream = None, comm: Comm | None = None) -> None:
        """Moves the event to the end of the communicator's own stream, or of a stream of the program."""
        _core.event_record(self._event, (comm or self._comm).handle, stream)

    def wait(self, stream: Stream = None, comm: Comm | None = None) -> None:
        """Later work of the communicator's own stream, or of a stream of the program, begins after the event."""
        _core.event_wait(self._event, (comm or self._comm).handle, stream)

    def query(self) -> bool:
        """Tells whether the event is complete.  Does not block."""
        return _core.event_query(self._event)

    def synchronize(self) -> None:
        """Waits for the event."""
        _core.event_synchronize(self._event)

    def destroy(self) -> None:
        _core.event_destroy(self._event)

    def __enter__(self) -> Event:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()


class Group:
    """The calls of this thread between its begin and its end are one batch, whose operations run at the same time.

    The end waits for the calls of communicators in it; requests of `comm.start` are the program's to wait for.
    """

    def __enter__(self) -> Group:
        _core.group_start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        requests = _core.group_end()
        if kind is None:
            for request in requests:
                request.wait()


class Registration:
    """Memory that a communicator knows, as coll_comm_register announces it.

    The memory lives until deregister(), or until the communicator is destroyed, also if the program drops this object.
    """

    def __init__(self, comm: Comm, x: Array) -> None:
        self._comm, self._active = comm, True
        self._handle, memory = _core.register(comm.handle, x)
        comm._registered[self._handle] = memory

    def deregister(self) -> None:
        if self._active:
            _core.deregister(self._comm.handle, self._handle)
            self._comm._registered.pop(self._handle, None)
            self._active = False

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: Any) -> None:
        self.deregister()


# What comm.counters() counts: the numbers of coll_counters_t.kind by name.
_COUNTS = {**KINDS, "all": _core.COUNT_ALL, "isend": _core.COUNT_ISEND, "irecv": _core.COUNT_IRECV,
           "other": _core.COUNT_OTHER}


class Counters(NamedTuple):
    """What has been counted on this rank since the communicator was made.

    Each only grows, but for unexpected_now and unexpected_memory.

    Of the calls that comm.counters() was asked for:

    calls               calls that were issued; of isend and irecv: that have ended
    bytes               their bytes: elements times the size of their type
    ended               calls whose end this rank has seen: the sum of the buckets
    latency_ns          nanoseconds from the call to its end, of all that have ended
    waited_ns           nanoseconds that threads waited in the library, but for the first looks
    bucket              latencies: bucket[b] counts the calls that took less than 2**(b + 7) nanoseconds, and no less than
                        half of that unless b is 0; the last bucket counts all that took longer

    Of the communicator:

    stalls              waits in which nothing moved for the time of the option stall_after
    staged              operations and messages copied through host memory

    Of messages that came before their receive, on connections which communicators share:

    unexpected          such messages
    unexpected_bytes    their bytes
    unexpected_now      how many of them wait for their receive now
    unexpected_memory   bytes of memory that hold such messages now
    unexpected_memory_most  the most such bytes that there ever were

    Of the communicator:

    staged_bytes        bytes that were copied between devices and host memory

    Of the rank that comm.counters() was asked for, as coll_get_counters(3) says:

    last_waits          waits of this process that the rank ended as the last one
    last_ns             nanoseconds of these waits
    behind              stalls in which the rank was behind
    """
    calls: int
    bytes: int
    ended: int
    latency_ns: int
    waited_ns: int
    bucket: tuple[int, ...]
    stalls: int
    staged: int
    unexpected: int
    unexpected_bytes: int
    unexpected_now: int
    unexpected_memory: int
    unexpected_memory_most: int
    staged_bytes: int
    last_waits: int
    last_ns: int
    behind: int


class Using(Calls[Any], Waiting):
    """The calls of a communicator by one algorithm; made by comm.using()."""

    start: Calls[Request]
    prepare: Calls[Request]


def _ways(calls: Comm | Using, handle: int, algorithm: bytes = b"", tag: int = 0) -> None:
    """Gives a communicator the two other ways to make its calls."""
    calls.start = Calls(handle, _core.WAY_START, algorithm, tag)
    calls.prepare = Calls(handle, _core.WAY_PREPARE, algorithm, tag)


def _milliseconds(seconds: float | None) -> int:
    if seconds is None:
        return -1
    if not seconds > 0:
        raise InvalidArgument(f"a timeout is more than 0 seconds, and not {seconds!r}")
    return max(1, int(seconds * 1000))


class Comm(Calls[Any], Waiting):
    """A communicator: a group of ranks that communicate, and this process's (or thread's) rank in it.

    Attributes: rank, size, handle (the coll_comm_t), start and prepare (the same collectives, which return requests).
    As a context manager it is destroyed at the end, and aborted first if an exception ends the block: the other ranks then
    hear of it at once.  Without that it lives until destroy(), or until the program ends.
    """

    start: Calls[Request]
    prepare: Calls[Request]

    def __init__(self, handle: int, way: int = _core.WAY_WAIT, *, threaded: bool = False,
                 holds: list[Any] | None = None) -> None:
        _ways(self, handle)
        self._holds = [] if holds is None else holds
        self._registered: dict[int, Any] = {}
        self._owner = os.getpid()
        _threaded[handle] = threaded
        _living[handle] = self._holds, self._registered

    def __repr__(self) -> str:
        return f"<coll.Comm rank {self.rank} of {self.size}>"

    # ---- the end ----

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if kind is None or (kind is SystemExit and not error.code):
            self.destroy()
            return
        try:
            self.abort()
            self.destroy()
        except Error:
            pass  # the exception of the block says more

    def __del__(self) -> None:
        if self.handle in _living and os.getpid() == self._owner and not sys.is_finalizing():
            warnings.warn(f"{self!r} was not destroyed, and lives until the program ends", ResourceWarning, 2)

    def destroy(self) -> None:
        """Ends the communicator: waits until its operations are complete, and tells the peers."""
        if _living.pop(self.handle, None) is not None:
            _threaded.pop(self.handle, None)
            _core.destroy(self.handle)
            self._registered.clear()

    def abort(self) -> None:
        """Stops everything on the communicator, on all ranks; it must still be destroyed.  Any thread may call it."""
        _core.abort(self.handle)

    # ---- asking ----

    @property
    def backend(self) -> str:
        """The name of the chosen backend."""
        return _core.describe(self.handle)[0]

    @property
    def device(self) -> int:
        """The CUDA device of the communicator, or -1."""
        return _core.describe(self.handle)[1]

    @property
    def native_handle(self) -> int | None:
        """The address of the backend's own object, or None."""
        return _core.describe(self.handle)[2]

    def members(self) -> list[int]:
        """For each rank its rank in the communicator from which this one comes by splits, dups and shrinks."""
        return _core.members(self)

    def check(self) -> None:
        """Raises the communicator's error if it has failed.  Moves data, and does not wait."""
        code, text = _core.async_error(self.handle)
        if code:
            raise CLASSES.get(code, Error)(text, code, self.failed_ranks())

    def failed_ranks(self) -> list[int]:
        """The ranks that are known to be lost."""
        return _core.failed(self.handle)

    def counters(self, kind: str = "all", rank: int = 0) -> Counters:
        """Reads the counters of this rank.  Needs the option counters; does not block, and any thread may call it.

        kind: "all"; a collective, "send" or "recv", as "allreduce"; "isend" or "irecv"; or "other", whose waited_ns alone
        counts: waits for events, probes, splits and shrinks.
        rank: the rank of the communicator that last_waits, last_ns and behind are about.

        >>> import coll
        >>> with coll.init(counters=True) as comm:
        ...     comm.allreduce(2.5)
        ...     comm.counters("allreduce").bytes
        2.5
        8
        """
        if kind not in _COUNTS:
            raise InvalidArgument(f"counters: '{kind}' is not counted by itself; there are {', '.join(sorted(_COUNTS))}")
        return Counters(*_core.counters(self.handle, _COUNTS[kind], rank))

    def set_timeout(self, seconds: float) -> None:
        """Sets the longest time without progress in the waits of this communicator."""
        _core.set_timeout(self.handle, _milliseconds(seconds))

    def sync(self) -> None:
        """Waits for all operations of the communicator (isend and irecv are none)."""
        _core.sync(self.handle)

    # ---- other communicators ----

    def _derived(self, handle: int) -> Comm:
        return Comm(handle, threaded=_threaded.get(self.handle, False), holds=self._holds[:])

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> Comm | None:
        """Makes communicators of the ranks of equal colour, ordered by key.  A rank of colour None gets None."""
        if _core.in_group():
            raise InvalidUsage("split: the call waits, which the end of a group would have to; use isplit")
        handle = _core.split(self.handle, -1 if color is None else color, key, _milliseconds(timeout))
        return self._derived(handle) if handle else None

    def dup(self) -> Comm:
        """Makes a communicator of all ranks in the same order."""
        if _core.in_group():
            raise InvalidUsage("dup: the call waits, which the end of a group would have to; use idup")
        return self._derived(_core.dup(self.handle))

    def isplit(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> Split:
        """Begins a split; wait() of the request returns the communicator, or None."""
        request = _core.isplit(self.handle, -1 if color is None else color, key, _milliseconds(timeout), Split)
        request._make = self._derived
        return request

    def idup(self) -> Split:
        """Begins a dup; wait() of the request returns the communicator."""
        return self.isplit(0, 0)

    def shrink(self, exclude: Sequence[int], *, timeout: float | None = None) -> Comm:
        """Makes a communicator of the other ranks, which all call it with the same list; also after a failure.

        Its users destroy the old communicator too.
        """
        return self._derived(_core.shrink(self.handle, list(exclude), _milliseconds(timeout)))

    # ---- messages outside the order ----

    def isend(self, x: Array, peer: int, tag: int = 0) -> Request:
        """Begins to send x to an irecv of rank `peer`, outside the order of the operations."""
        return _core.message(self, True, x, peer, tag)

    def irecv(self, x: Array, peer: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begins to receive a message of isend, which may be shorter than x; status() tells its length."""
        return _core.message(self, False, x, peer, tag)

    def probe(self, peer: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status:
        """Waits for a message of isend that no receive has matched, and leaves it there."""
        return make_status(_core.probe(self.handle, peer, tag, True))

    def iprobe(self, peer: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """Looks for such a message; None if there is none."""
        found = _core.probe(self.handle, peer, tag, False)
        return None if found is None else make_status(found)

    # ---- groups, operations, events, memory ----

    def group(self) -> Group:
        """`with comm.group():` makes the calls of the block one batch; coll.group() is the same."""
        return Group()

    def using(self, algorithm: str = "", *, tag: int = 0) -> Using:
        """The calls by one algorithm instead of that which the rules choose, the same on all ranks.

        `tag` is any number, which stands beside the calls in the record of the option `dump`.  The result has the
        collectives, `start` and `prepare`; keep it for calls that are often made.

        >>> import coll
        >>> with coll.init() as comm:
        ...     comm.using("ring").allreduce(2.5)
        2.5
        """
        calls = Using(self.handle, _core.WAY_WAIT, algorithm.encode(), tag)
        _ways(calls, self.handle, algorithm.encode(), tag)
        return calls

    def op(self, function: Callable[[Any, Any], Any], *, commutative: bool = True) -> Op:
        """Makes an operation of a function of two arrays, `function(left, inout)`.

        The function computes left op inout for each element.  It returns the result, or writes it to inout and returns
        None.  The arrays are numpy's if numpy is loaded, else memoryviews.  The function must be associative and must not
        call this package; an exception in it fails the call on the ranks where it was raised.  All ranks make their
        operations in the same order.

        >>> import coll
        >>> with coll.init() as comm:
        ...     greatest = comm.op(lambda left, inout: [max(a, b) for a, b in zip(left, inout)])
        ...     comm.allreduce(3.0, greatest)
        3.0
        """
        return make_op(function, commutative, self.handle, self._holds)

    def premul_sum(self, scalar: Any, dtype: str = "float64") -> Op:
        """Makes the operation "sum of scalar * x" for one type: that of `scalar` if it is an array, else `dtype`."""
        if isinstance(scalar, (int, float)):
            letter = LETTERS.get(DTYPES[dtype], "e" if dtype == "float16" else None)
            if letter is None:
                raise InvalidUsage(f"premul_sum: pass an array of one element for {dtype}")
            scalar = View(struct.pack(letter, scalar), DTYPES[dtype])
        op = Op(self._holds)
        _core.op_create_premul(op, scalar, self.handle)
        return op

    def event(self) -> Event:
        """Makes an event, which orders this communicator's stream and others."""
        return Event(self)

    def empty(self, shape: int | Sequence[int], dtype: Any = "float64") -> Any:
        """Makes an array in memory from which this communicator sends fastest, as coll_mem_alloc allocates it.

        Its elements are undefined.  The memory is freed with the last array that shows it, also after the communicator;
        memory on a device at once, so the program waits for the streams that use it before it drops that array.  A child
        process may not touch the memory.

        dtype: a name of coll.DTYPES, or a type of numpy.

        The result is an array of numpy if the program has imported numpy, else a memoryview; of types that a memoryview
        has not, a coll.view of the memory.  Over the backend nccl the memory lies on the device, and the result is an
        array of CuPy if the program has imported CuPy, else a coll.view.

        >>> import coll
        >>> with coll.init() as comm:
        ...     x = comm.empty((2, 3), "float32")
        ...     x[0, 0] = 2.5
        ...     x.shape, x[0, 0] == 2.5
        ((2, 3), True)
        """
        try:
            sizes: tuple[int, ...] = (operator.index(shape),)  # type: ignore[arg-type]
        except TypeError:
            sizes = tuple(map(operator.index, shape))  # type: ignore[arg-type]
        return empty(self.handle, sizes, dtype, self.backend == "nccl")

    def register(self, x: Array) -> Registration:
        """Announces memory that the program will use often; `with comm.register(x):` ends that with the block."""
        return Registration(self, x)


class LaunchInfo(NamedTuple):
    """This process among the processes of its launcher; -1: the launcher does not tell."""
    rank: int
    size: int
    local_rank: int
    local_size: int


@atexit.register
def _end() -> None:
    """Ends what the program has left, before the interpreter goes: after an exception at once, else in order."""
    failed = getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
    for handle in list(_living):
        held = _living.pop(handle, None)
        try:
            if failed:
                _core.abort(handle)
            _core.destroy(handle)
        except Error:
            pass  # the library has logged it, and nobody is there to read it
        del held  # the communicator may have used it until its end
