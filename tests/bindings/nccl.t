#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl.t - the drop-in for NCCL: what it exports, NVIDIA's header, README's program under `coll run --nccl`,
# backends other than tcp, and the nccl backend under the drop-in, which must find NVIDIA's library and never itself.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
dropin=$build/bindings/nccl/.libs
fakes=$build/tests/fakes/.libs
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# ---- symbols ----

grep -v '^#' "$src/tests/bindings/nccl_functions" | sort >"$dir/functions"
sed -n 's/^NCCL_API .*[ *]\(nccl[A-Za-z0-9]*\)(.*/\1/p' "$src/bindings/nccl/nccl_abi.h" | sort >"$dir/declared"
{ cat "$dir/functions"; sed 's/^/p/' "$dir/functions"; echo ncclDropInOfColl; } | sort >"$dir/wanted"
nm -D --defined-only "$dropin/libnccl.so.2" | sed 's/.* //' | grep -v '^_' | sort >"$dir/exported"
is "NCCL 2.32.3 has 73 functions in nccl.h and 23 for the host in nccl_device.h" "$(wc -l <"$dir/functions" | tr -d ' ')" 96
none "the drop-in's header declares each of them" "$(diff "$dir/declared" "$dir/functions")"
none "it exports each under both names, and its mark" "$(diff "$dir/exported" "$dir/wanted")"
none "it is linked with nothing of NVIDIA's" \
    "$(readelf -d "$dropin/libnccl.so.2" | grep NEEDED | grep -E 'cuda|nvidia')"
none "it includes public headers and nothing else of this tree" \
    "$(grep -h '#include' "$src"/bindings/nccl/*.[ch] | grep -v -E '<coll/(coll|introspect)\.h>|"(dropin|nccl_abi).h"|<[a-z]*\.h>')"

# ---- NVIDIA's header ----

# all_there WHAT VERSION FILE: the drop-in has each function in FILE, which is from this version of NCCL, unless it is a later one.
all_there() {
    missing=$(comm -23 "$3" "$dir/functions" | xargs)
    if [ -n "$missing" ] && [ "$(printf '2.32.3\n%s\n' "$2" | sort -V | tail -n 1)" != 2.32.3 ]; then
        skip "every function of $1 is there" "NCCL $2 is later than 2.32.3, and has $missing"
    else
        none "every function of $1 is there" "$missing"
    fi
}

cc=${TEST_CC:-cc}
cat >"$dir/header.c" <<'END'
#include <nccl.h>
int at_least = 1 / (NCCL_VERSION_CODE >= 22800);
int version[] = {NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH};
END
# pip's nvidia-nccl-cu12 and -cu13 have header and library.
pip=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
include=
for folder in '' ${NCCL_HOME:+"$NCCL_HOME/include"} /usr/local/cuda/include ${pip:+"$pip/include"}; do
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
    all_there "the installed nccl.h" "$("$cc" -E ${folder:+-isystem "$folder"} "$dir/header.c" |
        sed -n 's/^int version\[\] = {\([0-9]*\), *\([0-9]*\), *\([0-9]*\)};/\1.\2.\3/p')" "$dir/theirs"
    real() {
        "$cc" -std=gnu11 -DREAL_HEADER -I "$src/include" ${folder:+-isystem "$folder"} \
            -o "$dir/real" "$src/tests/bindings/nccl_test.c" "$src/tests/lib/tap.c" \
            -L "$dropin" -lnccl -L "$fakes" -lcuda -pthread \
            "-Wl,-rpath,$dropin:$build/.libs:$fakes" -Wl,-rpath-link,"$build/.libs" &&
            timeout 300 "$dir/real"
    }
    check "the test, compiled with NVIDIA's header" real
fi

# ---- NVIDIA's library ----

theirs=
for file in ${NCCL_HOME:+"$NCCL_HOME/lib/libnccl.so.2"} ${pip:+"$pip/lib/libnccl.so.2"} \
    "$(ldconfig -p 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)"; do
    [ -f "$file" ] && theirs=$file && break
done
if [ -z "$theirs" ]; then
    skip "the functions of NVIDIA's library" "NVIDIA's libnccl.so.2 is not installed"
