#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# memory.sh - the memory that libcoll takes by rank and by communicator, on one host:
#
#   make bench-memory                                  2, 16 and 128 ranks; about three minutes
#   BENCH_RANKS="2 16" make bench-memory               these numbers of ranks
#   BENCH_ENGINES="tcp ucx" make bench-memory          these engines only: tcp, tcp-unix, ucx, simulated
#   BENCH_COMMS=100 make bench-memory                  communicators of which the table has the mean
#
# Writes tests/bench/MEMORY.md of the build tree.
set -u

src=${top_srcdir:-.}
build=$(cd "${top_builddir:-.}" && pwd)
engines=${BENCH_ENGINES:-tcp tcp-unix ucx simulated}
ranks=${BENCH_RANKS:-2 16 128}
comms=${BENCH_COMMS:-100}
results=${BENCH_RESULTS:-$build/tests/bench/MEMORY.md}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export BENCH_SHARED=$work/shared

# shellcheck disable=SC2086 # the compiler's flags are a list
${TEST_CC:-cc} -std=c11 -D_GNU_SOURCE -O2 ${TEST_CFLAGS:-} -I"$src/include" -o "$work/memory" \
    "$src/tests/bench/bench_memory.c" -L"$build/.libs" "-Wl,-rpath,$build/.libs" -lcoll -lpthread >&2 || exit 1

# number ENGINE RANKS: of communicators.  Over ucx many ranks on few cores need seconds for each.
number() {
    if [ "$1" = ucx ] && [ "$2" -gt 64 ] && [ "$comms" -ge 5 ]; then
        echo $((comms / 5))
    else
        echo "$comms"
    fi
}

# start ENGINE RANKS: prints the lines of bench_memory.
start() {
    local run="timeout 120 $build/coll run --no-prefix -n $2 -- $work/memory"

    rm -f "$BENCH_SHARED"
    case $1 in
    tcp) COLL_BACKEND=tcp $run "$(number "$@")" ;;
    tcp-unix) COLL_BACKEND=tcp COLL_TCP_RING=0 $run "$(number "$@")" ;;
    ucx) COLL_BACKEND=ucx $run "$(number "$@")" ;;
    simulated) COLL_BACKEND=simulated timeout 120 "$work/memory" -t "$2" "$(number "$@")" ;;
    *) echo "memory.sh: '$1' is no engine: tcp tcp-unix ucx simulated" >&2 && return 2 ;;
    esac
}

# row ENGINE RANKS: one line of the table.
row() {
    if start "$1" "$2" >"$work/out" 2>"$work/err" </dev/null; then
        awk -v engine="$1" -v ranks="$2" -v comms="$(number "$@")" '
            { rss[$1] = $2; pss[$1] = $3; shared[$1] = $4 }
            function cell(stage) { return sprintf("%.0f / %.0f", rss[stage], pss[stage]) }
            function each(stage, before) {
                return sprintf("%.1f / %.1f", (rss[stage] - rss[before]) / comms, (pss[stage] - pss[before]) / comms)
            }
            END {
                printf "| %d | %s | %s | %s | %s | %s | %s | %d | %d | %d |\n", ranks, engine, cell("init"), cell("8B"),
                    cell("1MiB"), each("comms", "1MiB"), each("used", "comms"), shared["init"], shared["8B"],
                    shared["1MiB"]
            }' "$work/out"
    else
        echo "$1, $2 ranks: $(grep -v '^ *$' "$work/err" | tail -n 1)" >&2
        echo "| $2 | $1 | failed | | | | | | | |"
    fi
}

version() {
    "$@" 2>/dev/null | grep -m 1 -o '[0-9][0-9.]*[0-9]' || echo none
}

{
    echo "# The memory of libcoll"
    echo
    echo "Written by \`make bench-memory\` (tests/bench/memory.sh, whose first lines have the options); [README.md](README.md)"
    echo "explains the larger figures. Machine: $(nproc) cores," \
        "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr | sed 's/-.*//'), $(date -u +%Y-%m-%d)."
    echo "libcoll $(version "$build/coll" --version), UCX $(pkg-config --modversion ucx 2>/dev/null || echo none)," \
        "commit $(git -C "$src" rev-parse --short HEAD 2>/dev/null || echo unknown)."
    echo
    echo "All ranks run on this host, each a process; those of simulated are threads of one process, whose memory is"
    echo "divided by them. tcp: shared memory; tcp-unix: \`COLL_TCP_RING=0\`, AF_UNIX sockets, as tcp was before it had"
    echo "shared memory; ucx: UCX's choice, shared memory here. KiB, RSS / PSS, the mean of all ranks, more than before the"
    echo "first call of the library; the buffers of the calls do not count. RSS counts a page of a library or of shared"
    echo "memory in each process that has touched it, PSS divides it among them. After init; after one allreduce of"
    echo "8 B; after one of 1 MiB, f32; then for each of $comms further communicators (dup), and for the first allreduce of"
    echo "8 B on each (a fifth of them with more than 64 ranks over ucx). Shared memory: the pages of all ranks together"
    echo "that are in use after these stages, their status pages (option page) included. The buffers of sockets are memory of the kernel, which no column has."
    echo
    echo "| ranks | backend | init | 8 B | 1 MiB | a communicator | its first call | shared: init | 8 B | 1 MiB |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for n in $ranks; do
        for engine in $engines; do
            echo "$n ranks: $engine" >&2
            row "$engine" "$n"
        done
    done
} >"$results.new" && mv "$results.new" "$results"
cat "$results"
