#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# recipes.t - each plugin is in a package of debian/ and of libcoll.spec; and the recipes of conf/packages please the tools that
# check them, where these are here.
. "${top_srcdir:-.}/tests/lib/tap.sh"

src=$(cd "${top_srcdir:-.}" && pwd) || exit 1
recipes=$src/conf/packages
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# linted TOOL WORDS COMMAND...: a check that COMMAND, which runs TOOL, has nothing to say.
linted() {
    tool=$1
    words=$2
    shift 2
    if command -v "$tool" >/dev/null; then
        none "$words" "$("$@" 2>&1)"
    else
        skip "$words" "no $tool here"
    fi
}

# What make install puts into the folder of plugins.
plugins=$(sed -n 's/^pluginexec_LTLIBRARIES += *\([a-z_]*\)\.la.*/\1/p' "$src"/plugins/*/Makefile.inc)
check "there are plugins" [ "$(echo "$plugins" | wc -l)" -ge 6 ]
for plugin in $plugins; do
    file=$plugin.so
    case $plugin in observer_*) file='observer_\*.so' ;; esac
    check "libcoll.spec packs $plugin" grep -q "/coll/v1/$file\$" "$recipes/libcoll.spec"
    # debian/rules moves that of mpi beside those for other MPI libraries.
    case $plugin in coll_mpi) file=mpi/abi ;; esac
    check "a package of Debian has $plugin" sh -c 'grep -q "$1" "$2"/debian/*.install' sh "/coll/v1/$file\$" "$src"
done
none "each file of debian/ is in the tarball" "$(cd "$src" && find debian -maxdepth 1 -type f \
    \( -name '*.install' -o -name clean -o -name '*-overrides' -o -name '*.symbols' \) | while read -r file; do
        grep -qF "	$file" Makefile.am || echo "$file"
    done; for file in debian/tests/*; do grep -qF "	$file" Makefile.am || echo "$file"; done)"

quiet() {
    "$@" >"$dir/out" 2>&1 || cat "$dir/out"
}
rpmlint_says() {
    HOME=$dir rpmlint -r "$recipes/libcoll.rpmlintrc" "$recipes/libcoll.spec" | grep -E ': [EW]: |Error'
}
linted rpmspec "rpmspec reads libcoll.spec" quiet rpmspec -q "$recipes/libcoll.spec"
linted rpmlint "rpmlint has no complaint about libcoll.spec" rpmlint_says
# The rules of `spack style`.
linted black "black would leave Spack's package.py as it is" quiet black -q -l 99 --diff --check "$recipes/spack/package.py"
linted flake8 "flake8 has no complaint about it" flake8 --isolated --max-line-length 99 --extend-ignore F403,F405 "$recipes/spack/package.py"
none "no line of it is longer than 99 characters" "$(awk 'length > 99' "$recipes/spack/package.py")"
linted hadolint "hadolint has no complaint about Containerfile" hadolint "$recipes/Containerfile"
linted shellcheck "shellcheck has none about the scripts" shellcheck -S warning "$recipes/install_python" "$recipes/conda/build.sh" \
    "$src/debian/tests/installcheck" "$src/debian/tests/mpi" "$src/debian/tests/newcomer" "$src/tests/abi/bare_root"

done_testing
