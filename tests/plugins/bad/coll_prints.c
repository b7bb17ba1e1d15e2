/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: quiet */
/* coll_prints.c - prints a greeting. */
#include "uds.h"

static int32_t prints_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	printf("hello from rank %u\n", host->rank);
	fflush(stdout);
	return bad_open(host, ep, err);
}

#define BAD_NAME "prints"
#define BAD_OPEN prints_open
#include "table.h"
