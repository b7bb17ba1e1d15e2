#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# explain.t - `coll explain`: what the files of jobs say in which a rank is late, stopped, killed or wrong, over each backend;
# files that are not as expected; pictures of schedules.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
coll=$build/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config

explain() {
    status=0
    timeout 120 "$coll" explain "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# json EXPRESSION: the value of a Python expression about the document d and its first communicator c.
json() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
c = d["communicators"][0]
print(eval(sys.argv[2]))' "$dir/out" "$1" 2>&1
}

# ------------------------------------------------------------------------ jobs that fail

# Ranks that wait give up after 5 seconds, so the jobs run beside each other.
job() {
    local backend=$1 fault=$2
    shift 2
    mkdir "$dir/$backend-$fault"
    COLL_TIMEOUT=5s COLL_LOG=error timeout 300 "$build/tests/tools/explain_job" "$backend" "$fault" \
        "$dir/$backend-$fault" "$@" >"$dir/$backend-$fault.log" 2>&1 </dev/null
}

# tells BACKEND FAULT CAUSE VERDICT: the job's files say the cause, with rank 1 as the one who did it.
tells() {
    explain --json "$dir/$1-$2"
    is "$1, $2: the cause" "$(json 'd["cause"]')" "$3"
    is "$1, $2: the ranks and the number" "$(json 'd["verdict"]' | grep -cE "$4")" 1
    [ "$(json 'd["cause"]')" = "$3" ] || sed 's/^/# /' "$dir/out" "$dir/$1-$2.log"
}

processes=""
for backend in tcp ucx; do
    if can $backend; then
        processes="$processes $backend"
        for fault in late stopped killed wrong; do
            job $backend $fault processes host &
        done
    fi
done
for fault in late absent left wrong; do
    job simulated $fault threads host &
done
nccl=
if [ -e "$build/.libs/coll_nccl.so" ] && [ -z "$TEST_SANITIZE" ]; then
    nccl=yes
    for fault in late stopped killed wrong; do
        LD_LIBRARY_PATH=$build/tests/fakes/.libs STANDIN_CUDA_DEVICES=4 job nccl $fault processes device &
    done
fi
wait

waits='ranks 0, 2 wait(ed)? (for|in)'
for backend in $processes; do
    tells $backend late rank_late '^rank 1 came late: made no call for [0-9.]+ s before collective number 6, allreduce of 4 float32 \(sum\)'
    tells $backend stopped rank_stopped "^rank 1 is stopped by a signal or a debugger; $waits collective number 6, allreduce "
    tells $backend killed rank_lost "^rank 1 was lost: other ranks say so"
    # One of the other ranks may learn of the failure before it calls.
    tells $backend wrong different_calls '^ranks? .* called .* as collective number 6, but ranks? .* called '
    is "$backend, wrong: the first call that differs" \
        "$(json '[c["differs"]] + sorted((s["call"]["kind"], s["call"]["count"], s["call"]["root_or_peer"]) for s in c["differing_calls"])')" \
        "[6, ('allreduce', 4, None), ('broadcast', 4, 0)]"
    is "$backend, wrong: who called it" \
        "$(json '[s["ranks"] for s in c["differing_calls"] if s["call"]["kind"] == "broadcast"]')" "[[[1, 1]]]"
done
tells simulated late rank_late '^rank 1 came late: .* before collective number 6'
tells simulated absent rank_silent '^rank 1 has no file and did not answer'
tells simulated left rank_left '^rank 1 destroyed its communicator: other ranks say so'
tells simulated wrong different_calls '^ranks? .* called .* as collective number 6, but ranks? .* called '
if [ "$nccl" ]; then
    # The rank whose call differs may have ended it, and leave no file.
    tells nccl late rank_behind "^rank 1 has made 5 collectives, others 6, .*; $waits collective number 6"
    tells nccl stopped rank_stopped "^rank 1 is stopped by a signal or a debugger; $waits collective number 6"
    tells nccl killed rank_lost "^rank 1 was lost: other ranks say so"
    explain "$dir/nccl-wrong"
    is "each file is named" "$(ls "$dir/nccl-wrong" | wc -l)" \
        "$(timeout 60 "$coll" explain --json "$dir/nccl-wrong" | grep -c '"file": ".*/coll-')"
    has "nccl, wrong: the calls over tcp are apart" "$dir/out" '^Communicator 0 of job [0-9a-f]*, 3 ranks, backend tcp$'
    has "nccl, wrong: both calls" "$dir/out" 'rank [012] called (broadcast|allreduce) .* as collective number 6, but rank [012] called '
