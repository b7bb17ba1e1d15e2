#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh - the tests on GPUs, as TAP, then their results as tables:
#
#   make check-gpu                      everything that this machine's GPUs allow
#   GPU_RANKS="1 2" make check-gpu      these numbers of ranks; default 1 2 4
#   GPU_THEMES="move overlap" make check-gpu    these themes; default all
#   GPU_BACKENDS="nccl tcp" make check-gpu      these backends; default nccl tcp ucx
#   GPU_LIMIT=120 make check-gpu        seconds that one run may take; default 60
#   GPU_QUICK=1 make check-gpu          one number of ranks, and less of what needs no GPU
#
# Each rank has a GPU of its own where there are enough; else all ranks share one (README.md says
# how).  Skips with a reason where there is no GPU.  GPU_RESULTS names a file for the tables, which is
# written after each run; a run that is ended prints its tables too.
set -u
# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:-.}/tests/lib/tap.sh" || exit 1

src=${top_srcdir:-.}
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
gpu=$build/tests/gpu/gpu
overlap=$build/tests/examples/overlap
limit=${GPU_LIMIT:-60}
quick=${GPU_QUICK:-}
ranks=${GPU_RANKS:-1 2 4}
themes=${GPU_THEMES:-}
backends=${GPU_BACKENDS:-nccl tcp ucx}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
touch "$dir/runs" "$dir/notes" "$dir/rows"

"$gpu" facts >"$dir/facts" 2>"$dir/err"
case $? in
0) ;;
77) skip_all "$(tail -n 1 "$dir/facts")" ;;
*)
    cat "$dir/facts" "$dir/err"
    exit 1
    ;;
esac

fact() {
    sed -n "s/^fact|$1|//p" "$dir/facts"
}

gpus=$(fact gpus)
standin=$(fact standin)

# among LIST WORD: is the word in the list?
among() {
    case " $1 " in *" $2 "*) ;; *) false ;; esac
}

# chosen THEME...: sets $chosen to those that are to run; false: none is.
chosen() {
    local theme

    chosen=
    for theme; do
        [ -n "$themes" ] && ! among "$themes" "$theme" || chosen="$chosen $theme"
    done
    [ -n "$chosen" ]
}

# ----------------------------------------------------------------------------- one run

# Several ranks on one GPU.  NCCL refuses ranks on one device if they seem to be on one host;
# NCCL_HOSTID makes each rank a host of its own, which requires that the ranks share no process or
# memory.
share() {
    export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
    export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*} NCCL_NVLS_ENABLE=0
    [ "$standin" = no ] || export STANDIN_CUDA_DEVICES=1
    case $1 in
    shared)
        export NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0
        export NCCL_RAS_ENABLE=0 NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MAX_NCHANNELS=1
        ;;
    shared-by-nccl) export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 ;;
    esac
}

# shellcheck disable=SC2016 # for the rank's own shell
as_hosts='NCCL_HOSTID=coll-r$COLL_RANK exec "$0" "$@"'

# start PLACE RANKS PROGRAM ARG...: writes output to $dir/out and $dir/err.  PLACE: own, shared,
# shared-by-nccl.
start() (
    place=$1 n=$2
    shift 2
    [ "$place" = own ] || share "$place"
    [ "$place" != shared ] || set -- sh -c "$as_hosts" "$@"
    exec timeout -k 10 $((limit + 10)) "$coll" run --timeout "$limit" -n "$n" -- "$@" \
        >"$dir/out" 2>"$dir/err" </dev/null
)

# await PLACE RANKS PROGRAM ARG...: does the same, and a signal to this script ends it at once; sets $status.
await() {
    start "$@" &
    running=$!
    status=0
    wait $running || status=$?
    running=
}

