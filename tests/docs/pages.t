#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# pages.t - the man pages that docs/pages.py makes: a page for each public name, a name for each page, nothing left out,
# and what coll.conf(5) and coll-algorithms(7) list is what the library has.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
build=${top_builddir:-.}
pages=$build/docs/build/man/pages
[ -e "$pages/stamp" ] || pages=$src/docs/man
headers="$src/include/coll/coll.h $src/include/coll/introspect.h"
[ -e "$pages/stamp" ] || skip_all "there are no man pages: they need sphinx-build, or a tarball"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# text PAGE: the words of a page.
text() {
    sed 's/\\f[BIRP]//g; s/\\[%&]//g; s/\\-/-/g; s/\\//g' "$pages/$1"
}

# section PAGE HEADING: the words of one section.
section() {
    text "$1" | awk -v wanted=".SH $2" '/^\.SH/ { inside = $0 == wanted; next } inside'
}

# ---------------------------------------------------------------- names --

# The exported functions, and the types that the headers define.
nm -D --defined-only "$build/.libs/libcoll.so" | awk '$2 == "T" && $3 ~ /^coll_/ { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$dir/functions"
# shellcheck disable=SC2086 # two headers
sed -nE 's/^typedef .* \*?(coll_[a-z0-9_]+);$/\1/p; s/^\} (coll_[a-z0-9_]+);$/\1/p
    s/^typedef [a-z0-9_ ]*\(\*(coll_[a-z0-9_]+)\)\(.*/\1/p' $headers | sort -u >"$dir/types"
check "there are functions" [ "$(wc -l <"$dir/functions")" -gt 100 ]
check "there are types" [ "$(wc -l <"$dir/types")" -gt 15 ]
sort "$dir/functions" "$dir/types" >"$dir/names"
(cd "$pages" && ls) | sed -n 's/\.3$//p' | grep -v '^libcoll$' | sort >"$dir/pages"
none "each public name has a page" "$(comm -23 "$dir/names" "$dir/pages")"
none "each page has a public name" "$(comm -13 "$dir/names" "$dir/pages")"
for page in libcoll.3 coll.conf.5 coll-algorithms.7 coll-backend.7 coll-observer.7; do
    check "there is $page" [ -s "$pages/$page" ]
done

# A constant stands in the page of its type or function.
# shellcheck disable=SC2086
grep -ohE '^\s*COLL_[A-Z0-9_]+ =|^enum \{ COLL.*|^#define COLL_VERSION\w+' $headers | grep -oE 'COLL_[A-Z0-9_]+' |
    sort -u >"$dir/constants"
check "there are constants" [ "$(wc -l <"$dir/constants")" -gt 100 ]
cat "$pages"/coll_*.3 | grep -oE 'COLL_[A-Z0-9_]+' | sort -u >"$dir/shown"
none "each constant stands in a page" "$(comm -23 "$dir/constants" "$dir/shown")"

# ---------------------------------------------------------------- whole --

# parameters FUNCTION: the names of its parameters, from the prototype in its page.
parameters() {
    section "$1.3" SYNOPSIS | tr '\n' ' ' | sed -E 's/^[^(]*\(//; s/\).*//; s/\[[0-9]*\]//g' | tr ',' '\n' |
        sed -E 's/.*[ *]([a-z_0-9]+) *$/\1/' | grep -vx 'void *'
}

lacking() {
    local heading parameter

    while read -r function; do
        for heading in NAME SYNOPSIS DESCRIPTION BLOCKING "SEE ALSO"; do
            [ -n "$(section "$function.3" "$heading")" ] || echo "$function: no $heading"
        done
        ! section "$function.3" SYNOPSIS | grep -q '^coll_result_t' ||
            { [ -n "$(section "$function.3" "RETURN VALUE")" ] || echo "$function: no RETURN VALUE"; }
        { section "$function.3" PARAMETERS; section "$function.3" DESCRIPTION; } >"$dir/words"
        for parameter in $(parameters "$function"); do
            grep -qw -- "$parameter" "$dir/words" || echo "$function: nothing about $parameter"
        done
    done <"$dir/functions"
}
none "each function's page has its sections and its parameters" "$(lacking)"
# Only these sections of a function's page show code.
programs() {
    while read -r function; do
        awk -v page="$function" '/^\.SH/ { heading = $0 } /^\.nf/ && heading !~ /SYNOPSIS|CONSTANTS|EXAMPLE/ {
            print page ": " heading }' "$pages/$function.3"
    done <"$dir/functions"
}
none "no words of a comment were taken for a program" "$(programs)"
none "each page says in a line of its own what it is about" \
    "$(cd "$pages" && for page in *.[357]; do
        grep -q '^\.so ' "$page" || text "$page" | grep -A1 '^\.SH NAME' | grep -qE ' - [^ ]+ ' || echo "$page"
    done)"

