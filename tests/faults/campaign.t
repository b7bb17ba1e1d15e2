#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# campaign.t - a few deaths and strangers of the campaign; `make check-faults` has many of each.
. "${top_srcdir:-.}/tests/lib/tap.sh"

campaign=${top_builddir:-.}/tests/faults/campaign
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trials=4
[ -z "${TEST_SANITIZE:-}" ] || trials=1

# try BACKEND SCENE TRIALS: no survivor hangs, and each has the right error in time.
try() {
    run "$campaign" "$@"
}

# run PROGRAM [BACKEND] SCENE TRIALS
run() {
    local program=$1

    shift
    timeout 300 "$program" -s "$(date +%N | sed 's/^0*//')" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    tap_result $? "${program##*/} $*" "$(cat "$dir/out"; tail -n 5 "$dir/err")"
}

backends="tcp tcp-sockets"
if COLL_BACKEND=ucx "${top_builddir:-.}/coll" info >/dev/null 2>&1; then
    backends="$backends ucx"
else
    skip "ucx" "it cannot be used here"
fi
for backend in $backends; do
    for scene in init destroy; do
        try "$backend" $scene $trials
    done
done
# On ucx one survivor in 1000 names another that has ended, and a shrink after the death may hang: RESULTS.md.
for scene in kill survive split dup shrink; do
    try tcp $scene $trials
    try tcp-sockets $scene $trials
done
for scene in lent lent-dup lent-abort; do
    try tcp $scene $trials
done
try simulated abort $trials
try tcp strangers-start 2000
try tcp strangers-run 2000
none "strangers find no port of a running job on tcp" "$(grep -v '^row|strangers-run|tcp|0|0|0|' "$dir/out")"
[ "$backends" = "${backends%ucx}" ] || try ucx-ports strangers-run 200

for scene in kill exit stop missing count order fewer; do
    run "${top_builddir:-.}/tests/nccl/companion_campaign" $scene 1
done

done_testing
