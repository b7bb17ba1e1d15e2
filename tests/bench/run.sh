#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh - measures libcoll beside its peers and beside bare loops, in one interleaved run:
#
#   make bench                                2 ranks, every operation, 8 B to 128 MiB; 10 to 15 minutes, up to three
#                                             times as long where the processors wander
#   BENCH_RANKS="2 4 8 16" make bench         these numbers of ranks; BENCH_MINUTES=25 bounds the time
#                                             from the first measurement on
#   BENCH_OPS="allreduce group" make bench    these operations only, beside the rows of earlier runs
#   BENCH_SIZES="8 64K 1M" make bench         these sizes, in bytes
#   BENCH_ENGINES="tcp bare" make bench       these engines only (the names below)
#   BENCH_ROUNDS=3 BENCH_MS=100 make bench    rounds; milliseconds a row, engine and round
#   BENCH_FRESH=0 make bench                  each call has the same input; else a new one
#   BENCH_NS=15-50,120-211 make bench         the time of a cache line between the processors, in nanoseconds, of the samples
#                                             in the table of near and in that of far processors; any: one table of all
#                                             samples; else the most frequent times below 80 ns and from there on
#   BENCH_PATIENCE=1000                       milliseconds that a row waits for both kinds of samples at most
#   BENCH_NEIGHBOURS=2                        so many other programs spin meanwhile: one table of all samples, and the time of a
#                                             round is their mean, since few calls pay for the turns of the other programs
#   BENCH_LIMIT=20                            seconds after which a program is ended; one more for each rank
#   OPENMPI_DIR=DIR MPICH_DIR=DIR UCC_DIR=DIR make bench
#                                             peers that are installed there, not the system's; UCC's UCX: the same
#   BENCH_ENGINES="mpich mpich-i coll-mpich ucc coll-ucc" make bench
#                                             libcoll over MPICH and UCC beside them
#   BENCH_NATIVE=direct                       the option `native` of the backend mpi
#   make bench BENCH=native                   the cost of a call beyond the backend's own: native_overhead.c
#
# All programs run the loop of bench.h.  In each round, for each number of ranks and each set of operations, the engines
# take turns.  Ranks are bound to a core each while there are enough cores; else no rank is bound, and Open MPI is told
# that there are more ranks than cores.  A peer that is not installed stays in the table as "not there".  The sizes of
# more than 512 MiB on all ranks together are measured in the first round only, and so is a program that needs more
# than half of its limit.
#
# Writes tests/bench/RESULTS.md of the build tree.
set -u

src=${top_srcdir:-.}
. "$src/tests/bench/near.sh"
build=$(cd "${top_builddir:-.}" && pwd)
rounds=${BENCH_ROUNDS:-3}
sizes=${BENCH_SIZES:-8 1K 64K 1M 16M 128M}
operations="allreduce allgather broadcast reduce_scatter alltoall reduce barrier ping_pong group"
operations="$operations allreduce_f16 allreduce_bf16"
wanted=${BENCH_OPS:-$operations}
memory_engines="tcp tcp-mem ucx simulated openmpi openmpi-ucx mpich ucc bare"
socket_engines="tcp-sockets openmpi-sockets openmpi-ucx-sockets mpich-sockets ucc-sockets gloo bare-sockets"
# libcoll over the library of a peer, and the peer's non-blocking calls.
over_engines="openmpi-i coll-openmpi mpich-i coll-mpich coll-ucc"
engines=${BENCH_ENGINES:-$memory_engines $socket_engines $over_engines}
rows=${BENCH_ROWS:-$build/tests/bench/bench.rows}
results=${BENCH_RESULTS:-$build/tests/bench/RESULTS.md}
mkdir -p "$build/tests/bench"
commit=$(git -C "$src" rev-parse --short HEAD 2>/dev/null || echo unknown)
limit=${BENCH_LIMIT:-20}
export BENCH_MS=${BENCH_MS:-50} BENCH_PATIENCE=${BENCH_PATIENCE:-1000}

