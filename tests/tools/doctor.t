#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doctor.t - `coll doctor`: what it says alone and of a job, and that it names a slow link and a slow rank.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=$(cd "${top_builddir:-.}" && pwd)/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
only_backends "$dir/plugins" tcp simulated

doctor() {
    status=0
    timeout 120 "$coll" doctor "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# job RANKS OPTION...
job() {
    local n=$1
    shift
    status=0
    timeout 240 "$coll" run --no-prefix -n "$n" -- "$coll" doctor "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# Prints the value of a Python expression over the document d.
json() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$dir/out" "$1" 2>&1
}

# -------------------------------------------------------------------- the page

doctor
is "alone: status 0" $status 0
has "alone: one rank" "$dir/out" '^libcoll [0-9.]+, 1 rank$'
has "alone: a backend" "$dir/out" "^  ok +communicator: 1 rank of libcoll [0-9.]+ met, over backend 'simulated'"
has "alone: a verdict" "$dir/out" '^  ready'
none "alone: no table of links" "$(grep -i '^latency' "$dir/out")"

job 3
is "three ranks: status 0" $status 0
is "three ranks: a line each" "$(sed -n '/^Ranks/,/^Interfaces/p' "$dir/out" | grep -c "$(uname -n | cut -c 1-16)")" 3
is "three ranks: a row each in two tables" "$(grep -cE '^ +[0-2]( +([0-9.]+[* ]|-)){3} *$' "$dir/out")" 6
has "three ranks: the clocks of one host agree" "$dir/out" '^  ok +clocks: they differ by at most'
has "three ranks: links within a host" "$dir/out" '^  (ok|warning) +links within a host: a good one has [0-9.]+ us and [0-9.]+ MB/s'
none "three ranks: the ranks print once" "$(grep -c '^Verdict' "$dir/out" | grep -v '^1$')"

if command -v python3 >/dev/null; then
    job 17 --json
    is "17 ranks meet in rounds: status 0" $status 0
    is "17 ranks meet in rounds: every link has its figures" \
        "$(json '(len(d["links"]), all(l["latency_us"] > 0 and l["mbytes_s"] > 0 for l in d["links"]))')" "(272, True)"
else
    skip "17 ranks meet in rounds" "no python3 to read JSON with"
fi

job 2 --no-links
none "--no-links: none" "$(grep -iE 'latency|links|clocks' "$dir/out")"
(
    ulimit -n 40
    job 2 --no-links --strict
    echo $status >"$dir/strict"
)
is "--strict: a warning is a failure" "$(cat "$dir/strict")" 1
has "a limit that is too low is named with its rank and remedy" "$dir/out" \
    "^  warning +open files: rank 0 \(.*\) may have 40 files open, and may need 68 for its connections: raise 'ulimit -n'"

COLL_BACKEND=nosuch doctor
is "no communicator: status 1" $status 1
has "no communicator: the reason" "$dir/out" "^  failed +communicator: there is no backend 'nosuch'"
has "no communicator: the verdict" "$dir/out" '^  not ready$'
COLL_BACKEND=nosuch job 2
is "no communicator of two: status 1" $status 1
has "no communicator of two: rank 0's page" "$dir/out" '^  not ready$'

# launched NAME COMMAND...
launched() {
    local name=$1
    shift
    status=0
    timeout 120 "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
    is "under $name: status 0" $status 0
    has "under $name: three ranks" "$dir/out" "communicator: 3 ranks of libcoll"
}
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    launched mpirun mpirun --allow-run-as-root --oversubscribe -n 3 "$coll" doctor --no-links
else
    skip "under mpirun" "Open MPI is not installed"
fi
if command -v mpiexec.mpich >/dev/null; then
    launched mpiexec mpiexec.mpich -n 3 "$coll" doctor --no-links
else
    skip "under mpiexec" "MPICH is not installed"
fi

if command -v python3 >/dev/null; then
    job 2 --json
    is "JSON: status 0" $status 0
    is "JSON: members" "$(json '" ".join(d)')" "version backend nranks ranks links slow_ranks checks verdict"
    is "JSON: ranks and links" "$(json '[len(d["ranks"]), len(d["links"]), d["links"][0]["latency_us"] > 0, d["links"][1]["mbytes_s"] > 0]')" \
        "[2, 2, True, True]"
    COLL_BACKEND=nosuch doctor --json
    is "JSON without a communicator" "$(json '(d["nranks"], d["checks"][0]["status"], d["verdict"])')" "(0, 'failed', 'not ready')"
else
    skip "JSON" "no python3"
fi

doctor --jsno
is "a misspelt option: 2" $status 2
doctor all
is "a word too many: 2" $status 2

# ------------------------------------------------------- hosts that differ

# other NAME=VALUE...: a job of two ranks, where these variables are in the environment of rank 1 only.
other() {
    status=0
    # shellcheck disable=SC2016 # for the shell of the ranks
    timeout 240 "$coll" run --no-prefix -n 2 -- sh -c '[ "$COLL_RANK" = 0 ] || export "$@"; exec "$0" doctor' "$coll" "$@" \
        >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}
mkdir "$dir/few"
cp "$dir/plugins/coll_tcp.so" "$dir/few/"
other COLL_PLUGIN_PATH="$dir/few"
is "a rank that lacks a plugin: status 0" $status 0
has "the rank that lacks it is named" "$dir/out" \
    '^  warning +plugins: rank 0 can use simulated [0-9.]+, tcp [0-9.]+, but rank 1 \(.*\) tcp [0-9.]+: coll info on both hosts says why'

status=0
timeout 240 unshare -m sh -c 'mount -t tmpfs -o size=4m none /dev/shm && exec "$0" run --no-prefix -n 2 -- "$0" doctor --no-links' \
    "$coll" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
if grep -qE '^(unshare|mount):' "$dir/err"; then
    skip "little room in /dev/shm" "needs root and mount namespaces"
else
    has "little room in /dev/shm is named, with the remedy" "$dir/out" \
        '^  warning +shared memory: /dev/shm of rank 0 \(.*\) has 4 MiB free, and its 2 ranks may use 32: .*--shm-size'
fi

# Two kernels with one host name, and namespaces of one number: in this test another boot_id stands for another kernel.
sed 's/^......../00000000/' /proc/sys/kernel/random/boot_id >"$dir/boot_id"
status=0
# shellcheck disable=SC2016 # for the shell of the ranks
timeout 240 "$coll" run --no-prefix -n 2 -- sh -c '[ "$COLL_RANK" = 0 ] ||
    exec unshare -m sh -c "mount --bind \"\$1\" /proc/sys/kernel/random/boot_id && exec \"\$0\" doctor" "$0" "$1"
    exec "$0" doctor' "$coll" "$dir/boot_id" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
if grep -qE '^(unshare|mount):' "$dir/err"; then
    skip "two hosts with one name" "needs root and mount namespaces"
else
    has "two hosts with one name are two hosts" "$dir/out" '^  (ok|warning) +links between hosts: a good one has'
    none "and no link is within a host" "$(grep 'links within a host' "$dir/out")"
fi

# ------------------------------------------ delayed messages, another version

# A library between program and libcoll that delays the sends of rank 2: all, or those to the rank DELAY.  In a process with
# OTHER=version it changes the version, in one with OTHER=clock the time of day.
cat >"$dir/delay.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <coll/coll.h>
static int is_other(const char *what)
{
	return getenv("OTHER") && !strcmp(getenv("OTHER"), what);
}
const char *coll_version_string(void)
{
	return is_other("version") ? "9.9.9" : "0.0.1";
}
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*real)(clockid_t, struct timespec *);
	void *symbol = dlsym(RTLD_NEXT, "clock_gettime");
	int status;

	memcpy(&real, &symbol, sizeof(real));
	status = real(clock, now);
	if (clock == CLOCK_REALTIME && is_other("clock"))
		now->tv_sec -= 3;
	return status;
}
coll_result_t coll_send(const void *buffer, size_t n, coll_dtype_t dtype, int32_t peer, uint32_t tag,
			coll_comm_t comm, coll_stream_t stream)
{
	coll_result_t (*real)(const void *, size_t, coll_dtype_t, int32_t, uint32_t, coll_comm_t,
			      coll_stream_t);
	void *symbol = dlsym(RTLD_NEXT, "coll_send");

	memcpy(&real, &symbol, sizeof(real));
	if (getenv("DELAY") && atoi(getenv("COLL_RANK")) == 2 && (atoi(getenv("DELAY")) < 0 || atoi(getenv("DELAY")) == peer))
		usleep(20000);
	return real(buffer, n, dtype, peer, tag, comm, stream);
}
END
# delayed PEER
delayed() {
    status=0
    timeout 240 "$coll" run --no-prefix -n 4 -e LD_PRELOAD="$dir/delay.so" -e DELAY="$1" -- "$coll" doctor \
        >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}
