#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# driver.t - CUDA drivers that lack a function, and the toolkit's stub of a driver: a sentence names the lack, and no
# program crashes.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
fakes=$build/tests/fakes/.libs
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME="$dir/home" COLL_SYSCONFDIR="$dir/no-config" COLL_ENABLE_GPU_FALLBACK=yes
only_backends "$dir/plugins" nccl simulated tcp
ln -s "$fakes/libnccl.so.2" "$dir/"

# lacking NAME: a driver without a function: in a copy of the stand-in the function has another name.
lacking() {
    LC_ALL=C sed "s/\x00$1\x00/\x00${1%?}~\x00/g" "$fakes/libcuda.so.1" >"$dir/libcuda.so.1"
}

# perf BACKEND: two ranks with device memory, whose program lacks the function too.
perf() {
    status=0
    LD_LIBRARY_PATH=$dir COLL_BACKEND=$1 timeout 60 "$coll" perf -t 2 -s 64 -n 1 -w 0 -m cuda \
        >"$dir/out" 2>&1 </dev/null || status=$?
}

# sum BACKEND: two ranks with device memory, whose program has all functions.
sum() {
    status=0
    LD_LIBRARY_PATH=$dir COLL_BACKEND=$1 timeout 60 "$build/tests/device/lacking" "$1" \
        "$fakes/libcuda.so.1" >"$dir/out" 2>&1 </dev/null || status=$?
}

# good NAME: the program has worked, or has failed with an error that names the function.
good() {
    test "$status" -eq 0 ||
        { test "$status" -eq 1 && grep -v '^coll warn: ' "$dir/out" | grep -qw "$1"; }
}

cp "$fakes/libcuda.so.1" "$dir/"
for backend in tcp simulated nccl; do
    perf $backend
    is "$backend: a whole driver" "$status" 0
    sum $backend
    is "$backend: a whole driver, and a program of its own" "$status" 0
done

for name in $(sed -n 's/^[[:space:]]*ROW(\(cu[A-Za-z0-9_]*\),.*/\1/p' \
    "${top_srcdir:-.}/core/device/driver.h"); do
    lacking "$name"
    perf nccl
    check "coll perf: a driver without $name" good "$name"
    for backend in tcp simulated nccl; do
        sum $backend
        check "$backend: a driver without $name" good "$name"
    done
done

# Streams cannot wait for words, but their events tell calls on host memory how far they are.
for name in cuStreamWaitValue32_v2 cuStreamWriteValue32_v2; do
    lacking $name
    check "a driver without $name: a call on host memory waits for an event of a stream" \
        env NCCL_STAND_INS="$dir" LD_LIBRARY_PATH="$dir" STANDIN_CUDA_DEVICES=4 \
        "$build/tests/nccl/host_order_test" events
done

cp "$fakes/libcuda.so.1" "$dir/"
status=0
LD_LIBRARY_PATH=$dir STANDIN_CUDA_INIT=34 COLL_LOG=info COLL_BACKEND=tcp timeout 60 \
    "$build/tests/examples/hello" >"$dir/out" 2>&1 || status=$?
is "the toolkit's stub: a program with host memory works" "$status" 0
has "the toolkit's stub: the log names it" "$dir/out" \
    "$dir/libcuda.so.1 is not a CUDA driver but the CUDA toolkit's stub"
done_testing