neighbours=()
work=$(mktemp -d) || exit 1
trap 'kill "${neighbours[@]}" 2>/dev/null; rm -rf "$work"' EXIT
export BENCH_SHARED=$work/shared BENCH_GLOO=$work/gloo-store BENCH_UCC=$work/ucc-file
declare -A absent slow

say() {
    echo "$*" >&2
}

if [ "${BENCH_NEIGHBOURS:-0}" -gt 0 ]; then
    column=6 BENCH_NS=any # of bench.h's rows: the mean
else
    column=4              # the median
fi
case ${BENCH_NS:-any} in
any | *[0-9]-[0-9]*,[0-9]*-[0-9]*) ;;
*)
    say "run.sh: BENCH_NS is '$BENCH_NS', not LEAST-MOST,LEAST-MOST, the nanoseconds of near and of far processors, or any"
    exit 2
    ;;
esac

# ---------------------------------------------------------------- programs --
# compile NAME COMPILER ARGUMENT...: a program in $work; on failure its engines are absent, for the reason printed.
compile() {
    local name=$1
    shift
    "$@" -O2 -o "$work/$name" >"$work/$name.log" 2>&1 && return
    say "$name cannot be built: $(grep -m 1 -i -e error "$work/$name.log")"
    return 1
}

compile_c() {
    local name=$1 compiler=$2 source=$3
    shift 3
    compile "$name" "$compiler" -std=c11 -D_GNU_SOURCE -I"$src/include" "$src/tests/bench/$source" "$@"
}

# first PROGRAM...: the path of the first of them that exists.
first() {
    local program
    for program; do
        command -v "$program" && return
    done
    return 1
}

no_peer() {
    local reason=$1 engine
    shift
    for engine; do
        absent[$engine]=$reason
    done
}

ours=(-L"$build/.libs" "-Wl,-rpath,$build/.libs" -lcoll -lpthread)
if [ "${1:-}" = native ]; then
    make -s -C "$build" tests/plugins/coll_null.la tests/plugins/coll_nulldevice.la \
        tests/fakes/libcuda.la >&2 || exit 1
    cp "$build"/tests/plugins/.libs/coll_null{,device}.so "$work" || exit 1
    compile_c native "${TEST_CC:-cc}" native_overhead.c "${ours[@]}" -ldl || exit 1
    "$work/native" "$work" || exit 1
    LD_LIBRARY_PATH="$build/tests/fakes/.libs" "$work/native" "$work"
    exit
fi

# shellcheck disable=SC2086 # the compiler's flags are a list
{
    compile_c coll "${TEST_CC:-cc}" bench_coll.c ${TEST_CFLAGS:-} "${ours[@]}" || exit 1
    compile_c bare "${TEST_CC:-cc}" bench_bare.c ${TEST_CFLAGS:-} -O3 || exit 1
}
[ -e "$build/.libs/coll_ucx.so" ] || no_peer "libcoll was built without UCX" ucx

# mpi NAME DIRECTORY RUN CC...: finds and builds the engines of an MPI: sets NAME_run.
mpi() {
    local name=$1 directory=$2 run=$3 cc
    shift 3
    if [ -n "$directory" ]; then
        run=$directory/bin/${run%.*}
        set -- "$directory/bin/mpicc"
    fi
    run=$(first "$run") && cc=$(first "$@") || return 1
    compile_c "$name" "$cc" bench_mpi.c || return
    printf -v "${name}_run" %s "$run"
    plugin_of "$name" "$directory" "$cc"
}

# plugin_of NAME DIRECTORY CC: puts the plugin for an MPI into $work/coll-NAME, if its engine is wanted.  The plugin of this build
# serves a library with the MPI-5 ABI, whose path comes to NAME_abi.
plugin_of() {
    local name=$1 abi=$2/lib/libmpi_abi.so.1 cc=$3
    case " $engines " in *" coll-$name "*) ;; *) return 0 ;; esac
    mkdir "$work/coll-$name" && cp "$build/.libs/coll_tcp.so" "$work/coll-$name" || return
    if [ -n "$2" ] && [ -e "$abi" ]; then
        cp "$build/.libs/coll_mpi.so" "$work/coll-$name"
        printf -v "${name}_abi" %s "$abi"
    elif ! "$src/tests/mpi/plugin.sh" "$cc" "$work/coll-$name/coll_mpi.so" >"$work/coll-$name.log" 2>&1; then
        no_peer "the mpi backend cannot be built for $cc: $(tail -n 1 "$work/coll-$name.log")" "coll-$name"
    fi
}

