#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# abi.t - nothing that binaries depend on has changed: structs, constants, functions and symbols
# against the frozen tables in tests/abi; and that a change would be seen, and said, by trying some.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=${top_srcdir:-.}
libs=${top_builddir:-.}/.libs
abi=$src/tests/abi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

[ "$(getconf LONG_BIT)" = 64 ] || skip_all "the frozen tables are those of 64-bit machines"

# compare FACTS: prints the differences as sentences, one a line.
compare() {
    awk -f "$abi/compare.awk" "$abi"/layout-*.txt kind=found "$1"
}

# ------------------------------------------------------------------- as it is --

check "the headers are understood" "$abi/facts" "$src/include" coll/observer.h
"$abi/facts" "$src/include" coll/observer.h >"$scratch/facts"

# headers: the text of all public headers.
headers() {
    cat "$src/include/coll/coll.h" "$src/include/coll/introspect.h" "$src/include/coll/backend.h" \
        "$src/include/coll/observer.h"
}
check "every struct of the headers was found" \
    test "$(grep -c '^struct ' "$scratch/facts")" -eq \
    "$(headers | grep -cE '^(typedef )?struct .*\{')"
check "every constant" \
    test "$(grep -c '^enum ' "$scratch/facts")" -eq \
    "$(headers | grep -oE 'COLL_[A-Z0-9_]+ =( |$)' | wc -l)"

compare "$scratch/facts" >"$scratch/standing"
none "everything released is where and what it was" "$(grep -v ' is new, ' "$scratch/standing")"
none "everything is in the tables" "$(grep ' is new, ' "$scratch/standing")"

# AddressSanitizer adds an indicator symbol for each global variable; ignore these symbols.
nm -D --defined-only "$libs/libcoll.so" |
    awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | grep -v '^__odr_asan' |
    sort >"$scratch/exported"
sed '/^#/d' "$abi"/symbols-*.txt | sort >"$scratch/symbols"
none "every symbol released is exported" "$(comm -23 "$scratch/symbols" "$scratch/exported" |
    sed 's/$/ is gone from libcoll.so: a program linked with it would not start/')"
none "every symbol exported is in the tables" "$(comm -13 "$scratch/symbols" "$scratch/exported" |
    sed 's/$/ is new, not yet in the table: run tests\/abi\/update/')"

# -------------------------------------------------------------- the frozen header --

# The declarations that tests/plugins/frozen uses must equal the frozen ones, as whole structs.
for minor in 0 1 2 3 4 5; do
    header=frozen/backend_v1_$minor.h
    check "the frozen header of 1.$minor is understood" "$abi/facts" "$src/tests/plugins" $header
    "$abi/facts" "$src/tests/plugins" $header | grep -v '^struct ' >"$scratch/frozen"
    sed -n 's/^field \([^.]*\)\..*/field \1./p' "$scratch/frozen" | sort -u >"$scratch/structs"
    # A table holds the additions of its minor.
    for table in $(seq 0 $minor); do cat "$abi/layout-1.$table.txt"; done >"$scratch/tables"
    grep -Ff "$scratch/structs" "$scratch/tables" >"$scratch/layout"
    none "the frozen header is that of 1.$minor" "$(grep -vxFf "$scratch/tables" "$scratch/frozen")"
    none "with whole structs" "$(grep -vxFf "$scratch/frozen" "$scratch/layout")"
done

# The observer's header of then stands on the frozen backend.h.
check "the frozen header of observers is understood" "$abi/facts" "$src/tests/plugins" frozen/observer_v1_0.h
"$abi/facts" "$src/tests/plugins" frozen/observer_v1_0.h | grep -i 'coll_observe' | grep -v '^struct ' >"$scratch/frozen"
cat "$abi"/layout-*.txt >"$scratch/tables"
check "it has facts" test "$(wc -l <"$scratch/frozen")" -gt 60
none "the frozen header is that of observer ABI 1.0" "$(grep -vxFf "$scratch/tables" "$scratch/frozen")"
# Later minors of observer.h have added these.
later='^field coll_observer(_host_t\.want|_t\.flags|_t\.reserved) '
none "with whole structs" "$(grep -E '^field coll_observe(d|r|r_host)_t\.' "$scratch/tables" | grep -vE "$later" | grep -vxFf "$scratch/frozen")"

# ------------------------------------------------------------- changes to be seen --

