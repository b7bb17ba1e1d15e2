/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: alone */
/* coll_linked.c - needs a function of libcoll. */
#include "uds.h"

const char *coll_version_string(void) __attribute__((weak));

static int32_t linked_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	if (coll_version_string)
		host->log(host, COLL_LOG_DEBUG, coll_version_string());
	return bad_open(host, ep, err);
}

#define BAD_NAME "linked"
#define BAD_OPEN linked_open
#include "table.h"
