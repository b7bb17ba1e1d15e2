#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.t - `coll run`: environment, output, signals, failures, and that nothing stays behind.
# shellcheck disable=SC2016 # the ranks' shells expand
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Runs a job: the status goes to $status, the output to the files out and err.
job() {
    timeout 120 "$coll" run "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

has() {
    none "$1" "$(grep -q -- "$3" "$2" || { echo "no '$3' in:"; cat "$2"; })"
}

# Waits until the file has n lines.
wait_lines() {
    local i
    for ((i = 0; i < 600; i++)); do
        [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return 0
        sleep 0.05
    done
    return 1
}

# Does the process run?  One that has ended may stay a zombie: not every init reaps.
lives() {
    [ -d /proc/self ] || { kill -0 "$1" 2>/dev/null; return; }
    [[ $(cat "/proc/$1/stat" 2>/dev/null) == *") "[!ZX]* ]]
}

# Waits until all processes listed in the file have ended.
all_gone() {
    local i pid alive
    for ((i = 0; i < 400; i++)); do
        alive=
        while read -r pid; do
            lives "$pid" && alive="$alive $pid"
        done <"$1"
        [ -z "$alive" ] && return 0
        sleep 0.05
    done
    echo "still alive:$alive"
    return 1
}

# ---------------------------------------------------------------- environment

job -n 2 -b tcp -e COLL_TCP_CONGESTION=nosuchcc -e COLL_TCP_UNIX=no "$coll" perf barrier
is "a congestion control that the system lacks is no error" $status 0
has "but a warning with the variable and the value" "$dir/err" \
    "'nosuchcc', which option tcp.congestion (COLL_TCP_CONGESTION) names: "

job -n 3 sh -c 'echo $COLL_RANK $COLL_LOCAL_RANK $COLL_WORLD_SIZE $COLL_LOCAL_WORLD_SIZE'
is "success is status 0" $status 0
is "each rank has its numbers" "$(sort "$dir/out")" "[0] 0 0 3 3
[1] 1 1 3 3
[2] 2 2 3 3"

job --no-prefix -n 2 sh -c 'echo $COLL_ROOT $COLL_KEY'
is "ranks share one root and key" "$(sort -u "$dir/out" | wc -l)" 1
check "the root is a port of the loopback" grep -qE '^127\.0\.0\.1:[0-9]+ [0-9a-f]{32}$' "$dir/out"
first=$(head -n 1 "$dir/out")
job --no-prefix -n 1 sh -c 'echo $COLL_KEY'
none "two jobs have two keys" "$([ "${first#* }" != "$(cat "$dir/out")" ] || echo "$first")"

job --no-prefix -n 1 -b '^tcp' -e A=1 --env=B=x=y --env COLL_KEY=k \
    sh -c 'echo $COLL_BACKEND $A $B $COLL_KEY'
is "--backend and --env" "$(cat "$dir/out")" "^tcp 1 x=y k"

job --no-prefix -n 1 -- sh -c 'echo "$1"' sh --no-prefix
is "what follows the program is the program's" "$(cat "$dir/out")" "--no-prefix"

# ------------------------------------------------------------ PyTorch's variables

# What the tests inherit is not the user's.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

job -n 2 sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR'
is "each rank has torchrun's variables" "$(sort "$dir/out")" "[0] 0 2 0 2 127.0.0.1
[1] 1 2 1 2 127.0.0.1"
job --no-prefix -n 2 sh -c 'echo ${COLL_ROOT#*:} $MASTER_PORT'
is "with one MASTER_PORT" "$(sort -u "$dir/out" | grep -cE '^[0-9]+ [0-9]+$')" 1
none "which is not COLL_ROOT's" "$(awk '$1 == $2' "$dir/out")"
if command -v python3 >/dev/null; then
    job --no-prefix -n 1 python3 -c 'import os, socket
port = int(os.environ["MASTER_PORT"])
for family, address in (socket.AF_INET6, "::"), (socket.AF_INET, "127.0.0.1"):
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6(): continue
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((address, port)); s.listen(); s.close()
s = socket.socket()
try: s.bind(("", port)); print("another program may take it")
except OSError: print("reserved")'
    is "rank 0 may listen there, and no other program" "$(cat "$dir/out" "$dir/err")" "reserved"
else
    skip "rank 0 may listen there, and no other program" "no python3"
fi
export MASTER_ADDR=user MASTER_PORT=1 RANK=7
job --no-prefix -n 2 -e LOCAL_RANK=5 -e WORLD_SIZE=9 \
    sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT'
is "variables that the user has set stay" "$(sort -u "$dir/out")" "7 9 5 2 user 1"
unset MASTER_ADDR MASTER_PORT RANK
job --no-prefix -n 1 -e MASTER_ADDR=user -- "$coll" run --no-prefix -n 2 sh -c 'echo $RANK $WORLD_SIZE $MASTER_ADDR'
is "those of another coll run above are not the user's" "$(sort "$dir/out")" "0 2 127.0.0.1
1 2 127.0.0.1"

# ------------------------------------------------------------------ other launchers

hello=${top_builddir:-.}/tests/examples/hello
sums() {
    sed -nE 's/^(\[[0-9]+\] )?(rank [0-9]+: the sum of all ranks is [0-9]+), .*/\2/p' "$dir/out" | sort | xargs
}
first="rank 0: the sum of all ranks is 1"
second="rank 1: the sum of all ranks is 1"

# torchrun SIZE: sets the variables that torchrun sets for its ranks, and starts them.
cat >"$dir/torchrun" <<'END'
for ((r = 0; r < $1; r++)); do
    RANK=$r WORLD_SIZE=$1 LOCAL_RANK=$r LOCAL_WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((1000 + COLL_RANK)) \
        TORCHELASTIC_RUN_ID=none "$2" &
done
wait
END
job -n 1 bash "$dir/torchrun" 2 "$hello"
is "a launcher below coll run gives the ranks" "$(sums)" "$first $second"
is "without a word" "$(cat "$dir/err")" ""
job -n 2 bash "$dir/torchrun" 2 "$hello"
is "also if each has as many ranks as coll run" "$(sums)" "$first $first $second $second"
is "without a word, too" "$(cat "$dir/err")" ""
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    job -n 1 mpirun --allow-run-as-root --oversubscribe -np 2 "$hello"
    is "mpirun below coll run gives the ranks" "$(sums)" "$first $second"
else
    skip "mpirun below coll run gives the ranks" "Open MPI is not installed"
fi
for program in mpiexec.hydra mpiexec.mpich; do
    command -v $program >/dev/null && break
done
if command -v $program >/dev/null; then
    job -n 1 $program -n 2 "$hello"
    is "so does MPICH's mpiexec" "$(sums)" "$first $second"
else
    skip "so does MPICH's mpiexec" "MPICH is not installed"
fi
job --no-prefix -n 2 sh -c 'COLL_RANK=$((1 - COLL_RANK)) exec "$0"' "$hello"
is "a user below coll run may change its variables" "$(sums)" "$first $second"

# variables FIELD...: prints the variables that core/meet/launchers.c has in these fields.
variables() {
    local field
    for field; do
        sed -n "s/.*\.$field = \"\([A-Z0-9_]*\)\".*/\1/p" "${top_srcdir:-.}/core/meet/launchers.c"
    done | grep -v '^COLL_' | sort -u
}
# shellcheck disable=SC2046 # assignments
export $(variables rank | sed 's/$/=3/') $(variables size size_too | sed 's/$/=4/') SLURM_STEP_ID=0
job -n 2 "$hello"
is "launchers above coll run do not count" "$(sums)" "$first $second"
# shellcheck disable=SC2046 # names
unset $(variables rank size size_too) SLURM_STEP_ID
job --no-prefix -n 1 sh -c 'echo "$COLL_RUN"'
none "coll run records every variable by which the library knows launchers" \
    "$(tr ' ' '\n' <"$dir/out" | sed 's/=.*//' | sort >"$dir/recorded"
        variables rank size size_too local_rank local_size only_if only_if_too job | comm -23 - "$dir/recorded")"
job --no-prefix -n 1 -e COLL_KEY=mine sh -c 'echo "$COLL_RUN" | grep -c mine'
is "but no key of the user" "$(cat "$dir/out")" 0

if [ -r /proc/self/status ]; then
    job --no-prefix -n 1 --bind-to core sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status
    check "--bind-to core leaves one core" grep -qxE '[0-9]+' "$dir/out"
    mine=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
    if [ "$(nproc)" -gt 1 ]; then
        job --no-prefix -n 2 sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status
        # Each line is a list such as 0-3,8.
        tr ',' '\n' <"$dir/out" | awk -F - '{ for (i = $1; i <= $NF; i++) print i }' >"$dir/processors"
        is "by default each processor belongs to one of two ranks" \
            "$(sort "$dir/processors" | uniq -c | awk '{print $1}' | sort -u) $(wc -l <"$dir/processors")" "1 $(nproc)"
    else
        skip "by default each processor belongs to one of two ranks" "there is one"
    fi
    job --no-prefix -n $(($(nproc) + 1)) sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status
    is "more ranks than processors are not bound" "$(sort -u "$dir/out")" "$mine"
    job --no-prefix -n 2 --bind-to none sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status
    is "--bind-to none leaves all" "$(sort -u "$dir/out")" "$mine"
else
    skip "--bind-to" "no /proc"
fi
job -n 1 --bind-to socket true
is "--bind-to another word is refused" "$(head -n 1 "$dir/err")" \
    "coll run: --bind-to socket: expected share, core or none"

job --no-prefix -n 1 sh -c 'echo "$UCX_MEM_BISTRO_GRACE_DURATION"'
is "UCX does not wait while it is loaded" "$(cat "$dir/out")" "0"
export UCX_MEM_BISTRO_GRACE_DURATION=7ms
job --no-prefix -n 1 sh -c 'echo "$UCX_MEM_BISTRO_GRACE_DURATION"'
is "unless the user wants it" "$(cat "$dir/out")" "7ms"
unset UCX_MEM_BISTRO_GRACE_DURATION
job --no-prefix -n 1 sh -c 'echo "$UCX_VFS_ENABLE"'
is "nor has a thread for its file system" "$(cat "$dir/out")" "n"
UCX_VFS_ENABLE=y job --no-prefix -n 1 sh -c 'echo "$UCX_VFS_ENABLE"'
is "unless the user wants one" "$(cat "$dir/out")" "y"
job --no-prefix -n 1 sh -c 'echo "$UCX_MEM_MMAP_HOOK_MODE"'
is "nor changes the C library beside threads" "$(cat "$dir/out")" "none"
UCX_MEM_MMAP_HOOK_MODE=reloc job --no-prefix -n 1 sh -c 'echo "$UCX_MEM_MMAP_HOOK_MODE"'
is "unless the user wants that" "$(cat "$dir/out")" "reloc"

# --------------------------------------------------------------------- output

job -n 2 sh -c 'echo to-out; echo to-err >&2'
is "stdout goes to stdout" "$(sort "$dir/out")" "[0] to-out
[1] to-out"
is "stderr goes to stderr" "$(sort "$dir/err")" "[0] to-err
[1] to-err"

job -n 1 printf 'a\n\nb'
is "empty lines and a last line without end" "$(cat "$dir/out")" "[0] a
[0] 
[0] b"

head -c 300000 /dev/urandom >"$dir/random"
job --no-prefix -n 1 cat "$dir/random"
check "without prefix all bytes pass unchanged" cmp "$dir/random" "$dir/out"
head -c 100000 /dev/zero >"$dir/zeros"
job --no-prefix -n 1 cat "$dir/zeros"
check "so does a line that is longer than the pieces of lines with prefix" cmp "$dir/zeros" "$dir/out"
job -n 1 cat "$dir/random"
# Removes the prefix of lines and of pieces of lines, and the end of line that may be added at the
# end.
LC_ALL=C sed 's/^\[0\] //' "$dir/out" >"$dir/stripped"
check "with prefix too" cmp -n 300000 "$dir/random" "$dir/stripped"

job -n 2 sh -c 'head -c 100000 /dev/zero | tr "\0" x'
is "long lines lose nothing" "$(tr -dc x <"$dir/out" | wc -c)" 200000
check "long lines are passed on in pieces" awk 'length > 16400 { exit 1 }' "$dir/out"

job -n 4 sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do echo "line $i of $COLL_RANK."; done'
is "lines of different ranks do not mix" \
    "$(grep -cE '^\[([0-3])\] line [0-9]+ of \1\.$' "$dir/out")" 40

timeout 120 "$coll" run -n 2 yes 2>"$dir/err" | head -n 1 >"$dir/out"
is "a reader that closes ends the job" "${PIPESTATUS[0]}" 141
is "after it has got its line" "$(sed 's/[01]/r/' "$dir/out")" "[r] y"

if [ -c /dev/full ]; then
    timeout 60 "$coll" run -n 1 echo lost >/dev/full 2>"$dir/err"
    is "a full disk is a failure" $? 1
    has "that is reported" "$dir/err" 'cannot write to standard output: '
else
    skip "a full disk is a failure" "no /dev/full"
    skip "that is reported" "no /dev/full"
fi

# ---------------------------------------------------------------------- input

printf 'one\ntwo' | timeout 60 "$coll" run -n 2 cat >"$dir/out"
is "rank 0 reads standard input, and only it" "$(cat "$dir/out")" "[0] one
[0] two"
printf 'one\n' | timeout 60 "$coll" run --stdin none -n 2 cat >"$dir/out"
is "--stdin none: nobody does" "$(cat "$dir/out")" ""

# ------------------------------------------------------------------- failures

job -n 3 sh -c '[ $COLL_RANK = 1 ] && exit 7; sleep 100'
is "the failing rank's status" $status 7
is "one line says which rank" "$(cat "$dir/err")" "coll run: rank 1 exited with status 7"

job -n 2 sh -c '[ $COLL_RANK = 1 ] && kill -KILL $$; sleep 100'
is "128 plus the signal" $status 137
has "the signal is named" "$dir/err" 'rank 1 was killed by signal 9 (Killed)'

job -n 2 no-such-program-here
is "a program that is not found: 127" $status 127
is "with a sentence" "$(cat "$dir/err")" \
    "coll run: cannot run 'no-such-program-here': not found in PATH"

job -n 2 "$dir/out"
is "a file that is no program: 126" $status 126
has "with a sentence, too" "$dir/err" "cannot run '$dir/out': Permission denied"

job -n 2 --grace 0.2 sh -c 'trap "" TERM; [ $COLL_RANK = 0 ] && exit 3
    while :; do sleep 0.1; done'
is "who ignores SIGTERM is killed after --grace" $status 3

job -n 2 --timeout 0.3 sleep 100
is "--timeout: 124" $status 124
has "with a sentence saying so" "$dir/err" 'ended after 0.3 seconds'

# -------------------------------------------------------------------- signals

# signal_job SIGNAL RANKS ARGUMENT...: starts coll run, and sends SIGNAL to it alone once RANKS have written to pids.
signal_job() {
    local signal=$1 ranks=$2

    shift 2
    rm -f "$dir/pids"
    "$coll" run "$@" >"$dir/out" 2>"$dir/err" </dev/null &
    local launcher=$!
    wait_lines "$dir/pids" "$ranks"
    kill "-$signal" $launcher
    wait $launcher
    status=$?
}

signal_test() {
    signal_job "$1" 2 --timeout 120 -n 2 bash -c "$2"
}
loop='echo $$ >>'"$dir"'/pids; while :; do sleep 0.05; done'

signal_test USR1 'trap "echo heard; exit 0" USR1; '"$loop"
is "SIGUSR1 reaches the ranks, who end well" $status 0
is "both of them" "$(sort "$dir/out")" "[0] heard
[1] heard"

signal_test TERM "trap 'echo tidy; exit 0' TERM; $loop"
is "SIGTERM is the ranks' to handle" $status 0

signal_test TERM "$loop"
is "SIGTERM ends ranks that do not handle it" $status 143
check "and nobody is left" all_gone "$dir/pids"

# The launcher gets one signal only.
signal_job TERM 2 --timeout 120 --grace 0.3 -n 2 bash -c "trap '' TERM; $loop"
is "ranks that ignore SIGTERM are killed after --grace" $status 143
check "and nobody is left" all_gone "$dir/pids"
is "which is said" "$(cat "$dir/err")" \
    "coll run: ending the job: its processes have not ended 0.3 s after signal 15 (Terminated)"

signal_job TERM 2 --timeout 120 --grace 60 -n 2 bash -c "trap 'sleep 0.2; echo tidy; exit 0' TERM; $loop"
is "ranks that end within it decide the status" \
    "$status $(grep -c '^coll run' "$dir/err") $(grep -c tidy "$dir/out")" "0 0 2"

# The rank is silent, so that nothing but the clock wakes the launcher.  It survives the first SIGTERM only.
signal_job TERM 1 --timeout 2 --grace 600 -n 1 bash -c 'trap "trap - TERM" TERM
    echo $$ >>'"$dir"'/pids; for i in {1..50}; do sleep 0.2; done; : >'"$dir"'/late'
is "--timeout ends the job also in the time of --grace after a signal" \
    "$status $([ -e "$dir/late" ] && echo "too late")" "124 "

# A shell starts its background processes with SIGINT ignored.
rm -f "$dir/pids"
"$coll" run --timeout 120 --grace 0.1 -n 1 bash -c 'echo $$ >>'"$dir"'/pids; until [ -e '"$dir"'/go ]; do sleep 0.05; done' \
    >"$dir/out" 2>"$dir/err" </dev/null &
launcher=$!
wait_lines "$dir/pids" 1
kill -INT $launcher
sleep 0.5
touch "$dir/go"
wait $launcher
is "a signal that was ignored before coll run began ends nothing" "$? $(cat "$dir/err")" "0 "
rm -f "$dir/go"

rm -f "$dir/pids" "$dir/heard"
"$coll" run --timeout 120 --grace 0.2 -n 2 bash -c "trap 'echo >>$dir/heard' HUP; trap '' TERM; $loop" \
    >"$dir/out" 2>"$dir/err" </dev/null &
launcher=$!
wait_lines "$dir/pids" 2
kill -HUP $launcher
wait_lines "$dir/heard" 2
kill -TERM $launcher
wait $launcher
is "a second signal ends ranks that live on" $? 143
is "which is said" "$(grep '^coll run' "$dir/err")" \
    "coll run: ending the job: a second signal came, 15 (Terminated)"

# A reader that takes nothing: most of the output waits in the launcher after the rank has ended.
if [ -r /proc/self/stat ] && mkfifo "$dir/fifo"; then
    rm -f "$dir/pids"
    exec 3<>"$dir/fifo"
    "$coll" run --timeout 120 --no-prefix -n 1 \
        sh -c 'echo $$ >>'"$dir"'/pids; exec head -c 200000 /dev/zero' \
        >"$dir/fifo" 2>"$dir/err" </dev/null 3>&- &
    launcher=$!
    wait_lines "$dir/pids" 1
    rank=$(cat "$dir/pids")
    for ((i = 0; i < 600; i++)); do
        [[ $(cat "/proc/$rank/stat") != *") Z "* ]] || break
        sleep 0.05
    done
    # The first signal may come while the launcher still waits for the rank.
    while kill -TERM $launcher 2>/dev/null; do
        sleep 0.05
    done
    wait $launcher
    is "a signal before all output is written is a failure" $? 143
    has "and named" "$dir/err" '^coll run: .*15 (Terminated)'

    # One signal, while the ranks still run.
    rm -f "$dir/pids"
    "$coll" run --timeout 120 --grace 0.3 --no-prefix -n 1 \
        sh -c 'head -c 200000 /dev/zero; echo $$ >>'"$dir"'/pids; exec sleep 1000' \
        >"$dir/fifo" 2>"$dir/err" </dev/null 3>&- &
    launcher=$!
    wait_lines "$dir/pids" 1
    kill -TERM $launcher
    wait $launcher
    is "nor does such a reader outlive --grace" "$? $(tail -n 1 "$dir/err")" \
        "143 coll run: rank 0 was killed by signal 15 (Terminated)"
    exec 3>&-
else
    skip "a signal before all output is written is a failure" "no /proc"
    skip "and named" "no /proc"
    skip "nor does such a reader outlive --grace" "no /proc"
fi

# --------------------------------------------------------------- nothing left

rm -f "$dir/pids"
job -n 2 bash -c 'sleep 1000 & echo $! >>'"$dir"'/pids; exit 0'
is "a background process does not hold up the job" $status 0
check "and is ended" all_gone "$dir/pids"
has "which is said" "$dir/err" 'left behind'

if command -v setsid >/dev/null; then
    rm -f "$dir/pids"
    job -n 2 bash -c '(setsid bash -c "echo \$\$ >>'"$dir"'/pids; sleep 1000 & wait" \
        >/dev/null 2>&1 &); while [ "$(cat '"$dir"'/pids 2>/dev/null | wc -l)" -lt 2 ]; do
        sleep 0.05; done'
    is "a daemon does not hold up the job" $status 0
    check "and is ended, in its session of its own" all_gone "$dir/pids"
else
    skip "a daemon does not hold up the job" "no setsid"
    skip "and is ended, in its session of its own" "no setsid"
fi

# Processes that end at once after each has begun the next: no moment is right to look for the last.
cat >"$dir/chain.c" <<'END'
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 1000; i++)
		if (fork())
			_exit(0);
	execlp("sleep", "sleep", "1000", (char *)0);
}
END
if ${TEST_CC:-cc} -o "$dir/chain" "$dir/chain.c" 2>"$dir/err"; then
    for i in 1 2 3 4; do
        collect chain$i timeout 120 "$coll" run -n 1 "$dir/chain" &
    done
    wait
    for i in 1 2 3 4; do
        take chain$i
        # A look at a busy machine may find several processes of the chain, one after the other.
        is "the last of a chain of processes does not hold up the job" \
            "$status $(sed -E 's/ending [0-9]+ process(es)? that/ending the last that/' "$dir/err")" \
            "0 coll run: ending the last that the ranks left behind"
    done
