#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# four.t - four faults, a rank that is late, stopped, killed or wrong, over four backends, as `coll top`, the log, the files of
# `coll dump` with `coll explain`, and the merged timeline with `coll trace report` show them while the job lasts.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
top_builddir=$build
coll=$build/coll
rank=$build/tests/observe/four_rank
dir=$(mktemp -d /dev/shm/coll-four-XXXXXX) || exit 1
chmod 700 "$dir"
# A case that hangs does not outlive the test: its launcher ends when the file that its ranks await is there.
trap 'for case in "$dir"/*/; do touch "$case/go"; done; wait; rm -rf "$dir"' EXIT
XDG_CONFIG_HOME=$dir/no-config
export XDG_CONFIG_HOME

sum='allreduce of 4 float32 \(sum\)'
both="called broadcast of 4 float32 with root 0.*, but rank [02] called $sum|rank [02] called $sum.*, but rank 1 called broadcast"

# The number of the job, by the name of a page: jobs of other tests may have pages elsewhere.
number() {
    find run/coll -name '*.page' 2>/dev/null | sed -n '1s/.*coll-\([0-9a-f]*\)-rank.*/\1/p'
}

# top_has PATTERN: `coll top --once` prints a line that matches now.
top_has() {
    number=$(number)
    [ -z "$number" ] || timeout 60 "$coll" top --once "$number" >top 2>top.err
    grep -qsE -- "$1" top
}
# logs_have PATTERN: a log of the ranks has a line that matches now.
logs_have() {
    cat log.* 2>/dev/null | grep -qE -- "$1"
}
# sees PATTERN: `coll top --once` comes to print a line that matches.
sees() {
    retry 300 top_has "$1"
}
# says PATTERN: a log of the ranks comes to have a line that matches.
says() {
    retry 300 logs_have "$1"
}

# The process of rank 1, as `coll top` has printed it.
pid_of_1() {
    sed -n 's/^[* ] *1  *\([0-9]*\) .*/\1/p' top
}

# Writes the other views while the job is as `coll top` has shown it.  `coll top` removes the pages of a job that is over.
look() {
    mkdir dump
    timeout 60 "$coll" dump "$number" dump >dump.out 2>&1
    timeout 60 "$coll" explain dump >explain 2>&1
    [ "$1" = over ] || timeout 60 "$coll" top --json "$number" >top.json 2>>top.err
    timeout 60 "$coll" trace merge job.?.json -o merged.json >merge 2>&1
    timeout 60 "$coll" trace report merged.json >report 2>&1
    timeout 60 "$coll" trace report --json merged.json >report.json 2>&1
    cat log.* >log
}

# begin NAME COMMAND...: enters a folder for the case, and starts the job there.
begin() {
    mkdir -p -m 700 "$dir/$1/run"
    cd "$dir/$1" || exit 1
    shift
    XDG_RUNTIME_DIR=$PWD/run
    export XDG_RUNTIME_DIR
    COLL_TIMELINE=job.%r.json COLL_LOG=warn COLL_LOG_FILE=log.%r COLL_STALL_AFTER=1s COLL_TIMEOUT=100s \
        "$@" >out 2>&1 </dev/null &
    job=$!
}

# hangs: the job has come to the call for which rank 1 is late.
hangs() {
    sees '^ +0 .* waits ' && sees '^ +2 .* waits ' && sees '^\* +1 .* outside '
}

# processes BACKEND FAULT MEMORY: the fault over a backend whose ranks are processes.
processes() {
    mode=late
    [ "$2" != wrong ] || mode=wrong
    begin "$1-$2" "$coll" run --grace 60 -n 3 -b "$1" "$rank" $mode "$dir/$1-$2/go" "$3"
    case $2 in
    late) hangs && says 'rank [02] waits in ' ;;
    stopped) hangs && kill -STOP "$(pid_of_1)" && sees '^\* +1 .* stopped ' && says 'is stopped' ;;
    killed) hangs && kill -KILL "$(pid_of_1)" && sees '^ +0 .* failed ' && sees '^ +2 .* failed ' && says 'the failure: ' ;;
    wrong) sees "^ +0 .* failed " && sees "^ +1 .* failed " && sees "^ +2 .* failed " && says "the failure: .*($both)" ;;
    esac
    look lives
    touch go
    [ "$2" != stopped ] || kill -CONT "$(pid_of_1)"
    wait "$job"
}

