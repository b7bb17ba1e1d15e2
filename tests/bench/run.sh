#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh - f32 allreduce of this library and of its peers, in one run:
#
#   make bench                          the tcp backend, Open MPI over TCP, Gloo; 1 MiB to 128 MiB
#   make bench BENCH=ucx                the ucx backend, Open MPI, UCC; 8 B to 128 MiB
#   make bench BENCH=native             what a call costs beyond a backend's own: native_overhead.c
#
# or, in the build tree, where COLL_* variables reach our programs too:
#
#   BENCH_RANKS="2 4" BENCH_REPEAT=5 tests/bench/run.sh [tcp|ucx]
#
#   BENCH_SIZES="8 64K 1M"              these sizes, in bytes
#   BENCH_PROGRAMS="ucx openmpi-shm"    these programs only
#   BENCH_PATIENCE=30                   wait so many seconds at most, before each program, for the
#                                       processors to be idle
#   UCC_DIR=DIR                         where UCC is installed, for ucx
#
# Every program runs the same loop, bench.h's: warmed up, memory touched before, the slowest rank's
# time.  The programs take turns, BENCH_REPEAT times; shown are the median of the turns and its
# spread, and how many times as long the peer takes, with the spread over the turns.  Ranks are bound
# to a core each while there are enough.  Peers that are not installed are left out.
set -u

src=${top_srcdir:-.}
build=${top_builddir:-.}
repeat=${BENCH_REPEAT:-5}
cc=${TEST_CC:-cc}
what=${1:-tcp}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

say() {
    echo "$*" >&2
}

case $what in
tcp) sizes="1M 2M 4M 8M 16M 32M 64M 128M" ;;
ucx) sizes="8 64 1K 8K 64K 256K 1M 4M 16M 128M" ;;
native) sizes= ;;
*) say "run.sh: '$what' is none of tcp, ucx, native" && exit 2 ;;
esac
export BENCH_SIZES=${BENCH_SIZES:-$sizes}

# build NAME COMMAND...: compiles a program, or prints why the comparison leaves it out.
build() {
    local name=$1
    shift
    if ! "$@" -o "$work/$name" >"$work/$name.log" 2>&1; then
        say "$name: left out, it cannot be built: $(grep -m 1 error "$work/$name.log")"
        return 1
    fi
}

# build_c NAME COMPILER FLAGS...: the same for allreduce_NAME.c.
build_c() {
    local name=$1 compiler=$2
    shift 2
    build "$name" "$compiler" -O2 -std=c11 -D_GNU_SOURCE -I"$src/include" \
        "$src/tests/bench/allreduce_$name.c" "$@"
}

build_mpi() {
    if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
        say "openmpi: left out, mpicc and mpirun are not installed"
        return 1
    fi
    build_c mpi mpicc
}

build_gloo() {
    if [ ! -e /usr/include/gloo/allreduce.h ] || ! command -v c++ >/dev/null; then
        say "gloo: left out, libgloo-dev and a C++ compiler are not installed"
        return 1
    fi
    build gloo c++ -O2 -std=c++17 "$src/tests/bench/allreduce_gloo.cc" -lgloo -lpthread
}

build_ucc() {
    if [ ! -e "${UCC_DIR:-}/include/ucc/api/ucc.h" ]; then
        say "ucc: left out, UCC_DIR does not say where UCC is installed"
        return 1
    fi
    build_c ucc "$cc" -I"$UCC_DIR/include" "${ours[@]}" -L"$UCC_DIR/lib" \
        "-Wl,-rpath,$UCC_DIR/lib" -lucc
}

ours=(-L"$build/.libs" "-Wl,-rpath,$(cd "$build" && pwd)/.libs" -lcoll)
if [ "$what" = native ]; then
    make -s -C "$build" tests/plugins/coll_null.la tests/plugins/coll_nulldevice.la \
        tests/fakes/libcuda.la >&2 || exit 1
    cp "$build"/tests/plugins/.libs/coll_null{,device}.so "$work" || exit 1
    build native "$cc" -O2 -std=c11 -D_GNU_SOURCE -I"$src/include" \
        "$src/tests/bench/native_overhead.c" "${ours[@]}" -ldl || exit 1
    "$work/native" "$work" || exit 1
    LD_LIBRARY_PATH="$build/tests/fakes/.libs" "$work/native" "$work"
    exit
fi
build_c coll "$cc" "${ours[@]}" || exit 1

# The programs in the order in which they run, and the pairs of a peer and our program that the
# tables compare.
if [ "$what" = tcp ]; then
    programs="tcp tcp-only"
    pairs=
    build_mpi && programs="$programs openmpi" && pairs="tcp/openmpi tcp-only/openmpi"
    build_gloo && programs="$programs gloo-ring gloo-bcube" &&
        pairs="$pairs tcp/gloo-ring tcp/gloo-bcube tcp-only/gloo-ring tcp-only/gloo-bcube"
else
    programs="ucx ucx-tcp"
    pairs=
    build_mpi && programs="$programs openmpi-ucx openmpi-shm openmpi-ucx-tcp" &&
        pairs="ucx/openmpi-ucx ucx/openmpi-shm ucx-tcp/openmpi-ucx-tcp"
    build_ucc && programs="$programs ucc ucc-tcp" && pairs="$pairs ucx/ucc ucx-tcp/ucc-tcp"
fi
programs=${BENCH_PROGRAMS:-$programs}
for pair in $pairs; do
    case " $programs " in *" ${pair%/*} "*) ;; *) continue ;; esac
    case " $programs " in *" ${pair#*/} "*) chosen="${chosen:-} $pair" ;; esac
done

