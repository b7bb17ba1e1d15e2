#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# progress.t - on a terminal, commands that take long show how far they are; elsewhere they do not.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=$(cd "${top_builddir:-.}" && pwd)/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
only_backends "$dir/plugins" tcp
export TERM=xterm

script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip_all "no program 'script', which gives a command a terminal"

# on_terminal NAME COMMAND: runs the command, whose standard output is a file, until its first line of progress.
on_terminal() {
    local pid i

    script -qfec "exec timeout -s KILL 100 $2 >'$dir/$1.stdout'" "$dir/$1.typescript" >/dev/null 2>&1 </dev/null &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        ! grep -q '[.][.][.]' "$dir/$1.typescript" 2>/dev/null && kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill $pid 2>/dev/null
    wait $pid
    tr '\r' '\n' <"$dir/$1.typescript" | tr -d '\033' | grep '^\[K.*[.][.][.]' | head -n 1 >"$dir/$1.line"
}

# shows NAME COMMAND PATTERN
shows() {
    on_terminal "$1" "$2"
    has "coll $1 shows on a terminal how far it is" "$dir/$1.line" "$3"
}
shows prove "'$coll' prove --long -j 1" '^\[K[0-9]+ of [0-9]+ proofs; the last: [a-z_]+/[a-z_0-9]+ on [0-9]+ ranks [.]{3}'
shows model "'$coll' model -r 1024,1000,999,998,997,996" '^\[K[a-z]+/[a-z_0-9]+, [0-9]+ ranks, [0-9]+ bytes [.]{3}'
shows check "'$coll' check '$dir/plugins/coll_tcp.so'" '^\[Kcheck [0-9]+: [a-z-]+ [.]{3}'
shows perf "'$coll' perf -t 2 -s 8" '^\[Kallreduce, 8 bytes [.]{3}'

timeout 100 "$coll" check --quick -o file-name,exports "$dir/plugins/coll_tcp.so" >"$dir/out" 2>"$dir/err" </dev/null
none "a file gets no progress" "$(cat "$dir/err")"
began=$SECONDS
timeout 120 script -qec "timeout 100 '$coll' prove -q -r 1-2 2>&1" /dev/null </dev/null >"$dir/out"
if ((SECONDS - began < 2)); then
    none "a command of less than 2 s shows none" "$(grep '[.][.][.]' "$dir/out")"
else
    skip "a command of less than 2 s shows none" "the command took longer here"
fi

done_testing
