#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# layers.t - who may know whom, and the few other rules of reading that a grep can hold.
. "${top_srcdir:-.}/tests/lib/tap.sh"

cd "${top_srcdir:-.}" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Prints "file:line: name" for every header that FILE... include in quotes or in angle brackets.
quoted() {
    grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" /dev/null |
        sed 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/: \1/'
}
angled() {
    grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*<' "$@" /dev/null |
        sed 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*<\([^>]*\)>.*/: \1/'
}

# read_code FILE...: writes the lines without comments, with continued lines joined, to
# $scratch/code, and the same with "FILE: " before each line to $scratch/where.
read_code() {
    awk '
        FNR == 1 { skip = 0 }
        { gsub(/\/\*.*\*\//, ""); sub(/\/\/.*/, "") }
        /\/\*/ { sub(/\/\*.*/, ""); print FILENAME ": " $0; skip = 1; next }
        skip && /\*\// { sub(/.*\*\//, ""); skip = 0 }
        skip { next }
        { joined = joined $0 }
        /\\$/ { sub(/\\$/, "", joined); next }
        { print FILENAME ": " joined; joined = "" }' "$@" >"$scratch/where"
    sed 's/^[^ ]*: //' "$scratch/where" >"$scratch/code"
}

# code_with PATTERN FOLDERS: prints "FILE: LINE" for each line of code in these folders (a pattern)
# that matches.
code_with() {
    grep -nE "$1" "$scratch/code" | cut -d: -f1 >"$scratch/hits"
    awk 'FILENAME != ARGV[2] { hit[$1]; next } FNR in hit' "$scratch/hits" "$scratch/where" |
        grep -E "^($2)/"
}

sources=$(find core plugins tools -name '*.[ch]' | sort)
core=$(find core -name '*.[ch]' | sort)
plugins=$(find plugins -name '*.[ch]' | sort)
tools=$(find tools -name '*.[ch]' | sort)
bindings=$(find bindings -name '*.[ch]' -o -name '*.cpp' | sort)
# Test plugins and transport tests without libcoll stand on the plugin's side of backend.h; unit
# tests and the benchmark of the reduction kernels include headers of the core.
api_tests=$(find tests -name '*.c' ! -path 'tests/unit/*' ! -path 'tests/fuzz/*' ! -name 'reduce_bench.c' ! -name 'native_overhead.c' ! -path tests/observe/timeline_test.c \
    ! -path 'tests/plugins/*' ! -path 'tests/out-of-tree/*' -exec grep -L '"\([./]*lib/\)*transport_harness.h"' {} + | sort)
# Their own headers too; a header of another folder is found by -I, and is not beside the test.
# shellcheck disable=SC2086 # a list of files
api_tests="$api_tests $(quoted $api_tests | while IFS=': ' read -r file line header; do
    header=$(dirname "$file")/$header
    [ ! -e "$header" ] || realpath --relative-to=. "$header"
done | sort -u)"

# ---- the outside ----
# shellcheck disable=SC2086 # lists of files
{
    none "backends see backend.h, observers observer.h, the timeline introspect.h too, nothing else of libcoll" \
        "$(angled $plugins | grep ': coll/' | grep -v -e ': coll/backend\.h$' -e '^plugins/observers/.*: coll/observer\.h$' \
            -e '^plugins/timeline/[a-z_]*\.[ch]:[0-9]*: coll/\(observer\|introspect\)\.h$')"
    none "nor does the backend outside the tree" \
        "$(angled tests/out-of-tree/*.c | grep ': coll/' | grep -v ': coll/backend\.h$')"
    none "which sees no other file at all" "$(quoted tests/out-of-tree/*.c tests/out-of-tree/observer/*.c)"
    none "nor does the observer, which sees observer.h" \
        "$(angled tests/out-of-tree/observer/*.c | grep ': coll/' | grep -v ': coll/observer\.h$')"
    # Plugins of the tree link base, the sockets and the table of the CUDA driver as hidden static
    # code; the backend that authors copy uses backend.h alone.
    none "plugins see no file of another folder but base/, socket/ and device/driver.h" \
        "$(quoted $plugins | grep ': .*/' |
            grep -v -e '^plugins/\(mpi\|observers\|tcp\|timeline\|ucx\|nccl\|ucc\)/[a-z_]*\.[ch]:[0-9]*: \(base\|socket\)/[a-z_]*\.h$' \
                -e '^plugins/nccl/[a-z_]*\.[ch]:[0-9]*: device/driver\.h$')"
    # `coll check` takes the core's side towards a plugin, and computes keyed hashes as the core
    # does.
    none "tools see coll.h, nothing else of libcoll" \
        "$(angled $tools | grep ': coll/' | grep -v ': coll/coll\.h$' |
            grep -v '^tools/check/\(host\|static\|p2p\|fault\|native\)/[a-z0-9]*\.[ch]:[0-9]*: coll/backend\.h$' |
            grep -v '^tools/check/\(observer\|static\)/[a-z0-9]*\.[ch]:[0-9]*: coll/observer\.h$')"
    none "tests see coll.h and introspect.h, nothing else of libcoll" \
        "$(angled $api_tests | grep ': coll/' | grep -v ': coll/\(coll\|introspect\)\.h$' |
            grep -v '^plugins/\(nccl/nccl\|tcp/tcp\)\.h:[0-9]*: coll/backend\.h$')"
    none "tests of the API see no file of the core" \
        "$(quoted $api_tests | while read -r place header; do
            [ ! -e "core/$header" ] || echo "$place $header"
        done | grep -v -e '^plugins/\(nccl/nccl\|tcp/tcp\)\.h:' -e '^tests/gpu/gpu_driver\.h:[0-9]*: device/driver\.h$')"
    none "bindings see coll.h and introspect.h, nothing else of the tree" \
        "$(angled $bindings | grep ': coll/' | grep -v ': coll/\(coll\|introspect\)\.h$'; quoted $bindings | grep ': .*/')"
    none "the core sees no vendor's header" \
        "$(angled $core | grep -E ': (cuda|nccl|rccl|hip|uc[pst]/|ucx|rdma/|infiniband/)')"
    none "the core sees no plugin, no tool, no test" \
        "$(quoted $core | grep -E ': .*(plugins|tools|tests)/')"
}

