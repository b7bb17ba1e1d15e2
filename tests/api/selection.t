#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# selection.t - which backend is taken: COLL_BACKEND, priorities in coll.conf and coll.conf.d, the
# user's file; shown by `coll info` and by runs of the example hello.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=${top_builddir:-.}
hello=$build/tests/examples/hello
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
# Keeps this machine's configuration out of the test.
export COLL_SYSCONFDIR="$scratch/etc" XDG_CONFIG_HOME="$scratch/home"
mkdir -p "$scratch/etc/coll.conf.d" "$scratch/home/coll"
unset COLL_BACKEND COLL_CONFIG
# Keeps other plugins of the build tree out of the test.
only_backends "$scratch/plugins" tcp simulated

# chosen: prints the backend that `coll info` marks as its choice.
chosen() {
    "$build/coll" info | sed -n 's/^  \* \([^ ]*\) .*/\1/p'
}

# info_is WANT NAME: checks the choice that `coll info` shows.
info_is() {
    check "$2: coll info chooses $1" test "$(chosen)" = "$1"
}

# Each rank is a process, started by `coll run`.
run() {
    "$build/coll" run --timeout 60 --no-prefix -n 3 -- "$hello" >"$scratch/out" 2>&1
}
run_is() {
    run
    check "$2: 3 ranks run over $1" sh -c \
        "[ \$(grep -c 'sum of all ranks is 3, backend $1\$' '$scratch/out') -eq 3 ] ||
            { cat '$scratch/out'; false; }"
}
# run_fails NAME TEXT...: checks that every rank prints each text.
run_fails() {
    name=$1
    shift
    status=0
    run || status=$?
    check "$name: the run fails" test $status -ne 0
    for text; do
        check "$name: says '$text'" sh -c "grep -q -e \"\$1\" '$scratch/out' ||
            { cat '$scratch/out'; false; }" sh "$text"
    done
}
alone_is() {
    "$hello" >"$scratch/out" 2>&1
    check "$2: one rank alone runs over $1" sh -c "grep -q 'backend $1\$' '$scratch/out' ||
        { cat '$scratch/out'; false; }"
}

# two_networks PROGRAM: runs a rank here in a new network namespace, and a rank in another.  77: not possible here.
two_networks() {
    rm -f "$scratch/made"
    # shellcheck disable=SC2016 # the inner shell expands it
    timeout 60 unshare -n sh -c '
        # Until the file is there, the process may still be in the namespace of this shell.
        unshare -n sh -c ": >\"\$1\" && exec sleep 50" sh "$1" &
        other=$!
        for _ in $(seq 100); do
            [ -e "$1" ] || sleep 0.1
        done
        ip link add v0 type veth peer name v1 netns $other && ip addr add 10.83.1.1/24 dev v0 &&
            ip link set v0 up && ip link set lo up &&
            nsenter -t $other -n sh -c "ip addr add 10.83.1.2/24 dev v1 && ip link set v1 up" || {
            kill $other
            exit 77
        }
        export COLL_ROOT=10.83.1.1:29591 COLL_WORLD_SIZE=2
        COLL_RANK=1 nsenter -t $other -n "$0" &
        COLL_RANK=0 "$0"
        status=$?
        wait $!
        kill $other
        exit $status' "$1" "$scratch/made"
}

# ---- COLL_BACKEND ----
run_is tcp "unset"
COLL_BACKEND=tcp
export COLL_BACKEND
info_is tcp "COLL_BACKEND=tcp"
run_is tcp "COLL_BACKEND=tcp"
alone_is tcp "COLL_BACKEND=tcp"

COLL_BACKEND=
run_is tcp "COLL_BACKEND empty"

COLL_BACKEND=simulated
info_is simulated "COLL_BACKEND=simulated"
alone_is simulated "COLL_BACKEND=simulated"
run_fails "COLL_BACKEND=simulated over processes" simulated process

COLL_BACKEND=tcp,simulated
info_is tcp "COLL_BACKEND=tcp,simulated"
alone_is tcp "COLL_BACKEND=tcp,simulated"
run_is tcp "COLL_BACKEND=tcp,simulated"

COLL_BACKEND=simulated,tcp
info_is simulated "COLL_BACKEND=simulated,tcp"
alone_is simulated "COLL_BACKEND=simulated,tcp"
run_fails "COLL_BACKEND=simulated,tcp over processes: no silent fallback" simulated process

