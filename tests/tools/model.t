#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# model.t - `coll model`: times of schedules in LogGP equal the formulas of the textbooks.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config

model() {
    timeout 300 "$coll" model "$@" >"$dir/out" 2>"$dir/err" </dev/null
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

# The machine, in nanoseconds: latency, overhead, gap, a byte, reducing a byte.
L=1000 o=200 g=300 G=2 R=3

# takes NAME RANKS BYTES NANOSECONDS [OPTION]...: the algorithm takes exactly so long.
takes() {
    local name=$1 ranks=$2 bytes=$3 ns=$4
    shift 4
    model --far $L,$o,$g,$G --near 1,1,1,1 --reduce $R -r "$ranks" -s "$bytes" "$@" "$name"
    is "$name, $ranks ranks, $bytes bytes" \
        "$(awk '$1 == "'"${name%/*}"'" { print $(NF - 1) }' "$dir/out")" \
        "$(printf '%d.%03d' $((ns / 1000)) $((ns % 1000)))"
}

# message BYTES: the time of one message that nothing delays.
message() {
    echo $((o + ($1 - 1) * G + L + o))
}

# ---- closed forms ----
# Recursive doubling: log2(n) rounds of a whole message and its reduction.
rounds=1
for ranks in 2 4 8 64; do
    [ $ranks -lt 64 ] || rounds=6
    for bytes in 1 8 1000; do
        takes allreduce/recursive_doubling $ranks $bytes \
            $((rounds * ($(message $bytes) + bytes * R)))
    done
    rounds=$((rounds + 1))
done
# Three ranks: one lends its data to its neighbour.  The third rank's message is there by the time when the
# neighbour has sent the sum of both; the neighbour adds it and returns the result.
takes allreduce/recursive_doubling 3 100 \
    $(($(message 100) + 100 * R + o + 99 * G + o + 100 * R + $(message 100)))

# A ring: n - 1 rounds with a reduction of a block, n - 1 without.
for ranks in 2 3 5 16; do
    for block in 1 8 1000; do
        takes allreduce/ring $ranks $((ranks * block)) \
            $(((ranks - 1) * (2 * $(message $block) + block * R)))
    done
done
takes allgather/ring 7 50 $((6 * $(message 50) + 50 * R)) # and a copy of the own block
takes reduce_scatter/ring 7 50 $((6 * ($(message 50) + 50 * R)))

# Rabenseifner: halves of the data, then quarters, ..., and back.
takes allreduce/rabenseifner 8 800 $((2 * ($(message 400) + $(message 200) + $(message 100)) + 700 * R))

# A binomial tree: the last rank is reached over log2(n) messages one after another, since each rank sends to
# the largest subtree first.
for ranks in 2 4 8 16; do
    rounds=$((ranks == 2 ? 1 : ranks == 4 ? 2 : ranks == 8 ? 3 : 4))
    takes broadcast/binomial $ranks 10 $((rounds * $(message 10)))
    takes reduce/binomial $ranks 10 $((rounds * ($(message 10) + 10 * R)))
done
takes barrier/dissemination 8 0 $((3 * $(message 1)))

# One port: root's messages follow each other, the gap between them.
takes scatter/linear 5 100 $((3 * (99 * G + g) + $(message 100)))

# A node of two ranks has one port to other nodes, and messages within it take 1 + 1 + 1 + (k - 1).
takes alltoall/pairwise 2 10 $((1 + 10 * R + 1)) --node-size 2 # the copy takes longer than the message
takes allreduce/two_level 4 100 \
    $((2 * (3 + 99) + 100 * R + $(message 100) + 100 * R)) --node-size 2
# Both ranks of a node send to the other node at once: the second message waits for the first.
takes allreduce/recursive_doubling 4 100 \
    $((3 + 99 + 100 * R + 99 * G + g + $(message 100) + 100 * R)) --node-size 2

# Two ranks on one processor: both send before the first message is there; then two receives, two reductions.
takes allreduce/recursive_doubling 2 100 $((1 + 1 + 99 + 2 * (1 + 100 * R))) --node-size 2 --cores 1
takes allreduce/recursive_doubling 2 100 $((3 + 99 + 100 * R)) --node-size 2 --cores 2
takes allreduce/recursive_doubling 4 8 $((2 * ($(message 8) + 8 * R))) --cores 1

# ---- the output ----
model -r 2,3 -s 8,1M allreduce broadcast/chain
is "several ranks, sizes and names: status 0" "$status" 0
has "a time for each" '^broadcast +3 +3 +1048576 +chain +[0-9.]+ +1\.00$'
has "the rules' choice is marked" '^allreduce +2 +2 +8  \* recursive_doubling '
COLL_ALLREDUCE_ALGORITHM='rabenseifner block 4-' model -r 2 -s 8 allreduce
has "also if it is the user's" '^allreduce +2 +2 +8  \* rabenseifner '
COLL_ALLREDUCE_ALGORITHM='rabenseifner block 5-' model -r 2 -s 8 allreduce
has "only where the rule matches" '^allreduce +2 +2 +8    rabenseifner '
model -r 16 -s 1M --node-size 16 --cores 2 broadcast
has "two processors are few" '^broadcast +16 +1 +1048576  \* linear '
model -r 16 -s 1M --node-size 16 --cores 3 broadcast
has "three are not" '^broadcast +16 +1 +1048576  \* scatter_allgather '
model -r 4 -s 8 --node-size 4 --cores 3 allreduce
has "but shared by four ranks" '^allreduce +4 +1 +8  \* linear '
model -r 4 -s 8 --node-size 4 --cores 4 allreduce
has "and four are not" '^allreduce +4 +1 +8  \* recursive_doubling '
none "algorithms that are not for these ranks are left out" \
    "$(timeout 60 "$coll" model -r 3 -s 8 allgather allreduce |
        grep -e '^allgather .*recursive_doubling' -e two_level)"
if command -v python3 >/dev/null; then
    model --json -r 4 -s 64 --far 1,1,1,1 --reduce 0.5 allreduce/recursive_doubling
    is "as JSON" "$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["times"])' "$dir/out")" \
        "[{'collective': 'allreduce', 'ranks': 4, 'nodes': 4, 'bytes': 64, 'algorithm': \
'recursive_doubling', 'microseconds': 0.196, 'ratio': 1, 'chosen': True}]"
else
    skip "as JSON" "no python3"
fi
model -r 12 -s 16,1K
is "every collective" "$(awk 'NR > 1 { print $1 }' "$dir/out" | sort -u | wc -l)" 16

# ---- the command line ----
none "the help fits 80 columns" "$("$coll" model --help | awk 'length > 80')"
for wrong in --ranks=0 '--ranks=2,' --ranks=1025 --ranks= --sizes=x '--sizes=8,' --sizes=2G --node-size=0 --cores=0 \
    --segment=x --segment=4095 --far=1,2,3 --far=1,2,3,4,5 --far=1,2,3,x --near=1,2,-3,4 --reduce=nan --reduce=1x \
    --rank allreduce/rings send; do
    model "$wrong"
    is "'$wrong' is refused" "$status" 2
done
model --far 1,2
has "with the form that was expected" "'1,2' is no value for --far or --near: four times in nanoseconds"
model allreduce/rings
has "or the name" "no algorithm 'allreduce/rings'"

done_testing
