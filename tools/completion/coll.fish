# SPDX-License-Identifier: BSD-3-Clause
# Completion of coll(1) for fish.  Commands, options and words come from the program's own help.

# The command of the line: the word after coll.
function __coll_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and echo $words[2]
end

function __coll_no_command
    test (count (commandline -opc)) -eq 1
end

# The line belongs to command $argv[1].
function __coll_is
    test "$(__coll_command)" = $argv[1]
end

# Commands with a word about each.
function __coll_commands
    coll help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+)( \[COMMAND\])? +(.*)/\1\t\3/p'
end

# The long options of the line's command, with a word about each.
function __coll_options
    coll (__coll_command) --help 2>/dev/null |
        sed -nE 's/^ {2,6}(-[A-Za-z], )?(--[a-z-]+)( [A-Z][A-Z=|a-z]*)? +(.*)/\2\t\4/p'
end

# The words of which coll perf expects one, after the words $argv.
function __coll_perf_words
    coll perf $argv nosuch 2>&1 | sed -n 's/.*expected one of //p' | string split ', '
end

# The names in the part of `coll info --json` from member $argv[1] to member $argv[2].
function __coll_info_names
    coll info --json 2>/dev/null | sed -n "/\"$argv[1]\"/,/\"$argv[2]\"/s/.*\"name\": \"\([a-z0-9_.]*\)\".*/\1/p"
end

complete -c coll -n __coll_no_command -f -a '(__coll_commands)'
complete -c coll -n '__coll_is help' -f -a '(__coll_commands)'
complete -c coll -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__coll_options)'
complete -c coll -n '__coll_is perf' -f -a '(__coll_perf_words)'
complete -c coll -n '__coll_is perf' -x -s d -l datatype -a '(__coll_perf_words --datatype)'
complete -c coll -n '__coll_is perf' -x -s o -l op -a '(__coll_perf_words --op)'
complete -c coll -n '__coll_is perf' -x -s c -l check -a 'yes no'
complete -c coll -n '__coll_is perf' -x -s m -l memory -a 'host cuda managed library'
complete -c coll -n '__coll_is explain' -F
complete -c coll -n '__coll_is explain' -x -l schedule -a '(__coll_perf_words)'
complete -c coll -n '__coll_is run' -a '(__fish_complete_command)'
complete -c coll -n '__coll_is run' -x -s b -l backend -a '(__coll_info_names backends options)'
complete -c coll -n '__coll_is run' -x -l bind-to -a 'share core none'
complete -c coll -n '__coll_is run' -x -l stdin -a '0 none'
complete -c coll -n '__coll_is info' -f -a '(__coll_info_names options notes)'
complete -c coll -n '__coll_is info' -x -s o -l option -a '(__coll_info_names options notes)'
complete -c coll -n '__coll_is check' -x -s o -l only -a "(coll check --list 2>/dev/null | sed 's/ .*//')"
complete -c coll -n '__coll_is trace; and test (count (commandline -opc)) -eq 2' -f -a 'merge report export'
