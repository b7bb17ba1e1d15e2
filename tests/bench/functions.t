#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# functions.t - how many functions of the library a small call enters: so many a reader has to follow.  Builds the library
# anew with -finstrument-functions; `sh tests/bench/functions.t list` prints the functions, in the order of their entry.
. "${top_srcdir:-.}/tests/lib/tap.sh"

# The most functions of an 8-byte allreduce over tcp with its coll_sync, on one rank.
first=121
repeated=59

[ -z "$TEST_SANITIZE" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"
case $(${TEST_CC:-cc} --version) in
*"Free Software Foundation"*) ;;
*) skip_all "the limits are for gcc" ;;
esac

source=$(cd "${top_srcdir:-.}" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

build() {
    copy_source "$dir/source" && mkdir "$dir/build" || return
    cd "$dir/build" || return
    "$dir/source/configure" -q CC="${TEST_CC:-cc}" CFLAGS='-O0 -finstrument-functions' >/dev/null || return
    nice -n 10 make -s libcoll.la coll_tcp.la >/dev/null || return
    ${TEST_CC:-cc} -D_GNU_SOURCE -I"$source/include" -rdynamic -o functions "$source/tests/bench/functions.c" -L.libs \
        "-Wl,-rpath,$dir/build/.libs" -lcoll -ldl
}
functions() {
    (cd "$dir/build" && COLL_BACKEND=tcp COLL_PLUGIN_PATH="$dir/build/.libs" COLL_TRUST="$dir" ./functions "$@")
}

check "the library is built with -finstrument-functions" build
if [ "${1:-}" = list ]; then
    functions list | while read -r line; do
        case $line in
        0x*) addr2line -f -e "$dir/build/.libs/libcoll.so" "$line" | head -n 1 ;;
        *) echo "$line" ;;
        esac
    done
    exit
fi
functions >"$dir/counts" 2>&1
sed 's/^/# /' "$dir/counts"
check "the first call enters at most $first functions" \
    test "$(sed -n 's/^first //p' "$dir/counts")" -le "$first"
check "a repeated call enters at most $repeated functions" \
    test "$(sed -n 's/^repeated //p' "$dir/counts")" -le "$repeated"
done_testing
