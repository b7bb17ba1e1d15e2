/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_lock.c - the function that waits inside a reduction. */
#include "kept_lock.h"

int kept_exits;
_Atomic int kept_inside, kept_goes;

void kept_begin(void)
{
	atomic_store(&kept_inside, 0);
	atomic_store(&kept_goes, 0);
}

void kept_reduce(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
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
