#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# matrix.t - the mpi backend over each MPI library: `coll check` alone and on 2, 3 and 4 ranks, 2,000 random calls with each value
# of the option `native`, the weights of the example digits, calls of more than 2^31 elements, split communicators, a rank that dies, and
# the sentence for the library of another MPI.  The last lines are a table of the results.  Not in `make check`, but in `make check-long`.
#
# TEST_MPI lists the libraries, separated by ':': prefixes with bin/mpiexec and lib/libmpi_abi.so.1, and compilers.  For a
# compiler (mpicc.mpich, DIR/bin/mpicc) plugin.sh builds the plugin with --with-mpi; mpiexec.mpich or DIR/bin/mpiexec starts
# the ranks.  A prefix without libmpi_abi.so.1 stands for its bin/mpicc.  Without TEST_MPI the test takes the prefix of the
# mpiexec in PATH, mpicc.mpich and mpicc.openmpi.  TEST_SEED is the seed of the first random call.
. "${top_srcdir:-.}/tests/lib/tap.sh"

source=$(cd "${top_srcdir:-.}" && pwd) || exit 1
build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config COLL_SYSCONFDIR=$dir/no-config COLL_TRUST=$dir:$build:$source
# Intel MPI finds no fabric in a container without it.  Open MPI refuses root, and more ranks than processors, else.
export I_MPI_FABRICS=${I_MPI_FABRICS-shm} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
seed=${TEST_SEED:-$(date +%s)}
large_memory=14 # GiB that large.c takes on 2 ranks, with the copies that the plugin and MPI make

[ -z "${TEST_SANITIZE-}" ] || skip_all "built with a sanitizer ($TEST_SANITIZE)"
"$coll" info --json | grep -q 'unset: libmpi_abi\.so\.1"' ||
    skip_all "the mpi backend of this tree was built with --with-mpi"

# ------------------------------------------------------------------ libraries

# take_library ENTRY: sets mpiexec, and library and home for a library with the ABI; puts its plugin into $work.
take_library() {
    local entry=$1

    library='' home='' work=$dir/$((++taken))
    mkdir "$work"
    cp "$build/.libs/coll_tcp.so" "$work/"
    if [ -e "$entry/lib/libmpi_abi.so.1" ]; then
        how="by the ABI" home=$entry library=$entry/lib/libmpi_abi.so.1 mpiexec=$entry/bin/mpiexec
        cp "$build/.libs/coll_mpi.so" "$work/"
    else
        [ ! -d "$entry" ] || entry=$entry/bin/mpicc
        how="--with-mpi=${entry##*/}" mpiexec=${entry%mpicc*}mpiexec${entry##*mpicc}
        check "$entry: the plugin builds with --with-mpi" "$source/tests/mpi/plugin.sh" "$entry" "$work/coll_mpi.so"
        launch 1 "$coll" info --json
        is "$entry: the option library has no default, as coll.conf says" \
            "$(grep -A 2 '"name": "mpi\.library"' "$dir/out" | sed -n 's/.*"default": //p')" '"",'
        has "$entry: its help names the library of the build" "$dir/out" '; unset: /.*libmpi'
    fi
    launch 1 "$coll" info
    path=$(sed -n 's/^ *what .*launchers (.* (\(\/[^)]*\)).*/\1/p' "$dir/out")
    name=$(sed -n 's/^ *what .*launchers (\(.*\) (\/.*/\1/p' "$dir/out" | sed 's/ Version://; s/(R)//g; s/ for Linux.*//')
    check "$entry: a library that can be used: $name" test "$status" -eq 0 -a -n "$name"
    name=${name:-$entry}
}

# launch COUNT COMMAND...: runs it on COUNT ranks under the library's own launcher, with the options in $options.
options=()
launch() {
    local count=$1

    shift
    env -u COLL_MPI_LIBRARY COLL_BACKEND=mpi COLL_PLUGIN_PATH="$work" ${library:+COLL_MPI_LIBRARY="$library"} \
        ${home:+LD_LIBRARY_PATH="$home/lib"} timeout 900 "$mpiexec" "${options[@]}" -n "$count" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# ------------------------------------------------------------------ results

# Each test appends its cell to the library's row of the table.
cell() {
    row="$row $1 |"
}

# Ranks that poll are slow on a busy host: a check may take minutes.
test_check() {
    local ranks passed

    for ranks in 2 3 4; do
        launch "$ranks" "$coll" check --launched --no-fork --timeout 400 "$work/coll_mpi.so"
        is "$name, $ranks ranks: coll check" "$status $(grep -A 5 '^not ok' "$dir/out")" "0 "
        none "$name, $ranks ranks: the plugin can be used, and each skipped check has a reason" \
            "$(grep -e 'SKIP the plugin cannot be used' -e '# SKIP *$' "$dir/out")"
        passed=$(sed -n 's/^# [0-9]* checks in .*: \(.* passed, .* failed, .* skipped\);.*/\1/p' "$dir/out")
        cell "${passed:-no report}"
    done
}

test_random() {
    local native good=equal

    for native in copy direct no; do
        COLL_MPI_NATIVE=$native launch 3 "$build/tests/mpi/random" "$seed"
        is "$name, native = $native: 2,000 random calls from seed $seed equal the oracle's" "$status $(cat "$dir/out")" \
            "0 2000 calls from seed $seed, 3 ranks, backend mpi"
        [ "$status" -eq 0 ] || good="wrong, native = $native, seed $seed"
    done
    cell "$good"
}

# Without a launcher the checks that open no endpoint remain.
test_alone() {
    env -u PMI_RANK -u PMIX_RANK -u OMPI_COMM_WORLD_RANK ${home:+LD_LIBRARY_PATH="$home/lib"} \
        "$coll" check --quick "$work/coll_mpi.so" >"$dir/out" 2>"$dir/err" </dev/null
    none "$name: coll check without a launcher" "$(grep -A 5 '^not ok' "$dir/out" || grep -L '^# .* 0 failed' "$dir/out")"
}

# digits COMMAND...: the weights that the example learns in reproducible mode.
digits() {
    COLL_REPRODUCIBLE=yes "$@" "$build/tests/examples/digits" --data "$source/tests/examples/data"
    sed -n 's/^held-out .*, weights \([0-9a-f]*\)$/\1/p' "$dir/out"
}

test_digits() {
    local weights

    weights=$(digits launch 4)
    is "$name: digits learns the weights that it learns over tcp" "$weights" "$tcp_weights"
    cell "$([ "$weights" = "$tcp_weights" ] && echo equal || echo differ)"
}

test_large() {
    local free

    free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    if [ "${free:-0}" -lt $large_memory ]; then
        skip "$name: calls of 2^31 elements" "$free GiB of memory are free, and $large_memory are needed"
        cell "no memory"
        return
    fi
    COLL_TIMEOUT=600s COLL_LOG=error launch 2 "$build/tests/mpi/large"
    is "$name: calls of 2^31 elements" "$status $(grep '^large' "$dir/err")" "0 "
    cell "$([ "$status" -eq 0 ] && echo right || echo wrong)"
}

# MPI's collectives serve split communicators, but those that must not block.
test_split() {
    local run failed=''

    # MPI that polls without a pause is slow on a host with more ranks than processors.
    for run in "3 split" "3 compose" "2 splits" "2 many"; do
        launch "${run% *}" "$build/tests/mpi/program" "${run#* }"
        is "$name: the program's mode ${run#* } on ${run% *} ranks" "$status $(grep -v -e 'the library composes' -e ' waits for rank ' "$dir/err")" "0 "
        [ "$status" -eq 0 ] || failed="$failed ${run#* }"
    done
    cell "${failed:-right}"
}

# The launcher lets the other ranks live if it is told so; it kills them all the same if the dead process was its own child.
test_dead() {
    local lost wanted

    wanted=$(printf '%s\n' "rank 2 lost, 2 of 2 go on"{,})
    printf 'trap "" USR1\n"$@"\nexit $?\n' >"$dir/alive.sh"
    case $("$mpiexec" --version 2>&1; "$mpiexec" -V 2>&1) in
    *HYDRA* | *Intel*) options=(-disable-auto-cleanup) ;;
    *OpenRTE*) options=(--enable-recovery) ;;
    *) options=(--with-ft ulfm) ;;
    esac
    launch 3 sh "$dir/alive.sh" "$build/tests/mpi/program" die
    lost=$(grep '^rank' "$dir/out")
    is "$name, ${options[*]}: the others learn which rank has died, and go on without it" "$lost" "$wanted"
    cell "$([ "$lost" = "$wanted" ] && echo named || echo "not named")"
    options=()
}

