#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# installcheck.sh - is what was installed complete and usable by others?  `make installcheck` runs it
# and gives DESTDIR, the directories that the first checks name, plugins, PKG_CONFIG and MAKE.  With
# nothing installed and no DESTDIR it installs into a directory of its own.
. "${top_srcdir:-.}/tests/lib/tap.sh"

CC=${TEST_CC:-cc}
root=$DESTDIR
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

if [ -z "$root" ] && [ ! -e "$libdir/pkgconfig/coll.pc" ]; then
    root=$scratch/root
    check "it installs" "${MAKE:-make}" -s -C "${top_builddir:-.}" install DESTDIR="$root"
fi

# Paths in coll.pc do not contain DESTDIR; with a sysroot pkg-config puts DESTDIR before them.
pkg() {
    env PKG_CONFIG_PATH="$root$libdir/pkgconfig" \
        ${root:+PKG_CONFIG_SYSROOT_DIR="$root"} "${PKG_CONFIG:-pkg-config}" "$@" coll
}

# Runs an installed program with the installed library, whatever the system's paths are.
LD_LIBRARY_PATH=$root$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# The built-in directories do not contain DESTDIR.
if [ -n "$root" ]; then
    COLL_PLUGIN_PATH=$root$plugindir
    COLL_SYSCONFDIR=$root$sysconfdir
    export COLL_PLUGIN_PATH COLL_SYSCONFDIR
fi

documents=$root$docdir
examples=$root$examplesdir
for plugin in $plugins; do
    check "$plugin is installed" test -f "$root$plugindir/$plugin.so"
    check "$plugin has no .la file" test ! -e "$root$plugindir/$plugin.la"
    none "$plugin needs no symbol of libcoll" \
        "$(nm -D -u "$root$plugindir/$plugin.so" | awk '{ print $NF }' | grep '^coll_')"
done
check "libcoll is installed" test -f "$root$libdir/libcoll.so"
none "libcoll exports nothing but coll_*" \
    "$(nm -D --defined-only "$root$libdir/libcoll.so" | awk '$2 != "A" { print $3 }' |
        grep -v '^coll_')"

check "pkg-config finds coll" pkg --exists
# pkgconf puts the sysroot before variables too, the older pkg-config does not.
check "pkg-config tells plugindir" sh -c 'test "$1" = "$3" || test "$1" = "$2$3"' \
    sh "$(pkg --variable=plugindir)" "$root" "$plugindir"
check "pkg-config tells examplesdir" sh -c 'test "$1" = "$3" || test "$1" = "$2$3"' \
    sh "$(pkg --variable=examplesdir)" "$root" "$examplesdir"
check "pkg-config tells abi_major" \
    grep -q "COLL_BACKEND_ABI_MAJOR $(pkg --variable=abi_major)\$" \
    "${top_srcdir:-.}/include/coll/backend.h"

cat >"$scratch/plugin.c" <<'END'
#include <coll/backend.h>

static int32_t tiny_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	(void)host, (void)err;
	*ep = 0;
	return COLL_ERR_UNSUPPORTED;
}

static void tiny_close(void *ep, int64_t timeout_ms)
{
	(void)ep, (void)timeout_ms;
}

static int32_t tiny_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	(void)ep, (void)send, (void)err;
	return COLL_ERR_UNSUPPORTED;
}

static int32_t tiny_progress(void *ep)
{
	(void)ep;
	return 0;
}

static const coll_transport_t tiny_transport = {
	.size = sizeof(coll_transport_t), .send = tiny_send, .progress = tiny_progress
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t), .abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "tiny", .version = "1.0", .description = "nothing", .priority = 1,
	.memory = COLL_MEM_HOST, .transport = &tiny_transport,
	.open = tiny_open, .close = tiny_close,
};
END
build_plugin() {
    # shellcheck disable=SC2046 # flags are words
    $CC -Wall -Wextra -Werror $(pkg --cflags) $(pkg --variable=plugin_cflags) \
        $(pkg --variable=plugin_ldflags) -o "$scratch/coll_tiny.so" "$scratch/plugin.c"
}
check "a backend outside the tree builds with pkg-config" build_plugin
check "coll info lists it" sh -c 'COLL_PLUGIN_PATH=$1 "$2/coll" info | grep -q tiny' \
    sh "$scratch" "$root$bindir"

