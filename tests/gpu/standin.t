#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# standin.t - the program of `make check-gpu` on stand-ins for the CUDA driver and NCCL, so that it
# works when there is a GPU.  `make check-long` runs 1, 2 and 4 ranks with a device each, and 2 that share one.
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
fakes=$(mktemp -d) || exit 1
trap 'rm -rf "$fakes"' EXIT

# A directory with these two only: the stand-in for an old UCX, which is beside them, would
# interfere.
ln -s "$build/tests/fakes/.libs/libcuda.so.1" "$build/tests/fakes/.libs/libnccl.so.2" "$fakes/"
export LD_LIBRARY_PATH=$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export STANDIN_CUDA_DEVICES=4 GPU_RESULTS=
# The limit catches hangs; it is long because the machine may be busy.
export GPU_LIMIT=300
[ "${TEST_LEVEL-}" = long ] || export GPU_QUICK=1
bash "${top_srcdir:-.}/tests/gpu/run.sh"
