#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# spdx.t - every source says its licence in its first line (scripts: in their second).
. "${top_srcdir:-.}/tests/lib/tap.sh"

cd "${top_srcdir:-.}" || exit 1

unmarked() {
    find autogen.sh configure.ac Makefile.am include core plugins tools tests conf -type f \
        \( -name '*.[ch]' -o -name '*.sh' -o -name '*.t' -o -name '*.py' -o -name '*.inc' \
        -o -name 'configure.ac' -o -name 'Makefile.am' -o -name '*.bash-completion' \) |
        sort | while read -r file; do
        line=1
        head -n 1 "$file" | grep -q '^#!' && line=2
        sed -n "${line}p" "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' ||
            echo "$file: line $line"
    done
}

none "sources carry an SPDX line" "$(unmarked)"
check "LICENSE is BSD-3-Clause" grep -q 'Neither the name of the copyright holder' LICENSE

done_testing