# run NAME PLACE RANKS THEME...: runs the checks of these themes.
run() {
    local name=$1 place=$2 n=$3 checks=0 failed=0 skipped=0 begin=$SECONDS status verdict what text

    shift 3
    chosen "$@" || return 0
    # shellcheck disable=SC2086 # a list
    set -- $chosen
    await "$place" "$n" "$gpu" "$@"
    while IFS='|' read -r verdict what text; do
        what="$name, $n ranks, $place: $what"
        if [ "$verdict" = skip ]; then
            skip "$what" "$text"
            skipped=$((skipped + 1))
            continue
        fi
        checks=$((checks + 1))
        failed=$((failed + verdict))
        tap_result "$verdict" "$what" "$text"
    done < <(
        awk -v ranks="$n" -f "$src/tests/gpu/report.awk" "$dir/out"
        echo "$((status != 0))|status of the job|coll run ended with status $status"
    )
    [ $failed -eq 0 ] || tail -n 20 "$dir/err" | sed 's/^/#   /'
    echo "$name|$*|$n|$place|$checks|$failed|$skipped|$((SECONDS - begin))" >>"$dir/runs"
    sed -n "s/^\[[0-9]*\] note|/$name, $n ranks: /p" "$dir/out" >>"$dir/notes"
    sed -n "s/^\[[0-9]*\] row|/$name|$n|$place|/p" "$dir/out" >>"$dir/rows"
    keep
}

# The example that computes while it sums gradients.
run_overlap() {
    local name=$1 place=$2 n=$3 kib=16384 status

    chosen overlap || return 0
    [ "$standin" = no ] || kib=64
    await "$place" "$n" "$overlap" --kib $kib
    tap_result "$status" "$name, $n ranks, $place: overlap" "$(cat "$dir/out" "$dir/err")"
    echo "$name|overlap|$n|$place|1|$((status != 0))|0|-" >>"$dir/runs"
    sed -n "s/^\[0\] /overlap: /p" "$dir/out" >>"$dir/notes"
    keep
}

# Shows the last run, and writes the tables so far.
keep() {
    tail -n 1 "$dir/runs" | sed 's/|/ | /g; s/^/# run | /'
    sed -n 's/^\[[0-9]*\] row|/row|/; /^row/{ s/|/ | /g; s/^/# /p }' "$dir/out"
    if [ -n "${GPU_RESULTS:-}" ] && [ "$standin" = no ]; then
        mkdir -p "$(dirname "$GPU_RESULTS")"
        results >"$GPU_RESULTS"
    fi
}

# Ends before all is done: what there is counts.
# shellcheck disable=SC2317 # a trap calls it
cut_short() {
    [ -z "$running" ] || kill "$running"
    echo
    results
    exit 1
}
running=
trap cut_short INT TERM

# ------------------------------------------------------------------------------ results

# cells FILE: prints the lines as rows of a table.
cells() {
    sed 's/|/ | /g; s/^/| /; s/$/ |/' "$1"
}

results() {
    echo "# Results on GPUs"
    echo
    if [ "$standin" = yes ]; then
        echo "**Not a GPU: stand-ins for the CUDA driver and NCCL (tests/fakes).**"
    else
        echo "$gpus x $(fact gpu), driver $(grep -oE '[0-9]+\.[0-9.]+' \
            /proc/driver/nvidia/version 2>/dev/null | head -n 1), CUDA $(fact cuda), NCCL $(fact nccl)," \
            "$(uname -sr), $(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)," \
            "$(date -u +%Y-%m-%d). libcoll $("$coll" --version | sed 's/^[^0-9]*//')."
    fi
    echo
    echo "| backend | themes | ranks | GPUs | checks | failed | skipped | seconds |"
    echo "|---|---|---|---|---|---|---|---|"
    cells "$dir/runs"
    echo
    echo "## Overhead"
    echo
    echo "\`coll_allreduce\` of float32 and a bare \`ncclAllReduce\` on the same communicator, in turns"
    echo "(gpu_speed.c). Host: ns until the call has returned; done: us a call until the work is done."
    echo "Medians; in parentheses the quartiles of the pairs."
    if grep -q '|shared' "$dir/rows"; then
        echo "Ranks that share a GPU take turns on it: of theirs only the host's ns mean anything."
    fi
    echo
    echo "| backend | ranks | GPUs | coll's stream | bytes | host: coll | host: NCCL | host: more |" \
        "done: coll | done: NCCL | done: ratio | pairs x calls |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
    cells "$dir/rows"
    echo
    echo "## Notes"
    echo
    sort -u "$dir/notes" | sed 's/^/- /'
}

