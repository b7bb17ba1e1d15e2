#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# select.t - run.sh runs the themes and backends that it is asked for, and shows what it has when it is ended early.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/fakes"
ln -s "$build/tests/fakes/.libs/libcuda.so.1" "$build/tests/fakes/.libs/libnccl.so.2" "$dir/fakes/"
export LD_LIBRARY_PATH="$dir/fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export STANDIN_CUDA_DEVICES=2 GPU_RESULTS='' GPU_LIMIT=300 GPU_BACKENDS=tcp GPU_RANKS=2

status=0
GPU_THEMES=stream bash "${top_srcdir:-.}/tests/gpu/run.sh" >"$dir/out" 2>"$dir/err" || status=$?
is "one theme over one backend" "$status" 0
is "nothing else was run" "$(grep -c '^# run' "$dir/out")" 1
has "its row in the table" "$dir/out" '^\| staging over tcp \| stream \| 2 \| own \| [1-9][0-9]* \| 0 \| 0 \|'

bash "${top_srcdir:-.}/tests/gpu/run.sh" >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in $(seq 600); do
    ! grep -q '^# run' "$dir/out" || break
    sleep 0.2
done
kill -TERM $pid
status=0
wait $pid || status=$?
is "a run that is ended has failed" "$status" 1
has "but it prints the tables" "$dir/out" '^# Results on GPUs'
has "with what it has" "$dir/out" '^\| staging over tcp \| overlap \| 2 \|'
done_testing
