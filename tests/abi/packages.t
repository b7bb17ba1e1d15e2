#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# packages.t - the Debian packages are built, and lintian has no complaint; each can be installed alone in a bare Debian, and
# debian/tests run there.  It takes about five minutes, so `make check-long` runs it.
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
find . -name .dirstamp -delete
lacking=$(dpkg-checkbuilddeps 2>&1) || skip_all "${lacking##*: error: }"

# ---- the packages ----

build() {
    (unset MAKEFLAGS MFLAGS MAKELEVEL && DEB_BUILD_OPTIONS=nocheck nice -n 10 dpkg-buildpackage -us -uc -b) >"$dir/out" 2>&1
}
check "dpkg-buildpackage makes the packages" build
if [ "$tap_status" -ne 0 ]; then
    tail -n 50 "$dir/out" | sed 's/^/# /'
    done_testing
fi
for package in $(sed -n 's/^Package: //p' debian/control); do
    case $package in
    libcoll-openmpi-backend | libcoll-ucx-backend) [ -e "debian/$package" ] || continue ;;
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

[ "$(id -u)" -eq 0 ] || { skip "the packages are installed" "needs root"; done_testing; }

# bare DIR DEPENDS: a chroot of the Debian that runs here; its output in $dir/out, 77 if none can be made.
bare() {
    sh tests/abi/bare_root "$dir/$1" "$dir" "$2" >"$dir/out" 2>&1
}
inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$@"
}

# alone PACKAGE: prints what is wrong with a Debian that has this package and its dependencies only: files that are not there,
# libraries that its programs, libraries and plugins lack, and what a user's first step says.
alone() {
    bare alone "$1" || { tail -n 20 "$dir/out"; return; }
    # shellcheck disable=SC2016 # for the shell in the chroot
    inside "$dir/alone" sh -c 'dpkg --audit; dpkg -L "$1" | while read -r file; do
        [ -e "$file" ] || echo "$file is not there, or leads nowhere"
        case $file in
        *.so* | /usr/bin/*) ldd "$file" 2>/dev/null | sed -n "s,.*not found,$file needs &,p" ;;
        esac
    done' sh "$1"
    case $1 in
    libcoll-*mpi*-backend)
        # shellcheck disable=SC2016 # for the shell in the chroot
        inside "$dir/alone" sh -c 'test "$(readlink -f /usr/lib/*/coll/v1/coll_mpi.so)" = "$(dpkg -L "$1" | grep "/coll_mpi\.so$")" &&
            dpkg --remove "$1" && test ! -h /usr/lib/*/coll/v1/coll_mpi.so' sh "$1"
        ;;
    coll) inside "$dir/alone" coll run -n 2 coll perf -e 1K allreduce ;;
    python3-coll) inside "$dir/alone" python3 -c 'import coll; coll.init().allreduce(1)' ;;
    esac >"$dir/out" 2>&1 || echo "its first step failed: $(cat "$dir/out")"
}
bare alone libcoll-common
[ $? -ne 77 ] || { skip "the packages are installed" "$(tail -n 1 "$dir/out")"; done_testing; }
rm -rf --one-file-system "$dir/alone"
for package in $(cd "$dir" && ls ./*.deb | sed 's,^\./,,; s/_.*//' | grep -v -- -dbgsym); do
    none "$package alone, with what it depends on, lacks nothing" "$(alone "$package")"
    rm -rf --one-file-system "$dir/alone"
done

# served DIR COMMAND...: runs it in the chroot DIR with /proc and /sys, which MPI libraries need, mounted for it alone.
served() {
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount sh -c 'mkdir -p "$1/proc" "$1/sys" && mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" || exit 77
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$@"' sh "$@"
}

# autopkgtest NAME WORDS [RUN]: a check, that the test in debian/tests passes with nothing but the packages that it asks for.
# RUN: inside or served.
autopkgtest() {
    bare "$1" "$(awk -v name="$1" 'BEGIN { RS = ""; FS = "\n" } $1 == "Tests: " name' debian/tests/control |
        sed -n '/^Depends:/,/^Restrictions:/p' | sed '1d; $d' | tr -d '\n')"
    case $? in
    0) ;;
    77)
        skip "$2" "$(tail -n 1 "$dir/out")"
        return 1
        ;;
    *)
        none "$2" "$(tail -n 20 "$dir/out")"
        return 1
        ;;
    esac
    mkdir "$dir/$1/source" && cp -R --parents debian/tests tests include/coll "$dir/$1/source/"
    "${3:-inside}" "$dir/$1" sh -c "cd /source && sh debian/tests/$1" >"$dir/out" 2>&1
    autopkgtest_status=$?
    if [ "$autopkgtest_status" -eq 77 ]; then
        skip "$2" "/proc or /sys cannot be mounted here"
        return 1
    fi
    none "$2" "$([ "$autopkgtest_status" -eq 0 ] || { grep -A 12 '^not ok' "$dir/out" || tail -n 50 "$dir/out"; })"
}
if autopkgtest newcomer "a new user's first hour: README's programs, the training, a backend of one's own"; then
    is "four ranks add up in C" "$(grep -c 'the sum over all ranks is 4$' "$dir/out")" 4
    is "four ranks add up in Python" "$(grep -c 'the sum over all ranks is 10.0$' "$dir/out")" 4
fi
autopkgtest installcheck "installcheck on the packages"
if autopkgtest mpi "the backend mpi over Debian's Open MPI and MPICH" served; then
    is "two ranks of each have used it" "$(grep -c 'backend mpi, 2 ranks' "$dir/out")" 2
fi

done_testing
