#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rust.t - bindgen makes a Rust binding of coll.h; it has C's layouts, and bindings/README.md's program runs.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
# rustc would look for make's job server, to which a test has no access.
unset MAKEFLAGS MFLAGS
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
[ -z "$TEST_SANITIZE" ] || skip_all "programs of rustc are built without -fsanitize=$TEST_SANITIZE"
command -v bindgen >/dev/null || skip_all "bindgen is not installed"
command -v rustc >/dev/null || skip_all "rustc is not installed"
rustc --version >/dev/null 2>&1 || skip_all "rustc cannot be used here"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# The command of README, for the headers of the tree.
sed -n 's/^    \(bindgen .*\)/\1/p' "$src/bindings/README.md" >"$dir/command"
is "README has a command" "$(wc -l <"$dir/command" | tr -d ' ')" 1
bindgen --help 2>&1 | grep -q -e '--size_t-is-usize' || sed -i 's/ --size_t-is-usize//' "$dir/command"
generate() {
    (cd "$dir" && eval "$(sed "s|\"\$(pkg-config --variable=includedir coll)|\"$src/include|g" command)")
}
check "bindgen reads coll.h" generate || { cat "$dir/command"; done_testing; exit; }
# A declaration a line, with the same blanks whether or not there is a rustfmt.
tr ';' '\n' <"$dir/coll.rs" |
    sed 's/^.*\(pub \(fn\|const\|type\) \)/\1/; s/ *:: */::/g; s/ *: */: /g; s/ *(/(/; s/ *$//' >"$dir/flat"
none "it has every function of libcoll" "$(
    nm -D --defined-only "$build/.libs/libcoll.so" | sed -n 's/.* T \(coll_[a-z_]*\)\(@@.*\)*$/\1/p' |
        grep -v '^coll_plugin' | while read -r name; do
        grep -q "^pub fn $name(" "$dir/flat" || echo "$name"
    done)"

has "a size_t is a usize" "$dir/flat" '^pub fn coll_dtype_size\(.*-> usize'
# Sizes and bits are unsigned, as the fields that hold them.
for type in $(sed -n 's/^pub type \(_bindgen_ty_[0-9]*\) =.*c_uint$/\1/p' "$dir/flat"); do
    sed -n "s/^pub const \(COLL_[A-Z0-9_]*\): $type = .*/\1/p" "$dir/flat"
done | grep -vE '^COLL_(ALGORITHM|ARGS|BUFFER|CAP|COUNTER|RULE)_|_SIZE(_MAX)?$' >"$dir/unsigned"
none "its enumerations are signed" "$(cat "$dir/unsigned")"

awk '/^```rust$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/bindings/README.md" >"$dir/sum.rs"
is "README's program has five lines" "$(wc -l <"$dir/sum.rs" | tr -d ' ')" 5
compile() {
    (cd "$dir" && rustc --edition 2021 "$@" -L "$build/.libs" -l coll sum.rs)
}
check "it compiles" compile -o sum
warnings=$(compile -o sum 2>&1)
none "without a warning" "$warnings"
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
COLL_BACKEND=tcp
export LD_LIBRARY_PATH COLL_BACKEND
timeout 120 "$build/coll" run --no-prefix -n 4 -- "$dir/sum" >"$dir/out" 2>&1
is "it prints the sum on four ranks" "$(grep -c '^sum: 4$' "$dir/out")" 4
check "bindgen's own tests of the layouts compile" compile --test -o layouts
check "and pass" "$dir/layouts"

done_testing
