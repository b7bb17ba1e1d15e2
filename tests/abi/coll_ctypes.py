#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# coll_ctypes.py - coll.h from another language: Python's ctypes, which opens libraries RTLD_LOCAL, makes a
# communicator of one rank, then one of two processes with a unique id passed through a pipe.
import ctypes
import os
import signal
import sys

builddir = os.environ.get("top_builddir", ".")
SUM, MAX, FLOAT32, INT64 = 0, 2, 7, 4
run = failed = 0

signal.alarm(120)


def ok(condition, name):
    global run, failed
    run += 1
    failed += not condition
    print("%s %d - %s" % ("ok" if condition else "not ok", run, name), flush=True)


def skip_all(reason):
    print("1..0 # SKIP " + reason)
    sys.exit(0)


def load():
    coll = ctypes.CDLL(os.path.join(builddir, ".libs", "libcoll.so"))
    p, size, i32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    coll.coll_get_last_error.restype = ctypes.c_char_p
    coll.coll_get_last_error.argtypes = [p]
    coll.coll_version_string.restype = ctypes.c_char_p
    coll.coll_get_unique_id.argtypes = [ctypes.c_char_p, size]
    coll.coll_comm_init_rank.argtypes = [ctypes.POINTER(p), i32, ctypes.c_char_p, i32, p]
    coll.coll_comm_init_all.argtypes = [ctypes.POINTER(p), i32, p, p]
    coll.coll_comm_user_rank.argtypes = [p, ctypes.POINTER(i32)]
    coll.coll_comm_backend.argtypes = [p, ctypes.POINTER(ctypes.c_char_p)]
    coll.coll_allreduce.argtypes = [p, p, size, i32, i32, p, p]
    coll.coll_sync.argtypes = [p]
    coll.coll_set_call_site.argtypes = [p]
    coll.coll_set_call_site.restype = None
    coll.coll_comm_destroy.argtypes = [p]
    return coll


def last_error():
    return coll.coll_get_last_error(None).decode()


def reduce(comm, ctype, dtype, op, values):
    """The values of this rank reduced with those of the others, or None."""
    buf = (ctype * len(values))(*values)
    at = ctypes.addressof(buf)
    if coll.coll_allreduce(at, at, len(values), dtype, op, comm, None) or coll.coll_sync(comm):
        print("# " + last_error())
        return None
    return list(buf)


def use(comm, rank, nranks):
    """What is wrong with a communicator, or None."""
    me = ctypes.c_int32(-1)
    if coll.coll_comm_user_rank(comm, ctypes.byref(me)) or me.value != rank:
        return "rank is %d" % me.value
    want = [sum(r + i for r in range(nranks)) for i in range(1000)]
    if reduce(comm, ctypes.c_float, FLOAT32, SUM, [rank + i for i in range(1000)]) != want:
        return "wrong sum"
    if reduce(comm, ctypes.c_int64, INT64, MAX, [rank << 40, -rank]) != [(nranks - 1) << 40, 0]:
        return "wrong maximum"
    return None


def one_of_two(rank, read_end, write_end):
    """Runs in a process of its own; rank 0 makes the id and writes it to the pipe."""
    comm = ctypes.c_void_p()
    uid = ctypes.create_string_buffer(512)
    if rank == 0:
        if coll.coll_get_unique_id(uid, len(uid)):
            return last_error()
        os.write(write_end, uid.value)
        os.close(write_end)
        name = uid.value
    else:
        os.close(write_end)
        name = os.read(read_end, 512)
    if coll.coll_comm_init_rank(ctypes.byref(comm), 2, name, rank, None):
        return last_error()
    wrong = use(comm, rank, 2)
    if coll.coll_comm_destroy(comm):
        return last_error()
    return wrong


def warnings_of_copies(write_end):
    """Runs in a process of its own, whose log goes to a pipe: sums in memory of the stand-in for a device."""
    os.dup2(write_end, 2)
    os.environ.update(COLL_BACKEND="simulated", COLL_ENABLE_GPU_FALLBACK="1")
    cuda = ctypes.CDLL(os.path.join(builddir, "tests/fakes/.libs/libcuda.so.1"))
    context, there, comm = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or \
            cuda.cuCtxPushCurrent_v2(context) or cuda.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(64)):
        return "the stand-in has no memory"
    if coll.coll_comm_init_all(ctypes.byref(comm), 1, None, None):
        return last_error()
    for site in None, None, 42, 42, 43:
        coll.coll_set_call_site(site)
        if coll.coll_allreduce(there.value, there.value, 16, FLOAT32, SUM, comm, None) or coll.coll_sync(comm):
            return last_error()
    coll.coll_comm_destroy(comm)
    return None


if "address" in os.environ.get("TEST_SANITIZE", "") or "thread" in os.environ.get(
    "TEST_SANITIZE", ""
):
    skip_all("Python cannot load a library that is built with a sanitizer")

coll = load()
ok(True, "libcoll.so %s loads under ctypes" % coll.coll_version_string().decode())

# Before this process has looked for a driver.
read_end, write_end = os.pipe()
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    wrong = warnings_of_copies(write_end)
    if wrong is not None:
        print("# " + wrong, flush=True)
    os._exit(wrong is not None)
os.close(write_end)
with os.fdopen(read_end) as log:
    warnings = [line.partition("(called ")[2].partition(")")[0] for line in log if " copies " in line]
ok(os.waitpid(pid, 0)[1] == 0, "sums on a device")
interpreter = "by an interpreter: coll_set_call_site can name the place"
ok(warnings == [interpreter, "at place 42", "at place 43"],
   "one warning for calls from ctypes, and one for each place that the program names: %s" % warnings)

single = ctypes.c_void_p()
code = coll.coll_comm_init_all(ctypes.byref(single), 1, None, None)
ok(code == 0, "a communicator of one rank: " + last_error())
if code == 0:
    wrong = use(single, 0, 1)
    ok(wrong is None, "one rank reduces: %s" % (wrong or "right"))
    ok(coll.coll_comm_destroy(single) == 0, "destroy")

read_end, write_end = os.pipe()
children = []
sys.stdout.flush()
for rank in range(2):
    pid = os.fork()
    if pid == 0:
        wrong = one_of_two(rank, read_end, write_end)
        if wrong is not None:
            print("# rank %d: %s" % (rank, wrong), flush=True)
        os._exit(wrong is not None)
    children.append(pid)
for rank, pid in enumerate(children):
    _, status = os.waitpid(pid, 0)
    ok(status == 0, "two processes reduce: rank %d" % rank)

ok(
    coll.coll_comm_init_rank(ctypes.byref(single), 2, b"nonsense", 0, None) == 4
    and "unique id" in last_error(),
    "an error has its sentence: " + last_error(),
)
print("1..%d" % run)
sys.exit(failed != 0)
