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

import torch.distributed as dist  # noqa: E402 pylint: disable=wrong-import-position


@functools.lru_cache(maxsize=None)
def _library():
    from . import _C  # pylint: disable=import-outside-toplevel

    # A program may end without destroy_process_group.  Its futures' functions need an interpreter that still runs.
    atexit.register(_C.close_all)
    return _C


def _create(*args):
    return _library().create(*args)


def _register():
    register = dist.Backend.register_backend
    # PyTorch 2 asks for the devices of a backend.
    devices = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(register).parameters else {}
    register("coll", _create, **devices)


if dist.is_available():
    _register()
