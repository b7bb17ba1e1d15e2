#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# autogen.sh - from a checkout to a configure script, or with --quickstart to a running example.
set -eu

usage() {
    cat <<'END'
usage: ./autogen.sh                              make ./configure
       ./autogen.sh --quickstart [CONFIGURE ARG...]
                                                 install what the build needs (as root or with
                                                 passwordless sudo, on Debian and Ubuntu), make
                                                 ./configure, configure, build, and train the
                                                 example on four ranks
END
}

say() {
    printf '\n==> %s\n' "$*"
}

fail() {
    printf 'autogen.sh: %s\n' "$*" >&2
    exit 1
}

# Prints one "thing package" line for everything that the build needs and this machine lacks.
missing() {
    while read -r command package; do
        command -v "$command" >/dev/null 2>&1 || echo "$command $package"
    done <<'END'
gcc gcc
make make
autoconf autoconf
automake automake
libtoolize libtool
pkg-config pkg-config
END
    compiler=${CC:-gcc}
    while read -r header package; do
        echo "#include <$header>" | $compiler -E - >/dev/null 2>&1 || echo "$header $package"
    done <<'END'
stdio.h libc6-dev
ltdl.h libltdl-dev
ini.h libinih-dev
END
}

# Sets as_root to the command before those that root must run; status 1: this user may not.
find_root() {
    if [ "$(id -u)" -eq 0 ]; then
        as_root=env
    else
        command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
        as_root="sudo -n env"
    fi
}

install_packages() {
    $as_root apt-get update -q &&
        # shellcheck disable=SC2086 # one word a package
        $as_root DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends $packages
}

# Prints the Debian packages that the build can do without, and this machine lacks.
missing_optional() {
    echo "#include <sodium.h>" | ${CC:-gcc} -E - >/dev/null 2>&1 || echo libsodium-dev
}

# Without these the build lacks an option.  Does nothing where it may not install packages.
install_optional() {
    packages=$(missing_optional | tr '\n' ' ' | sed 's/ $//')
    [ -n "$packages" ] || return 0
    if command -v apt-get >/dev/null 2>&1 && find_root; then
        say "installing $packages, which the build can do without"
        install_packages || say "$packages could not be installed"
    fi
    [ -z "$(missing_optional)" ] || say "without $packages: messages between hosts cannot be protected (option tcp.security)"
}

# Leaves with status 0 only if everything is there afterwards.
install_missing() {
    lacking=$(missing)
    [ -n "$lacking" ] || return 0
    things=$(echo "$lacking" | cut -d' ' -f1 | tr '\n' ' ')
    packages=$(echo "$lacking" | cut -d' ' -f2 | tr '\n' ' ' | sed 's/ $//')

    command -v apt-get >/dev/null 2>&1 ||
        fail "missing: ${things}- install them (Debian names: $packages) and run me again"
    find_root || fail "missing: ${things}- may not install packages; as root run
    apt-get update && apt-get install -y --no-install-recommends $packages
and then me again"
    say "installing $packages"
    install_packages
    lacking=$(missing)
    [ -z "$lacking" ] || fail "still missing after the installation: $lacking"
}

bootstrap() {
    command -v autoreconf >/dev/null 2>&1 ||
        fail "autoreconf not found: install autoconf, automake, libtool and pkg-config"
    mkdir -p build-aux/m4
    autoreconf -fi
}

quickstart() {
    install_missing
    install_optional
    say "making configure"
    bootstrap
    say "configuring"
    ./configure "$@"
    say "building"
    make -j "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)"
    say "training on four ranks: ./coll run -n 4 ./tests/examples/digits"
    # Root may build the checkout of another user.
    COLL_TRUST=${COLL_TRUST-$PWD} ./coll run -n 4 ./tests/examples/digits
    say "done; next: make check"
}

cd "$(dirname "$0")"
case $(pwd) in
*[[:space:]]*)
    fail "the path '$(pwd)' holds a space: make cannot build there. Move the tree, for example to /tmp/libcoll"
    ;;
esac
case ${1-} in
'') bootstrap ;;
--quickstart)
    shift
    quickstart "$@"
    ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
