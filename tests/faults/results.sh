#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# results.sh - the campaign of deaths and strangers, and its results as tables:
#
#   make check-faults                            everything
#   FAULTS_TRIALS=100 make check-faults          deaths a row; default 1000
#   FAULTS_STRANGERS=1000 make check-faults      strangers a row; default 100000
#   FAULTS_SCENES="kill init" make check-faults  these rows only, beside the rows of earlier runs
#   FAULTS_BACKENDS=tcp make check-faults        these backends only: tcp tcp-sockets ucx ucx-ports simulated nccl
#   FAULTS_NCCL_TRIALS=20 make check-faults      faults with 2, with 3 and with 4 ranks of nccl; default 20
#
# Writes tests/faults/RESULTS.md of the build tree.  The exit status is 1 if there was a miss.
set -u
build=${top_builddir:-.}
campaign=$build/tests/faults/campaign
companion=$build/tests/nccl/companion_campaign
rows=$build/tests/faults/campaign.rows
misses=$build/tests/faults/campaign.misses
trials=${FAULTS_TRIALS:-1000}
strangers=${FAULTS_STRANGERS:-100000}
nccl_trials=${FAULTS_NCCL_TRIALS:-20}
nccl_scenes="kill exit stop missing count kind root op type order fewer group"
scenes=${FAULTS_SCENES:-kill survive split dup shrink init destroy abort lent lent-dup lent-abort
    strangers-start strangers-run
    exit stop missing count kind root op type order fewer group calm}
wanted=${FAULTS_BACKENDS:-tcp tcp-sockets ucx ucx-ports simulated nccl}
seed=${FAULTS_SEED:-20261122}
commit=$(git -C "${top_srcdir:-.}" rev-parse --short HEAD 2>/dev/null || echo unknown)
status=0

touch "$rows" "$misses"
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

# Can the scene run on the backend?
fits() {
    case $2:$1 in
    calm:nccl) return 0 ;;
    *:nccl) [[ " $nccl_scenes " = *" $2 "* ]]; return ;;
    exit:* | stop:* | missing:* | count:* | kind:* | root:* | op:* | type:* | order:* | fewer:* | group:* | calm:*) return 1 ;;
    strangers-*:simulated) return 1 ;; # no ports
    strangers-*:*) ;;
    *:ucx-ports) return 1 ;;
    lent*:tcp) ;; # elsewhere coll_mem_alloc returns ordinary memory
    lent*:*) return 1 ;;
    abort:*) ;;
    *:simulated) return 1 ;; # its ranks are threads of one process
    esac
}

run() {
    local backend=$1 scene=$2 n=$trials

    [ "${scene#strangers}" = "$scene" ] || n=$strangers
    [ "$backend" != nccl ] || n=$nccl_trials
    [ "$scene" != calm ] || n=100000
    echo "$scene on $backend: $n" >&2
    if [ "$backend" = nccl ]; then
        "$companion" -s "$seed" "$scene" "$n" >"$out" 2>/dev/null || status=1
    else
        "$campaign" -s "$seed" "$backend" "$scene" "$n" >"$out" 2>/dev/null || status=1
    fi
    sed -i "/^[^|]*|$scene|$backend|/d" "$rows" "$misses"
    sed -n "s/^row|\(.*\)/row|\1|$commit/p" "$out" >>"$rows"
    grep '^miss|' "$out" >>"$misses"
}

for scene in $scenes; do
    for backend in $wanted; do
        if fits "$backend" "$scene"; then
            run "$backend" "$scene"
        fi
    done
done

promise() {
    case $1:$2 in
    kill:nccl) echo "killed in 8-byte allreduces: an error that names the dead rank" ;;
    kill:*) echo "killed in 4 KiB allreduces: an error that names the dead rank" ;;
    survive:*) echo "the same; then the survivors shrink, and add" ;;
    split:*) echo "killed in split: an error in the split or the new communicator; then shrink" ;;
    dup:*) echo "killed in dup: the same" ;;
    shrink:*) echo "killed in shrink: an error in the shrink or the new communicator; then shrink" ;;
    init:*) echo "killed in init: an error, at the latest after \`init_timeout\` (4 s here)" ;;
    destroy:*) echo "killed in destroy: it returns, at the latest after \`destroy_timeout\` (5 s)" ;;
    abort:*) echo "a rank aborts in 4 KiB allreduces (ranks are threads): an error that names it" ;;
    lent:*) echo "killed in 256 KiB allreduces in memory of coll_mem_alloc: the same; then shrink, and add" ;;
    lent-dup:*) echo "the same while ranks abort communicators amid their calls" ;;
    lent-abort:*) echo "a rank aborts in 256 KiB allreduces in such memory (ranks are threads): an error that names it" ;;
    exit:*) echo "a rank ends: an error that names it" ;;
    stop:*) echo "stopped by SIGSTOP: after \`timeout\`, 1 s here, an error that names it" ;;
    missing:*) echo "a rank makes no further call: the same, with its last call" ;;
    count:* | kind:* | root:* | op:* | type:*) echo "a rank calls with another $1: an error with both calls" ;;
    order:*) echo "a rank makes two calls in another order: the same" ;;
    fewer:*) echo "a rank leaves a call out: the same" ;;
    group:*) echo "a rank calls with another count in a group: the same" ;;
    calm:*) echo "correct calls of all kinds by all ranks: no error" ;;
    strangers-start:*) echo "while the job starts" ;;
    strangers-run:*) echo "while the job runs" ;;
    esac
}

