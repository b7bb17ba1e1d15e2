#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# format.t - every C file is as `clang-format -i` would leave it.
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
for file in $(find include core plugins tools tests -name '*.[ch]' | sort); do
    check "$file" "$formatter" --dry-run -Werror --style=file "$file"
done

done_testing
