#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# progress.t - the tests of operations again, with a thread of the library's own that moves data.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
names="api/sendrecv api/threads faults/peers"
if is_long; then names="$names api/collectives"; fi
# The programs make few calls, because other tests make the rest.
COLL_PROGRESS=thread TEST_LEVEL=
export COLL_PROGRESS TEST_LEVEL

# All programs run at once, because each mostly waits.
for name in $names; do
    collect "${name#*/}" "${top_builddir:-.}/tests/${name}_test" &
done
wait

for name in $names; do
    take "${name#*/}"
    passed=$(grep -c '^ok' "$dir/out")
    none "$name: nothing fails" "$(cat "$dir/out" "$dir/err" | grep '^not ok')"
    check "$name: ends well after $passed checks" test "$status" -eq 0 -a "$passed" -gt 10
done

done_testing