# ---- headers ----
# tsort complains about a loop.
header_loops() {
    for header in core/*/*.h; do
        quoted "$header" | sed "s|^[^ ]* |${header#core/} |"
    done | tsort 2>&1 >/dev/null
}
none "the core's headers include each other without a loop" "$(header_loops)"

# ---- the order of the folders ----
# folders_of ROOT [EXCEPT]: the faults of ROOT/ against the order that ROOT/README.md shows.
folders_of() {
    {
        grep '^    .*<-' "$1/README.md"
        find "$1" -name '*.[ch]' | sed 's/$/:#include <>/' # also those that include nothing
        grep -rH --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include' "$1"
        grep -rHE --include='*.[ch]' '^[A-Za-z_].*\(|^[[:space:]]*extern ' "$1"
        (cd "${top_builddir:-.}" && find "$1" -name '*.o' -exec nm -A {} + 2>/dev/null)
    } | awk -v root="$1" -v except="${2:-}" -f tests/source/layers.awk
}

none "the folders of core/ use each other in the order of core/README.md" "$(folders_of core)"
# `coll check` computes keyed hashes and expands paths as the core does; the commands share the core's table of the
# CUDA driver's functions, its strings of JSON, and its tables of kinds, types and operations; `coll prove` proves the core's code for
# staged schedules.
shared='check/host/host.c:base/siphash.h lib/memory.c:device/driver.h prove/staged.c:schedule/stage.h'
shared="$shared lib/json.c:base/json_text.h oracle/call.c:base/tables.h oracle/format.c:base/tables.h perf/args.c:base/tables.h"
shared="$shared lib/kinds.c:base/tables.h check/observer/drive.c:base/path_pattern.h"
# `coll top` and `coll dump` read pages as the core writes them.
shared="$shared top/job.h:page/page_read.h top/source.h:page/page_read.h top/source.h:serve/fetch.h top/source.c:base/error.h top/metrics.c:base/json_text.h top/dump.c:page/rows.h top/dump.c:base/kind.h"
# `coll metrics --listen` listens as the core does.
shared="$shared top/listen.c:base/error.h top/listen.c:socket/socket.h"
none "the folders of tools/ use each other in the order of tools/README.md" "$(folders_of tools "$shared")"

# example LINE: prints the faults of a small tree in the right order, with one further line of
# input.
example() {
    {
        for file in base/log left/sum right/copy top/call; do
            echo "root/$file.c:#include \"base/log.h\""
            echo "root/${file%/*}/.libs/lib_la-${file#*/}.o:0000 T ${file#*/}"
        done
        echo 'root/base/log.h:#include <stdio.h>'
        echo 'root/left/sum_impl.h:#include <stdio.h>'
        echo 'root/top/.libs/lib_la-call.o:     U sum'
        echo 'root/left/.libs/lib_la-sum.o:     U log'
        echo 'root/left/.libs/lib_la-sum.o:     U memcpy'
        echo "$1"
    } | awk -v root=root -v order='base <- left, right <- top' -f tests/source/layers.awk
}

