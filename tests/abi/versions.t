#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# versions.t - the versions of coll-versions(7): of the release, of the library's file, and of its symbols; and a program that was
# linked before the symbols had versions.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd) || exit 1
libs=$(cd "${top_builddir:-.}" && pwd)/.libs || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# ---- the release ----

# macro NAME HEADER: the value of a macro.
macro() {
    sed -n "s/^#define $1 //p" "$src/include/coll/$2"
}
release=$(sed -n 's/^AC_INIT(\[libcoll\], \[\(.*\)\])$/\1/p' "$src/configure.ac")
is "coll.h has the release of configure.ac" \
    "$(macro COLL_VERSION_MAJOR coll.h).$(macro COLL_VERSION_MINOR coll.h).$(macro COLL_VERSION_PATCH coll.h)" "$release"
is "so has the first entry of CHANGELOG.md" "$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$src/CHANGELOG.md" | head -n 1)" "$release"
is "so has debian/changelog" "$(sed -n '1s/^libcoll (\(.*\)-[^-]*) .*/\1/p' "$src/debian/changelog")" "$release"
for recipe in spack/package.py libcoll.spec conda/meta.yaml; do
    check "so has $recipe" grep -qF "$release" "$src/conf/packages/$recipe"
done

# ---- the file ----

minor=$(macro COLL_BACKEND_ABI_MINOR backend.h)
is "the library's version counts the minors of the plugin ABI" \
    "$(sed -n 's/^LIBCOLL_VERSION_INFO = \([0-9]*\):[0-9]*:\([0-9]*\)$/\1 \2/p' "$src/core/Makefile.inc")" "$((minor + 1)) $minor"
soname=$(readelf -d "$libs/libcoll.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
is "its name is libcoll.so.1" "$soname" libcoll.so.1
has "the file is libcoll.so.1.$minor.R" "$libs/libcoll.la" "^library_names='libcoll\.so\.1\.$minor\.[0-9]+ "

# ---- the symbols ----

for table in "$src"/tests/abi/symbols-*.txt; do
    version=$(basename "$table" .txt | sed 's/symbols-//')
    sed "/^#/d; s/\$/@@COLL_$version/" "$table"
done | sort >"$scratch/wanted"
if [ -z "$TEST_SANITIZE" ]; then
    nm -D --defined-only "$libs/libcoll.so" | awk '$2 != "A" { print $3 }' | sort >"$scratch/found"
    none "each function has the minor that brought it as its symbol version (core/libcoll.map)" \
        "$(diff "$scratch/wanted" "$scratch/found")"
else
    skip "each function has the minor that brought it as its symbol version" "the sanitizer adds symbols"
fi
none "debian/libcoll1.symbols names each of these versions" "$(sed 's/.*@@//' "$scratch/wanted" | sort -u |
    while read -r version; do
        grep -q "^ (symver)$version " "$src/debian/libcoll1.symbols" || echo "$version"
    done)"

# ---- programs of before and after ----

# stub DIR [FLAG...]: a libcoll.so.1 in DIR with the symbols of $scratch/wanted, to link programs with.
stub() {
    stub_dir=$1
    shift
    mkdir -p "$stub_dir"
    sed 's/@@.*//; s/.*/int &(void); int &(void) { return 0; }/' "$scratch/wanted" |
        ${TEST_CC:-cc} -x c -shared -fPIC -Wl,-soname,libcoll.so.1 "$@" -o "$stub_dir/libcoll.so.1" - &&
        ln -sf libcoll.so.1 "$stub_dir/libcoll.so"
}
# program NAME DIR: tests/examples/hello.c linked with the libcoll in DIR.
program() {
    # shellcheck disable=SC2086 # flags are words
    ${TEST_CC:-cc} $TEST_CFLAGS -I"$src/include" -o "$scratch/$1" "$src/tests/examples/hello.c" -L"$2" -lcoll -Wl,--allow-shlib-undefined
}
# needs NAME: the symbol versions of libcoll that the program needs.
needs() {
    readelf -V "$scratch/$1" | sed -n 's/.*Name: \(COLL_[0-9.]*\).*/\1/p'
}
check "a program links with a libcoll without symbol versions" stub "$scratch/plain"
check "which is the program of before" program before "$scratch/plain"
none "that program needs no version of a symbol" "$(needs before)"
LD_LIBRARY_PATH=$libs "$scratch/before" >"$scratch/out" 2>"$scratch/err"
is "it runs with this libcoll" "$? $(cat "$scratch/err")" "0 "
LD_LIBRARY_PATH=$libs LD_BIND_NOW=1 "$scratch/before" >"$scratch/out" 2>&1
check "with all its symbols found" test $? -eq 0

check "a program links with this libcoll" program after "$libs"
has "it needs COLL_1.0" "$(needs after >"$scratch/needs"; echo "$scratch/needs")" '^COLL_1\.0$'
sed 's/.*/int later(void); int later(void) { return 0; }/; q' "$scratch/wanted" >"$scratch/later.c"
echo 'COLL_0.0 { global: later; local: *; };' >"$scratch/older.map"
older() {
    mkdir -p "$scratch/older"
    ${TEST_CC:-cc} -shared -fPIC -Wl,-soname,libcoll.so.1 -Wl,--version-script="$scratch/older.map" \
        -o "$scratch/older/libcoll.so.1" "$scratch/later.c"
}
check "an older libcoll has other symbol versions" older
LD_LIBRARY_PATH=$scratch/older "$scratch/after" >"$scratch/out" 2>&1
check "with that one it does not start" test $? -ne 0
has "and the loader names the version" "$scratch/out" "version .COLL_1\.0' not found"

done_testing
