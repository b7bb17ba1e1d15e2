#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# watching.sh - measures what it costs a call to be watched: an allreduce over tcp on 2 ranks that nobody watches, beside the
# same with the page of `coll top`, counters, a timeline, a log file and observers.
#
#   make bench-watching                       three minutes
#   WATCHING_ROUNDS=15                        rounds; in each of them all take turns, from another one on
#   WATCHING_BEFORE=DIR                       the build tree of an earlier commit, which nobody watches either
#   WATCHING_COUNT=no                         does not count instructions (callgrind, half a minute)
#   BENCH_SIZES="8 1M"                        sizes, in bytes
#   BENCH_MS=100                              milliseconds a row
#   BENCH_NS=any                              samples of near and of far processors count together; else those that are
#                                             more frequent in the ten seconds before
#   BENCH_PATIENCE=500                        as for run.sh
#
# A program in each turn measures both sizes by the loop of bench.h.  The difference to the turn without a watcher in the same
# round is taken twice: of the median of the samples, which is what a call pays itself, and of their mean, which has a share of
# the thread that writes a timeline: ranks that are bound to a core share this core with it.
#
# Prints the tables, and writes them to the file that BENCH_RESULTS names.
set -u

src=${top_srcdir:-.}
. "$src/tests/bench/near.sh"
build=$(cd "${top_builddir:-.}" && pwd)
rounds=${WATCHING_ROUNDS:-15}
sizes=$(for size in ${BENCH_SIZES:-8 1M}; do numfmt --from=iec "$size" || exit 2; done) || exit 2
tool=$build/tests/fakes/.libs/libnvtx.so
export BENCH_MS=${BENCH_MS:-100} BENCH_PATIENCE=${BENCH_PATIENCE:-500} BENCH_LIMIT=${BENCH_LIMIT:-20}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/files" && : >"$work/rows"
export BENCH_SHARED=$work/shared

say() {
    echo "$*" >&2
}

# The watchers, and the settings of each.
watchers=(nothing nothing-again page counters timeline timeline-calls log otlp)
[ -z "${WATCHING_BEFORE:-}" ] || watchers+=(before)
if [ -e "$tool" ]; then
    watchers+=(nvtx)
else
    say "nvtx is not measured: make tests/fakes/libnvtx.la builds its tool"
fi
settings() {
    case $1 in
    nothing* | before) echo COLL_PAGE=no ;;
    page) ;; # the default
    counters) echo COLL_COUNTERS=yes ;;
    timeline) echo "COLL_TIMELINE=$work/files/job.%r.json" ;;
    timeline-calls) echo "COLL_TIMELINE=$work/files/job.%r.json COLL_TIMELINE_STEPS=no" ;;
    log) echo "COLL_LOG=debug COLL_LOG_FILE=$work/files/log.%r" ;;
    otlp) echo "COLL_OBSERVERS=otlp COLL_OTLP_FILE=$work/files/job.%r.otlp" ;;
    nvtx) echo "COLL_OBSERVERS=nvtx NVTX_INJECTION64_PATH=$tool" ;;
    esac
}
title() {
    case $1 in
    nothing) echo "nothing (\`page = no\`)" ;;
    nothing-again) echo "nothing, once more" ;;
    before) echo "nothing, before ($(git -C "$WATCHING_BEFORE" rev-parse --short HEAD 2>/dev/null || echo "an earlier build"))" ;;
    page) echo "the page of \`coll top\` (default)" ;;
    counters) echo "\`counters = yes\`" ;;
    timeline) echo "\`timeline\`" ;;
    timeline-calls) echo "\`timeline\`, without steps" ;;
    log) echo "\`log = debug\` to a file" ;;
    nvtx) echo "observer \`nvtx\`, with a tool that does nothing" ;;
    *) echo "observer \`$1\`" ;;
    esac
}

# compile NAME TREE SOURCE: a program over the library of that build tree.
# shellcheck disable=SC2086 # the compiler's flags are a list
compile() {
    ${TEST_CC:-cc} -std=c11 -D_GNU_SOURCE -I"$src/include" -O2 ${TEST_CFLAGS:-} -o "$work/$1" "$src/tests/bench/$3" \
        -L"$2/.libs" "-Wl,-rpath,$2/.libs" -lcoll -lpthread || exit 1
}
compile now "$build" bench_coll.c
compile bare "$build" bench_bare.c
compile small_calls "$build" small_calls.c
[ -z "${WATCHING_BEFORE:-}" ] || compile before "$WATCHING_BEFORE" bench_coll.c

