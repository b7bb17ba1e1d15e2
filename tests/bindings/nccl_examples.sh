#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl_examples.sh NCCL [DEVICES]... - NVIDIA's host examples over tcp: builds docs/examples/*/*/c/main.cc of a copy of
# the NCCL repository, unmodified, with its own nccl.h, CUDA's headers and the stand-ins for CUDA's driver and runtime;
# runs them on so many devices (2 4) and prints a line for each.  To be run in the folder of the build, after
# `make check TESTS=`.  bindings/nccl/RESULTS.md has its table.
set -eu
nccl=$1
shift
[ $# -gt 0 ] || set -- 2 4
build=$(pwd)
fakes=$build/tests/fakes/.libs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export COLL_PLUGIN_PATH="$build/.libs" COLL_TRUST="$build" COLL_BACKEND=tcp

# As NCCL's own build makes nccl.h.
version=$(sed -n 's/^NCCL_\(MAJOR\|MINOR\|PATCH\) *:= *//p' "$nccl/makefiles/version.mk" | tr '\n' ' ')
# shellcheck disable=SC2086 # three numbers
set_version() {
    sed "s/\${nccl:Major}/$1/; s/\${nccl:Minor}/$2/; s/\${nccl:Patch}/$3/; s/\${nccl:Suffix}//
        s/\${nccl:Version}/$(($1 * 10000 + $2 * 100 + $3))/" "$nccl/src/nccl.h.in" >"$dir/nccl.h"
}
# shellcheck disable=SC2086
set_version $version
echo "NCCL $version"

# compile NAME COMPILER...: $dir/program
compile() {
    source=$nccl/docs/examples/$1/c/main.cc
    shift
    more=
    grep -q 'util_broadcast' "$source" && more=$nccl/docs/examples/common/src/utils.cc
    # shellcheck disable=SC2086 # no file
    "$@" -o "$dir/program" -I "$dir" -I "$nccl/docs/examples/common/include" \
        -isystem "${CUDA_INCLUDE:-/usr/local/cuda/include}" "$source" $more -L "$build/bindings/nccl/.libs" -lnccl \
        -L "$fakes" -lcudart -pthread "-Wl,-rpath-link,$build/.libs:$fakes"
}

for n; do
    for source in "$nccl"/docs/examples/*/*/c/main.cc; do
        name=${source#"$nccl/docs/examples/"}
        name=${name%/c/main.cc}
        status=0
        case $name in
        *_mpi)
            compile "$name" mpicxx -DMPI_SUPPORT
            LD_LIBRARY_PATH=$build/bindings/nccl/.libs:$build/.libs:$fakes STANDIN_CUDA_DEVICES=$n timeout 600 \
                mpirun --allow-run-as-root --oversubscribe -n "$n" "$dir/program" >"$dir/out" 2>&1 || status=$?
            ;;
        *)
            compile "$name" c++
            LD_LIBRARY_PATH=$fakes STANDIN_CUDA_DEVICES=$n timeout 600 \
                "$build/coll" run --nccl --no-prefix "$dir/program" >"$dir/out" 2>&1 || status=$?
            ;;
        esac
        echo "$name, $n devices: status $status"
        [ $status = 0 ] || grep -v '^coll warn' "$dir/out" | tail -n 3
    done
done
