#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# spdx.t - every source says its licence in its first line (scripts: in their second).
. "${top_srcdir:-.}/tests/lib/tap.sh"

cd "${top_srcdir:-.}" || exit 1

unmarked() {
    find autogen.sh configure.ac Makefile.am include core plugins tools bindings tests conf -type f \
        \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.sh' -o -name '*.t' -o -name '*.py' -o -name '*.inc' \
        -o -name 'configure.ac' -o -name 'Makefile.am' -o -name '*.bash-completion' \) |
        sort | xargs awk '
            FNR == 1 { line = /^#!/ ? 2 : 1 }
            FNR == line && /SPDX-License-Identifier: BSD-3-Clause/ { marked[FILENAME] = 1 }
            FNR > 1 { nextfile }
            END { for (i = 1; i < ARGC; i++) if (!marked[ARGV[i]]) print ARGV[i] }'
}

none "sources carry an SPDX line" "$(unmarked)"
check "LICENSE is BSD-3-Clause" grep -q 'Neither the name of the copyright holder' LICENSE

done_testing
