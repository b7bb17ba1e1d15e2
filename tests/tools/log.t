#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# log.t - the options of the log, as the ranks of `coll run` see them.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset COLL_LOG COLL_LOG_FORMAT COLL_LOG_FILE
COLL_BACKEND=tcp
export COLL_BACKEND

# job NAME=VALUE...: two ranks with these variables; the status goes to $status, the output to the files out and err.
job() {
    env "$@" timeout 120 "$coll" run -n 2 "$coll" perf -s 8 -n 3 -w 0 -c 0 allreduce >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

job COLL_LOG=info
is "two ranks work" "$status" 0
has "short lines are as ever" "$dir/err" "^\[1\] coll\[rank 1\] info: rank 1 of 2 uses backend 'tcp' from "
none "info has no line a call" "$(grep 'allreduce' "$dir/err")"

# ---- a file a rank ----
job COLL_LOG=debug COLL_LOG_FILE="$dir/%h.%r.%p.log"
host=$(uname -n)
is "each rank has a file" "$(cd "$dir" && echo "$host".[01].*.log | wc -w)" 2
none "and stderr has no line" "$(grep 'coll\[' "$dir/err")"
cat "$dir/$host".1.*.log >"$dir/one"
time='^[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z'
has "a line has time, host, process, rank and subsystem" "$dir/one" "$time $host\[[0-9]+\] rank 1 comm - api info: rank 1 of 2 uses "
has "a call has communicator, number, type, count, bytes, algorithm, time and result" "$dir/one" \
    ' rank 1 comm 0 comm debug: allreduce number [0-9]+, collective [0-9]+: 2 float32, 8 bytes, op sum, algorithm [a-z_]+, [0-9.]+ us, success$'
none "debug has no steps" "$(grep ' trace: ' "$dir/one")"
none "every line has the same form" "$(grep -vE "$time $host\[[0-9]+\] rank 1 comm [^ ]+ [a-z_]+ [a-z]+: " "$dir/one")"

job COLL_LOG=trace COLL_LOG_FILE="$dir/trace.%r"
has "trace has the steps of a call" "$dir/trace.0" ' compose trace: allreduce number [0-9]+, collective [0-9]+ step 0 begins: '
has "trace has what debug has" "$dir/trace.0" ' comm debug: allreduce number '

# ---- JSON ----
job COLL_LOG=debug COLL_LOG_FORMAT=json COLL_LOG_FILE="$dir/shared.json"
cat >"$dir/read.py" <<'END'
import json, sys
ranks, calls = set(), 0
for line in open(sys.argv[1], encoding="utf-8"):
    entry = json.loads(line)
    assert list(entry) == ["time", "host", "pid", "rank", "communicator", "subsystem", "level", "text"], entry
    ranks.add(entry["rank"])
    calls += entry["communicator"] == "0" and "algorithm" in entry["text"]
print(sorted(ranks), calls > 6)
END
if command -v python3 >/dev/null; then
    is "Python reads each line of two ranks in one file" "$(python3 "$dir/read.py" "$dir/shared.json" 2>&1)" "[0, 1] True"
else
    skip "Python reads each line" "python3 is not here"
fi
job COLL_LOG=info COLL_LOG_FORMAT=json
has "JSON on stderr, behind the rank that coll run adds" "$dir/err" '^\[0\] \{"time":"[^"]*","host":"[^"]*","pid":[0-9]*,"rank":0,"communicator":null,"subsystem":"api","level":"info","text":"rank 0 of 2 uses'

# ---- subsystems ----
job COLL_LOG=error,comm:debug COLL_LOG_FORMAT=text
has "a subsystem logs more" "$dir/err" ' comm debug: allreduce number '
none "the others do not" "$(grep -E ' (api|plugin|meet|config) [a-z]+: ' "$dir/err")"
job COLL_LOG=warn,tcp:debug
has "a backend is a subsystem" "$dir/err" 'coll\[rank [01]\] debug: tcp: '
job COLL_LOG=warn,wacth:debug
is "a typing error ends the job" "$status" 1
has "the sentence has the name that is like it" "$dir/err" "COLL_LOG: option 'log' has a level for 'wacth', .*; did you mean 'watch'"
job COLL_LOG=warn,somebody_elses:debug
is "a name of a plugin of another host is a warning" "$status" 0
has "the warning names it" "$dir/err" "has a level for 'somebody_elses', but no part of the library and no backend here has that name"
job COLL_LOG=wran
has "a wrong level" "$dir/err" "option 'log' has the value 'wran': 'wran' is no level: expected one of error, warn, info, debug, trace, .*; did you mean 'warn'"
job COLL_LOG_FORMAT=xml
has "a wrong format" "$dir/err" 'expected one of short, text, json'
job COLL_LOG_FILE="$dir/%j"
has "a wrong letter" "$dir/err" "option 'log_file' has the value .*: %j is not known here: expected %h \(host\), %r \(rank\), %p \(process id\), or %% for a %"

# ---- trouble ----
job COLL_LOG=info COLL_LOG_FILE="$dir/missing/log"
is "a file that cannot be opened fails no job" "$status" 0
is "each rank warns once" "$(grep -c "the log file '.*/missing/log' (option log_file) cannot be opened: No such file or directory; name a file" "$dir/err")" 2
has "its lines are on stderr" "$dir/err" "info: rank 0 of 2 uses backend 'tcp'"
job COLL_LOG=trace COLL_LOG_FILE=/dev/full
is "a full disk fails no job" "$status" 0
is "each rank warns once of a full disk" "$(grep -c 'cannot be written: No space left on device' "$dir/err")" 2
env COLL_LOG=info COLL_LOG_FILE="$dir/closed.log" timeout 60 "$coll" perf -s 8 -n 3 allreduce >"$dir/out" 2>&-
has "a process without stderr has a log file" "$dir/closed.log" ' uses backend '

done_testing
