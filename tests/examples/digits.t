#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# digits.t - the example learns: the same accuracy for every number of ranks, over tcp, ucx, ucc and
# simulated, as processes and as threads; ranks of one run hold the same weights (the example itself checks).
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=${top_builddir:-.}
data=${top_srcdir:-.}/tests/examples/data
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# run NAME RANKS BACKEND COMMAND...: makes one run and keeps its output line in $scratch/NAME.
run() {
    name=$1 ranks=$2 backend=$3
    shift 3
    COLL_BACKEND=$backend "$@" >"$scratch/$name" 2>&1
    check "$name: exit status 0" test $? -eq 0
    check "$name: says how many ranks and over what" \
        grep "^held-out accuracy 0\.[0-9]* on 400 digits, $ranks ranks, backend $backend, weights" \
        "$scratch/$name"
}

# Tools that watch every memory access make training slow.
case ${TEST_SANITIZE-} in
*thread*) counts="1 2" ;;
*) counts="1 2 4" ;;
esac

real=tcp
if can ucx; then real="tcp ucx"; fi
for backend in $real; do
    for n in $counts; do
        run "$n processes over $backend" $n $backend \
            "$build/coll" run --no-prefix -n $n -- "$build/tests/examples/digits" --data "$data"
    done
done
for backend in simulated $real; do
    for n in $counts; do
        run "$n threads over $backend" $n $backend \
            "$build/tests/examples/digits" --data "$data" --in-process $n
    done
done

accuracy() {
    sed -n 's/^held-out accuracy \([0-9.]*\) .*/\1/p' "$1"
}
weights() {
    sed -n 's/.*weights \([0-9a-f]*\)$/\1/p' "$1"
}

first=$(accuracy "$scratch/1 threads over simulated")
for file in "$scratch"/*; do
    # Another order of addition may change the result for one digit of 400.
    check "$(basename "$file"): accuracy $(accuracy "$file")" awk -v a="$(accuracy "$file")" \
        -v b="$first" 'BEGIN { exit !(a >= 0.9 && a - b < 0.0051 && b - a < 0.0051) }'
done

# The order of addition depends on the number of ranks, not on the backend.
for n in $counts; do
    for backend in $real; do
        for other in "$n processes over $backend" "$n threads over $backend"; do
            check "$other: the weights are those of simulated, bit by bit" test \
                "$(weights "$scratch/$other")" = "$(weights "$scratch/$n threads over simulated")"
        done
    done
done

# Engines that add in an order of their own do not do so in reproducible mode.  tests/mpi/matrix.t does this over mpi.
reproducible() {
    COLL_REPRODUCIBLE=yes run "$1 processes over $2, reproducible" $1 $2 \
        "$build/coll" run --no-prefix -n $1 -- "$build/tests/examples/digits" --data "$data"
}
if can ucc; then
    for n in $counts; do
        reproducible $n tcp
        reproducible $n ucc
        check "$n processes over ucc: the weights are those of tcp, bit by bit" test \
            "$(weights "$scratch/$n processes over ucc, reproducible")" = \
            "$(weights "$scratch/$n processes over tcp, reproducible")"
    done
fi

# Gradients on a device, counters on the host, over one communicator: with nccl each backend has a part, the others copy.
fakes=$(cd "$build" && pwd)/tests/fakes/.libs
mkdir "$scratch/.fakes"
ln -s "$fakes/libcuda.so.1" "$fakes/libnccl.so.2" "$scratch/.fakes/"
on_device() {
    name=$1 ranks=$2 backend=$3
    shift 3
    LD_LIBRARY_PATH=$scratch/.fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} STANDIN_CUDA_DEVICES=4 \
        COLL_ENABLE_GPU_FALLBACK=$([ $backend = nccl ] && echo no || echo yes) COLL_LOG=error \
        run "$name" $ranks $backend "$@" --data "$data" --memory device
    check "$name: accuracy" awk -v a="$(accuracy "$scratch/$name")" -v b="$first" \
        'BEGIN { exit !(a >= 0.9 && a - b < 0.0051 && b - a < 0.0051) }'
}
backends="simulated tcp"
[ ! -e "$build/.libs/coll_nccl.so" ] || backends="simulated tcp nccl"
for n in $counts; do
    for backend in $backends; do
        on_device "$n threads over $backend, gradients on a device" $n $backend \
            "$build/tests/examples/digits" --in-process $n
    done
    [ "$backend" != nccl ] || on_device "$n processes over nccl, gradients on a device" $n nccl \
        "$build/coll" run --no-prefix -n $n -- "$build/tests/examples/digits"
    # NCCL adds in an order of its own, which has no choice between two ranks.
    [ $n -le 2 ] || continue
    for file in "$scratch/$n "*device; do
        check "$(basename "$file"): the weights are those of the host, bit by bit" test \
            "$(weights "$file")" = "$(weights "$scratch/$n threads over simulated")"
    done
done

check "no data, no success" sh -c "! '$build/tests/examples/digits' --data /nonexistent"
# Without a choice by the user the program takes the backend that `coll info` names for one host.
"$build/coll" info >"$scratch/info"
usual=$(sed -n "s/.*if all ranks run on one host: '\([a-z0-9_]*\)'.*/\1/p" "$scratch/info")
[ -n "$usual" ] || usual=$(sed -n 's/^  \* \([^ ]*\) .*/\1/p' "$scratch/info")
check "hello" sh -c "'$build/coll' run --no-prefix -n 3 -- '$build/tests/examples/hello' |
    grep -c 'the sum of all ranks is 3, backend $usual\$' | grep -qx 3"

done_testing