else
    skip "the same over nccl" "built without nccl, or with a sanitizer"
fi

explain "$dir/simulated-wrong"
is "the page: status 0" $status 0
none "and no word on standard error" "$(cat "$dir/err")"
has "it begins with the verdict" <(sed 1q "$dir/out") 'called broadcast of 4 float32'
has "has both calls with all that counts" "$dir/out" \
    '^    ranks? .*: allreduce of 4 float32 \(sum\); kind allreduce, type float32, op sum, count 4, algorithm [a-z_]+$'
has "and the sentence of the failure" "$dir/out" '^    \+0\.000 s ranks? .*, error 22: rank'
explain "$dir/simulated-absent"
has "ranks that are equal are one entry" "$dir/out" '^    ranks 0, 2: have made 6 collectives, 5 done; newest call '
has "with what they wait for" "$dir/out" '^        wait in collective number 6, allreduce of 4 float32 .*; needs rank 1$'

# ------------------------------------------------------------ files that are not as expected

explain
is "no file: status 2" $status 2
has "and a sentence" "$dir/err" 'name the files of a job'
explain "$dir/nosuch"
is "a file that is not there: status 1" $status 1
has "and its name" "$dir/err" "^coll explain: $dir/nosuch: cannot be read: No such file"
mkdir "$dir/empty"
explain "$dir/empty"
has "an empty directory" "$dir/err" 'empty: the directory has no file coll-\*\.txt'
mkfifo "$dir/pipe"
explain "$dir/pipe"
has "a pipe does not block" "$dir/err" 'pipe: no file and no directory'
echo "not a dump" >"$dir/other"
explain "$dir/other" "$dir/simulated-wrong"
is "a file of something else beside others: status 0" $status 0
has "and it is named" "$dir/out" '^  .*/other: the file has no dump: expected'

mkdir "$dir/broken"
i=0
for file in "$dir"/simulated-wrong/coll-*; do
    i=$((i + 1))
    case $i in
    1) sed 's/^3 3 allreduce/3 x3 allreduce/' "$file" >"$dir/broken/coll-1.txt" ;;
    2) head -c -20 "$file" >"$dir/broken/coll-2.txt" ;;
    *) cp "$file" "$dir/broken/coll-$i.txt" ;;
    esac
done
explain "$dir/broken"
is "broken files: status 0" $status 0
has "the line that is wrong" "$dir/out" "coll-1\.txt:8: column collective is 'x3', expected a number, or -; the line is not used"
has "the line that is cut" "$dir/out" 'coll-2\.txt:[0-9]+: the file is cut in this line'
explain "$dir/broken" "$dir/broken/coll-3.txt"
has "a file that is given twice is used once" "$dir/out" 'coll-3\.txt: the dump of rank [0-9] is also in'
explain "$dir/simulated-wrong" "$dir/simulated-late"
has "files of two jobs are told apart" "$dir/out" '^\(of communicator .* over simulated; there are 2, .*; they are of several jobs\)$'
cat "$dir"/simulated-wrong/coll-* >"$dir/joined"
explain "$dir/joined"
has "dumps after one another in one file" <(sed 1q "$dir/out") 'called broadcast of 4 float32'

# ------------------------------------------------------------------------------ schedules

explain --schedule allreduce --algorithm ring --ranks 4 --bytes 1M
is "a schedule: status 0" $status 0
has "its rounds, messages and bytes" "$dir/out" '^allreduce of 1M bytes by ring, 4 ranks: 6 rounds, 24 messages, 6M bytes in all$'
is "a table of its messages, round by round" "$(sed -n '/^round 2/,/^round 3/p' "$dir/out" | sed 's/  */ /g')" "round 2
 0 -> 1 256K recv+512K into recv+512K = send+512K op message
 1 -> 2 256K recv+768K into recv+768K = send+768K op message
 2 -> 3 256K recv into recv = send op message
 3 -> 0 256K recv+256K into recv+256K = send+256K op message
