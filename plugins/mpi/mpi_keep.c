/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_keep.c - keeps persistent collectives of MPI (MPI_Allreduce_init) for calls that the program repeats.  MPI then makes
 * the request of such calls once, and the plugin the memory for the copies of their buffers.
 *
 * Only all-reduces and barriers have such a request: MPI_Allgather_init of MPICH 4.0.2 gives the data of the first call again,
 * and that of Intel MPI 2021.19 ends the process, also in a program without libcoll.
 *
 * MPI demands that all ranks take the persistent form of a call, or none.  So what a rank keeps depends on nothing but the
 * sequence of the calls and those arguments that are the same on all ranks.
 */
#include "mpi_plugin.h"

#include <stdlib.h>

/* Of larger calls the request is no measurable part. */
enum { KEEP_BYTES = 32 << 10 };

static void keep_free(struct mpi_keep *keep)
{
	if (keep->copy)
		mpi.request_free(&keep->request);
	free(keep->copy);
	keep->copy = NULL;
}

static int keep_is_small(const struct mpi_call *call)
{
	return call->send.bytes <= KEEP_BYTES && call->recv.bytes <= KEEP_BYTES;
}

static int keep_fits(const struct mpi_keep *keep, const struct mpi_keep *like)
{
	return keep->kind == like->kind && keep->type == like->type && keep->op == like->op &&
	       keep->bytes == like->bytes;
}

/* Finds the entry of such calls, or takes the entry for them whose calls are the longest ago. */
static struct mpi_keep *keep_find(struct mpi_endpoint *ep, const struct mpi_keep *like)
{
	struct mpi_keep *oldest = &ep->keep[0];

	for (int i = 0; i < MPI_KEEPS; i++) {
		struct mpi_keep *keep = &ep->keep[i];

		if (keep->calls && keep_fits(keep, like))
			return keep;
		if (keep->used < oldest->used)
			oldest = keep;
	}
	keep_free(oldest);
	*oldest = *like;
	return oldest;
}

int mpi_keep_take(struct mpi_endpoint *ep, struct mpi_call *call, const struct mpi_keep *like)
{
	struct mpi_keep *keep;

	if (!ep->keeps || !keep_is_small(call))
		return 0;
	keep = keep_find(ep, like);
	keep->used = ++ep->keep_uses;
	/* A call that comes once takes the form that costs less once. */
	if (!keep->calls++)
		return 0;
	call->keep = keep;
	call->copy = keep->copy;
	call->request = keep->request;
	keep->copy = NULL;
	return call->copy != NULL;
}

void mpi_keep_give(struct mpi_call *call)
{
	call->keep->copy = call->copy;
	call->keep->request = call->request;
	call->copy = NULL;
}

void mpi_keep_close(struct mpi_endpoint *ep)
{
	for (int i = 0; i < MPI_KEEPS; i++)
		keep_free(&ep->keep[i]);
}
