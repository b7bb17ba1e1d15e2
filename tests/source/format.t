#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# format.t - every C and C++ file is as `clang-format -i` would leave it.
. "${top_srcdir:-.}/tests/lib/tap.sh"

wanted=14 # releases differ in details
formatter=
for candidate in clang-format-$wanted clang-format; do
    if "$candidate" --version 2>/dev/null | grep -q " $wanted\."; then
        formatter=$candidate
        break
    fi
done
[ -n "$formatter" ] || skip_all "no clang-format of version $wanted"

cd "${top_srcdir:-.}" || exit 1
report=$(mktemp) || exit 1
trap 'rm -f "$report"' EXIT

# One run for all files: the formatter takes longer to start than to read a file.
files=$(find include core plugins tools bindings tests -name '*.[ch]' -o -name '*.cpp' | sort)
status=0
# shellcheck disable=SC2086 # a list of files
"$formatter" --dry-run -Werror --style=file $files 2>"$report" || status=$?
unformatted=" $(sed -n 's/^\([^: ]*\.[chp]*\):[0-9].*/\1/p' "$report" | sort -u | tr '\n' ' ')"
for file in $files; do
    case $unformatted in
    *" $file "*) none "$file" "$(grep -A 2 "^$file:" "$report")" ;;
    *) none "$file" "" ;;
    esac
done
none "the formatter complains of nothing else" \
    "$([ "$status" -eq 0 ] || [ "$unformatted" != " " ] || cat "$report"; grep '^error:' "$report")"

done_testing
