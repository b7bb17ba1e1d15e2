#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commands.t - the commands of coll(1)'s examples and of coll-select(7) run; and each document that shows a command or a program
# has a test that runs it, or a reason why none does.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not here"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
book_tree "$dir/tree"
mkdir "$dir/work"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$book_src/README.md" >"$dir/hello.c"
# shellcheck disable=SC2046 # flags are words
check "the program of the commands compiles" cc "$dir/hello.c" -o "$dir/work/program" $(pkg-config --cflags --libs coll)
cp "$dir/work/program" "$dir/work/train"
COLL_TRUST=${COLL_TRUST:+$COLL_TRUST:}$dir
export COLL_TRUST

# runs COMMAND: a check that it ends well in the folder with the programs.
runs() {
    # shellcheck disable=SC2016 # for the inner shell
    check "$1" sh -c 'cd "$1" && eval "timeout 120 env $2"' sh "$dir/work" "$1"
}

# ---- coll(1) ----

awk '/^\.SH/ { on = /EXAMPLES/ } on && tag { sub(/^\.B /, ""); gsub(/\\/, ""); print } { tag = /^\.TP/ }' \
    "$book_src/tools/coll.1" >"$dir/commands"
check "coll(1) has examples" [ "$(wc -l <"$dir/commands")" -ge 10 ]
none "each of them is a command" "$(grep -v '^coll ' "$dir/commands")"
while read -r command; do
    case $command in
    *coll_mine.so) skip "$command" "tests/tools/check.t checks the backends so, which takes longer" ;;
    *' all all') skip "$command" "it takes a minute" ;;
    *dumps) skip "$command" "tests/tools/explain.t explains the files of failed jobs" ;;
    *) runs "$command" ;;
    esac
done <"$dir/commands"
check "coll explain has drawn the example" grep -q '<svg' "$dir/work/ring.svg"

# ---- coll-select(7) ----

sed -n 's/^   \(COLL_[A-Z_]*=.*program\) .*/\1/p' "$book_src/docs/coll-select.rst" >"$dir/commands"
check "coll-select(7) has commands" [ "$(wc -l <"$dir/commands")" -ge 4 ]
while read -r command; do
    case $command in
    *' ./program') runs "$(echo "$command" | sed "s,/opt/x/lib,$book_build/.libs,")" ;;
    esac
done <"$dir/commands"
sed -n '/^   timeout = /,/^$/p; /^   \[tcp\]/,/^$/p' "$book_src/docs/coll-select.rst" |
    sed 's/^   //; s/eth0/lo/' >"$dir/work/coll.conf"
sh -c 'cd "$1" && COLL_BACKEND=tcp COLL_CONFIG=$1/coll.conf coll info' sh "$dir/work" >"$dir/out" 2>&1
is "coll-select(7)'s lines of coll.conf hold" "$(grep -c -e 'timeout .*60s' -e '^ *interface .*lo' "$dir/out")" 2

# ---- documents ----

# Each line: a document, and the tests that run what it shows, or why none does.
cat >"$dir/tests" <<'END'
README.md                 tests/docs/readme.t tests/bindings/python.t
CONTRIBUTING.md           reason: .ci/run builds and tests so
bindings/README.md        tests/bindings/fortran.t tests/bindings/nccl.t tests/bindings/rust.t tests/bindings/torch.t
bindings/python/README.md tests/bindings/python.t
docs/INSTALL.md           reason: .ci/run builds and tests so
docs/coll-memory.rst      reason: the calls of tests/tcp/lend_test.c, in six lines
docs/coll-select.rst      tests/docs/commands.t
plugins/mpi/README.md     reason: its commands start tests/mpi/matrix.t
plugins/nccl/README.md    reason: measurements, with GPUs
plugins/tcp/README.md     reason: measurements, and settings of a host that root makes
plugins/ucc/README.md     reason: it fetches and builds UCC
plugins/ucx/README.md     reason: a build with another UCX
END
(cd "$book_src" && for page in *.md docs/*.md docs/*.rst bindings/*.md bindings/*/README.md plugins/*.md plugins/*/README.md; do
    case $page in docs/coll-tutorial-*) continue ;; esac # tutorials.t
    awk '/^```[a-z]/ || /^    [a-z./_]+ [^|]*$/ || /^    [A-Z_]+=[^ ]* / { found = 1 }
        block && /^   [^ ]/ { found = 1 } { if (/^::$/ || /code-block/) block = 1 } END { exit !found }' "$page" && echo "$page"
done) | sort >"$dir/shown"
cut -d ' ' -f 1 "$dir/tests" | sort >"$dir/listed"
none "each document with commands or programs stands in this test's list" "$(comm -23 "$dir/shown" "$dir/listed")"
none "each document of the list has some" "$(comm -13 "$dir/shown" "$dir/listed")"
none "each test of the list reads its document" "$(while read -r page tests; do
    case $tests in reason:*) continue ;; esac
    for test in $tests; do
        grep -q "${page##*/}" "$book_src/$test" || echo "$test says nothing of $page"
    done
done <"$dir/tests")"

done_testing