else
    skip "the last of a chain of processes does not hold up the job" "no compiler"
fi

rm -f "$dir/pids"
bash -c 'sleep 1000 & echo $! >>'"$dir"'/pids
    exec "$@"' bash "$coll" run -n 1 true >"$dir/out" 2>"$dir/err" </dev/null
is "a child of the program before coll run is not the job's" "$? $(cat "$dir/err")" "0 "
check "and lives on" lives "$(cat "$dir/pids")"
kill "$(cat "$dir/pids")"

# The child ends during the job, and its own child becomes the launcher's.
rm -f "$dir/pids"
bash -c '(sleep 1000 & echo $! >'"$dir"'/pids; until [ -e '"$dir"'/go ]; do sleep 0.05; done) &
    until [ -s '"$dir"'/pids ]; do sleep 0.05; done
    exec "$@"' bash "$coll" run -n 1 sh -c 'echo >'"$dir"'/go; sleep 0.5' \
    >"$dir/out" 2>"$dir/err" </dev/null
is "nor is a child of such a child" "$? $(cat "$dir/err")" "0 "
check "it lives on too" kill "$(cat "$dir/pids")"

rm -f "$dir/pids"
"$coll" run -n 2 bash -c 'echo $$ >>'"$dir"'/pids; sleep 1000 & echo $! >>'"$dir"'/pids; wait' \
    >/dev/null 2>&1 </dev/null &
