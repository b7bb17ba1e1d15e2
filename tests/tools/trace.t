#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# trace.t - timelines of real jobs, over each backend, of jobs that fail and of files that cannot be written; and what
# `coll trace` makes of them.
. "${top_srcdir:-.}/tests/lib/tap.sh"

command -v python3 >/dev/null || skip_all "python3 is not here"
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
src=$(cd "${top_srcdir:-.}" && pwd) || exit 1
top_builddir=$build
coll=$build/coll
traced=$build/tests/tools/traced
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
COLL_TIMELINE=job.%r.json
export COLL_TIMELINE

look() {
    python3 "$src/tests/tools/trace_check.py" "$@"
}
# job NAME COMMAND...: runs it in a folder of its own, where the timelines come to lie.
job() {
    mkdir -p "$dir/$1"
    job_name=$1
    shift
    (cd "$dir/$job_name" && collect "$job_name" "$@")
}
# get FILE KEY...: a value of the JSON document.
get() {
    look get "$@"
}

job tcp env COLL_BACKEND=tcp "$coll" run -n 4 "$traced" calls 20 &
job late env COLL_BACKEND=tcp "$coll" run -n 4 "$traced" late &
job killed env COLL_BACKEND=tcp COLL_TIMEOUT=10s "$coll" run --grace 10 -n 4 "$traced" killed &
job exit env COLL_BACKEND=tcp "$coll" run -n 2 "$traced" exit &
wait
job again env COLL_BACKEND=tcp "$coll" run -n 2 "$traced" again &
job threads env COLL_BACKEND=tcp "$coll" run -n 2 "$traced" threads &
job closed env COLL_BACKEND=tcp "$coll" run -n 2 "$traced" closed &
job overlap env COLL_BACKEND=tcp "$coll" run -n 2 --no-prefix "$build/tests/examples/overlap" --host 1 --kib 1024 &
job simulated env COLL_BACKEND=simulated "$coll" perf --in-process 4 -n 5 -w 1 -s 8,64K allreduce &
wait

# ---- a job over tcp ----
take tcp
is "a job with timelines ends well" "$status" 0
none "and says nothing of them" "$(cat "$dir/err")"
cd "$dir/tcp" || exit 1
check "each rank has a file in the Trace Event Format" look events job.0.json job.1.json job.2.json job.3.json
is "of mode 0600" "$(stat -c %a job.*.json | sort -u)" 600
look rows job.1.json >rows
has "its process is the rank" rows '^rank 1 \('
for row in "calls, communicator 0" "steps, communicator 0" "waits of thread 1" "messages, communicator 0"; do
    has "there is a row: $row" rows "^$row\$"
done
check "they are merged" "$coll" trace merge job.?.json -o merged.json
check "into a file in the format, with arrows from each send to its receive" look events merged.json
has "which has such arrows" merged.json '"ph":"s".*"name":"message"'
check "a report" sh -c '"$1" trace report job.?.json >report' sh "$coll"
has "counts the collectives by kind and size" report '^allreduce +<= 4K +20 '
has "and messages" report '^isend +<= 64 +80 '
has "and names the slowest" report '^  [a-z]+ number [0-9]+ of communicator 0'
"$coll" trace report merged.json >report2
is "the report of the merged file is the same" "$(grep -v '^#' report2)" "$(grep -v '^#' report)"
"$coll" trace report --json job.?.json >report.json
is "as JSON it says how many ranks there are" "$(get report.json ranks 3 rank)" 3
is "and that nothing is left" "$(get report.json not_done)" 0
is "and that no event is lost" "$(get report.json ranks 0 events_lost)" 0
check "GOAL" "$coll" trace export --goal job.?.json -o job.goal
check "its messages have both ends, and its schedule ends" look goal job.goal
check "Chakra" "$coll" trace export --chakra merged.json -o chakra
look chakra chakra.2.json >nodes 2>&1
has "has a node for each call" nodes "'COMM_COLL_NODE', 'allreduce'\), 20\).*'COMM_SEND_NODE', 'isend to 3'\), 20"
if command -v trace_processor_shell >/dev/null; then
    check "Perfetto's own parser reads the merged file" sh -c \
        'echo "select count(*) from slice" | trace_processor_shell -q /dev/stdin merged.json'
