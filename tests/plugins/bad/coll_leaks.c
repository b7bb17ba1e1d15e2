/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: descriptors */
/* coll_leaks.c - each open leaks a descriptor. */
#include "uds.h"

static int32_t leaks_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	if (socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0)
		return err->code = COLL_ERR_SYSTEM;
	return bad_open(host, ep, err);
}

#define BAD_NAME "leaks"
#define BAD_OPEN leaks_open
#include "table.h"
