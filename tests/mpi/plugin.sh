#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# plugin.sh - builds the mpi backend for the MPI of a compiler, in a copy of this tree: tests/mpi/plugin.sh COMPILER FILE, such
# as tests/mpi/plugin.sh mpicc.openmpi /tmp/coll_mpi.so.  The tree must have a configure script.
set -eu

[ $# -eq 2 ] || {
    echo "usage: $0 COMPILER FILE" >&2
    exit 2
}
top_srcdir=$(cd "$(dirname "$0")/../.." && pwd)
. "$top_srcdir/tests/lib/tap.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy_source "$work/source"
mkdir "$work/build"
cd "$work/build"
"$work/source/configure" -q --with-mpi="$1" >log 2>&1 &&
    make -s -j "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)" coll_mpi.la >>log 2>&1 || {
    tail -n 20 log
    exit 1
}
cp .libs/coll_mpi.so "$2"
