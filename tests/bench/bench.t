#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench.t - the benchmarks' programs and tables work: few engines, two sizes, a moment a row.  No time is judged.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
operations="allreduce allgather broadcast reduce_scatter alltoall reduce barrier ping_pong group"

# Its programs check their results: a wrong sum makes a row "failed".
OPENMPI_DIR=$dir MPICH_DIR=$dir BENCH_ENGINES="tcp simulated bare tcp-sockets bare-sockets" BENCH_SIZES="8 64K" BENCH_ROUNDS=1 BENCH_MS=2 \
    BENCH_ROWS=$dir/rows BENCH_RESULTS=$dir/results \
    bash "${top_srcdir:-.}/tests/bench/run.sh" >"$dir/out" 2>"$dir/err"
is "the benchmark runs" "$? $(grep -i -e failed -e expected "$dir/err")" "0 "

for engine in tcp simulated bare tcp-sockets bare-sockets; do
    lacking=
    for operation in $operations; do
        for size in $([ $operation = barrier ] && echo 0 || echo 8 65536); do
            awk -F'|' -v op=$operation -v size="$size" -v engine=$engine \
                '$2 == op && $3 == size && $4 == engine && $6 > 0 && $6 < 1e7 { found = 1 } END { exit !found }' \
                "$dir/rows" || lacking="$lacking $operation:$size"
        done
    done
    none "$engine has a time for every operation and size" "$lacking"
done
is "the tables have every row" "$(grep -c '^| [a-z_]* | [0-9K]* |.*(' "$dir/results")" 34
has "a peer that was not found is named with the reason" "$dir/results" 'mpich is not there: .*MPICH_DIR'
has "its cell says so" "$dir/results" '^\| allreduce \| 8 \|.* not there \|'

# Hand-made rows whose ratios are known: tcp loses in both rounds, ucx in one.
for round in 1 2; do
    echo "2|reduce|8|tcp|$round|3.0|c"
    echo "2|reduce|8|ucx|$round|$round.0|c"
    echo "2|reduce|8|mpich|$round|1.5|c"
    echo "2|reduce|8|openmpi|$round|9|c"
    echo "2|reduce|8|bare|$round|0.5|c"
done >"$dir/made"
awk -F'|' -v shm="tcp ucx openmpi mpich bare" -v net="tcp-sockets bare-sockets" -v operations="$operations" \
    -f "${top_srcdir:-.}/tests/bench/table.awk" "$dir/made" >"$dir/table"
has "the best peer and the ratios" "$dir/table" \
    'mpich \| \*\*2.00 \(2.00-2.00\)\*\* \| 6.00 \(6.00-6.00\) \| 1.00 \(0.67-1.33\) \| 3.00'
is "a row is lost if it is lost in every round" "$(sed -n '/^## Rows/,$p' "$dir/table" | grep -c '^| 2 |')" 1

BENCH_RANKS=2 BENCH_COMMS=8 BENCH_ENGINES="tcp tcp-unix simulated" BENCH_RESULTS=$dir/memory \
    bash "${top_srcdir:-.}/tests/bench/memory.sh" >"$dir/out" 2>"$dir/err"
is "the measurement of memory runs" "$? $(grep -i failed "$dir/out" "$dir/err")" "0 "
lacking=
for engine in tcp tcp-unix simulated; do
    # Init takes memory, and so does a communicator: one page at least, some megabytes at most.
    awk -F'[|/]' -v engine=" $engine " '$3 == engine && $4 > 4 && $4 < 65536 && $10 > 1 && $10 < 1024 { found = 1 }
        END { exit !found }' "$dir/memory" || lacking="$lacking $engine"
done
none "each engine has its memory by rank and by communicator" "$lacking"
# The rings are there before the end of the allreduce of 1 MiB.
is "the rings of tcp count, and none without them" \
    "$(awk -F'|' '/^. 2 .*tcp/ { printf "%d ", ($11 > 0) }' "$dir/memory")" "1 0 "

done_testing
