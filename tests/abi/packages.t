#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# packages.t - the Debian packages are built, and lintian has no complaint; in a bare Debian they are installed, and
# debian/tests/newcomer does there what a new user would do.  It takes about five minutes, so `make check-long` runs it.
. "${top_srcdir:-.}/tests/lib/tap.sh"

is_long || skip_all "it takes five minutes: make check-long, or TEST_LEVEL=long"
[ -z "$TEST_SANITIZE" ] || skip_all "packages are built without -fsanitize=$TEST_SANITIZE"
command -v dpkg-buildpackage >/dev/null || skip_all "no dpkg-buildpackage here"
dir=$(mktemp -d) || exit 1
trap 'rm -rf --one-file-system "$dir"' EXIT

copy_source "$dir/libcoll" || exit 1
cd "$dir/libcoll" || exit 1
# What a build in the tree left there.
rm -rf docs/build config.log libtool coll
lacking=$(dpkg-checkbuilddeps 2>&1) || skip_all "${lacking##*: error: }"

# ---- the packages ----

build() {
    (unset MAKEFLAGS MFLAGS MAKELEVEL && DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b) >"$dir/out" 2>&1
}
check "dpkg-buildpackage makes the packages" build
if [ "$tap_status" -ne 0 ]; then
    tail -n 50 "$dir/out" | sed 's/^/# /'
    done_testing
fi
for package in $(sed -n 's/^Package: //p' debian/control); do
    case $package in
    libcoll-ucx-backend) [ -e debian/libcoll-ucx-backend ] || continue ;;
    esac
    check "$package" sh -c 'ls "$1/$2"_*.deb' sh "$dir" "$package"
done
none "dpkg-gensymbols knows each symbol version" "$(grep -A 20 'dpkg-gensymbols: warning' "$dir/out")"
# Debian has no report that asks for these packages, which its first upload would close.
if command -v lintian >/dev/null; then
    none "lintian has no complaint but those that debian/*.lintian-overrides names" \
        "$(lintian --allow-root --tag-display-limit 0 --suppress-tags initial-upload-closes-no-bugs "$dir"/*.changes 2>&1 | grep '^[EW]: ')"
else
    skip "lintian has no complaint" "no lintian here"
fi

# ---- a bare Debian with nothing but the packages ----

# bare: a chroot of the Debian that runs here, with what the packages depend on, a compiler and numpy.
bare() {
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    timeout 600 debootstrap --variant=minbase \
        --include=gcc,libc6-dev,libinih-dev,libjs-sphinxdoc,libltdl-dev,libsodium23,libucx0,make,pkgconf,python3,python3-numpy \
        "$codename" "$dir/root" >"$dir/out" 2>&1
}
newcomer() {
    cp "$dir"/*.deb "$dir/root/tmp/" && cp debian/tests/newcomer "$dir/root/tmp/" && rm -f "$dir"/root/tmp/*-dbgsym_* &&
        chroot "$dir/root" sh -c 'dpkg -i /tmp/*.deb && cd /tmp && env -i PATH="$PATH" HOME=/root sh /tmp/newcomer' >"$dir/out" 2>&1
}
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    skip "a new user's first hour" "needs root and debootstrap"
elif ! bare; then
    skip "a new user's first hour" "no chroot can be made here: $(tail -n 1 "$dir/out")"
else
    check "they are installed, and hello in C and Python, the training and a backend of one's own run" newcomer
    [ "$tap_status" -eq 0 ] || tail -n 50 "$dir/out" | sed 's/^/# /'
    is "four ranks add up in Python" "$(grep -c 'the sum over all ranks is 10' "$dir/out")" 4
fi

done_testing
