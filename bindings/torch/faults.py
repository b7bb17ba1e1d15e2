# SPDX-License-Identifier: BSD-3-Clause
"""The faults of a rank in a PyTorch job, for RESULTS.md: rank 1 dies, stops, or calls something else.

    coll run -n 4 -- python3 faults.py coll kill /tmp/store-1        (a new file for each run)
    coll run -n 4 -- python3 faults.py gloo stop /tmp/store-2        (kill, stop, count or call)

Each other rank prints the milliseconds from the fault to its exception, and the exception.
"""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

backend, case, store = sys.argv[1:4]
rank, size = int(os.environ["COLL_RANK"]), int(os.environ["COLL_WORLD_SIZE"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # coll run ends the others when rank 1 has died
if backend == "coll":
    # The installed package: that of the same name beside this file is its source.
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    import coll_torch  # noqa: F401


def commit_fault(tensor):
    time.sleep(0.5)
    with open(store + ".fault", "w") as file:
        file.write(f"{time.monotonic()} {os.getpid()}")
    if case in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if case == "kill" else signal.SIGSTOP)
    try:
        if case == "count":
            dist.all_reduce(torch.ones(7))
        else:
            dist.broadcast(tensor, 0)
        dist.barrier()
    except Exception as error:
        print(f"rank 1: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
    time.sleep(12)  # the others must not see its end instead
    os._exit(0)


dist.init_process_group(backend, init_method="file://" + store, rank=rank, world_size=size,
                        timeout=datetime.timedelta(seconds=10))
tensor = torch.ones(1000)
for _ in range(20):
    dist.all_reduce(tensor)
dist.barrier()
if rank == 1:
    commit_fault(tensor)
text = "no error"
try:
    for _ in range(3):
        dist.all_reduce(tensor)
    dist.barrier()
except Exception as error:
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
end = time.monotonic()
with open(store + ".fault") as file:
    begin, pid = file.read().split()
print(f"rank {rank}: {1e3 * (end - float(begin)):.0f} ms: {text}", flush=True)
time.sleep(2)
if rank == 0 and case == "stop":
    os.kill(int(pid), signal.SIGKILL)
os._exit(0)