mpi openmpi "${OPENMPI_DIR:-}" mpirun.openmpi mpicc.openmpi ||
    no_peer "Open MPI's mpicc or mpirun was not found (libopenmpi-dev, openmpi-bin, or OPENMPI_DIR)" \
        openmpi openmpi-ucx openmpi-sockets openmpi-ucx-sockets openmpi-i coll-openmpi
mpi mpich "${MPICH_DIR:-}" mpiexec.mpich mpicc.mpich ||
    no_peer "MPICH's mpicc or mpiexec was not found (libmpich-dev, mpich, or MPICH_DIR)" mpich mpich-sockets mpich-i coll-mpich
compile gloo c++ -std=c++17 "$src/tests/bench/bench_gloo.cc" -lgloo -lpthread ||
    no_peer "Gloo's headers or library were not found (libgloo-dev)" gloo
# shellcheck disable=SC2086 # lists of options
compile_c ucc "${TEST_CC:-cc}" bench_ucc.c ${UCC_DIR:+-I"$UCC_DIR/include" -L"$UCC_DIR/lib"} -lucc \
    -Wl,--unresolved-symbols=ignore-in-shared-libs ||
    no_peer "UCC's headers or library were not found (UCC_DIR)" ucc ucc-sockets coll-ucc

# ---------------------------------------------------------------- measuring --
# limit_of RANKS ARGUMENT...: the seconds of a program, longer by what its rows may wait for both kinds of samples.
limit_of() {
    local n=$1 waits=0
    shift
    [ -z "${BENCH_NS:-}" ] || waits=$(($# * BENCH_PATIENCE / 1000))
    echo $((limit + n + waits))
}

# start ENGINE RANKS ARGUMENT...: runs the engine's program on that many ranks.  Where the time limit's end of the
# launcher leaves ranks behind, BENCH_LIMIT ends them.
start() {
    local engine=$1 n=$2 bind=none more=--oversubscribe seconds abi
    seconds=$(limit_of "${@:2}")
    local -x BENCH_LIMIT=$((seconds + 5))
    shift 2
    if [ "$n" -le "$(nproc)" ]; then
        bind=core
        more=
    fi
    local end="timeout -k 5 $seconds"
    local coll="$end $build/coll run --no-prefix --bind-to $bind -n $n --"
    local openmpi="$end ${openmpi_run:-} --allow-run-as-root --bind-to $bind $more -n $n"
    local mpich="$end ${mpich_run:-} -bind-to $bind -n $n"
    # Without these two settings Open MPI takes UCX for InfiniBand and the like only.
    local over_ucx="--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"

    case $engine in
    coll-openmpi | coll-mpich)
        local -x COLL_BACKEND=mpi COLL_PLUGIN_PATH=$work/$engine COLL_TRUST=$work:${COLL_TRUST:-} \
            COLL_MPI_NATIVE="${BENCH_NATIVE:-copy}"
        abi=${engine#coll-}_abi
        [ -z "${!abi:-}" ] || local -x COLL_MPI_LIBRARY=${!abi}
        ;;
    coll-ucc) local -x COLL_BACKEND=ucc COLL_UCC_LIBRARY=${UCC_DIR:+$UCC_DIR/lib/}libucc.so.1 ;;
    esac
    case $engine in
    openmpi* | coll-openmpi) [ -z "${OPENMPI_DIR:-}" ] ||
        local -x OPAL_PREFIX=$OPENMPI_DIR LD_LIBRARY_PATH=$OPENMPI_DIR/lib:${LD_LIBRARY_PATH:-} ;;
    mpich* | coll-mpich) [ -z "${MPICH_DIR:-}" ] || local -x LD_LIBRARY_PATH=$MPICH_DIR/lib:${LD_LIBRARY_PATH:-} ;;
    ucc* | coll-ucc) local -x LD_LIBRARY_PATH=${UCC_DIR:+$UCC_DIR/lib:}${LD_LIBRARY_PATH:-} ;;
    esac
    case $engine in
    openmpi-ucx-sockets | mpich-sockets | ucc-sockets) local -x UCX_TLS=tcp,self ;;
    esac
    case $engine in
    tcp) COLL_BACKEND=tcp $coll "$work/coll" "$@" ;;
    tcp-mem) COLL_BACKEND=tcp $coll "$work/coll" -m "$@" ;;
    tcp-sockets) COLL_BACKEND=tcp COLL_TCP_UNIX=no $coll "$work/coll" "$@" ;;
    ucx) COLL_BACKEND=ucx $coll "$work/coll" "$@" ;;
    simulated) COLL_BACKEND=simulated $end "$work/coll" -t "$n" "$@" ;;
    openmpi) $openmpi "$work/openmpi" "$@" ;;
    openmpi-i) $openmpi "$work/openmpi" -i "$@" ;;
    coll-openmpi) $openmpi "$work/coll" "$@" ;;
    openmpi-sockets) $openmpi --mca pml ob1 --mca btl tcp,self "$work/openmpi" "$@" ;;
    openmpi-ucx | openmpi-ucx-sockets) $openmpi $over_ucx "$work/openmpi" "$@" ;;
    mpich) $mpich "$work/mpich" "$@" ;;
    mpich-i) $mpich "$work/mpich" -i "$@" ;;
    coll-mpich) $mpich "$work/coll" "$@" ;;
    mpich-sockets) MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp $mpich "$work/mpich" "$@" ;;
    gloo) rm -rf "$BENCH_GLOO" && mkdir "$BENCH_GLOO" && $coll "$work/gloo" "$@" ;;
    coll-ucc) $coll "$work/coll" "$@" ;;
    ucc*) rm -f "$BENCH_UCC" && $coll "$work/ucc" "$@" ;;
    bare) $end "$work/bare" shm "$n" "$@" ;;
    bare-sockets) $end "$work/bare" sockets "$n" "$@" ;;
    *) say "run.sh: '$engine' is no engine: $memory_engines $socket_engines $over_engines" && return 2 ;;
    esac
}

