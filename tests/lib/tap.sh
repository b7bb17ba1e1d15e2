# SPDX-License-Identifier: BSD-3-Clause
# tap.sh - TAP for shell tests; read with:  . "${top_srcdir:-.}/tests/lib/tap.sh"
#
#   check "NAME" COMMAND...     one check: COMMAND succeeds; shows its output if not
#   none  "NAME" TEXT           one check: TEXT is empty; shows it if not
#   is    "NAME" GOT WANTED     one check: both are the same
#   has   "NAME" FILE PATTERN   one check: a line of the file matches the extended pattern
#   skip  "NAME" REASON         one check that cannot be made here
#   skip_all REASON             none of them can: ends the script
#   collect NAME COMMAND...     runs it and keeps its output and status in $dir under NAME; with & beside others
#   take NAME                   then: its status in $status, its output in $dir/out and $dir/err
#   only_backends DIR NAME...   copies those plugins into a new directory DIR, to be found there alone
#   copy_source DIR             copies the source tree to a new directory DIR, for another build: a configured tree takes none
#   retry TRIES COMMAND...      repeats COMMAND until it succeeds, every 0.1 s, so often at most
#   is_long                     has `make check-long` started the script, with time for the whole depth?
#   can NAME                    may that backend be used here?  If not, a check is skipped and says why
#   done_testing                ends the script; fails if a check did
# shellcheck shell=sh

tap_run=0
tap_failed=0

tap_result() {
    tap_run=$((tap_run + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_run - $2"
        return
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_run - $2"
    printf '%s\n' "$3" | sed 's/^/#   /'
}

check() {
    tap_name=$1
    shift
    tap_status=0
    tap_output=$("$@" 2>&1) || tap_status=$?
    tap_result "$tap_status" "$tap_name" "exit status $tap_status: $* $tap_output"
}

none() {
    tap_status=0
    [ -z "$2" ] || tap_status=1
    tap_result "$tap_status" "$1" "$2"
}

is() {
    none "$1" "$([ "$2" = "$3" ] || printf 'got: %s\nexpected: %s' "$2" "$3")"
}

has() {
    none "$1" "$(grep -qE -- "$3" "$2" || { echo "no '$3' in:"; cat "$2"; })"
}

skip() {
    tap_run=$((tap_run + 1))
    echo "ok $tap_run - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

collect() {
    tap_kept=${dir:?}/$1
    shift
    tap_status=0
    "$@" >"$tap_kept.out" 2>"$tap_kept.err" </dev/null || tap_status=$?
    echo $tap_status >"$tap_kept.status"
}

take() {
    # shellcheck disable=SC2034 # for the script
    status=$(cat "$dir/$1.status")
    mv "$dir/$1.out" "$dir/out"
    mv "$dir/$1.err" "$dir/err"
}

only_backends() {
    tap_dir=$1
    shift
    mkdir -p "$tap_dir"
    for tap_name; do
        cp "${top_builddir:-.}/.libs/coll_$tap_name.so" "$tap_dir/" || exit 1
    done
    COLL_PLUGIN_PATH=$tap_dir
    export COLL_PLUGIN_PATH
}

copy_source() {
    mkdir -p "$1" || return
    (cd "${top_srcdir:-.}" && tar cf - --exclude='*.o' --exclude='*.lo' --exclude='*.la' --exclude='.libs' --exclude='.git' \
        --exclude='./config.status' --exclude='./Makefile' --exclude='./config.h' .) | (cd "$1" && tar xf -)
}

retry() {
    tap_tries=$1
    shift
    until "$@"; do
        tap_tries=$((tap_tries - 1))
        [ "$tap_tries" -gt 0 ] || return
        sleep 0.1
    done
}

is_long() {
    [ "${TEST_LEVEL-}" = long ]
}

can() {
    tap_output=$(COLL_BACKEND=$1 "${top_builddir:-.}/coll" info 2>&1) && return
    # The last line says whether the checks held.
    skip "$1" "$(printf '%s\n' "$tap_output" | tail -n 1 | sed 's/^ *//')"
    return 1
}

done_testing() {
    echo "1..$tap_run"
    [ "$tap_failed" -eq 0 ] || exit 1
    exit 0
}
