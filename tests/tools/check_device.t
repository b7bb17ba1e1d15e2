#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_device.t - `coll check` over stand-ins for the CUDA driver and for NCCL.  Of plugins that take memory of
# devices only: nccl passes, what is spoilt is found, and what is not there is said.  Of the others: the caller's
# streams.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
fakes=$build/tests/fakes/.libs
nccl=$build/.libs/coll_nccl.so
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

[ -e "$nccl" ] || skip_all "built without the backend nccl"

# A busy machine slows the checks down, a sanitizer too.
limit=40
[ -z "$TEST_SANITIZE" ] || limit=60
level="--quick --ranks=1-3"
if is_long; then level=--ranks=1-4; fi

# run NAME DEVICES OPTION... PLUGIN: runs `coll check`; `take NAME` reads the output.
run() {
    local name=$1 devices=$2
    shift 2
    LD_LIBRARY_PATH=$fakes STANDIN_CUDA_DEVICES=$devices collect "$name" \
        timeout 900 "$build/coll" check --timeout $limit "$@"
}

# kit DEVICES OPTION... PLUGIN
kit() {
    run now "$@"
    take now
}

passes() {
    is "$1: status 0" $status 0
    none "$1: nothing fails" "$(grep -A 12 '^not ok' "$dir/out")"
    none "$1: nothing on standard error" "$(cat "$dir/err")"
}

# The longest run mostly waits, so it goes on beside the other runs.
run whole 4 $level "$nccl" &

# ------------------------------------------------------------------ how many ranks

kit 2 --only open,coll-broadcast "$nccl"
passes "more ranks than devices are not wanted"
has "so there are no more, which is said" "$dir/out" '^# .* there are 2, so no more ranks than that'
has "one and two ranks, threads and processes" "$dir/out" '^# 2 checks in 8 runs: 2 passed'
COLL_NCCL_LIBRARY=$fakes/libnccl.so.2 kit 2 --only open,coll-broadcast "$nccl"
passes "NCCL is named by its path, which the kit does not read"

kit 2 --ranks 3 --only open,coll-broadcast,group-one-thread "$nccl"
passes "unless the user says so"
has "then processes share devices" "$dir/out" '^ok 2 - coll-broadcast: [^#]*$'
has "threads do not" "$dir/out" '^ok 3 - group-one-thread: .*# SKIP 3 ranks need as many devices'

# ------------------------------------------------------------------ missing devices

kit 0 --quick "$nccl"
is "without a device: a status of its own, for nothing was tried" $status 3
none "without a device: nothing fails" "$(grep -A 12 '^not ok' "$dir/out")"
has "without a device: the last line says why" "$dir/out" \
    '^# the backend was not tried, no endpoint was opened: .*no CUDA device'
has "the collectives are passed over" "$dir/out" \
    '^ok [0-9]+ - coll-allreduce: .*# SKIP the plugin takes memory of devices only: no CUDA device'
kit 0 --only file-name,exports "$nccl"
passes "checks that need no device, without a device"

ondevice=$build/tests/plugins/.libs/coll_ondevice.so
kit 1 --only coll-allreduce,device-memory,device-host,device-context "$ondevice"
passes "a plugin that does not take managed memory"
has "device memory is what it takes" "$dir/out" '^ok [0-9]+ - device-memory: [^#]*$'
has "host memory it does not" "$dir/out" '^ok [0-9]+ - device-host: [^#]*$'
has "what the kit would verify in place is passed over" "$dir/out" \
    '^ok 1 - coll-allreduce: .*# SKIP .* managed memory'

# ------------------------------------------------------------------ streams over a transport

mkdir "$dir/driver"
cp "$fakes/libcuda.so.1" "$dir/driver/"
for backend in tcp simulated ucx; do
    if ! can $backend; then continue; fi
    LD_LIBRARY_PATH=$dir/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} STANDIN_CUDA_DEVICES=2 \
        collect streams timeout 300 "$build/coll" check --timeout $limit --ranks=1-3 \
        --only caller-stream,quiet,descriptors "$build/.libs/coll_$backend.so"
    take streams
    passes "$backend: the caller's streams"
    has "$backend: they are not passed over" "$dir/out" '^ok [0-9]+ - caller-stream: [^#]*$'
done
"$build/coll" check --only caller-stream "$build/.libs/coll_tcp.so" >"$dir/out" 2>&1
has "without a driver they are, with a reason" "$dir/out" \
    '^ok 1 - caller-stream: .*# SKIP there is no device with a stream: '

# ------------------------------------------------------------------ spoilt plugins

