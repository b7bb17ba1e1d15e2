#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl.t - the drop-in for NCCL: what it exports, NVIDIA's header, README's program under `coll run --nccl`,
# backends other than tcp, and the nccl backend under the drop-in, which must find NVIDIA's library and never itself.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
dropin=$build/bindings/nccl/.libs
fakes=$build/tests/fakes/.libs
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# ---- symbols ----

sed -n 's/^NCCL_API .*[ *]\(nccl[A-Za-z0-9]*\)(.*/\1/p' "$src/bindings/nccl/nccl_abi.h" | sort >"$dir/functions"
{ cat "$dir/functions"; sed 's/^/p/' "$dir/functions"; echo ncclDropInOfColl; } | sort >"$dir/wanted"
nm -D --defined-only "$dropin/libnccl.so.2" | sed 's/.* //' | grep -v '^_' | sort >"$dir/exported"
is "it has the 64 functions of NCCL 2.30's nccl.h and 6 of its nccl_device.h" "$(wc -l <"$dir/functions" | tr -d ' ')" 70
none "it exports each under both names, and its mark" "$(diff "$dir/exported" "$dir/wanted")"
none "it is linked with nothing of NVIDIA's" \
    "$(readelf -d "$dropin/libnccl.so.2" | grep NEEDED | grep -E 'cuda|nvidia')"
none "it includes coll.h and nothing else of this tree" \
    "$(grep -h '#include' "$src"/bindings/nccl/*.[ch] | grep -v -E '<coll/coll.h>|"(dropin|nccl_abi).h"|<[a-z]*\.h>')"

# ---- NVIDIA's header ----

cc=${TEST_CC:-cc}
cat >"$dir/header.c" <<'END'
#include <nccl.h>
int at_least = 1 / (NCCL_VERSION_CODE >= 22800);
END
include=
for folder in '' ${NCCL_HOME:+"$NCCL_HOME/include"} /usr/local/cuda/include; do
    # shellcheck disable=SC2086 # no flag without a folder
    "$cc" ${folder:+-isystem "$folder"} -c -o "$dir/header.o" "$dir/header.c" 2>/dev/null || continue
    include=${folder:-/usr/include}
    break
done
if [ -n "$TEST_SANITIZE" ]; then
    skip "the test with NVIDIA's header" "the library is built with -fsanitize=$TEST_SANITIZE"
elif [ -z "$include" ]; then
    skip "the test with NVIDIA's header" "nccl.h of NCCL 2.28 or later is not installed with CUDA's headers"
else
    "$cc" -E ${folder:+-isystem "$folder"} "$dir/header.c" | grep -oE '\bnccl[A-Z][A-Za-z0-9]* *\(' | tr -d ' (' |
        sort -u >"$dir/theirs"
    none "every function of the installed nccl.h is there" "$(comm -23 "$dir/theirs" "$dir/functions")"
    real() {
        "$cc" -std=gnu11 -DREAL_HEADER -I "$src/include" ${folder:+-isystem "$folder"} \
            -o "$dir/real" "$src/tests/bindings/nccl_test.c" -L "$dropin" -lnccl -L "$fakes" -lcuda -pthread \
            "-Wl,-rpath,$dropin:$build/.libs:$fakes" -Wl,-rpath-link,"$build/.libs" &&
            timeout 300 "$dir/real"
    }
    check "the test, compiled with NVIDIA's header" real
fi

# ---- coll run --nccl, bindings/README.md ----

coll() {
    env LD_LIBRARY_PATH="$fakes" timeout 300 "$build/coll" "$@" >"$dir/out" 2>&1
}
coll run --nccl --no-prefix -- sh -c 'echo "$COLL_WORLD_SIZE $LD_LIBRARY_PATH"'
has "coll run --nccl starts one rank, with the drop-in first in its path" "$dir/out" "^1 $dropin:.*$fakes\$"
coll run --nccl --no-prefix -n 2 -e LD_LIBRARY_PATH=/x -- sh -c 'echo "$LD_LIBRARY_PATH"'
is "or more, also before a path of --env" "$(sort -u "$dir/out")" "$dropin:/x"

mkdir "$dir/lone" && cp -P "$build"/.libs/libcoll.so* "$dir/lone"
env LD_LIBRARY_PATH="$dir/lone" "$build/.libs/coll" run --nccl true >"$dir/out" 2>&1
is "without the drop-in it starts nothing" $? 1
has "and says where the drop-in should be" "$dir/out" "libnccl.so.2 is not in $dir/lone/coll/nccl"

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/bindings/README.md" >"$dir/sum.c"
is "README's program has five lines" "$(wc -l <"$dir/sum.c" | tr -d ' ')" 5
if [ -n "$TEST_SANITIZE" ] || [ -z "$include" ]; then
    skip "README's program" "it is compiled with NVIDIA's header"
else
    # shellcheck disable=SC2086 # no flag without a folder
    check "README's program compiles" "$cc" ${folder:+-isystem "$folder"} -o "$dir/sum" "$dir/sum.c" \
        -L "$dropin" -lnccl -L "$fakes" -lcudart "-Wl,-rpath-link,$build/.libs:$fakes"
    coll run --nccl --backend tcp --no-prefix "$dir/sum"
    has "it prints the sum" "$dir/out" '^sum: 3$'
    coll run --nccl --backend tcp --no-prefix -e COLL_ENABLE_GPU_FALLBACK=no -e NCCL_DEBUG=WARN "$dir/sum"
    has "COLL_ENABLE_GPU_FALLBACK=no ends its copies" "$dir/out" "does not take: choose another backend"
fi

# ---- other backends; the nccl backend under the drop-in ----

program=$build/tests/bindings/nccl_test
run() {
    env COLL_BACKEND=nccl COLL_INIT_TIMEOUT=30s "$@" timeout 300 "$program" >"$dir/out" 2>&1
}
failures() {
    grep -E '^(not ok|Bail)' "$dir/out" || grep -q '^1\.\.' "$dir/out" || cat "$dir/out"
}
for backend in simulated ucx; do
    can "$backend" || continue
    run COLL_BACKEND="$backend" COLL_INIT_TIMEOUT=60s
    none "the test over $backend" "$(failures)"
    grep ' copies [0-9]* bytes from ' "$dir/out" >"$dir/warnings"
    none "the warnings of copies through host memory name places in the program" \
        "$(grep -v 'called at [^ ]*/nccl_test+0x' "$dir/warnings" || [ -s "$dir/warnings" ] || echo "there are none")"
    is "ncclBroadcast and ncclBcast are two places" \
        "$(sed -n 's/.* broadcast over .*called at [^ ]*+\(0x[0-9a-f]*\)).*/\1/p' "$dir/warnings" | sort -u | wc -l | tr -d ' ')" 2
done
for library in libnccl.so.2 "$fakes/libnccl.so.2"; do
    if [ -n "$TEST_SANITIZE" ]; then
        skip "NCCL beside it" "sanitizers cannot open a library apart from the program's"
        continue
    fi
    run LD_LIBRARY_PATH="$dropin:$fakes" COLL_NCCL_LIBRARY="$library"
    none "the backend opens NCCL beside it as ${library##*/fakes/}, and the program runs" \
        "$(failures)"
done
run COLL_NCCL_LIBRARY="$dropin/libnccl.so.2" NCCL_DEBUG=WARN
has "the drop-in named as NVIDIA's library is refused" "$dir/out" \
    "libcoll's own library for NCCL programs .* name NVIDIA's library by its path"
has "NCCL_DEBUG=WARN prints the text of a failed call" "$dir/out" "^libcoll's NCCL: .*libcoll's own library"

done_testing