if [ -n "$TEST_SANITIZE" ]; then
    skip "delayed messages" "sanitizers do not go with LD_PRELOAD"
elif ! ${TEST_CC:-cc} -shared -fPIC -I"${top_srcdir:-.}/include" -o "$dir/delay.so" "$dir/delay.c" -ldl 2>"$dir/err"; then
    skip "delayed messages" "no compiler"
else
    delayed -1
    has "a slow rank is named, with its latency" "$dir/out" \
        '^  warning +links within a host: .*; rank 2 \(.*\) is slow to the others: up to [0-9]{5}\.[0-9] us'
    delayed 1
    has "a slow link is named, with both ends" "$dir/out" \
        'the link from rank 1 \(.*\) to rank 2 \(.*\) is slow: [0-9]{5}\.[0-9] us'
    none "and no rank" "$(grep 'slow to the others' "$dir/out")"
    LD_PRELOAD="$dir/delay.so" other OTHER=clock
    has "a clock that is behind is named" "$dir/out" \
        "^  warning +clocks: the clock of rank 1 \\(.*\\) is 3\\.0 s behind rank 0's .*NTP"
    LD_PRELOAD="$dir/delay.so" other OTHER=version
    is "two versions of the library: status 1" $status 1
    has "they are named" "$dir/out" '^  failed +versions: rank 0 runs libcoll 0\.0\.1, rank 1 9\.9\.9'
    has "two versions: the verdict" "$dir/out" '^  not ready$'
