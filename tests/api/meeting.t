#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# meeting.t - how ranks find rank 0: the forms of its address, hosts whose name does not resolve, and who else may have
# its port.  In a network of its own where the system allows one.
. "${top_srcdir:-.}/tests/lib/tap.sh"

PATH=$PATH:/sbin:/usr/sbin
if [ -z "${MEETING_NETWORK:-}" ]; then
    for flags in -n -rn; do
        # shellcheck disable=SC2093 # else in the network of the host
        MEETING_NETWORK=own unshare $flags ip link set lo up 2>/dev/null && MEETING_NETWORK=own exec unshare $flags sh "$0"
    done
    MEETING_NETWORK=host
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
[ "$MEETING_NETWORK" = host ] || ip link set lo up
hello=${top_builddir:-.}/tests/examples/hello
COLL_BACKEND=tcp COLL_INIT_TIMEOUT=20s COLL_LOG=error
export COLL_BACKEND COLL_INIT_TIMEOUT COLL_LOG
port=$((20000 + $$ % 9000))

# rank NAME VARIABLE=VALUE...: runs a rank beside the others, until all_end.
ranks=
rank() {
    rank_name=$1
    shift
    collect "$rank_name" timeout 60 env "$@" "$hello" &
    ranks="$ranks $!"
}
all_end() {
    # shellcheck disable=SC2086 # a list of processes
    wait $ranks
    ranks=
}

# met TEXT NAME...: these ranks have met.
met() {
    met_text=$1
    shift
    for met_name; do
        take "$met_name"
        [ "$status" -eq 0 ] || break
    done
    check "$met_text" sh -c "cat '$dir/out' '$dir/err'; exit $status"
}

# failed TEXT NAME PATTERN: that rank has failed with such a text.
failed() {
    take "$2"
    check "$1: an error" test "$status" -ne 0
    has "which says why" "$dir/err" "$3"
}

own_network() {
    [ "$MEETING_NETWORK" = own ] && return
    skip "$1" "no network namespace"
    return 1
}

# ---- the forms of an address ----
if own_network "addresses of an interface"; then
    ip link add d0 type veth peer name d1
    ip link set d0 up
    ip link set d1 up
    ip addr add 10.77.0.1/24 dev d0
    ip addr add fe80::77/64 dev d0 nodad
    for r in 0 1; do
        rank "local$r" COLL_RANK=$r COLL_WORLD_SIZE=2 COLL_KEY=k "COLL_ROOT=[fe80::77%d0]:$port"
        rank "mapped$r" COLL_RANK=$r COLL_WORLD_SIZE=2 COLL_KEY=k "COLL_ROOT=[::ffff:10.77.0.1]:$((port + 1))"
        rank "bare$r" COLL_RANK=$r COLL_WORLD_SIZE=2 COLL_KEY=k "COLL_ROOT=[fe80::77]:$((port + 2))"
        rank "wrong$r" COLL_RANK=$r COLL_WORLD_SIZE=2 COLL_KEY=k "COLL_ROOT=[fe80::77%nosuch]:$((port + 3))"
    done
    all_end
    met "a link-local address with its interface" local0 local1
    met "an IPv4 address in IPv6's form" mapped0 mapped1
    failed "rank 0, a link-local address without its interface" bare0 'as in \[fe80::1%eth0\]:4000'
    failed "rank 1, the same" bare1 'as in \[fe80::1%eth0\]:4000'
    failed "an interface that this host does not have" wrong1 "no network interface 'nosuch'"
fi

# ---- white space, and hosts without a name ----
slurm="SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2"
for r in 0 1; do
    # shellcheck disable=SC2086 # a list of variables
    rank "slurm$r" $slurm SLURM_PROCID=$r SLURM_STEP_NODELIST=no-such-host.invalid
    rank "torchrun$r" RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=no-such-host.invalid MASTER_PORT=$$
    rank "newline$r" "RANK=$r
" "WORLD_SIZE=2
" MASTER_ADDR="127.0.0.1
" MASTER_PORT="$(($$ + 1))$([ $r = 0 ] || echo ' ')"
done
all_end
met "the tasks of a Slurm job on one host whose name does not resolve" slurm0 slurm1
met "torchrun's ranks on one host whose name does not resolve" torchrun0 torchrun1
met "white space around torchrun's variables" newline0 newline1

