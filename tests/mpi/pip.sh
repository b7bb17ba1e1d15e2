#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# pip.sh - tests the mpi backend over the MPI libraries that pip has: tests/mpi/pip.sh [BUILD], where BUILD is a built
# tree (default: the working directory).  Installs MPICH and Intel MPI into environments of their own in BUILD/mpi-pip,
# which a second run uses again.  Not run by `make check`.
set -eu

build=$(cd "${1:-.}" && pwd)
[ -e "$build/.libs/coll_mpi.so" ] || {
    echo "usage: $0 [BUILD], with BUILD/.libs/coll_mpi.so" >&2
    exit 2
}
homes=
for package in mpich==5.0.2 impi-rt==2021.19.0; do
    home=$build/mpi-pip/${package%%=*}
    [ -e "$home/lib/libmpi_abi.so.1" ] || {
        python3 -m venv "$home"
        # Within a host Intel MPI needs none of the packages that it asks for.
        "$home/bin/pip" install -q --no-deps "$package"
    }
    homes=$homes${homes:+:}$home
done
source=$(cd "$(dirname "$0")/../.." && pwd)
make -s -C "$build" coll coll_mpi.la coll_tcp.la tests/examples/hello tests/mpi/program
export COLL_PLUGIN_PATH="$build/.libs" COLL_TRUST="$build:$source" TEST_MPI="$homes"
top_srcdir=$source top_builddir=$build exec bash "$source/tests/mpi/mpi.t"
