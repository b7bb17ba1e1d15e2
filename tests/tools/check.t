#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check.t - `coll check`: the plugins of this tree pass, and the report is what it says it is.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=${top_builddir:-.}
coll=$build/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# A busy machine slows the checks down, a sanitizer too.
limit=40
[ -z "$TEST_SANITIZE" ] || limit=60
level=--quick
if is_long; then level=; fi

# run NAME ARG...: runs `coll check ARG...`; `take NAME` reads the output.
run() {
    local name=$1
    shift
    collect "$name" timeout 900 "$coll" check "$@"
}

kit() {
    run now "$@"
    take now
}

is() {
    none "$1" "$([ "$2" = "$3" ] || printf 'got: %s\nexpected: %s\n' "$2" "$3"
        [ "$2" = "$3" ] || tail -n 5 "$dir/err")"
}

# Prints the faults of the report as TAP.
tap_faults() {
    awk '
        NR == 1 && $0 != "TAP version 13" { print "first line: " $0 }
        /^(not )?ok / {
            n++
            number = $1 == "not" ? $3 : $2
            if (number != n) print "out of turn: " $0
            if ($0 !~ / - [a-z0-9-]+: [^#]+ \[[^]]+\]( # SKIP .+)?$/) print "form: " $0
        }
        /^1\.\./ { plan = substr($0, 4) }
        !/^(TAP version 13|ok |not ok |#|1\.\.)/ { print "no TAP: " $0 }
        { last = $0 }
        END {
            if (plan != n) print n " checks, " plan " planned"
            if (last !~ "^# " n " checks in [0-9]+ runs: ") print "last line: " last
        }' "$dir/out"
}

# spoilt NAME SOURCE...: builds a plugin with a fault, $dir/coll_NAME.so.
spoilt() {
    local src=${top_srcdir:-.} name=$1

    shift
    # shellcheck disable=SC2086 # flags are words
    ${TEST_CC:-cc} $TEST_CFLAGS -fPIC -fvisibility=hidden -shared -pthread -I"$src/include" -iquote "$src/core" \
        -iquote "$src/tests/plugins/bad" -o "$dir/coll_$name.so" "$@" "$build/.libs/libcore_socket.a" \
        "$build/.libs/libcore_base.a" -Wl,--exclude-libs,ALL
}

# stuck: builds a plugin whose close does not return on rank 1 if the ranks are processes.
stuck() {
    cat >"$dir/stuck.c" <<'END'
#include "uds.h"

static void stuck_close(void *ep, int64_t timeout_ms)
{
	const coll_host_t *host = ((struct bad *)ep)->real;

	while (host->rank == 1 && !(host->shares[0] & COLL_SHARES_PROCESS))
		pause();
	bad_close(ep, timeout_ms);
}

#define BAD_NAME  "stuck"
#define BAD_CLOSE stuck_close
#include "table.h"
END
    spoilt stuck "$dir/stuck.c"
}

# ------------------------------------------------------------------ both pass

usable="tcp simulated"
if can ucx; then usable="$usable ucx"; fi
own=$build/tests/plugins/.libs
sodium=$("$coll" info | sed -n '/^[ *]*tcp /,/what/s/.*(\(libsodium [0-9.]*\).*/\1/p')

# Two runs at a time: half of a run over tcp or simulated is waiting, a run over ucx is computing.
{
    for name in tcp simulated; do
        run $name $level --timeout $limit "$build/.libs/coll_$name.so"
    done
} &
{
    [ "$usable" = "tcp simulated" ] ||
        run ucx $level --timeout $limit "$build/.libs/coll_ucx.so"
    # Backends with native collectives and no transport: many checks skip them.
    for name in engine bare; do
        run $name --quick --timeout $limit "$own/coll_$name.so"
    done
    run loopback --quick --timeout $limit --option interface=lo --option unix=no \
        "$build/.libs/coll_tcp.so"
} &
{
    [ -z "$sodium" ] || for name in integrity encrypt; do
        run $name --quick --timeout $limit --option interface=lo --option unix=no \
            --option security=$name "$build/.libs/coll_tcp.so"
    done
    [ -n "$TEST_SANITIZE" ] || {
        stuck
        run stuck --only close-last --ranks 3 --timeout 20 "$dir/coll_stuck.so"
    }
} &
wait

for name in $usable; do
    take "$name"
    is "$name passes: status 0" "$status" 0
    none "$name: nothing fails" "$(grep -A 30 '^not ok' "$dir/out")"
    none "$name: the report is TAP" "$(tap_faults)"
    none "$name: nothing on standard error" "$(cat "$dir/err")"
    none "$name: more than a hundred checks" "$(awk '/^1\.\./ && substr($0, 4) < 100' "$dir/out")"
    tail -n 1 "$dir/out"
done

for name in engine bare; do
    take $name
    is "$name passes: status 0" "$status" 0
    none "$name: nothing fails" "$(grep -A 30 '^not ok' "$dir/out")"
done

take loopback
is "tcp over the loopback interface passes" "$status" 0
none "nothing fails there" "$(grep -A 30 '^not ok' "$dir/out")"

for name in integrity encrypt; do
    if [ -z "$sodium" ]; then
        skip "tcp with security = $name" "the backend is built without libsodium"
        continue
    fi
    take $name
    is "tcp with security = $name passes" "$status" 0
    none "nothing fails there" "$(grep -A 30 '^not ok' "$dir/out")"
done

# ------------------------------------------------------------------ a rank that hangs

if [ -z "$TEST_SANITIZE" ]; then
    take stuck
    is "a rank that hangs: status 1" "$status" 1
    has "the report names it and its slot, not the ranks that have ended, and what these said" "$dir/out" \
        "^#   3 processes: it hung for 20 s in close \(rank 1\): rank [02] waited 10 s for the other ranks\$"
else
    skip "a rank that hangs" "built with a sanitizer ($TEST_SANITIZE)"
fi

# ------------------------------------------------------------------ the command line

kit --list
is "--list: status 0" $status 0
none "--list: one check a line, each name once" "$(awk '{ print $1 }' "$dir/out" | sort | uniq -d)"
none "--list: each names its promise" "$(grep -v '\[[^]]*\]$' "$dir/out")"
# The promise of each check can be found in the header.
none "--list: promises are in the headers" "$(
    sed 's/.*\[\(.*\)\]$/\1/' "$dir/out" | sort -u | tr -d ' ' | sed 's/\.\.\./,/' |
        tr ',' '\n' | sort -u | while IFS=. read -r head tail; do
            [ "$head" = coll ] && continue
            cat "${top_srcdir:-.}"/include/coll/*.h | tr -d ' ' >"$dir/headers"
            grep -q -- "$head" "$dir/headers" && grep -q -- "$tail" "$dir/headers" ||
                echo "$head.$tail"
        done)"

kit --only order,send --ranks 2-3 "$build/.libs/coll_simulated.so"
is "--only: those and no other" "$(grep -c '^ok' "$dir/out")" 2
is "--ranks: so many runs" "$(tail -n 1 "$dir/out" | cut -d: -f1)" "# 2 checks in 8 runs"

if env --ignore-signal=CHLD true 2>/dev/null; then
    collect now timeout 120 env --ignore-signal=CHLD "$coll" check --only name,open --ranks 2 \
        "$build/.libs/coll_simulated.so"
    take now
    is "started with SIGCHLD ignored: status 0" "$status" 0
else
    skip "started with SIGCHLD ignored: status 0" "env cannot ignore signals"
fi

kit "$dir/coll_none.so"
is "no such file: status 2" $status 2
kit --only nothing "$build/.libs/coll_tcp.so"
is "no such check: status 2" $status 2
kit
is "no file: status 2" $status 2
kit --ranks 3-2 "$build/.libs/coll_tcp.so"
is "ranks backwards: status 2" $status 2

# ------------------------------------------------------------------ started by another launcher

# launched NAME LAUNCHER... -- ARG...: each process that the launcher starts is a rank.
launched() {
    local name=$1 launcher=()
    shift
    while [ "$1" != -- ]; do
        launcher+=("$1")
        shift
    done
    shift
    collect "$name" timeout 300 "${launcher[@]}" "$coll" check --launched --quick --timeout $limit "$@"
    take "$name"
    sed -i 's/^\[0\] //' "$dir/out"
}

# passes NAME: one report of all ranks, with collectives that were verified.
passes() {
    is "$1: status 0" "$status" 0
    none "$1: nothing fails" "$(grep -A 30 '^not ok' "$dir/out")"
    none "$1: one report in TAP" "$(tap_faults)"
    check "$1: collectives are verified" grep -q ' [1-9][0-9]* collectives verified' "$dir/out"
}

launched run "$coll" run -n 3 -- "$build/.libs/coll_tcp.so"
passes "under coll run"
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    launched mpirun mpirun --allow-run-as-root --oversubscribe -np 3 -- "$build/.libs/coll_tcp.so"
    passes "under mpirun"
else
    skip "under mpirun" "Open MPI is not installed"
fi
launched here "$coll" run -n 2 -- --no-fork --only coll-allreduce,many-makers,fault-killed "$build/.libs/coll_tcp.so"
is "launched processes without children: status 0" "$status" 0
has "they run the checks themselves" "$dir/out" '^# 3 checks in 2 runs: 1 passed, 0 failed, 2 skipped'
launched simulated "$coll" run -n 2 -- "$build/.libs/coll_simulated.so"
is "launched processes, and a plugin for one process: status 3" "$status" 3
check "the report says why" grep -q 'not tried.*within one process only' "$dir/out"
if [ -z "$TEST_SANITIZE" ]; then
    spoilt longhand "${top_srcdir:-.}/tests/plugins/bad/coll_longhand.c"
    launched bad "$coll" run -n 3 -- --only coll-allreduce "$dir/coll_longhand.so"
    is "launched ranks that get wrong data: status 1" "$status" 1
    check "the check names the rank" grep -q '^#   3 processes: rank [0-2] of 3: allreduce' "$dir/out"
    # Rank 1 takes longer to load the plugin than a communicator of COLL_TIMEOUT waits.
    cat >"$dir/late.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void late(void)
{
	const char *rank = getenv("COLL_RANK");

	if (rank && !strcmp(rank, "1"))
		sleep(getenv("LATE") ? 4 : 1);
}
END
    spoilt late "${top_srcdir:-.}/tests/plugins/bad/coll_longhand.c" "$dir/late.c"
    launched late "$coll" run -n 2 -e COLL_TIMEOUT=0.2s -- --only bits,strings "$dir/coll_late.so"
    is "launched ranks wait for each other as long as a check may take: status 0" "$status" 0
    launched stuck "$coll" run -n 2 -e LATE=1 -- --no-fork --timeout 1 --only coll-allreduce,coll-broadcast "$dir/coll_late.so"
    is "a check without a child hangs: status 1" "$status" 1
    has "the report ends with it" "$dir/out" '^1\.\.1$'
    has "the report says so" "$dir/out" '^# the report ends with the check that hangs'
else
    skip "a plugin with a fault" "built with a sanitizer ($TEST_SANITIZE)"
    skip "a check without a child hangs" "built with a sanitizer ($TEST_SANITIZE)"
    skip "launched ranks wait for each other" "built with a sanitizer ($TEST_SANITIZE)"
fi
launched nothing "$coll" run -n 2 -- --only header "$build/.libs/coll_tcp.so"
is "every check is skipped: status 3" "$status" 3
check "the report says so" grep -q 'not tried: every check was skipped' "$dir/out"
kit --launched "$build/.libs/coll_tcp.so"
is "no launcher: status 2" $status 2
check "no launcher: a sentence" grep -q 'found no launcher' "$dir/err"
kit --no-fork "$build/.libs/coll_tcp.so"
is "--no-fork without --launched: status 2" $status 2
kit --launched --ranks 2 "$build/.libs/coll_tcp.so"
is "--launched with --ranks: status 2" $status 2
check "--launched with --ranks: a sentence" grep -q 'does not go with --ranks' "$dir/err"

# ------------------------------------------------------------------ files that are no plugins

echo text >"$dir/coll_text.so"
kit "$dir/coll_text.so"
is "a text: status 1" $status 1
none "a text: said in TAP" "$(tap_faults)"
none "a text: later groups are skipped" "$(grep '^not ok' "$dir/out" | grep -Ev ' (exports|alone|load-idle|load):')"
cp "$build/.libs/coll_simulated.so" "$dir/coll_other.so"
kit "$dir/coll_other.so"
is "another name: status 1" $status 1
is "another name: only that fails" "$(grep '^not ok' "$dir/out" | cut -d' ' -f5)" "name:"

done_testing
