# SPDX-License-Identifier: BSD-3-Clause
"""coll: collective communication on arrays, over libcoll.

    import coll, numpy

    with coll.init() as comm:
        x = numpy.ones(4)
        print(comm.rank, comm.allreduce(x))

    coll run -n 4 python3 sum.py

coll.h is the manual of what the calls do; the classes here say what is Python's.

Making communicators
    init             in programs that a launcher starts (coll run, torchrun, mpiexec, srun)
    init_rank        in programs that can pass a text from one rank to the others (Ray, Dask, multiprocessing)
    init_exchange    in programs that can already exchange bytes among all ranks
    init_all         for all ranks of one process, a thread each
"""
from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple, Sequence

try:
    from . import _core
except ImportError as error:
    if "libcoll" not in str(error):
        raise
    raise ImportError(
        f"{error}; the package coll uses the installed libcoll: install it where the loader looks, or set "
        "LD_LIBRARY_PATH to its folder (pkg-config --variable=libdir coll)") from error

from . import _arrays, _errors
from ._arrays import DTYPES, KINDS, OPS, view
from ._calls import Calls
from ._comm import ANY_SOURCE, ANY_TAG, Comm, Counters, Event, Group, LaunchInfo, Op, Registration, Using, make_op
from ._errors import (
    AbiError, Aborted, ConfigError, DeviceError, Error, InternalError, InvalidArgument, InvalidUsage, Mismatch, NoMemory,
    NotFound, PeerLost, PermissionDenied, PluginError, RemoteError, SystemCallError, TimedOut, Unsupported, VersionError)
from ._request import Request, Split, Status, wait_all, wait_some

__all__ = [
    "init", "init_rank", "init_exchange", "init_all", "unique_id", "launch_info", "group", "op", "view", "reduce_local",
    "wait_all", "wait_some", "info", "backend_available", "version", "Comm", "Calls", "Counters", "Request", "Split", "Status", "Op",
    "Event", "Group", "Registration", "Using", "LaunchInfo", "Info", "Backend", "Option", "Rule", "ANY_SOURCE", "ANY_TAG",
    "DTYPES", "OPS", "KINDS", "Error", "AbiError", "Aborted", "ConfigError", "DeviceError", "InternalError", "InvalidArgument",
    "InvalidUsage", "Mismatch", "NoMemory", "NotFound", "PeerLost", "PermissionDenied", "PluginError", "RemoteError",
    "SystemCallError", "TimedOut", "Unsupported", "VersionError",
]

_core.setup(InvalidArgument, _errors.make_error, OPS, Request, _arrays.caller_line)
__version__ = _core.version()

# ---- making communicators ----


# The plugins of a package that carries libcoll.
_CARRIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "plugins")


def _plugin_path() -> str | None:
    return _CARRIED if os.path.isdir(_CARRIED) and "COLL_PLUGIN_PATH" not in os.environ else None


