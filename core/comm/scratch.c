/* SPDX-License-Identifier: BSD-3-Clause */
/* scratch.c - gives scratch memory to operations, and keeps the larger blocks of finished operations. */
#include "comm/scratch.h"
#include "comm/comm.h"

#include <string.h>

void scratch_free(const struct lane *lane, struct scratch *scratch)
{
	const coll_host_t *host = &lane->context->host;

	host->free(host, scratch->at, scratch->size);
	*scratch = (struct scratch){0};
}

/* ---------------------------------------------------------------- middle blocks -- */

static size_t scratch_size(int order)
{
	return (size_t)SCRATCH_SMALL << (order + 1);
}

/* The order, from 0, of the smallest middle blocks of at least `bytes` bytes, which are at most SCRATCH_MIDDLE. */
static int scratch_order(size_t bytes)
{
	int order = 0;

	while (scratch_size(order) < bytes)
		order++;
	return order;
}

/* Takes a middle block of an order, or of a higher one.  Returns 0 if there is none. */
static int scratch_take_middle(struct scratch_spares *spares, struct scratch *scratch, int order)
{
	while (order < SCRATCH_ORDERS && !spares->middle[order])
		order++;
	if (order == SCRATCH_ORDERS)
		return 0;
	scratch->at = spares->middle[order];
	scratch->size = scratch_size(order);
	memcpy(&spares->middle[order], scratch->at, sizeof(void *));
	spares->kept -= scratch->size;
	return 1;
}

static void scratch_keep_middle(struct scratch_spares *spares, struct scratch *scratch)
{
	void **list = &spares->middle[scratch_order(scratch->size)];

	memcpy(scratch->at, list, sizeof(void *));
	*list = scratch->at;
	spares->kept += scratch->size;
	*scratch = (struct scratch){0};
}

/* ----------------------------------------------------------------- large blocks -- */

/* The smallest large block of at least `bytes` bytes; else the largest, which is too small, or an empty slot. */
static struct scratch *scratch_find_large(struct scratch_spares *spares, size_t bytes)
{
	struct scratch *best = spares->large;

	for (struct scratch *spare = best + 1; spare < spares->large + SCRATCH_SPARES; spare++)
		if (best->size < bytes ? spare->size > best->size
				       : spare->size >= bytes && spare->size < best->size)
			best = spare;
	return best;
}

static void scratch_keep_large(struct lane *lane, struct scratch *scratch)
{
	struct scratch *least = lane->queue.spares.large, swap;

	for (int i = 1; i < SCRATCH_SPARES; i++)
		if (lane->queue.spares.large[i].size < least->size)
			least = &lane->queue.spares.large[i];
	if (least->size < scratch->size) {
		swap = *least;
		*least = *scratch;
		*scratch = swap;
	}
	scratch_free(lane, scratch);
}

/* -------------------------------------------------------------------- all blocks -- */

/* Takes a spare block of at least `bytes` bytes.  Returns 0 if there is none. */
static int scratch_take(struct lane *lane, struct scratch *scratch, size_t bytes)
{
	struct scratch *large;

	if (bytes <= SCRATCH_MIDDLE &&
	    scratch_take_middle(&lane->queue.spares, scratch, scratch_order(bytes)))
		return 1;
	large = scratch_find_large(&lane->queue.spares, bytes);
	if (large->size >= bytes) {
		*scratch = *large;
		*large = (struct scratch){0};
		return 1;
	}
	if (bytes > SCRATCH_MIDDLE)
		scratch_free(lane, large); /* the new block takes its place */
	return 0;
}

int scratch_reserve(struct lane *lane, struct scratch *scratch, size_t bytes)
{
	const coll_host_t *host = &lane->context->host;

	if (bytes <= scratch->size)
		return COLL_SUCCESS;
	scratch_free(lane, scratch);
	if (bytes > SCRATCH_SMALL && scratch_take(lane, scratch, bytes))
		return COLL_SUCCESS;
	if (bytes > SCRATCH_SMALL && bytes <= SCRATCH_MIDDLE)
		bytes = scratch_size(scratch_order(bytes));
	scratch->at = host->alloc(host, bytes);
	scratch->size = scratch->at ? bytes : 0;
	return scratch->at ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

void scratch_rest(struct lane *lane, struct scratch *scratch)
{
	if (scratch->size > SCRATCH_MIDDLE)
		scratch_keep_large(lane, scratch);
	else if (lane->queue.spares.kept + scratch->size <= SCRATCH_KEPT)
		scratch_keep_middle(&lane->queue.spares, scratch);
	else
		scratch_free(lane, scratch);
}

void scratch_free_spares(struct lane *lane)
{
	struct scratch middle;

	for (int i = 0; i < SCRATCH_SPARES; i++)
		scratch_free(lane, &lane->queue.spares.large[i]);
	while (scratch_take_middle(&lane->queue.spares, &middle, 0))
		scratch_free(lane, &middle);
}
