# SPDX-License-Identifier: BSD-3-Clause
"""A rank of two under NVIDIA's nccl4py, with memory of the stand-in for the CUDA driver: nccl4py_job.py FILE, where rank 0
leaves the unique id.  Prints "right", or ends with what is wrong.

The collectives go through nccl4py's binding of NCCL, since nccl4py's objects for buffers ask the driver for functions that
the stand-in does not have.
"""

import ctypes
import os
import sys
import time

import numpy
from nccl.bindings import nccl
from nccl.core import Communicator, NCCLCollConfig, NCCLConfig, NcclDataType, NcclRedOp, UniqueId, get_unique_id

COUNT = 300
driver = ctypes.CDLL("libcuda.so.1")
driver.cuMemcpy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t]


def must(result, what):
    if result:
        sys.exit(f"{what}: {result}")


def begin(device):
    context = ctypes.c_void_p()
    must(driver.cuInit(0), "cuInit")
    must(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    must(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def memory(values):
    there = ctypes.c_uint64()
    must(driver.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(values.nbytes)), "cuMemAlloc")
    must(driver.cuMemcpy(there.value, values.ctypes.data, values.nbytes), "cuMemcpy")
    return there.value


def expect(there, wanted, what):
    here = numpy.empty_like(wanted)
    must(driver.cuStreamSynchronize(None), "cuStreamSynchronize")
    must(driver.cuMemcpy(here.ctypes.data, there, here.nbytes), "cuMemcpy")
    must(not (here == wanted).all(), f"{what} is {here}, not {wanted}")


def unique_id(rank, path):
    if rank == 0:
        made = get_unique_id()
        with open(path + ".new", "wb") as file:
            file.write(bytes(made))
        os.rename(path + ".new", path)
        return made
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_bytes(file.read())


def main():
    rank = int(os.environ["COLL_RANK"])
    base = numpy.arange(COUNT, dtype=numpy.int32)
    begin(rank)
    comm = Communicator.init(2, rank, unique_id(rank, sys.argv[1]), NCCLConfig(blocking=True))
    must((comm.nranks, comm.rank) != (2, rank), f"rank {comm.rank} of {comm.nranks}")
    must((comm.team_world.n_ranks, comm.team_lsa.n_ranks) != (2, 1), f"teams {comm.team_world} {comm.team_lsa}")
    sent, received = memory(base * (rank + 1)), memory(base * 0)
    arguments = (sent, received, COUNT, int(NcclDataType.INT32), int(NcclRedOp.SUM), comm._comm, 0)
    nccl.all_reduce(*arguments)
    expect(received, base * 3, "the sum")
    nccl.all_reduce_config(*arguments, NCCLCollConfig(min_ctas=2, user_profiler_tag=7)._to_lowpp())
    expect(received, base * 3, "the sum by ncclAllReduceConfig")
    comm.finalize()
    comm.destroy()
    print("right")


main()
