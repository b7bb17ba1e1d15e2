#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# readme.t - the programs of README and coll.h compile and run as they say; files that README names
# exist.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
cc=${TEST_CC:-cc}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

compile() {
    # shellcheck disable=SC2086 # flags are words
    $cc $TEST_CFLAGS -std=c11 -Wall -Wextra -Werror -I"$src/include" "$scratch/$1.c" \
        -o "$scratch/$1" -L"$build/.libs" -lcoll -Wl,-rpath,"$build/.libs"
}

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/README.md" >"$scratch/hello.c"
check "README has a program" test -s "$scratch/hello.c"
check "it compiles" compile hello
"$build/coll" run -n 4 --no-prefix -- "$scratch/hello" >"$scratch/out" 2>&1
check "it runs on four ranks" test $? -eq 0
check "and each prints the sum" \
    sh -c "test \$(grep -c '^the sum over all ranks is 4$' '$scratch/out') -eq 4"

# The example is in the first comment, on lines that begin with " *   "; its last line is "}".
awk '/^ \*   #include/ { on = 1 } on { print substr($0, 6) } /^ \*   \}$/ { exit }' \
    "$src/include/coll/coll.h" >"$scratch/example.c"
check "coll.h has a program" test -s "$scratch/example.c"
check "it compiles" compile example
"$build/coll" run -n 4 --no-prefix -- "$scratch/example" >"$scratch/out" 2>&1
check "it runs on four ranks" test $? -eq 0
check "and rank 0 prints the sums" test "$(cat "$scratch/out")" = "sums: 4 8 12 16"

sed -n 's/.*](\([a-z][A-Za-z0-9_./-]*\)).*/\1/p; s/^.*](\(LICENSE\)).*/\1/p' "$src/README.md" |
    sort -u >"$scratch/links"
check "README links to files" test -s "$scratch/links"
while read -r link; do
    check "$link exists" test -e "$src/$link"
done <"$scratch/links"

done_testing