# two BACKEND: rank 1 of two is killed, and the other may find that beside its calls, which are on host memory.
two() {
    begin "$1-two" "$coll" run --grace 60 -n 2 -b "$1" "$rank" late "$dir/$1-two/go" host
    sees '^ +0 .* waits ' && sees '^\* +1 .* outside ' && kill -KILL "$(pid_of_1)" && sees '^ +0 .* failed ' && says 'the failure: '
    look lives
    touch go
    wait "$job"
}

# threads FAULT: the same over the backend whose ranks are threads.  The system stops and kills all of them together.
threads() {
    mode=late
    [ "$1" != wrong ] || mode=wrong
    begin "simulated-$1" env COLL_BACKEND=simulated "$rank" $mode "$dir/simulated-$1/go" threads
    case $1 in
    late) hangs && says 'rank [02] waits in ' ;;
    stopped) hangs && kill -STOP "$job" && sees '^\* +1 .* stopped ' ;;
    killed) hangs && kill -KILL "$job" && wait "$job" ;;
    wrong) sees "^[* ] +1 .* failed .*($both)" && says "the failure: .*($both)" ;;
    esac
    look "$([ "$1" = killed ] && echo over || echo lives)"
    touch go
    [ "$1" != killed ] || timeout 60 "$coll" top --once "$number" >top 2>top.err
    [ "$1" != stopped ] || kill -CONT "$job"
    wait "$job"
}

# observer BACKEND MEMORY: a rank is in an observer that sleeps for seconds in each event.
observer() {
    COLL_PLUGIN_PATH=$build/.libs:$build/tests/plugins/.libs
    COLL_OBSERVERS=sleeps
    export COLL_PLUGIN_PATH COLL_OBSERVERS
    begin "$1-observer" "$coll" run --grace 1 -n 3 -b "$1" "$rank" late "$dir/$1-observer/go" "$2"
    sees '^[* ] +[012] .* observer .*inside observer sleeps; .*allreduce'
    timeout 60 "$coll" top --json "$number" >top.json 2>>top.err
    kill "$job"
    wait "$job"
}

# All cases run beside each other, since they mostly wait.
backends=
(observer tcp host) &
for backend in tcp ucx; do
    if can $backend; then
        backends="$backends $backend"
        for fault in late stopped killed wrong; do
            (processes $backend $fault host) &
        done
    fi
done
if [ -e "$build/.libs/coll_nccl.so" ] && [ -z "${TEST_SANITIZE-}" ]; then
    backends="$backends nccl"
    for fault in late stopped killed two wrong observer; do
        (
            LD_LIBRARY_PATH=$build/tests/fakes/.libs
            STANDIN_CUDA_DEVICES=4
            export LD_LIBRARY_PATH STANDIN_CUDA_DEVICES
            case $fault in
            observer) observer nccl device ;;
            two) two nccl ;;
            *) processes nccl $fault device ;;
            esac
        ) &
    done
else
    skip "the same over nccl" "built without nccl, or with a sanitizer"
fi
for fault in late stopped killed wrong; do
    (threads $fault) &
done
wait

# views CASE: the next checks are of this case.
views() {
    case=$1
    cd "$dir/$1" || exit 1
}
# view NAME FILE PATTERN
view() {
    has "$case: $1" "$2" "$3"
}

