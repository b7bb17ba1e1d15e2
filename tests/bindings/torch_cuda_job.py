# SPDX-License-Identifier: BSD-3-Clause
"""One rank of a PyTorch job over the backend "coll" with CUDA tensors of torch_cuda.cpp: torch_cuda_job.py STORE.

Every rank prints "ok NAME" or "not ok NAME: ..." for each check.
"""

import datetime
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist

import torch_cuda as cuda

torch._C._cuda_getCurrentRawStream = cuda.current_raw_stream  # pylint: disable=protected-access
import coll_torch  # noqa: E402,F401 pylint: disable=wrong-import-position

RANK = int(os.environ["COLL_RANK"])
SIZE = int(os.environ["COLL_WORLD_SIZE"])
STORE = sys.argv[1]
DEVICE = RANK % 2  # of the two that the stand-in has
MANY = 100_001
warnings.simplefilter("ignore")  # PyTorch's about calls that will go


def check(name, function):
    try:
        fault = function()
    except Exception as error:  # pylint: disable=broad-except
        fault = f"{type(error).__name__}: {error}".replace("\n", " ")
    print(f"not ok {name}: rank {RANK}: {fault}" if fault else f"ok {name}", flush=True)


def there(tensor):
    return cuda.to(tensor, DEVICE)


def data(count, rank=RANK):
    return (torch.arange(count) * 7 + rank * 3).remainder(11).to(torch.float32)


def total(count):
    return sum(data(count, rank) for rank in range(SIZE))


def equal(tensor, want):
    here = cuda.cpu(tensor)
    return None if torch.equal(here, want) else f"{here} is not {want}"


# --------------------------------------------------------- the same as in host memory


def same(name, function):
    """function(place) gives a list of tensors, whose inputs and outputs place() has put somewhere."""

    def compare():
        mine, want = function(there), function(lambda tensor: tensor)
        bad = [i for i, tensor in enumerate(mine) if not torch.equal(cuda.cpu(tensor), want[i])]
        return f"tensors {bad} differ" if bad else None

    check(name, compare)


def collectives():
    def run(call, *tensors):
        call(*tensors)
        return tensors[0] if isinstance(tensors[0], list) else [tensors[0]]

    def rows(place, count=MANY):
        return [place(torch.zeros(count)) for _ in range(SIZE)]

    same("all_reduce", lambda place: run(dist.all_reduce, place(data(MANY))))
    same("broadcast", lambda place: run(lambda x: dist.broadcast(x, SIZE - 1), place(data(MANY))))
    same("all_gather of few", lambda place: run(dist.all_gather, rows(place, 3), place(data(3))))
    same("all_gather of many", lambda place: run(dist.all_gather, rows(place), place(data(MANY))))
    same("all_to_all", lambda place: run(
        dist.all_to_all, rows(place), [place(data(MANY) + to) for to in range(SIZE)]))
    same("reduce_scatter", lambda place: run(
        dist.reduce_scatter, place(torch.zeros(MANY)), [place(data(MANY) + to) for to in range(SIZE)]))
    same("all_to_all_single", lambda place: run(
        dist.all_to_all_single, place(torch.zeros(2 * SIZE)), place(data(2 * SIZE))))
    same("all_reduce_coalesced", lambda place: run(dist.all_reduce_coalesced, [place(data(3)), place(data(5))]))
    same("_all_gather_base", lambda place: run(
        dist._all_gather_base, place(torch.zeros(5 * SIZE)), place(data(5))))  # pylint: disable=protected-access

    def rooted(place):
        out, back = rows(place) if RANK == 1 else None, place(torch.zeros(MANY))
        dist.gather(place(data(MANY)), out, 1)
        dist.scatter(back, out[::-1] if RANK == 1 else None, 1)
        dist.reduce(back, 0)
        return [back] if RANK == 0 else []

    same("gather, scatter and reduce", rooted)

    def strided(place):
        x = place(data(MANY * 2).reshape(MANY, 2))
        dist.all_reduce(x[:, 0])
        return [x]

    same("all_reduce of a column", strided)

    def messages(place):
        x, peer = place(torch.zeros(MANY)), RANK ^ 1
        receive = dist.irecv(x, peer)
        send = dist.isend(place(data(MANY)), peer)
        receive.wait()
        send.wait()
        return [x]

    same("both ranks receive first", messages)


# ------------------------------------------------------------------------- streams


