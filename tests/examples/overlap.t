#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# overlap.t - the example that computes while gradients are added up finds them right, from one
# source: over tcp, ucx and simulated in host memory; over these and nccl in device memory (on
# stand-ins for the CUDA driver and NCCL).
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
overlap=$build/tests/examples/overlap
fakes=$build/tests/fakes/.libs
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# run NAME RANKS BACKEND MEMORY COMMAND...: makes one run and checks the backend and the memory that
# it reports.
run() {
    name=$1 ranks=$2 backend=$3 memory=$4
    shift 4
    COLL_BACKEND=$backend timeout 300 "$@" >"$scratch/out" 2>&1
    is "$name: exit status" $? 0
    has "$name: all is right" "$scratch/out" \
        "^8 layers of [0-9]+ KiB are right, $ranks ranks, backend $backend, $memory memory: "
    is "$name: and nothing else is said" "$(wc -l <"$scratch/out")" 1
}

# both BACKEND MEMORY OPTION...: runs the ranks as processes and as threads.
both() {
    backend=$1 memory=$2
    shift 2
    for n in 1 2 4; do
        run "$n processes over $backend" $n "$backend" "$memory" \
            "$build/coll" run --no-prefix -n $n -- "$overlap" "$@"
        run "$n threads over $backend" $n "$backend" "$memory" "$overlap" --in-process $n "$@"
    done
}

both tcp host
if can ucx; then both ucx host; fi
for n in 1 2 4; do
    run "$n threads over simulated" $n simulated host "$overlap" --in-process $n
done
# A gradient length that is no multiple of any piece of a message.
run "4 threads over tcp, 1027 KiB" 4 tcp host "$overlap" --in-process 4 --kib 1027

# A directory with these two only: the stand-in for an old UCX, which is beside them, would interfere.
mkdir "$scratch/fakes"
cp "$fakes/libcuda.so.1" "$fakes/libnccl.so.2" "$scratch/fakes/"
LD_LIBRARY_PATH=$scratch/fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
STANDIN_CUDA_DEVICES=4
export LD_LIBRARY_PATH STANDIN_CUDA_DEVICES
if can nccl; then both nccl device --kib 32; fi
# The other backends stage it, with a warning for each place that calls.
COLL_LOG=error
export COLL_LOG
both tcp device --kib 32
if can ucx; then both ucx device --kib 32; fi
run "2 threads over simulated" 2 simulated device "$overlap" --in-process 2 --kib 1027
run "2 processes over tcp, host memory where there are devices" 2 tcp host \
    "$build/coll" run --no-prefix -n 2 -- "$overlap" --host 1

check "no such option, no success" sh -c "! '$overlap' --nonsense 1"

done_testing
