# SPDX-License-Identifier: BSD-3-Clause
"""Operations under way: waiting, callbacks, asyncio."""
from __future__ import annotations

import os
import threading
import traceback
from typing import Any, Callable, Generator, NamedTuple, Sequence

from . import _core

# Between two looks of `await` at a request that no thread of the library moves: from the first to the second, in seconds.
POLL_FIRST, POLL_LONGEST = 50e-6, 2e-3


class Status(NamedTuple):
    """A message: the sender, its tag, its length in bytes, the name of its type ("?" if it has no elements)."""
    source: int
    tag: int
    bytes: int
    dtype: str


def make_status(fields: tuple[int, int, int, int]) -> Status:
    source, tag, length, dtype = fields
    return Status(source, tag, length, _core.dtype_name(dtype))


class Request(_core.Request):
    """An operation under way, which `comm.start`, `comm.prepare`, `comm.isend`, `comm.irecv` and `comm.isplit` return.

    The request keeps the arrays alive until the operation is complete, also if the program drops the request.  Until then
    the program must not write the input, and neither read nor write the output.
    """

    _callbacks: Sequence[Callable[[Request], Any]] = ()

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the operation, and returns its output array.

        Raises the operation's error, or TimeoutError after `timeout` seconds: then the operation goes on, and the
        program can wait again.
        """
        if not self._wait(-1 if timeout is None else max(0, int(timeout * 1000 + 0.999))):
            raise TimeoutError(f"the operation is not complete after {timeout:g} s, and goes on")
        return self._value()

    def test(self) -> bool:
        """Tells whether the operation is complete.  Moves data, and does not block.  Raises the operation's error."""
        return self._test()

    def _value(self) -> Any:
        return self._result

    def start(self) -> Request:
        """Issues the operation of a request of `comm.prepare`, with the arrays' present content."""
        self._start()
        return self

    def cancel(self) -> None:
        """Ends a receive of `comm.irecv` to which no message has come; its wait raises coll.Aborted."""
        self._cancel()

    def status(self) -> Status:
        """What a request of `comm.isend` or `comm.irecv` has sent or received."""
        return make_status(self._status())

    def set_timeout(self, seconds: float) -> None:
        """Limits the operation's time: after that its communicator fails (a receive of `comm.irecv`: the request)."""
        self._set_timeout(int(seconds * 1000))

    def add_done_callback(self, function: Callable[[Request], Any]) -> None:
        """Has `function(request)` called once the operation is over, by a thread of this package.

        The function may call everything.  Data move while some thread is in a call, or at any time with the option
        `progress = thread`.
        """
        with _lock:
            watched = bool(self._callbacks)
            done = self._done and not watched
            if not done:
                self._callbacks = [*self._callbacks, function]
                _dispatch_start()
        if done:
            function(self)
        elif not watched:
            self._watch()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._finish().__await__()

    async def _finish(self) -> Any:
        """Waits on the event loop: woken by the library's thread, or looking from time to time if there is none."""
        import asyncio  # here, since it takes longer to load than all of this package

        if threaded(self._comm):
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self.add_done_callback(lambda _: loop.call_soon_threadsafe(_settle, future))
            await future
        delay = 0.0
        while not self.test():
            await asyncio.sleep(delay)
            delay = min(max(2 * delay, POLL_FIRST), POLL_LONGEST)
        return self._value()


def _settle(future: Any) -> None:
    if not future.done():
        future.set_result(None)


class Split(Request):
    """The request of `comm.isplit` and `comm.idup`: `wait()` and `await` return the new communicator."""

    def __init__(self) -> None:
        self._made: Any = None
        self._make: Callable[[int], Any] | None = None
        self._making = threading.Lock()

    def _value(self) -> Any:
        with self._making:
            make, self._make = self._make, None
            if make is not None:  # only one thread takes the place, and only once
                handle = _core.place_take(self._result)
                self._made = make(handle) if handle else None
            return self._made


# ---- what libcoll's callbacks report ----

_lock = threading.Lock()
_dispatcher: threading.Thread | None = None
_threaded: dict[int, bool] = {}


def threaded(comm: int) -> bool:
    """Does a thread of the library move the data of this communicator?"""
    return _threaded.get(comm, False)


def _dispatch_start() -> None:
    global _dispatcher
    if _dispatcher is None:
        _dispatcher = threading.Thread(target=_dispatch, args=(_core.wake_descriptor(),), name="coll", daemon=True)
        _dispatcher.start()


def _dispatch(descriptor: int) -> None:
    while True:
        os.read(descriptor, 8)
        for request in _core.completed():
            with _lock:
                functions, request._callbacks = request._callbacks, ()
            for function in functions:
                try:
                    function(request)
                except BaseException:  # SystemExit too: other callbacks need this thread
                    traceback.print_exc()
        request = functions = function = None


def _after_fork() -> None:
    global _dispatcher, _lock
    _dispatcher, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def wait_all(requests: Sequence[Request]) -> list[Any]:
    """Waits for all requests, and returns their output arrays."""
    return [request.wait() for request in requests]


def wait_some(requests: Sequence[Request], timeout: float | None = None) -> list[int]:
    """Waits until at least one request is over, and returns the indices of all that are; [] if the time is over.

    A request whose `wait()` or `test()` has told its end is passed over.  The errors stay with the requests.  Raises an
    error if the wait cannot end: a request is of a group that is open, or of a communicator that was destroyed.
    """
    left = None if timeout is None else int(timeout * 1000)
    waiting = list(requests)
    while True:
        part = 100 if left is None else min(left, 100)
        indices = _core.wait_some(waiting, part)
        if indices or all(request._done for request in waiting):
            return indices
        if left is not None:
            left -= part
            if left <= 0:
                return []
