/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: exchange-missing */
/* coll_waits.c - a second exchange in open ignores the timeout. */
#include "uds.h"

static int32_t waits_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	char own = 0, all[64];
	int32_t code = bad_open(host, ep, err);

	return code ? code : host->exchange(host, &own, all, sizeof(own), INT32_MAX, err);
}

#define BAD_NAME "waits"
#define BAD_OPEN waits_open
#include "table.h"