# spoilt FAULT CHECKS: with this fault, nccl fails these checks (a pattern) and passes all others.
spoilt() {
    local found all=native-takes,native-place,device-memory,device-host,device-context,stream-order,stream-group,stream-events
    # shellcheck disable=SC2086 # flags are words
    ${TEST_CC:-cc} $TEST_CFLAGS -O0 -fPIC -fvisibility=hidden -shared -pthread -DSPOILT="$1" \
        -D_GNU_SOURCE -Dcoll_backend_v1=spoilt_good -I"$src/include" -iquote "$src/core" \
        $(printf -- '-include %s ' "$src"/plugins/nccl/nccl*.c) \
        -o "$dir/coll_spoilt.so" "$src/tests/plugins/bad/nccl_spoilt.c" \
        "$build/.libs/libcore_device.a" "$build/.libs/libcore_base.a" \
        -Wl,--exclude-libs,ALL -Wl,-z,defs >"$dir/err" 2>&1 ||
        { none "$1: it is built" "$(cat "$dir/err")"; return; }
    kit 2 --quick --only $all,stream-event-states "$dir/coll_spoilt.so"
    found=$(sed -n 's/^not ok [0-9]* - \([a-z-]*\):.*/\1/p' "$dir/out" | xargs)
    [[ $found =~ ^($2)$ ]] || is "a spoilt plugin ($1) is found" "$found" "$2"
    [[ ! $found =~ ^($2)$ ]] || none "a spoilt plugin ($1) is found" ""
}

if [ -n "$TEST_SANITIZE" ]; then
    skip "spoilt plugins are found" "built with a sanitizer ($TEST_SANITIZE)"
else
    spoilt 0 ""
    is "the plugin without a fault was tried" $status 0
    spoilt CONTEXT "device-memory device-host device-context stream-order stream-group stream-events \
stream-event-states"
    spoilt STREAM "stream-order stream-group"
    # The other check finds the fault only if the device is slow.
    spoilt RECORD "stream-events( stream-event-states)?"
    spoilt WAIT "stream-events"
    spoilt QUERY "stream-event-states"
    spoilt TAKES "native-takes"
    spoilt FLAGS "native-place"
fi

# ------------------------------------------------------------------ the unspoilt plugin

wait
take whole
passes "nccl on several devices"
# --quick passes over checks that take long, and says so.
is_long || sed -i '/# SKIP takes long$/d' "$dir/out"
has "nccl: collectives were verified" "$dir/out" ' [0-9]{4,} collectives verified'
for name in native-takes native-place coll-alltoallv message-order group-tensors event-not-early comm-split comm-shrink \
    op-scaled device-memory device-host device-context stream-order stream-group stream-events \
    stream-event-states fault-killed fault-abort \
    coll-scan coll-exscan op-user-commutative op-user-in-order op-opaque value-reproducible message-tags \
    message-any-source message-outside message-any many-progress-alone fault-mismatch fault-message; do
    has "nccl: $name is not passed over" "$dir/out" "^ok [0-9]+ - $name: [^#]*\$"
done
none "nccl: the rest that is passed over concerns the functions of a transport, and its own streams and memory" \
    "$(grep '# SKIP' "$dir/out" | grep -v '# SKIP the plugin has no transport group: ' |
        grep -v '# SKIP the file is built for a sanitizer' |
        grep -v '^ok [0-9]* - native-register: .*# SKIP the plugin takes no host memory')"
none "nccl: each of these checks has a reason of its own" "$(sed -n 's/.*# SKIP //p' "$dir/out" | sort | uniq -d)"
named=$(sed -n 's/.*# SKIP the plugin has no transport group: //p' "$dir/out" | grep -oE '\b[a-z]+(-[a-z]+)+\b' | sort -u)
passed=$(sed -n 's/^ok [0-9]* - \([a-z-]*\): [^#]*$/\1/p' "$dir/out" | sort)
none "nccl: the checks that the reasons name are those that passed, or native-register" \
    "$(comm -23 <(printf '%s\n' "$named") <(printf '%s\nnative-register\n' "$passed" | sort))"
tail -n 1 "$dir/out"

# Without a companion beside it, the calls that it would carry are passed over too.
mkdir "$dir/alone"
cp "$nccl" "$dir/alone/"
kit 2 --only coll-broadcast,message-tags,fault-mismatch,coll-scan "$dir/alone/coll_nccl.so"
passes "nccl without a companion beside it"
has "no scan is tried" "$dir/out" '^ok [0-9]+ - coll-scan: .*# SKIP .*has neither this operation nor a transport'
has "and no tag" "$dir/out" '^ok [0-9]+ - message-tags: .*# SKIP the plugin has no transport group'

done_testing
