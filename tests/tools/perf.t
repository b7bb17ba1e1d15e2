#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# perf.t - `coll perf`: right results pass, wrong ones are found, the columns are what they say.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

perf() {
    timeout 300 "$coll" perf "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

job() {
    local n=$1
    shift
    timeout 300 "$coll" run --no-prefix -n "$n" -- "$coll" perf "$@" \
        >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

is() {
    none "$1" "$([ "$2" = "$3" ] || printf 'got: %s\nexpected: %s\n' "$2" "$3"
        [ "$2" = "$3" ] || head -n 5 "$dir/err")"
}

# ------------------------------------------------------------- right results

ranks="1 2 3 5"
is_long || ranks="1 3"
for n in $ranks; do
    perf -t $n -s 0,8,1000,20000 -n 1 -w 0 -d all -o all --csv all
    is "$n ranks in one process, all types and operations: status 0" $status 0
    is "$n ranks: nothing wrong" "$(awk -F, 'NR > 1 && $13 != 0' "$dir/out")" ""
    # 14 types of numbers: 5 operations on each and 6 more on the 8 integers; 7 on bool, 3 on 2
    # complex types, 2 on 4 types of pairs; in and out of place, 4 sizes.
    none "$n ranks: every allreduce was made" "$(awk -F, '$1 == "allreduce"' "$dir/out" | wc -l |
        grep -vx $(((14 * 5 + 8 * 6 + 7 + 2 * 3 + 4 * 2) * 4 * 2)))"
done

real=tcp
if can ucx; then real="tcp ucx"; fi
for backend in $real; do
    for n in 2 4; do
        COLL_BACKEND=$backend job $n -s 8,4096,300000 -n 2 -w 1 all
        is "$n processes over $backend: status 0" $status 0
        has "$n processes over $backend: nothing wrong" "$dir/out" \
            '^# Out of bounds values : 0 OK$'
        has "$n processes over $backend: the last collective came" "$dir/out" '^# barrier$'
    done
done

COLL_BACKEND=tcp job 2 -s 8,300000 -n 2 -w 1 -m library all
is "memory of coll_mem_alloc: status 0" $status 0
has "memory of coll_mem_alloc: nothing wrong" "$dir/out" '^# Out of bounds values : 0 OK$'
has "memory of coll_mem_alloc: the heading names it" "$dir/out" '^# .*, library memory,'
perf -t 2 -s 1048576G -m library
is "more of it than there is: status 1" $status 1
has "more of it than there is: the reason" "$dir/err" 'no memory \(library\) for two buffers of .*: coll_mem_alloc: '
perf -t 8 -s 8 -n 1 -w 0 -d all --csv allgather
is "elements larger than a rank's part of the size: status 0" $status 0
is "elements larger than a rank's part of the size: one of them for each rank" \
    "$(awk -F, '$4 == "complex128" && $7 == "out" { print $2, $3, $13 }' "$dir/out")" "128 1 0"

perf -s 8 -n 1
is "alone: one rank" $status 0
has "which is said" "$dir/out" ' 1 rank,'

# ---------------------------------------------------------------- the columns

perf -t 4 -s 4096,1M -n 3 -w 1 allreduce
has "heading as in nccl-tests" "$dir/out" \
    '^# +size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw +busbw +#wrong$'
has "a row" "$dir/out" \
    '^ +4096 +1024 +float32 +sum +-1( +[0-9.]+){3} +0( +[0-9.]+){3} +0$'
none "no progress line where no terminal is" "$(cat "$dir/err")"

perf -t 4 -s 4096 -n 3 --csv all
factors='allreduce 1.5'
for kind in reduce_scatter allgather alltoall gather scatter; do factors+=" $kind 0.75 ${kind}v 0.75"; done
none "busbw is algbw times the factor" "$(awk -F, -v list="$factors" '
    BEGIN { n = split(list, f, " "); for (i = 1; i < n; i += 2) factor[f[i]] = f[i + 1] }
    NR > 1 && $2 > 0 { want = $11 * ($1 in factor ? factor[$1] : 1)
        if ($12 < want * 0.999 || $12 > want * 1.001) print }' "$dir/out")"
