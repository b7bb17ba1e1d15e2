/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - what all bad plugins have in common: a good backend, and room to spoil one thing of it.
 *
 * A bad plugin says which check it fails, includes uds.h or tcp.h, which bring in a good backend
 * whole, writes the function that is wrong, names it in a BAD_* macro, and includes table.h.  Its
 * endpoint is a struct bad; the good backend stands behind it with an endpoint and a host of its own.
 */
#ifndef BAD_BASE_H
#define BAD_BASE_H

#include <coll/backend.h>
#include <stdlib.h>
#include <string.h>

struct bad {
	coll_host_t host;        /* what the good backend sees; first, so that it leads back here */
	const coll_host_t *real; /* what the core gave */
	void *ep;                /* of the good backend */
	/* For the fault. */
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

/* Pass on to the good backend; in table.h. */
BAD_FN int32_t bad_send(void *ep, coll_send_t *send, coll_error_t *err);
BAD_FN int32_t bad_progress(void *ep);
BAD_FN int32_t bad_open(const coll_host_t *host, void **ep, coll_error_t *err);
BAD_FN void bad_close(void *ep, int64_t timeout_ms);

#endif