else
    nm -D --defined-only "$theirs" | sed 's/.* //; s/@.*//' | grep '^nccl' | grep -v '^ncclResetDebugInitInternal$' |
        sort >"$dir/theirs"
    all_there "NVIDIA's library" "$(grep -a -o 'NCCL version [0-9][0-9.]*[0-9]' "$theirs" | head -n 1 | sed 's/.* //')" "$dir/theirs"
fi

# ---- coll run --nccl, bindings/README.md ----

coll() {
    env LD_LIBRARY_PATH="$fakes" timeout 300 "$build/coll" "$@" >"$dir/out" 2>&1
}
if [ -n "$TEST_SANITIZE" ]; then
    skip "coll run --nccl" "sanitizers allow no library before them"
else
    coll run --nccl --no-prefix -- sh -c 'echo "$COLL_WORLD_SIZE $LD_LIBRARY_PATH"'
    has "coll run --nccl starts one rank, with the drop-in first in its path" "$dir/out" "^1 $dropin:.*$fakes\$"
    coll run --nccl --no-prefix -n 2 -e LD_LIBRARY_PATH=/x -- sh -c 'echo "$LD_LIBRARY_PATH"'
    is "or more, also before a path of --env" "$(sort -u "$dir/out")" "$dropin:/x"
fi

# ---- programs that find NVIDIA's library by themselves: the stand-in has its place ----

cat >"$dir/which.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int ncclGetUniqueId(void *id);
int which(void)
{
	static char id[128];
	Dl_info at;
	int code = dladdr((void *)ncclGetUniqueId, &at) ? ncclGetUniqueId(id) : -1;

	return printf("%s %d\n", at.dli_fname, code), fflush(stdout), 0;
}
END
cat >"$dir/linked.c" <<'END'
int which(void);
int main(void) { return which(); }
END
# open LIBRARY...: opens each, and calls which() of the last; without it, asks the first for a function by name.
cat >"$dir/open.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	void *h = 0, *first = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	for (int i = 1; i < argc; i++)
		if (!(h = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)))
			return puts(dlerror()), 1;
	int (*which)(void) = (int (*)(void))dlsym(h, "which"), *own = dlsym(first, "ncclGetUniqueId");
	return which ? which() : printf("asked for %d\n", own != 0) < 0;
}
END
themselves() {
    "$cc" -shared -fPIC -o "$dir/libwhich.so" "$dir/which.c" -L "$dropin" -lnccl -Wl,-rpath-link,"$build/.libs" &&
        "$cc" -o "$dir/linked" "$dir/linked.c" -L "$dir" -lwhich -Wl,--disable-new-dtags "-Wl,-rpath,$dir:$fakes" \
            -Wl,-rpath-link,"$build/.libs" &&
        "$cc" -o "$dir/open" "$dir/open.c" -ldl
}
if [ -n "$TEST_SANITIZE" ]; then
    skip "programs that find NVIDIA's library by themselves" "sanitizers allow no library before them"
elif check "programs that find NVIDIA's library by themselves" themselves; then
    "$dir/linked" >"$dir/out" 2>&1
    has "by RPATH: without coll run it is NVIDIA's" "$dir/out" "^$fakes/libnccl.so.2"
    coll run --nccl --backend tcp --no-prefix "$dir/linked"
    is "with coll run --nccl it is libcoll's" "$(cat "$dir/out")" "$dropin/libnccl.so.2 0"
    env LD_PRELOAD="$dir/libwhich.so" LD_LIBRARY_PATH="$fakes" "$build/coll" run --nccl --no-prefix sh -c 'echo "$LD_PRELOAD"' >"$dir/out" 2>&1
    is "the user's LD_PRELOAD stays" "$(cat "$dir/out")" "$dir/libwhich.so:$dropin/libnccl.so.2"

    # As CuPy: it opens NVIDIA's library by a path, and then a module that is linked with it.
    coll run --nccl --backend tcp --no-prefix "$dir/open" "$fakes/libnccl.so.2" "$dir/libwhich.so"
    is "by a path, and a module that is linked with NCCL: it is libcoll's" "$(sed '/^libcoll/d' "$dir/out")" "$dropin/libnccl.so.2 0"
    is "and the other library is named" "$(sed '/^libcoll/!d' "$dir/out")" \
        "libcoll's NCCL: this process has opened $fakes/libnccl.so.2 too: functions that it looks up there do not reach libcoll"
    coll run --nccl --backend tcp --no-prefix "$dir/open" "$fakes/libnccl.so.2"
    is "a program that looks its functions up there gets NVIDIA's, and is told" "$(sort "$dir/out")" "asked for 1
