#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# progress.t - the tests of operations again, with a thread of the library's own that moves data.
. "${top_srcdir:-.}/tests/lib/tap.sh"

COLL_PROGRESS=thread TEST_LEVEL=small
export COLL_PROGRESS TEST_LEVEL

# Sanitizers make the collectives of all types and sizes long.
names="api/sendrecv api/threads faults/peers"
[ -n "${TEST_SANITIZE:-}" ] || names="$names api/collectives"

for name in $names; do
    output=$("${top_builddir:-.}/tests/${name}_test" 2>&1)
    status=$?
    wrong=$(echo "$output" | grep '^not ok')
    passed=$(echo "$output" | grep -c '^ok')
    none "$name: nothing fails" "$wrong"
    check "$name: ends well after $passed checks" test "$status" -eq 0 -a "$passed" -gt 10
done

done_testing
