#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_bad.t - each plugin of tests/plugins/bad has one fault, and `coll check` names that one and no other: the
# line "fails: CHECK" at the top of its file says which.  With --stop, checks of later groups do not repeat it.  With the line "needs: libcuda.so.1" it is checked over the
# stand-in for the CUDA driver.
. "${top_srcdir:-.}/tests/lib/tap.sh"

[ -z "$TEST_SANITIZE" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"

src=${top_srcdir:-.}
build=${top_builddir:-.}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/driver"
cp "$build/tests/fakes/.libs/libcuda.so.1" "$scratch/driver/"

# driver_of NAME: the directory of the driver that this plugin needs, with a colon.
driver_of() {
    ! grep -q '^/\* needs: libcuda.so.1 \*/$' "$src/tests/plugins/bad/coll_$1.c" ||
        echo "$scratch/driver:"
}

# failures_of NAME...: builds each plugin and writes to $scratch/NAME the checks that it does not pass.
failures_of() {
    for name in "$@"; do
        # shellcheck disable=SC2086 # flags are words
        ${TEST_CC:-cc} $TEST_CFLAGS -fPIC -fvisibility=hidden -shared -pthread -I"$src/include" \
            -iquote "$src/core" -o "$scratch/coll_$name.so" "$src/tests/plugins/bad/coll_$name.c" \
            "$build/.libs/libcore_socket.a" "$build/.libs/libcore_base.a" -Wl,--exclude-libs,ALL \
            >"$scratch/$name.tap" 2>&1 &&
            LD_LIBRARY_PATH=$(driver_of "$name")$LD_LIBRARY_PATH "$build/coll" check --quick --stop \
                --ranks 1-2 "$scratch/coll_$name.so" >>"$scratch/$name.tap" 2>&1
        sed -n 's/^not ok [0-9]* - \([a-z0-9-]*\):.*/\1/p' "$scratch/$name.tap" >"$scratch/$name"
        grep -q '^1\.\.' "$scratch/$name.tap" || echo "no report" >>"$scratch/$name"
    done
}

names=$(for file in "$src"/tests/plugins/bad/coll_*.c; do basename "$file" .c | sed 's/^coll_//'; done)
check "there is a dozen of them" test "$(echo "$names" | wc -l)" -ge 12

# Four runs at a time, because most of a run is waiting.
for share in 0 1 2 3; do
    failures_of $(echo "$names" | awk "NR % 4 == $share") &
done
wait

for name in $names; do
    wanted=$(sed -n 's|^/\* fails: \(.*\) \*/$|\1|p' "$src/tests/plugins/bad/coll_$name.c")
    why=$(sed -n 's|^/\* coll_[a-z]*\.c - \(.*\)\. \*/$|\1|p' "$src/tests/plugins/bad/coll_$name.c")
    check "$name fails '$wanted' only ($why)" \
        sh -c '[ "$(cat "$1")" = "$2" ] || { cat "$1"; grep -A 2 "^not ok" "$3"; exit 1; }' \
        sh "$scratch/$name" "$wanted" "$scratch/$name.tap"
done

done_testing
