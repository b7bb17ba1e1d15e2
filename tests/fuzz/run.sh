#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh - `make fuzz`: builds each fuzz target with clang's libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer, and runs it for FUZZ_SECONDS.  Arguments: the targets; none: all.
#
# Inputs that reach new code are kept in build-fuzz/corpus/TARGET for the next run.
# FUZZ_CC: the compiler.
build=${FUZZ_BUILD:?is set by make fuzz}
seconds=${FUZZ_SECONDS:-60}
cc=${FUZZ_CC:-clang}
cd "$(dirname "$0")/../.." || exit 1
mkdir -p "$build" || exit 1

echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9; }' >"$build/try.c"
if ! $cc -fsanitize=fuzzer "$build/try.c" -o "$build/try" 2>"$build/try.log"; then
    echo "make fuzz: $cc cannot link libFuzzer: install clang with its run time (Debian: clang, libclang-rt-dev)," \
        "or run the targets without it: make check TESTS= && FUZZ_RUNS=10000000 tests/fuzz/frame_fuzz"
    sed 's/^/    /' "$build/try.log"
    exit 1
fi

# compile FLAGS... : as the targets need it.  No target reads a file of the system, and none needs libsodium.  The kernels of further
# instruction sets need flags of their own; the generic ones are enough.
cat >"$build/compile" <<END
exec $cc -std=c11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \\
    -D_GNU_SOURCE -DPACKAGE_VERSION='"0.0.0"' -DCOLL_SYSCONFDIR=NULL -DCOLL_PLUGINDIR=NULL \\
    -Iinclude -iquote core -iquote plugins/tcp -iquote tools -pthread "\$@"
END
{
    find core plugins/tcp -name '*.c' ! -name tcp_cipher.c
    for part in cause compare document dump group messages page set; do echo "tools/explain/$part.c"; done
    find tools/lib/json*.c tools/lib/kinds.c tools/trace -name '*.c' ! -path tools/trace/trace.c
    echo tools/lib/grow.c
} | xargs -P "$(nproc)" -I{} sh -c '
    object=$1/$(echo "$2" | tr / _).o
    sh "$1/compile" -fsanitize=fuzzer-no-link -c "$2" -o "$object"' sh "$build" {} || exit 1
rm -f "$build"/lib*.a
ar rc "$build/libcore.a" "$build"/core_*.o "$build"/tools_*.o && ar rc "$build/libtcp.a" "$build"/plugins_tcp_*.o || exit 1

# shellcheck disable=SC2046 # a list of names
[ "$#" -gt 0 ] || set -- $(ls tests/fuzz/*_fuzz.c | sed 's|.*/\(.*\)_fuzz\.c|\1|')
bad=0
for target in "$@"; do
    program=$build/${target}_fuzz
    mkdir -p "$build/corpus/$target"
    # shellcheck disable=SC2086 # a list of libraries
    sh "$build/compile" -fsanitize=fuzzer "tests/fuzz/${target}_fuzz.c" "$build/libtcp.a" "$build/libcore.a" \
        $FUZZ_LIBS -o "$program" || exit 1
    echo "==> $target, $seconds seconds"
    if ! "$program" -max_total_time="$seconds" -max_len=4096 -timeout=60 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/$target-" "$build/corpus/$target" "tests/fuzz/seeds/$target" \
        >"$program.log" 2>&1; then
        bad=1
        cat "$program.log"
        echo "==> $target failed; the input is in $build/$target-*"
    fi
    sed -n 's/^stat::number_of_executed_units: */    executions: /p' "$program.log"
done
exit $bad