is "a tree in order has no fault" "$(example '')" ""
is "a call upwards is named" "$(example 'root/base/.libs/lib_la-log.o: U call')" \
    "base/log.o -> top/call.o: call"
is "so is a call to a folder of the same level" "$(example 'root/left/.libs/lib_la-sum.o: U copy')" \
    "left/sum.o -> right/copy.o: copy"
is "so is an #include upwards" "$(example 'root/base/log.c:#include "left/sum_impl.h"')" \
    "base/log.c -> left/sum_impl.h: #include"
is "so is an #include of what belongs to a folder" "$(example 'root/top/call.c:#include "left/sum_impl.h"')" \
    "top/call.c -> left/sum_impl.h: an _impl.h stays within its folder"
is "so is an extern declaration of another folder's function" \
    "$(example 'root/base/log.h:extern int call(void *);')" \
    "base/log.h -> top/call.o: declares call; include the header of its folder"
is "so is an indented one" "$(example 'root/base/log.h:	extern int call(void *);')" \
    "base/log.h -> top/call.o: declares call; include the header of its folder"
is "so is one without extern" "$(example 'root/base/log.h:__attribute__((format(printf, 1, 2))) int *call(')" \
    "base/log.h -> top/call.o: declares call; include the header of its folder"
is "so is a variable" "$(example 'root/top/call.c:extern const struct x *sum[];')" \
    "top/call.c -> left/sum.o: declares sum; include the header of its folder"
is "a folder declares its own functions" "$(example 'root/left/sum_impl.h:extern int sum(int a);')" ""
is "so is an #include without its folder" "$(example 'root/left/sum.c:#include "sum_impl.h"')" \
    "left/sum.c -> sum_impl.h: not a header of root/; the name begins with its folder"
is "so is a folder that the order lacks" "$(example 'root/new/x.h:#include <stdio.h>')" \
    "root/new/x.h: the order does not name the folder new"
is "so is a source that was not built" "$(example 'root/left/x.c:#include <stdio.h>')" \
    "root/left/x.c: no object file; build first"

# ---- the proof by linking ----
# Three layers: "base <- left <- top", where base calls a function of top, and so left and top cannot link either.
prove_build() {
    cc="${TEST_CC:-cc} ${TEST_CFLAGS:-} -fPIC"
    mkdir "$scratch/libs"
    echo 'int call(void); int log_it(void); int log_it(void) { return call(); }' >"$scratch/base.c"
    echo 'int sum(void); int sum(void) { return 1; }' >"$scratch/left.c"
    echo 'int call(void); int call(void) { return 1; }' >"$scratch/top.c"
    for layer in base left top; do
        $cc -c "$scratch/$layer.c" -o "$scratch/$layer.o" &&
            ar rc "$scratch/libs/libcore_$layer.a" "$scratch/$layer.o" || return
    done
}
# prove_example LINES: runs the proof over these lines of a README.
prove_example() {
    [ -d "$scratch/libs" ] || prove_build || return
    echo "$1" >"$scratch/README.md"
    CC="${TEST_CC:-cc}" CFLAGS="${TEST_CFLAGS:-}" LIBS='' sh core/prove_layers "$scratch/README.md" "$scratch/libs"
}
if [ -z "${TEST_SANITIZE:-}" ]; then
    prove_example '    base <- left <- top' >"$scratch/proof" 2>&1
    has "a layer that calls upwards does not link; the folder that it calls is named" "$scratch/proof" \
        "undefined reference to .call', which top/ defines"
    is "the first such layer ends the proof" "$(grep -c '^layer' "$scratch/proof")" 1
    has "which points to the test that names both files" "$scratch/proof" 'sh tests/source/layers\.t'
    prove_example "    top <- base, left
    small core: base, left" >"$scratch/proof" 2>&1
    has "the small core does not link if it calls another folder" "$scratch/proof" \
        "undefined reference to .call', which top/ defines"
    is "one that calls none does" "$(prove_example "    top <- base, left
    small core: base, top" 2>&1)" ""
