#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# leaks.t - valgrind finds no leak and no invalid access in the example.
. "${top_srcdir:-.}/tests/tap.sh"

command -v valgrind >/dev/null || skip_all "valgrind is not installed"
[ -z "$TEST_SANITIZE" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"

build=${top_builddir:-.}
data=${top_srcdir:-.}/tests/data
grind() {
    valgrind --quiet --error-exitcode=9 --leak-check=full --num-callers=25 --trace-children=no \
        --errors-for-leak-kinds=definite,indirect,possible \
        --show-leak-kinds=definite,indirect,possible "$@"
}

for backend in simulated tcp; do
    COLL_BACKEND=$backend check "2 threads over $backend" \
        grind "$build/tests/examples/digits" --data "$data" --in-process 2
done
COLL_BACKEND=tcp check "2 processes over tcp" "$build/coll" run -n 2 -- \
    valgrind --quiet --error-exitcode=9 --leak-check=full --num-callers=25 \
    --errors-for-leak-kinds=definite,indirect,possible "$build/tests/examples/digits" --data "$data"
COLL_BACKEND=nosuch check "a failed start" sh -c '
    valgrind --quiet --error-exitcode=9 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect "$1" >/dev/null 2>"$2"
    status=$?
    [ $status -eq 1 ] || cat "$2"
    rm -f "$2"
    [ $status -eq 1 ]' sh "$build/tests/examples/hello" "$(mktemp)"

done_testing
