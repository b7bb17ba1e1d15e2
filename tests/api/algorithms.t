#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# algorithms.t - the rules by which algorithms are chosen: shown, set, refused, the same on all ranks;
# and each algorithm of the table does its collective when a rule asks for it.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
plugins=$(cd "${top_builddir:-.}/.libs" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export COLL_PLUGIN_PATH=$plugins XDG_CONFIG_HOME=$dir/no-config

info() {
    timeout 60 "$coll" info --algorithms "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# ------------------------------------------------------------------------ text

info
is "the built-in rules: status 0" $status 0
has "an algorithm and its range" "$dir/out" '^ +[0-9]+  recursive_doubling   up to 32K bytes$'
has "one for every call" "$dir/out" '^ +[0-9]+  ring +every call$'
has "the algorithms" "$dir/out" '^    ring +reduce-scatter and allgather round a ring'
has "their properties in words" "$dir/out" 'recursive_doubling .*\(keeps the operands in rank order\)$'
none "nothing on stderr" "$(cat "$dir/err")"
none "a rule for every collective" "$(
    for kind in allreduce broadcast reduce allgather reduce_scatter alltoall gather scatter \
        allgatherv reduce_scatterv alltoallv gatherv scatterv barrier \
        scan exscan; do
        sed '/^Algorithms/,$d' "$dir/out" | grep -A1 "^  $kind\$" | grep -q '^     1  ' ||
            echo "$kind has none"
    done)"

COLL_ALLREDUCE_ALGORITHM='ring bytes 3-1M block -64K ranks 4- power two nodes 2-7 memory host cpus own' info
has "a rule of the user, in words" "$dir/out" \
    '^     1  ring +3 to 1M bytes, up to 64K bytes a rank, 4 ranks or more, a power of two of ranks, 2 to 7 nodes, host memory, own processors  \(COLL_ALLREDUCE_ALGORITHM\)$'
has "then the built-in ones" "$dir/out" '^     2  '

info --ranks 6
has "six ranks are no power of two" "$dir/out" 'never: the number of ranks is not a power of two'
has "some rules are for odd operations" "$dir/out" 'only operations that do not commute reach the rule'
info --ranks 8
none "eight are" "$(grep 'power of two$' "$dir/out" | grep never)"
COLL_BROADCAST_ALGORITHM='chain power other, binomial power two' info --ranks 6
has "a rule for powers of two on six ranks" "$dir/out" 'binomial +a power of two of ranks .*never: the rule is for other numbers of ranks'
none "and one for all others" "$(grep 'chain .*COLL_BROADCAST_ALGORITHM.*never' "$dir/out")"
COLL_BROADCAST_ALGORITHM='binomial, chain' info --ranks 4
has "a rule behind one for every call" "$dir/out" 'chain +every call .*never: earlier rules take'
COLL_ALLREDUCE_ALGORITHM='two_level' info --ranks 4 --nodes 1
has "an algorithm for several nodes on one" "$dir/out" 'two_level .*never: there must be several'
COLL_REPRODUCIBLE=yes info --ranks 4
has "reproducible mode passes others over" "$dir/out" 'ring .*never: its results are not repro'
COLL_REPRODUCIBLE=yes COLL_REDUCE_ALGORITHM=binomial info --ranks 4
is "also an algorithm that the user names: status 0" $status 0
has "with its reason" "$dir/out" \
    'binomial +every call  \(COLL_REDUCE_ALGORITHM\).*never: its results are not repro'
none "and it is no fault" "$(cat "$dir/err")"
awk '/^#[a-z_]*_algorithm = ./ { on = 1 } /^#reproducible = no$/ { $0 = "#reproducible = yes"; on = 1 }
    { sub(on ? "^#" : "^$", ""); print } !/\\$/ { on = 0 }' \
    "${top_srcdir:-.}/conf/coll.conf" >"$dir/coll.conf"
is "coll.conf with its own rules and reproducible mode: all lines" \
    "$(grep -cE '^([a-z_]*_algorithm = .*|reproducible = yes)$' "$dir/coll.conf")" 17
COLL_CONFIG=$dir/coll.conf info
is "is no error" $status 0
COLL_CONFIG=$dir/coll.conf timeout 60 "$coll" perf -t 2 -s 64 allreduce >"$dir/out" 2>&1
is "and makes a communicator" $? 0

# ------------------------------------------------------------------------ JSON

if command -v python3 >/dev/null; then
    json() {
        python3 -c 'import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
print(eval(sys.argv[2]))' "$dir/out" "$1" 2>&1
    }
    COLL_ALLREDUCE_ALGORITHM='ring bytes 4K- block -64K local 2-8 memory cuda cpus shared power two, recursive_doubling ranks -4' \
        info --json --ranks 4
    is "JSON: members" "$(json '" ".join(d)')" "rules algorithms"
    is "JSON: the first rule" "$(json '" ".join(str(v) for v in d["rules"][0].values())')" \
        "allreduce 1 ring 4096 None 0 65536 1 None 1 None 2 8 ['two'] ['cuda'] ['shared', 'few'] COLL_ALLREDUCE_ALGORITHM calls "
    is "JSON: the second" "$(json '(d["rules"][1]["ranks_max"], d["rules"][1]["memory"], d["rules"][1]["cpus"], d["rules"][1]["power"])')" \
        "(4, ['host', 'cuda'], ['own', 'shared', 'few'], ['two', 'other'])"
    is "JSON: built-in" "$(json 'd["rules"][2]["source"]')" default
    is "JSON: flags" \
        "$(json '[a["flags"] for a in d["algorithms"] if a["name"] == "recursive_doubling"][0]')" \
        "['ordered']"
else
    skip "JSON" "no python3"
fi

# --------------------------------------------------------------------- refused

COLL_ALLREDUCE_ALGORITHM='ring bytes 4K-, rinng' info
is "a bad rule: status 1" $status 1
has "says where, what and what not" "$dir/err" \
    "COLL_ALLREDUCE_ALGORITHM: option 'allreduce_algorithm' .*rule 2: 'rinng' is no algorithm of allreduce: expected one of .*; did you mean 'ring'\?"
has "and the built-in rules stay" "$dir/out" '^     3  .*32K bytes, 2 nodes or more$'
COLL_ALLTOALLV_ALGORITHM='pairwise bytes 4K-' info
has "bytes where counts differ" "$dir/err" "'bytes' cannot be used: ranks call this collective"
COLL_ALLGATHER_ALGORITHM='ring block 4K-' info
has "the part of a rank where the count is one" "$dir/err" \
    "rule 1: 'block' cannot be used: the count argument of allgather is one rank's part already"
COLL_ALLREDUCE_ALGORITHM=rinng timeout 60 "$coll" perf -t 2 -e 64 allreduce >"$dir/out" 2>&1
is "no communicator with a bad rule" $? 1
has "and it says why" "$dir/out" "'rinng' is no algorithm"

info --ranks 2 --nodes 3
is "more nodes than ranks: 2" $status 2
info --ranks none
is "no number: 2" $status 2
info timeout
is "an option's name: 2" $status 2
timeout 60 "$coll" info --ranks 3 >"$dir/out" 2>"$dir/err"
is "--ranks alone: 2" $? 2

# ------------------------------------------------------------------------- use

# All ranks use rank 0's rules, and the library warns ranks that have other rules.
cat >"$dir/differ" <<'END'
#!/bin/sh
[ "$COLL_RANK" = 0 ] || export COLL_ALLREDUCE_ALGORITHM=ring COLL_SEGMENT=4K
exec "$1" perf -s 8,300K -n 2 -w 0 allreduce
END
chmod +x "$dir/differ"
timeout 120 "$coll" run -n 3 -b tcp -- "$dir/differ" "$coll" >"$dir/out" 2>&1
is "ranks with different rules work together" $? 0
has "one is told" "$dir/out" \
    "rank 1: 'segment', 'allreduce_algorithm' differ from rank 0's; all ranks use rank 0's"
has "so is the other" "$dir/out" 'rank 2: '

# Runs COLL_<KIND>_ALGORITHM=NAME for every algorithm whose collective `coll perf` has.
use() {
    env "COLL_$(echo "$1" | tr '[:lower:]' '[:upper:]')_ALGORITHM=$2" COLL_NODE_SIZE=2 \
        timeout 120 "$coll" perf -t 4 -s 0,8,1K,300K -n 1 -w 0 "$1"
}
timeout 60 "$coll" info --algorithms | sed '1,/^Algorithms/d' >"$dir/algorithms"
while read -r name rest; do
    case $name:$rest in
    allreduce: | broadcast: | reduce: | allgather: | reduce_scatter: | alltoall: | gather: | \
        scatter: | barrier:) kind=$name ;;
    *:) kind= ;;
    *) [ -z "$kind" ] || check "$kind by $name" use "$kind" "$name" ;;
    esac
done <"$dir/algorithms"

done_testing
