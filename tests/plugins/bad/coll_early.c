/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: load-idle */
/* coll_early.c - runs code when it is loaded. */
#include "uds.h"

static int early_ready;

__attribute__((constructor)) static void early_constructor(void)
{
	early_ready = getpid();
}

static int32_t early_progress(void *ep)
{
	return bad_progress(ep) && early_ready;
}

#define BAD_NAME     "early"
#define BAD_PROGRESS early_progress
#include "table.h"
