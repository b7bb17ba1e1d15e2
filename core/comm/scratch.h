/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.h - the scratch memory of schedules.  A finished operation keeps a small block for the call that repeats
 * it.  Larger blocks go to the communicator, and the next call that needs one takes it: else each kind of call that
 * the program repeats would keep a block.  The communicator keeps a few large blocks, and many of middle size,
 * since the operations of a group run at the same time.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_COMM_SCRATCH_H
#define CORE_COMM_SCRATCH_H

#include <stddef.h>

struct lane;

enum {
	SCRATCH_SMALL = 64 << 10, /* bytes that a finished operation keeps */
	SCRATCH_ORDERS = 4, /* sizes of middle blocks: twice SCRATCH_SMALL, and so on to 1 MiB */
	SCRATCH_MIDDLE = SCRATCH_SMALL << SCRATCH_ORDERS,
	SCRATCH_KEPT = 32 << 20, /* bytes of middle blocks that a communicator keeps */
	SCRATCH_SPARES = 4       /* large blocks that it keeps */
};

struct scratch {
	void *at;
	size_t size; /* bytes */
};

/* The blocks that a communicator keeps. */
struct scratch_spares {
	struct scratch large[SCRATCH_SPARES]; /* one without memory is empty */
	void *middle[SCRATCH_ORDERS]; /* lists: a block begins with the address of the next one */
	size_t kept;                  /* bytes of the lists */
};

/* Makes it at least `bytes` bytes; what was there is lost.  COLL_ERR_NO_MEMORY: it is empty. */
int scratch_reserve(struct lane *lane, struct scratch *scratch, size_t bytes);
/* Makes it a spare block, or frees it: its operation has finished, and it has more than SCRATCH_SMALL bytes. */
void scratch_rest(struct lane *lane, struct scratch *scratch);
void scratch_free(const struct lane *lane, struct scratch *scratch);
void scratch_free_spares(struct lane *lane);

#endif
