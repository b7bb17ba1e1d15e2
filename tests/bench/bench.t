#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench.t - the benchmarks' programs and tables work: few engines, two sizes, a moment a row.  No time is judged.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
operations="allreduce allgather broadcast reduce_scatter alltoall reduce barrier ping_pong group"
engines="tcp simulated bare tcp-sockets bare-sockets"

# run_bench ENGINES: a moment of each row, into $dir/rows and $dir/results.
run_bench() {
    BENCH_NS=${BENCH_NS:-any} BENCH_ENGINES=$1 BENCH_SIZES="8 64K" BENCH_ROUNDS=1 BENCH_MS=2 BENCH_ROWS=$dir/rows BENCH_RESULTS=$dir/results \
        bash "${top_srcdir:-.}/tests/bench/run.sh" >"$dir/out" 2>"$dir/err"
}

# lacking ENGINE OPERATION...: those sizes of the operations that have no time.
lacking() {
    local engine=$1 operation size
    shift
    for operation; do
        for size in $([ "$operation" = barrier ] && echo 0 || echo 8 65536); do
            awk -F'|' -v op="$operation" -v size="$size" -v engine="$engine" \
                '$2 == op && $3 == size && $4 == engine && $6 > 0 && $6 < 1e7 { found = 1 } END { exit !found }' \
                "$dir/rows" || echo "$operation:$size"
        done
    done
}

# Its programs check their results: a wrong sum makes a row "failed".
OPENMPI_DIR=$dir MPICH_DIR=$dir run_bench "$engines"
is "the benchmark runs" "$? $(grep -i -e failed -e expected "$dir/err")" "0 "

# shellcheck disable=SC2086 # a list
for engine in $engines; do
    none "$engine has a time for every operation and size" "$(lacking "$engine" $operations)"
    case $engine in
    bare*) ;;
    *) none "$engine has sums of 16-bit types" "$(lacking "$engine" allreduce_f16 allreduce_bf16)" ;;
    esac
done
is "the tables have every row" "$(grep -c '^| [a-z_0-9]* | [0-9K]* | none |' "$dir/results")" 42
has "a peer that was not found is named with the reason" "$dir/results" 'mpich is not there: .*MPICH_DIR'
has "its cell says so" "$dir/results" '^\| allreduce \| 8 \|.* not measured \|'

if [ -e "${UCC_DIR:-/usr}/include/ucc/api/ucc.h" ]; then
    run_bench ucc
    # shellcheck disable=SC2086 # a list
    none "UCC has a time for its operations" "$(lacking ucc ${operations/ping_pong/} allreduce_bf16)"
else
    skip "UCC has a time for its operations" "UCC is not installed: no ucc/api/ucc.h in UCC_DIR or /usr"
fi

# A program that neither ends nor fails is ended, and the rest goes on.
mkdir -p "$dir/mpi/bin"
printf '#!/bin/sh\nfor program; do :; done\ntouch "$program"\n' >"$dir/mpi/bin/mpicc"
printf '#!/bin/sh\necho allreduce 8 any 5.0 3 5.0\necho allreduce 65536 begun\nexec sleep 60\n' >"$dir/mpi/bin/mpirun"
printf '#!/bin/sh\necho no such thing >&2\nexit 3\n' >"$dir/mpi/bin/mpiexec"
chmod +x "$dir/mpi/bin/"*
BENCH_LIMIT=-1 BENCH_OPS="allreduce group" OPENMPI_DIR=$dir/mpi MPICH_DIR=$dir/mpi run_bench "openmpi mpich"
for row in "allreduce|8|openmpi|1|5.0|[^|]*|any|3" "allreduce|65536|openmpi|1|longer than 1 s" "group|8|openmpi|1|not reached" \
    "group|65536|mpich|1|failed: no such thing"; do
    has "row $row" "$dir/rows" "^2\|${row//|/\\|}(\||$)"
done

# Every look falls into one of the two ranges.  Samples amid a change are of neither, so a row waits a second for others.
BENCH_NS=0-80,80-100000000 BENCH_PATIENCE=1000 BENCH_OPS="allreduce barrier" run_bench bare
is "each row has a line for near and one for far processors" \
    "$(awk -F'|' '$4 == "bare" && $2 == "allreduce" && $8 != "neither" { print $3, $8 }' "$dir/rows" | xargs)" "8 near 8 far 65536 near 65536 far"
is "one of them has a time at least" "$(awk -F'|' '$4 == "bare" && $2 == "allreduce" && $9 > 0 && $6 > 0 { timed[$3] = 1 }
    END { print timed[8], timed[65536] }' "$dir/rows")" "1 1"
has "the head names both" "$dir/results" 'near processors if a cache line takes 0-80 ns .* far processors if it takes 80-100000000 ns'
has "and their shares of the samples" "$dir/results" 'Of [0-9]* samples [0-9]* % were of near processors, [0-9]* % of far ones'
BENCH_NS=15-50 run_bench bare
is "one range alone is refused" "$? $(grep -c 'BENCH_NS is .15-50., not' "$dir/err")" "2 1"

