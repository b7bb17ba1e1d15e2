#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# top.t - `coll top` and `coll dump`: ranks that are late, stopped, killed or failed, as their pages show them.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
rank=$build/tests/tools/top_rank
dir=$(mktemp -d /dev/shm/coll-top-XXXXXX) || exit 1
trap 'touch "$dir/go"; [ -z "$job" ] || kill -KILL "$job" 2>/dev/null; wait; rm -rf "$dir"' EXIT
mkdir "$dir/run" && chmod 700 "$dir" "$dir/run"
export XDG_RUNTIME_DIR="$dir/run"
pages=$dir/run/coll
job=

# start COMMAND...: runs a job in the background.
start() {
    rm -f "$dir/go"
    "$@" >"$dir/job" 2>&1 </dev/null &
    job=$!
}

# finish: lets the job end.
finish() {
    touch "$dir/go"
    wait "$job"
    job=
}

# sees NAME PATTERN [NUMBER]: `coll top --once` comes to print a line that matches, so often.
sees() {
    tries=0
    while [ $tries -lt 300 ]; do
        timeout 60 "$coll" top --once >"$dir/out" 2>"$dir/err"
        [ "$(grep -cE -- "$2" "$dir/out")" -ge "${3:-1}" ] && break
        tries=$((tries + 1))
        sleep 0.1
    done
    check "$1" [ "$(grep -cE -- "$2" "$dir/out")" -ge "${3:-1}" ]
    [ $tries -lt 300 ] || sed 's/^/# /' "$dir/out" "$dir/err" "$dir/job"
}

# The process of a rank, as `coll top` has printed it last.
pid_of() {
    sed -n "s/^[* ] *$1  *\([0-9]*\) .*/\1/p" "$dir/out"
}

# ---------------------------------------------------------------------------- no job

timeout 60 "$coll" top --once >"$dir/out" 2>"$dir/err"
is "without a job the status is 1" $? 1
has "and a sentence says so" "$dir/err" 'no job of this user runs on this host'
timeout 60 "$coll" top --json >"$dir/out" 2>"$dir/err"
has "JSON is a list without members" "$dir/out" '"jobs": \[\]'
timeout 60 "$coll" top --interval x >"$dir/out" 2>"$dir/err"
is "a wrong interval is a wrong command line" $? 2

# --------------------------------------------------------------------- a rank that is late

# late NAME COMMAND...: rank 1 of three is late, and the others wait.
late() {
    name=$1
    shift
    start "$@"
    sees "$name: rank 0 waits in its call" '^ +0 .* waits .* in allreduce of 4 float64 \(sum\), collective 101'
    sees "$name: the late rank is marked" '^\* +1 .* outside .* after allreduce of 1 float32 \(sum\), collective 100'
    sees "$name: the ranks are named that are awaited" ' waits .*; waits for rank [01]' 2
}

late tcp "$coll" run -n 3 -b tcp "$rank" late "$dir/go"
timeout 60 "$coll" top --json >"$dir/json" 2>"$dir/err"
has "JSON has the late rank" "$dir/json" '"behind": true'
has "and its collectives" "$dir/json" '"collectives": 100'
if command -v python3 >/dev/null; then
    check "JSON is well-formed" python3 -m json.tool "$dir/json"
else
    skip "JSON is well-formed" "no python3"
fi
is "pages are the user's alone" "$(stat -c %a "$pages" "$pages"/*.page | sort -u | tr '\n' ' ')" "600 700 "

# ---------------------------------------------------------------------- a rank that is stopped

pid=$(pid_of 1)
kill -STOP "$pid"
sees "a stopped rank is named" '^\* +1 .* stopped '
kill -CONT "$pid"
sees "until it goes on" '^\* +1 .* outside '

# ------------------------------------------------------------------------ dumps at any time

number=$(sed -n 's/^job \([0-9a-f]*\):.*/\1/p' "$dir/out")
mkdir "$dir/dump"
check "coll dump writes a file for each rank" timeout 60 "$coll" dump "$number" "$dir/dump"
is "three files" "$(ls "$dir/dump" | wc -l)" 3
has "with the open operation" "$dir/dump/coll-$number-comm-0-rank-0-pid-$(pid_of 0).txt" \
    '^101 101 allreduce float64 0 4 32 - - running [0-9.]+ [0-9.]+ - [a-z_-]+ allreduce of 4 float64 \(sum\)$'
has "and the head" "$dir/dump/coll-$number-comm-0-rank-1-pid-$pid.txt" \
    "^# job $number communicator 0 rank 1 ranks 3 world_rank 1 host .* pid $pid backend tcp\$"
timeout 60 "$coll" dump "$number" "$dir/dump" >"$dir/out" 2>"$dir/err"
is "a file that exists is not replaced" $? 1
timeout 60 "$coll" dump ffff "$dir/dump" >"$dir/out" 2>"$dir/err"
is "another job is not there" $? 1
has "and the one that is gets named" "$dir/err" "$number"

# ------------------------------------------------------------------------- two jobs

