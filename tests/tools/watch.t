#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# watch.t - `coll top`, `coll dump` and `coll metrics` with --job: the ranks of other hosts, which are networks of their own here.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
rank=$build/tests/tools/top_rank
dir=$(mktemp -d /dev/shm/coll-watch-XXXXXX) || exit 1
pids=
ranks=
number=
trap 'touch "$dir/go"; [ -z "$pids" ] || kill -KILL $pids 2>/dev/null; wait; rm -rf "$dir"' EXIT
mkdir -m 700 "$dir/a" "$dir/b" "$dir/none" && chmod 700 "$dir"

# --------------------------------------------------------------------- wrong command lines

export XDG_RUNTIME_DIR="$dir/none"
timeout 60 "$coll" top --once --job 127.0.0.1:7339 >"$dir/out" 2>"$dir/err"
is "without a key the status is 1" $? 1
has "and a sentence says how to get it" "$dir/err" 'run coll top --print-key where a rank runs'
timeout 60 "$coll" top --key-file x >"$dir/out" 2>"$dir/err"
is "--key-file needs --job" $? 2
timeout 60 "$coll" top --job 127.0.0.1:7339 1234 >"$dir/out" 2>"$dir/err"
is "--job takes the place of JOB" $? 2

# ---------------------------------------------------------------------- two networks

