/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: mem-outlives */
/* coll_buries.c - close frees the memory that mem_alloc of the endpoint has returned. */
#include "uds.h"
#include "alloc.h"

static void buries_close(void *ep, int64_t timeout_ms)
{
	alloc_end_all(ep, NULL);
	bad_close(ep, timeout_ms);
}

#define BAD_NAME      "buries"
#define BAD_CLOSE     buries_close
#define BAD_MEM_ALLOC alloc_new
#define BAD_MEM_FREE  alloc_end
#include "table.h"
