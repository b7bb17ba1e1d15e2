#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# readers.t - jobs that are looked at go on undisturbed: 200 readers, in `make check-long` a thousand, one that stops,
# files that are no pages, another user, and directories for pages that are full, missing, limited, or another user's.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
program=$build/tests/observe/undisturbed
dir=$(mktemp -d /dev/shm/coll-readers-XXXXXX) || exit 1
jobs=
reader=
# A job ends when the file `go` exists; it is given up after ten minutes.
finish() {
    touch "$dir/go"
    # shellcheck disable=SC2086 # numbers of processes
    [ -z "$jobs" ] || wait $jobs
    jobs=
}
trap '[ -z "$reader" ] || kill -KILL "$reader"; finish; umount "$dir/small" 2>/dev/null; rm -rf "$dir"' EXIT
chmod 711 "$dir"
mkdir -m 700 "$dir/run"
XDG_RUNTIME_DIR=$dir/run
COLL_COUNTERS=yes
export XDG_RUNTIME_DIR COLL_COUNTERS
pages=$dir/run/coll

# start NAME COMMAND...: a job in the background, whose output goes to $dir/NAME.
start() {
    rm -f "$dir/go"
    name=$1
    shift
    "$@" >"$dir/$name" 2>&1 </dev/null &
    jobs="$jobs $!"
}

count_pages() {
    [ "$(ls "$pages" 2>/dev/null | grep -c '\.page$')" -ge "$1" ]
}

# right NAME: the job's results were right, and it said nothing else.
right() {
    is "$1: all results are right, and nothing else is said" "$(sed 's/^[0-9]* rounds/N rounds/' "$dir/$1")" "N rounds were right"
}

# ------------------------------------------------------------- many readers, and files that are no pages

# A reader must end well, whatever lies in the directory.  Each reads all pages of all jobs.
READERS=200 AT_ONCE=4
if is_long; then READERS=1000; fi
look() {
    i=0
    while [ $i -lt $((READERS / AT_ONCE)) ]; do
        case $((i % 10)) in
        0) timeout 60 "$coll" top --json >"$dir/seen.$1" ;;
        *) timeout 60 "$coll" metrics >"$dir/seen.$1" ;;
        esac || echo "a reader ended with status $?"
        i=$((i + 1))
    done 2>"$dir/err.$1" >"$dir/look.$1"
}

start tcp "$coll" run --no-prefix -n 3 -b tcp "$program" "$dir/go"
ranks=3
if can ucx; then
    start ucx "$coll" run --no-prefix -n 3 -b ucx "$program" "$dir/go"
    ranks=$((ranks + 3))
fi
start simulated env COLL_BACKEND=simulated "$program" "$dir/go" threads
start nccl env LD_LIBRARY_PATH="$build/tests/fakes/.libs" NCCL_STAND_INS="$build/tests/fakes/.libs" STANDIN_CUDA_DEVICES=4 \
    "$coll" run --no-prefix -n 3 -b nccl "$program" "$dir/go"
ranks=$((ranks + 6))
check "the ranks of all jobs have pages" retry 600 count_pages $ranks

# A reader that stops in the middle of its work.
"$coll" metrics --output "$dir/stopped.prom" --interval 0.01 >"$dir/stopped" 2>&1 &
reader=$!
check "a reader works" retry 600 test -s "$dir/stopped.prom"
kill -STOP $reader