else
    skip "Perfetto's own parser reads the merged file" "trace_processor_shell is not here"
fi

# ---- clocks ----
look shift job.1.json 5.5 far.1.json
look shift job.2.json 5.5 far.2.json
check "ranks of a host with another clock" "$coll" trace merge job.0.json far.1.json far.2.json job.3.json -o far.json
check "have times that fit" look events far.json
head -n 1 far.json | sed 's/^\[ //; s/,$//' >head.json
is "by messages" "$(get head.json args clocks 1 method)" messages
check "the shift is right within its bound, of some milliseconds at most" python3 - <<'END'
import json
clock = json.load(open("head.json"))["args"]["clocks"][1]
bound = clock["error_at_most_ns"]
assert abs(clock["shift_ns"] + 5500000000) <= bound <= 200e6, clock
END
grep -v '"cat":"step"' far.1.json | sed 's/"collective":[0-9]*,//' >poor.1.json
check "without messages the time of day counts" "$coll" trace merge job.0.json poor.1.json -o poor.json
has "without a bound" poor.json '"method":"time of day".*"error_at_most_ns":null'

# ---- who is late, who was killed ----
take late
cd "$dir/late" || exit 1
"$coll" trace report --json job.?.json >report.json
is "a rank that sleeps is the last rank" "$(get report.json slowest 0 last_rank)" 2
check "for which the others waited 6 s together" python3 - <<'END'
import json
report = json.load(open("report.json"))
assert 5 < report["ranks"][2]["others_waited_s"] < 60, report["ranks"]
assert report["ranks"][2]["others_waited_s"] > 0.8 * report["waiting_s"], report["ranks"]
assert report["overlap"] < 0.5, report["overlap"]
END
"$coll" trace report job.?.json >report
has "in words" report '  most for rank 2: [5-9]\.'
take killed
cd "$dir/killed" || exit 1
check "the files of a job whose rank was killed are whole" look events --open job.0.json job.1.json job.2.json job.3.json
check "are merged" "$coll" trace merge job.?.json -o merged.json
has "tell of the failure" merged.json '"name":"the communicator has failed".*rank 1'
"$coll" trace report job.?.json >report 2>err
has "the report names the call that is not done, and who is missing" report \
    '^  allreduce number [0-9]+ of communicator 0, begun by 3 of 4 ranks, not by rank 1$'
has "and the failure" report '^  rank 0, 2, 3 after [0-9.]+ s: rank 1 was lost: '
"$coll" trace report --json job.?.json >report.json 2>err
has "also as JSON" report.json '"text": "rank 1 was lost: '
is "which says who has not begun the last call" "$(get report.json first_not_done -1 missing)" 1
has "and the rank without an end" err "timeline of rank 1 has no end"

# ---- computation and communication at once ----
take overlap
cd "$dir/overlap" || exit 1
is "the example of overlap ends well" "$status" 0
check "its files are merged" "$coll" trace merge job.0.json job.1.json -o merged.json
check "into a file in the format" look events merged.json
check "which shows that data move while the program computes" look together merged.json 0.03
check "a job whose ranks wait for each call" "$coll" trace merge "$dir"/late/job.?.json -o late.json
check "shows no such thing" sh -c '! "$@" 2>/dev/null' sh python3 "$src/tests/tools/trace_check.py" together late.json 0.03

# ---- other ends ----
take exit
is "a program that ends without destroying its communicator" "$status" 0
check "leaves whole files" look events "$dir/exit/job.0.json" "$dir/exit/job.1.json"
check "which have their ends" grep -q '"at":"end"' "$dir/exit/job.1.json"
take again
cd "$dir/again" || exit 1
check "communicators that come one after the other have one file" look events job.0.json job.1.json
is "with all that they did" "$(grep -c '"cat":"call","name":"broadcast"' job.0.json)" 6
"$coll" trace report --json job.?.json >report.json
is "and a report of all" "$(get report.json not_done)" 0
take threads
is "two threads with a communicator each" "$status" 0
check "are in one file" look events "$dir/threads/job.0.json" "$dir/threads/job.1.json"
look rows "$dir/threads/job.0.json" >"$dir/rows"
check "with waits of both" grep -q '^waits of thread 2$' "$dir/rows"
take closed
is "a program that closes the library's descriptors goes on" "$status" 0
is "with one warning a rank" "$(grep -c 'warn: .*the program has closed its descriptor; the job goes on without it' "$dir/err")" 2
check "and its files are whole" look events --open "$dir/closed/job.0.json" "$dir/closed/job.1.json"

