# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of coll: one class for each code of coll.h."""
from __future__ import annotations

from typing import Sequence

from . import _core


class Error(Exception):
    """A call into libcoll failed.

    code    the COLL_ERR_* number
    text    libcoll's sentence, which names what is wrong and the ranks that have to do with it
    ranks   the ranks of the communicator that are known to be lost, in ascending order
    """

    code: int = 0

    def __init__(self, text: str, code: int | None = None, ranks: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.code = self.code if code is None else code
        self.ranks = list(ranks)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self):
        return type(self), (self.text, self.code, self.ranks)


class DeviceError(Error):
    """The accelerator's driver or runtime reported an error."""
    code = _core.ERR_DEVICE


class SystemCallError(Error):
    """A call into the operating system failed."""
    code = _core.ERR_SYSTEM


class InternalError(Error):
    """The library or a plugin has a fault."""
    code = _core.ERR_INTERNAL


class InvalidArgument(Error, ValueError):
    """An argument is wrong; nothing was issued, and the communicator stays usable."""
    code = _core.ERR_INVALID_ARGUMENT


class InvalidUsage(Error):
    """The call is not allowed in this state."""
    code = _core.ERR_INVALID_USAGE


class RemoteError(Error):
    """Another rank failed; the text has its number and its message."""
    code = _core.ERR_REMOTE


class TimedOut(Error, TimeoutError):
    """The time of a wait is over; the text names the ranks not heard from."""
    code = _core.ERR_TIMEOUT


class Unsupported(Error, NotImplementedError):
    """The text says what to do instead."""
    code = _core.ERR_UNSUPPORTED


class NoMemory(Error, MemoryError):
    """An allocation of memory failed."""
    code = _core.ERR_NO_MEMORY


class ConfigError(Error):
    """An option is wrong; the text names file and line, or the variable."""
    code = _core.ERR_CONFIG


class NotFound(Error):
    """There is no backend of that name."""
    code = _core.ERR_NOT_FOUND


class PluginError(Error):
    """The library could not load or open a plugin."""
    code = _core.ERR_PLUGIN


class AbiError(Error):
    """A plugin was built for an ABI that the library does not speak."""
    code = _core.ERR_ABI


class Mismatch(Error):
    """Ranks issued different operations; the text has both calls."""
    code = _core.ERR_MISMATCH


class PeerLost(Error, ConnectionError):
    """A rank died or left."""
    code = _core.ERR_PEER_LOST


class Aborted(Error):
    """The communicator was aborted, or the receive was cancelled."""
    code = _core.ERR_ABORTED


class VersionError(Error):
    """Ranks run versions of the library that cannot talk to each other."""
    code = _core.ERR_VERSION


class PermissionDenied(Error, PermissionError):
    """Refused for safety, or a process without the job's key."""
    code = _core.ERR_PERMISSION


CLASSES = {cls.code: cls for cls in Error.__subclasses__()}
for cls in (Error, *CLASSES.values()):
    cls.__module__ = "coll"  # as programs name it


def make_error(code: int, text: str, comm: int) -> Error:
    """The exception of a code; `comm` is the handle whose lost ranks it names, or 0."""
    return CLASSES.get(code, Error)(text, code, _core.failed(comm) if comm else ())
