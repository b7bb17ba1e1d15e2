#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# metrics.t - `coll metrics`: its text, to a file and by HTTP, and who came last.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd) || exit 1
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
rank=$build/tests/tools/top_rank
dir=$(mktemp -d /dev/shm/coll-metrics-XXXXXX) || exit 1
job='' server=''
trap 'touch "$dir/go"; for p in $job $server; do kill -KILL "$p" 2>/dev/null; done; wait; rm -rf "$dir"' EXIT
mkdir "$dir/run" && chmod 700 "$dir" "$dir/run"
XDG_RUNTIME_DIR=$dir/run
COLL_COUNTERS=yes
export XDG_RUNTIME_DIR COLL_COUNTERS

# start RANKS MODE [VARIABLE=VALUE]...: a job over tcp in the background.
start() {
    rm -f "$dir/go"
    ranks=$1 mode=$2
    shift 2
    env "$@" "$coll" run -n "$ranks" -b tcp "$rank" "$mode" "$dir/go" >"$dir/job" 2>&1 </dev/null &
    job=$!
}
finish() {
    touch "$dir/go"
    wait "$job"
    job=
}

# shows NAME PATTERN: `coll metrics` comes to print a line that matches.
shows() {
    tries=0
    while [ $tries -lt 300 ]; do
        timeout 60 "$coll" metrics >"$dir/metrics" 2>"$dir/err"
        grep -qE -- "$2" "$dir/metrics" && break
        tries=$((tries + 1))
        sleep 0.1
    done
    has "$1" "$dir/metrics" "$2"
}

# format FILE: the text has Prometheus's format; by promtool or its client library too, where they are here.
format() {
    none "in the text format of Prometheus" "$(awk -f "$src/tests/tools/prometheus.awk" "$1")"
    if command -v promtool >/dev/null; then
        check "which promtool accepts" sh -c 'promtool check metrics <"$1"' sh "$1"
    elif python3 -c 'import prometheus_client' 2>/dev/null; then
        check "which its client library reads" python3 -c 'import sys
from prometheus_client.parser import text_string_to_metric_families as parse
assert len(list(parse(open(sys.argv[1]).read()))) > 5' "$1"
    else
        skip "which promtool accepts" "neither promtool nor prometheus_client"
    fi
}

# ------------------------------------------------------------------------- the text, and a file

start 3 late
shows "a job with counters" '^coll_collectives_total\{.*rank="1".*\} 100$'
shows "of which a rank waits" '^coll_waiting_seconds\{.*rank="0",.*\} [0-9.]*[1-9]'
format "$dir/metrics"
has "calls of a rank" "$dir/metrics" '^coll_calls_total\{job="[0-9a-f]{16}",program="top_rank",host=".*",rank="0",comm="0",backend="tcp",kind="allreduce"\} 101$'
has "their bytes" "$dir/metrics" '^coll_bytes_total\{.*rank="1",.*kind="allreduce"\} 400$'
has "the histogram" "$dir/metrics" '^coll_latency_seconds_bucket\{.*rank="2",.*kind="allreduce",le="\+Inf"\} 100$'
check "to a file" timeout 60 "$coll" metrics --output "$dir/coll.prom"
format "$dir/coll.prom"
is "and nothing is left beside it" "$(ls "$dir" | grep -c tmp)" 0
timeout 60 "$coll" metrics --output "$dir/none/coll.prom" >"$dir/out" 2>"$dir/err"
is "a file that cannot be written" $? 1
if [ -c /dev/full ]; then
    timeout 60 "$coll" metrics >/dev/full 2>"$dir/err"
    is "a full standard output" $? 1
    has "is named" "$dir/err" "cannot write 'the standard output'"
else
    skip "a full standard output" "no /dev/full"
fi
timeout 60 "$coll" metrics --output "$dir/later/coll.prom" --interval 0.05 >"$dir/out" 2>"$dir/err" &
server=$!
tries=0
while ! grep -q 'cannot write' "$dir/err" && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
mkdir "$dir/later"
while [ ! -s "$dir/later/coll.prom" ] && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
check "with an interval a write that fails is tried again" [ -s "$dir/later/coll.prom" ]
is "and has one message" "$(grep -c 'cannot write' "$dir/err")" 1
kill "$server"
wait "$server"
server=
is "a signal ends it, and leaves no file beside" "$(ls "$dir/later")" coll.prom
finish

