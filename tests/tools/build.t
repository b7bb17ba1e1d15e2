#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# build.t - the words of autogen.sh, configure and make to those who build: a bad path, the summary, the time.
. "${top_srcdir:-.}/tests/lib/tap.sh"

source=$(cd "${top_srcdir:-.}" && pwd) || exit 1
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# -------------------------------------------------------- a path with a space

mkdir -p "$dir/a tree/include/coll" "$dir/a build" "$dir/plain"
cp "$source/autogen.sh" "$dir/a tree/"
cp "$source/include/coll/coll.h" "$dir/a tree/include/coll/"
status=0
(cd "$dir" && sh "./a tree/autogen.sh") >"$dir/out" 2>&1 || status=$?
is "autogen.sh in a path with a space: status 1" $status 1
is "it says so in one line and does nothing" "$(cat "$dir/out"; ls "$dir/a tree")" \
    "autogen.sh: the path '$dir/a tree' holds a space: make cannot build there. Move the tree, for example to /tmp/libcoll
autogen.sh
include"

# refused NAME DIRECTORY CONFIGURE
refused() {
    status=0
    (cd "$2" && "$3") >"$dir/out" 2>&1 || status=$?
    is "$1: status 1" $status 1
    has "$1: the path is named" "$dir/out" "error: the path '.*' or .* holds a space: make cannot build there"
    none "$1: no check runs before" "$(grep '^checking' "$dir/out")"
}
if [ -x "$source/configure" ]; then
    cp "$source/configure" "$dir/a tree/"
    cp -R "$source/build-aux" "$dir/a tree/"
    refused "configure in a tree with a space in its path" "$dir/a tree" ./configure
    refused "configure of a tree with a space in its path" "$dir/plain" "../a tree/configure"
    mkdir "$dir/tree"
    cp -R "$dir/a tree"/* "$dir/tree/"
    refused "configure in a build folder with a space in its path" "$dir/a build" ../tree/configure
else
    skip "configure in a path with a space" "no configure in $source"
fi

# ------------------------------------------------------- what configure found

if [ -x "$build/config.status" ]; then
    sed -n '/^  backends /,/^  Next/p' "$source/configure" >"$dir/out"
    has "the summary lists nccl among the backends" "$dir/out" '^  backends  .* nccl'
    has "and says when it opens NCCL" "$dir/out" '^  nccl +opens NCCL .* when a program asks for it'
    none "no line denies it" "$(grep '^  NCCL' "$dir/out")"
fi

# -------------------------------------------------------------- make's output

make_says() {
    (unset MAKEFLAGS MFLAGS MAKELEVEL && make -C "$build" "$@") >"$dir/out" 2>&1
}
if [ -f "$build/Makefile" ] && command -v make >/dev/null; then
    make_says -n dist
    has "make dist packs with gzip" "$dir/out" 'gzip'
    none "make dist does not need xz" "$(grep -w xz "$dir/out")"
    make_says -s check-duration
    has "make check says how many tests there are, and the time they take" "$dir/out" \
        '^make check runs [0-9]+ tests: about [a-z]+ minutes'
    has "and how to run one" "$dir/out" 'make check TESTS=tests/api/split_test runs one'
    make_says -s check-duration TESTS=tests/api/split_test
    none "of one test it says no time" "$(cat "$dir/out")"
else
    skip "make dist, and the time of make check" "no Makefile or no make"
fi

done_testing
