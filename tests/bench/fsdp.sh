#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fsdp.sh - measures steps of PyTorch's FSDP1 over coll and over Gloo, alone and beside programs that spin: fsdp.py.
#
#   make bench-fsdp                           some ten minutes on two processors that nobody else uses
#   BENCH_PYTHON=DIR/bin/python3              a Python with PyTorch 2.5 or later and the package coll_torch (bindings/torch)
#   BENCH_NEIGHBOURS="0 2 6"                  so many programs spin meanwhile, one after the other
#   BENCH_RANKS="2 4"                         numbers of ranks
#   BENCH_ROUNDS=9                            rounds, in each of which both backends take turns
#   BENCH_STEPS=30                            measured steps of a turn
#   BENCH_LIMIT=1800                          seconds after which a job is ended, and the programs beside it
#
# No rank is bound to a processor, as under torchrun.  Prints the table, in which the rows end where a job fails.  The status is
# that of the last job that failed, or 0.
set -u

src=${top_srcdir:-.}
build=$(cd "${top_builddir:-.}" && pwd)
python=${BENCH_PYTHON:-python3}
limit=${BENCH_LIMIT:-1800}
# The libcoll of this build, also where coll_torch was linked with an installed one.
export LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export COLL_BACKEND=tcp OMP_NUM_THREADS=1

# What runs beside this script: the programs that spin, and the job.
pids=()
end_programs() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null
    pids=()
}
trap end_programs EXIT
trap 'exit 130' INT TERM HUP

# measure PROGRAMS RANKS: prints the rows; the status is the job's.
measure() {
    local i status=0
    for ((i = 0; i < $1; i++)); do
        timeout "$limit" sh -c 'while :; do :; done' &
        pids+=($!)
    done
    # In the background, so that a signal ends the wait at once.
    timeout "$limit" "$build/coll" run -n "$2" --no-prefix --bind-to none -- "$python" "$src/tests/bench/fsdp.py" \
        --programs "$1" --rounds "${BENCH_ROUNDS:-9}" --steps "${BENCH_STEPS:-30}" coll gloo </dev/null &
    pids+=($!)
    wait $! || status=$?
    unset 'pids[-1]'
    end_programs
    wait
    [ $status = 0 ] || echo "fsdp.sh: $1 programs, $2 ranks: status $status" >&2
    return $status
}

"$python" -c 'import torch.distributed as d; d.Backend.COLL' 2>/dev/null || {
    echo "fsdp.sh: $python has no PyTorch 2.5 or later with coll_torch; install bindings/torch there, or set BENCH_PYTHON" >&2
    exit 2
}

echo "| programs | ranks | a step | coll: mean, ms | median | Gloo: mean, ms | median | coll / Gloo, mean |"
echo "|---|---|---|---|---|---|---|---|"
failed=0
for programs in ${BENCH_NEIGHBOURS:-0 2 6}; do
    for ranks in ${BENCH_RANKS:-2 4}; do
        measure "$programs" "$ranks" || failed=$?
    done
done
exit $failed
