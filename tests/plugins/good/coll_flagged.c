/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_flagged.c - the backend of tests/out-of-tree; a waiting rank polls it, its close is collective, and it is told
 * of the end of the process.  It appends its calls of close and finish to the file that FLAGGED_NOTES names.
 *
 * FLAGGED_OPENS=n   open notes its call and waits until n opens have begun.  The n-th takes longer than the others, and
 *                   installs an exit handler, as the library of a backend may, which makes a note too.
 */
#include <coll/backend.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The table of that backend is not exported; the backend defines _GNU_SOURCE as this build does. */
#undef _GNU_SOURCE
#undef COLL_BACKEND_EXPORT
#define COLL_BACKEND_EXPORT __attribute__((unused)) static
#define coll_backend_v1     flagged_uds
#include "../../out-of-tree/coll_uds.c"
#undef coll_backend_v1

static void flagged_note(const char *text)
{
	const char *name = getenv("FLAGGED_NOTES");
	int fd = name ? open(name, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s\n", text);
	close(fd);
}

static void flagged_handler(void)
{
	flagged_note("handler");
}

static void flagged_meet(int opens)
{
	static _Atomic int begun;
	const int number = atomic_fetch_add(&begun, 1) + 1;

	flagged_note("open");
	while (atomic_load(&begun) < opens)
		usleep(1000);
	if (number != opens)
		return;
	usleep(200000);
	atexit(flagged_handler);
}

static int32_t flagged_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	const char *opens = getenv("FLAGGED_OPENS");

	if (opens)
		flagged_meet(atoi(opens));
	return uds_open(host, ep, err);
}

static void flagged_close(void *ep, int64_t timeout_ms)
{
	char text[64];

	snprintf(text, sizeof(text), "close %u%s", ((struct uds_way *)ep)->host->rank,
		 timeout_ms > 0 ? "" : " alone");
	flagged_note(text);
	uds_close(ep, timeout_ms);
}

static void flagged_finish(void)
{
	flagged_note("finish");
}

__attribute__((visibility("default"))) const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_POLL | COLL_BACKEND_CLOSE_TOGETHER,
	.name = "flagged",
	.version = "1.0",
	.description = "polled, closed together and told of the end",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.transport = &uds_transport,
	.open = flagged_open,
	.close = flagged_close,
	.finish = flagged_finish,
};
