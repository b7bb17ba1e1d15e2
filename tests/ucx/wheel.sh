#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# wheel.sh - tests the ucx backend against another UCX than the system's: tests/ucx/wheel.sh DIR, where
# DIR holds include and lib, as in the unpacked wheel libucx or in a prefix.  Builds this tree, which
# must have a configure script, in a temporary directory.  Not run by `make check`.
set -eu

[ $# -eq 1 ] && [ -d "$1/include/ucp" ] && [ -e "$1/lib/libucp.so.0" ] || {
    echo "usage: $0 DIR, with DIR/include/ucp and DIR/lib/libucp.so.0" >&2
    exit 2
}
ucx=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

cd "$build"
"$source/configure" -q --with-ucx="$ucx"
make -s -j "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
COLL_BACKEND=ucx ./coll info | grep 'UCX [0-9]'
status=0
make check TESTS=tests/ucx/ucx.t || status=$?
[ $status -eq 0 ] || cat tests/ucx/ucx.log
exit $status