test_none() {
    local library=$dir/none.so

    launch 1 "$coll" info
    has "$name: COLL_MPI_LIBRARY names no file: a sentence" "$dir/out" \
        'no MPI library.* is installed, or not where the loader or the option mpi\.library looks: .*none\.so'
}

# The library of another kind of MPI than the plugin's.
test_other() {
    local library=$1

    launch 1 "$coll" info
    has "$name: COLL_MPI_LIBRARY names another MPI: a sentence" "$dir/out" \
        'is another MPI: build libcoll with --with-mpi|does not have the MPI-5 ABI: name a libmpi_abi'
}

libraries=${TEST_MPI-}
if [ -z "${TEST_MPI+set}" ]; then
    for compiler in mpicc.mpich mpicc.openmpi; do
        ! command -v "$compiler" >/dev/null || libraries=$libraries:$compiler
    done
    mpiexec=$(command -v mpiexec)
    [ ! -e "${mpiexec%/bin/mpiexec}/lib/libmpi_abi.so.1" ] || libraries=$libraries:${mpiexec%/bin/mpiexec}
fi
libraries=${libraries#:}
[ -n "$libraries" ] || skip_all "there is no MPI library: mpicc.mpich and mpicc.openmpi are not in PATH, and TEST_MPI is not set"

over_tcp() {
    "$coll" run --no-prefix -n 4 --backend tcp -- "$@" >"$dir/out" 2>"$dir/err"
}

tcp_weights=$(digits over_tcp)
check "digits learns over tcp" test -n "$tcp_weights"
taken=0 table='' before='' before_how=''
IFS=:
for entry in $libraries; do
    unset IFS
    take_library "$entry"
    row="| $name | $how |"
    test_check
    test_alone
    test_random
    test_digits
    test_large
    test_split
    test_dead
    test_none
    [ -z "$before" ] || [ "$how" = "$before_how" ] || test_other "$before"
    before=$path before_how=$how
    table="$table$row"$'\n'
done
unset IFS
cat <<END | sed 's/^/# /'
| library | plugin | coll check, 2 ranks | 3 ranks | 4 ranks | 2,000 random calls | digits, as over tcp | 2^31 elements | split communicators | a dead rank |
|---|---|---|---|---|---|---|---|---|---|
${table%$'\n'}
END
done_testing
