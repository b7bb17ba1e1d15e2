#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank of a PyTorch job with CUDA tensors: torch_job.py BACKEND STORE [cpu], started by `coll run`.

BACKEND is "coll" (bindings/torch must be installed) or "nccl" (PyTorch's own, which may use libcoll's libnccl).  All ranks
use the first device.  Prints "ok NAME" or "not ok NAME" for each check, and microseconds of all_reduce.

    coll run -n 2 -e COLL_BACKEND=tcp -- tests/gpu/torch_job.py coll "$(mktemp -u)"
"""

import contextlib
import copy
import os
import sys
import time

import torch
import torch.distributed as dist

BACKEND, STORE = sys.argv[1:3]
DEVICE = sys.argv[3] if len(sys.argv) > 3 else "cuda"
RANK, WORLD = int(os.environ["COLL_RANK"]), int(os.environ["COLL_WORLD_SIZE"])
TOTAL = WORLD * (WORLD + 1) // 2


def there(tensor):
    return tensor.to(DEVICE)


def settle():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def check(name, good):
    print(("ok " if good else "not ok ") + name, flush=True)


def all_are(tensor, value):
    return bool((tensor.cpu() == value).all())


def collectives():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.float64):
        x = there(torch.full((1000,), RANK + 1, dtype=dtype))
        dist.all_reduce(x)
        check(f"all_reduce {dtype}", all_are(x, TOTAL))  # cpu() copies to memory that is not pinned
    x = there(torch.full((1000,), float(RANK)))
    dist.broadcast(x, WORLD - 1)
    check("broadcast", all_are(x, WORLD - 1))
    parts = [there(torch.zeros(7)) for _ in range(WORLD)]
    dist.all_gather(parts, there(torch.full((7,), float(RANK))))
    check("all_gather", all(all_are(parts[i], i) for i in range(WORLD)))
    part = there(torch.zeros(5))
    dist.reduce_scatter_tensor(part, there(torch.arange(5.0 * WORLD)))
    check("reduce_scatter", torch.equal(part.cpu(), torch.arange(5.0 * RANK, 5.0 * RANK + 5) * WORLD))
    x = there(torch.zeros(4 * WORLD))
    dist.all_to_all_single(x, there(torch.arange(4.0 * WORLD) + 100 * RANK))
    want = torch.cat([torch.arange(4.0 * RANK, 4.0 * RANK + 4) + 100 * i for i in range(WORLD)])
    check("all_to_all_single", torch.equal(x.cpu(), want))
    x = there(torch.full((3000,), 5.0 if RANK == 0 else 0.0))
    if RANK == 0:
        dist.send(x, 1)
    elif RANK == 1:
        dist.recv(x, 0)
    check("send and recv", RANK > 1 or all_are(x, 5))
    dist.barrier()
    check("barrier", True)


def streams():
    """Work before and behind ten calls on a stream, without a wait of the host."""
    x = there(torch.ones(1 << 22)) * (RANK + 1)
    stream = torch.cuda.Stream() if DEVICE == "cuda" else None
    with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
        if stream:
            stream.wait_stream(torch.cuda.default_stream())
        for _ in range(10):
            x = x * 2
            dist.all_reduce(x, async_op=True).wait()
            x = x / (2 * TOTAL)
    if stream:
        torch.cuda.current_stream().wait_stream(stream)
    want = [float(rank + 1) for rank in range(WORLD)]
    for _ in range(10):
        want = [sum(want) / TOTAL] * WORLD
    check("order of streams", bool(((x.cpu() - want[0]).abs() < 1e-3).all()))


def train():
    torch.manual_seed(0)
    model = there(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)))
    alone, data = copy.deepcopy(model), there(torch.randn(WORLD * 16, 64))
    together = torch.nn.parallel.DistributedDataParallel(model)
    for net, part in ((together, data[RANK * 16 : RANK * 16 + 16]), (alone, data)):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(20):
            optimizer.zero_grad()
            net(part).pow(2).mean().backward()
            optimizer.step()
    pairs = zip(model.parameters(), alone.parameters())
    check("DDP equals one process", all(torch.allclose(a.cpu(), b.cpu(), atol=1e-4) for a, b in pairs))


def speed():
    for count, calls in ((2, 20), (1 << 18, 20), (1 << 24, 5)):
        x = there(torch.ones(count))
        for _ in range(3):
            dist.all_reduce(x)
        dist.barrier()
        settle()
        begin = time.time()
        for _ in range(calls):
            dist.all_reduce(x)
        host = time.time() - begin
        settle()
        whole = time.time() - begin
        if RANK == 0:
            print(f"{4 * count} bytes: {1e6 * host / calls:.1f} us until the call returns, {1e6 * whole / calls:.1f} in all")


if BACKEND == "coll":
    import coll_torch  # pylint: disable=unused-import
if DEVICE == "cuda":
    torch.cuda.set_device(0)
dist.init_process_group(BACKEND, store=dist.FileStore(STORE, WORLD), rank=RANK, world_size=WORLD)
collectives()
streams()
train()
speed()
dist.destroy_process_group()
check("end", True)