# sizes_of RANKS OPERATION ROUND: its sizes in bytes.
sizes_of() {
    local size
    for size in $sizes; do
        size=$(numfmt --from=iec "$size") || exit 2
        [ "$3" = 1 ] || [ $((size * $1)) -le $((512 << 20)) ] || continue
        case $2 in
        barrier) size=0 ;;
        group) [ "$size" -le 65536 ] || continue ;;
        esac
        echo "$size"
    done | uniq
}

# measure RANKS "OPERATION..." ROUND ENGINE: adds lines "ranks|operation|bytes|engine|round|us|commit|kind|samples", one for
# each kind of samples; us: a number, "none" if the engine has no such operation, "no sample" if there was none of that kind,
# or the reason why there is no number.
measure() {
    local list=() operation size status=0 reason begin=$SECONDS longest
    for operation in $2; do
        # shellcheck disable=SC2207 # numbers
        list+=("$operation" $(sizes_of "$1" "$operation" "$3"))
    done
    longest=$(limit_of "$1" "${list[@]}")
    start "$4" "$1" "${list[@]}" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ $((SECONDS - begin)) -le $((longest / 2)) ] || slow["$1 $2 $4"]=1
    reason=$(grep -v '^ *$' "$work/err" | tail -n 1 | tr -d '|' | cut -c 1-120)
    [ $status = 0 ] || say "$4, $2, $1 ranks: status $status: $reason"
    reason="failed: ${reason:-status $status}"
    [ $status != 124 ] && [ $status != 137 ] || reason="longer than $longest s"
    for size in "${list[@]}"; do
        case $size in [a-z]*) operation=$size && continue ;; esac
        awk -v op="$operation" -v size="$size" -v reason="$reason" -v kinds="$kinds neither" \
            -v row="$1|$operation|$size|$4|$3" -v commit="$commit" -v column="$column" '
            $1 == op && $2 == "none" { none = 1 }
            $1 == op && $2 == size && $3 == "begun" { begun = 1 }
            $1 == op && $2 == size && NF == 6 { us[$3] = $5 ? $column : "no sample"; samples[$3] = $5 }
            END {
                lacking = none ? "none" : begun || reason !~ /^longer/ ? reason : "not reached"
                n = split(kinds, kind, " ")
                for (i = 1; i <= n; i++)
                    if (kind[i] != "neither" || samples["neither"])
                        print row "|" (kind[i] in us ? us[kind[i]] : lacking) "|" commit "|" kind[i] "|" samples[kind[i]] + 0
            }' "$work/out"
    done >>"$rows"
    rm -f "$BENCH_SHARED"
}

