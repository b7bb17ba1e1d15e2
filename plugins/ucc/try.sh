#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# try.sh - builds UCC from its public source, and tries the ucc backend over it.
#
#   plugins/ucc/try.sh [TAG [UCX]]     TAG: a release of UCC, v1.3.0 by default; UCX: the prefix of a UCX, /usr by default
#
# UCC comes to $UCC_DIR ($HOME/ucc/TAG by default), which is kept.  The tree must have a Makefile.
set -eu

tag=${1:-v1.3.0} ucx=${2:-/usr}
prefix=${UCC_DIR:-$HOME/ucc/$tag}
source=$(cd "$(dirname "$0")/../.." && pwd)
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

if [ ! -e "$prefix/lib/libucc.so.1" ]; then
    mkdir -p "$prefix"
    [ -d "$prefix/src" ] || git clone -q --depth 1 -b "$tag" https://github.com/openucx/ucc "$prefix/src"
    cd "$prefix/src"
    ./autogen.sh >autogen.log 2>&1
    ./configure --prefix="$prefix" --with-ucx="$ucx" --with-cuda=no --with-rocm=no --with-nccl=no --with-rccl=no \
        --with-mpi=no --with-sharp=no --with-tls=ucp,self >configure.log 2>&1
    make -j "$jobs" >make.log 2>&1
    make install >install.log 2>&1
fi

cd "$source"
make -s -j "$jobs" libcoll.la coll coll_ucc.la coll_tcp.la coll_simulated.la tests/plugins/coll_bare.la \
    tests/plugins/coll_engine.la tests/examples/hello tests/ucc/ucc_standin.la tests/ucc/order_test tests/ucc/random_test \
    tests/ucc/shrink_test tests/ucc/table_test
export COLL_UCC_LIBRARY="$prefix/lib/libucc.so.1"
export top_srcdir="$source" top_builddir="$source" COLL_PLUGIN_PATH="$source/.libs"
[ "$ucx" = /usr ] || export LD_LIBRARY_PATH="$ucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
COLL_BACKEND=ucc ./coll info | grep 'UCC '
tests/ucc/order_test
tests/ucc/random_test
tests/ucc/shrink_test
tests/ucc/table_test
tests/ucc/ucc.t
exec ./coll check --ranks 2-4 --option library="$COLL_UCC_LIBRARY" .libs/coll_ucc.so