COLL_BACKEND=^tcp
info_is simulated "COLL_BACKEND=^tcp"
alone_is simulated "COLL_BACKEND=^tcp"
run_fails "COLL_BACKEND=^tcp over processes" simulated

COLL_BACKEND=^simulated
info_is tcp "COLL_BACKEND=^simulated"
run_is tcp "COLL_BACKEND=^simulated"

COLL_BACKEND=nosuch
check "COLL_BACKEND=nosuch: coll info fails" sh -c "! '$build/coll' info >'$scratch/out' 2>&1"
check "COLL_BACKEND=nosuch: coll info says so" grep -q nosuch "$scratch/out"
run_fails "COLL_BACKEND=nosuch" nosuch tcp

COLL_BACKEND=nosuch,tcp
run_fails "COLL_BACKEND=nosuch,tcp: one that is named first must be there" nosuch

COLL_BACKEND=tcp,^simulated
run_fails "COLL_BACKEND=tcp,^simulated: a list cannot be both" COLL_BACKEND
unset COLL_BACKEND

# ---- a plugin that is ruled out is not opened: its vendor's library may crash ----
cp "$build/tests/plugins/.libs/coll_fatal.so" "$scratch/plugins/"
STUB_FATAL=load
export STUB_FATAL
COLL_BACKEND=tcp run_is tcp "beside a plugin that crashes, COLL_BACKEND=tcp"
COLL_BACKEND=^fatal run_is tcp "beside a plugin that crashes, COLL_BACKEND=^fatal"
rm "$scratch/plugins/coll_fatal.so"
unset STUB_FATAL

# ---- every rank has an environment of its own ----
per_rank() {
    "$build/coll" run --timeout 60 --grace 2 -n 2 -- sh -c "$1; exec '$hello'" >"$scratch/out" 2>&1
}
per_rank 'if [ "$COLL_RANK" = 1 ]; then COLL_BACKEND=tcp; export COLL_BACKEND; fi'
check "only rank 1 names tcp: all use it" sh -c \
    "[ \$(grep -c 'backend tcp\$' '$scratch/out') -eq 2 ] || { cat '$scratch/out'; false; }"

begun=$(date +%s)
per_rank 'if [ "$COLL_RANK" = 1 ]; then COLL_BACKEND=nosuch; export COLL_BACKEND; fi'
took=$(($(date +%s) - begun))
check "only rank 1 names nosuch: it is named" sh -c \
    "grep -q nosuch '$scratch/out' || { cat '$scratch/out'; false; }"
check "only rank 1 names nosuch: at once, not at a timeout ($took s)" test $took -lt 20

# The script starts the ranks itself, so that no launcher ends rank 0 before it has printed its
# error.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0));
print(s.getsockname()[1])' 2>/dev/null)
if [ -n "$port" ]; then
    COLL_WORLD_SIZE=2
    COLL_ROOT=127.0.0.1:$port
    export COLL_WORLD_SIZE COLL_ROOT
    COLL_RANK=0 COLL_INIT_TIMEOUT=60s "$hello" >"$scratch/rank0" 2>&1 &
    zero=$!
    COLL_RANK=1 COLL_BACKEND=simulated "$hello" >"$scratch/rank1" 2>&1
    check "rank 1 names simulated: rank 1 fails" test $? -ne 0
    wait $zero
    check "rank 1 names simulated: rank 0 fails as well" test $? -ne 0
    for r in 0 1; do
        check "rank 1 names simulated: rank $r says who and what" sh -c \
            "grep 'rank [01]' '$scratch/rank$r' | grep -q simulated ||
                { cat '$scratch/rank$r'; false; }"
    done
    unset COLL_WORLD_SIZE COLL_ROOT
else
    skip "every rank hears of it" "no python3 to find a port with"
fi

# ---- priorities in files ----
printf '[simulated]\npriority = 3\n' >"$scratch/etc/coll.conf"
alone_is tcp "coll.conf lowers simulated"
check "coll.conf lowers simulated: coll info names file and line" sh -c \
    "'$build/coll' info | grep -q 'priority.*3.*coll.conf:2'"

printf '[simulated]\npriority = 80\n' >"$scratch/etc/coll.conf.d/90-site.conf"
alone_is simulated "coll.conf.d wins over coll.conf"
check "coll.conf.d wins over coll.conf: coll info says so" sh -c \
    "'$build/coll' info | grep -q 'priority.*80.*90-site.conf:2'"

