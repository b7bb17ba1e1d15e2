#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ucc.t - whether the ucc backend can be used, and the reason if not; UCC's header beside the plugin's declarations; ranks
# that die; all checks of `coll check`, on two ranks.  COLL_UCC_LIBRARY names UCC's library.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
source=$(cd "${top_srcdir:-.}" && pwd) || exit 1
coll=$build/coll
plugin=$build/.libs/coll_ucc.so
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME="$dir/home" COLL_SYSCONFDIR="$dir/no-config"
only_backends "$dir/plugins" ucc simulated tcp
library=$COLL_UCC_LIBRARY

# why NAME TEXT LIBRARY: checks that ucc is not usable with the library, and that the reason contains the text.
why() {
    name=$1 text=$2
    COLL_UCC_LIBRARY=$3 timeout 120 "$coll" info >"$dir/out" 2>"$dir/err" </dev/null || :
    reason=$(sed -n '/^ .* ucc /,/^ *choice/s/^ *why not *//p' "$dir/out")
    check "$name: '$text'" sh -c "printf '%s\n' \"\$1\" | grep -qF -e \"\$2\" ||
        { echo \"reason: \$1\"; cat '$dir/out' '$dir/err'; false; }" sh "$reason" "$text"
}

# ------------------------------------------------------------ libraries that cannot be used

readelf -d "$plugin" >"$dir/dynamic"
none "linked with nothing of UCC's or UCX's" "$(grep NEEDED "$dir/dynamic" | grep -E 'uc[cmpst]\.')"
nm -D -u "$plugin" >"$dir/undefined"
none "no symbol of libcoll or UCC is wanted" "$(grep -E ' (coll_|ucc_|uc[pst]_)' "$dir/undefined")"

# stub FILE MAJOR MINOR NAME...: builds a library of this version with these functions, which do nothing.
stub() {
    file=$1 major=$2 minor=$3
    shift 3
    {
        echo "void ucc_get_version(unsigned *a, unsigned *b, unsigned *c) { *a = $major; *b = $minor; *c = 7; }"
        for name; do
            echo "int $name(void) { return 0; }"
        done
    } >"$dir/stub.c"
    ${TEST_CC:-cc} -shared -fPIC -w -o "$dir/$file" "$dir/stub.c"
}

calls=$(sed -n 's/^[[:space:]]*{"\(ucc_[a-z_]*\)", .*},$/\1/p' "$source/plugins/ucc/ucc_library.c")

why "no UCC" \
    "UCC is not installed, or not where the loader or the option ucc.library looks: /nonexistent/libucc.so: cannot open" \
    /nonexistent/libucc.so
why "another library altogether" \
    "'libm.so.6' cannot be used: it has no function 'ucc_get_version', so it is not UCC" libm.so.6
# shellcheck disable=SC2086 # a list of names
stub old.so 1 2 $calls
why "too old: both versions are named" "UCC 1.2.7 ($dir/old.so) cannot be used: 1.3 or a later 1.x is needed" \
    "$dir/old.so"
# shellcheck disable=SC2086 # a list of names
stub new.so 2 0 $calls
why "too new: both versions are named" "UCC 2.0.7 ($dir/new.so) cannot be used: 1.3 or a later 1.x is needed" \
    "$dir/new.so"
# shellcheck disable=SC2046,SC2086 # a list of names
stub lacking.so 1 3 $(printf '%s\n' $calls | grep -v '^ucc_team_destroy$')
why "a library without one function" "$dir/lacking.so has no 'ucc_team_destroy'" "$dir/lacking.so"
COLL_UCC_LIBRARY=/nonexistent/libucc.so COLL_BACKEND='' timeout 120 "$coll" info >"$dir/out" 2>&1 </dev/null
has "no UCC: another backend is chosen" "$dir/out" '^  \* (tcp|simulated) [^ ]*: usable$'

# ---------------------------------------------------------------------------- with UCC

[ -z "$library" ] || export COLL_UCC_LIBRARY="$library"
if ! can ucc; then
    done_testing
fi
"$coll" info >"$dir/out" 2>&1 </dev/null
has "coll info: UCC's version and file" "$dir/out" '^ +what .*UCC 1\.[0-9.]+[^ ]* \(/.*libucc\.so'
has "without COLL_BACKEND another backend is chosen" "$dir/out" '^  \* (tcp|simulated) [^ ]*: usable$'
export COLL_BACKEND=ucc

# The header is installed beside the library.
path=$(sed -n 's/^ *what .*UCC 1[^(]*(\(\/[^)]*\)).*/\1/p' "$dir/out" | head -n 1)
include=$(cd "$(dirname "$path")/../include" 2>/dev/null && pwd)
if [ -e "$include/ucc/api/ucc.h" ]; then
    for header in "\"$source/plugins/ucc/ucc_api.h\"" "<ucc/api/ucc.h>"; do
        printf '#include %s\n#include "%s"\n' "$header" "$source/tests/ucc/numbers.h" >"$dir/numbers.c"
        ${TEST_CC:-cc} -I"$include" -o "$dir/numbers" "$dir/numbers.c" 2>"$dir/err" || cat "$dir/err" >&2
        case $header in
        *ucc_api*) "$dir/numbers" >"$dir/ours" 2>"$dir/ours.sizes" ;;
        *) "$dir/numbers" >"$dir/theirs" 2>"$dir/theirs.sizes" ;;
        esac
    done
    check "the plugin's declarations are those of UCC's header" diff "$dir/ours" "$dir/theirs"
    read -r team args <"$dir/ours.sizes"
    read -r their_team their_args <"$dir/theirs.sizes"
    check "the plugin's structs have space for those of UCC's header" \
        test "$team" -ge "$their_team" -a "$args" -ge "$their_args"
else
    skip "the plugin's declarations" "UCC's header is not installed beside $path"
fi

timeout 120 "$coll" run --no-prefix -n 3 -- "$build/tests/examples/hello" >"$dir/out" 2>"$dir/err" </dev/null
is "3 processes run over ucc" "$? $(grep -c 'is 3, backend ucc$' "$dir/out")" "0 3"
none "UCC and UCX print nothing" "$(cat "$dir/err")"
COLL_COMPANION=none timeout 120 "$coll" run --no-prefix -n 3 -- "$build/tests/examples/hello" \
    >"$dir/out" 2>"$dir/err" </dev/null
is "3 processes run without a companion" "$? $(grep -c 'is 3, backend ucc$' "$dir/out")" "0 3"

timeout 580 "$coll" check --quick --ranks 2-2 ${library:+--option "library=$library"} "$plugin" \
    >"$dir/out" 2>"$dir/err" </dev/null
tap_result $? "coll check" "$(grep -A 5 '^not ok' "$dir/out")"
done_testing
