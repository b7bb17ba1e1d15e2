/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - the common part of all bad plugins: a good backend, and hooks to spoil one function of
 * it.
 *
 * A bad plugin names the check that it fails, includes uds.h or tcp.h, which bring in a whole good
 * backend, defines the wrong function, names it in a BAD_* macro, and includes table.h.  Its
 * endpoint is a struct bad, which holds the good backend's endpoint and the host that the good
 * backend sees.
 */
#ifndef BAD_BASE_H
#define BAD_BASE_H

#include <coll/backend.h>
#include <stdlib.h>
#include <string.h>

struct bad {
	/*
	 * the host that the good backend sees; the first member, so that it leads back to this
	 * struct
	 */
	coll_host_t host;
	const coll_host_t *real; /* the core's host */
	void *ep;                /* endpoint of the good backend */
	/* For use by the fault. */
	coll_send_t *held;
	uint64_t cookie, bytes;
	void *memory;
	int fd, mark[64];
};

#define BAD_FN __attribute__((unused)) static

BAD_FN struct bad *bad_of(const coll_host_t *host)
{
	return (struct bad *)(uintptr_t)host;
}

/* These functions call the good backend; defined in table.h. */
BAD_FN int32_t bad_send(void *ep, coll_send_t *send, coll_error_t *err);
BAD_FN int32_t bad_progress(void *ep);
BAD_FN int32_t bad_open(const coll_host_t *host, void **ep, coll_error_t *err);
BAD_FN void bad_close(void *ep, int64_t timeout_ms);

#endif
