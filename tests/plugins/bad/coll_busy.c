/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: progress-answer */
/* coll_busy.c - progress always reports that something moved. */
#include "uds.h"

static int32_t busy_progress(void *ep)
{
	bad_progress(ep);
	return 1;
}

#define BAD_NAME     "busy"
#define BAD_PROGRESS busy_progress
#include "table.h"
