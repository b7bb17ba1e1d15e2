/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.h - the scratch memory of schedules.  A finished operation keeps a small block for the call that repeats
 * it.  Large blocks go to the communicator, and the next call that needs one takes it: else each kind of call that
 * the program repeats would keep a block.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_EXEC_SCRATCH_H
#define CORE_EXEC_SCRATCH_H

#include <stddef.h>

struct comm;

enum {
	SCRATCH_SMALL = 64 << 10, /* bytes that a finished operation keeps */
	SCRATCH_SPARES = 4        /* large blocks that a communicator keeps */
};

struct scratch {
	void *at;
	size_t size; /* bytes */
};

/* Makes it at least `bytes` bytes; what was there is lost.  COLL_ERR_NO_MEMORY: it is empty. */
int scratch_reserve(struct comm *comm, struct scratch *scratch, size_t bytes);
/* Makes it a spare block: its operation has finished, and it has more than SCRATCH_SMALL bytes. */
void scratch_rest(struct comm *comm, struct scratch *scratch);
void scratch_free(const struct comm *comm, struct scratch *scratch);
void scratch_free_spares(struct comm *comm);

#endif