def _encoded(text: str | os.PathLike | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _config(backend: str | None, plugin_path: str | None, config_file: str | None, interface: str | None,
            timeout: float | None, init_timeout: float | None, device: int, options: dict[str, Any]) -> tuple:
    pairs = [f"{key}={_option(value)}".encode() for key, value in options.items()]
    plugins = _plugin_path() if plugin_path is None else plugin_path
    return (_encoded(backend), _encoded(plugins), _encoded(config_file), _encoded(interface),
            -1 if timeout is None else int(timeout * 1000), -1 if init_timeout is None else int(init_timeout * 1000),
            device, pairs)


def _option(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


class _Settings:
    """The keywords that every function which makes communicators takes."""

    def __init__(self, backend: str | None = None, plugin_path: str | None = None, config_file: str | None = None,
                 interface: str | None = None, timeout: float | None = None, init_timeout: float | None = None,
                 device: int = -1, options: dict[str, Any] | None = None, **more: Any) -> None:
        keys = {**(options or {}), **more}
        self.config = _config(backend, plugin_path, config_file, interface, timeout, init_timeout, device, keys)
        self.threaded = str(keys.get("progress", os.environ.get("COLL_PROGRESS", ""))).strip() == "thread"


def init(**settings: Any) -> Comm:
    """Makes the communicator of all ranks that a launcher has started; without a launcher, of one rank.

    Settings, each of which may be left to the environment and the configuration files:

    backend, plugin_path, config_file, interface    as COLL_BACKEND, COLL_PLUGIN_PATH, COLL_CONFIG, COLL_INTERFACE
    timeout, init_timeout                           seconds without progress until a wait fails
    device                                          the CUDA device of this rank
    options                                         a dict of further options: {"tcp.interface": "eth0"}
    any other keyword                               an option without a dot: progress="thread", reproducible=True

    Waits until all ranks have arrived.

    >>> import coll
    >>> with coll.init(timeout=5) as comm:
    ...     comm.rank, comm.size
    (0, 1)
    """
    chosen = _Settings(**settings)
    return Comm(_core.init_env(chosen.config), threaded=chosen.threaded)


def unique_id() -> str:
    """Makes the id of a new communicator, for init_rank on all ranks.

    The program passes it to the other ranks in private.  The process that made it must run one of the ranks.

    >>> import coll
    >>> with coll.init_rank(1, coll.unique_id(), 0) as comm:
    ...     comm.size
    1
    """
    return _core.unique_id()


def init_rank(size: int, id: str, rank: int, **settings: Any) -> Comm:
    """Makes the communicator of `size` ranks which all pass the same id; settings as in init."""
    chosen = _Settings(**settings)
    return Comm(_core.init_rank(size, id, rank, chosen.config), threaded=chosen.threaded)


class _Exchange:
    """Calls the program's function for the library, which has no exceptions, and keeps the first one."""

    def __init__(self, size: int, function: Callable[[bytes, float], Sequence[bytes]]) -> None:
        self.size, self.function = size, function
        self.error: BaseException | None = None

    def __call__(self, mine: bytes, seconds: float) -> bytes:
        try:
            parts = list(self.function(mine, seconds))
            if [len(part) for part in parts] != [len(mine)] * self.size:
                raise ValueError(f"the exchange function returned {len(parts)} parts of {[len(p) for p in parts]} bytes; "
                                 f"expected {self.size} parts of {len(mine)} bytes")
            return b"".join(parts)
        except BaseException as error:
            self.error = self.error or error
            raise


def init_exchange(size: int, rank: int, exchange: Callable[[bytes, float], Sequence[bytes]], **settings: Any) -> Comm:
    """Makes a communicator whose ranks meet over the program's own exchange; settings as in init.

    `exchange(mine, seconds)` returns a list of the bytes that all ranks passed, in rank order, within that time.  The
    library also calls it in split, dup and shrink over backends without a transport.

    >>> import coll
    >>> with coll.init_exchange(1, 0, lambda mine, seconds: [mine]) as comm:
    ...     comm.size
    1
    """
    chosen, caller = _Settings(**settings), _Exchange(size, exchange)
    try:
        return Comm(_core.init_exchange(size, rank, caller, chosen.config), threaded=chosen.threaded, holds=[caller])
    except Error as error:
        raise error from caller.error


def init_all(size: int, devices: Sequence[int] | None = None, **settings: Any) -> list[Comm]:
    """Makes the communicators of all ranks of a group that lives in this process: give each to a thread.

    >>> import coll, threading
    >>> sums = []
    >>> def rank(comm):
    ...     with comm:
    ...         sums.append(comm.allreduce(comm.rank + 1))
    >>> threads = [threading.Thread(target=rank, args=(comm,)) for comm in coll.init_all(2)]
    >>> for thread in threads: thread.start()
    >>> for thread in threads: thread.join()
    >>> sums
    [3, 3]
    """
    chosen = _Settings(**settings)
    handles = _core.init_all(size, list(devices or ()), chosen.config)
    return [Comm(handle, threaded=chosen.threaded) for handle in handles]


def launch_info() -> LaunchInfo:
    """This process's place among the processes of its launcher, before there is a communicator.

    >>> import coll
    >>> coll.launch_info()
    LaunchInfo(rank=0, size=1, local_rank=0, local_size=1)
    """
    return LaunchInfo(*_core.launch_info())


# ---- calls that need no communicator ----


def group() -> Group:
    """`with coll.group():` makes the calls of the block, on any communicators, one batch."""
    return Group()


_everywhere: list[Any] = []


def op(function: Callable[[Any, Any], Any], *, commutative: bool = True) -> Op:
    """Makes an operation as comm.op does, valid on every communicator."""
    return make_op(function, commutative, 0, _everywhere)


def reduce_local(x: Any, inout: Any, op: Any = "sum", comm: Comm | None = None) -> Any:
    """Reduces two arrays of this process, with the bits of the collectives: inout[i] = x[i] op inout[i].

    >>> import array, coll
    >>> coll.reduce_local(array.array("d", [1, 2]), array.array("d", [10, 20]))
    array('d', [11.0, 22.0])
    """
    _core.reduce_local(x, inout, op, comm.handle if comm else 0)
    return inout


# ---- how the library decides ----


class Backend(NamedTuple):
    """A plugin that was found."""
    name: str
    version: str
    path: str
    reason: str
    choice: str
    priority: int
    usable: bool
    chosen: bool


class Option(NamedTuple):
    """An option: its value in force, its default, its unit and who set it."""
    name: str
    value: str
    fallback: str
    unit: str
    source: str
    help: str


class Rule(NamedTuple):
    """A rule that chooses an algorithm."""
    kind: str
    algorithm: str
    source: str
    bytes_min: int
    bytes_max: int
    ranks_min: int
    ranks_max: int


class Info(NamedTuple):
    """A picture of the decisions that this process would take now; `coll info` shows the same."""
    backends: list[Backend]
    options: dict[str, Option]
    rules: list[Rule]
    notes: list[str]
    code: int
    verdict: str


def info(**settings: Any) -> Info:
    """Tells the backends found, the options in force, the rules and the choice, for the settings of init.

    >>> import coll
    >>> coll.info().options["timeout"].unit
    'seconds'
    """
    backends, options, rules, notes, code, verdict = _core.info(_Settings(**settings).config)
    return Info([Backend(*fields) for fields in backends], {fields[0]: Option(*fields) for fields in options},
                [Rule(*fields) for fields in rules], notes, code, verdict)


def backend_available(name: str) -> tuple[bool, str]:
    """Tells whether this process could use a backend now, and why not."""
    return _core.backend_available(name)


def version() -> str:
    """The version of the library."""
    return _core.version()
