#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fortran.t - bindings/fortran/coll.f90 has every constant of coll.h with its value, and bindings/README.md's program runs.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
cc=${TEST_CC:-cc}
[ -z "$TEST_SANITIZE" ] || skip_all "programs of gfortran are built without -fsanitize=$TEST_SANITIZE"
command -v gfortran >/dev/null || skip_all "gfortran is not installed"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cp "$src/bindings/fortran/coll.f90" "$dir/"
compile() {
    (cd "$dir" && gfortran -Wall -Werror "$@" -L"$build/.libs" -lcoll -Wl,-rpath,"$build/.libs")
}

# The names of all enumerators, without the comments of coll.h.
$cc -E -P -I"$src/include" "$src/include/coll/coll.h" | tr '{},\n' '\n\n\n ' |
    sed -n 's/^ *\(COLL_[A-Z0-9_]*\)\( *=.*\)\{0,1\} *$/\1/p' >"$dir/all"
sed -n 's/.*parameter :: \(COLL_[A-Z0-9_]*\) .*/\1/p' "$dir/coll.f90" >"$dir/names"
check "coll.f90 has constants" test "$(wc -l <"$dir/names")" -gt 80
# introspect.h, which coll.h includes, stands after coll.h's own.
none "it has all constants of coll.h" "$(grep -vxFf "$dir/names" "$dir/all" | grep -vE '^COLL_(ALGORITHM|STEP|BUFFER|CAP|RULE|REACH)_')"
none "and no others" "$(grep -vxFf "$dir/all" "$dir/names")"

{
    printf '#include <coll/coll.h>\n#include <stdio.h>\nint main(void)\n{\n'
    sed 's/.*/printf("%s %d\\n", "&", (int)&);/' "$dir/names"
    printf 'return 0;\n}\n'
} >"$dir/values.c"
{
    printf 'program values\nuse coll\nimplicit none\n'
    sed 's/.*/print "(a,1x,i0)", "&", &/' "$dir/names"
    printf 'end program values\n'
} >"$dir/values.f90"
check "the values of C" $cc -I"$src/include" "$dir/values.c" -o "$dir/c"
check "the values of Fortran" compile coll.f90 values.f90 -o f
"$dir/c" >"$dir/c.out"
"$dir/f" >"$dir/f.out"
none "all values are those of coll.h" "$(diff "$dir/c.out" "$dir/f.out")"

awk '/^```fortran$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/bindings/README.md" >"$dir/sum.f90"
check "README's program compiles" compile coll.f90 sum.f90 -o sum
COLL_BACKEND=tcp timeout 120 "$build/coll" run --no-prefix -n 4 -- "$dir/sum" >"$dir/out" 2>&1
is "it prints the sum on four ranks" "$(grep -c '^sum: 4.0$' "$dir/out")" 4 || cat "$dir/out"

done_testing