printf '[tcp]\npriority = 90\n' >"$scratch/home/coll/coll.conf"
alone_is tcp "the user's file wins over the system's"
COLL_SIMULATED_PRIORITY=100
export COLL_SIMULATED_PRIORITY
alone_is simulated "the environment wins over files"
check "the environment wins over files: coll info says so" sh -c \
    "'$build/coll' info | grep -q 'priority.*100.*COLL_SIMULATED_PRIORITY'"
unset COLL_SIMULATED_PRIORITY

printf '[tcp]\npriority = 5\n' >"$scratch/other.conf"
COLL_CONFIG=$scratch/other.conf
export COLL_CONFIG
alone_is simulated "COLL_CONFIG is read in place of the user's file"
printf 'backend = tcp\n' >"$scratch/other.conf"
alone_is tcp "a file names the backend"
COLL_BACKEND=simulated alone_is simulated "COLL_BACKEND wins over a file"

# ---- faults in files ----
printf 'timeout = 5s\nnosuchoption = 1\n' >"$scratch/other.conf"
run_fails "an unknown option" 'other.conf:2' nosuchoption
printf '\n\ntimeout = soon\n' >"$scratch/other.conf"
run_fails "a bad value" 'other.conf:3' soon
printf 'timeout\n' >"$scratch/other.conf"
run_fails "a bad line" 'other.conf:1'
printf '[tpc]\ninterface = lo\n' >"$scratch/other.conf"
run_fails "a misspelt section" 'other.conf:2' "did you mean 'tcp'"
printf '[coll]\ntimeout = 3s\n' >"$scratch/other.conf"
run_fails "a section for the library" 'other.conf:2' 'go above the first section'
printf '[elsewhere]\nx = y\nz = y\n[nccl]\nblocking = yes\n' >"$scratch/other.conf"
run_is tcp "sections of backends that are not here"
is "a warning in each of 3 processes, and none about nccl" "$(grep -c 'warn: .*not checked' "$scratch/out")" 3
has "it names file and line" "$scratch/out" "other\.conf:2: there is no backend 'elsewhere' here"
COLL_CONFIG=$scratch/absent.conf
run_fails "a named file that is not there" absent.conf
unset COLL_CONFIG COLL_BACKEND

# ---- a rank that fails before the rendezvous ----
status=0
"$build/coll" run --timeout 20 --no-prefix -n 3 -- sh -c \
    'trap "" TERM; [ "$COLL_RANK" != 1 ] || export COLL_INTERFACE=nosuch0; exec "$0"' "$hello" \
    >"$scratch/out" 2>&1 || status=$?
check "rank 1 has no such interface: the run fails" test $status -ne 0
is "all 3 ranks hear of rank 1's interface" \
    "$(grep -c "^rank 1: option 'interface', set by COLL_INTERFACE" "$scratch/out")" 3

# ---- an interface without the loopback address at which the launcher lets the ranks meet ----
status=0
unshare -n sh -c 'ip link set lo up && ip addr add 10.83.0.1/32 dev lo || exit 77
    COLL_INTERFACE=10.83.0.1 "$1" run --timeout 20 --no-prefix -n 2 -- "$2"' \
    sh "$build/coll" "$hello" >"$scratch/out" 2>&1 || status=$?
if [ $status -eq 77 ] || grep -q '^unshare:' "$scratch/out"; then
    skip "an interface other than the loopback one: ranks on one host meet" "no network namespaces here"
else
    is "an interface other than the loopback one: ranks on one host meet" "$status" 0
fi

# ---- messages between hosts that the user wants protected, and a backend that does not protect them ----
if [ -e "$build/.libs/coll_ucx.so" ]; then
    only_backends "$scratch/both" tcp ucx
