#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh - f32 allreduce, 1 MiB to 128 MiB, of this library and of its peers over TCP, in one run:
#
#   make bench                                     or, in the build tree,
#   BENCH_RANKS="2 4" BENCH_REPEAT=5 tests/bench/run.sh
#
# Every program runs the same loop: warmed up, memory touched before, the slowest rank's time of each
# call, its median over the calls.  The programs take turns, BENCH_REPEAT times; shown are the
# median of the turns, its spread, and how many times as long the peer takes.  Peers that are not
# installed are left out.
set -u

src=${top_srcdir:-.}
build=${top_builddir:-.}
repeat=${BENCH_REPEAT:-5}
cc=${TEST_CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

say() {
    echo "$*" >&2
}

# build NAME COMMAND...: compiles a program, or says why it is left out.
build() {
    local name=$1
    shift
    if ! "$@" >"$work/$name.log" 2>&1; then
        say "$name: left out, it cannot be built: $(grep -m 1 error "$work/$name.log")"
        return 1
    fi
}

build coll "$cc" -O2 -std=c11 -D_GNU_SOURCE -I"$src/include" "$src/tests/bench/allreduce_coll.c" \
    -o "$work/coll" -L"$build/.libs" -Wl,-rpath,"$(cd "$build" && pwd)/.libs" -lcoll || exit 1
programs="coll coll-tcp"

if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
    build openmpi mpicc -O2 -std=c11 -D_GNU_SOURCE "$src/tests/bench/allreduce_mpi.c" \
        -o "$work/openmpi" && programs="$programs openmpi"
else
    say "openmpi: left out, mpicc and mpirun are not installed"
fi
if [ -e /usr/include/gloo/allreduce.h ] && command -v c++ >/dev/null; then
    build gloo c++ -O2 -std=c++17 "$src/tests/bench/allreduce_gloo.cc" -o "$work/gloo" \
        -lgloo -lpthread && programs="$programs gloo-ring gloo-bcube"
else
    say "gloo: left out, libgloo-dev and a C++ compiler are not installed"
fi

# one PROGRAM RANKS: one turn; prints "bytes microseconds" lines.
one() {
    local launch="$build/coll run --no-prefix --timeout 600 -n $2"
    case $1 in
    coll) COLL_BACKEND=tcp $launch -- "$work/coll" ;;
    coll-tcp) COLL_BACKEND=tcp COLL_TCP_UNIX=no $launch -- "$work/coll" ;;
    openmpi)
        local more=
        [ "$2" -le "$(nproc)" ] || more=--oversubscribe
        mpirun --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo $more \
            --allow-run-as-root -n "$2" "$work/openmpi"
        ;;
    gloo-*)
        local store
        store=$(mktemp -d -p "$work")
        $launch -- "$work/gloo" "${1#gloo-}" "$store"
        ;;
    esac
}

table() {
    awk -v programs="$programs" -v ranks="$1" '
    function median(list, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
                t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
            }
        return list[int((n + 1) / 2)]
    }
    { key = $1 " " $2; n[key]++; time[key, n[key]] = $3; if (!seen[$2]++) size[++sizes] = $2 }
    END {
        np = split(programs, program, " ")
        printf "\n%d ranks: microseconds, median (least to most)\n%8s", ranks, "MiB"
        for (p = 1; p <= np; p++) printf "%28s", program[p]
        printf "\n"
        for (s = 1; s <= sizes; s++) {
            printf "%8d", size[s] / 1048576
            for (p = 1; p <= np; p++) {
                key = program[p] " " size[s]
                delete list
                for (i = 1; i <= n[key]; i++) list[i] = time[key, i] + 0
                mid[p, s] = n[key] ? median(list, n[key]) : 0
                text = n[key] ? sprintf("%.0f (%.0f to %.0f)", mid[p, s], list[1],
                                        list[n[key]]) : "-"
                printf "%28s", text
            }
            printf "\n"
        }
        printf "\n%d ranks: how many times as long as ours (above 1: we are faster)\n", ranks
        printf "%8s", "MiB"
        for (o = 1; o <= 2; o++)
            for (p = 3; p <= np; p++) printf "%24s", program[p] "/" program[o]
        printf "\n"
        for (s = 1; s <= sizes; s++) {
            printf "%8d", size[s] / 1048576
            for (o = 1; o <= 2; o++)
                for (p = 3; p <= np; p++) {
                    text = "-"
                    if (mid[o, s] && mid[p, s])
                        text = sprintf("%.2f", mid[p, s] / mid[o, s])
                    printf "%24s", text
                }
            printf "\n"
        }
    }' "$2"
}

echo "allreduce f32 sum, $(nproc) processors, Linux $(uname -r), TCP congestion control" \
    "$(cat /proc/sys/net/ipv4/tcp_congestion_control) by default"
echo "coll: this library over local sockets (its default within a host); coll-tcp: over TCP only," \
    "congestion control $("$build/coll" info -o tcp.congestion 2>/dev/null | head -n 1)"
echo "$repeat turns; the programs take turns"
for ranks in ${BENCH_RANKS:-2 4}; do
    : >"$work/times"
    for turn in $(seq "$repeat"); do
        for program in $programs; do
            say "$ranks ranks, turn $turn of $repeat: $program"
            one "$program" "$ranks" 2>"$work/err" | sed "s/^/$program /" >>"$work/times"
            [ "${PIPESTATUS[0]}" -eq 0 ] || say "$program failed: $(tail -n 1 "$work/err")"
        done
    done
    table "$ranks" "$work/times"
done