def streams():
    def input_waits():
        x, new = there(torch.zeros(MANY)), there(data(MANY))
        cuda.work(DEVICE, 300)
        x.copy_(new)  # when the stream has come to it
        dist.all_reduce(x)
        return equal(x, total(MANY))

    check("a call begins after the earlier work of the current stream", input_waits)

    def stream_waits():
        x, copy = there(data(MANY)), there(torch.zeros(MANY))
        if RANK == 1:
            time.sleep(0.3)
        dist.all_reduce(x)
        copy.copy_(x)
        return equal(copy, total(MANY))

    check("the current stream's later work comes after it", stream_waits)

    def thread_goes_on():
        x, told = there(data(MANY)), f"{STORE}.told"
        if RANK == 1:
            while not os.path.exists(told):
                time.sleep(0.01)
        work = dist.all_reduce(x, async_op=True)
        done = work.is_completed()
        work.wait()
        if RANK == 0:
            open(told, "w", encoding="ascii").close()
            if done:
                return "it is complete before rank 1 has called"
        return equal(x, total(MANY)) or (None if work.is_completed() else "it is not complete in the end")

    check("work.wait() makes the stream wait and not the thread", thread_goes_on)

    def limited():
        x, told = there(data(5)), f"{STORE}.late"
        if RANK == 1:
            while not os.path.exists(told):
                time.sleep(0.01)
        work = dist.all_reduce(x, async_op=True)
        if RANK == 0:
            try:
                work.wait(datetime.timedelta(milliseconds=50))
                return "no timeout"
            except RuntimeError as error:
                if "Timed out waiting for 50 ms" not in str(error):
                    return str(error)
            open(told, "w", encoding="ascii").close()
        work.wait()
        return equal(x, total(5))

    check("with a limit the thread waits, at most so long", limited)

    def dropped():
        os.environ["STANDIN_CUDA_DELAY_US"] = "3000"
        rows = [[there(torch.zeros(3)) for _ in range(SIZE)] for _ in range(30)]
        for row in rows:
            dist.all_gather(row, there(data(3)), async_op=True)
        dist.all_reduce(there(data(3)))
        del os.environ["STANDIN_CUDA_DELAY_US"]
        faults = [equal(row[rank], data(3, rank)) for row in rows for rank in range(SIZE)]
        return next((fault for fault in faults if fault), None)

    check("works that nobody waits for keep their memory", dropped)

    def future():
        work = dist.all_reduce(there(data(MANY)), async_op=True)
        doubled = work.get_future().then(lambda done: cuda.cpu(done.value()[0]) * 2)
        return None if torch.equal(doubled.wait(), total(MANY) * 2) else "wrong sum"

    check("a future's function sees the result", future)

    def other_stream():
        cuda.use_new_stream(DEVICE)
        return input_waits() or stream_waits()

    check("the same on another stream", other_stream)


def made():
    """Memory of the library: over nccl on the device, else in host memory."""

    def gathers():
        x = coll_torch.empty(5 * SIZE)
        if x.is_cuda != (os.environ["COLL_BACKEND"] == "nccl"):
            return f"it is on {x.device}"
        place = there if x.is_cuda else lambda tensor: tensor
        dist._all_gather_base(x, place(data(5)))  # pylint: disable=protected-access
        want = torch.cat([data(5, rank) for rank in range(SIZE)])
        return equal(x, want) if x.is_cuda else None if torch.equal(x, want) else f"{x}"

    check("all_gather into memory of the library", gathers)


# ---------------------------------------------------------------------- arguments, faults


def raises(name, words, function):
    def attempt():
        try:
            function()
        except Exception as error:  # pylint: disable=broad-except
            return None if words in str(error) else str(error)
        return "no error"

    check(name, attempt)


def arguments():
    here, device, other = torch.ones(2), there(torch.ones(2)), cuda.to(torch.ones(2), 1 - DEVICE)
    group = dist.distributed_c10d._get_default_group()  # pylint: disable=protected-access
    group = group._get_backend(here.device) if hasattr(group, "_get_backend") else group
    raises("tensors on two devices raise", "different devices", lambda: group.allgather([[device, other]], [device]))
    raises("tensors in host memory and on a device raise", "invalid tensor type",
           lambda: group.allgather([[here, here]], [device]))
    raises("a strided message raises", "must be contiguous", lambda: dist.send(there(torch.ones(2, 2))[:, 0], 1 - RANK))
    check("and the group still works", lambda: dist.barrier())  # pylint: disable=unnecessary-lambda


def mismatch():
    """Streams run on after a failure; the next call raises."""
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            dist.all_reduce(there(torch.ones(7 if RANK == 1 else 1000)))
            time.sleep(0.05)
    except RuntimeError as error:
        return None if "7 float32" in str(error) else str(error)
    return "no error"


dist.init_process_group("coll", init_method="file://" + STORE, rank=RANK, world_size=SIZE,
                        timeout=datetime.timedelta(seconds=60))
collectives()
streams()
made()
arguments()
if os.environ["COLL_BACKEND"] != "nccl":  # whose ranks compare their calls rarely
    check("after a mismatch a call raises", mismatch)
print("end", flush=True)
os._exit(0)  # pylint: disable=protected-access