none "algbw is size over time" "$(awk -F, 'NR > 1 && $2 > 0 { want = $2 / $8 / 1000
    if ($11 < want * 0.99 || $11 > want * 1.01) print }' "$dir/out")"
none "the least time is not above the median" "$(awk -F, 'NR > 1 && $9 > $10' "$dir/out")"
is "allgather counts per rank" "$(awk -F, '$1 == "allgather" { print $2, $3; exit }' "$dir/out")" \
    "4096 256"

perf -t 2 -b 8 -e 1K -f 4 -n 1 --csv broadcast
is "sizes from -b, -e and -f" "$(awk -F, 'NR > 1 && $7 == "out" { print $2 }' "$dir/out" | xargs)" \
    "8 32 128 512"
perf -t 3 -s 64 -n 1 --root 2 --csv reduce
is "--root" "$(awk -F, 'NR == 2 { print $6 }' "$dir/out")" 2
perf -t 2 -s 64 -n 1 --check no --csv
is "--check no: no count of wrong elements" "$(awk -F, 'NR == 2 { print "[" $13 "]" }' "$dir/out")" \
    "[]"

perf -t 2 -s 8,4K -n 3 --group 20 --csv all
is "--group: status 0" $status 0
is "--group: a barrier has no group" "$(awk -F, '$1 == "barrier" { print $13 }' "$dir/out")" 0
none "--group: the results of all calls are right" "$(awk -F, 'NR > 1 && $13 != 0' "$dir/out")"
none "--group: bandwidth counts all calls" "$(awk -F, 'NR > 1 && $2 > 0 { want = 20 * $2 / $8 / 1000
    if ($11 < want * 0.99 || $11 > want * 1.01) print }' "$dir/out")"
perf -t 2 -n 1 --group 1000000 --csv barrier
is "--group: no memory for a group of barriers" "$status $(awk -F, 'NR == 2 { print $1 }' "$dir/out")" "0 barrier"
perf -t 2 -s 64,4K -n 3 --issue --csv all
none "--issue: how long a call takes to return, which is less than the whole" "$(awk -F, '
    NR == 1 && $NF != "issue_ns" { print }
    NR > 1 && ($NF <= 0 || ($1 != "barrier" && $NF > 2000 * $10 + 1000000)) { print }' "$dir/out")"
perf -t 2 -s 64 -n 3 --issue
has "--issue: two more columns" "$dir/out" '^ +64( +[^ ]+){12} +[0-9]+ +[0-9]+$'

if command -v python3 >/dev/null; then
    job 2 -s 8,64 -n 2 --json all
    is "JSON is well-formed" "$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
r = d["results"][0]
print(d["nranks"], d["wrong"], d["error"], r["collective"], r["size"],
      r["out_of_place"]["median_us"] >= r["out_of_place"]["min_us"] > 0)' "$dir/out" 2>&1)" \
        "2 0 None allreduce 8 True"
    perf -t 2 -s 33554432G -g 1048576 --json
    is "buffers beyond any memory: status 1" $status 1
    is "buffers beyond any memory: JSON is well-formed and has the reason" "$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(d["results"], "are more than any memory" in d["error"])' "$dir/out" 2>&1)" \
        "[] True"
else
    skip "JSON is well-formed" "no python3"
    skip "buffers beyond any memory" "no python3"
fi

# ------------------------------------------------- the words of nccl-tests

