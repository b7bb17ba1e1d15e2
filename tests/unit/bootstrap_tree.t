#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bootstrap_tree.t - the tests of the bootstrap once more with deep trees: a few ranks form the tree of many.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# The trees run beside each other, because each run mostly waits.
programs="bootstrap_test bootstrap_fault_test bootstrap_rank_failed_test"
for fan in 1 2 3; do
	for program in $programs; do
		TEST_TREE_FAN=$fan collect "$program.$fan" "$top_builddir/tests/unit/$program"
	done &
done
wait
for fan in 1 2 3; do
	for program in $programs; do
		take "$program.$fan"
		none "$program, trees of $fan" "$(grep -h -A 2 '^not ok' "$dir/out")"
		is "$program is complete" "$(grep -c '^1\.\.' "$dir/out")" 1
	done
done
done_testing
