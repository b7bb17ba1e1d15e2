#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# exports.t - libcoll exports exactly the functions of coll.h; a plugin exports one symbol, needs
# none of libcoll, and is linked so that faults show at load and it stays loaded.
. "${top_srcdir:-.}/tests/lib/tap.sh"

include=${top_srcdir:-.}/include
libs=${top_builddir:-.}/.libs

# AddressSanitizer adds an indicator symbol for each global variable; ignore these symbols.
defined() {
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//; /^__odr_asan\./d' |
        sort
}

# Puts one declaration on each line without attributes, then takes the word before the first
# parenthesis.
declared() {
    echo '#include <coll/coll.h>' | ${TEST_CC:-cc} -I"$include" -E -P - | tr '\n' ' ' |
        tr ';' '\n' | sed -n 's/^.*__attribute__((visibility("default")))//p' |
        sed 's/(.*//; s/.*[ *]\(coll_\)/\1/; s/ *$//' | sort
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
defined "$libs/libcoll.so" >"$scratch/defined"
declared >"$scratch/declared"

check "coll.h declares functions" grep -q '^coll_allreduce$' "$scratch/declared"
none "libcoll exports nothing but coll_*" "$(grep -v '^coll_' "$scratch/defined")"
none "every function of coll.h is exported" \
    "$(comm -23 "$scratch/declared" "$scratch/defined")"
none "every exported function is declared in coll.h" \
    "$(comm -13 "$scratch/declared" "$scratch/defined")"

found=0
for plugin in "$libs"/coll_*.so; do
    [ -e "$plugin" ] || continue
    found=$((found + 1))
    name=$(basename "$plugin")
    check "$name exports one symbol" test "$(defined "$plugin")" = coll_backend_v1
    none "$name needs no symbol of libcoll" \
        "$(nm -D -u "$plugin" | awk '{ print $NF }' | grep '^coll_')"
    none "$name is not linked to libcoll" "$(readelf -d "$plugin" | grep 'NEEDED.*libcoll')"
    check "$name resolves every symbol when loaded" \
        sh -c 'readelf -d "$1" | grep -q "FLAGS.*NOW"' sh "$plugin"
    check "$name stays loaded" sh -c 'readelf -d "$1" | grep -q NODELETE' sh "$plugin"
done
check "there are plugins" test "$found" -ge 2

done_testing
