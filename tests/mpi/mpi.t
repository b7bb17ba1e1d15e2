#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi.t - the mpi backend over each MPI library with the MPI-5 ABI: the numbers of the ABI, `coll check`, the life of MPI,
# and the sentences of ranks that cannot use it.
#
# TEST_MPI lists the libraries: prefixes with bin/mpiexec and lib/libmpi_abi.so.1, separated by ':'.  Without it the test
# takes the prefix of the mpiexec in PATH.  tests/mpi/matrix.sh sets it to the libraries that pip has.
. "${top_srcdir:-.}/tests/lib/tap.sh"

source=$(cd "${top_srcdir:-.}" && pwd) || exit 1
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
plugin=$build/.libs/coll_mpi.so
hello=$build/tests/examples/hello
program=$build/tests/mpi/program
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config COLL_SYSCONFDIR=$dir/no-config
# Intel MPI finds no fabric in a container without it.
export I_MPI_FABRICS=${I_MPI_FABRICS-shm}

# ------------------------------------------------------------------ without MPI

# alone VARIABLE=VALUE... -- what one process without a launcher says of the backend.
alone() {
    env -u PMI_RANK -u PMIX_RANK -u OMPI_COMM_WORLD_RANK "$@" COLL_BACKEND=mpi timeout 60 "$coll" info \
        >"$dir/out" 2>"$dir/err" </dev/null
}

"$coll" info --json | grep -q 'unset: libmpi_abi\.so\.1"' ||
    skip_all "the mpi backend was built with --with-mpi, for another MPI: see tests/mpi/matrix.t"
alone A=
has "no launcher: a sentence" "$dir/out" 'no launcher of MPI has started this process'
alone PMI_RANK=0 COLL_MPI_LIBRARY="$dir/libmpi_abi.so.1"
has "no library: a sentence" "$dir/out" 'no MPI library with the MPI-5 ABI is installed, or not where .*libmpi_abi\.so\.1'
alone PMI_RANK=0 PMIX_RANK=1 COLL_MPI_LIBRARY="$dir/libmpi_abi.so.1"
has "a launcher within another: a launcher" "$dir/out" 'no MPI library with the MPI-5 ABI is installed'
alone PMI_RANK=0 COLL_MPI_LIBRARY=libc.so.6
has "a library that is no MPI: a sentence" "$dir/out" "libc\.so\.6 has no 'MPI_Init_thread': it is no MPI library"

# ------------------------------------------------------------------ the numbers

# numbers HEADER: prints each number of mpi_abi.h by a program that includes HEADER.
numbers() {
    {
        printf '#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include "%s"\nint main(void)\n{\n' "$1"
        sed -n -e 's/^#define \(MPI_[A-Z0-9_]*\) .*/\1/p' -e 's/^\t\(MPI_[A-Z0-9_]*\) = .*/\1/p' \
            "$source/plugins/mpi/mpi_abi.h" | grep -v MPI_ABI_H |
            sed 's/.*/\tprintf("& %ld\\n", (long)(intptr_t)&);/'
        for member in SOURCE TAG ERROR internal; do
            printf '\tprintf("%s %%zu\\n", offsetof(MPI_Status, MPI_%s));\n' $member $member
        done
        printf '\tprintf("%%zu %%zu %%zu\\n", sizeof(MPI_Status), sizeof(MPI_Aint), sizeof(MPI_Count));\n}\n'
    } >"$dir/numbers.c"
    ${TEST_CC:-cc} -Wall -Werror "$dir/numbers.c" -o "$dir/numbers" && "$dir/numbers"
}

# functions HEADER: compiles the declarations of mpi_abi.h behind HEADER.
functions() {
    {
        printf '#include "%s"\n' "$1"
        sed -n '/^int MPI_/,/;$/p' "$source/plugins/mpi/mpi_abi.h" "$source/plugins/mpi/mpi_large.h" | grep -v '^#'
    } >"$dir/functions.c"
    ${TEST_CC:-cc} -Wall -Werror -c "$dir/functions.c" -o "$dir/functions.o"
}

test_numbers() {
    is "$1: every number is that of mpi_abi.h" "$(numbers "$2" 2>&1)" "$(numbers "$source/plugins/mpi/mpi_abi.h" 2>&1)"
    check "$1: every function is declared as in mpi_abi.h" functions "$2"
}

# ------------------------------------------------------------------ over a library

