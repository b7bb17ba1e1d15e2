#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# installcheck.sh - is what was installed complete and usable by others?  Run by `make installcheck`,
# which gives DESTDIR, bindir, libdir, plugindir, plugins and PKG_CONFIG.
. "${top_srcdir:-.}/tests/tap.sh"

CC=${TEST_CC:-cc}
root=$DESTDIR
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Paths in coll.pc are without DESTDIR; with a sysroot pkg-config puts it before them.
pkg() {
    env PKG_CONFIG_PATH="$root$libdir/pkgconfig" \
        ${root:+PKG_CONFIG_SYSROOT_DIR="$root"} "${PKG_CONFIG:-pkg-config}" "$@" coll
}

# An installed program with an installed library, whatever the system's paths are.
LD_LIBRARY_PATH=$root$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# The built-in plugin directory is the one without DESTDIR.
[ -z "$root" ] || { COLL_PLUGIN_PATH=$root$plugindir && export COLL_PLUGIN_PATH; }

for plugin in $plugins; do
    check "$plugin is installed" test -f "$root$plugindir/$plugin.so"
    check "$plugin has no .la file" test ! -e "$root$plugindir/$plugin.la"
    none "$plugin needs no symbol of libcoll" \
        "$(nm -D -u "$root$plugindir/$plugin.so" | awk '{ print $NF }' | grep '^coll_')"
done
check "libcoll is installed" test -f "$root$libdir/libcoll.so"
none "libcoll exports nothing but coll_*" \
    "$(nm -D --defined-only "$root$libdir/libcoll.so" | awk '{ print $3 }' |
        grep -v '^coll_')"

check "pkg-config finds coll" pkg --exists
# pkgconf puts the sysroot before variables too, the older pkg-config does not.
check "pkg-config tells plugindir" sh -c 'test "$1" = "$3" || test "$1" = "$2$3"' \
    sh "$(pkg --variable=plugindir)" "$root" "$plugindir"
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
for backend in tcp simulated; do
    check "and runs over $backend" env COLL_BACKEND=$backend "$scratch/program"
done
check "coll runs" "$root$bindir/coll" --version
check "coll.conf is there" test -f "$root${sysconfdir:-/etc}/coll.conf"

done_testing
