/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_split.c - endpoints of split and duplicated communicators: an MPI communicator for the collectives of MPI.  The
 * messages of such a communicator go over the endpoint from which it was split.
 *
 * MPI_Comm_split waits for the other ranks without a limit of time.  So the ranks first meet in a barrier that does not
 * block, and that they leave after an abort, a failure or the time limit.
 */
#include "mpi_plugin.h"

#include <stdlib.h>

enum { SPLIT_NAP_US = 10 };

static struct mpi_endpoint *split_opened(struct mpi_endpoint *ep)
{
	return ep->opened ? ep->opened : ep;
}

/* If MPI tells of dead ranks, the core learns of them from progress(). */
static int32_t split_refused(struct mpi_endpoint *parent, int result, const char *what,
			     coll_error_t *err)
{
	if (mpi_enter()) {
		mpi_watch_error(split_opened(parent), result);
		mpi_leave();
	}
	return mpi_refused(err, result, what);
}

/* Waits for the other ranks.  No thread is inside MPI for the endpoint while the core looks for a failure. */
static int32_t split_await(struct mpi_endpoint *parent, const coll_host_t *host,
			   MPI_Request *request, coll_error_t *err)
{
	const int64_t deadline = clock_deadline(host->timeout_ms);
	int done = 0, result;

	for (;;) {
		if (!mpi_enter())
			return mpi_life_ended(err);
		result = mpi.test(request, &done, MPI_STATUS_IGNORE);
		mpi_leave();
		if (result)
			return split_refused(parent, result, "MPI_Ibarrier", err);
		if (done)
			return COLL_SUCCESS;
		if (host->aborted(host))
			return error_fill(err, COLL_ERR_ABORTED,
					  "the communicator has failed while its ranks came to "
					  "MPI_Comm_split");
		if (!clock_remaining(deadline))
			return error_fill(err, COLL_ERR_TIMEOUT,
					  "not all ranks have come to MPI_Comm_split within %lld "
					  "ms",
					  (long long)host->timeout_ms);
		clock_nap(SPLIT_NAP_US);
	}
}

static int32_t split_meet(struct mpi_endpoint *parent, const coll_host_t *host, coll_error_t *err)
{
	MPI_Request request;
	int32_t code;
	int result;

	if (!mpi_enter())
		return mpi_life_ended(err);
	result = mpi.ibarrier(parent->comm, &request);
	mpi_leave();
	if (result)
		return split_refused(parent, result, "MPI_Ibarrier", err);
	code = split_await(parent, host, &request, err);
	if (code)
		atomic_store(&parent->aborted, 1); /* MPI cannot take the barrier back */
	return code;
}

/* Makes the MPI communicator of the endpoint, with MPI's errors as error codes. */
static int32_t split_make(struct mpi_endpoint *parent, int color, int key, MPI_Comm *comm,
			  coll_error_t *err)
{
	int result;

	if (!mpi_enter())
		return mpi_life_ended(err);
	result = mpi.comm_split(parent->comm, color, key, comm);
	if (!result && *comm != MPI_COMM_NULL)
		result = mpi.comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
	mpi_leave();
	return result ? split_refused(parent, result, "MPI_Comm_split", err) : COLL_SUCCESS;
}

/* All ranks give the same answer: `native` of an endpoint is the same everywhere. */
int32_t mpi_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		  coll_error_t *err)
{
	CANCEL_OFF;
	struct mpi_endpoint *parent = ep, *made;
	MPI_Comm comm = MPI_COMM_NULL;
	int32_t code;

	if (!parent->native)
		return error_fill(err, COLL_ERR_UNSUPPORTED, "the option mpi.native is 'no'");
	code = split_meet(parent, newhost, err);
	made = color < 0 || code ? NULL : calloc(1, sizeof(*made));
	if (!code) /* without memory too, since the other ranks wait */
		code = split_make(parent, made ? color : MPI_UNDEFINED, key, &comm, err);
	if (code || color < 0) {
		free(made);
		return code;
	}
	if (!made)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	made->host = newhost;
	made->rank = newhost->rank;
	made->nranks = newhost->nranks;
	made->comm = comm;
	made->call_end = &made->call;
	made->watch_fd = -1;
	made->native = 1;
	made->keeps = parent->keeps;
	made->direct = parent->direct;
	made->cuda = parent->cuda;
	made->opened = split_opened(parent);
	*newep = made;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------------- close -- */

/* Endpoints with collectives that MPI may still have: MPI writes to their memory, so they stay until the process ends. */
static struct mpi_endpoint *_Atomic split_left;

static void split_leave(struct mpi_endpoint *ep)
{
	ep->next = atomic_load(&split_left);
	while (!atomic_compare_exchange_weak(&split_left, &ep->next, ep))
		;
}

void mpi_split_close(struct mpi_endpoint *ep)
{
	if (ep->call) {
		split_leave(ep);
		return;
	}
	if (!mpi_is_forked() && mpi_enter()) {
		mpi_keep_close(ep);
		if (!ep->opened->broken && !mpi_watch_seen())
			mpi.comm_free(&ep->comm);
		mpi_leave();
	}
	free(ep);
}
