#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# built.sh - tests the mpi backend over an MPI library without the MPI-5 ABI: tests/mpi/built.sh MPICC MPIEXEC..., such as
# tests/mpi/built.sh mpicc.mpich mpiexec.mpich or
# tests/mpi/built.sh mpicc.openmpi mpirun.openmpi --oversubscribe.  Builds this tree, which must have a configure script and
# must not be configured itself, in a temporary directory.  Not run by `make check`.
set -eu

[ $# -ge 2 ] || {
    echo "usage: $0 MPICC MPIEXEC [OPTION]..." >&2
    exit 2
}
compiler=$1
shift
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

cd "$build"
"$source/configure" -q --with-mpi="$compiler"
make -s -j "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)" coll coll_mpi.la coll_tcp.la tests/mpi/program
# Open MPI refuses root else.
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export COLL_PLUGIN_PATH="$build/.libs" COLL_TRUST="$build"
status=0
for ranks in 2 3 4; do
    "$@" -n $ranks ./coll check --launched --no-fork --quick .libs/coll_mpi.so >out || status=$?
    grep -A 5 -e '^not ok' -e '^# [0-9]* checks' out || echo "$ranks ranks: no report"
done
# MPI that polls without a pause is slow on a host with more ranks than processors.
for mode in 3:split 3:compose 2:splits 2:many; do
    COLL_BACKEND=mpi "$@" -n ${mode%:*} tests/mpi/program ${mode#*:} || {
        status=$?
        echo "not ok: the program's mode ${mode#*:}"
    }
done
exit $status
