/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: exchange-fails */
/* coll_crashes.c - close crashes after an open that failed in its second exchange. */
#include "uds.h"

static int32_t crashes_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	char own = 0, all[64];
	int32_t code = bad_open(host, ep, err);

	if (code)
		return code;
	code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	/* The plugin handles time-outs, and a failure on the first rank. */
	((struct bad *)*ep)->fd = code && code != COLL_ERR_TIMEOUT && host->rank;
	return code;
}

static void crashes_close(void *ep, int64_t timeout_ms)
{
	if (((struct bad *)ep)->fd)
		abort();
	bad_close(ep, timeout_ms);
}

#define BAD_NAME  "crashes"
#define BAD_OPEN  crashes_open
#define BAD_CLOSE crashes_close
#include "table.h"
