/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_split.c - endpoints of split and duplicated communicators: an MPI communicator for the collectives of MPI.  The
 * messages of such a communicator go over the endpoint from which it was split.
 *
 * MPI_Comm_split waits for the other ranks without a limit of time.  So the ranks first meet in a barrier that does not
 * block, and that they leave after an abort, a failure or the time limit.  Only a rank that the barrier lets go while another
 * rank gives it up still comes to MPI_Comm_split in vain, and leaves a thread behind there (mpi_make.c).
 *
 * Below MPI_THREAD_MULTIPLE no other thread of the process may call MPI during MPI_Comm_split.  If two threads of a rank
 * split two communicators, and the threads of another rank in the other order, all would wait without a limit.
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

/* Has the communicator not failed?  No thread is inside MPI for the endpoint while the core looks for a failure. */
static int32_t split_look(const coll_host_t *host, coll_error_t *err)
{
	return host->aborted(host) ? error_fill(err, COLL_ERR_ABORTED,
						"the communicator has failed while its ranks came "
						"to MPI_Comm_split")
				   : COLL_SUCCESS;
}

/* An error in the barrier fails the communicator: its ranks no longer agree on how many barriers they have begun. */
static int32_t split_broken(struct mpi_endpoint *parent, const coll_host_t *host, int result,
			    coll_error_t *err)
{
	split_refused(parent, result, "MPI_Ibarrier", err);
	host->aborted(host); /* the core learns of the dead ranks first */
	return COLL_ERR_ABORTED;
}

/*
 * Waits for the other ranks.  A rank that has come in time may have left since, after its time limit or an abort: so a rank
 * whom the barrier lets go looks for a failure once more.
 */
static int32_t split_await(struct mpi_endpoint *parent, const coll_host_t *host,
			   MPI_Request *request, coll_error_t *err)
{
	const int64_t deadline = clock_deadline(host->timeout_ms);
	int done = 0, late, result;
	int32_t code;

	for (;;) {
		late = !clock_remaining(deadline);
		if (!mpi_enter())
			return mpi_life_ended(err);
		result = mpi.test(request, &done, MPI_STATUS_IGNORE);
		mpi_leave();
		if (result)
			return split_broken(parent, host, result, err);
		code = split_look(host, err);
		if (code || done)
			return code;
		if (late)
			return error_fill(err, COLL_ERR_TIMEOUT,
					  "not all ranks have come to MPI_Comm_split within %lld "
					  "ms",
					  (long long)host->timeout_ms);
		clock_nap(SPLIT_NAP_US);
	}
}

static int32_t split_barrier(struct mpi_endpoint *parent, const coll_host_t *host,
			     coll_error_t *err)
{
	MPI_Request request;
	int result;

	if (!mpi_enter())
		return mpi_life_ended(err);
	result = mpi.ibarrier(parent->comm, &request);
	mpi_leave();
	return result ? split_broken(parent, host, result, err)
		      : split_await(parent, host, &request, err);
}

static int32_t split_meet(struct mpi_endpoint *parent, const coll_host_t *host, coll_error_t *err)
{
	int32_t code = split_look(host, err);

	if (!code)
		code = split_barrier(parent, host, err);
	if (code)
		mpi_abort(parent); /* MPI cannot take the barrier back */
	return code;
}

static int split_call(struct mpi_making *m)
{
	return mpi.comm_split(m->from, m->color, m->key, &m->comm);
}

/* Makes the MPI communicator of the endpoint.  MPI cannot take MPI_Comm_split back either. */
static int32_t split_make(struct mpi_endpoint *parent, struct mpi_making *m,
			  const coll_host_t *host, coll_error_t *err)
{
	const int32_t code = mpi_make_comm(m, host, err);

	parent->left |= m->left;
	if (code)
		mpi_abort(parent);
	return code || !m->result ? code : split_refused(parent, m->result, m->what, err);
}

/* All ranks give the same answer: `native` and `serial` of an endpoint are the same everywhere. */
int32_t mpi_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		  coll_error_t *err)
{
	CANCEL_OFF;
	struct mpi_endpoint *parent = ep, *made;
	struct mpi_making m = {.what = "MPI_Comm_split", .make = split_call, .from = parent->comm};
	int32_t code;

	if (!parent->native)
		return error_fill(err, COLL_ERR_UNSUPPORTED, "the option mpi.native is 'no'");
	if (parent->serial)
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "a rank has initialised MPI below MPI_THREAD_MULTIPLE");
	code = split_meet(parent, newhost, err);
	made = color < 0 || code ? NULL : calloc(1, sizeof(*made));
	m.color = made ? color : MPI_UNDEFINED;
	m.key = key;
	if (!code) /* without memory too, since the other ranks wait */
		code = split_make(parent, &m, newhost, err);
	if (code || color < 0) {
		free(made);
		return code;
	}
	if (!made)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	made->host = newhost;
	made->rank = newhost->rank;
	made->nranks = newhost->nranks;
	made->comm = m.comm;
	made->call_end = &made->call;
	made->watch_fd = -1;
	made->native = 1;
	made->keeps = parent->keeps;
	made->direct = parent->direct;
	made->cuda = parent->cuda;
	made->opened = split_opened(parent);
	mpi_list_add(made);
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
		mpi_free_comm(ep);
		mpi_leave();
	}
	free(ep->spare_copy);
	free(ep);
}