round 3"
explain --schedule allreduce --algorithm ring --ranks 64 --bytes 64K
is "with more ranks a line a round" "$(awk '$2 == 64' "$dir/out" | wc -l)" 126
explain --schedule broadcast --algorithm binomial --ranks 8 --bytes 8 --root 3
has "a tree from its root" "$dir/out" '^ +3 -> 7 +8 '
explain --schedule barrier --ranks 1
has "a rank alone sends nothing" "$dir/out" '1 rank: 0 rounds, 0 messages'

# parses FILE...: are these XML documents, in which no label lies on another?
parses() {
    python3 - "$@" <<'END'
import sys, xml.dom.minidom
for name in sys.argv[1:]:
    boxes = []
    for t in xml.dom.minidom.parse(name).getElementsByTagName("text"):
        size = 16 if "16px" in t.getAttribute("style") else 12
        x, y, wide = float(t.getAttribute("x")), float(t.getAttribute("y")), 0.62 * size * len(t.firstChild.data)
        x -= {"middle": wide / 2, "end": wide}.get(t.getAttribute("text-anchor"), 0)
        boxes.append((x, y - size, x + wide, y, t.firstChild.data))
    for i, a in enumerate(boxes):
        for b in boxes[i + 1:]:
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
                print(name, "has", a[4], "over", b[4])
END
}

for kind in allreduce broadcast reduce allgather reduce_scatter alltoall gather scatter allgatherv barrier scan; do
    for ranks in 2 5 16; do
        explain --schedule $kind --ranks $ranks --bytes 100000 --svg "$dir/$kind-$ranks.svg"
        [ $status = 0 ] || echo "# $kind on $ranks ranks has status $status"
    done
done
none "pictures are XML, and no label lies on another" "$(parses "$dir"/*-*.svg 2>&1)"
is "there are all" "$(find "$dir" -name '*-*.svg' | wc -l)" 33
explain --schedule allreduce --algorithm ring --ranks 8 --bytes 1M --svg "$dir/ring.svg"
is "an arrow for each message" "$(grep -c 'class="arrow"' "$dir/ring.svg")" 112
is "a mark for each reduction, and two in the legend" "$(grep -o 'class="sign"' "$dir/ring.svg" | wc -l)" $((56 + 2))
explain --schedule allreduce --svg /nosuch/x.svg
is "a file that cannot be written: status 1" $status 1
has "and why" "$dir/err" "^coll explain: cannot write '/nosuch/x.svg': No such file"
explain --schedule allreduce --ranks 40 --svg "$dir/forty.svg"
has "a picture of too many ranks is refused" "$dir/err" 'a picture has up to 32 ranks'

explain --schedule reduce --algorithm binomial --ranks 4 --bytes 64 --goal
is "GOAL: sends and receives" "$(grep -cE '^l[0-9]+: (send|recv) 64b (to|from) [0-3] tag [0-9]+$' "$dir/out")" 6
is "and the reductions" "$(grep -cE '^r[0-9]+: calc 64$' "$dir/out")" 3
is "every label that is required is there" "$(awk '
    /^rank/ { split("", known) }
    /: / { sub(/:/, "", $1); known[$1] }
    / requires / { if (!($1 in known) || !($3 in known)) print }' "$dir/out")" ""

refused() {
    local name=$1 text=$2
    shift 2
    explain "$@"
    is "$name: status 2" $status 2
    has "$name: why" "$dir/err" "$text"
}
refused "no collective" "'allreduc' is no collective" --schedule allreduc
refused "no algorithm" "allreduce has no algorithm 'rng'; expected one of .*ring" --schedule allreduce --algorithm rng
refused "an algorithm that needs nodes" 'two_level does not work for 4 ranks on 4 nodes: it needs several nodes' \
    --schedule allreduce --algorithm two_level
refused "a root that is no rank" 'root is 4, but ranks go from 0 to 3' --schedule broadcast --root 4
refused "a size" "'x' is no value for --bytes" --schedule allreduce --bytes x
refused "dumps and a schedule" 'goes neither with dumps' --schedule allreduce "$dir"
refused "a picture of dumps" 'need --schedule' --svg x "$dir"

done_testing
