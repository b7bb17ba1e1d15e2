/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: close-finish */
/* coll_ends.c - finish believes that the program has closed all endpoints. */
#include "uds.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int ends_open_count;

static int32_t ends_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	atomic_fetch_add(&ends_open_count, 1);
	return bad_open(host, ep, err);
}

static void ends_close(void *ep, int64_t timeout_ms)
{
	atomic_fetch_sub(&ends_open_count, 1);
	bad_close(ep, timeout_ms);
}

static void ends_finish(void)
{
	if (atomic_load(&ends_open_count) > 0)
		abort();
}

#define BAD_NAME   "ends"
#define BAD_OPEN   ends_open
#define BAD_CLOSE  ends_close
#define BAD_FINISH ends_finish
#include "table.h"
