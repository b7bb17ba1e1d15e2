# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's backend "coll": import coll_torch, then torch.distributed.init_process_group("coll")."""

import atexit
import inspect

import torch.distributed as dist

from . import _C


def _register():
    register = dist.Backend.register_backend
    # PyTorch 2 asks for the devices of a backend.
    devices = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(register).parameters else {}
    register("coll", _C.create, **devices)


_register()
# A program may end without destroy_process_group.  Its futures' functions need an interpreter that still runs.
atexit.register(_C.close_all)
