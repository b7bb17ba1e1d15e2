#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tests/lib/limit, which runs each test: a test that hangs, and processes that a test leaves behind, are ended.
. "${top_srcdir:-.}/tests/lib/tap.sh"

limit=${top_builddir:-.}/tests/lib/limit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$limit" 60 sh -c 'exit 3'
is "the test's exit status is passed on" $? 3
"$limit" 60 sh -c 'sh -c "i=0; while [ \$i -lt 300000 ]; do i=\$((i + 1)); done"' >"$dir/out"
none "the processor time is that of all its processes" \
    "$(awk '$1 " " $2 == "# took" && $5 > 0.02 { found = 1 } END { if (!found) print "none" }' "$dir/out"; grep -v '^# took' "$dir/out")"
"$limit" 60 sh -c 'kill -TERM $$'
is "so is the signal that ended it" $? 143
"$limit" 60 /nonexistent 2>"$dir/err"
is "a program that cannot be run has its own status" $? 127
has "and the program is named" "$dir/err" 'cannot run /nonexistent'

# The processes in a session of their own write their numbers.
leave='setsid sh -c "echo \$\$ >\"$0\"; exec sleep 600" & while ! [ -s "$0" ]; do sleep 0.1; done'
"$limit" 1 sh -c "$leave; sleep 600" "$dir/hung" >"$dir/out"
is "a test that hangs has status 99" $? 99
has "its output says so" "$dir/out" '^not ok - sh has not ended within 1 s'
has "its last line says how long that took" "$dir/out" '^# took [1-9][0-9]*\.[0-9]{2} s, [0-9]+\.[0-9]{2} s of processor time$'
none "its processes are gone" "$(ps -o args= -p "$(cat "$dir/hung")")"
"$limit" 60 sh -c "$leave" "$dir/left"
is "a test that ends and leaves a process has its own status" $? 0
none "the process is gone" "$(ps -o args= -p "$(cat "$dir/left")")"
done_testing