# ------------------------------------------------------------------------- who came last

# Rank 1 is late for five calls, half a second each.
start 2 behind COLL_STALL_AFTER=100ms
shows "the calls are over" '^coll_collectives_total\{.*rank="0".*\} 105$'
has "rank 0 has waited for rank 1" "$dir/metrics" '^coll_last_waits_total\{.*rank="0",.*,from="1"\} [1-9]'
has "for seconds" "$dir/metrics" '^coll_last_seconds_total\{.*rank="0",.*,from="1"\} [2-9]\.'
has "rank 1 was behind when rank 0 asked" "$dir/metrics" '^coll_behind_total\{.*rank="0",.*,of="1"\} [1-9]'
format "$dir/metrics"
finish

# ------------------------------------------------------------------------------- HTTP

# listen ARGUMENT...: starts a server, and finds its port.
listen() {
    "$coll" metrics "$@" >"$dir/server" 2>"$dir/server.err" &
    server=$!
    tries=0
    while ! grep -q '^listening' "$dir/server" && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
    port=$(sed -n 's|^listening at http://.*:\([0-9]*\)/metrics$|\1|p' "$dir/server")
}
# leave: ends the server as a service manager does.
leave() {
    kill "$server"
    wait "$server"
    is "a signal ends it" $? 143
    # Another job of this user may be of another version.
    none "and it has said nothing" "$(grep -v 'of another version' "$dir/server.err")"
    server=
}
descriptors() {
    ls "/proc/$server/fd" | wc -l
}
client() {
    python3 "$src/tests/tools/metrics_http.py" "$port" "$1" 2>&1
}

start 2 many
listen --listen 0
has "the address is this host's own" "$dir/server" '^listening at http://127\.0\.0\.1:[0-9]+/metrics$'
before=$(descriptors)
shows "a job with many communicators" '^coll_calls_total\{.*rank="0",comm="0",.*kind="allreduce"\} 101$'
if command -v python3 >/dev/null; then
    none "requests have their answers" "$(client answers)"
    none "a thousand clients come and go" "$(client crowd)"
    none "clients that do not read are dropped" "$(client stuck)"
    tries=0
    while [ "$(descriptors)" != "$before" ] && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
    is "and none leaves a descriptor" "$(descriptors)" "$before"
else
    skip "requests and clients" "python3 is not installed"
fi
if command -v curl >/dev/null; then
    check "curl gets the text" curl -sS --noproxy '*' -m 60 -o "$dir/metrics" "http://127.0.0.1:$port/metrics"
    format "$dir/metrics"
fi
"$coll" metrics --listen "127.0.0.1:$port" >"$dir/out" 2>"$dir/err"
is "a port that is taken" $? 1
has "is named" "$dir/err" "cannot listen at 127\.0\.0\.1:$port: Address already in use"
leave

number=$(timeout 60 "$coll" top --json | sed -n 's/.*"job": "\([0-9a-f]*\)".*/\1/p')
listen --listen '[::1]:0' "$number"
if [ -n "$port" ]; then
    has "an IPv6 address" "$dir/server" '^listening at http://\[::1\]:'
    leave
else
    wait "$server"
    server=
    skip "an IPv6 address" "$(cat "$dir/server.err")"
fi
# wrong STATUS PATTERN ARGUMENT...
wrong() {
    wrong_status=$1 pattern=$2
    shift 2
    timeout 60 "$coll" metrics "$@" >"$dir/out" 2>"$dir/err"
    is "coll metrics $*" $? "$wrong_status"
    has "says why" "$dir/err" "$pattern"
}
wrong 2 'port from 0 to 65535' --listen x
wrong 2 'port from 0 to 65535' --listen 127.0.0.1:70000
wrong 2 "cannot find the host 'localhost'" --listen localhost:0
wrong 2 'port from 0 to 65535' --listen ''
wrong 2 'not both' --listen 0 --output "$dir/x"
wrong 2 'needs --output' --listen 0 --interval 1
wrong 1 "no job whose number begins with 'ffff'" --listen 0 ffff
finish

done_testing