# ---------------------------------------------------------------------------- backends

nccl() {
    local n=$1 place=$2 theme

    export COLL_BACKEND=nccl
    for theme in move reduce "group event stream derive" "memory capture" both differ fault death; do
        # shellcheck disable=SC2086 # a list
        run nccl "$place" "$n" $theme
    done
    [ "$n" -ne 1 ] || run nccl own 1 many
    run_overlap nccl "$place" "$n"
    run nccl "$place" "$n" speed
    COLL_NCCL_BLOCKING=yes run "nccl, blocking" "$place" "$n" group event stream derive speed
    unset COLL_BACKEND
}

# Device memory over a backend that takes host memory only.
staging() {
    local backend=$1 n=$2 place=$3 theme

    export COLL_BACKEND=$backend COLL_ENABLE_GPU_FALLBACK=1
    run_overlap "staging over $backend" "$place" "$n"
    for theme in "event stream capture" memory move "reduce group" "both differ"; do
        # shellcheck disable=SC2086 # a list
        run "staging over $backend" "$place" "$n" $theme
    done
    [ -n "$themes" ] || has "staging over $backend, $n ranks: staging warns" "$dir/err" \
        'through host memory, which is slow'
    unset COLL_BACKEND COLL_ENABLE_GPU_FALLBACK
}

# UCX built with CUDA takes device memory itself, except in reductions.
direct() {
    if [ -n "$(fact no_ucx)" ]; then
        skip "ucx, device memory without staging" "$(fact no_ucx)"
    elif ! COLL_BACKEND=ucx "$coll" info | grep -q 'CUDA memory:.*cuda'; then
        skip "ucx, device memory without staging" "this UCX has no CUDA"
    else
        COLL_BACKEND=ucx run "ucx, device memory" "$2" "$1" move
    fi
}

[ -z "$quick" ] || ranks=2
for n in $ranks; do
    place=own
    [ "$n" -le "$gpus" ] || place=shared
    if ! among "$backends" nccl; then
        :
    elif [ -z "$(fact no_nccl)" ]; then
        nccl "$n" $place
    else
        skip "nccl, $n ranks" "$(fact no_nccl)"
    fi
    for backend in tcp ucx; do
        among "$backends" $backend || continue
        if [ -n "$(fact no_$backend)" ]; then
            skip "staging over $backend, $n ranks" "$(fact no_$backend)"
        elif [ -z "$quick" ] || [ $backend = tcp ]; then
            staging $backend "$n" $place
        fi
    done
    [ -n "$quick" ] || ! among "$backends" ucx || direct "$n" $place
done
# Two ranks on one GPU, in both ways, also on machines with several GPUs.
if [ -z "$(fact no_nccl)" ] && among "$backends" nccl; then
    [ "$gpus" -lt 2 ] || COLL_BACKEND=nccl run nccl shared 2 group event derive
    if fact nccl | awk -F. '{ exit !($1 > 2 || $2 >= 30) }'; then
        COLL_BACKEND=nccl run nccl shared-by-nccl 2 group event derive
    else
        skip "nccl, 2 ranks, shared-by-nccl" "NCCL $(fact nccl) is older than 2.30"
    fi
fi

# ---------------------------------------------------------------------------- the end

echo
results | tee "$dir/results"
if [ -n "${GPU_RESULTS:-}" ] && [ "$standin" = no ]; then
    mkdir -p "$(dirname "$GPU_RESULTS")"
    cp "$dir/results" "$GPU_RESULTS"
    echo
    echo "These tables are in $GPU_RESULTS; to keep them with the sources:"
    echo "    cp $GPU_RESULTS $src/tests/gpu/RESULTS.md && git add $src/tests/gpu/RESULTS.md"
fi
done_testing