for backend in $backends; do
    views "$backend-late"
    view "top names the rank that is behind" top "^\* +1 .* outside .* after $sum, collective 5\$"
    view "and the ranks that wait" top "^ +[02] .* waits .* in $sum, collective 6; waits for rank [012]"
    view "the log names its last call" log "rank [02] waits in .*rank 1 (does not answer, and was last heard from in|last called) allreduce .*as collective number 5"
    view "coll explain says how many calls it has made" explain "^rank 1 has made 5 collectives, others 6, .*; ranks 0, 2 wait in collective number 6, $sum"
    view "the timeline lacks its call" report '^  allreduce number 6 of communicator [^,]*, begun by 2 of 3 ranks, not by rank 1$'

    views "$backend-stopped"
    view "top names the rank that is stopped" top "^\* +1 .* stopped .* after $sum, collective 5\$"
    is "$case: and only that rank" "$(grep -c '"state": "stopped"' top.json)" 1
    view "the log says so" log 'rank [02] waits in .*; rank 1 .*: its process [0-9]+ is stopped'
    view "coll explain says so" explain '^rank 1 is stopped by a signal or a debugger; ranks 0, 2 wait in collective number 6'
    view "the timeline lacks its call" report '^  allreduce number 6 of communicator [^,]*, begun by 2 of 3 ranks, not by rank 1$'
    is "$case: and no call that is done" "$(sed -n 's/^Not done: //p' report)" "1 collective"

    views "$backend-killed"
    view "top names the rank that is dead" top "^[* ] +1 .* dead .* after $sum, collective 5\$"
    view "and the others say so" top '^ +[02] .* failed .*rank 1 was lost'
    view "the log says so" log 'watch warn: rank [02]: .*number 6, .*; the failure: rank 1 was lost'
    view "coll explain says so" explain '^rank 1 was lost: the process had ended when its page was read'
    view "the timeline lacks its call" report '^  allreduce number 6 of communicator [^,]*, begun by 2 of 3 ranks, not by rank 1$'
    is "$case: and no call that is done" "$(sed -n 's/^Not done: //p' report)" "1 collective"
    view "the report names the failure" report '^  rank [02](, 2)? after [0-9.]+ s: .*rank 1 was lost'

    views "$backend-wrong"
    view "top shows both calls" top "^[* ] +1 .* failed .*($both)"
    view "the log too" log "watch warn: rank [012]: .*(number 6, .*|all its operations are done); the failure: .*($both)"
    view "coll explain too" explain 'rank.* called (broadcast|allreduce) .* as collective number 6, but rank.* called (broadcast|allreduce)'
    view "and the report" report "^  rank [012](, [12])* after [0-9.]+ s: .*($both)"
done

case " $backends " in
*" nccl "*)
    views nccl-two
    view "top names the rank that is dead" top "^[* ] +1 .* dead .* after $sum, collective 5\$"
    view "the log names the call and the rank" log 'watch warn: rank 0: .*number 6, .*; the failure: rank 1 was lost'
    view "coll explain names the rank" explain '^rank 1 was lost: the process had ended when its page was read'
    ;;
esac

for backend in tcp nccl; do
    case " $backends " in *" $backend "*) ;; *) continue ;; esac
    views "$backend-observer"
    view "top names the observer that a rank is in" top '^[* ] +[012] .* observer .*inside observer sleeps; .*allreduce'
    view "also as JSON" top.json '"observer": "sleeps"'
done

views simulated-late
view "top names the rank that is behind" top "^\* +1 .* outside .* after $sum, collective 5\$"
view "the log says that it makes no call" log "rank [02] waits in $sum.*rank 1 does not answer"
view "coll explain says how many calls it has made" explain '^rank 1 has made 5 collectives, others 6'
view "the timeline lacks its call" report '^  allreduce number 6 of communicator [^,]*, begun by 2 of 3 ranks, not by rank 1$'
views simulated-stopped
is "$case: top shows that all are stopped" "$(grep -cE '^[* ] +[012] .* stopped ' top)" 3
view "coll explain says so" explain '^ranks 0-2 are stopped by a signal or a debugger'
view "the timeline lacks the call of rank 1" report ', begun by 2 of 3 ranks, not by rank 1$'
views simulated-killed
is "$case: top shows that all are dead" "$(grep -cE '^[* ] +[012] .* dead ' top)" 3
view "coll explain says so" explain '^ranks 0-2 were lost: the process had ended when its page was read'
view "the timeline lacks the call of rank 1" report ', begun by 2 of 3 ranks, not by rank 1$'
views simulated-wrong
view "top shows both calls" top "^[* ] +1 .* failed .*($both)"
view "the log too" log "watch warn: rank [012]: .*(number 6, .*|all its operations are done); the failure: .*($both)"
view "coll explain too" explain 'rank.* called (broadcast|allreduce) .* as collective number 6, but rank.* called (broadcast|allreduce)'
view "and the report" report "^  rank [012](, [12])* after [0-9.]+ s: .*($both)"
cd / || exit 1

done_testing