perf -t 2 -b 8 -e 32 -f 2 -n 2 -w 1 -c 1 -d float --csv
is "nccl-tests' options: status 0" $status 0
is "float is float32, and -c 1 checks" "$(awk -F, 'NR > 1 { print $4, $13 }' "$dir/out" | sort -u)" "float32 0"
for pair in char:int8 int:int32 half:float16 double:float64 f8e4m3:float8e4m3 f8e5m2:float8e5m2; do
    perf -t 2 -s 64 -n 1 -w 0 -c 0 -d ${pair%:*} --csv
    is "type ${pair%:*}, unchecked by -c 0" "$(awk -F, 'NR == 2 { print $4 "[" $13 "]" }' "$dir/out")" "${pair#*:}[]"
done

# ------------------------------- v-forms, persistent requests, percentiles

perf -t 3 -s 8,4096 -n 2 -w 1 --csv all
is "v-forms count per rank as their plain forms do" \
    "$(awk -F, '$2 > 12 && $1 ~ /^(allgather|reduce_scatter|alltoall|gather|scatter)v$/ { print $1, $2, $3 }' "$dir/out" | sort -u | xargs)" \
    "allgatherv 4092 341 alltoallv 4092 341 gatherv 4092 341 reduce_scatterv 4092 341 scatterv 4092 341"
for group in 1 3; do
    perf -t 3 -s 8,4096 -n 3 -w 1 -p -g $group --csv all
    is "persistent requests, group of $group: status 0" $status 0
    none "persistent requests, group of $group: nothing wrong" "$(awk -F, 'NR > 1 && $13 != 0' "$dir/out")"
    is "persistent requests, group of $group: every collective" \
        "$(awk -F, 'NR > 1 { print $1 }' "$dir/out" | sort -u | wc -l)" 17
done
perf -t 2 -s 64 -n 30 --percentiles --csv all
none "percentiles grow: median, p90, p99, longest" "$(awk -F, '
    NR == 1 && $0 !~ /,wrong,p90_us,p99_us,max_us$/ { print }
    NR > 1 && ($10 > $14 || $14 > $15 || $15 > $16) { print }' "$dir/out")"
perf -t 2 -s 64 -n 3 -P --issue
has "percentiles: eight more columns, and then those of --issue" "$dir/out" '^ +64( +[^ ]+){12}( +[0-9.]+){8} +[0-9]+ +[0-9]+$'
is "the heading has a name for each column" "$(sed -n '/^#.*size/p' "$dir/out" | wc -w)" 24

# ------------------------------------------------------ charts, comparison

perf -t 2 -b 8 -e 4K -f 4 -n 1 -d all --svg "$dir/chart.svg" allgather
is "--svg: status 0" $status 0
has "--svg: a line for each type" "$dir/chart.svg" 'allgather, float64'
has "--svg: in a colour that the style of the grid does not replace" "$dir/chart.svg" 'class="line" style="stroke:#d55e00"'
if command -v python3 >/dev/null; then
    is "--svg: well-formed, two panels with a line a type" "$(python3 -c 'import sys, xml.etree.ElementTree as E
r = E.parse(sys.argv[1]).getroot()
print(r.tag.split("}")[1], len([p for p in r.iter() if p.get("class") == "line"]))' "$dir/chart.svg" 2>&1)" "svg 42"
fi
perf -t 2 -s 0 -n 1 --svg "$dir/chart.svg" barrier
is "--svg of a barrier, which has no size: status 0" $status 0
perf -t 2 -s 8 -n 1 --svg "$dir/none/chart.svg"
is "--svg into no folder: status 1" $status 1
has "--svg into no folder: says so" "$dir/err" "cannot write '$dir/none/chart.svg': No such file"