# one PROGRAM RANKS: runs the program once; prints "bytes microseconds" lines.
one() {
    local bind=none more=
    if [ "$2" -le "$(nproc)" ]; then
        bind=core
    else
        more=--oversubscribe
    fi
    local run="$build/coll run --no-prefix --timeout 600 --bind-to $bind -n $2"
    local mpi="mpirun --allow-run-as-root --bind-to $bind $more -n $2"
    # Without these two settings Open MPI uses UCX only for InfiniBand and similar networks.
    local over_ucx="--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"
    case $1 in
    *-tcp) local -x UCX_TLS=tcp,self ;;
    esac
    case $1 in
    tcp) COLL_BACKEND=tcp $run -- "$work/coll" ;;
    tcp-only) COLL_BACKEND=tcp COLL_TCP_UNIX=no $run -- "$work/coll" ;;
    ucx | ucx-tcp) COLL_BACKEND=ucx $run -- "$work/coll" ;;
    openmpi)
        $mpi --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo "$work/mpi"
        ;;
    openmpi-ucx | openmpi-ucx-tcp) $mpi $over_ucx "$work/mpi" ;;
    openmpi-shm) $mpi --mca pml ob1 --mca btl vader,self "$work/mpi" ;;
    ucc | ucc-tcp) $run -- "$work/ucc" ;;
    gloo-*)
        local store
        store=$(mktemp -d -p "$work")
        $run -- "$work/gloo" "${1#gloo-}" "$store"
        ;;
    *) echo "no program of this name" >&2 && return 1 ;;
    esac
}

# quiet: waits for half a second in which the processors are nine tenths idle.
quiet() {
    local until=$((SECONDS + ${BENCH_PATIENCE:-0})) before after i all=0 idle=0
    while [ $((10 * idle)) -le $((9 * all)) ] && [ $SECONDS -lt $until ]; do
        read -r -a before </proc/stat
        sleep 0.5
        read -r -a after </proc/stat
        idle=$((after[4] - before[4]))
        all=0
        for i in 1 2 3 4 5 6 7 8; do all=$((all + after[i] - before[i])); done
    done
}

# table RANKS FILE: prints the table for lines "program turn bytes microseconds".
table() {
    awk -v programs="$programs" -v pairs="${chosen:-}" -v ranks="$1" '
    function sort(list, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
                t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
            }
    }
    function number(x) { return sprintf(x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x) }
    function bytes(x) {
        return x < 1024 ? x : x < 1048576 ? x / 1024 "K" : x / 1048576 "M"
    }
    # Prints the median and spread of a / b over the turns in which both ran (b "": of a).
    function cell(a, b, size, mark,    list, n, t) {
        n = 0
        for (t = 1; t <= turns; t++)
            if ((a, t, size) in time && (b == "" || (b, t, size) in time))
                list[++n] = time[a, t, size] / (b == "" ? 1 : time[b, t, size])
        if (!n) return "-"
        sort(list, n)
        t = list[int((n + 1) / 2)]
        return sprintf("%s (%s to %s)%s", number(t), number(list[1]), number(list[n]),
                       mark && t < 1 ? " <" : "")
    }
    { time[$1, $2, $3] = $4; if ($2 > turns) turns = $2; if (!seen[$3]++) size[++sizes] = $3 }
    END {
        np = split(programs, program, " ")
        printf "\n%d ranks: microseconds, median (least to most)\n%6s", ranks, "bytes"
        for (p = 1; p <= np; p++) printf "%26s", program[p]
        printf "\n"
        for (s = 1; s <= sizes; s++) {
            printf "%6s", bytes(size[s])
            for (p = 1; p <= np; p++) printf "%26s", cell(program[p], "", size[s], 0)
            printf "\n"
        }
        np = split(pairs, program, " ")
        for (p = 1; p <= np; p++) {
            split(program[p], side, "/")
            mine[p] = side[1]; theirs[p] = side[2]
        }
        printf "\n%d ranks: how many times as long the peer takes, median of the turns" \
            " (least to most); <: we are slower\n%6s", ranks, "bytes"
        for (p = 1; p <= np; p++) printf "%26s", program[p]
        printf "\n"
        for (s = 1; s <= sizes; s++) {
            printf "%6s", bytes(size[s])
            for (p = 1; p <= np; p++) printf "%26s", cell(theirs[p], mine[p], size[s], 1)
            printf "\n"
        }
    }' "$2"
}

echo "allreduce f32 sum, $(nproc) processors, Linux $(uname -r), TCP congestion control" \
    "$(cat /proc/sys/net/ipv4/tcp_congestion_control) by default"
case $what in
tcp)
    echo "tcp: this library over local sockets (its default within a host); tcp-only: over TCP," \
        "congestion control $("$build/coll" info -o tcp.congestion 2>/dev/null | head -n 1)"
    ;;
ucx)
    echo "ucx: this library, UCX_TLS=${UCX_TLS:-all}, as openmpi-ucx and ucc; ...-tcp: all three" \
        "with UCX_TLS=tcp,self; openmpi-shm: Open MPI's own shared memory (btl vader)"
    ;;
esac
echo "$repeat turns; the programs take turns"
for ranks in ${BENCH_RANKS:-2 4}; do
    : >"$work/times"
    for turn in $(seq "$repeat"); do
        for program in $programs; do
            say "$ranks ranks, turn $turn of $repeat: $program"
            quiet
            one "$program" "$ranks" 2>"$work/err" | sed "s/^/$program $turn /" >>"$work/times"
            [ "${PIPESTATUS[0]}" -eq 0 ] || say "$program failed: $(grep -m 1 . "$work/err")"
        done
    done
    table "$ranks" "$work/times"
done