kinds="near far"
shares=
if [ -z "${BENCH_NS:-}" ] && [ "$(nproc)" -ge 2 ]; then
    read -r near near_share far far_share <<<"$(distances "$work/bare" 10)"
    BENCH_NS=$near,$far
    shares=" (near: $near_share % of the looks in the ten seconds before the run, far: $far_share %)"
    # No row waits for a kind that was not there.  If it comes, its samples count.
    case $near_share,$far_share in
    0,0) ;;
    0,*) export BENCH_AWAITED=far ;;
    *,0) export BENCH_AWAITED=near ;;
    esac
    say "a cache line takes ${near} ns between near processors and ${far} ns between far ones$shares"
fi
if [ "${BENCH_NS:-any}" = any ]; then
    unset BENCH_NS
    kinds=any
else
    export BENCH_NS
fi

# The sets of operations that a program measures one after the other.
sets=("allreduce group" "allgather reduce_scatter alltoall" "broadcast reduce barrier ping_pong"
    "allreduce_f16 allreduce_bf16")

touch "$rows"
for operation in $wanted; do
    case " $operations " in *" $operation "*) ;; *) say "run.sh: '$operation' is none of: $operations" && exit 2 ;; esac
    for ranks in ${BENCH_RANKS:-2}; do
        sed -i "/^$ranks|$operation|/d" "$rows"
    done
done
for ((i = 0; i < ${BENCH_NEIGHBOURS:-0}; i++)); do
    sh -c 'while :; do :; done' &
    neighbours+=($!)
done
begin=$SECONDS over=
for round in $(seq "$rounds"); do
    for ranks in ${BENCH_RANKS:-2}; do
        for set in "${sets[@]}"; do
            set=$(for operation in $set; do case " $wanted " in *" $operation "*) echo "$operation" ;; esac; done | xargs)
            for engine in ${set:+$engines}; do
                [ -z "${absent[$engine]:-}${slow["$ranks $set $engine"]:-}" ] || continue
                if [ $((SECONDS - begin)) -ge $((${BENCH_MINUTES:-9999} * 60)) ]; then
                    over=${over:-"round $round of $rounds, $ranks ranks, $set: $engine"}
                    continue
                fi
                say "$SECONDS s: round $round of $rounds, $ranks ranks, $set: $engine"
                measure "$ranks" "$set" "$round" "$engine"
            done
        done
    done
done

[ -z "${neighbours[*]}" ] || kill "${neighbours[@]}"
neighbours=()
[ -z "$over" ] || say "BENCH_MINUTES=$BENCH_MINUTES were over before $over; what follows is not measured"

# ------------------------------------------------------------------ results --
version() {
    "$@" 2>/dev/null | grep -o '[0-9][0-9.]*[0-9]' | head -n 1 | grep . || echo none
}