# ---- files that cannot be written ----
mkdir "$dir/bad"
cd "$dir/bad" || exit 1
COLL_BACKEND=tcp
export COLL_BACKEND
check "a file's limit (ulimit -f)" sh -c '(ulimit -f 64; "$1" run -n 2 "$2" calls 300 2>err)' sh "$coll" "$traced"
is "is a warning a rank" "$(grep -c 'File too large (ulimit -f)' err)" 2
check "and the files are whole" look events --open job.0.json job.1.json
check "a bound" sh -c 'COLL_TIMELINE_BYTES=256K "$1" run -n 2 "$2" calls 500 2>err' sh "$coll" "$traced"
is "is a warning" "$(grep -c "ends at its bound of 262144 bytes (timeline_bytes)" err)" 2
check "the file says so" grep -q '"name":"the timeline ends here' job.0.json
check "and is whole" look events job.0.json job.1.json
check "and is not longer" test "$(stat -c %s job.0.json)" -le 262144
ln -sf "$dir/other" link.0.json
check "a link in the file's place" sh -c 'COLL_TIMELINE=link.%r.json "$1" run -n 2 "$2" 2>err' sh "$coll" "$traced"
has "is refused" err "the timeline 'link.0.json' cannot be written: its name is taken by something that is no file of this user"
check "and nothing is where it leads" test ! -e "$dir/other"
check "a name for all ranks" sh -c 'COLL_TIMELINE=all.json "$1" run -n 2 "$2" 2>err' sh "$coll" "$traced"
has "is refused" err "the timeline 'all.json' is one file for all ranks: expected %r"
check "a percent sign and an r" sh -c 'COLL_TIMELINE=all%%r.json "$1" run -n 2 "$2" 2>err' sh "$coll" "$traced"
has "are no rank" err "the timeline 'all%%r.json' is one file for all ranks: expected %r"
check "a directory that is not there" sh -c 'COLL_TIMELINE=no/%r.json "$1" run -n 2 "$2" 2>err' sh "$coll" "$traced"
has "is a warning" err "cannot be written: No such file or directory"
if [ "$(id -u)" -eq 0 ] && mkdir -p small && mount -t tmpfs -o size=64k none small 2>/dev/null; then
    check "a full disk" sh -c 'COLL_TIMELINE=small/%r.json "$1" run -n 2 "$2" calls 300 2>err' sh "$coll" "$traced"
    is "is a warning a rank" "$(grep -c 'No space left on device; the job goes on without it' err)" 2
    check "and the files are whole" look events --open small/0.json small/1.json
    umount small
else
    skip "a full disk" "this user cannot mount a small file system"
fi
unset COLL_BACKEND

# ---- other backends ----
take simulated
cd "$dir/simulated" || exit 1
is "ranks in one process" "$status" 0
check "have a file each" look events job.0.json job.1.json job.2.json job.3.json
"$coll" trace report job.?.json >report
has "and a report" report '^allreduce +<= 64K '
if can ucx; then
    job ucx env COLL_BACKEND=ucx "$coll" run -n 4 "$traced"
    take ucx
    cd "$dir/ucx" || exit 1
    check "over ucx" look events job.0.json job.1.json job.2.json job.3.json
    "$coll" trace report --json job.?.json >report.json
    is "all is counted" "$(get report.json not_done)" 0
fi
fakes=$dir/fakes
mkdir "$fakes"
ln -s "$build/tests/fakes/.libs/libcuda.so.1" "$build/tests/fakes/.libs/libnccl.so.2" "$fakes/"
job nccl env LD_LIBRARY_PATH="$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" STANDIN_CUDA_DEVICES=4 COLL_BACKEND=nccl \
    "$coll" run -n 4 "$coll" perf -m cuda -n 5 -w 1 -s 8,64K allreduce
