/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_lock.h - a reduction function that keeps its thread in the library, and with it a lock, until the test lets it go. */
#ifndef TESTS_KEPT_LOCK_H
#define TESTS_KEPT_LOCK_H

#include "ranks.h"

static int kept_exits; /* the thread ends in the function */
static _Atomic int kept_inside,
	kept_goes; /* a thread is in the function; the function may return */

RANKS_UNUSED static void kept_begin(void)
{
	atomic_store(&kept_inside, 0);
	atomic_store(&kept_goes, 0);
}

/* user: NULL, or the function does not return for a while. */
RANKS_UNUSED static void kept_reduce(void *user, const void *left, void *inout, size_t count,
				     coll_dtype_t dtype)
{
	(void)left;
	(void)inout;
	(void)count;
	(void)dtype;
	if (!user)
		return;
	atomic_store(&kept_inside, 1);
	while (!atomic_load(&kept_goes))
		if (kept_exits)
			pthread_exit(NULL);
		else
			ranks_sleep(0.001);
}

#endif
