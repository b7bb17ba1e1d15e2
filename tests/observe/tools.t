#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tools.t - the observers nvtx, over a stand-in for a tool's library, and otlp, whose lines are held to the fields of OTLP.
. "${top_srcdir:-.}/tests/lib/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
COLL_PLUGIN_PATH=$build/.libs
COLL_BACKEND=tcp
export COLL_PLUGIN_PATH COLL_BACKEND
hello() {
    env "$@" "$build/coll" run --no-prefix -n 2 "$build/tests/examples/hello" >"$dir/out" 2>"$dir/err"
}

# ---- nvtx ----

check "without a tool the program goes on" hello COLL_OBSERVERS=nvtx
check "and a warning says what to do" grep -q "observer 'nvtx', .*: no tool takes ranges of NVTX: NVTX_INJECTION64_PATH is not set; start" "$dir/err"
check "a library that is none" hello COLL_OBSERVERS=nvtx NVTX_INJECTION64_PATH=/nowhere.so
check "is named" grep -q "NVTX_INJECTION64_PATH names, cannot be used: .*/nowhere.so" "$dir/err"
check "a library of something else" hello COLL_OBSERVERS=nvtx NVTX_INJECTION64_PATH="$build/.libs/coll_tcp.so"
check "is named too" grep -q "it lacks InitializeInjectionNvtx2" "$dir/err"
tool=$build/tests/fakes/.libs/libnvtx.so
check "with a tool" hello COLL_OBSERVERS=nvtx NVTX_INJECTION64_PATH="$tool" STANDIN_NVTX="$dir/nvtx"
none "there is no warning" "$(cat "$dir/err")"
check "each process has a domain" test "$(grep -c '^domain 0 libcoll$' "$dir/nvtx")" = 2
check "each call a range with its bytes" test "$(grep -c '^start [0-9]* allreduce 4 B [a-z_]* payload 4$' "$dir/nvtx")" = 2
check "which ends" test "$(grep -c '^start' "$dir/nvtx")" = "$(grep -c '^end [0-9]* range$' "$dir/nvtx")"
check "coll check finds no fault in nvtx" env NVTX_INJECTION64_PATH="$tool" STANDIN_NVTX=/dev/null \
    "$build/coll" check "$build/.libs/observer_nvtx.so"

# ---- otlp ----

check "otlp" hello COLL_OBSERVERS=otlp COLL_OTLP_FILE="$dir/spans.%r"
none "there is no warning" "$(cat "$dir/err")"
check "no one else may read the file" test "$(stat -c %a "$dir/spans.0")" = 600
check "a path that cannot be written" hello COLL_OBSERVERS=otlp COLL_OTLP_FILE=/nowhere/%r
check "is named" grep -q "cannot write to '/nowhere/1' (otlp.file): No such file or directory; name a file" "$dir/err"
ln -s "$dir/target" "$dir/link"
check "a link of somebody is not followed" hello COLL_OBSERVERS=otlp COLL_OTLP_FILE="$dir/link"
check "no file is made" test ! -e "$dir/target"
if command -v python3 >/dev/null; then
    check "each line is OTLP" python3 "$src/tests/observe/otlp.py" "$dir/spans.0" "$dir/spans.1"
else
    skip "each line is OTLP" "python3 is not installed"
fi
cd "$dir" || exit 1
check "coll check finds no fault in otlp" "$build/coll" check --option messages=yes "$build/.libs/observer_otlp.so"
check "its lines of odd texts are JSON too" sh -c 'command -v python3 >/dev/null || exit 0
    python3 -c "import json, sys; [json.loads(x) for x in open(sys.argv[1])]" coll.0.otlp.jsonl'

done_testing
