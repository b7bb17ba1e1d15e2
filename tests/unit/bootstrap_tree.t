#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bootstrap_tree.t - the tests of the bootstrap once more with trees: a few ranks sit as many would.
. "${top_srcdir:-.}/tests/lib/tap.sh"

for fan in 1 2 3; do
	for program in bootstrap_test bootstrap_fault_test bootstrap_rank_failed_test; do
		output=$(TEST_STAR_FAN=$fan "$top_builddir/tests/unit/$program" 2>&1)
		none "$program, trees of $fan" "$(grep -A 2 '^not ok' <<<"$output")"
		is "$program is complete" "$(grep -c '^1\.\.' <<<"$output")" 1
	done
done
done_testing