take nccl
cd "$dir/nccl" || exit 1
is "over nccl's stand-in" "$status" 0
check "the files are right" look events job.0.json job.1.json job.2.json job.3.json
"$coll" trace report job.?.json >report
has "and have the calls" report '^allreduce +<= 64K '
check "GOAL, for calls without messages" "$coll" trace export --goal job.?.json -o job.goal
check "is a schedule that ends" look goal job.goal

# ---- the command line, and files that are none ----
cd "$dir/tcp" || exit 1
# wrong STATUS WORDS ARGUMENT...
wrong() {
    wrong_status=$1
    wrong_words=$2
    shift 2
    collect wrong "$coll" trace "$@"
    take wrong
    is "coll trace $*: fails" "$status" "$wrong_status"
    has "and says why" "$dir/err" "$wrong_words"
}
wrong 2 "expected a command: merge, report or export"
wrong 2 "no command 'reprot', did you mean 'report'" reprot
wrong 2 "merge needs -o" merge job.0.json
wrong 2 "report needs the files" report
wrong 2 "export takes one of --goal and --chakra" export job.0.json -o x
wrong 2 "report prints, and takes no -o" report -o x job.0.json
wrong 2 "no option '--gaol', did you mean '--goal'" export --gaol
wrong 1 "cannot read 'none.json': No such file" report none.json
wrong 1 "'job.0.json' is of rank 0, and so is another file" report job.0.json job.0.json
wrong 1 "'job.0.json' is one of the files that are read" merge job.0.json -o job.0.json
wrong 1 "'job.0.json' is one of the files that are read" export --chakra job.0.json job.1.json -o job
check "which is not changed" look events job.0.json
wrong 1 "the files are of different jobs" report job.0.json ../late/job.1.json
wrong 1 "'merged.json' is merged already" merge merged.json -o again.json
wrong 1 "give it alone" report merged.json job.0.json
: >empty.json
wrong 1 "byte 0: the file is empty" report empty.json
echo '{"a": 1}' >object.json
wrong 1 'the object has no "traceEvents"' report object.json
echo '[{"ph":"M","name":"process_name","pid":1,"tid":0}]' >other.json
wrong 1 "is no timeline of libcoll: it has no \"coll_clock\"" report other.json
echo '[{"ph":"M","pid":1,]' >broken.json
wrong 1 "'broken.json' is no timeline: byte " report broken.json
wrong 1 "cannot write '/nosuch/x'" merge job.0.json -o /nosuch/x
head -c 20000 job.1.json >cut.1.json
check "a file that is cut is read as far as it goes" sh -c '"$1" trace report job.0.json cut.1.json 2>err >report' sh "$coll"
has "with a word" err "'cut.1.json' ends amid an event"


# made NAME RANK EVENTS: a timeline of the rank, which has a host of its own, with these events.  "pid" is added.
made() {
    {
        echo '[{"ph":"M","tid":0,"name":"coll_clock","args":{"format":1,"at":"begin","clock":"c'"$2"'","host":"h'"$2"'","rank":'"$2"',"ranks":'"${ranks:-1}"',"monotonic_ns":1,"wall_ns":1}},'
        echo '{"ph":"M","tid":0,"name":"coll_comm","args":{"comm":1,"id":"'"${id:-0}"'","job":"1","rank":'"$2"',"ranks":'"${ranks:-1}"'}},'
        echo "$3,"
        echo '{"ph":"M","tid":0,"name":"coll_clock","args":{"at":"end","clock":"c'"$2"'","host":"h'"$2"'","rank":'"$2"',"ranks":'"${ranks:-1}"'}}]'
    } | sed "s/\"ph\"/\"pid\":$2,&/" >"$1"
}
# slice TID FROM TO NAME CATEGORY ARGUMENTS: its begin and end.
slice() {
    echo '{"ph":"B","tid":'"$1"',"ts":'"$2"',"cat":"'"$5"'","name":"'"$4"'","args":{"comm":1,'"$6"'}},'
    echo '{"ph":"E","tid":'"$1"',"ts":'"$3"',"args":{"code":0}}'
}
lost='{"ph":"B","tid":1,"ts":1000,"cat":"call","name":"allreduce","args":{"comm":1,"number":1,"collective":1,"bytes":8}},
{"ph":"E","tid":1,"ts":2000,"args":{"unfinished":1}},
{"ph":"B","tid":1,"ts":900000,"cat":"call","name":"allreduce","args":{"comm":1,"number":2,"collective":2,"bytes":8}},
{"ph":"E","tid":1,"ts":901000,"args":{"code":0}}'
made lost.json 0 "$lost"
"$coll" trace report --json lost.json >report.json
is "after a call whose end was lost no call is under way" "$(get report.json communication_s)" 0.002

