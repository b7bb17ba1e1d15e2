# SPDX-License-Identifier: BSD-3-Clause
"""The ranks of a PyTorch job, and its checks, which compare the backend "coll" with Gloo."""

import datetime
import glob
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist

RANK = int(os.environ["COLL_RANK"])
SIZE = int(os.environ["COLL_WORLD_SIZE"])
CASE, STORE = sys.argv[1:]
GLOO = []  # the group over Gloo, if there is one
warnings.simplefilter("ignore")  # PyTorch's about calls that will go


def backend_of(group):
    return group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group


def GROUP():  # pylint: disable=invalid-name
    return backend_of(dist.distributed_c10d._get_default_group())  # pylint: disable=protected-access


def meets(name, ranks="[0-9]", count=SIZE):
    """So many of these ranks have come here."""
    open(f"{STORE}.{name}.{RANK}", "w", encoding="ascii").close()
    begin = time.monotonic()
    while len(glob.glob(f"{STORE}.{name}.{ranks}")) < count and time.monotonic() < begin + 60:
        time.sleep(0.01)


def init(timeout=60):
    meets("started")  # a busy machine imports PyTorch on one rank some seconds later than on another
    dist.init_process_group(
        "coll", init_method="file://" + STORE, rank=RANK, world_size=SIZE,
        timeout=datetime.timedelta(seconds=timeout),
    )


def say(name, fault):
    """Prints the result of a check: the first fault of any rank, in rank order."""
    faults = [None] * SIZE
    dist.all_gather_object(faults, fault, group=GLOO[0])
    faults = [f"rank {rank}: {text}" for rank, text in enumerate(faults) if text]
    if RANK == 0:
        print(f"not ok {name}: {faults[0]}" if faults else f"ok {name}", flush=True)


def attempt(function, *args):
    try:
        return function(*args), None
    except Exception as error:  # pylint: disable=broad-except
        return None, f"{type(error).__name__}: {error}"


def same(name, function):
    """function(group) returns a tensor or a list of them, equal over coll and over Gloo."""
    (mine, fault), (gloos, trouble) = attempt(function, None), attempt(function, GLOO[0])
    if not fault and not trouble:
        mine, gloos = ([x] if torch.is_tensor(x) else x for x in (mine, gloos))
        if len(mine) != len(gloos) or not all(torch.equal(a, b) for a, b in zip(mine, gloos)):
            fault = f"coll gives {mine}, Gloo {gloos}"
    say(name, fault or (trouble and "Gloo: " + trouble))


def holds(name, function):
    """function() returns a fault or None."""
    result, fault = attempt(function)
    say(name, fault or result)


def raises(name, words, function):
    def check():
        _, text = attempt(function)
        return None if text and words in text else f"'{words}' is not in '{text}'"

    holds(name, check)


def like_gloo(name, function):
    """function(group) raises an error of the same class over coll and over Gloo."""

    def check():
        (_, mine), (_, gloos) = attempt(function, None), attempt(function, GLOO[0])
        classes = [text and text.split(":")[0] for text in (mine, gloos)]
        return None if classes[0] and classes[0] == classes[1] else f"coll: {mine}; Gloo: {gloos}"

    holds(name, check)


def data(*shape, dtype=torch.float32, rank=RANK):
    """Small whole numbers, whose sums and products are exact in every type and order."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return ((numbers * 7 + rank * 3) % 3).to(dtype)
