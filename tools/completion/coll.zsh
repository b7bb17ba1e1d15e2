#compdef coll
# SPDX-License-Identifier: BSD-3-Clause
# Completion of coll(1) for zsh.  Commands, options and words come from the program's own help.

# The options of command $1, or of coll itself: "--option:what it does".
_coll_options() {
    local -a options

    options=(${(f)"$(coll $1 --help 2>/dev/null |
        sed -nE 's/^ {2,6}(-[A-Za-z], )?(--[a-z-]+)( [A-Z][A-Z=|a-z]*)? +(.*)/\2:\4/p')"})
    _describe -o option options
}

# The words of which coll perf expects one, after the words $@.
_coll_perf_words() {
    compadd -- ${(s:, :)"$(coll perf "$@" nosuch 2>&1 | sed -n 's/.*expected one of //p')"}
}

# The names in the part of `coll info --json` from member $1 to member $2.
_coll_info_names() {
    compadd -- ${(f)"$(coll info --json 2>/dev/null |
        sed -n "/\"$1\"/,/\"$2\"/s/.*\"name\": \"\([a-z0-9_.]*\)\".*/\1/p")"}
}

# The value of option $2 of command $1; status 1: it has none, or none that can be listed.
_coll_value() {
    case $1/$2 in
    perf/-d | perf/--datatype) _coll_perf_words --datatype ;;
    explain/--schedule) _coll_perf_words ;;
    perf/-o | perf/--op) _coll_perf_words --op ;;
    perf/-c | perf/--check) compadd yes no ;;
    perf/-m | perf/--memory) compadd host cuda managed library ;;
    run/-b | run/--backend) _coll_info_names backends options ;;
    run/--bind-to) compadd share core none ;;
    run/--stdin) compadd 0 none ;;
    info/-o | info/--option) _coll_info_names options notes ;;
    check/-o | check/--only) compadd -- ${(f)"$(coll check --list 2>/dev/null | sed 's/ .*//')"} ;;
    *) return 1 ;;
    esac
}

_coll() {
    local -a commands

    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
        commands=(${(f)"$(coll help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+)( \[COMMAND\])? +(.*)/\1:\3/p')"})
        if [[ $PREFIX == -* ]]; then
            _coll_options
        else
            _describe command commands
        fi
    elif _coll_value $words[2] $words[CURRENT-1]; then
        :
    elif [[ $PREFIX == -* ]]; then
        _coll_options $words[2]
    else
        case $words[2] in
        perf) _coll_perf_words ;;
        run) _command_names -e || _files ;;
        check) _files -g '*.so' ;;
        explain) _files ;;
        trace) if ((CURRENT == 3)); then compadd merge report export; else _files; fi ;;
        esac
    fi
}

_coll "$@"
