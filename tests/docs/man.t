#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# man.t - the options in --help, in the man page and in the completion are the same.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=$(cd "${top_builddir:-.}" && pwd)/coll
page=${top_srcdir:-.}/tools/coll.1
completion=${top_srcdir:-.}/tools/completion/coll.bash

# Each list has one option a line, sorted.

# Options stand at the beginning of a line, "  -n, --ranks N"; the rest of the line is prose.
help_options() {
    sed -nE 's/^ +((-[A-Za-z], )?--[a-z-]+|-[A-Za-z]).*/\1/p' | tr -s ', ' '\n' | sort
}

# Options are the lines after .TP, in the section with heading $1.
man_options() {
    awk -v wanted="$1" '
        /^\.S[HS] / { heading = substr($0, 5); gsub(/"/, "", heading)
                      if (/^\.SH/ || heading == wanted) inside = heading == wanted }
        inside && tag { print }
        { tag = /^\.TP/ }' "$page" |
        sed 's/\\fI.*//; s/\\fB.*//; s/\\-/-/g' | grep -oE -- '(^|[ "])--?[A-Za-z][a-z-]*' |
        tr -d ' "' | sort
}

# completed WORDS: prints the words that the completion offers for the last of them.
completed() {
    (
        # shellcheck source=/dev/null
        . "$completion"
        COMP_WORDS=(coll "$@")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _coll
        printf '%s\n' "${COMPREPLY[@]}" | sort
    )
}

completion_options() {
    completed "$@" -
}

same() {
    none "$1" "$(diff <(echo "$2") <(echo "$3"))"
}

options=$("$coll" --help | help_options)
check "there are options" [ -n "$options" ]
same "coll: help and man page" "$options" "$(man_options 'Options of coll itself')"
same "coll: help and completion" "$options" "$(completion_options)"

commands=$("$coll" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
check "there are commands" [ -n "$commands" ]
for command in $commands; do
    options=$("$coll" "$command" --help | help_options)
    heading="COLL $(echo "$command" | tr '[:lower:]' '[:upper:]')"
    same "coll $command: help and man page" "$options" "$(man_options "$heading")"
    same "coll $command: help and completion" "$options" "$(completion_options "$command")"
    same "coll help $command is coll $command --help" "$("$coll" "$command" --help)" \
        "$("$coll" help "$command")"
    none "coll $command --help fits a terminal" \
        "$("$coll" "$command" --help | awk 'length > 88')"
    check "coll $command has an example in the man page" \
        grep -qE "^\.B coll (.* )?$command( |$)" "$page"
done

# The command must accept every option that its help shows, and not reject it as unknown.  An option that takes the
# name of a file to write takes --no-such-option for it.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
for command in $commands; do
    for option in $("$coll" "$command" --help | help_options); do
        none "coll $command knows $option" \
            "$(cd "$scratch" && timeout 60 "$coll" "$command" "$option" --no-such-option 2>&1 </dev/null |
                grep "no option '$option'")"
    done
done

# perf_words ARG...: the words of which `coll perf` expected one in place of the last.
perf_words() {
    "$coll" perf "$@" 2>&1 | sed -n 's/.*expected one of //p' | tr -s ', ' '\n' | sort
}

# lacks TEXT WORDS: prints the words that the text lacks.
lacks() {
    echo "$2" | while read -r word; do
        echo "$1" | grep -qw -- "$word" || echo "$word"
    done
}

section=$(sed -n '/^\.SH COLL PERF/,/^\.SH COLL CHECK/p' "$page")
for option in --datatype --op ''; do
    # shellcheck disable=SC2086 # none or one
    words=$(perf_words $option nosuch)
    name="coll perf ${option:-COLLECTIVE}"
    check "$name: there are words" [ -n "$words" ]
    # shellcheck disable=SC2086
    same "$name: completion" "$words" "$(completed perf $option '')"
    none "$name: man page" "$(lacks "$section" "$words")"
    # The help has no room for all types.
    [ "$option" = --datatype ] || none "$name: help" "$(lacks "$("$coll" perf --help)" "$words")"
done

# bash splits words at = and :.
options=$("$coll" run --help | help_options)
for words in '-e A = 1' '--env = A = 1' '-e A = /a : /b : /c' '-e A == b' '-eA = 1' '--backend = tcp'; do
    # shellcheck disable=SC2086 # words
    same "completion after '$words'" "$options" "$(completion_options run -n 2 $words)"
done

# shellcheck source=/dev/null
words=$(. "$completion"; COMP_WORDS=(coll ''); COMP_CWORD=1; _coll
    printf '%s\n' "${COMPREPLY[@]}" | grep -v '^-' | sort)
same "completion knows the commands" "$({ echo help; echo "$commands"; } | sort)" "$words"

if man --help 2>/dev/null | grep -q -e --warnings; then
    none "the man page is well-formed" "$(LC_ALL=C man --warnings -l "$page" 2>&1 >/dev/null)"
else
    skip "the man page is well-formed" "man cannot check it here"
fi

done_testing
