#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# prove.t - `coll prove`: every algorithm of the table is proven, every planted bug is caught.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Sanitizers make the prover many times slower.
level=
least=64
if [ -n "${TEST_SANITIZE:-}" ]; then
    level=--quick
    least=17
fi

prove() {
    timeout 1200 "$coll" prove "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

is() {
    none "$1" "$([ "$2" = "$3" ] || { printf 'got: %s\nexpected: %s\n' "$2" "$3"
        cat "$dir/out" "$dir/err"; })"
}

has() {
    none "$1" "$(grep -qE -- "$2" "$dir/out" "$dir/err" ||
        { echo "no '$2' in:"; cat "$dir/out" "$dir/err"; })"
}

# json NAME EXPRESSION: makes one check: the Python expression finds no fault in the document d.
json() {
    if ! command -v python3 >/dev/null; then
        skip "$1" "no python3 to read JSON with"
        return
    fi
    none "$1" "$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]) or "", end="")' "$dir/out" "$2" 2>&1)"
}

# ---- the algorithms ----
# shellcheck disable=SC2086 # empty or one word
prove $level --json
is "every algorithm is proven" "$status" 0
json "each says so" '[a for a in d["algorithms"] if a["verdict"] != "proven"]'
json "each was tried up to the most ranks that it is for" \
    '[a for a in d["algorithms"] if a["ranks_to"] < '$least' - 1 or a["cases"] < 10]'
json "each with messages longer than any length from which a builder goes another way" \
    '[a for a in d["algorithms"] if a["bytes_to"] < 262144 and a["collective"] != "barrier"]'
if [ -n "$level" ]; then
    skip "few ranks: every combination" "too long under a sanitizer"
else
    json "few ranks: every combination" '[a for a in d["algorithms"] if 0 < a["sampled_from"] < 7]'
fi
for kind in allreduce broadcast reduce allgather reduce_scatter alltoall gather scatter \
    allgatherv reduce_scatterv alltoallv gatherv scatterv barrier send recv \
    scan exscan; do
    json "$kind has an algorithm" "'$kind' not in [a['collective'] for a in d['algorithms']]"
done

# ---- the bugs ----
prove --mutants --json
is "every bug is caught" "$status" 0
json "each by the check that fits" '[m for m in d["mutants"]
    if m["verdict"] != "caught" or m["check"] not in m["failures"] or not m["planted"]]'
json "there are at least twelve different ones" 'len(set(m["name"] for m in d["mutants"])) < 12'
json "each check catches some" '{"result", "order", "deadlock", "race", "messages"}.difference(
    m["check"] for m in d["mutants"])'
prove --mutant nothing
is "a mutant that changes nothing is not caught" "$status" 1
has "and is called a survivor" '^nothing .*SURVIVED'
prove --mutant wrong-peer
is "one bug can be chosen" "$status" 0
has "it says where it was planted" 'planted: broadcast/binomial, rank 0, step 0: sends to rank'
has "and what is wrong, in a sentence" \
    'messages: broadcast binomial, 4 ranks, count 9, root 0: rank 2, step 0 .*never sent'

# ---- the command line ----
prove --algorithm allreduce/ring --ranks 3-5 --count 7
is "one algorithm, some ranks, one count" "$status" 0
has "as a table" '^allreduce/ring +3-5 +[0-9]+ +[0-9]+ +[0-9]+ +1  proven$'
none "with nothing else in it" "$(grep -E '^[a-z_]+/' "$dir/out" | grep -v '^allreduce/ring ')"
# messages COUNT: prints the number of messages of two_level on 12 ranks.
messages() {
    prove --algorithm allreduce/two_level --ranks 12 --count "$1"
    awk '$1 == "allreduce/two_level" && $NF == "proven" { print $5 / $3 }' "$dir/out"
}
short=$(messages 65535)
long=$(messages 65536)
none "two_level is proven on both sides of 64 KiB, where its leaders begin to exchange halves" "$(
    [ -n "$short" ] && [ -n "$long" ] && [ "$short" != "$long" ] ||
        echo "messages a case: '$short' of 65535 bytes, '$long' of 65536")"
short=$(messages 98303)
long=$(messages 98304)
none "and of 32 KiB a leader, here three of them, where they begin to use a ring" "$(
    [ -n "$short" ] && [ -n "$long" ] && [ "$short" != "$long" ] ||
        echo "messages a case: '$short' of 98303 bytes, '$long' of 98304")"
prove --algorithm broadcast --ranks 4
has "all algorithms of a collective" '^broadcast/binomial +4-4 '
prove --algorithm allgather/recursive_doubling --ranks 3
is "nothing proven is no proof" "$status" 1
has "and says why" 'no case$'
prove --algorithm allreduce/rings
is "an unknown algorithm" "$status" 2
has "is named" "no algorithm 'allreduce/rings'"
prove --mutant wrong-per
is "an unknown bug" "$status" 2
has "is named, with the one meant" "no mutant 'wrong-per', did you mean 'wrong-peer'"
for ranks in 0 0-3 5-4 x 1-x 1-100000 1- -3; do
    prove "--ranks=$ranks"
    is "no ranks: '$ranks'" "$status" 2
done
prove --count -1
is "no count" "$status" 2
prove --jobs 0
is "no jobs" "$status" 2
prove allreduce
is "no arguments" "$status" 2

done_testing
