#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutorials.t - the commands and programs of the tutorials work, and print what the pages show.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

[ -z "$TEST_SANITIZE" ] || skip_all "the pages show what a build without -fsanitize=$TEST_SANITIZE prints"
command -v pkg-config >/dev/null || skip_all "pkg-config is not here"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
book_tree "$dir/tree"

# Pages run beside each other, since they mostly wait.
pages=$(cd "$book_src/docs" && grep -L '^\.\. tested by: ' coll-tutorial-${TUTORIAL:-*}.rst | sed 's/\.rst$//')
for page in $pages; do
    (
        case $page in *-gpu) book_devices "$dir/devices" ;; esac
        book_page "$book_src/docs/$page.rst" "$dir/$page"
    ) &
done
wait
for page in $pages; do
    book_judge "$page" "$dir/$page"
done

examples_alone() {
    make -s -C "$dir/tree/examples" hello && env -u LD_LIBRARY_PATH "$dir/tree/examples/hello"
}
check "the installed examples find libcoll in any prefix" examples_alone

# The other pages are run by the test that they name.
none "each page has a test" "$(cd "$book_src/docs" && grep '^\.\. tested by: ' coll-tutorial-*.rst | while read -r page _ _ test; do
    page=${page%.rst:*}
    { grep -q book_judge "$book_src/$test" && grep -qw "$page" "$book_src/$test"; } || echo "$page: $test"
done)"

done_testing
