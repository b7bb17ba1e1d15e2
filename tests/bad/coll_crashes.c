/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: exchange-fails */
/* coll_crashes.c - close cannot cope with what a failed open has left. */
#include "uds.h"

static int32_t crashes_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	int32_t code = bad_open(host, ep, err);

	if (code)
		((struct bad *)*ep)->fd = -1;
	return code;
}

static void crashes_close(void *ep, int64_t timeout_ms)
{
	if (((struct bad *)ep)->fd == -1)
		abort();
	bad_close(ep, timeout_ms);
}

#define BAD_NAME  "crashes"
#define BAD_OPEN  crashes_open
#define BAD_CLOSE crashes_close
#include "table.h"
