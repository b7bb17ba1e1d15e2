#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# leaks.t - valgrind finds no leak and no invalid access in the example.  What is not libcoll's is left
# out in ucx.supp.
. "${top_srcdir:-.}/tests/lib/tap.sh"

command -v valgrind >/dev/null || skip_all "valgrind is not installed"
[ -z "$TEST_SANITIZE" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"

build=${top_builddir:-.}
example=$build/tests/examples/digits
data=${top_srcdir:-.}/tests/examples/data
grind="valgrind --quiet --error-exitcode=9 --leak-check=full --num-callers=25
    --show-leak-kinds=definite,indirect,possible
    --errors-for-leak-kinds=definite,indirect,possible
    --suppressions=${top_srcdir:-.}/tests/ucx/ucx.supp"

# Valgrind makes the arithmetic fifty times slower; twenty steps reach every line of the library that 200 do.
# shellcheck disable=SC2086 # a command line
{
    COLL_BACKEND=tcp check "the example, 2 threads over tcp" \
        $grind "$example" --data "$data" --steps 20 --in-process 2
    COLL_BACKEND=simulated check "a sum of one rank over simulated" \
        $grind "$build/tests/examples/hello"
    COLL_BACKEND=tcp check "a sum of 3 processes over tcp" \
        "$build/coll" run -n 3 -- $grind "$build/tests/examples/hello"
    if can ucx; then
        COLL_BACKEND=ucx check "sums of 2 threads over ucx" \
            $grind "$build/coll" perf -t 2 -s 8,300K -n 1 -w 0 allreduce
        COLL_BACKEND=ucx check "a sum of 3 processes over ucx" \
            "$build/coll" run -n 3 -- $grind "$build/tests/examples/hello"
    fi
}
COLL_BACKEND=nosuch check "a failed start" sh -c '
    valgrind --quiet --error-exitcode=9 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect "$1" >/dev/null 2>"$2"
    status=$?
    [ $status -eq 1 ] || cat "$2"
    rm -f "$2"
    [ $status -eq 1 ]' sh "$build/tests/examples/hello" "$(mktemp)"

done_testing