perf -t 2 -s 8,64,256 -n 3 --json allreduce
cp "$dir/out" "$dir/before.json"
sed 's/"median_us": [0-9.e+-]*/"median_us": 3/' "$dir/before.json" >"$dir/three.json"
sed 's/"median_us": [0-9.e+-]*/"median_us": 6/; s/"size": 256/"size": 512/' "$dir/before.json" >"$dir/six.json"
perf --compare "$dir/three.json" "$dir/six.json"
is "--compare: status 0" $status 0
has "--compare: a row" "$dir/out" '^allreduce +64 +float32 +sum +in +3\.00 +6\.00 +2\.000$'
has "--compare: the mean" "$dir/out" 'geometric mean of the ratios after / before: 2\.000$'
has "--compare: rows of one file only" "$dir/out" '^# rows without a partner: 1 before, 1 after$'
perf --compare "$dir/before.json" "$dir/absent.json"
is "--compare with no file: status 1" $status 1
has "--compare with no file: says so" "$dir/err" "^coll perf: cannot read '$dir/absent.json': No such file"
head -c 200 "$dir/before.json" >"$dir/cut.json"
perf --compare "$dir/before.json" "$dir/cut.json"
is "--compare with half a file: status 1" $status 1
has "--compare with half a file: says where it ends" "$dir/err" "'$dir/cut.json' is no JSON document: byte 200: "
echo '{"results": 3}' >"$dir/other.json"
perf --compare "$dir/other.json" "$dir/before.json"
has "--compare with another document: says so" "$dir/err" "'$dir/other.json' is no output of coll perf --json"

# ------------------------------------------------------------ memory of devices

# Runs over stand-ins for the CUDA driver, and for NCCL if its backend was built.
fakes=${top_builddir:-.}/tests/fakes/.libs
on_devices() {
    LD_LIBRARY_PATH=$fakes STANDIN_CUDA_DEVICES=$1 "${@:2}"
}

export COLL_BACKEND=device COLL_PLUGIN_PATH=${top_builddir:-.}/tests/plugins/.libs
for kind in host cuda; do
    on_devices 2 perf -t 3 -s 8,30000 -n 1 -w 0 -m $kind --csv alltoall
    is "$kind memory: status 0" $status 0
    is "$kind memory: the results are right" "$(awk -F, 'NR > 1 { print $13 }' "$dir/out" | xargs)" \
        "0 0"
done
on_devices 2 perf -t 2 -s 8 -n 1 -m managed alltoall
is "memory that the backend does not take: status 1" $status 1
has "which is said" "$dir/out" '^# skipped: .* managed memory'
on_devices 2 perf -s 8 -n 1 alltoall
has "host memory, if the backend takes it" "$dir/out" '^# .*, host memory,'
export COLL_BACKEND=ondevice
on_devices 2 perf -s 64 -n 1
is "a backend that takes device memory only: status 0" $status 0
has "is measured with that" "$dir/out" '^# .*, cuda memory,'
has "and checked" "$dir/out" '^# Out of bounds values : 0 OK$'
unset COLL_BACKEND COLL_PLUGIN_PATH
on_devices 0 perf -s 8 -n 1 -m cuda
is "no device: status 1" $status 1
has "no device: says so" "$dir/err" '^coll perf: --memory cuda: no CUDA device can be used'

export COLL_BACKEND=nccl
if [ -e "${top_builddir:-.}/.libs/coll_nccl.so" ]; then
    for kind in cuda managed library; do
        on_devices 2 job 2 -s 64,30000 -n 2 -w 1 -m $kind all
        is "nccl, $kind memory: status 0" $status 0
        has "nccl, $kind memory: nothing wrong" "$dir/out" '^# Out of bounds values : 0 OK$'
    done
    on_devices 3 perf -t 3 -s 64,30000 -n 2 -w 1 all
    is "nccl, three ranks in one process: status 0" $status 0
    has "nccl, three ranks in one process: nothing wrong" "$dir/out" \
        '^# Out of bounds values : 0 OK$'
else
    skip "nccl" "built without it"
fi
unset COLL_BACKEND

# --------------------------------------------------------------- wrong results

