#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# html.t - the HTML reference: Sphinx makes it without a warning, its links lead to its pages, the search finds a function.
. "${top_srcdir:-.}/tests/lib/tap.sh"

[ -z "$TEST_SANITIZE" ] || skip_all "it runs nothing that is built with the sanitizer ($TEST_SANITIZE)"
src=${top_srcdir:-.}
for tool in python3 sphinx-build; do
    command -v $tool >/dev/null || skip_all "$tool is not here"
done
[ "$(sphinx-build --version | sed 's/^[^0-9]*//; s/[^0-9].*//')" -ge 5 ] || skip_all "sphinx-build is older than 5"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

check "the pages are written" env PYTHONDONTWRITEBYTECODE=1 python3 "$src/docs/pages.py" "$src" "$dir/text"
check "Sphinx has no warning" sphinx-build -q -W --keep-going -b html -d "$dir/cache" "$dir/text" "$dir/html"
none "each page has its HTML" "$(cd "$dir/text" && for page in *.rst; do
    [ -s "$dir/html/${page%.rst}.html" ] || echo "$page"
done)"
none "each link leads to a file" "$(cd "$dir/html" &&
    cat ./*.html | grep -oE '(href|src)="[^"#?]+' | sed 's/^[a-z]*="//' | sort -u | grep -v '^https\{0,1\}:' |
    while read -r link; do
        [ -e "$link" ] || echo "$link"
    done)"
has "the search knows coll_allreduce" "$dir/html/searchindex.js" coll_allreduce
has "the index leads to it" "$dir/html/genindex.html" 'coll_allreduce.html#c.coll_allreduce'

done_testing
