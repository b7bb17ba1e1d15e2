#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# observe.t - the observer that authors copy; observers that are refused; what `coll info` and `coll check` say of observers.
. "${top_srcdir:-.}/tests/lib/tap.sh"
# shellcheck source=/dev/null
. "${top_srcdir:-.}/tests/docs/book.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
book_tree "$dir"
stubs=$book_build/tests/plugins/.libs
hello=$book_build/tests/examples/hello
here=$dir/examples/observer
COLL_PLUGIN_PATH=$book_build/.libs:$here:$stubs
COLL_TRUST=$book_build:$book_src:$dir
COLL_BACKEND=tcp
export COLL_PLUGIN_PATH COLL_TRUST COLL_BACKEND

# observed NAMES [VARIABLE=VALUE]...: two ranks with these observers; the output goes to $dir/out, and errors to $dir/err.
observed() {
    names=$1
    shift
    env COLL_OBSERVERS="$names" "$@" "$book_build/coll" run --no-prefix -n 2 "$hello" >"$dir/out" 2>"$dir/err"
}

# ---- the example ----

check "a whole observer fits into 90 lines" test "$(wc -l <"$here/observer_lines.c")" -le 90
check "it builds with pkg-config alone" make -s -C "$here" CC="$dir/bin/cc"
none "without a warning" "$(touch "$here/observer_lines.c" && env -u MAKEFLAGS make -s -C "$here" CC="$dir/bin/cc" 2>&1)"
none "it needs no symbol of libcoll" "$(nm -D --undefined-only "$here/observer_lines.so" | grep ' coll_')"
check "a program runs with it" observed lines
for rank in 0 1; do
    check "rank $rank: a line tells of the call" grep -q \
        "^rank $rank of 2, comm 1: allreduce 1 of 4 bytes, [a-z_]*: [0-9.]* us, code 0\$" "$dir/err"
done
check "an option of its own: no line of shorter calls" observed lines COLL_LINES_AT_LEAST=1K
none "it is obeyed" "$(cat "$dir/err")"
check "a wrong value of the option: the program goes on without the observer" observed lines COLL_LINES_AT_LEAST=much
check "a warning names the variable" grep -q "is not used: .*COLL_LINES_AT_LEAST: .* has the value .much" "$dir/err"
check "the section of an observer that is not named is no fault" observed "" COLL_LINES_AT_LEAST=1K
none "nor a warning" "$(cat "$dir/err")"

# ---- observers that are refused: a warning, and the program goes on ----

# refused NAME WORDS...
refused() {
    name=$1
    shift
    check "$name: the program goes on" observed "$name"
    for words; do
        check "$name: a warning says '$words'" grep -q -- "observer '$name', which COLL_OBSERVERS names, is not used: .*$words" "$dir/err"
    done
}
refused line "no plugin directory has a file observer_line.so; did you mean 'lines'?" "coll info"
refused ^lines "no plugin directory has a file"
refused refuses "rank 0 has no wish to observe" "rank 1 has no wish to observe"
refused oldabi "observer_oldabi.so' is built for observer ABI 0 (it exports coll_observer_v0)" "observer.h"
refused tiny "the size of its coll_observer_t is 24, but in ABI 1.0 it is" "observer.h"
refused noevent "leaves .event. empty, but it is mandatory"
refused nothing "wants no event: set .wants"
refused misnamed "holds the observer 'another': the file must be called observer_another.so"
echo "no shared object" >"$here/observer_broken.so"
refused broken "observer_broken.so'"
cp "$here/observer_lines.so" "$here/observer_Upper.so"
check "of two, the one that is refused does not keep the other" observed refuses,lines
check "which tells of the call" grep -q "^rank 1 of 2, comm 1: allreduce" "$dir/err"
cp "$here/observer_lines.so" "$here/observer_tcp.so"
check "an observer with a backend's name" observed tcp
check "is refused, since both would have one section" grep -q "the backend '.*coll_tcp.so' has the same name" "$dir/err"
cp "$here/observer_lines.so" "$here/observer_log.so"
refused log "'log' is the library's own name; rename the observer"
refused a_name_that_has_one_more_than_31_ "the name of an observer has at most 31 bytes"
check "the log file of each rank" observed refuses COLL_LOG_FILE="$dir/log.%r"
for rank in 0 1; do
    check "has the warning about rank $rank" grep -q " rank $rank .* warn: observer 'refuses'.*rank $rank has no wish" "$dir/log.$rank"