page=$(ls "$pages"/*.page | head -n 1)
number=0
# bad COMMAND...: makes a further file with the name of a page by the command, which gets its path.
bad() {
    number=$((number + 1))
    file=$(printf '%s/coll-%016x-rank-0-pid-%d.page' "$pages" $number $$)
    "$@" "$file"
}
bad touch
bad truncate -s 4G
bad mkfifo
bad mkdir
bad ln -s /etc/passwd
bad ln -s "$page"
bad cp /bin/sh
# Copies of a page with bytes that are not the rank's.
at=0
while [ $at -lt 90000 ]; do
    bad cp "$page"
    head -c 64 /dev/urandom | dd of="$file" bs=1 seek=$at conv=notrunc 2>/dev/null
    at=$((at + 4973))
done
lookers=
for i in $(seq $AT_ONCE); do
    look "$i" &
    lookers="$lookers $!"
done
# shellcheck disable=SC2086 # numbers of processes
wait $lookers
none "$READERS readers end well" "$(cat "$dir"/look.*)"
has "they say what is no page" "$dir/err.1" "passes over [0-9]+ files that are no page of this version"
has "and see the jobs" "$dir/seen.1" "^coll_collectives_total\\{.*backend=\"simulated\""

# ------------------------------------------------------------------------------ another user

pid=${page##*-pid-}
pid=${pid%.page}
# as_other COMMAND...: as a user who is nobody else here.
as_other() {
    setpriv --reuid=64124 --regid=64124 --clear-groups env LD_LIBRARY_PATH="$dir/bin" "$@"
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir -m 755 "$dir/bin"
    cp "$build/.libs/coll" "$build"/.libs/libcoll.so.1 "$dir/bin/"
    chmod -R a+rX "$dir/bin"
    check "another user can run coll" as_other "$dir/bin/coll" --version
    for what in "ls $pages" "cat $page" "cp /etc/passwd $page" "truncate -s 0 $page" "rm -f $page" "touch $pages/x" \
        "head -c 1 /proc/$pid/environ" "ls /proc/$pid/fd/" "kill -STOP $pid"; do
        # shellcheck disable=SC2086 # a command and its arguments
        check "another user cannot: ${what%% *}" sh -c '! "$@"' sh \
            setpriv --reuid=64124 --regid=64124 --clear-groups $what
    done
    for command in "top --once" "top --json" metrics dump; do
        as_other "$dir/bin/coll" $command >"$dir/out" 2>"$dir/err"
        none "coll $command shows another user nothing" "$(grep undisturbed "$dir/out" "$dir/err")"
    done
else
    skip "another user" "needs root and setpriv"
fi

rm -rf "$pages"/coll-00000000000000*
kill -CONT $reader
kill $reader
wait $reader
reader=
finish
for name in tcp ucx simulated nccl; do
    [ ! -e "$dir/$name" ] || right $name
done
is "ranks that end remove their pages" "$(ls "$pages")" ""

# ------------------------------------------------------------------------- directories

# The directory goes while the ranks make communicators in it.
start removed "$coll" run --no-prefix -n 2 -b tcp "$program" "$dir/go"
check "two ranks have pages" retry 600 count_pages 2
rm -rf "$pages"
sleep 0.5
finish
right removed

# within NAME PATTERN COMMAND...: the job's results are right, and each of two ranks says the sentence once.
within() {
    name=$1 pattern=$2
    shift 2
    COLL_LOG=info timeout 300 "$@" "$coll" run --no-prefix -n 2 -b tcp "$program" 100 >"$dir/out" 2>&1 </dev/null
    is "$name: status" $? 0
    has "$name: all results are right" "$dir/out" '^101 rounds were right$'
    is "$name: each rank says so once" "$(grep -cE "$pattern" "$dir/out")" 2
}

within "a limit of files" 'keeps no page .*File too large .ulimit -f.' sh -c 'ulimit -f 100; exec "$@"' sh
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    # All directories are hidden but one, in which the commands of the last line run.
    alone='mount -t tmpfs -o ro none /dev/shm && mkdir -p /run/user && mount -t tmpfs -o "$1,mode=700" none /run/user &&
        export XDG_RUNTIME_DIR=/run/user && shift && eval "$1" && shift && exec "$@"'
    within "no directory" 'keeps no page .*Read-only file system' unshare -m sh -c "$alone" sh ro :
    within "a directory of another user" "keeps no page .*'/run/user/coll' belongs to user 65534" \
        unshare -m sh -c "$alone" sh size=1m 'mkdir -m 700 /run/user/coll && chown 65534 /run/user/coll'
    within "a directory that others may enter" "keeps no page .*run chmod 700 /run/user/coll" \
        unshare -m sh -c "$alone" sh size=1m 'mkdir -m 755 /run/user/coll'
    within "a directory that is full" '(no place in the|keeps no) page.*No space left' unshare -m sh -c "$alone" sh size=4k :
    within "one that is full for later communicators" 'no place in the page.*No space left' \
        unshare -m sh -c "$alone" sh size=28k :
else
    skip "directories that are full, missing, or another user's" "only root can mount"
fi

done_testing