# network NAME: makes a network and a host name, which live as long as a process, and sets $made to that.
network() {
    unshare -n -u sh -c 'hostname "$1" && : >"$2" && exec sleep 300' sh "$1" "$dir/made-$1" 2>"$dir/unshare" &
    made=$!
    pids="$pids $made"
    tries=0
    while [ ! -e "$dir/made-$1" ] && [ $tries -lt 100 ] && [ ! -s "$dir/unshare" ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    [ -e "$dir/made-$1" ]
}

# connect: a cable between the two networks.
connect() {
    nsenter -t "$a" -n sh -c 'ip link set lo up && ip link add eth0 type veth peer name eth1 &&
        ip link set eth1 netns "$1" && ip addr add 10.83.9.1/24 dev eth0 && ip link set eth0 up' sh "$b" &&
        nsenter -t "$b" -n sh -c 'ip link set lo up && ip addr add 10.83.9.2/24 dev eth1 && ip link set eth1 up'
}

if ! network node-a || ! a=$made || ! network node-b || ! b=$made || ! connect >"$dir/err" 2>&1; then
    skip "the ranks of another host" "needs root, network namespaces and veth"
    done_testing
fi

# on HOST COMMAND...: runs it in the network of that host, with its directory of pages.
on() {
    if [ "$1" = a ]; then host=$a; else host=$b; fi
    XDG_RUNTIME_DIR=$dir/$1
    shift
    timeout 100 nsenter -t "$host" -n -u "$@"
}

# ------------------------------------------------------------------------- no secret key

collect plain on a sh -c '
    for r in 1 0; do
        [ $r = 1 ] || export COLL_WATCH=yes
        COLL_BACKEND=tcp COLL_RANK=$r COLL_WORLD_SIZE=2 COLL_ROOT=127.0.0.1:7339 "$0" late / &
    done
    wait' "$rank"
take plain
has "ranks without a secret key show themselves to nobody" "$dir/err" 'rank 0 does not show the ranks of its host .*: the ranks have no secret key'
has "rank 0's option holds" "$dir/err" "rank 1: 'watch' differ from rank 0's; all ranks use rank 0's"

# ------------------------------------------------------------------------- the job

# Ranks 0 and 2 are on node-a, rank 1 is on node-b.
for place in a:0 b:1 a:2; do
    COLL_WATCH=yes COLL_COUNTERS=yes COLL_BACKEND=tcp COLL_RANK=${place#*:} COLL_WORLD_SIZE=3 COLL_ROOT=10.83.9.1:7340 COLL_KEY=secret-of-watch.t \
        COLL_STALL_AFTER=0 COLL_TIMEOUT=200s on "${place%:*}" "$rank" late "$dir/go" >"$dir/job-${place#*:}" 2>&1 </dev/null &
    ranks="$ranks $!"
done
pids="$pids $ranks"

# looks NAME PATTERN HOST ARGUMENTS...: `coll top --once ARGUMENTS` on that host comes to print a line that matches.
looks() {
    looks_name=$1
    looks_pattern=$2
    looks_on=$3
    shift 3
    tries=0
    while [ $tries -lt 100 ]; do
        on "$looks_on" "$coll" top --once "$@" >"$dir/out" 2>"$dir/err"
        ! grep -qE -- "$looks_pattern" "$dir/out" || break
        tries=$((tries + 1))
        sleep 0.1
    done
    check "$looks_name" grep -E -- "$looks_pattern" "$dir/out"
    [ $tries -lt 100 ] || sed 's/^/# /' "$dir/out" "$dir/err" "$dir"/job-*
}

# The directories of pages that have no name of their own may have jobs of other tests.
tries=0
while [ -z "$number" ] && [ $tries -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
    number=$(ls "$dir/a/coll" 2>/dev/null | sed -n 's/^coll-\([0-9a-f]*\)-rank-0-.*/\1/p')
done

looks "coll top names the address that shows all hosts" '^job .* on node-a, 2 of 3 ranks here, .*; all: coll top --job 10\.83\.9\.1:[0-9]+$' a "$number"
grep -q top_rank "$dir/out" || done_testing
at=$(sed -n 's/.*--job \(10.*\)$/\1/p' "$dir/out")
looks "the other host has one too" '^job .* on node-b, 1 of 3 ranks here, .*; all: coll top --job 10\.83\.9\.2:[0-9]+$' b "$number"
at_b=$(sed -n 's/.*--job \(10.*\)$/\1/p' "$dir/out")

looks "the ranks of both hosts" '^ +0 node-a .* waits .* in allreduce of 4 float64 \(sum\), collective 101' b --job "$at"
has "in one job" "$dir/out" '^job .*: top_rank on 2 hosts, 3 of 3 ranks, backend tcp$'
has "the late rank of the other host is marked" "$dir/out" '^\* +1 node-b .* outside .* after allreduce of 1 float32 \(sum\), collective 100'
looks "whichever host is asked" '^\* +1 node-b .* outside ' a --job "$at_b"
has "three ranks" "$dir/out" '^ +2 node-a '
on a "$coll" top --json --job "$at" >"$dir/json" 2>"$dir/err"
is "JSON has both hosts" "$(grep -c '"answers": true' "$dir/json") $(grep -c '"rank": [012],' "$dir/json")" "2 6"
if command -v python3 >/dev/null; then
    check "JSON is well-formed" python3 -m json.tool "$dir/json"
else
    skip "JSON is well-formed" "no python3"
fi

mkdir "$dir/dump"
on b "$coll" dump --job "$at" "$dir/dump" >"$dir/out" 2>"$dir/err"
is "coll dump writes the files of all ranks" "$? $(ls "$dir/dump" | wc -l)" "0 3"
has "with the host of each" "$(ls "$dir"/dump/*-rank-2-*)" '^# job .* host node-a '
on b "$coll" metrics --job "$at" >"$dir/out" 2>"$dir/err"
is "coll metrics prints those of all ranks" "$? $(grep -c '^coll_calls_total{.*kind="allreduce"' "$dir/out")" "0 3"
is "and that both hosts have answered" "$(grep -c '^coll_host_up{.*host="node-[ab]".*} 1$' "$dir/out")" 2

# ------------------------------------------------------------------------------- keys

on a "$coll" top --print-key "$number" >"$dir/key" 2>"$dir/err"
has "coll top --print-key prints the key" "$dir/key" '^[0-9a-f]{32}$'
mv "$dir/a/coll" "$dir/a/hidden" # no rank of the job is on this host, as far as tools see
chmod 644 "$dir/key"
on a "$coll" top --once --job "$at" --key-file "$dir/key" >"$dir/out" 2>"$dir/err"
is "a key that others can read is refused" $? 1
has "with the reason" "$dir/err" "cannot take the key from '.*/key': others may read or write it: run chmod 600"
chmod 600 "$dir/key"
mv "$dir/a/hidden" "$dir/a/coll"
looks "with the key of a file" '^ +0 node-a .* waits ' a --job "$at" --key-file "$dir/key"
tr 0-9 1-90 <"$dir/key" >"$dir/wrong" && chmod 600 "$dir/wrong"
on a "$coll" top --once --job "$at" --key-file "$dir/wrong" >"$dir/out" 2>"$dir/err"
is "a wrong key is turned away" "$? $(cat "$dir/out")" "1 "
has "with a sentence" "$dir/err" "another job's server is there, or the key is not this job's"
echo 12 >"$dir/wrong"
on a "$coll" top --once --job "$at" --key-file "$dir/wrong" >"$dir/out" 2>"$dir/err"
has "a file without a key is named" "$dir/err" "does not hold 32 hexadecimal digits"
on a "$coll" top --once --job 10.83.9.1:9 >"$dir/out" 2>"$dir/err"
has "a port where nobody listens is named" "$dir/err" '^coll top: [^0-9]*10\.83\.9\.1:9: Connection refused'

# ------------------------------------------------------------------------- stopped ranks

on a "$coll" top --once --job "$at" >"$dir/out" 2>"$dir/err"
pid_b=$(sed -n 's/^[* ] *1 node-b  *\([0-9]*\) .*/\1/p' "$dir/out")
pid_a=$(sed -n 's/^[* ] *2 node-a  *\([0-9]*\) .*/\1/p' "$dir/out")
[ -n "$pid_a" ] && [ -n "$pid_b" ] || exit 1
kill -STOP "$pid_a"
looks "a stopped rank that does not serve is shown" '^[* ] +2 node-a .* stopped ' b --job "$at"
kill -CONT "$pid_a"
kill -STOP "$pid_b"
on a "$coll" top --once --job "$at" >"$dir/out" 2>"$dir/err"
has "the host of a stopped rank that serves is named" "$dir/out" '^  node-b, rank 1: .*nobody answers'
has "beside the ranks of the others" "$dir/out" '^ +0 node-a .* waits '
on a "$coll" dump --job "$at" "$dir/none" >"$dir/out" 2>"$dir/err"
is "its ranks are missing in a dump" "$? $(ls "$dir/none" | grep -c '^coll-.*txt')" "1 2"
has "which says so" "$dir/err" '^coll dump: node-b, rank 1: .*nobody answers'
on a "$coll" metrics --job "$at" >"$dir/out" 2>"$dir/err"
has "and coll metrics has a metric for it" "$dir/out" '^coll_host_up{.*host="node-b",first_rank="1"} 0$'
kill -CONT "$pid_b"
looks "until it goes on" '^\* +1 node-b .* outside ' a --job "$at"

# ------------------------------------------------------------------------- the end

touch "$dir/go"
status=0
for pid in $ranks; do
    wait "$pid" || status=$?
done
is "the job ends as without it" "$status $(cat "$dir"/job-*)" "0 "
on a "$coll" top --once --job "$at" --key-file "$dir/key" >"$dir/out" 2>"$dir/err"
is "and then nobody listens" $? 1
done_testing
