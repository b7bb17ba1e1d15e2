#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# build.sh - builds and installs libcoll into the prefix of conda's environment.
set -eu
./configure --prefix="$PREFIX" --with-nccl=no --with-cuda=no --with-ucx="$PREFIX" --with-sodium="$PREFIX"
make -j "${CPU_COUNT:-1}"
make install