# cells SCENE [-e]: prints the rows of a scene as rows of a table; with -e those of nccl, else all others.
cells() {
    local name backend rest

    grep "^row|$1|" "$rows" | grep "${2:--v}" '|nccl|' | while IFS='|' read -r _ name backend rest; do
        echo "| $backend | $(promise "$name" "$backend") | ${rest//|/ | } |"
    done
}

results() {
    echo "# Faults: promises and measurements"
    echo
    echo "Written by \`make check-faults\` (tests/faults/results.sh), which kills ranks by SIGKILL at random"
    echo "moments, and lets strangers connect to every listening port. 4 ranks, each a process."
    echo "Machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr | sed 's/-.*//')," \
        "$(date -u +%Y-%m-%d). libcoll $("$build/coll" --version | sed 's/^[^0-9]*//')," \
        "UCX $(pkg-config --modversion ucx 2>/dev/null || echo none). Seed $seed."
    echo
    echo "tcp: shared memory and AF_UNIX sockets, as between ranks of one host; tcp-sockets: TCP"
    echo "(\`COLL_TCP_UNIX=no\`); ucx: UCX's choice, shared memory here; ucx-ports: \`UCX_TLS=tcp,self\`. Times are"
    echo "milliseconds from the death to the return of a survivor's call. A hang is a rank that still waits 20 s"
    echo "after the death. A miss is a hang, an error that comes too late or does not name the dead rank (of init:"
    echo "a rank), or a wrong sum."
    echo
    echo "Init: nobody knows of a rank that dies before it has connected to rank 0, so its death costs the others"
    echo "all of \`init_timeout\`, and they give up together. The end of a connection shows every later death to"
    echo "rank 0, which tells the ranks that are still connecting to one another: they look every 0.1 seconds."
    echo
    echo "A time includes the time for which the system keeps a rank, also the killed one, waiting for a processor:"
    echo "times above 20 ms in split and dup over tcp can be such times (run delay in /proc/PID/schedstat)."
    echo
    echo "| backend | promise | deaths | survivors | median | 99.9 % | maximum | hangs | misses | commit |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for scene in kill survive split dup shrink init destroy abort lent lent-dup lent-abort; do
        cells $scene
    done
    echo
    echo "Strangers of 12 kinds: connections that close, reset, stay silent, or send a byte, random bytes, zeros,"
    echo "HTTP, TLS, the rank's own first message, or that message with one byte changed. A miss is a rank that"
    echo "fails. Where a job has no port, no stranger can connect."
    echo
    echo "| backend | when | strangers | connected | ports | seconds | misses | commit |"
    echo "|---|---|---|---|---|---|---|---|"
    cells strangers-start
    cells strangers-run
    echo
    echo "nccl, over the stand-ins for NCCL and the CUDA driver, with the companion over tcp. As many faults with 2 as with 3"
    echo "and with 4 ranks; \`stall_after\` is 0.5 s. Times are from the fault, of calls that differ from the last rank's"
    echo "call, to the return of a rank's call. A miss is a rank without the right error: the victim's name, or both calls."
    echo
    echo "| backend | promise | faults | ranks with an error | median | 99.9 % | maximum | hangs | misses | commit |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for scene in $nccl_scenes calm; do
        cells $scene -e
    done
    if [ -s "$misses" ]; then
        echo
        echo "## Misses"
        echo
        echo "The first of each kind."
        echo
        awk -F'|' '{ k = $2 FS $3 FS $6; gsub(/[0-9.]+/, "N", k) } !seen[k]++' "$misses" | sed 's/^miss|/- /; s/|/, /g'
    fi
}

results >"$build/tests/faults/RESULTS.md.new" && mv "$build/tests/faults/RESULTS.md.new" "$build/tests/faults/RESULTS.md"
cat "$build/tests/faults/RESULTS.md"
exit $status