# ------------------------------------------------------------ references --

known() {
    case $1 in
    'coll(1)') [ -e "$src/tools/coll.1" ] ;;
    *) [ -e "$pages/$(echo "$1" | sed 's/(/./; s/)//')" ] ;;
    esac
}

dangling() {
    for page in "$pages"/*.[357]; do
        text "$(basename "$page")" | grep -oE '\b(lib)?coll[-._a-z0-9]*\([1-9]\)' | sort -u | while read -r reference; do
            known "$reference" || echo "$(basename "$page"): $reference"
        done
    done
    sed -n 's/^\.so man[1-9]\///p' "$pages"/*.3 | while read -r page; do
        [ -e "$pages/$page" ] || echo "link to $page"
    done
}
none "each page that a page names exists" "$(dangling)"

# --------------------------------------------------------------- options --

"$build/coll" info --json >"$dir/info"
sed -n '/"options"/,/"notes"/s/.*"name": "\([a-z0-9_.]*\)".*/\1/p' "$dir/info" | sort >"$dir/options"
check "there are options" [ "$(wc -l <"$dir/options")" -gt 40 ]
text coll.conf.5 | sed -n 's/^Environment: COLL_\([A-Z0-9_]*\)\.$/\1/p' | sort -u >"$dir/variables"
none "coll.conf(5) has each option with its variable" \
    "$(tr 'a-z.' 'A-Z_' <"$dir/options" | sort | comm -23 - "$dir/variables")"
backends=$(sed -n '/"backends"/,/"options"/s/.*"name": "\([a-z0-9_]*\)".*/\1/p' "$dir/info" | tr '[:lower:]' '[:upper:]')
sections=$(text coll.conf.5 | sed -n 's/^\.SH SECTION \[\(.*\)\]$/\1/p')
missing=$(for name in $sections; do echo "$backends" | grep -qx "$name" || printf '%s|' "${name}_"; done)
# "key = default" of each option that has a default.
sed -n '/"options"/,/"notes"/p' "$dir/info" | awk -F'": "' '
    { value = $2; sub(/",?$/, "", value) }
    /"name"/ { key = value; sub(/.*\./, "", key) }
    /"default": / && value != "" { print key " = " value }' | sort -u >"$dir/defaults"
check "there are defaults" [ "$(wc -l <"$dir/defaults")" -gt 30 ]
text coll.conf.5 | sed 's/^\.B //' | sort -u >"$dir/lines"
none "coll.conf(5) has their defaults" "$(comm -23 "$dir/defaults" "$dir/lines")"
# Every backend has the option `priority`, which `coll info` shows with the backend.
none "each option of coll.conf(5) is one of the library" \
    "$(tr 'a-z.' 'A-Z_' <"$dir/options" | sort | comm -13 - "$dir/variables" |
        grep -vE "^(${missing}-)|_PRIORITY\$")"

# ------------------------------------------------------------ algorithms --

"$build/coll" prove --ranks 2 --count 0 2>/dev/null | sed -nE 's|^([a-z_]+)/([a-z_]+) .*|\1 \2|p' |
    sort -u >"$dir/algorithms"
check "there are algorithms" [ "$(wc -l <"$dir/algorithms")" -gt 30 ]
text coll-algorithms.7 | awk '/^\.SH/ { kind = tolower($2); gsub(/"/, "", kind) }
    tag { sub(/^\.B /, ""); print kind, $0 } { tag = /^\.TP/ }' | sort -u >"$dir/listed"
none "coll-algorithms(7) has each algorithm" "$(comm -23 "$dir/algorithms" "$dir/listed")"
none "and each of its algorithms is one of the library" \
    "$(grep -v '^description ' "$dir/listed" | comm -13 "$dir/algorithms" -)"

# ----------------------------------------------------------- well-formed --

if [ -n "$TEST_SANITIZE" ]; then
    skip "man and mandoc have no warning" "they are not built with the sanitizer ($TEST_SANITIZE)"
    done_testing
fi
if man --help 2>/dev/null | grep -q -e --warnings; then
    ln -s "$(cd "$pages" && pwd)" "$dir/man3"
    none "man has no warning" "$(cd "$dir" && LC_ALL=C man --warnings -l man3/*.[357] 2>&1 >/dev/null </dev/null)"
else
    skip "man has no warning" "man cannot check pages here"
fi
if command -v mandoc >/dev/null; then
    # shellcheck disable=SC2046 # names without blanks
    none "mandoc has no warning" \
        "$(cd "$pages" && mandoc -T lint -W warning $(grep -L '^\.so ' ./*.[357]))"
else
    skip "mandoc has no warning" "mandoc is not here"
fi

done_testing