cat >"$scratch/program.c" <<'END'
#include <coll/coll.h>
#include <stdio.h>

int main(void)
{
	coll_comm_t comm;
	float x[3] = { 1, 2, 3 };
	int32_t failed = coll_comm_init_all(&comm, 1, NULL, NULL);

	if (!failed)
		failed = coll_allreduce(x, x, 3, COLL_FLOAT32, COLL_SUM, comm, NULL);
	if (!failed)
		failed = coll_sync(comm);
	if (failed)
		printf("%s: %s\n", coll_error_string(failed), coll_get_last_error(NULL));
	else
		failed = coll_comm_destroy(comm);
	return failed || x[2] != 3;
}
END
build_program() {
    # shellcheck disable=SC2046,SC2086 # flags are words
    $CC $TEST_CFLAGS -o "$scratch/program" "$scratch/program.c" $(pkg --cflags --libs)
}
check "a program builds with pkg-config" build_program
chosen() {
    "$root$bindir/coll" info | sed -n 's/^  \* \([^ ]*\) .*/\1/p'
}
for backend in tcp simulated $(COLL_BACKEND=ucx chosen); do
    check "and runs over $backend" env COLL_BACKEND=$backend "$scratch/program"
done
check "coll runs" "$root$bindir/coll" --version
check "coll.conf is there" test -f "$root$sysconfdir/coll.conf"

# ---- documents ----

for file in README.md SECURITY.md LICENSE CHANGELOG.md plugins/README.md bindings/README.md docs/coll-threads.rst; do
    check "$file is there" test -s "$documents/$file"
done

