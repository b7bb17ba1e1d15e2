#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# circles.t - files of core that all call one another, directly or by way of each other, are one file to their reader: such
# a circle stays small, and within its folder.
. "${top_srcdir:-.}/tests/lib/tap.sh"

libs=${top_builddir:-.}/.libs
most=6

ls "$libs"/libcore_*.a >/dev/null 2>&1 || skip_all "the archives of core's folders are not built"
found=$(mktemp) || exit 1
trap 'rm -f "$found"' EXIT
${NM:-nm} -A "$libs"/libcore_*.a 2>/dev/null | awk -f "${top_srcdir:-.}/tests/source/circles.awk" >"$found"

check "circles are found" grep -q '^[a-z]* [0-9]' "$found"
none "no circle crosses folders" "$(grep -A 999 '^[a-z]*,' "$found")"
for folder in $(sed -n 's/^\([a-z]*\) [0-9].*/\1/p' "$found" | sort -u); do
    none "$folder: a circle has at most $most files" "$(awk -v folder="$folder" -v limit="$most" '
        /^[a-z]/ { shown = $1 == folder && $2 > limit } shown' "$found")"
done
done_testing
