# SPDX-License-Identifier: BSD-3-Clause
# Completion of coll(1) for bash.

_coll_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_coll_check() {
    case $2 in
    -o | --only) _coll_words "$(coll check --list 2>/dev/null | sed 's/ .*//')" "$1" ;;
    -r | --ranks | -x | --option | -t | --timeout) ;;
    *)
        case $1 in
        -*)
            _coll_words '-O --observer -r --ranks -l --list -o --only -x --option -q --quick -L --launched
                -n --no-fork -s --stop -a --all -t --timeout -h --help' "$1"
            ;;
        *) mapfile -t COMPREPLY < <(compgen -f -X '!*.so' -- "$1"; compgen -d -- "$1") ;;
        esac
        ;;
    esac
}

# The names of options and backends.
_coll_info_names() {
    _coll_words "$(coll info --json 2>/dev/null |
        sed -n '/"backends"/,/"notes"/s/.*"name": "\([a-z0-9_.]*\)".*/\1/p')" "$1"
}

_coll_info() {
    case $2 in
    -o | --option) _coll_info_names "$1" ;;
    -n | --ranks | --nodes) ;;
    *)
        case $1 in
        -*) _coll_words '-a --algorithms -n --ranks --nodes -j --json -o --option -h --help' "$1" ;;
        *) _coll_info_names "$1" ;;
        esac
        ;;
    esac
}

_coll_perf() {
    case $2 in
    -d | --datatype)
        _coll_words 'all int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16
            float32 float64 float8e4m3 float8e5m2 bool complex64 complex128 float32_int32
            float64_int32 int32_int32 int64_int32' "$1"
        ;;
    -o | --op)
        _coll_words 'all sum prod max min avg band bor bxor land lor lxor minloc maxloc' "$1"
        ;;
    -c | --check) _coll_words 'yes no' "$1" ;;
    --svg | --compare) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
    -m | --memory) _coll_words 'host cuda managed library' "$1" ;;
    -[befsnwrtg] | --minbytes | --maxbytes | --stepfactor | --sizes | --iters | --warmup | --root | \
        --in-process | --group) ;;
    *)
        case $1 in
        -*)
            _coll_words '-b --minbytes -e --maxbytes -f --stepfactor -s --sizes -d --datatype
                -o --op -n --iters -w --warmup -r --root -c --check -t --in-process
                -m --memory -g --group -p --persistent -P --percentiles -i --issue --json --csv
                --svg --compare -h --help' "$1"
            ;;
        *)
            _coll_words 'all allreduce broadcast reduce allgather reduce_scatter alltoall gather
                scatter allgatherv reduce_scatterv alltoallv gatherv scatterv scan exscan sendrecv
                barrier' "$1"
            ;;
        esac
        ;;
    esac
}

_coll_trace() {
    case $1/$2 in
    */--slowest) ;;
    -*) _coll_words '-o --output --json --slowest --goal --chakra -h --help' "$1" ;;
    */trace) _coll_words 'merge report export' "$1" ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
    esac
}

_coll_doctor() {
    _coll_words '--json --no-links --strict -h --help' "$1"
}

_coll_explain() {
    case $2 in
    --schedule)
        _coll_words 'allreduce broadcast reduce allgather allgatherv reduce_scatter reduce_scatterv
            alltoall alltoallv gather gatherv scatter scatterv barrier scan exscan' "$1"
        ;;
    --algorithm)
        _coll_words "$(coll prove --ranks 2 --count 0 2>/dev/null |
            sed -n 's|^[a-z_]*/\([a-z_]*\) .*|\1|p' | sort -u)" "$1"
        ;;
    --ranks | --bytes | --root | --node-size | --segment) ;;
    *)
        case $1 in
        -*)
            _coll_words '--json --schedule --ranks --bytes --algorithm --root --node-size --segment --svg
                --goal -h --help' "$1"
            ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
        esac
        ;;
    esac
}

# The numbers of the jobs that run.
_coll_jobs() {
    _coll_words "$(coll top --json 2>/dev/null | sed -n 's/^ *"job": "\([0-9a-f]*\)".*/\1/p') $2" "$1"
}

_coll_top() {
    case $2 in
    --interval | --job) ;;
    --key-file) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
    *) _coll_jobs "$1" '--once --json --interval --job --key-file --print-key -h --help' ;;
    esac
}

