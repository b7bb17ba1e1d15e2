#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ucx.t - the ucx backend over each kind of transport and with each option; what UCX's variables do;
# ranks that die; UCX that is missing or too old.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
plugin=$build/.libs/coll_ucx.so
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config COLL_SYSCONFDIR=$dir/no-config

[ -e "$plugin" ] || skip_all "the ucx backend was not built"

# A busy machine slows the checks down, a sanitizer too.
limit=40
[ -z "$TEST_SANITIZE" ] || limit=60

info() {
    timeout 60 "$coll" info >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# hello COUNT: runs COUNT processes that print their sum.
hello() {
    timeout 120 "$coll" run --no-prefix -n "$1" -- "$build/tests/examples/hello" \
        >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# ------------------------------------------------------ a library that is not there

# Copies the plugin such that it finds libraries only in LD_LIBRARY_PATH: the copy gets the flag of
# `ld -z nodefaultlib`, and loses the path that it was linked with.
cat >"$dir/lonely.py" <<'END'
import struct, sys

data = bytearray(open(sys.argv[1], "rb").read())
assert data[:6] == b"\x7fELF\x02\x01"
headers, = struct.unpack_from("<Q", data, 32)
size, count = struct.unpack_from("<HH", data, 54)
for i in range(count):
    kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", data, headers + i * size)
    if kind != 2:  # PT_DYNAMIC
        continue
    for entry in range(at, at + length, 16):
        tag, value = struct.unpack_from("<QQ", data, entry)
        if tag == 0x6FFFFFFB:  # DT_FLAGS_1: DF_1_NODEFLIB
            struct.pack_into("<Q", data, entry + 8, value | 0x800)
        if tag in (15, 29):  # DT_RPATH and DT_RUNPATH become a tag without meaning
            struct.pack_into("<Q", data, entry, 0x6FFFF000)
open(sys.argv[2], "wb").write(data)
END

test_missing() {
    local path=$COLL_PLUGIN_PATH

    only_backends "$dir/lonely" tcp simulated
    if ! python3 "$dir/lonely.py" "$plugin" "$dir/lonely/coll_ucx.so" 2>"$dir/err"; then
        skip "no UCX" "the plugin cannot be changed: $(tail -n 1 "$dir/err")"
    elif [ -n "$TEST_SANITIZE" ]; then
        skip "no UCX" "sanitizers open libraries in the plugin's place"
    else
        local LD_LIBRARY_PATH=$build/.libs
        export LD_LIBRARY_PATH
        info
        is "no UCX: another backend can be used" $status 0
        has "no UCX: tcp is" "$dir/out" '^  \* tcp [^ ]*: usable$'
        has "no UCX: coll info names the library" "$dir/out" \
            '^ +why not +UCX is not installed, .*: libucp\.so\.0: cannot open shared object file: No such file'
        hello 3
        is "no UCX: 3 processes run over tcp" "$status $(grep -c 'backend tcp$' "$dir/out")" "0 3"
        check "no UCX: 2 threads over simulated" env COLL_BACKEND=simulated \
            "$coll" perf -t 2 -s 8 -n 1 allreduce
        COLL_BACKEND=ucx info
        is "no UCX: named it is an error" $status 1
        has "no UCX: with the library's name" "$dir/out" \
            "^  .*'ucx'.*libucp\.so\.0: cannot open shared object file"
        COLL_BACKEND=ucx hello 2
        is "no UCX: and for programs" $status 1
        has "no UCX: in the same words" "$dir/err" \
            "'ucx': UCX is not installed, .*: libucp\.so\.0: cannot open shared object file"
        none "no UCX: nothing on standard output" "$(cat "$dir/out")"
    fi
    COLL_PLUGIN_PATH=$path
}

test_old() {
    local LD_LIBRARY_PATH=$dir/old${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

    mkdir "$dir/old"
    cp "$build/tests/fakes/.libs/libucp.so.0" "$dir/old/"
    export LD_LIBRARY_PATH
    COLL_BACKEND=ucx info
    is "an old UCX: status 1" $status 1
    has "an old UCX: refused with both versions and its place" "$dir/out" \
        "UCX 1\.9\.0 \($dir/old/libucp\.so\.0\) cannot be used: this plugin .* needs 1\.[0-9]+ or a later 1\.x"
    info
    has "an old UCX: tcp is used" "$dir/out" '^  \* tcp [^ ]*: usable$'
}

# loads BACKEND: runs `coll info`, and prints "yes", "plugin" or "no": was UCX opened, or the plugin only?
loads() {
    local LD_LIBRARY_PATH=$dir/old${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

    export LD_LIBRARY_PATH
    rm -f "$dir"/loader.*
    COLL_BACKEND=$1 LD_DEBUG=files LD_DEBUG_OUTPUT=$dir/loader info
    if ! grep -q 'file=[^ ]*coll_tcp\.so' "$dir"/loader.*; then
        echo "the loader writes no report"
    elif grep -q 'file=libucp\.so' "$dir"/loader.*; then
        echo yes
    elif grep -q 'file=[^ ]*coll_ucx\.so' "$dir"/loader.*; then
        echo plugin
    else
        echo no
    fi
}

# In both cases the UCX that the plugin would find is the old one of test_old.
test_ruled_out() {
    local path=$COLL_PLUGIN_PATH

    only_backends "$dir/two" tcp ucx
    is "no COLL_BACKEND: coll info opens UCX" "$(loads '')" yes
    is "COLL_BACKEND=tcp: coll info does not" "$(loads tcp)" no
    is "COLL_BACKEND=^ucx: nor then" "$(loads ^ucx)" no
    COLL_BACKEND=tcp info
    is "COLL_BACKEND=tcp: status 0" $status 0
    has "COLL_BACKEND=tcp: ucx without its version" "$dir/out" '^    ucx  not usable$'
    has "COLL_BACKEND=tcp: why UCX was not opened" "$dir/out" \
        '^ +why not +it was not opened, since COLL_BACKEND rules it out$'
    has "COLL_BACKEND=tcp: its file" "$dir/out" '^ +file +.*/coll_ucx\.so$'
    is "COLL_BACKEND=tcp: only tcp shows its ABI" "$(grep -cE '^ +ABI +1\.[0-9]+$' "$dir/out")" 1
    COLL_PLUGIN_PATH=$path
}

test_missing
test_old
test_ruled_out

if ! can ucx; then
    done_testing
fi
export COLL_BACKEND=ucx

# ------------------------------------------------------------------- UCX's own words

test_words() {
    info
    is "coll info: status 0" $status 0
    has "it names UCX's version and transports" "$dir/out" \
        'UCX 1\.[0-9]+\.[0-9]+; host memory: [a-z0-9_ ]*; CUDA memory: '
    none "nothing on standard error" "$(cat "$dir/err")"
    UCX_TLS=tcp,self info
    has "UCX_TLS chooses" "$dir/out" 'host memory: (tcp self|self tcp);'
    UCX_TLS=nonsense info
    is "UCX_TLS=nonsense: status 1" $status 1
    has "UCX_TLS=nonsense: what UCX said" "$dir/out" \
        "^  .*'ucx'.*cannot start UCX: .*nonsense.* UCX_TLS "

    hello 4
    is "4 processes run over ucx" "$status $(grep -c 'sum of all ranks is 6, backend ucx$' "$dir/out")" \
        "0 4"
    is "UCX prints nothing" "$(wc -l <"$dir/out") $(cat "$dir/err")" "4 "
    UCX_TLS=nonsense hello 2
    is "UCX_TLS=nonsense: the run fails" $status 1
    has "UCX_TLS=nonsense: what UCX said" "$dir/err" 'cannot start UCX: .*nonsense'
    none "UCX_TLS=nonsense: nothing on standard output" "$(cat "$dir/out")"
    UCX_LOG_LEVEL=info hello 2
    has "UCX_LOG_LEVEL is the user's" "$dir/out" 'UCX +INFO'
}

# few_descriptors COMMAND: runs it in two ranks with small limits on open files, and prints what a killed run printed.  The
# ranks close what make has open.
few_descriptors() {
    local n

    for n in 6 8 10 14 18 22; do
        timeout 60 "$coll" run --no-prefix -n 2 -- sh -c "exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-; ulimit -n $n; exec $1" \
            >"$dir/few.$n" 2>&1
        ! grep -q 'killed by signal' "$dir/few.$n" || sed "s/^/limit $n: /" "$dir/few.$n"
    done
}

test_resources() {
    if [ -n "$TEST_SANITIZE" ]; then
        skip "few descriptors" "the sanitizer needs some itself"
        return
    fi
    none "few descriptors: UCX aborts no process" "$(few_descriptors "$build/tests/examples/hello")"
    has "few descriptors: the error says how many and what to do" "$dir/few.10" \
        'rank 0 .*UCX needs [0-9]+ file descriptors.* its 10: raise the limit \(ulimit -n\)'
    # UCX itself starts with so many, and then reaches no peer.
    timeout 60 "$coll" run --no-prefix -n 12 -- sh -c "ulimit -n 32; exec '$build/tests/examples/hello'" >"$dir/few.12" 2>&1
    has "few descriptors for many ranks: the same" "$dir/few.12" 'UCX needs 38 file descriptors.* its 32: raise the limit'
}

# few_threads: runs four ranks of a user who may have few processes and threads, and counts the aborts.  The threads of all
# ranks count together, so a rank may take the last place from another.
few_threads() {
    local n aborts=0

    for n in 6 7 8 9 10 11; do
        timeout 60 setpriv --reuid=$((70000 + $$ % 10000)) --regid=65534 --clear-groups \
            bash -c "ulimit -c 0 -u $n; exec \"\$@\"" bash \
            env HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent COLL_SYSCONFDIR=/nonexistent "$coll" run --no-prefix -n 4 --backend ucx "$build/tests/examples/hello" \
            >"$dir/threads.$n" 2>&1
        grep -q 'killed by signal\|Assertion' "$dir/threads.$n" && aborts=$((aborts + 1))
    done
    echo "$aborts"
}

test_threads() {
    if [ "$(id -u)" -ne 0 ] || [ -n "$TEST_SANITIZE" ] ||
        ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$build/tests/examples/hello" 2>/dev/null; then
        skip "few threads" "needs root, setpriv, no sanitizer and a tree that others can read"
        return
    fi
    is "few threads: UCX aborts no process" "$(few_threads)" 0
    has "few threads: the error says what to do" "$(grep -l 'UCX needs a thread' "$dir"/threads.* | head -n 1)" \
        'UCX needs a thread, and this process can start none: .* raise the limit \(ulimit -u\)'
}

# listening PID...: counts the TCP sockets on which the processes listen.
listening() {
    local pid inode n=0

    for pid; do
        for inode in $(awk '$4 == "0A" { print $10 }' "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6"); do
            ls -l "/proc/$pid/fd" 2>/dev/null | grep -q "socket:\[$inode\]" && n=$((n + 1))
        done
    done
    echo "$n"
}

# ports: runs two ranks that work for a while, and prints how many ports they have open meanwhile.
ports() {
    local job ranks tries=0

    : >"$dir/pids"
    : >"$dir/out"
    COLL_LOG=info "$coll" run --timeout 120 --no-prefix -n 2 -- sh -c 'echo $$ >>"$1"; exec "$2" perf -n 100000000 -s 8 allreduce' \
        sh "$dir/pids" "$coll" >"$dir/out" 2>&1 &
    job=$!
    while [ "$(grep -c "uses backend 'ucx'" "$dir/out")" -lt 2 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || break
        sleep 0.1
    done
    ranks=$(cat "$dir/pids")
    listening $ranks
    kill $ranks 2>/dev/null
    wait "$job"
    rm -f "$dir/pids"
}

test_ports() {
    is "all ranks on one host: no port is open while they work" "$(ports)" 0
    [ "$(UCX_TLS=tcp,self ports)" -gt 0 ]
    check "with UCX_TLS=tcp,self UCX listens, and the count sees it" [ $? -eq 0 ]
}

# In a network namespace with two more interfaces, the ranks in different mount namespaces, so that UCX does
# not take them for ranks of one host.  Prints the addresses on which the ranks listen, each once.
cat >"$dir/addresses.sh" <<'END'
mount -t sysfs none /sys && ip link set lo up && ip link add coll0 type veth peer name coll1 &&
    ip addr add 10.83.0.1/24 dev coll0 && ip addr add 10.83.1.1/24 dev coll1 &&
    ip link set coll0 up && ip link set coll1 up || exit 77
COLL_LOG=info "$coll" run --timeout 120 --no-prefix -n 2 -- sh -c 'echo $$ >>"$1"
    [ "$COLL_RANK" -eq 0 ] || set -- "$@" unshare -m
    shift && exec "$@" "$coll" perf -n 100000000 -s 8 allreduce' sh "$pids" >"$out" 2>&1 &
job=$!
tries=0
while [ "$(grep -c "uses backend 'ucx'" "$out")" -lt 2 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || break
    sleep 0.1
done
awk '$4 == "0A" { print substr($2, 1, 8) }' /proc/net/tcp | sort -u | tr '\n' ' '
kill $(cat "$pids") 2>/dev/null
wait "$job"
exit 0
END

# addresses VARIABLE=VALUE...
addresses() {
    : >"$dir/pids"
    : >"$dir/out"
    env "$@" coll="$coll" pids="$dir/pids" out="$dir/out" unshare -nm sh "$dir/addresses.sh" 2>"$dir/err"
}

# The kernel prints 127.0.0.1, 10.83.0.1 and 10.83.1.1 in hexadecimal digits, the last byte first.
test_interface() {
    local all

    if ! all=$(addresses COLL_BACKEND=ucx); then
        skip "interface: the addresses of UCX" "no network namespaces here: $(head -n 1 "$dir/err")"
        return
    fi
    check "without a choice UCX listens on several addresses ($all)" [ "${#all}" -gt 9 ]
    is "interface: UCX listens on that interface alone" \
        "$(addresses COLL_BACKEND=ucx COLL_INTERFACE=coll0)" "0100530A "
    is "interface: its address will do" \
        "$(addresses COLL_BACKEND=ucx COLL_INTERFACE=10.83.1.1)" "0101530A "
    is "ucx.interface: it counts more" \
        "$(addresses COLL_BACKEND=ucx COLL_INTERFACE=coll0 COLL_UCX_INTERFACE=coll1)" "0101530A "
    is "ucx.interface: UCX_NET_DEVICES counts most" \
        "$(addresses COLL_BACKEND=ucx COLL_UCX_INTERFACE=coll1 UCX_NET_DEVICES=lo)" "0100007F "
}

# Two ranks that share memory, in two network namespaces.
cat >"$dir/networks.sh" <<'END'
mount -t sysfs none /sys && ip link set lo up || exit 77
unshare -nm sh -c 'mount -t sysfs none /sys && ip link set lo up && : >"$1" && exec sleep 100' sh "$made" &
other=$!
for i in $(seq 100); do [ -e "$made" ] || sleep 0.1; done
ip link add coll0 type veth peer name coll1 && ip link set coll1 netns $other &&
    ip addr add 10.83.0.1/24 dev coll0 && ip link set coll0 up &&
    nsenter -n -t $other ip addr add 10.83.0.2/24 dev coll1 && nsenter -n -t $other ip link set coll1 up || exit 77
export COLL_ROOT=10.83.0.1:7777 COLL_WORLD_SIZE=2 COLL_KEY=secret
set -- "$coll" perf -n 300 -w 1 -s 8 allreduce
COLL_RANK=0 timeout 20 "$@" &
COLL_RANK=1 nsenter -n -m -t $other timeout 20 "$@"
status=$?
wait $!
status=$((status + $?))
kill $other
exit $status
END

test_networks() {
    local status=0

    COLL_POLL=0 COLL_YIELD=0 coll="$coll" made="$dir/made" unshare -nm sh "$dir/networks.sh" >"$dir/out" 2>"$dir/err" || status=$?
    ! grep -q '^unshare:' "$dir/err" || status=77
    case $status in
    0) check "ranks that share memory, not their network, wake each other" true ;;
    77) skip "ranks in two networks" "no network namespaces here: $(head -n 1 "$dir/err")" ;;
    *) is "ranks that share memory, not their network, wake each other" "$(tail -n 3 "$dir/err")" "" ;;
    esac
}

test_wrong_interface() {
    COLL_UCX_INTERFACE=nosuch0 hello 2
    check "ucx.interface: the run fails without that interface" [ "$status" -ne 0 ]
    has "ucx.interface: the error names it" "$dir/err" "option ucx.interface: .* 'nosuch0'"
}

# If a rank ends, `coll run` sends SIGTERM to the other ranks; here these stay until they have
# printed their error.
test_no_way() {
    local r

    timeout 120 "$coll" run --grace 30 -n 2 -e UCX_TLS=self -- \
        sh -c 'trap "" TERM && exec "$1"' sh "$build/tests/examples/hello" \
        >"$dir/out" 2>"$dir/err" </dev/null
    is "no transport between two processes: the run fails" $? 1
    for r in 0 1; do
        has "no transport between two processes: rank $r says so" "$dir/err" \
            "^\[$r\] .*UCX cannot reach rank [01]: .*UCX_TLS"
    done
}

test_words
test_resources
test_threads
test_ports
test_interface
test_networks
test_wrong_interface
test_no_way

# -------------------------------------------------------- transports and options

# kit NAME OPTION...: runs `coll check`, for kit_passes NAME.
kit() {
    local name=$1

    shift
    collect "$name" timeout 900 "$coll" check --quick --timeout $limit "$@" "$plugin"
}

kit_passes() {
    take "$1"
    is "coll check, $1: status 0" "$status" 0
    none "coll check, $1: nothing fails" "$(grep -A 3 '^not ok' "$dir/out")"
    check "coll check, $1: it came to an end" grep -q '^# [0-9]* checks in' "$dir/out"
    none "coll check, $1: nothing on standard error" "$(cat "$dir/err")"
    tail -n 1 "$dir/out"
}

# own NAME PROGRAM: runs this program of tests/, for own_passes NAME PROGRAM.
own() {
    TEST_LEVEL= collect "$1" timeout 900 "$build/tests/$2" ucx
}

own_passes() {
    take "$1"
    is "$2, $1: status 0" "$status" 0
    none "$2, $1: nothing fails" "$(cat "$dir/out" "$dir/err" | grep -A 10 '^not ok')"
    grep '^# .*median' "$dir/out"
}

# Two runs at a time, because much of a run is waiting.  tools/check.t has the kit over UCX's own choice of transports, and
# api/collectives_test has the collectives; within a host that choice is shared memory.
# A short receive queue is full more often, and is made sooner.
kits=("UCX_TLS=tcp,self, zcopy=65536" "mesh=0")
collectives=()
if is_long; then
    kits+=("UCX_TLS=tcp,self" "zcopy=65536")
    [ -n "$TEST_SANITIZE" ] || collectives=(tcp,self)
fi
{
    UCX_TLS=tcp,self kit "UCX_TLS=tcp,self, zcopy=65536" --option zcopy=65536
    if is_long; then
        UCX_POSIX_FIFO_SIZE=64 UCX_SYSV_FIFO_SIZE=64 kit "zcopy=65536" --option zcopy=65536
    fi
} &
{
    UCX_POSIX_FIFO_SIZE=64 UCX_SYSV_FIFO_SIZE=64 kit "mesh=0" --option mesh=0
    if is_long; then
        UCX_TLS=tcp,self kit "UCX_TLS=tcp,self"
        [ -n "$TEST_SANITIZE" ] || UCX_TLS=tcp,self own "tcp,self" api/collectives_test
    fi
} &
wait
for name in "${kits[@]}"; do
    kit_passes "$name"
done
for name in "${collectives[@]}"; do
    own_passes "$name" api/collectives_test
done

# ------------------------------------------------------------------ ranks that die

# Lists shared memory that no process has mapped.  Folders in /dev/shm are of other tests, which may run at the same time.
unused() {
    local file

    ipcs -m | awk '$6 == 0 && $2 ~ /^[0-9]+$/ { print "segment", $2 }'
    for file in /dev/shm/*; do
        [ ! -f "$file" ] || grep -qsF "$file" /proc/[0-9]*/maps || echo "$file"
    done
}

unused | sort >"$dir/before"
# All runs at once, because each mostly waits.
COLL_UCX_ZCOPY=64K own "zcopy=64K" faults/peers_test &
UCX_TLS=tcp,self own "UCX_TLS=tcp,self" faults/peers_test &
! is_long || UCX_TLS=shm,self own "UCX_TLS=shm,self" faults/peers_test &
wait
own_passes "zcopy=64K" faults/peers_test
own_passes "UCX_TLS=tcp,self" faults/peers_test
! is_long || own_passes "UCX_TLS=shm,self" faults/peers_test
unused | sort >"$dir/after"
sleep 2
unused | sort | comm -12 - "$dir/after" | comm -13 "$dir/before" - >"$dir/left"
if command -v ipcs >/dev/null; then
    none "nothing is left in shared memory" "$(cat "$dir/left")"
else
    skip "nothing is left in shared memory" "no ipcs"
fi

done_testing