done
none "and stderr has none" "$(cat "$dir/err")"
rm "$here/observer_tcp.so" "$here/observer_broken.so" "$here/observer_log.so"
if [ "$(id -u)" = 0 ]; then
    chmod o+w "$here"
    check "an observer that others can change" observed lines COLL_TRUST="$book_build:$book_src"
    check "is refused" grep -q "observer 'lines', which COLL_OBSERVERS names, is not used: .*$here" "$dir/err"
    chmod o-w "$here"
else
    skip 2 "only root is trusted in this directory"
fi

check "an observer of ABI 1.0, as it was built then" observed first COLL_PLUGIN_PATH="$book_build/.libs:$book_build/tests/plugins/frozen/.libs"
for rank in 0 1; do
    check "is told of the calls of rank $rank" grep -q "rank $rank.*first.*1 issued, 1 begun, 1 ended: allreduce" "$dir/err"
done

# ---- coll info ----

COLL_OBSERVERS=lines,tiny,absent,a_name_that_has_one_more_than_31_ "$book_build/coll" info --json >"$dir/info" 2>"$dir/err"
# one NAME FIELD: of an observer in the document.
one() {
    python3 -c 'import json, sys
for o in json.load(open(sys.argv[1]))["observers"]:
    if o["name"] == sys.argv[2]: print(o[sys.argv[3]])' "$dir/info" "$1" "$2"
}
if command -v python3 >/dev/null; then
    for case in "lines version 1.0" "lines named True" "lines usable True" "lines abi_major 1" "lines path $here/observer_lines.so" \
        "lines description prints a line for each call on stderr" "tiny named True" "tiny usable False" \
        "absent named True" "absent path " "a_name_that_has_one_more_than_31_ named True" "stub named False" "stub version 0.1"; do
        name=${case%% *} rest=${case#* }
        check "coll info: $case" test "$(one "$name" "${rest%% *}")" = "${rest#* }"
    done
else
    skip 13 "python3 is not installed"
fi
COLL_OBSERVERS=lines "$book_build/coll" info >"$dir/info"
check "as text: the observer that is named" grep -q '^  \* lines 1.0: named$' "$dir/info"
check "and its option" grep -q '^  lines.at_least  *0 bytes' "$dir/info"
check "and an observer that is not" grep -q '^    stub 0.1$' "$dir/info"

# ---- coll check ----

checked() {
    "$book_build/coll" check "$@" >"$dir/out" 2>"$dir/err"
}
check "coll check finds no fault in the example" checked "$here/observer_lines.so"
passed="21 passed"
# The check load-idle skips a file that is built for a sanitizer.
[ -z "$TEST_SANITIZE" ] || passed="20 passed, 0 failed, 1 skipped"
check "which passes all checks" grep -q "^# 21 checks in 21 runs: $passed" "$dir/out"
check "and says what an event costs" grep -q "^#   an event takes [0-9.]* us on average" "$dir/out"
check "it takes the name of an observer" checked --observer lines --only open,taken
check "the option of the observer" checked --option at_least=4K "$here/observer_lines.so" --only job
check "it lists the checks of observers" sh -c '"$1" check --observer --list | grep -q "^later .*ABI promise"' sh "$book_build/coll"

# faulty NAME WORDS ARGUMENT...: the check fails with these words.
faulty() {
    name=$1 words=$2
    shift 2
    check "coll check fails for '$name'" sh -c '! "$@" >"$0" 2>&1' "$dir/out" "$book_build/coll" check "$@" "$stubs/observer_$name.so"
    check "and says '$words'" grep -q "$words" "$dir/out"
}
faulty prints "it printed [0-9]* bytes to stdout" --only quiet
# ThreadSanitizer would turn the signal into an exit status.
TSAN_OPTIONS="$TSAN_OPTIONS handle_segv=0" faulty crashes "killed by signal 11 .* in event" --only events
faulty cancels "pthread_cancel has ended a thread in event(), but the table promises" --only uncancelled
faulty sleeps "it hung for 2 s in event" --only prompt --timeout 2
faulty tiny "the size of its coll_observer_t is 24" --only taken
faulty stub "exports more than coll_observer_v1: stub_" --only exports
faulty misnamed "holds the observer 'another'" --only taken
checked --observer nobody
check "an unknown name is a wrong command line" test $? = 2
check "with a sentence" grep -q "cannot open 'nobody': .*no plugin directory has an observer of that name" "$dir/err"
checked --only cancel "$here/observer_lines.so"
check "a check of backends is none of observers" test $? = 2

done_testing