# ---- who has the port ----
web=
port=$((port + 10))
if command -v python3 >/dev/null; then
    python3 -u -m http.server --bind 127.0.0.1 $port >"$dir/web" 2>&1 &
    web=$!
    until grep -q Serving "$dir/web" || ! kill -0 $web 2>/dev/null; do sleep 0.05; done
fi
first="COLL_RANK=0 COLL_WORLD_SIZE=2 COLL_INIT_TIMEOUT=4s"
if [ -n "$web" ]; then
    # shellcheck disable=SC2086 # a list of variables
    rank web0 $first COLL_KEY=k COLL_ROOT=127.0.0.1:$port
    rank web1 COLL_RANK=1 COLL_WORLD_SIZE=2 COLL_KEY=k COLL_ROOT=127.0.0.1:$port
fi
port=$((port + 10))
for i in 1 2; do
    # shellcheck disable=SC2086 # a list of variables
    {
        rank "twice$i" $first COLL_KEY=k COLL_ROOT=127.0.0.1:$port
        rank "sizes$i" COLL_RANK=0 COLL_WORLD_SIZE=$((i + 1)) COLL_KEY=k COLL_INIT_TIMEOUT=4s COLL_ROOT=127.0.0.1:$((port + 1))
        rank "keys$i" $first COLL_KEY=$i COLL_ROOT=127.0.0.1:$((port + 2))
        rank "launchers$i" COLL_INIT_TIMEOUT=4s RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 3)) \
            OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
    }
done
all_end
both() {
    cat "$dir/$1"1.err "$dir/$1"2.err >"$dir/err"
}
both twice
has "two processes are rank 0: the second is told" "$dir/err" \
    'cannot listen .*in use; rank 0 of 2 is there already: give each process a rank of its own'
has "and so is the first" "$dir/err" 'timed out: rank 1 of 2 .*turned away .* rank 0 of 2 is there already'
none "another program is not blamed" "$(grep 'another program' "$dir/err")"
both sizes
has "two processes are rank 0 of different numbers of ranks" "$dir/err" \
    'cannot listen .*in use; two processes have rank 0, one of [23] ranks and one of [23]:'
both keys
has "rank 0 of another job" "$dir/err" 'cannot listen .*in use; .* belongs to another job: its key differs'
both launchers
has "the variables of two launchers disagree" "$dir/err" \
    "two launchers disagree: torchrun's RANK and WORLD_SIZE say rank 0 of 2, which counts, but Open MPI's OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE say rank 1 of 2"

if [ -n "$web" ]; then
    kill $web
    failed "rank 0, a web server has the port" web0 'cannot listen .*, a web server, does not speak'
    failed "rank 1, the same" web1 'rank 1 cannot meet rank 0: .*, a web server, does not speak'
else
    skip "a web server has the port" "python3 is not installed"
fi

# ---- the lasting reason ----
if own_network "all local ports are in use"; then
    echo "$((port + 10)) $((port + 10))" >/proc/sys/net/ipv4/ip_local_port_range
    # The one port is not free: a connection that rank 1 cannot share has it.  Rank 0 comes, but too late to be the reason.
    for r in 1 2 3; do
        rank "ports$r" COLL_RANK=$r COLL_WORLD_SIZE=4 COLL_KEY=k COLL_INIT_TIMEOUT=3s COLL_ROOT=127.0.0.1:$((port + 1))
    done
    rank ports0 COLL_RANK=0 COLL_WORLD_SIZE=4 COLL_KEY=k COLL_INIT_TIMEOUT=3s COLL_ROOT=127.0.0.1:$((port + 1))
    all_end
    cat "$dir"/ports[123].err >"$dir/err"
    has "all local ports are in use: the rank that has none says so" "$dir/err" \
        '127\.0\.0\.1:[0-9]*: no local port is free \(see net\.ipv4\.ip_local_port_range\) \(for [0-9.]* s\)'
fi

done_testing
