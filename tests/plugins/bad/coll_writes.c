/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: host-unchanged */
/* coll_writes.c - writes to the host table. */
#include "uds.h"

static int32_t writes_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	((coll_host_t *)(uintptr_t)host)->device = 7;
	return bad_open(host, ep, err);
}

#define BAD_NAME "writes"
#define BAD_OPEN writes_open
#include "table.h"