fi

# ------------------------------------------------- a slow link, and a slow rank

# Four networks beside each other, joined by a bridge.  SLOW is a command of tc in the network of rank 2.
cat >"$dir/networks.sh" <<'END'
trap '[ -z "$pids" ] || kill $pids' EXIT
ip link set lo up && ip link add br0 type bridge && ip link set br0 up || exit 77
for r in 0 1 2 3; do
    unshare -n sh -c ': >"$1" && exec sleep 200' sh "$dir/made$r" &
    pids="$pids $!"
    i=0
    while [ ! -e "$dir/made$r" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
    ip link add "v$r" type veth peer name eth0 netns $! && ip link set "v$r" master br0 up || exit 77
    nsenter -t $! -n sh -c "ip link set lo up && ip addr add 10.83.7.1$r/24 dev eth0 && ip link set eth0 up" || exit 77
    [ $r != 2 ] || nsenter -t $! -n sh -c "$SLOW" || exit 77
done
r=0
for pid in $pids; do
    COLL_RANK=$r COLL_WORLD_SIZE=4 COLL_ROOT=10.83.7.10:7337 COLL_KEY=doctor \
        nsenter -t "$pid" -n "$coll" doctor $OPTIONS >"$dir/rank$r" 2>"$dir/err$r" &
    ranks="$ranks $!"
    r=$((r + 1))
done
status=0
for pid in $ranks; do
    wait "$pid" || status=$?
done
exit $status
END

# slowed OPTIONS SLOW: runs the four ranks.  Status 77: this user, or this kernel, cannot make such networks.
slowed() {
    status=0
    rm -f "$dir"/made*
    coll=$coll dir=$dir OPTIONS=$1 SLOW=$2 timeout 200 unshare -n sh "$dir/networks.sh" >"$dir/err" 2>&1 </dev/null || status=$?
    cat "$dir/rank0" >"$dir/out" 2>/dev/null
    cat "$dir"/err[0-3] >>"$dir/err" 2>/dev/null
    ! grep -q '^unshare:' "$dir/err" || status=77
}

slowed "" "tc qdisc add dev eth0 root tbf rate 20mbit burst 16kb latency 400ms"
if [ $status -eq 77 ]; then
    skip "a slow link, and a slow rank" "needs root, network namespaces, a bridge and tbf"
    done_testing
fi
is "a rank that sends slowly: the job is ready, with warnings" "$status $(sed -n '/^Verdict/{n;p;}' "$dir/out")" \
    "0   ready, with warnings"
has "the rank is named, with its bandwidth" "$dir/out" \
    '^  warning +links between hosts: .*; rank 2 \(.*\) is slow to the others: .* [0-9]\.[0-9] MB/s'
none "and no link beside" "$(grep 'the link from' "$dir/out")"
has "the table marks its links" "$dir/out" '^ +2 +[0-9.]+\* +[0-9.]+\* +- '

# Only what goes to rank 1.
slowed "--json" "tc qdisc add dev eth0 root handle 1: htb default 1 && tc class add dev eth0 parent 1: classid 1:1 htb rate 9gbit &&
    tc class add dev eth0 parent 1: classid 1:2 htb rate 20mbit &&
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.83.7.11 flowid 1:2"
if [ $status -eq 77 ]; then
    skip "a slow link" "this kernel has no htb, or no u32"
else
    is "a slow link: status 0" $status 0
    if command -v python3 >/dev/null; then
        is "no rank is slow" "$(json 'd["slow_ranks"]')" "[]"
        is "the link is" "$(json '[(l["from"], l["to"]) for l in d["links"] if l["slow"]]')" "[(2, 1)]"
        has "the sentence names both ends" "$dir/out" 'the link from rank 2 \(.*\) to rank 1 \(.*\) is slow: .* [0-9]\.[0-9] MB/s'
    fi
fi

slowed "" "tc qdisc add dev eth0 root netem delay 20ms"
if [ $status -eq 77 ]; then
    skip "a rank with a long way to the others" "this kernel has no netem"
else
    has "a rank with a long way to the others is named" "$dir/out" '; rank 2 \(.*\) is slow to the others: up to [0-9]{5}\.[0-9] us'
fi

done_testing