_coll_dump() {
    case $2/$1 in
    --job/*) ;;
    --key-file/*) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
    */-* | dump/*) _coll_jobs "$1" '--job --key-file -h --help' ;;
    *) mapfile -t COMPREPLY < <(compgen -d -- "$1") ;;
    esac
}

_coll_metrics() {
    case $2 in
    --output | --key-file) mapfile -t COMPREPLY < <(compgen -f -- "$1") ;;
    --interval | --listen | --job) ;;
    *) _coll_jobs "$1" '--output --interval --listen --job --key-file -h --help' ;;
    esac
}

_coll_prove() {
    case $2 in
    -a | --algorithm)
        _coll_words "$(coll prove --ranks 2 --count 0 2>/dev/null |
            sed -n 's|^\(\([a-z_]*\)/[a-z_]*\) .*|\1 \2|p')" "$1"
        ;;
    --mutant)
        _coll_words "$(coll prove --mutants 2>/dev/null |
            sed -n 's/^\([a-z][a-z0-9-]*\) .*caught$/\1/p')" "$1"
        ;;
    -[rcj] | --ranks | --count | --jobs | --seed) ;;
    *)
        _coll_words '-a --algorithm -r --ranks -c --count -q --quick -l --long --seed -j --jobs
            --mutants --mutant --json -h --help' "$1"
        ;;
    esac
}

_coll_model() {
    case $2 in
    -[rsfn] | --ranks | --sizes | --node-size | --cores | --segment | --far | --near | --reduce) ;;
    *)
        case $1 in
        -*)
            _coll_words '-r --ranks -s --sizes --node-size --cores --segment -f --far -n --near --reduce
                --json -h --help' "$1"
            ;;
        *)
            _coll_words 'allreduce broadcast reduce allgather allgatherv reduce_scatter
                reduce_scatterv alltoall alltoallv gather gatherv scatter scatterv barrier
                scan exscan' "$1"
            ;;
        esac
        ;;
    esac
}

# Where the program to run begins, from word 2 on; fails if it has not begun.
_coll_run_program() {
    local i=2

    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
        --) ((i++)); break ;;
        -n | -b | -e | --ranks | --backend | --env | --bind-to | --stdin | --grace | --timeout)
            ((i += 2))
            # bash splits words at = and :, so --env=A=1:2 is seven of them.
            [[ ${COMP_WORDS[i - 1]} == = ]] && ((i++))
            ;;
        -*) ((i++)) ;;
        *) break ;;
        esac
        while ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == +([=:]) ]]; do
            ((i += 2))
        done
    done
    REPLY=$i
    ((i < COMP_CWORD)) || [[ ${COMP_WORDS[i - 1]} == -- ]]
}

_coll_run() {
    local REPLY

    if _coll_run_program; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$REPLY"
        else
            mapfile -t COMPREPLY < <(compgen -c -f -- "$1")
        fi
        return
    fi
    case $2 in
    -b | --backend)
        _coll_words "$(coll info --json 2>/dev/null |
            sed -n '/"backends"/,/"options"/s/.*"name": "\([a-z0-9_]*\)".*/\1/p')" "$1"
        ;;
    --bind-to) _coll_words 'share core none' "$1" ;;
    --stdin) _coll_words '0 none' "$1" ;;
    -n | --ranks | --grace | --timeout) ;;
    -e | --env) mapfile -t COMPREPLY < <(compgen -v -S = -- "$1") ;;
    *)
        case $1 in
        -*)
            _coll_words '-n --ranks -b --backend -e --env --nccl --bind-to --stdin --no-prefix --grace
                --timeout -h --help' "$1"
            ;;
        *) mapfile -t COMPREPLY < <(compgen -c -f -- "$1") ;;
        esac
        ;;
    esac
}

_coll() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _coll_words 'help check doctor dump explain info metrics model perf prove run top trace -h --help -V --version' "$current"
        return
    fi
    case ${COMP_WORDS[1]} in
    help) _coll_words 'check doctor dump explain info metrics model perf prove run top trace' "$current" ;;
    check) _coll_check "$current" "$previous" ;;
    doctor) _coll_doctor "$current" ;;
    dump) _coll_dump "$current" ;;
    explain) _coll_explain "$current" "$previous" ;;
    info) _coll_info "$current" "$previous" ;;
    metrics) _coll_metrics "$current" "$previous" ;;
    model) _coll_model "$current" "$previous" ;;
    perf) _coll_perf "$current" "$previous" ;;
    prove) _coll_prove "$current" "$previous" ;;
    run) _coll_run "$current" "$previous" ;;
    trace) _coll_trace "$current" "$previous" ;;
    top) _coll_top "$current" "$previous" ;;
    esac
}

complete -F _coll coll
