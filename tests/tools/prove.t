#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# prove.t - `coll prove`: every algorithm of the table is proven, every planted bug is caught.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Sanitizers make the prover many times slower.
level=
most=257 power=128
sweeps='"pieces_40", "staged"'
if [ -n "${TEST_SANITIZE:-}" ]; then
    level=--quick
    most=65 power=16
    sweeps='"pieces_40",'
fi

# A proof computes, and most tests beside it wait for each other: these go first.
prove() {
    timeout 3000 nice -n 10 "$coll" prove "$@" >"$dir/out" 2>"$dir/err" </dev/null
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
# beyond RULES: writes what is wrong if an algorithm of the document in out is not tried beyond the places where its
# rules, in the document RULES, begin.  A rule that begins with many ranks ends the last proof of fewer.
beyond() {
    python3 - "$dir/out" "$1" <<'END'
import json, sys
tried = {(a["collective"], a["algorithm"]): a for a in json.load(open(sys.argv[1]))["algorithms"]}
for rule in json.load(open(sys.argv[2]))["rules"]:
    a = tried[rule["kind"], rule["algorithm"]]
    longest = max(rule["bytes_min"], rule["block_min"] * a["ranks_to"])
    if a["ranks_to"] <= rule["ranks_min"] and a["ranks_to"] < 1000:
        print(rule, "begins where the proof ends, with", a["ranks_to"], "ranks")
    if longest and a["bytes_to"] <= longest:
        print(rule, "begins where the proof ends, with", a["bytes_to"], "bytes")
END
}

# shellcheck disable=SC2086 # empty or one word
prove $level --json
is "every algorithm is proven" "$status" 0
json "each says so" '[a for a in d["algorithms"] if a["verdict"] != "proven"]'
json "each was tried up to the most ranks that it is for" \
    '[a for a in d["algorithms"] if a["ranks_to"] < '$most' and a["algorithm"] != "recursive_doubling"
        or a["ranks_to"] < '$power' or a["cases"] < 10]'
json "each with counts beyond 32 bits" \
    '[a for a in d["algorithms"] if a["bytes_to"] < 2 ** 33 and a["collective"] != "barrier"]'
json "few ranks: every combination" '[a for a in d["algorithms"] if a["tried"]["all"] == "none" and
    a["algorithm"] not in ("two_level",) and a["cases"]]'
json "each with 40 pieces a block, and with staged buffers" '[(a, sweep)
    for a in d["algorithms"] if a["collective"] != "barrier"
    for sweep in ('"$sweeps"') if a["tried"][sweep] == "none"]'
if [ "$level" = --quick ]; then
    skip "and with more pieces than a rank has sends under way" "too long under a sanitizer"
else
    json "and with more pieces than a rank has sends under way" '[a for a in d["algorithms"]
        if a["tried"]["pieces_140"] == "none" and a["collective"] != "barrier"]'
fi
if command -v python3 >/dev/null; then
    "$coll" info --algorithms --json >"$dir/rules" 2>/dev/null
    none "each beyond the place where its rules begin" "$(beyond "$dir/rules" 2>&1)"
else
    skip "each beyond the place where its rules begin" "no python3 to read JSON with"
fi
for kind in allreduce broadcast reduce allgather reduce_scatter alltoall gather scatter \
    allgatherv reduce_scatterv alltoallv gatherv scatterv barrier send recv \
    scan exscan; do
    json "$kind has an algorithm" "'$kind' not in [a['collective'] for a in d['algorithms']]"
done

# The whole long proof takes ten minutes on two processors, and most of them with many ranks.  Each run draws other cases.
if is_long && [ -z "$level" ]; then
    seed=${TEST_SEED:-$(date +%s)}
    prove --long --ranks 1-33 --seed "$seed" --json
    is "coll prove --long --ranks 1-33 --seed $seed: every algorithm is proven" "$status" 0
    json "every root with every count, with each number of ranks" '[a["tried"]["pairs"] for a in d["algorithms"]
        if a["algorithm"] == "binomial" and a["collective"] == "broadcast" and a["tried"]["pairs"] != "1-33"]'
else
    skip "the long proof" "make check-long runs it, but for a sanitizer"
fi

# ---- the bugs ----
prove --mutants --json
is "every bug is caught" "$status" 0
json "each by the check that fits" '[m for m in d["mutants"]
    if m["verdict"] != "caught" or m["check"] not in m["failures"] or not m["planted"]]'
json "there are at least fifty different ones" 'len(set(m["name"] for m in d["mutants"])) < 50'
json "among them builders that are wrong in few cases, which the usual proof finds" \
    '{"count-20-bits", "piece-33", "round-less", "list-ignored", "long-window", "odd-pieces"}.difference(
    m["name"] for m in d["mutants"] if m["proof"] == "coll prove")'
json "and one for a single root and count, which the long proof finds" \
    '[m for m in d["mutants"] if m["name"] == "one-pair" and m["proof"] != "coll prove --long"]'
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
has "as a table" '^allreduce/ring +3-5 +3 +[0-9]+ +[0-9]+ +[0-9]+ +1  proven$'
none "with nothing else in it" "$(grep -E '^[a-z_]+/' "$dir/out" | grep -v '^allreduce/ring ')"
# tried WORDS: prints the numbers of ranks below a line of the output that begins so.
tried() {
    sed -n "/^  $1/{n;s/^ *//;p;}" "$dir/out"
}
prove --ranks 1
is "one rank alone" "$status" 0
none "every algorithm but that for several nodes is proven with it" \
    "$(grep -E '^[a-z_]+/' "$dir/out" | grep -vE '^allreduce/two_level | 1-1 .* proven$')"
prove --algorithm broadcast/binomial --ranks 65-66
is "many ranks alone" "$status" 0
is "not all combinations are tried with them" "$(tried 'every combination')" none
is "but all roots" "$(tried 'every root, or pair of ranks$')" 65-66
has "and other cases, which a seed draws" '--seed 1\.'
prove --algorithm broadcast/binomial --ranks 65-66 --seed 2
is "another seed draws others" "$status" 0
has "and is named" '--seed 2\.'
# messages COUNT: prints the number of messages of two_level on 12 ranks.
messages() {
    prove --algorithm allreduce/two_level --ranks 12 --count "$1"
    awk '$1 == "allreduce/two_level" && $NF == "proven" { print $6 / $4 }' "$dir/out"
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
prove --seed x
is "no seed" "$status" 2
prove allreduce
is "no arguments" "$status" 2

done_testing
