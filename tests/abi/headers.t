#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# headers.t - each public header compiles alone, as C11 and as C++17, without a warning.
. "${top_srcdir:-.}/tests/lib/tap.sh"

compile() {
    header=$1
    language=$2
    standard=$3
    compiler=$4
    name="$header as $standard with $compiler"
    if ! command -v "$compiler" >/dev/null 2>&1; then
        skip "$name" "no $compiler here"
        return
    fi
    check "$name" sh -c 'printf "#include <%s>\n#include <%s>\n" "$1" "$1" |
        "$2" -x "$3" -std="$4" -I"$5" -Wall -Wextra -Wshadow -Werror -pedantic -fsyntax-only -' \
        sh "$header" "$compiler" "$language" "$standard" "${top_srcdir:-.}/include"
}

for header in coll/coll.h coll/introspect.h coll/backend.h coll/observer.h; do
    compile "$header" c c11 gcc
    compile "$header" c c11 clang
    compile "$header" c++ c++17 g++
    compile "$header" c++ c++17 clang++
done

# Bindings for languages without C's enumerations take the type of the values from the compiler.
check "the values of int32_t arguments are signed" sh -c 'command -v g++ >/dev/null || exit 0
    for value in COLL_SUCCESS COLL_INT8 COLL_SUM COLL_KIND_SEND COLL_SPLIT_NOCOLOR COLL_ANY_SOURCE; do
        echo "static_assert(std::is_signed<std::underlying_type<decltype($value)>::type>::value);"
    done | { printf "#include <coll/coll.h>\n#include <type_traits>\n"; cat; } |
        g++ -x c++ -std=c++17 -I"$1" -fsyntax-only -' sh "${top_srcdir:-.}/include"

# includes HEADER: prints its include directives, without those of examples in comments.
includes() {
    grep '^#include' "${top_srcdir:-.}/include/coll/$1"
}
none "coll.h includes only stddef.h, stdint.h and introspect.h" \
    "$(includes coll.h | grep -v '<std\(def\|int\)\.h>\|<coll/introspect\.h>')"
check "coll.h includes introspect.h, for the programs that were written when both were one" \
    sh -c 'grep -q "^#include <coll/introspect\.h>$" "$1"' sh "${top_srcdir:-.}/include/coll/coll.h"
none "introspect.h includes only coll.h" "$(includes introspect.h | grep -v '<coll/coll\.h>')"
none "observer.h includes only backend.h" "$(includes observer.h | grep -v '<coll/backend\.h>')"
none "backend.h includes only coll.h" "$(includes backend.h | grep -v '<coll/coll\.h>')"

done_testing