launcher=$!
wait_lines "$dir/pids" 4
kill -KILL $launcher
wait $launcher 2>/dev/null
check "when the launcher is killed, so are ranks and their children" all_gone "$dir/pids"

# ------------------------------------------------------------------- terminal

if python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    cat >"$dir/terminal.py" <<'END'
import os, pty, select, sys, time

def read_until(fd, word):
    seen, end = b"", time.time() + 60
    while word not in seen and time.time() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                seen += os.read(fd, 4096)
            except OSError:
                break
    return seen

coll, mode = sys.argv[1:]
programs = {"interrupt": "echo ready; exec sleep 1000", "ignore": "trap '' INT; echo ready; exec sleep 1000",
            "type": "echo ready; exec cat"}
pid, fd = pty.fork()
if pid == 0:
    os.execv(coll, [coll, "run", "--grace", "0.3", "-n", "2", "sh", "-c", programs[mode]])
read_until(fd, b"[1] ready")
os.write(fd, b"typed\n" if mode == "type" else b"\x03")
if mode == "type":
    print(b"[0] typed" in read_until(fd, b"[0] typed"))
    os.write(fd, b"\x04")
read_until(fd, b"\0")
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
END
    is "Ctrl-C on a terminal ends the job" \
        "$(timeout 120 python3 "$dir/terminal.py" "$coll" interrupt)" 130
    is "also if the ranks ignore it" "$(timeout 120 python3 "$dir/terminal.py" "$coll" ignore)" 130
    is "what is typed reaches rank 0, until Ctrl-D" \
        "$(timeout 120 python3 "$dir/terminal.py" "$coll" type)" "True