# ---------------------------------------------------------------- measuring --
# run WATCHER COMMAND...: with the settings of the watcher, over its build tree.
run() {
    local watcher=$1 tree=$build
    shift
    [ "$watcher" != before ] || tree=$WATCHING_BEFORE
    # shellcheck disable=SC2046 # the settings are a list
    env -u COLL_TIMELINE -u COLL_OBSERVERS COLL_BACKEND=tcp COLL_PLUGIN_PATH="$tree/.libs" \
        COLL_TRUST="$tree:${COLL_TRUST:-}" $(settings "$watcher") "$@"
}

# turn ROUND WATCHER: adds lines "watcher|bytes|round|median us|mean us".
turn() {
    local program=now bind=core
    [ "$2" != before ] || program=before
    [ "$(nproc)" -ge 2 ] || bind=none
    # shellcheck disable=SC2086 # the sizes are a list
    run "$2" timeout -k 5 $((BENCH_LIMIT + 5)) "$build/coll" run --no-prefix --bind-to $bind -n 2 -- "$work/$program" allreduce $sizes \
        >"$work/out" 2>"$work/err" </dev/null || say "$2: $(tail -n 1 "$work/err")"
    awk -v watcher="$2" -v round="$1" -v kind="$kind" \
        '$1 == "allreduce" && $3 == kind && $5 { print watcher "|" $2 "|" round "|" $4 "|" $6 }' "$work/out" \
        >>"$work/rows"
    rm -rf "$BENCH_SHARED" "$work"/files/*
}

# instructions WATCHER: those of a call of 8 bytes with its coll_sync, on the thread of the program.
instructions() {
    local calls counts=()
    for calls in 500 1500; do
        rm -f "$work"/counts*
        run "$1" valgrind --tool=callgrind --separate-threads=yes --toggle-collect=calls \
            --callgrind-out-file="$work/counts" "$work/small_calls" allreduce $calls >"$work/err" 2>&1 || return
        counts+=("$(sed -n 's/^totals: *//p' "$work/counts-01")")
        rm -rf "$work"/files/*
    done
    echo $(((counts[1] - counts[0]) / 2000))
}

# Samples count of the kind of processors that is more frequent, near or far.
kind=any
if [ -z "${BENCH_NS:-}" ] && [ "$(nproc)" -ge 2 ]; then
    read -r near near_share far far_share <<<"$(distances "$work/bare" 10)"
    kind=near share=$near_share ns=$near
    [ "$near_share" -ge "$far_share" ] || { kind=far share=$far_share ns=$far; }
    export BENCH_NS=$near,$far BENCH_AWAITED=$kind
    say "a cache line takes $ns ns between the two processors at $share % of the looks"
else
    unset BENCH_NS
fi

for round in $(seq "$rounds"); do
    say "$SECONDS s: round $round of $rounds"
    for turn in "${!watchers[@]}"; do
        turn "$round" "${watchers[(turn + round) % ${#watchers[@]}]}"
    done
done
for watcher in "${watchers[@]}"; do
    count=-
    if [ "${WATCHING_COUNT:-yes}" = yes ] && [ "$watcher" != before ] && command -v valgrind >/dev/null; then
        count=$(instructions "$watcher") || count=-
    fi
    echo "$watcher|$count|$(title "$watcher")"
done >"$work/watchers"

# ------------------------------------------------------------------ results --
{
    echo "# What it costs a call to be watched"
    echo
    echo "An allreduce with its \`coll_sync\`, tcp, 2 ranks, a core each. us: median of the rounds (least to most). more, ns: the"
    echo "difference to nothing in the same round, median (quartiles), of the median and of the mean of the samples. Instructions: of"
    echo "a call of 8 bytes on the thread of the program."
    echo
    echo "* Machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr | sed 's/-.*//');" \
        "load $(cut -d ' ' -f 1 /proc/loadavg) at the end; $(date -u +%Y-%m-%d)."
    echo "* Commit $(git -C "$src" rev-parse --short HEAD 2>/dev/null || echo unknown)." \
        "${BENCH_NS:+Samples count while a cache line takes $ns ns between the two processors (at $share % of the looks before the run).}"
    echo "* Command: \`WATCHING_ROUNDS=$rounds BENCH_MS=$BENCH_MS ${WATCHING_BEFORE:+WATCHING_BEFORE=DIR }make bench-watching\`."
    awk -F'|' -v sizes="${sizes//$'\n'/ }" -f "$src/tests/bench/sort.awk" -f "$src/tests/bench/watching.awk" "$work/watchers" "$work/rows"
} | tee "${BENCH_RESULTS:-/dev/null}"
