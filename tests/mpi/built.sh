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
make -s -j "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)" coll coll_mpi.la coll_tcp.la
# Open MPI refuses root else.
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export COLL_PLUGIN_PATH="$build/.libs" COLL_TRUST="$build"
status=0
for ranks in 2 3 4; do
    "$@" -n $ranks ./coll check --launched --no-fork --quick .libs/coll_mpi.so >out || status=$?
    grep -A 5 -e '^not ok' -e '^# [0-9]* checks' out || echo "$ranks ranks: no report"
done

# A rank dies, and the launcher lets the others live.
make -s tests/mpi/program
export COLL_BACKEND=mpi
printf 'trap "" USR1\n"$@"\nexit $?\n' >alive.sh
case $("$1" --version 2>&1 || true; "$1" -V 2>&1 || true) in
*HYDRA*) survive=-disable-auto-cleanup ;;
*OpenRTE*) survive=--enable-recovery ;;
*) survive='--with-ft ulfm' ;;
esac
"$@" $survive -n 3 sh alive.sh tests/mpi/program die >out || true
case $(sort -u out) in
'rank 2 lost, 2 of 2 go on') echo "a rank died: the others know it, and go on without it" ;;
*) status=1 && cat out ;;
esac
exit $status
