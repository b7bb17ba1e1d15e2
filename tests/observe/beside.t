#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# beside.t - programs of other tests with the observer audit beside them, which checks the order of the events: staged
# copies, backends that do calls whole, groups, events, streams, failures, communicators made from others.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
build=$(cd "${top_builddir:-.}" && pwd)
plugins=$build/tests/plugins/.libs
# A program that has its plugins in a directory of its own finds the observer by this.
TEST_PLUGINS=$plugins
COLL_PLUGIN_PATH=$build/.libs:$plugins
COLL_OBSERVERS=audit
COLL_AUDIT_FILE=$dir/audit.%p.%r
export TEST_PLUGINS COLL_PLUGIN_PATH COLL_OBSERVERS COLL_AUDIT_FILE

# counted NAME: the sum of a count over all ranks.
counted() {
    cat "$dir"/audit.* | awk -v name="$1" '$1 == name { n += $2 } END { print n + 0 }'
}

# beside PROGRAM NAME...: the program passes, no rank saw a fault, and each of these counts is more than 0.
beside() {
    program=$1
    shift
    rm -f "$dir"/audit.*
    check "$program passes beside an observer" sh -c '"$1" >"$2" 2>&1' sh "$build/tests/$program" "$dir/out"
    # shellcheck disable=SC2046 # names of files
    none "$program: the events are in order" "$(cat "$dir"/audit.* 2>&1 | sed -n 's/^fault \(..*\)/\1/p' | sort | uniq -c)"
    for name; do
        check "$program: events of $name" test "$(counted "$name")" -gt 0
    done
    check "$program: each call ends" test "$(counted call_issued)" = "$(counted call_end)"
}

beside device/staging_test copy_begin copy_end step_end
beside device/isend_test copy_begin copy_end message_end
beside nccl/init_test comm_end derived

beside nccl/event_test native
beside api/native_split_test native derived
beside api/derived_test derived failed_calls
done_testing
