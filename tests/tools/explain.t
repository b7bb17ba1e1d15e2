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
    tells $backend stopped rank_silent "^rank 1 has no file and did not answer: .*; $waits collective number 6, allreduce "
    tells $backend killed rank_lost "^rank 1 was lost: .*; $waits collective number 6, allreduce "
    tells $backend wrong different_calls \
        '^rank 1 called broadcast of 4 float32 with root 0 as collective number 6, but ranks 0, 2 called allreduce of 4 float32 \(sum\)$'
    is "$backend, wrong: the first call that differs" \
        "$(json '[c["differs"]] + [(s["ranks"], s["call"]["kind"], s["call"]["count"], s["call"]["root_or_peer"]) for s in c["differing_calls"]]')" \
        "[6, ([[1, 1]], 'broadcast', 4, 0), ([[0, 0], [2, 2]], 'allreduce', 4, None)]"
done
tells simulated late rank_late '^rank 1 came late: .* before collective number 6'
tells simulated absent rank_silent '^rank 1 has no file and did not answer'
tells simulated left rank_left "^rank 1 destroyed its communicator: .*; $waits collective number 6"
tells simulated wrong different_calls '^rank 1 called broadcast .* as collective number 6, but ranks 0, 2 called allreduce'
if [ "$nccl" ]; then
    # The rank whose call differs may have ended it, and leave no file.
    tells nccl late rank_behind "^rank 1 has made 5 collectives, others 6, .*; $waits collective number 6"
    tells nccl stopped rank_silent "^rank 1 has no file and did not answer: .*; $waits collective number 6"
    tells nccl killed rank_lost "^rank 1 was lost: .*; $waits collective number 6"
    explain "$dir/nccl-wrong"
    has "nccl, wrong: both calls" "$dir/out" 'rank 1 called broadcast .* as collective number 6, but rank.* called allreduce'
else
    skip "the same over nccl" "built without nccl, or with a sanitizer"
fi

explain "$dir/simulated-wrong"
is "the page: status 0" $status 0
none "and no word on standard error" "$(cat "$dir/err")"
has "it begins with the verdict" "$dir/out" '^rank 1 called broadcast of 4 float32'
has "has the ranks that are equal in one entry" "$dir/out" '^    ranks 0, 2: have made 6 collectives, 5 done'
has "both calls with all that counts" "$dir/out" \
    '^    ranks 0, 2: allreduce of 4 float32 \(sum\); kind allreduce, type float32, op sum, count 4, algorithm [a-z_]+$'
has "and the sentence of the failure" "$dir/out" '^    \+0\.000 s ranks? .*, error 22: rank'

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
has "files of two jobs are told apart" "$dir/out" '^\(of communicator .*; the files are of 2 communicators, and of several jobs\)$'
cat "$dir"/simulated-wrong/coll-* >"$dir/joined"
explain "$dir/joined"
has "dumps after one another in one file" "$dir/out" '^rank 1 called broadcast of 4 float32'

done_testing
