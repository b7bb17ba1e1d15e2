#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# readme.t - the programs of README and coll.h compile and run as they say; files that README names
# exist.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not here"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
book_tree "$scratch/tree"
TEST_CFLAGS="${TEST_CFLAGS-} -std=c11 -Wall -Wextra -Werror"
export TEST_CFLAGS

# The compiler of the pages is called cc, and so may be the compiler that it runs.
named_cc() (
    TEST_CC=cc
    mkdir "$scratch/named" && book_cc "$scratch/named/cc" && chmod +x "$scratch/named/cc" &&
        PATH=$scratch/named:$PATH timeout 60 cc --version
)
check "a compiler that is called cc does not run itself" named_cc

# says NAME: runs README's command that begins so, in the folder of the programs.
says() {
    (cd "$scratch" && eval "$(sed -n "s/^    \($1 .*\)/\1/p" "$book_src/README.md" | head -n 1)") >"$scratch/out" 2>&1
}

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$book_src/README.md" >"$scratch/hello.c"
check "README has a program" test -s "$scratch/hello.c"
check "README's command compiles it" says cc
check "README's command runs it" says 'coll run'
is "and each of four ranks prints the sum" "$(grep -c '^\[[0-3]\] the sum over all ranks is 4$' "$scratch/out")" 4
skip "README's other commands" ".ci/run begins with them, and tests/bindings/python.t has those for Python"

# The example is in the first comment, on lines that begin with " *   "; its last line is "}".
awk '/^ \*   #include/ { on = 1 } on { print substr($0, 6) } /^ \*   \}$/ { exit }' \
    "$book_src/include/coll/coll.h" >"$scratch/example.c"
check "coll.h has a program" test -s "$scratch/example.c"
# shellcheck disable=SC2046 # flags are words
check "it compiles" cc "$scratch/example.c" -o "$scratch/example" $(pkg-config --cflags --libs coll)
coll run -n 4 --no-prefix -- "$scratch/example" >"$scratch/out" 2>&1
check "it runs on four ranks" test $? -eq 0
is "and each rank prints the sums" "$(grep -c '^sums: 4 8 12 16$' "$scratch/out")" 4

# What README prints of a failure is the sentence of its tutorial, whose ranks print it.
failure=$(sed -n '/^## A running job, and a failure/,/^## /s/^    //p' "$book_src/README.md" | tr '\n' ' ' | sed 's/ $//')
check "README's failure is the tutorial's" grep -qF "$failure" "$book_src/docs/coll-tutorial-failures.rst"
none "README names each tutorial and topic" "$(cd "$book_src/docs" && for page in *.rst; do
    grep -qF "(docs/$page)" ../README.md || echo "$page"
done)"

grep -oE '\]\([A-Za-z][A-Za-z0-9_./-]*\)' "$book_src/README.md" | sed 's/^](//; s/)$//' | sort -u >"$scratch/links"
check "README links to files" test -s "$scratch/links"
while read -r link; do
    check "$link exists" test -e "$book_src/$link"
done <"$scratch/links"

done_testing