ranks=2
made drift.0.json 0 "$(slice 1 1000 1001 'send to 1' step '"sends":"0x11"')
,$(slice 2 1050 1150 'recv from 1' step '"receives":"0x22"')"
made drift.1.json 1 "$(slice 1 1200 1201 'send to 0' step '"sends":"0x22"')
,$(slice 2 800 900 'recv from 0' step '"receives":"0x11"')"
"$coll" trace report --json drift.0.json drift.1.json >report.json 2>err
is "clocks that drift have no bound" "$(get report.json clocks 1 error_at_most_ns)" None
has "and a note says so" err "the clock of host h1 drifts: .* wrong by at least 75.0 us"

unset ranks
made rooted.json 0 "$(slice 1 1000 2000 broadcast call '"number":1,"collective":1,"bytes":1000000')
,$(slice 1 3000 4000 allgather call '"number":2,"collective":2,"bytes":1000000')"
"$coll" trace report rooted.json >report
has "a broadcast has no bus bandwidth" report '^broadcast +<= 1M +1 +1.000 +- '
has "an allgather has one" report '^allgather +<= 1M +1 +1.000 +[0-9]'

id=$(printf 'a\033[2J\302\233m\177')
made names.json 0 "$(slice 1 1000 2000 allreduce call '"number":1,"collective":1,"bytes":8')"
"$coll" trace report names.json >report
has "a name cannot command a terminal" report 'of communicator a[?].2J[?]+m[?],'
unset id
ranks=2147483647
made many.json 0 '{"ph":"B","tid":1,"ts":1000,"cat":"call","name":"allreduce","args":{"comm":1,"number":1,"collective":1,"bytes":8}}'
"$coll" trace report many.json >report
has "a communicator of too many ranks counts as one of a single rank" report 'begun by 1 of 1 ranks'
unset ranks
ln -s /dev/full full
check "a device that is full" sh -c '! "$1" trace merge rooted.json -o full 2>err' sh "$coll"
check "stays where it is" test -c full

# ---- long files ----
python3 - <<'END'
import re
text = open("job.0.json").read().split(",\n")
middle = [e for e in text if '"cat":"step"' in e or ('"ph":"E"' in e and '"args"' not in e)]
head = [e for e in text if '"ph":"M"' in e and '"at":"end"' not in e and "coll_timeline" not in e]
with open("long.json", "w") as out:
    out.write(",\n".join(head))
    step = [e for e in text if '"cat":"call"' in e][0], '{"ph":"E","pid":0,"tid":%s,"ts":%%d}' % re.search(
        r'"tid":(\d+)', [e for e in text if '"cat":"call"' in e][0]).group(1)
    begin = re.sub(r'"ts":[0-9.]*', '"ts":%d', step[0].replace("%", "%%"), count=1)
    begin = re.sub(r'"number":\d+,"collective":\d+', '"number":%d,"collective":%d', begin)
    for i in range(60000):
        out.write(",\n" + begin % (i * 10 + 1, i + 1, i + 1) + ",\n" + step[1] % (i * 10 + 5))
    out.write("\n]\n")
END
check "a report of 20 MB takes no more memory than one of 100 KB" python3 - "$coll" <<'END'
import os, subprocess, sys
def peak(path):
    with open(os.devnull, "w") as null:
        child = subprocess.Popen([sys.argv[1], "trace", "report", path], stdout=null, stderr=null)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss
small, large = peak("job.0.json"), peak("long.json")
assert os.path.getsize("long.json") > 15e6 and large < small + 8192, (small, large)
END

done_testing
