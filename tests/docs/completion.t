#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# completion.t - zsh and fish complete the commands, options and words of coll; man.t has bash.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
files=$src/tools/completion
PATH=$(cd "${top_builddir:-.}" && pwd):$PATH
export PATH
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Lines, and the same completed.
cat >"$dir/lines" <<'END'
coll per|coll perf
coll help pro|coll help prove
coll --ver|coll --version
coll perf --dat|coll perf --datatype
coll perf --datatype float8e5|coll perf --datatype float8e5m2
coll perf -o minl|coll perf -o minloc
coll perf allr|coll perf allreduce
coll explain --schedule allr|coll explain --schedule allreduce
coll explain --go|coll explain --goal
coll run --gra|coll run --grace
coll run --bind-to sh|coll run --bind-to share
coll run -b simul|coll run -b simulated
coll info -o check_b|coll info -o check_buffers
coll prove --mutants --see|coll prove --mutants --seed
END

if ! command -v zsh >/dev/null; then
    skip "zsh completes" "zsh is not here"
elif ! zsh -f -c 'zmodload zsh/zpty zsh/zselect && zpty -b try true' >/dev/null 2>&1; then
    skip "zsh completes" "zsh cannot have a terminal of its own here"
else
    cut -d'|' -f1 "$dir/lines" | tr '\n' '\0' |
        xargs -0 zsh -f "$src/tests/docs/complete.zsh" "$files/coll.zsh" | sed 's/ *$//' >"$dir/zsh"
    cut -d'|' -f2 "$dir/lines" >"$dir/wanted"
    none "zsh completes" "$(diff "$dir/zsh" "$dir/wanted")"
fi

# fish_words LINE: the words that fish offers for the last one of the line.
fish_words() {
    fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$files/coll.fish" "$1" | sed 's/\t.*//'
}

if command -v fish >/dev/null; then
    while IFS='|' read -r line wanted; do
        is "fish completes $line" "$(fish_words "$line")" "${wanted##* }"
    done <"$dir/lines"
    for command in $(coll help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$'); do
        is "fish offers the options of coll $command" "$(fish_words "coll $command --" | sort)" \
            "$(coll "$command" --help | sed -nE 's/^ {2,6}(-[A-Za-z], )?(--[a-z-]+).*/\2/p' | sort)"
    done
else
    skip "fish completes" "fish is not here"
fi

done_testing