first=$job
"$coll" run -n 2 -b tcp "$rank" late "$dir/go" >"$dir/job2" 2>&1 </dev/null &
second=$!
tries=0
while timeout 60 "$coll" top --once >"$dir/out" 2>"$dir/err" && [ $tries -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
has "of two jobs one must be named" "$dir/err" "2 jobs fit, name one of them: [0-9a-f]{16} \(top_rank, .*\), [0-9a-f]{16}"
timeout 60 "$coll" top --once "$number" >"$dir/out" 2>"$dir/err"
has "the named one is shown" "$dir/out" "^job $number: top_rank on .*, 3 of 3 ranks here, backend tcp"
touch "$dir/go"
wait "$first" "$second"
job=
is "ranks that end remove their pages" "$(ls "$pages")" ""

# --------------------------------------------------------------- other calls, other backends

start "$coll" run -n 3 -b tcp "$rank" recv "$dir/go"
sees "a rank in another call" '^\* +0 .* waits .* in recv of 4 float64 from rank 1 with tag 7.*waits for rank 1'
sees "and the rank in the collective" '^ +2 .* waits .* in allreduce of 4 float64'
finish

start "$coll" run -n 3 -b tcp "$rank" some "$dir/go"
sees "a rank in coll_wait_some" '^[* ] +0 .* waits .*; waits for rank 1'
finish

for backend in tcp nccl; do
    start env LD_LIBRARY_PATH="$build/tests/fakes/.libs" STANDIN_CUDA_DEVICES=4 "$coll" run -n 3 -b $backend "$rank" poll "$dir/go"
    sees "$backend: ranks that poll" '^ +[02] .* polls .* polls for allreduce of 4 float64 \(sum\), collective 101; waits for rank [012]' 2
    sees "and the rank that they lack" '^\* +1 .* outside .* collective 100'
    finish
done

# The log has none of the collectives of ranks 0 and 2 any more.
start "$coll" run -n 3 -b tcp "$rank" messages "$dir/go"
sees "a rank that has sent many messages" '^ +0 .* outside .* after send of 1 float64 to rank 2 with tag 79, operation 180'
sees "and one that has received them" '^ +2 .* outside .* after recv .* operation 180'
sees "and one that has not" '^ +1 .* outside .* collective 100'
timeout 60 "$coll" top --json >"$dir/json" 2>"$dir/err"
is "all have called as many collectives" "$(grep -c '"collectives": 100,' "$dir/json") $(grep -c '"behind": true' "$dir/json")" "3 0"
finish

late "simulated, ranks as threads" env COLL_BACKEND=simulated "$rank" threads "$dir/go"
finish
if can ucx; then
    late ucx "$coll" run -n 3 -b ucx "$rank" late "$dir/go"
    finish
fi
late nccl env LD_LIBRARY_PATH="$build/tests/fakes/.libs" NCCL_STAND_INS="$build/tests/fakes/.libs" \
    STANDIN_CUDA_DEVICES=4 "$coll" run -n 3 -b nccl "$rank" late "$dir/go"
finish

# ------------------------------------------------------------------ failed and dead ranks

mkdir "$dir/failed"
start env COLL_DUMP="$dir/failed" COLL_TIMEOUT=2s COLL_STALL_AFTER=1s "$coll" run -n 3 -b tcp "$rank" fail "$dir/go"
sees "a failed rank says why" '^ +0 .* failed .* timed out' 1
number=$(sed -n 's/^job \([0-9a-f]*\):.*/\1/p' "$dir/out")
rm -rf "$dir/dump" && mkdir "$dir/dump"
check "coll dump of failed ranks" timeout 60 "$coll" dump "$number" "$dir/dump"
for file in "$dir/failed"/*-rank-[02]-*; do
    grep -v '^# \(libcoll\|connections\)' "$file" | sed 's/^\(# failed \)[0-9.]*/\1/' >"$dir/one"
    grep -v '^# libcoll' "$dir/dump/${file##*/}" | sed 's/^\(# failed \)[0-9.]*/\1/' >"$dir/other"
    # The two readings of the clocks may round a time differently.
    sed -i 's/\([0-9]\{9,\}\.[0-9]*\)[0-9][0-9]\b/\1/g' "$dir/one" "$dir/other"
    check "the same rows as the option dump writes" diff "$dir/one" "$dir/other"
done
finish

start "$coll" run -n 3 -b tcp --grace 60 "$rank" fail "$dir/go"
sees "three ranks" '^[ *] +[012] ' 3
kill -KILL "$(pid_of 2)"
sees "a killed rank is dead" '^[ *] +2 .* dead '
sees "and the others name it" '^[ *] +0 .* failed .* rank 2' 1
finish
timeout 60 "$coll" top --once >"$dir/out" 2>"$dir/err"
is "the next look removes the page of a job that is over" "$(ls "$pages")" ""

# --------------------------------------------------------------------- a rank in an observer

# The observer sleeps for seconds in each event.
start env COLL_OBSERVERS=sleeps COLL_PLUGIN_PATH="$build/.libs:$build/tests/plugins/.libs" COLL_TRUST="$build" \
    "$coll" run -n 2 -b tcp "$rank" late "$dir/go"
tries=0
while [ $tries -lt 300 ]; do
    rm -rf "$dir/dump" && mkdir "$dir/dump"
    for number in $(timeout 60 "$coll" top --json 2>"$dir/err" | sed -n 's/.*"job": "\([0-9a-f]*\)".*/\1/p'); do
        timeout 60 "$coll" dump "$number" "$dir/dump" >"$dir/out" 2>"$dir/err"
    done
    grep -qs '^# in observer sleeps$' "$dir/dump"/* && break
    tries=$((tries + 1))
    sleep 0.1
done
check "coll dump names the observer that a rank is in" [ $tries -lt 300 ]
kill "$job"
finish

# ------------------------------------------------------------------------ no page at all

rm -f "$pages"/* # of ranks that were killed
start env COLL_PAGE=no "$coll" run -n 2 -b tcp "$rank" late "$dir/go"
sleep 0.3
is "with page = no there is none" "$(ls "$pages")" ""
finish

done_testing
