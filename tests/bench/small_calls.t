#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# small_calls.t - the instructions of 8-byte calls that repeat an earlier one, counted by callgrind on each rank, with the
# coll_sync after each.  A count is no time: it is the same on every run, and tells when a small call grows.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/bench/callgrind.sh"

# The operation, the most instructions, and how many calls one run has more than a shorter run.  The limits are some
# twentieth above the instructions of gcc 12 -O2.  A message is a send and a recv, half of both; a request is half of an
# isend, an irecv, and the coll_wait and coll_request_free of both.  A group has 100 allreduces.
limits="allreduce 1220 1000
broadcast 1115 1000
reduce 1150 1000
allgather 1300 1000
reduce_scatter 1220 1000
alltoall 1305 1000
message 1040 1000
group 272000 20
request 2830 1000"

callgrind_needed
limits_hold
build_counted small_calls

# instructions OPERATION CALLS: of a whole run.
instructions() {
    COLL_BACKEND=tcp valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$dir/small_calls" "$1" "$2" \
        2>"$dir/err" || return
    sed -n 's/.*Collected *: *//p' "$dir/err"
}

while read -r operation most more; do
    few=$(instructions "$operation" $((more / 2)))
    many=$(instructions "$operation" $((more / 2 + more)))
    if [ -n "$few" ] && [ -n "$many" ]; then
        each=$(((many - few) / (2 * more)))
        echo "# $operation: $each instructions"
        check "$operation: each rank runs at most $most instructions" test "$each" -gt 0 -a "$each" -le "$most"
    else
        none "$operation: callgrind counts the instructions" "$(cat "$dir/err"; echo "no count")"
    fi
done <<EOF
$limits
EOF

done_testing