libcoll's NCCL: this process has opened $fakes/libnccl.so.2 and has made no communicator through libcoll: its calls of NCCL did not reach libcoll"
    env LD_PRELOAD="$fakes/libnccl.so.2" LD_LIBRARY_PATH="$fakes" "$build/coll" run --nccl --no-prefix "$dir/linked" >"$dir/out" 2>&1
    has "another library that is loaded first is named" "$dir/out" \
        "^libcoll's NCCL: $fakes/libnccl.so.2 was loaded first and takes the calls: take it out of LD_PRELOAD"
    coll run --nccl --backend tcp --no-prefix true
    is "a program without NCCL gets no word" "$(cat "$dir/out")" ""
    mkdir "$dir/a b" && cp -P "$build"/.libs/libcoll.so* "$dir/a b" && mkdir -p "$dir/a b/coll/nccl" &&
        cp -P "$dropin"/libnccl.so* "$dir/a b/coll/nccl"
    env LD_LIBRARY_PATH="$dir/a b" "$build/.libs/coll" run --nccl --no-prefix sh -c 'echo "$LD_PRELOAD"' >"$dir/out" 2>&1
    is "a folder that LD_PRELOAD cannot name is said" "$(cat "$dir/out")" \
        "coll run: --nccl: LD_PRELOAD cannot name a library in '$dir/a b/coll/nccl': programs that find NVIDIA's by an RPATH keep it"
fi

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
    (
        unset -f coll
        book_tree "$dir/tree"
        [ -z "$folder" ] || export CPATH="$folder"
        export LIBRARY_PATH="$dropin:$fakes" LD_LIBRARY_PATH="$fakes:$build/.libs"
        book_page "$src/docs/coll-tutorial-nccl.rst" "$dir/tutorial"
    )
    book_judge coll-tutorial-nccl "$dir/tutorial"
fi

# ---- NVIDIA's nccl4py ----

if [ -n "$TEST_SANITIZE" ]; then
    skip "nccl4py" "sanitizers allow no library before them"
elif ! "${TEST_NCCL4PY:-python3}" -c 'from nccl.core import NCCLCollConfig; import numpy' 2>/dev/null; then
    skip "nccl4py" "python3 has no nccl4py 0.6 with numpy and cuda-core (pip install 'nccl4py[cu13]>=0.6', or TEST_NCCL4PY=its python3)"
else
    coll run --nccl --backend tcp --no-prefix -n 2 "${TEST_NCCL4PY:-python3}" "$src/tests/bindings/nccl4py_job.py" "$dir/id"
    is "two ranks of nccl4py have the right sums" "$(grep -c '^right$' "$dir/out")" 2
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
    is "ncclBroadcast, ncclBcast and ncclBroadcastConfig are three places" \
        "$(sed -n 's/.* broadcast over .*called at [^ ]*+\(0x[0-9a-f]*\)).*/\1/p' "$dir/warnings" | sort -u | wc -l | tr -d ' ')" 3
done
for library in libnccl.so.2 "$fakes/libnccl.so.2"; do
    if [ -n "$TEST_SANITIZE" ]; then
        skip "NCCL beside it" "sanitizers cannot open a library apart from the program's"
        continue
    fi
    run LD_LIBRARY_PATH="$dropin:$fakes" COLL_NCCL_LIBRARY="$library" STANDIN_NCCL_LIBRARY="$fakes/libnccl.so.2"
    none "the backend opens NCCL beside it as ${library##*/fakes/}, and the program runs" \
        "$(failures)"
done
run COLL_NCCL_LIBRARY="$dropin/libnccl.so.2" NCCL_DEBUG=WARN
has "the drop-in named as NVIDIA's library is refused" "$dir/out" \
    "libcoll's own library for NCCL programs .* name NVIDIA's library by its path"
has "NCCL_DEBUG=WARN prints the text of a failed call" "$dir/out" "^libcoll's NCCL: .*libcoll's own library"

done_testing