fi
if can ucx; then
    # tcp comes first within a host, ucx between hosts.
    unset COLL_BACKEND
    rm "$scratch/home/coll/coll.conf"
    run_is tcp "ranks on one host"
    COLL_TCP_PRIORITY=10 run_is ucx "ranks on one host, and the user has lowered tcp"
    info_is ucx "several hosts"
    check "coll info tells both" sh -c \
        "'$build/coll' info | grep -q \"; if all ranks run on one host: 'tcp'\""
    two_networks "$hello" >"$scratch/out" 2>&1
    if [ $? -eq 77 ] || grep -q '^unshare:' "$scratch/out"; then
        skip "2 ranks in two network namespaces run over ucx" "no network namespaces here"
    else
        is "2 ranks in two network namespaces run over ucx" \
            "$(grep -c 'backend ucx$' "$scratch/out")" 2
    fi
    export COLL_TCP_SECURITY=encrypt
    COLL_UCX_PRIORITY=200 run_is ucx "tcp.security, all ranks on one host"
    none "connections within a host count as safe" "$(grep security "$scratch/out")"
    COLL_BACKEND=ucx run_is ucx "the same by name"
    unset COLL_TCP_SECURITY

    # ask NAME RANK0 RANK1: runs a rank in each of two networks, with these assignments.
    printf '#!/bin/sh\neval "export $(if [ "$COLL_RANK" = 0 ]; then echo "$ASK0"; else echo "$ASK1"; fi)"\nexec "%s"\n' \
        "$hello" >"$scratch/ask"
    chmod +x "$scratch/ask"
    ask() {
        name=$1
        status=0
        ASK0=$2 ASK1=$3 COLL_KEY=selection.$$ COLL_INIT_TIMEOUT=30s two_networks "$scratch/ask" \
            >"$scratch/out" 2>&1 || status=$?
    }
    # told TEXT: both ranks print it.
    told() {
        is "$name: each rank is told '$1'" "$(grep -cF -- "$1" "$scratch/out")" 2
    }
    over() {
        is "$name: 2 ranks in two network namespaces run over $1" "$(grep -c "backend $1\$" "$scratch/out")" 2
    }
    plain="option tcp.security is encrypt (COLL_TCP_SECURITY), but 'ucx' does not protect messages between hosts"
    ask "nobody asks for protection" A= A=
    if [ $status -eq 77 ] || grep -q '^unshare:' "$scratch/out"; then
        skip "protection between hosts" "no network namespaces here"
    elif ! "$build/coll" info | grep -q 'security by'; then
        over ucx
        ask "tcp.security without libsodium" COLL_TCP_SECURITY=encrypt COLL_TCP_SECURITY=encrypt
        told "option tcp.security is encrypt, which needs libsodium"
    else
        over ucx
        ask "tcp.security" COLL_TCP_SECURITY=encrypt COLL_TCP_SECURITY=encrypt
        over tcp
        ask "tcp.security = none" COLL_TCP_SECURITY=none COLL_TCP_SECURITY=none
        over ucx
        printf '[tcp]\nsecurity = encrypt\n' >"$scratch/security.conf"
        file="COLL_CONFIG=$scratch/security.conf"
        ask "tcp.security in a file" "$file" "$file"
        over tcp
        ask "tcp.security, none in the environment" "$file COLL_TCP_SECURITY=none" "$file COLL_TCP_SECURITY=none"
        over ucx
        ask "tcp.security, ucx by name" "COLL_BACKEND=ucx COLL_TCP_SECURITY=encrypt" \
            "COLL_BACKEND=ucx COLL_TCP_SECURITY=encrypt"
        told "rank 0 cannot use backend 'ucx': $plain"
        ask "tcp.security in a file, ucx by name" "$file COLL_BACKEND=ucx" "$file COLL_BACKEND=ucx"
        told "option tcp.security is encrypt ($scratch/security.conf:2), but 'ucx' does not protect"
        ask "tcp.security, tcp excluded" "COLL_BACKEND=^tcp COLL_TCP_SECURITY=encrypt" \
            "COLL_BACKEND=^tcp COLL_TCP_SECURITY=encrypt"
        told "'ucx': rank 0: $plain"
        ask "only rank 1 asks" A= COLL_TCP_SECURITY=encrypt
        told "option tcp.security differs: none on rank 0, encrypt on rank 1"
        ask "only rank 1 asks, ucx by name" COLL_BACKEND=ucx "COLL_BACKEND=ucx COLL_TCP_SECURITY=encrypt"
        told "rank 1 cannot use backend 'ucx': $plain"
        ask "a backend that is not here is asked" COLL_OTHER_SECURITY=yes COLL_OTHER_SECURITY=yes
        told "'tcp': rank 0: option other.security is yes (COLL_OTHER_SECURITY), but option tcp.security asks for no"
        ask "the ranks ask different backends" COLL_TCP_SECURITY=encrypt COLL_OTHER_SECURITY=yes
        told "'ucx': rank 0: $plain"
        told "'tcp': rank 1: option other.security is yes"
    fi
fi

done_testing