# How far the processors were, and how many samples are in which table.
about_distances() {
    echo "* A sample is in the table of near processors if a cache line takes ${BENCH_NS%,*} ns from one to the other before and" \
        "after it, and in that of far processors if it takes ${BENCH_NS#*,} ns$shares."
    awk -F'|' '{ samples[$8] += $9 }
        END {
            all = samples["near"] + samples["far"] + samples["neither"]
            if (all)
                printf "* Of %d samples %.0f %% were of near processors, %.0f %% of far ones, and %.0f %% of neither: these are in no table.\n",
                    all, 100 * samples["near"] / all, 100 * samples["far"] / all, 100 * samples["neither"] / all
        }' "$rows"
}

# The machine, the versions and the commands.
about() {
    echo "* Machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr | sed 's/-.*//')," \
        "TCP congestion control $(cat /proc/sys/net/ipv4/tcp_congestion_control); $(date -u +%Y-%m-%d)."
    echo "* libcoll $(version "$build/coll" --version), commit $(cut -d '|' -f 7 "$rows" | sort -u | xargs), built with" \
        "UCX $(pkg-config --modversion ucx 2>/dev/null || echo none)."
    echo "* Peers: Open MPI $(version "${openmpi_run:-false}" --version)," \
        "MPICH $(version "${mpich_run:-false}" --version)," \
        "UCC $(version sed -n 's/#define UCC_VERSION_STRING//p' "${UCC_DIR:-/usr}/include/ucc/api/ucc_version.h") over" \
        "UCX $(PKG_CONFIG_PATH=${UCC_DIR:-/usr}/lib/pkgconfig pkg-config --modversion ucx 2>/dev/null || echo unknown)," \
        "Gloo $(dpkg-query -W -f '${Version}' libgloo-dev 2>/dev/null || echo unknown)."
    for engine in $memory_engines $socket_engines $over_engines; do
        [ -z "${absent[$engine]:-}" ] || echo "* $engine is not there: ${absent[$engine]}."
    done
    [ -z "${BENCH_NS:-}" ] || about_distances
    [ "${BENCH_NEIGHBOURS:-0}" -eq 0 ] ||
        echo "* Beside $BENCH_NEIGHBOURS programs that spin.  The time of a round is the mean of its samples."
    [ "${BENCH_FRESH:-1}" = 0 ] || echo "* Each call has a new input: a rank writes to each cache line of it before."
    [ -z "$over" ] ||
        echo "* run.sh stopped measuring when BENCH_MINUTES were over, before $over: the engines and operations behind it lack that round."
    echo "* Command: \`BENCH_RANKS=\"${BENCH_RANKS:-2}\" BENCH_OPS=\"$wanted\" BENCH_SIZES=\"$sizes\"" \
        "${BENCH_ENGINES:+BENCH_ENGINES=\"$BENCH_ENGINES\" }BENCH_ROUNDS=$rounds BENCH_MS=$BENCH_MS BENCH_LIMIT=$limit" \
        "BENCH_PATIENCE=$BENCH_PATIENCE BENCH_NS=${BENCH_NS:-any}${BENCH_FRESH:+ BENCH_FRESH=$BENCH_FRESH}" \
        "${BENCH_NATIVE:+BENCH_NATIVE=$BENCH_NATIVE }${BENCH_NEIGHBOURS:+BENCH_NEIGHBOURS=$BENCH_NEIGHBOURS }${BENCH_MINUTES:+BENCH_MINUTES=$BENCH_MINUTES }${OPENMPI_DIR:+OPENMPI_DIR=DIR }${MPICH_DIR:+MPICH_DIR=DIR }${UCC_DIR:+UCC_DIR=DIR }make bench\`."
}

about >"$work/about"
awk -F'|' -v shm="$memory_engines" -v net="$socket_engines" -v over="openmpi mpich ucc" -v operations="$operations" -v about="$work/about" \
    -f "$src/tests/bench/sort.awk" -f "$src/tests/bench/table.awk" "$src/tests/bench/reasons" "$rows" >"$results.new" &&
    mv "$results.new" "$results"
cat "$results"