# A library between program and libcoll that spoils one element of one rank.
cat >"$dir/spoil.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <coll/coll.h>
coll_result_t coll_allreduce(const void *in, void *out, size_t n, coll_dtype_t dtype, coll_op_t op,
			     coll_comm_t comm, coll_stream_t stream)
{
	coll_result_t (*real)(const void *, void *, size_t, coll_dtype_t, coll_op_t, coll_comm_t,
			      coll_stream_t);
	void *symbol = dlsym(RTLD_NEXT, "coll_allreduce");
	coll_result_t code;
	int32_t rank;

	memcpy(&real, &symbol, sizeof(real));
	code = real(in, out, n, dtype, op, comm, stream);
	coll_comm_user_rank(comm, &rank);
	if (code == COLL_SUCCESS && dtype == COLL_FLOAT32 && rank == 1 && n > 7) {
		code = coll_sync(comm);
		((float *)out)[7] += 1;
	}
	return code;
}
END
if [ -n "$TEST_SANITIZE" ]; then
    skip "a wrong element is found" "sanitizers do not go with LD_PRELOAD"
elif ! ${TEST_CC:-cc} -shared -fPIC -I"${top_srcdir:-.}/include" -o "$dir/spoil.so" \
    "$dir/spoil.c" -ldl 2>"$dir/err"; then
    skip "a wrong element is found" "no compiler"
else
    timeout 120 "$coll" run --no-prefix -n 3 -e LD_PRELOAD="$dir/spoil.so" -- \
        "$coll" perf -s 64 -n 1 -w 0 --csv >"$dir/out" 2>"$dir/err"
    is "a wrong element ends with status 1" $? 1
    is "and is counted, on whichever rank" \
        "$(awk -F, 'NR > 1 { print $13 }' "$dir/out" | xargs)" "1 1"
fi

perf -t 2 -b 3 -e 3
is "a size between two elements: status 0" $status 0
has "the rounding is told" "$dir/err" "3 bytes are no whole number of float32: sizes are rounded"

# ------------------------------------------------------------------- failures

COLL_BACKEND=nosuch perf -t 2 -s 8
is "no backend: status 1" $status 1
has "with the library's words" "$dir/err" "'nosuch'"

wrong() {
    local name=$1 sentence=$2
    shift 2
    perf "$@"
    is "$name" $status 2
    check "$name: says so" grep -qF -- "$sentence" "$dir/err"
}
wrong "an unknown collective" "no collective 'allredcue', did you mean 'allreduce'?" allredcue
wrong "an unknown type" "no data type 'float23', did you mean 'float32'?" -d float23
wrong "an unknown operation" "no operation 'summ', did you mean 'sum'?" -o summ
wrong "a word unlike any collective" "no collective 'nosuch'; expected one of all, allreduce, broadcast, " nosuch
wrong "a word unlike any type" "no data type 'nosuch'; expected one of all, int8, " -d nosuch
wrong "a word unlike any operation" "no operation 'nosuch'; expected one of all, sum, prod, max, min, avg, " -o nosuch
wrong "an unknown option" "no option '--itres', did you mean '--iters'?" --itres 3
wrong "a bad size" "--maxbytes 1T: expected a size" -e 1T
wrong "a bad list" "--sizes 8x: expected a size" --sizes 8,8x
wrong "an empty list" "--sizes: expected sizes" --sizes ,
wrong "sizes the wrong way round" "--minbytes is larger" -b 1M -e 1K
wrong "a step that never ends" "--stepfactor 1: expected a number from 2" -f 1
wrong "no call in a group" "--group 0: expected a number from 1" -g 0
wrong "no iterations" "--iters 0: expected a number from 1" -n 0
wrong "a root that does not exist" "--root 2: there are only 2 ranks" -t 2 -r 2
wrong "no kind of memory" "--memory hots: expected host, cuda, managed or library" -m hots
wrong "a chart without a file" "--svg needs a file, not '--json'" --svg --json
wrong "--compare of one file" "--compare takes two files of --json, got 1" --compare a.json
wrong "two collectives" "one collective, not 'reduce' and 'broadcast'" reduce broadcast

done_testing
