#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutorials.t - the commands and programs of the tutorials work, and print what the pages show.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not here"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
book_tree "$dir/tree"

# Pages run beside each other, since they mostly wait.
pages=$(cd "$book_src/docs" && ls coll-tutorial-${TUTORIAL:-*}.rst | sed 's/\.rst$//')
for page in $pages; do
    (
        case $page in *-gpu | *-nccl) book_devices "$dir/devices" ;; esac
        book_page "$book_src/docs/$page.rst" "$dir/$page"
    ) &
done
wait
for page in $pages; do
    book_judge "$page" "$dir/$page"
done

done_testing