else
    skip "a layer that calls upwards does not link" "sanitizers leave symbols undefined"
fi

# ---- the tables ----
rows_missing() {
    sed -n '/COLL_\(KIND\|DTYPE\|OP\)_NONE = -1/,/^}/s/^[[:space:]]*\(COLL_[A-Z0-9_]*\) = [0-9].*/\1/p' include/coll/coll.h |
        grep -v '^COLL_OPAQUE$' | while read -r name; do
        grep -q "ROW($name," core/base/tables.h || echo "$name"
    done
}
none "each kind, type and operation of coll.h has its row in base/tables.h" "$(rows_missing)"

# ---- how it reads ----
# shellcheck disable=SC2086 # a list of files
read_code $sources
# shellcheck disable=SC2086 # lists of files
{
    # The launchers' PMIx and PMI, and the backends that ask for it, want to hear of a process's end.  PMIx stands only
    # one connection in a process's life.  The timeline writes what a program that ends without coll_comm_destroy did last.
    none "nothing runs before main, and at exit only launchers, pages, the timeline and the backends that ask for it hear of the end" \
        "$(code_with 'constructor|destructor|init_array|atexit' 'core|plugins|tools' |
            grep -v -E '^[^:]*: +\*|^core/meet/(pmix?)\.c:.*atexit\(\1_finalize\)' |
            grep -v -E '^core/plugin/probe\.c:.*atexit\(finish_all\)|^core/page/page_file\.c:.*atexit\(pages_end\)' |
            grep -v '^plugins/timeline/timeline\.c:.*destructor.* timelines_exit')"
    # UCX has environment variables of its own, which the ucx plugin must not override; NCCL has one that overrides the
    # nccl plugin; tools of NVTX name their library in one.
    none "the environment is read with secure_getenv only, and in the core only" \
        "$(code_with '(^|[^_a-z])getenv *\(' 'core|plugins'
            code_with 'getenv' plugins |
                grep -v -E '^plugins/(uc[cx]/.*[^_a-z]|mpi/mpi_life\.c:.* |nccl/nccl_library\.c:.* |observers/nvtx\.c:.* )secure_getenv\(')"
    none "no name is glued together outside the reduction table" \
        "$(code_with '^[^"]*##' 'core|plugins|tools' | grep -v '^core/reduce/')"
    # simulated, which authors of backends copy, sees backend.h alone; open is also the name of a plugin's function.  The
    # child that asks a plugin has stderr for its stdout.
    none "every new descriptor passes base/descriptor.h, which keeps it above 2" \
        "$(code_with '(^|[^_a-zA-Z0-9>."])(socket|socketpair|accept4?|pipe2?|dup[23]?|open|openat|creat|fopen|tmpfile|mkstemp|opendir|epoll_create1?|eventfd|timerfd_create|signalfd|memfd_create|shm_open|inotify_init1?|pidfd_open|F_DUPFD[A-Z_]*) *\(' 'core|plugins' |
            grep -v -E 'descriptor_lift\([a-z0-9_]+\(|^core/base/descriptor\.c:|^plugins/simulated/|[" ]open\(\)' |
            grep -v '^core/plugin/survey\.c:.*dup2(STDERR_FILENO, STDOUT_FILENO)')"
    # The table's macros define whole functions.
    none "no macro hides a return or a goto" \
        "$(code_with '^[[:space:]]*#[[:space:]]*define.*[^_a-z](return|goto)[^_a-z]' 'core|plugins|tools' |
            grep -v '^core/reduce/')"
}

# ---- the log ----
# The option `log` takes these names, and each line has the name of its folder.
logging=$(grep -lE '\<(log_(error|warn|info|debug|message|about)|lane_log|context_log)\(' core/*/*.c |
    sed 's|^core/\([^/]*\)/.*|\1|' | sort -u)
is "the subsystems of the log are the folders that log" \
    "$(sed -n '/log_subsystems\[\] =/,/;/s/"\([a-z]*\)"/\n\1\n/gp' core/base/log_levels.c | grep -x '[a-z]*' | grep . | sort -u)" \
    "$logging"
none "the Makefile.inc of each names its folder" "$(for folder in $logging; do
    grep -q "^libcore_${folder}_la_CPPFLAGS = .*-DLOG_SUBSYSTEM='\"$folder\"'" "core/$folder/Makefile.inc" || echo "$folder"
done)"

done_testing
