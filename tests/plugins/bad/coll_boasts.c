/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: memory */
/* coll_boasts.c - the endpoint takes more kinds of memory than the backend's table declares. */
#include "uds.h"

static uint32_t boasts_memory(void *ep)
{
	(void)ep;
	return COLL_MEM_HOST | COLL_MEM_CUDA;
}

#define BAD_NAME   "boasts"
#define BAD_MEMORY boasts_memory
#include "table.h"
