#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# native_calls.t - the instructions of libcoll and its plugin from coll_allreduce to NCCL, in a call that differs from the last one
# by its buffers: callgrind counts them over the tests' stand-ins for NCCL and the CUDA driver, whose own do not count.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/bench/callgrind.sh"

# The limit is some twentieth above the instructions of gcc 12 -O2.
most=420
few=500
many=1500

callgrind_needed
limits_hold
build_counted native_calls -ldl

# instructions LIBRARY CALLS: of that library within coll_allreduce, in a whole run.
instructions() {
    COLL_BACKEND=nccl LD_LIBRARY_PATH="$build/tests/fakes/.libs" STANDIN_CUDA_DEVICES=2 \
        valgrind --tool=callgrind --toggle-collect=coll_allreduce --callgrind-out-file="$dir/out" "$dir/native_calls" "$2" \
        >"$dir/err" 2>&1 || return
    awk -v library="$1" '
        /^c?ob=/ { split($1, id, "="); if (NF > 1) name[id[2]] = $2; if (/^ob/) counts = name[id[2]] ~ library; next }
        /^calls=/ { called = 1; next }
        /^[-+*0-9]/ { if (!called && counts) sum += $2; called = 0 }
        END { print sum + 0 }' "$dir/out"
}

total=0
for library in libcoll.so coll_nccl.so; do
    each=$((($(instructions "$library" $many) - $(instructions "$library" $few)) / (2 * (many - few))))
    echo "# $library: $each instructions"
    check "$library has a part" test "$each" -gt 20
    total=$((total + each))
done
check "at most $most instructions: $total" test "$total" -le $most
done_testing