# Prints the links of the installed documents that lead to no installed file.
dangling() {
    (cd "$documents" && find . -name '*.md') | while read -r file; do
        grep -oE '\]\([^() ]*\)' "$documents/$file" | sed 's/^](//; s/)$//; s/#.*//' | while read -r link; do
            case $link in
            http*://* | '') ;;
            /*) test -e "$root$link" || echo "$file: $link" ;;
            *) test -e "$documents/$(dirname "$file")/$link" || echo "$file: $link" ;;
            esac
        done
    done
}
none "each link of a document leads to an installed file" "$(dangling)"

# Prints the files that headers, coll.conf and man pages name by folder/file and that are not installed.
absent() {
    # Packages compress the man pages.
    gzip -cdf "$root$includedir"/coll/*.h "$root$sysconfdir/coll.conf" "$root$mandir"/man[1357]/*coll* |
        sed 's/\\[-&%]/-/g; s/\\f.//g' |
        grep -oE '[A-Za-z]+/[A-Za-z0-9_/-]+\.(md|c|h|t|sh)\b' | sort -u | grep -v '^doc/PERFORMANCE.md$' |
        while read -r file; do
            test -e "$documents/$file" || test -e "$root$includedir/$file" || echo "$file"
        done
}
none "each file that a header, coll.conf or a man page names is there" "$(absent)"
if [ -e "${top_builddir:-.}/docs/build/man/pages/stamp" ] || [ -e "${top_srcdir:-.}/docs/man/stamp" ]; then
    check "coll_allreduce has its man page" test -s "$root$mandir/man3/coll_allreduce.3"
    check "coll.conf too" test -s "$root$mandir/man5/coll.conf.5"
else
    skip "coll_allreduce has its man page" "they need sphinx-build, or a tarball"
fi

build_examples() {
    cp -R "$examples" "$scratch/examples" && chmod -R u+w "$scratch/examples" &&
        env PKG_CONFIG_PATH="$root$libdir/pkgconfig" ${root:+PKG_CONFIG_SYSROOT_DIR="$root"} \
            "${MAKE:-make}" -s -C "$scratch/examples" CC="$CC" CFLAGS="$TEST_CFLAGS -Wall -Wextra -Werror"
}
check "the examples build with pkg-config only" build_examples
check "and hello runs" "$root$bindir/coll" run -n 2 -- "$scratch/examples/hello"

# ---- the same program and backend by CMake ----

# The project's version is NEEDED, for example 0.1.
with_cmake() {
    mkdir -p "$scratch/by-cmake" && cat >"$scratch/by-cmake/CMakeLists.txt" <<'END' || return
cmake_minimum_required(VERSION 3.13)
project(by_cmake C)
find_package(coll ${NEEDED} REQUIRED)
add_executable(program ../program.c)
target_link_libraries(program PRIVATE coll::coll)
add_library(coll_tiny MODULE ../plugin.c)
target_link_libraries(coll_tiny PRIVATE coll::backend)
set_target_properties(coll_tiny PROPERTIES PREFIX "")
file(WRITE ${CMAKE_BINARY_DIR}/variables "${coll_PLUGIN_DIR} ${coll_CONF_DIR} ${coll_ABI_MAJOR}")
END
    rm -rf "$scratch/by-cmake/build"
    cmake -S "$scratch/by-cmake" -B "$scratch/by-cmake/build" -DNEEDED="$1" -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_C_FLAGS="$TEST_CFLAGS" -Dcoll_DIR="$root$libdir/cmake/coll"
}
if command -v cmake >/dev/null; then
    version=$("$root$bindir/coll" --version | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')
    check "CMake finds coll $version" with_cmake "$version"
    check "and without a version" with_cmake ''
    check "CMake's variables" grep -qx \
        "$root$plugindir $root$sysconfdir/coll.conf.d $(pkg --variable=abi_major)" \
        "$scratch/by-cmake/build/variables"
    check "a program and a backend build with CMake" cmake --build "$scratch/by-cmake/build"
    check "the program runs" env COLL_BACKEND=tcp "$scratch/by-cmake/build/program"
    check "coll info lists the backend" sh -c 'COLL_PLUGIN_PATH=$1 "$2/coll" info | grep -q tiny' \
        sh "$scratch/by-cmake/build" "$root$bindir"
    none "which does not link libcoll" \
        "$(readelf -d "$scratch/by-cmake/build/coll_tiny.so" | grep 'NEEDED.*libcoll')"
    none "CMake refuses a later version" "$(with_cmake 99.0 >"$scratch/out" 2>&1 && echo found)"
else
    skip "CMake finds coll" "no cmake"
fi

# ---- a backend of a third party, from its sources to training ----

# Under a DESTDIR the backend goes to the other plugins; beside an installation in use it goes
# elsewhere.
own=$root
if [ -z "$own" ]; then
    own=$scratch/own
    COLL_PLUGIN_PATH=$own$plugindir:$plugindir
    COLL_SYSCONFDIR=$own$sysconfdir
    export COLL_PLUGIN_PATH COLL_SYSCONFDIR
fi
listing() {
    find "$root$plugindir" "$root$sysconfdir" | sort
}
outside() {
    env PKG_CONFIG_PATH="$root$libdir/pkgconfig" ${root:+PKG_CONFIG_SYSROOT_DIR="$root"} \
        "${MAKE:-make}" -s -C "$scratch/out-of-tree" \
        CC="$CC" PKG_CONFIG="${PKG_CONFIG:-pkg-config}" \
        DESTDIR="$own" plugindir="$plugindir" confdir="$sysconfdir/coll.conf.d" "$@"
}
build_digits() {
    # shellcheck disable=SC2046,SC2086 # flags are words
    $CC $TEST_CFLAGS -O2 -DDIGITS_DATA="\"$examples/data\"" -o "$scratch/digits" \
        "$examples/digits.c" -pthread $(pkg --cflags --libs) -lm
}
check "the training example builds" build_digits
run4="$root$bindir/coll run --no-prefix -n 4 --"
usual=$($run4 "$scratch/digits" | sed -n 's/.*, backend \([a-z]*\),.*/\1/p')
before=$(listing)
cp -R "$examples/backend" "$scratch/out-of-tree"
chmod -R u+w "$scratch/out-of-tree"
check "a whole backend fits into 149 lines" \
    test "$(wc -l <"$scratch/out-of-tree/coll_uds.c")" -lt 150
check "it builds outside the tree, with pkg-config only" outside coll_uds.so
none "without a warning" "$(touch "$scratch/out-of-tree/coll_uds.c" && outside coll_uds.so 2>&1)"
check "it installs itself into the plugin directory" outside install

# trains NAME BACKEND COMMAND...: checks that the example learns over this backend.
trains() {
    name=$1 backend=$2
    shift 2
    "$@" >"$scratch/out" 2>&1
    check "$name" awk -v backend="backend $backend," \
        '/^held-out/ && $3 > 0.9 && index($0, backend) { good = 1 } { print } END { exit !good }' \
        "$scratch/out"
}
# shellcheck disable=SC2086 # a command line
{
    trains "training takes it by name: 4 processes" uds env COLL_BACKEND=uds $run4 "$scratch/digits"
    trains "and 3 threads" uds env COLL_BACKEND=uds "$scratch/digits" --in-process 3
    trains "its own file in coll.conf.d puts it first: 4 processes" uds $run4 "$scratch/digits"
    trains "and 3 threads" uds "$scratch/digits" --in-process 3
}
check "coll info says which file that was" sh -c '"$1/coll" info | grep -q "50-uds\.conf"' \
    sh "$root$bindir"
check "coll check finds no fault in it" \
    "$root$bindir/coll" check --quick --ranks 1-4 "$own$plugindir/coll_uds.so"
check "it uninstalls itself" outside uninstall
check "nothing is left behind" test "$before" = "$(listing)"
# shellcheck disable=SC2086 # a command line
trains "then training is as before" "$usual" $run4 "$scratch/digits"

# ---- the observer to copy ----

cp -R "$examples/observer" "$scratch/observer"
chmod -R u+w "$scratch/observer"
observer_make() {
    env PKG_CONFIG_PATH="$root$libdir/pkgconfig" ${root:+PKG_CONFIG_SYSROOT_DIR="$root"} \
        "${MAKE:-make}" -s -C "$scratch/observer" CC="$CC" PKG_CONFIG="${PKG_CONFIG:-pkg-config}" \
        DESTDIR="$own" plugindir="$plugindir" "$@"
}
none "the observer builds outside the tree, without a warning" "$(observer_make 2>&1)"
check "it installs itself into the plugin directory" observer_make install
check "coll check finds no fault in it" "$root$bindir/coll" check "$own$plugindir/observer_lines.so"
# shellcheck disable=SC2086 # a command line
COLL_OBSERVERS=lines $run4 "$scratch/digits" >"$scratch/out" 2>"$scratch/err"
check "a program tells it of its calls" grep -q "^rank 3 of 4, comm 1: allreduce " "$scratch/err"
check "it uninstalls itself" observer_make uninstall
check "and nothing is left behind" test "$before" = "$(listing)"

# ---- the tutorial that leads to a backend ----

# shellcheck source=/dev/null
. "${top_srcdir:-.}/tests/docs/book.sh"
newcomer() (
    mkdir -p "$scratch/newcomer/work" "$scratch/newcomer/bin"
    # Below a DESTDIR the examples are elsewhere than pkg-config says.
    printf '#!/bin/sh\ncase $* in *examplesdir*) echo "%s" ;; *) exec %s "$@" ;; esac\n' "$examples" \
        "$(command -v "${PKG_CONFIG:-pkg-config}")" >"$scratch/newcomer/bin/pkg-config"
    book_cc "$scratch/newcomer/bin/cc"
    chmod +x "$scratch/newcomer/bin/pkg-config" "$scratch/newcomer/bin/cc"
    PATH=$scratch/newcomer/bin:$root$bindir:$PATH
    PKG_CONFIG_PATH=$root$libdir/pkgconfig
    PKG_CONFIG_SYSROOT_DIR=$root
    export PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
    [ -n "$root" ] || unset PKG_CONFIG_SYSROOT_DIR
    book_page "$documents/docs/coll-tutorial-backend.rst" "$scratch/newcomer"
)
newcomer
book_judge "the installed tutorial" "$scratch/newcomer"

done_testing