0"
else
    skip "Ctrl-C on a terminal ends the job" "no python3, or no /dev/pts"
    skip "also if the ranks ignore it" "no python3, or no /dev/pts"
    skip "what is typed reaches rank 0, until Ctrl-D" "no python3, or no /dev/pts"
fi

# ----------------------------------------------------------------- wrong usage

wrong() {
    local name=$1 sentence=$2
    shift 2
    job "$@"
    is "$name" $status 2
    check "$name: says so" grep -qF -- "$sentence" "$dir/err"
}
wrong "no ranks" "-n 0: expected a number of ranks from 1 to 1024" -n 0 true
wrong "too many ranks" "-n 1025" -n 1025 true
wrong "not a number" "-n 2x" -n 2x true
wrong "no -n" "the number of ranks is missing" true
wrong "no program" "the program is missing" -n 2
wrong "two numbers of ranks" "the number of ranks is given twice: -n 2 and -n 3" -n 2 -n 3 true
wrong "no backend" "--backend is empty: expected names of backends" -n 2 --backend "" true
wrong "a misspelt option" "no option '--tiemout', did you mean '--timeout'?" --tiemout 3 true
wrong "an unknown letter" "no option '-q'" -q true
wrong "a missing value" "option '--env' needs a value" --env
wrong "an unwanted value" "option '--no-prefix' takes no value" --no-prefix=1 true
wrong "a variable without value" "--env A: expected NAME=VALUE" --env A true
wrong "a negative time" "--grace -1: expected a number of seconds" --grace -1 true
wrong "an unknown word" "--stdin 1: expected 0 or none" --stdin 1 true

done_testing