# mpi COUNT COMMAND...: runs it on COUNT ranks under the library's own launcher.
mpi() {
    local count=$1
    shift
    env COLL_BACKEND="${backend-mpi}" COLL_MPI_LIBRARY="${library-$home/lib/libmpi_abi.so.1}" \
        LD_LIBRARY_PATH="$home/lib${fakes:+:$fakes}" \
        timeout 600 "$home/bin/mpiexec" -n "$count" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

test_check() {
    local sizes=2

    ! is_long || sizes="2 3 4"
    for ranks in $sizes; do
        for native in copy no; do
            mpi "$ranks" "$coll" check --launched --no-fork --quick --timeout 300 --option native=$native "$plugin"
            is "$name, $ranks ranks, native = $native: coll check passes" "$status" 0
            none "$name, $ranks ranks, native = $native: nothing fails" "$(grep -A 5 '^not ok' "$dir/out")"
            none "$name, $ranks ranks, native = $native: every check can use the plugin" \
                "$(grep 'SKIP the plugin cannot be used' "$dir/out")"
            tail -n 1 "$dir/out"
        done
        # A check of faults leaves collectives behind, which would write to the memory of the next check.
        checks=$("$coll" check --list | sed -n 's/^\(\(coll\|value\|request\|group\)-[a-z-]*\).*/\1/p' | paste -sd,)
        mpi "$ranks" "$coll" check --launched --no-fork --quick --timeout 300 --option native=direct --only "$checks" "$plugin"
        is "$name, $ranks ranks, native = direct: the collectives are right" "$status" 0
    done
}

test_life() {
    PMIX_RANK=0 mpi 3 "$hello"
    is "$name: the variables of an outer launcher" "$status $(sed 's/.*: //' "$dir/out" | sort -u)" \
        "0 the sum of all ranks is 3, backend mpi"
    mpi 3 "$hello"
    is "$name: a program that knows nothing of MPI" "$status $(sed 's/.*: //' "$dir/out" | sort -u)" \
        "0 the sum of all ranks is 3, backend mpi"
    mpi 3 "$program" before multiple
    is "$name: MPI is initialised before" "$status $(sort -u "$dir/out")" "0 3 of 3, MPI has 3"
    mpi 3 "$program" after
    is "$name: MPI is used after the library has initialised it" "$status $(sort -u "$dir/out")" "0 3 of 3, MPI has 3"
    mpi 4 "$program" part
    is "$name: a part of MPI_COMM_WORLD, in another order" "$status $(sort -u "$dir/out")" "0 3 of 3, MPI has 4"
    mpi 2 "$program" before single
    is "$name: MPI_THREAD_SINGLE, named" "$status $(sort -u "$dir/out")" "0 2 of 2, MPI has 2"
    has "$name: a warning says what must not overlap" "$dir/err" 'MPI_THREAD_[A-Z]*: the program.s calls of MPI must not overlap'
    COLL_MPI_PRIORITY=90 backend=^simulated mpi 2 "$program" before single
    has "$name: MPI_THREAD_SINGLE, by priority: a sentence" "$dir/err" 'initialise it with MPI_THREAD_MULTIPLE, or set COLL_BACKEND=mpi'
    mpi 1 "$program" late
    has "$name: MPI is over: a sentence" "$dir/err" 'this process has finalised MPI'
    mpi 2 "$program" fork
    is "$name: the parents of forked processes go on" "$status $(sort -u "$dir/out")" "0 2 of 2, MPI has 2"
    has "$name: a forked process: a sentence" "$dir/err" 'was forked from process [0-9]*, which uses MPI'
    COLL_ROOT=127.0.0.1:$((20000 + $$ % 10000)) COLL_KEY=some mpi 3 "$program" some
    has "$name: MPI_Init would wait for others: a sentence" "$dir/err" 'the launcher of MPI has started 3 ranks, and this communicator has 2'
}

# Rank 0 ends after at most 2 s for its time limit, and 4 s for MPI.  Then some launchers end the job, and others wait for rank 1.
test_leave() {
    local begin

    for native in copy no; do
        begin=$SECONDS
        COLL_MPI_NATIVE=$native COLL_TIMEOUT=2s mpi 2 "$program" leave
        check "$name, native = $native: a rank ends beside a failed communicator" test $((SECONDS - begin)) -lt 30
        is "$name, native = $native: after its time limit" "$(grep -x 'given up' "$dir/out")" "given up"
    done
    begin=$SECONDS
    COLL_TIMEOUT=2s mpi 2 "$program" leave-dup
    check "$name: a rank ends beside a failed dup" test $((SECONDS - begin)) -lt 30
    is "$name: after the time limit of the dup" "$(grep -x 'given up' "$dir/out")" "given up"
    begin=$SECONDS
    mpi 2 "$program" leave-busy
    check "$name: a rank ends amid a call of a dup" test $((SECONDS - begin)) -lt 30
    is "$name: which has begun" "$(grep -x begun "$dir/out")" "begun"
}

# late FUNCTION ARGUMENTS NAMES SECONDS: builds an MPI library whose rank 1 comes to the function so late.
late() {
    library=$dir/$name-$1.so
    cat >"$dir/late.c" <<END
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int $1($2);
int $1($2)
{
	const char *rank = getenv("PMI_RANK");
	int (*next)($2) = (int (*)($2))dlsym(RTLD_NEXT, "$1");

	if (rank && atoi(rank) == 1)
		sleep($4);
	return next($3);
}
END
    ${TEST_CC:-cc} -shared -fPIC -Wl,--no-as-needed "$dir/late.c" -o "$library" "$home/lib/libmpi_abi.so.1" -ldl
}

# Rank 0 has a time limit of 1 s.
test_late() {
    local library begin=$SECONDS wanted

    wanted="rank 0: timed out"$'\n'"rank 1: another rank failed"
    late MPI_Ibarrier "void *a, void *b" "a, b" 3
    mpi 2 "$program" late-dup
    is "$name: a rank that another rank has left in the barrier of a dup" "$(grep '^rank' "$dir/out" | sort)" "$wanted"
    late MPI_Comm_split "void *a, int b, int c, void *d" "a, b, c, d" 100
    mpi 2 "$program" late-dup
    is "$name: a rank that never comes to MPI_Comm_split" "$(grep '^rank' "$dir/out" | sort)" "$wanted"
    check "$name: nobody waits for that rank" test $((SECONDS - begin)) -lt 60
}

# The forms that MPI has in place for all ranks or for none.
test_place() {
    for native in copy direct; do
        COLL_MPI_NATIVE=$native mpi 3 "$program" place
        is "$name, native = $native: some ranks are in place" "$status $(cat "$dir/err")" "0 "
        COLL_MPI_NATIVE=$native mpi 3 "$program" holes
        is "$name, native = $native: a rank in place sends nothing" "$status $(cat "$dir/err")" "0 "
    done
}

# The launcher lets the other ranks live if it is told so.  MPICH's launcher also sends them SIGUSR1, and kills them if the dead
# process was its own child.
test_dead() {
    printf 'trap "" USR1\n"$@"\nexit $?\n' >"$dir/alive.sh"
    for native in copy no; do
        COLL_MPI_NATIVE=$native mpi 3 -disable-auto-cleanup sh "$dir/alive.sh" "$program" die
        is "$name, native = $native: the others learn which rank has died, and go on without it" \
            "$(grep '^rank' "$dir/out")" "$(printf '%s\n' "rank 2 lost, 2 of 2 go on"{,})"
        has "$name, native = $native: they learn it from the end of its process" "$dir/err" \
            'rank 2 was lost: its process has ended'
    done
    test_dead_elsewhere
}

# Ranks that do not see each other's processes, as on several hosts.  The UCX in MPICH would look for them in /proc.
test_dead_elsewhere() {
    local apart=(unshare --map-root-user --pid --fork)

    if ! "${apart[@]}" true 2>/dev/null; then
        skip "$name: a rank dies elsewhere" "this user cannot make PID namespaces"
        return
    fi
    for native in copy no; do
        UCX_POSIX_USE_PROC_LINK=n COLL_COMPANION=tcp COLL_MPI_NATIVE=$native \
            mpi 3 -disable-auto-cleanup sh "$dir/alive.sh" "${apart[@]}" sh "$dir/alive.sh" "$program" die
        is "$name, native = $native, companion = tcp: the others learn which rank has died elsewhere, and go on" \
            "$(grep '^rank' "$dir/out")" "$(printf '%s\n' "rank 2 lost, 2 of 2 go on"{,})"
        has "$name, native = $native: they learn it from the companion" "$dir/err" 'rank 2 was lost: connection closed'
    done
}

# An MPI library that says it is CUDA-aware, over the stand-in for the CUDA driver.  MPI reaches that driver's managed memory,
# and the plugin's messages reach its device memory.
test_cuda() {
    local library=$dir/$name-aware.so what

    printf 'int MPIX_Query_cuda_support(void);\nint MPIX_Query_cuda_support(void) { return 1; }\n' >"$dir/aware.c"
    ${TEST_CC:-cc} -shared -fPIC -Wl,--no-as-needed "$dir/aware.c" -o "$library" "$home/lib/libmpi_abi.so.1"
    # Not the stand-in for UCX, which lies beside it: an MPI library may use UCX itself.
    mkdir -p "$dir/cuda"
    ln -sf "$build/tests/fakes/.libs/libcuda.so.1" "$dir/cuda"
    for what in "managed allreduce" "managed alltoallv" "cuda sendrecv"; do
        library=$library COLL_ENABLE_GPU_FALLBACK=no COLL_MPI_NATIVE=direct fakes=$dir/cuda \
            mpi 2 "$coll" perf -s 8,300K -n 5 -m $what
        is "$name, CUDA-aware, native = direct: $what" "$status $(grep -c '^# skipped' "$dir/out")" "0 0"
    done
    library=$library COLL_MPI_NATIVE=copy fakes=$dir/cuda mpi 2 "$coll" perf -s 8 -n 5 -m managed allreduce
    has "$name, CUDA-aware, native = copy: host memory only" "$dir/out" "which backend 'mpi' does not take"
}

# MPI's collectives serve split communicators, but those that must not block.
test_split() {
    local native

    for native in copy direct no; do
        COLL_MPI_NATIVE=$native mpi 3 "$program" split
        is "$name, native = $native: dup, split, split of a split" "$status $(cat "$dir/err")" "0 "
    done
    mpi 3 "$program" compose
    is "$name: isplit and shrink compose" "$status $(cat "$dir/err")" "0 "
    COLL_LOG=error mpi 2 "$program" serial
    is "$name: below MPI_THREAD_MULTIPLE a dup composes" "$status $(cat "$dir/err")" "0 "
    mpi 2 "$program" splits
    is "$name: MPI gets its communicators back" "$status $(cat "$dir/err")" "0 "
    mpi 2 "$program" many
    is "$name: more communicators than some MPI libraries have" "$status $(grep -v 'the library composes' "$dir/err")" "0 "
}

# One rank in each of two jobs.
test_two_jobs() {
    local port=$((20000 + $$ % 10000)) rank

    for rank in 1 0; do
        export COLL_RANK=$rank COLL_WORLD_SIZE=2 COLL_ROOT=127.0.0.1:$port COLL_KEY=two-jobs
        mpi 1 "$hello" &
    done
    wait
    unset COLL_RANK COLL_WORLD_SIZE COLL_ROOT COLL_KEY
    has "$name: two jobs: a sentence" "$dir/err" 'two MPI jobs'
}

# Rank 0 of one job and rank 1 of another, which some launchers do not name: so these ranks pass for one job.
test_apart() {
    local begin=$SECONDS rank

    export COLL_ROOT=127.0.0.1:$((20000 + $$ % 10000)) COLL_KEY=apart COLL_INIT_TIMEOUT=15s
    for rank in 1 0; do
        mkdir -p "$dir/apart$rank"
        dir=$dir/apart$rank mpi 2 "$program" apart $rank &
    done
    wait
    cat "$dir"/apart?/err >"$dir/err"
    unset COLL_ROOT COLL_KEY COLL_INIT_TIMEOUT
    has "$name: two jobs that pass for one: a sentence" "$dir/err" \
        'two MPI jobs|not all ranks have come to MPI_Comm_create_group within 15000 ms: .*one mpiexec'
    check "$name: they do not wait without a limit" test $((SECONDS - begin)) -lt 50
}

# One rank over each of two libraries, and a process that has both.
test_two_libraries() {
    local other=$1 port=$((20000 + $$ % 10000))

    export COLL_WORLD_SIZE=2 COLL_ROOT=127.0.0.1:$port COLL_KEY=two-libraries
    COLL_RANK=0 mpi 1 "$hello" &
    home=$other COLL_RANK=1 mpi 1 "$hello" &
    wait
    unset COLL_WORLD_SIZE COLL_ROOT COLL_KEY
    has "two libraries: a sentence" "$dir/err" 'all ranks need the same MPI library'
    mpi 1 env LD_PRELOAD="$other/lib/libmpi_abi.so.1" "$hello"
    has "another MPI in the process: a sentence" "$dir/err" 'loaded another MPI library, .*: one process can use one MPI'
}

# Calls of every kind, type, operation, count, root and place, drawn from seeds.
test_random() {
    mpi 3 "$coll" check --launched --no-fork --only coll-random "$plugin"
    is "$name: random calls agree with the reference" "$status" 0
}

mpiexec=$(command -v mpiexec)
homes=${TEST_MPI-${mpiexec%/bin/mpiexec}}
tried=0 before=
IFS=:
for home in $homes; do
    unset IFS
    [ -e "$home/lib/libmpi_abi.so.1" ] || continue
    tried=1
    name=$(basename "$home")
    for header in "$home/include/mpi_abi.h" "$home/include/mpich/mpi_abi.h"; do
        [ ! -e "$header" ] || test_numbers "$name" "$header"
    done
    test_check
    test_life
    test_leave
    test_late
    test_place
    test_dead
    test_cuda
    test_split
    test_two_jobs
    test_apart
    test_random
    [ -z "$before" ] || test_two_libraries "$before"
    before=$home
done
unset IFS
[ $tried -eq 1 ] || skip "ranks over MPI" "no MPI library with the MPI-5 ABI: name its prefix in TEST_MPI"
done_testing
