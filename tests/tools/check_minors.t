#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_minors.t - `coll check` passes plugins of every minor of the ABI, asks each for the promises of its own minor,
# and goes on after a failure.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
coll=$build/coll
frozen=$build/tests/plugins/frozen/.libs
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# A busy machine slows the checks down, a sanitizer too.
limit=40
[ -z "$TEST_SANITIZE" ] || limit=60

# run NAME ARG...: runs `coll check --quick ARG...`; `take NAME` reads the output.
run() {
    local name=$1
    shift
    collect "$name" timeout 600 "$coll" check --quick "$@"
}

# skipped CHECK: prints why the report skips the check.
skipped() {
    sed -n "s/^ok [0-9]* - $1: .* # SKIP //p" "$dir/out"
}

# passes PLUGIN MINOR
passes() {
    take "$1"
    none "a plugin of ABI 1.$2 passes: $1" \
        "$([ "$status" -eq 0 ] || { cat "$dir/err"; grep -A 30 '^not ok' "$dir/out"; echo "status $status"; })"
    tail -n 1 "$dir/out"
}

minor=$(sed -n 's/^#define COLL_BACKEND_ABI_MINOR *//p' "$src/include/coll/backend.h")

# Three runs at a time, because most of a run is waiting.
for share in 0 1 2; do
    for name in uds0 uds1 uds2 uds3 uds4 uds5 uds6 frozen; do echo $name; done |
        awk "NR % 3 == $share" | while read -r name; do
        run "$name" --timeout $limit "$frozen/coll_$name.so"
    done &
done
wait
for ((i = 0; i <= minor; i++)); do
    passes uds$i $i
    if [ $i -lt 4 ]; then
        is "it is not asked for a promise of ABI 1.4, but told of it" "$(skipped lost-status)" \
            "a promise since ABI 1.4, and the plugin is of ABI 1.$i: if a send to a lost rank has no status, the core closes the endpoint"
        is "nor for what follows from that promise" "$(skipped comm-shrink-dead)" \
            "the plugin has no transport->cancel, and is older than ABI 1.4: the core closes its endpoint if a send to a lost rank has no status"
    else
        is "a plugin of ABI 1.$i is asked for a promise of ABI 1.4" "$(skipped lost-status)$(skipped comm-shrink-dead)" ""
    fi
done
passes frozen 0
is "a plugin with cancel survives the loss of a rank" "$(skipped comm-shrink-dead | grep cancel)" ""
run frozen3 --timeout $limit --ranks 1 "$frozen/coll_frozen3.so"
passes frozen3 3
is "takes of ABI 1.3 is asked without flags" "$(skipped native-takes)" ""
is "and not with flags" "$(skipped native-place)" \
    "a promise since ABI 1.4, and the plugin is of ABI 1.3: its takes gets no flag"

# ------------------------------------------------------------------ after a failure

# spoilt NAME: builds tests/plugins/bad/coll_NAME.c.
spoilt() {
    # shellcheck disable=SC2086 # flags are words
    ${TEST_CC:-cc} $TEST_CFLAGS -fPIC -fvisibility=hidden -shared -pthread -I"$src/include" \
        -iquote "$src/core" -o "$dir/coll_$1.so" "$src/tests/plugins/bad/coll_$1.c" \
        "$build/.libs/libcore_socket.a" "$build/.libs/libcore_base.a" -Wl,--exclude-libs,ALL
}

# verdicts: prints the names of the checks that failed, passed and were skipped, as "no: A B yes: C skip: D".
verdicts() {
    local name
    name='s/^[not ]*ok [0-9]* - ([a-z0-9-]*):.*/\1/p'
    echo "no: $(grep '^not ok' "$dir/out" | sed -nE "$name" | xargs)" \
        "yes: $(grep '^ok' "$dir/out" | grep -v '# SKIP' | sed -nE "$name" | xargs)" \
        "skip: $(grep '^ok.*# SKIP' "$dir/out" | sed -nE "$name" | xargs)"
}

if [ -n "$TEST_SANITIZE" ]; then
    skip "after a failure" "built with a sanitizer ($TEST_SANITIZE)"
    done_testing
fi

spoilt forsakes
some=order,lost-send,lost-status,lost-dies,coll-barrier
run goes --only $some "$dir/coll_forsakes.so"
take goes
is "checks go on after a failure" "$status $(verdicts)" \
    "1 no: lost-status yes: order lost-send lost-dies coll-barrier skip: "
run stops --stop --only $some "$dir/coll_forsakes.so"
take stops
is "--stop: the later groups are skipped" "$status $(verdicts)" \
    "1 no: lost-status yes: order lost-send lost-dies skip: coll-barrier"
is "with the reason" "$(skipped coll-barrier)" "'lost-status' failed; mend that first"

spoilt overtakes
run echoes --only order,message-order "$dir/coll_overtakes.so"
take echoes
has "of failures in several groups the first group is named" "$dir/out" \
    "^# mend 'order' first: failures of later groups may follow from it"

spoilt nemo
run ground --only name,order,coll-barrier "$dir/coll_nemo.so"
take ground
is "a plugin that the library refuses is not tried" "$status $(verdicts)" \
    "1 no: name yes:  skip: order coll-barrier"
run all --all --only name,order "$dir/coll_nemo.so"
take all
is "--all: but it is, if the user wants" "$status $(verdicts)" "1 no: name yes: order skip: "

spoilt shorttags
run waits --timeout 2 --ranks 2 \
    --only message-ring,message-ping-pong,message-self,message-all-pairs,message-any "$dir/coll_shorttags.so"
take waits
is "no more checks run after three that waited in vain" "$status $(verdicts)" \
    "1 no: message-ring message-ping-pong message-self yes:  skip: message-all-pairs message-any"
has "with the reason" "$dir/out" \
    'message-any: .* # SKIP 3 checks failed after their whole time; mend these first, or give --all$'

run wrong --all --stop "$dir/coll_nemo.so"
take wrong
is "--stop with --all: status 2" "$status" 2

done_testing
