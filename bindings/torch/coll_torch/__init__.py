# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's backend "coll": torch.distributed.init_process_group("coll").

PyTorch 2.5 and later import this module by its entry point "torch.backends" whenever a program imports torch; with
earlier versions the program imports it.  So the module only registers a name: libcoll is loaded with the first process
group.
"""


def autoload():
    """The entry point: the import has done all.  PyTorch may look for it while `import torch` below is under way."""


import atexit  # noqa: E402 pylint: disable=wrong-import-position
import functools  # noqa: E402 pylint: disable=wrong-import-position
import inspect  # noqa: E402 pylint: disable=wrong-import-position

import torch  # noqa: E402 pylint: disable=wrong-import-position
import torch.distributed as dist  # noqa: E402 pylint: disable=wrong-import-position


@functools.lru_cache(maxsize=None)
def _library():
    from . import _C  # pylint: disable=import-outside-toplevel

    # A program may end without destroy_process_group.  Its futures' functions need an interpreter that still runs.
    atexit.register(_C.close_all)
    return _C


def _create(*args):
    return _library().create(*args)


def _backend(group, device):
    """The process group of C++ that stands behind a group of PyTorch for tensors of a device."""
    group = group or dist.distributed_c10d._get_default_group()  # pylint: disable=protected-access
    find = getattr(group, "_get_backend", None)  # PyTorch 2
    backend = find(torch.device(device or "cpu")) if find else group
    backend = getattr(backend, "wrapped_pg", backend)  # with TORCH_DISTRIBUTED_DEBUG=DETAIL
    if not isinstance(backend, _library().ProcessGroupColl):
        raise ValueError(f"coll_torch.empty: the group's backend is {type(backend).__name__}, not \"coll\"")
    return backend


def empty(*size, dtype=None, device=None, group=None):
    """Makes a tensor, as torch.empty does, in memory from which the group sends fastest.

    Over tcp the memory is host memory that the ranks of a host share: they read a long message where it lies.  Over nccl
    it is NCCL's own memory, on the group's device.  The device is that of the memory unless `device` names it.  The
    memory is freed with the last tensor that shows it, also after the group; over nccl the program waits for the streams
    that use it before it drops that tensor.  A child of fork may not touch the memory.

    size: numbers, or one sequence of numbers.  group: a process group of the backend "coll"; None: the default group.
    """
    backend = _backend(group, device)
    index = backend.memory_device()
    place = torch.device("cpu" if index < 0 else f"cuda:{index}")
    if device is not None and torch.device(device) != torch.device(place.type):
        place = torch.device(device)
    shape = size if len(size) != 1 or hasattr(size[0], "__index__") else size[0]
    return backend.empty(list(shape), torch.empty(0, dtype=dtype, device="cpu"), str(place))


def _register():
    register = dist.Backend.register_backend
    # PyTorch 2 asks for the devices of a backend.
    devices = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(register).parameters else {}
    register("coll", _create, **devices)


if dist.is_available():
    _register()