# Hand-made rows whose ratios are known: tcp loses in both rounds, ucx in one.
for round in 1 2; do
    echo "2|reduce|8|tcp|$round|3.0|c"
    echo "2|reduce|8|ucx|$round|$round.0|c"
    echo "2|reduce|8|mpich|$round|1.5|c"
    echo "2|reduce|8|openmpi|$round|9|c"
    echo "2|reduce|8|bare|$round|0.5|c"
    echo "2|reduce|65536|tcp|$round|3.$round|c"
    echo "2|reduce|65536|mpich|$round|3.1|c"
    echo "2|reduce|1048576|tcp|$round|10|c"
    echo "2|reduce|1048576|mpich|$round|16|c"
    echo "2|reduce|8|mpich-i|$round|1.75|c"
    echo "2|reduce|8|coll-mpich|$round|$((1 + round)).0|c"
    echo "2|reduce|8|tcp|$round|1|c|far|7"
    echo "2|reduce|8|mpich|$round|4|c|far|7"
    echo "2|reduce|1048576|tcp|$round|60|c|far|7"
    echo "2|reduce|1048576|mpich|$round|20|c|far|7"
    echo "2|reduce|8|mpich|$round|0|c|neither|3"
done >"$dir/made"
printf '# reasons\nbarrier reduce|8-1K|*|tcp|near any|Because.\nreduce|*|2|tcp|far|Far.\n' >"$dir/reasons"
awk -F'|' -v shm="tcp ucx openmpi mpich bare" -v net="tcp-sockets bare-sockets" -v over="mpich ucc" -v operations="$operations" \
    -f "${top_srcdir:-.}/tests/bench/sort.awk" -f "${top_srcdir:-.}/tests/bench/table.awk" "$dir/reasons" "$dir/made" >"$dir/table"
has "the best peer and the ratios" "$dir/table" \
    '^\| reduce \| 8 \| mpich \| \*\*2.00\*\* \| 6.00 \| 1.00 \(0.67-1.33\) \| 3.00'
has "libcoll over a peer's library beside that library" "$dir/table" \
    '^\| reduce \| 8 \| mpich \| 2.50 \(2.00-3.00\) \| 1.50 \| 1.75 \| 1.67 \(1.33-2.00\) \| 1.43 \(1.14-1.71\) \| 750 \(250 to 1250\) \|'
is "the rows within each goal are counted, of each kind" \
    "$(sed -n 's/^| [123] | [^|]* | \(. of .*\) |$/\1/p' "$dir/table" | xargs -d '\n')" \
    "0 of 1 | 1 of 1 2 of 2 | 0 of 1 1 of 1 | 0 of 1"
is "a lost row has its reason" "$(sed -n '/^## Lost/,/^## The/p' "$dir/table" | grep '^| 2 |')" \
    "| 2 | any | tcp | 1 | reduce | 8 | mpich | 2.00 | 3.00 | 1.50 | Because. |
| 2 | far | tcp | 2 | reduce | 1M | mpich | 3.00 | 60.0 | 20.0 | Far. |
| 2 | far | tcp | 3 | reduce | 1M | mpich | 3.00 | 60.0 | 20.0 | Far. |"
is "far processors have a table of their own" \
    "$(sed -n '/^## 2 ranks, shared memory, far processors/,/^## 2 ranks, TCP/s/^| reduce | \([^ ]*\) | mpich | \([^|]*\) |.*/\1 \2/p' "$dir/table" | xargs)" \
    "8 0.25 1M **3.00**"

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
# The rings are there before the end of the allreduce of 1 MiB; the pages of the ranks (option page) are smaller.
is "the rings of tcp count, and none without them" \
    "$(awk -F'|' '/^. 2 .*tcp/ { printf "%d ", ($11 > 200) }' "$dir/memory")" "1 0 "

WATCHING_ROUNDS=1 WATCHING_COUNT=no BENCH_NS=any BENCH_MS=2 BENCH_SIZES="8 64K" BENCH_RESULTS=$dir/watching \
    bash "${top_srcdir:-.}/tests/bench/watching.sh" >"$dir/out" 2>"$dir/err"
is "the measurement of watchers runs" "$?" 0
for watcher in 'nothing (`page' 'nothing, once' 'the page' '`counters' '`timeline` ' '`timeline`, without' '`log' 'observer `otlp'; do
    is "$watcher...: a time of each size" "$(grep -F "| $watcher" "$dir/watching" | grep -c '|[^|]*| [0-9.]* (')" 2
done

# Hand-made rows of two rounds.
printf '%s\n' 'nothing|1190|nothing' 'page|1200|the page' 'nothing|8|1|0.4|0.5' 'page|8|1|0.5|0.7' 'nothing|8|2|0.2|0.3' \
    'page|8|2|0.4|0.6' | awk -F'|' -v sizes=8 -f "${top_srcdir:-.}/tests/bench/sort.awk" \
    -f "${top_srcdir:-.}/tests/bench/watching.awk" >"$dir/table"
is "what a watcher costs more" "$(tail -n 1 "$dir/table")" \
    "| the page | 0.450 (0.400 to 0.500) | 150 (125 to 175) | 250 (225 to 275) | 1200 |"

done_testing
