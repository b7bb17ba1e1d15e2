/* SPDX-License-Identifier: BSD-3-Clause */
/* scratch.c - gives scratch memory to operations, and keeps the large blocks of those that have finished. */
#include "exec/scratch.h"
#include "exec/comm.h"

void scratch_free(const struct comm *comm, struct scratch *scratch)
{
	const coll_host_t *host = &comm->context->host;

	host->free(host, scratch->at, scratch->size);
	*scratch = (struct scratch){0};
}

void scratch_free_spares(struct comm *comm)
{
	for (int i = 0; i < SCRATCH_SPARES; i++)
		scratch_free(comm, &comm->spare[i]);
}

/* The smallest spare block of at least `bytes` bytes; else the largest, which is too small, or an empty place. */
static struct scratch *scratch_find(struct comm *comm, size_t bytes)
{
	struct scratch *best = comm->spare;

	for (struct scratch *spare = best + 1; spare < comm->spare + SCRATCH_SPARES; spare++)
		if (best->size < bytes ? spare->size > best->size
				       : spare->size >= bytes && spare->size < best->size)
			best = spare;
	return best;
}

int scratch_reserve(struct comm *comm, struct scratch *scratch, size_t bytes)
{
	const coll_host_t *host = &comm->context->host;
	struct scratch *spare;

	if (bytes <= scratch->size)
		return COLL_SUCCESS;
	scratch_free(comm, scratch);
	if (bytes > SCRATCH_SMALL) {
		spare = scratch_find(comm, bytes);
		if (spare->size >= bytes) {
			*scratch = *spare;
			*spare = (struct scratch){0};
			return COLL_SUCCESS;
		}
		scratch_free(comm, spare); /* the new block takes its place */
	}
	scratch->at = host->alloc(host, bytes);
	scratch->size = scratch->at ? bytes : 0;
	return scratch->at ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

void scratch_rest(struct comm *comm, struct scratch *scratch)
{
	struct scratch *least = comm->spare, swap;

	for (int i = 1; i < SCRATCH_SPARES; i++)
		if (comm->spare[i].size < least->size)
			least = &comm->spare[i];
	if (least->size < scratch->size) {
		swap = *least;
		*least = *scratch;
		*scratch = swap;
	}
	scratch_free(comm, scratch);
}