# planted CHANGE HEADER SED SENTENCES: edits a copy of the header; the comparison must print exactly
# these further sentences.
planted() {
    what=$1
    header=$2
    edit=$3
    sentences=$4
    rm -rf "$scratch/include"
    mkdir -p "$scratch/include/coll"
    cp "$src"/include/coll/*.h "$scratch/include/coll/"
    sed "$edit" "$src/include/coll/$header" >"$scratch/include/coll/$header"
    "$abi/facts" "$scratch/include" coll/observer.h >"$scratch/facts" 2>"$scratch/errors"
    compare "$scratch/facts" | grep -vxFf "$scratch/standing" >"$scratch/differences"
    none "$what" "$([ "$(cat "$scratch/differences")" = "$sentences" ] || {
        echo "wanted:"
        echo "$sentences"
        echo "got:"
        cat "$scratch/errors" "$scratch/differences"
    })"
}

planted "two slots that change places" backend.h \
    's/(\*wait_fd)(/(*ARM)(/; s/(\*arm)(/(*wait_fd)(/; s/(\*ARM)(/(*arm)(/' \
    "coll_transport_t.wait_fd was at 40, is at 48: slots may only be appended
coll_transport_t.arm was at 48, is at 40: slots may only be appended"
last=$(sed -n 's/.*native_t.exscan at \([0-9]*\) .*/\1/p' "$abi/layout-1.5.txt")
planted "a slot between others" backend.h 's/.*(\*exscan)(void \*ep, /void (*early)(void); &/' \
    "coll_native_t.exscan was at $last, is at $((last + 8)): slots may only be appended
coll_native_t.mem_alloc was at $((last + 8)), is at $((last + 16)): slots may only be appended
coll_native_t.mem_free was at $((last + 16)), is at $((last + 24)): slots may only be appended
coll_native_t.early is new, not yet in the table: run tests/abi/update"
planted "a slot at the end: new, and nothing else" backend.h \
    '/^} coll_native_t;/i void (*late)(void);' \
    "coll_native_t.late is new, not yet in the table: run tests/abi/update"
planted "a slot that is taken away" backend.h '/(\*describe)(/d' \
    "coll_transport_t.describe is gone: what was released stays, even if nobody should use it
coll_transport_t.mem_alloc was at 112, is at 104: slots may only be appended
coll_transport_t.mem_free was at 120, is at 112: slots may only be appended"
planted "a slot of another type" backend.h 's/int32_t (\*progress)(/int64_t (*progress)(/' \
    "coll_transport_t.progress was 'int32_t (*)(void *)', is 'int64_t (*)(void *)': a field never\
 changes its type"
planted "a longer field" backend.h 's/char text\[504\]/char text[512]/' \
    "coll_error_t.text had 504 bytes, has 512: a field never changes its size
coll_error_t.text was 'char [504]', is 'char [512]': a field never changes its type"
planted "a struct without a size that grows" backend.h \
    '/^} coll_sink_t;/i uint64_t more;' \
    "coll_sink_t was 'fixed at 24', is 'fixed at 32': a struct that cannot tell its size cannot\
 grow
coll_sink_t.more is new, not yet in the table: run tests/abi/update"
planted "a constant of another value" coll.h 's/COLL_MIN = 3,/COLL_MIN = 30,/' \
    "COLL_MIN was 3, is 30: the value of a constant never changes"
planted "a constant between others" coll.h 's/^	COLL_AVG = 4,/	COLL_NEW = 12, &/' \
    "COLL_NEW is new, not yet in the table: run tests/abi/update"
planted "a function of another type" coll.h 's/coll_sync(coll_comm_t comm)/coll_sync(void)/' \
    "coll_sync was 'coll_result_t (coll_comm_t)', is 'coll_result_t (void)': what was released\
 keeps its type; add a new one beside it"
planted "a constant of another value, in introspect.h" introspect.h \
    's/COLL_STEP_COPY = 4,/COLL_STEP_COPY = 40,/' \
    "COLL_STEP_COPY was 4, is 40: the value of a constant never changes"
planted "a new struct" backend.h \
    '/^typedef struct coll_transport {/i typedef struct coll_extra { int size; } coll_extra_t;' \
    "coll_extra_t.size is new, not yet in the table: run tests/abi/update
coll_extra_t is new, not yet in the table: run tests/abi/update"

# ------------------------------------------------------------ the output of coll info --

COLL_PLUGIN_PATH=${top_builddir:-.}/tests/plugins/.libs "${top_builddir:-.}/coll" info \
    >"$scratch/info"
check "coll info shows who needs a newer libcoll, with both versions" \
    grep -q 'why not .*backend ABI 1\.15, but this one has 1\.6' "$scratch/info"

# ----------------------------------------------------------------- a second opinion --

# libabigail compares today's backend.h with that of 1.0.  Its exit status does not distinguish an
# added slot from moved slots, so the checks read its report.
library() {
    printf '#include <%s>\nCOLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1;\n' "$3" |
        ${TEST_CC:-cc} -x c -g -shared -fPIC -I"$2" -o "$scratch/$1" -
}

# abidiff_against LIBRARY: prints the report on old.so and LIBRARY; fails if there is none.
abidiff_against() {
    status=0
    abidiff "$scratch/old.so" "$scratch/$1" >"$scratch/report" 2>&1 || status=$?
    [ $((status & 3)) -eq 0 ] # bits of the exit status: an error, wrong usage
}

# harm: prints the lines about moved or removed slots.
harm() {
    grep -E 'offset changed|data member deletion|[1-9][0-9]* Removed' "$scratch/report"
}

if ! command -v abidiff >/dev/null 2>&1; then
    skip "abidiff's report" "no abidiff here"
elif library old.so "$src/tests/plugins" frozen/backend_v1_0.h &&
    library new.so "$src/include" coll/observer.h; then
    check "abidiff compares backend.h with that of 1.0" abidiff_against new.so
    sed 's/^/# /' "$scratch/report"
    none "abidiff sees no slot that moved or is gone" "$(harm)"
    cp "$src/include/coll/coll.h" "$scratch/include/coll/"
    sed 's/(\*wait_fd)(/(*ARM)(/; s/(\*arm)(/(*wait_fd)(/; s/(\*ARM)(/(*arm)(/' \
        "$src/include/coll/backend.h" >"$scratch/include/coll/backend.h"
    check "a library with two slots that change places is built" \
        library planted.so "$scratch/include" coll/backend.h
    check "abidiff compares that library with 1.0" abidiff_against planted.so
    is "abidiff sees the two slots that moved" "$(harm | grep -c 'offset changed')" 2
else
    skip "abidiff's report" "the libraries for it could not be built"
fi

done_testing
