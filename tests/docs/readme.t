#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# readme.t - README's program compiles and runs as README says; what it names exists.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
cc=${TEST_CC:-cc}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/README.md" >"$scratch/hello.c"
check "README has a program" test -s "$scratch/hello.c"
check "it compiles" $cc $TEST_CFLAGS -std=c11 -Wall -Wextra -Werror -I"$src/include" \
    "$scratch/hello.c" -o "$scratch/hello" -L"$build/.libs" -lcoll -Wl,-rpath,"$build/.libs"
"$build/coll" run -n 4 --no-prefix -- "$scratch/hello" >"$scratch/out" 2>&1
check "it runs on four ranks" test $? -eq 0
check "and each prints the sum" \
    sh -c "test \$(grep -c '^the sum over all ranks is 4$' '$scratch/out') -eq 4"

sed -n 's/.*](\([a-z][A-Za-z0-9_./-]*\)).*/\1/p; s/^.*](\(LICENSE\)).*/\1/p' "$src/README.md" |
    sort -u >"$scratch/links"
check "README links to files" test -s "$scratch/links"
while read -r link; do
    check "$link exists" test -e "$src/$link"
done <"$scratch/links"

done_testing
