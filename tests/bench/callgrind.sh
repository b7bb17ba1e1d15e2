#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# callgrind.sh - for the tests that count instructions, after tap.sh: what such a test needs, and the build of its program.

# callgrind_needed: skips the test where callgrind cannot count the library's own instructions.
callgrind_needed() {
    command -v valgrind >/dev/null || skip_all "valgrind is not installed"
    [ -z "$TEST_SANITIZE" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"
}

# limits_hold: skips the test where a limit, which is for gcc -O2 on x86-64, says nothing.
limits_hold() {
    [ "$(uname -m)" = x86_64 ] || skip_all "the limit is for x86-64"
    case $(${TEST_CC:-cc} --version) in
    *"Free Software Foundation"*) ;;
    *) skip_all "the limit is for gcc" ;;
    esac
    case ${TEST_CFLAGS--O2} in
    *-O2* | *-O3*) ;;
    *) skip_all "the limit is for -O2, not for CFLAGS='$TEST_CFLAGS'" ;;
    esac
}

# build_counted NAME LIBRARY...: checks that tests/bench/NAME.c builds with libcoll and these libraries.  Sets $build, and $dir, where
# the program is.
build_counted() {
    build=$(cd "${top_builddir:-.}" && pwd)
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    counted=$1
    shift
    # shellcheck disable=SC2086 # the compiler's flags are a list
    check "the program builds" ${TEST_CC:-cc} ${TEST_CFLAGS:-} -I"${top_srcdir:-.}/include" -o "$dir/$counted" \
        "${top_srcdir:-.}/tests/bench/$counted.c" -L"$build/.libs" "-Wl,-rpath,$build/.libs" -lcoll "$@"
}
