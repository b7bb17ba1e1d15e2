#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# scaling.t - four times as many operations, communicators, requests and the like cost about four times as many
# instructions, as callgrind counts them.  A cost that grows with the square would be sixteen times as much.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/bench/callgrind.sh"

# The most tenths of a cost for four times as many; UCX's own work depends on how its queues fill.
most=60

callgrind_needed
build_counted scaling

# costs FILE: prints "few_NAME COST" and "many_NAME COST", with all that these functions call.
costs() {
    awk '/^c?fn=\([0-9]+\) / { id = $1; sub(/^c?fn=/, "", id); name[id] = $2 }
        /^cfn=/ { id = $1; sub(/^cfn=/, "", id); called = name[id] }
        counts { if (called ~ /^(few|many)_/) print called, $2; counts = 0 }
        /^calls=/ { counts = 1 }' "$1"
}

# Before a sleep a rank looks at all that is under way, and under callgrind time passes quickly.
export COLL_YIELD=1s

# scale BACKEND THINGS...
scale() {
    backend=$1
    shift
    COLL_BACKEND=$backend valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$dir/scaling" "$@" \
        >"$dir/log" 2>&1 || none "$backend: the program runs" "$(cat "$dir/log")"
    costs "$dir/out" >"$dir/costs"
    for thing in "$@"; do
        few=$(sed -n "s/^few_$thing //p" "$dir/costs")
        many=$(sed -n "s/^many_$thing //p" "$dir/costs")
        times=$((${many:-1000} * 10 / ${few:-1}))
        echo "# $backend${COLL_UCX_ZCOPY:+ without frames}, $thing: $few and $many instructions, $((times / 10)).$((times % 10)) times"
        check "$backend: four times the $(echo "$thing" | tr _ ' ') cost about four times as much" \
            test "$times" -le "$most"
    done
}

scale tcp operations groups operations_beside_one_that_left communicators communicators_of_a_group callbacks \
    registrations reductions
scale simulated operations groups messages_that_wait operations_beside_one_that_left communicators
if [ -e "$build/.libs/coll_ucx.so" ]; then
    scale ucx operations groups operations_beside_one_that_left communicators
    COLL_UCX_ZCOPY=1 scale ucx operations
else
    skip "ucx" "it is not built"
fi

done_testing
