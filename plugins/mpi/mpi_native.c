/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_native.c - whole collectives by MPI's non-blocking functions, on the endpoint's communicator.
 *
 * The functions with large counts (MPI_Iallreduce_c) serve.  Data that are only moved travel as bytes.  MPI cannot take a
 * collective back, and moves the collectives of all communicators in any of its calls.  So MPI works on copies of the
 * buffers, which stay allocated after a failure; with the option native = direct it works on the buffers themselves.
 */
#include "mpi_plugin.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The arguments of a collective, as MPI takes them. */
struct native_args {
	struct mpi_endpoint *ep;
	struct mpi_call *call;
	const coll_args_t *coll; /* without its arrays: the call has copies */
	size_t size;             /* of an element */
	const void *send;        /* the buffers, or MPI_IN_PLACE */
	void *recv;
	MPI_Count bytes;   /* of `count` elements */
	MPI_Datatype type; /* of a reduction */
	MPI_Op op;
};

/* Is the operation in place, with the part at `offset` elements of the whole buffer? */
static int native_is_at(const struct native_args *a, const void *part, const void *whole,
			uint64_t offset)
{
	return part == (const uint8_t *)whole + offset * a->size;
}

/* ------------------------------------------------------------------- reductions -- */

/*
 * All ranks of MPI's form in place are in place, but each rank of libcoll decides for itself.  So such a rank copies what it
 * sends.
 */
static int native_send_apart(struct native_args *a)
{
	struct mpi_call *call = a->call;

	call->copy = malloc(call->send.bytes + 1);
	if (!call->copy)
		return -1;
	if (mpi_copy_part(a->ep, call->copy, a->send, call->send.bytes))
		return -1;
	a->send = call->copy;
	return 0;
}

static int native_allreduce(struct native_args *a)
{
	if (a->send == a->recv && native_send_apart(a))
		return -1;
	if (a->call->keep)
		return mpi.allreduce_init(a->send, a->recv, (MPI_Count)a->coll->count, a->type,
					  a->op, a->ep->comm, MPI_INFO_NULL, &a->call->request);
	return mpi.iallreduce(a->send, a->recv, (MPI_Count)a->coll->count, a->type, a->op,
			      a->ep->comm, &a->call->request);
}

static int native_reduce(struct native_args *a)
{
	if (a->coll->root == (int32_t)a->ep->rank && a->send == a->recv)
		a->send = MPI_IN_PLACE;
	return mpi.ireduce(a->send, a->recv, (MPI_Count)a->coll->count, a->type, a->op,
			   a->coll->root, a->ep->comm, &a->call->request);
}

/* MPI's form in place takes another buffer than libcoll's: the result goes to a copy first. */
static int native_result_apart(struct native_args *a, uint64_t offset)
{
	struct mpi_call *call = a->call;

	if (call->copy || !native_is_at(a, a->recv, a->send, offset))
		return 0;
	call->copy = malloc(call->recv.bytes + 1);
	if (!call->copy)
		return -1;
	call->result = a->recv;
	call->result_bytes = call->recv.bytes;
	a->recv = call->copy;
	return 0;
}

static int native_reduce_scatter(struct native_args *a)
{
	if (native_result_apart(a, a->ep->rank * a->coll->count))
		return -1;
	return mpi.ireduce_scatter_block(a->send, a->recv, (MPI_Count)a->coll->count, a->type,
					 a->op, a->ep->comm, &a->call->request);
}

static int native_reduce_scatterv(struct native_args *a)
{
	uint64_t below = 0;

	for (uint32_t r = 0; r < a->ep->rank; r++)
		below += (uint64_t)a->call->recv.counts[r];
	if (native_result_apart(a, below))
		return -1;
	return mpi.ireduce_scatter(a->send, a->recv, a->call->recv.counts, a->type, a->op,
				   a->ep->comm, &a->call->request);
}

static int native_scan(struct native_args *a)
{
	if (a->send == a->recv && native_send_apart(a))
		return -1;
	return mpi.iscan(a->send, a->recv, (MPI_Count)a->coll->count, a->type, a->op, a->ep->comm,
			 &a->call->request);
}

/* MPI does not say whether it touches the receive buffer of rank 0, which coll.h leaves as it is: rank 0 gets another. */
static int native_exscan(struct native_args *a)
{
	struct mpi_call *call = a->call;

	if (a->ep->rank == 0) {
		if (!call->copy) {
			call->copy = malloc(call->recv.bytes + 1);
			if (!call->copy)
				return -1;
			a->recv = call->copy;
		}
		call->result = NULL;
	} else if (a->send == a->recv && native_send_apart(a)) {
		return -1;
	}
	return mpi.iexscan(a->send, a->recv, (MPI_Count)a->coll->count, a->type, a->op, a->ep->comm,
			   &call->request);
}

/* -------------------------------------------------------------- moved as bytes -- */

/* MPI has one buffer for both. */
static int native_broadcast(struct native_args *a)
{
	if (a->coll->root == (int32_t)a->ep->rank && a->send != a->recv &&
	    mpi_copy_part(a->ep, a->recv, a->send, (size_t)a->bytes))
		return -1;
	return mpi.ibcast(a->recv, a->bytes, MPI_BYTE, a->coll->root, a->ep->comm,
			  &a->call->request);
}

static int native_allgather(struct native_args *a)
{
	if (native_is_at(a, a->send, a->recv, a->ep->rank * a->coll->count) && native_send_apart(a))
		return -1;
	return mpi.iallgather(a->send, a->bytes, MPI_BYTE, a->recv, a->bytes, MPI_BYTE, a->ep->comm,
			      &a->call->request);
}

static int native_allgatherv(struct native_args *a)
{
	const struct mpi_buffer *recv = &a->call->recv;

	if (a->send == (uint8_t *)a->recv + recv->displs[a->ep->rank] && native_send_apart(a))
		return -1;
	return mpi.iallgatherv(a->send, recv->counts[a->ep->rank], MPI_BYTE, a->recv, recv->counts,
			       recv->displs, MPI_BYTE, a->ep->comm, &a->call->request);
}

/* A rank in place copies both buffers, as mpi_buffer.c lays out the parts of an alltoallv then, also if it sends nothing. */
static int native_unshare(struct native_args *a)
{
	return a->send == a->recv ? mpi_copy_in(a->ep, a->call, &a->send, &a->recv) : 0;
}

static int native_alltoall(struct native_args *a)
{
	if (native_unshare(a))
		return -1;
	return mpi.ialltoall(a->send, a->bytes, MPI_BYTE, a->recv, a->bytes, MPI_BYTE, a->ep->comm,
			     &a->call->request);
}

static int native_alltoallv(struct native_args *a)
{
	const struct mpi_buffer *send = &a->call->send, *recv = &a->call->recv;

	if (native_unshare(a))
		return -1;
	return mpi.ialltoallv(a->send, send->counts, send->displs, MPI_BYTE, a->recv, recv->counts,
			      recv->displs, MPI_BYTE, a->ep->comm, &a->call->request);
}

static int native_gather(struct native_args *a)
{
	if (a->coll->root == (int32_t)a->ep->rank &&
	    native_is_at(a, a->send, a->recv, a->ep->rank * a->coll->count))
		a->send = MPI_IN_PLACE;
	return mpi.igather(a->send, a->bytes, MPI_BYTE, a->recv, a->bytes, MPI_BYTE, a->coll->root,
			   a->ep->comm, &a->call->request);
}

static int native_scatter(struct native_args *a)
{
	if (a->coll->root == (int32_t)a->ep->rank &&
	    native_is_at(a, a->recv, a->send, a->ep->rank * a->coll->count))
		a->recv = MPI_IN_PLACE;
	return mpi.iscatter(a->send, a->bytes, MPI_BYTE, a->recv, a->bytes, MPI_BYTE, a->coll->root,
			    a->ep->comm, &a->call->request);
}

static int native_gatherv(struct native_args *a)
{
	const struct mpi_buffer *recv = &a->call->recv;

	if (a->coll->root == (int32_t)a->ep->rank &&
	    a->send == (uint8_t *)a->recv + recv->displs[a->ep->rank])
		a->send = MPI_IN_PLACE;
	return mpi.igatherv(a->send, a->bytes, MPI_BYTE, a->recv, recv->counts, recv->displs,
			    MPI_BYTE, a->coll->root, a->ep->comm, &a->call->request);
}

static int native_scatterv(struct native_args *a)
{
	const struct mpi_buffer *send = &a->call->send;

	if (a->coll->root == (int32_t)a->ep->rank &&
	    a->recv == (const uint8_t *)a->send + send->displs[a->ep->rank])
		a->recv = MPI_IN_PLACE;
	return mpi.iscatterv(a->send, send->counts, send->displs, MPI_BYTE, a->recv, a->bytes,
			     MPI_BYTE, a->coll->root, a->ep->comm, &a->call->request);
}

static int native_barrier(struct native_args *a)
{
	if (a->call->keep)
		return mpi.barrier_init(a->ep->comm, MPI_INFO_NULL, &a->call->request);
	return mpi.ibarrier(a->ep->comm, &a->call->request);
}

/* ------------------------------------------------------------------ under way -- */

static const struct native_kind {
	int (*start)(struct native_args *a); /* returns MPI's result, or -1 without memory */
	int reduces, vector;
	int persists; /* 1: MPI's persistent form may serve */
} native_kinds[] = {
	[COLL_KIND_ALLREDUCE] = {.start = native_allreduce, .reduces = 1, .persists = 1},
	[COLL_KIND_BROADCAST] = {.start = native_broadcast},
	[COLL_KIND_REDUCE] = {.start = native_reduce, .reduces = 1},
	[COLL_KIND_ALLGATHER] = {.start = native_allgather},
	[COLL_KIND_REDUCE_SCATTER] = {.start = native_reduce_scatter, .reduces = 1},
	[COLL_KIND_ALLTOALL] = {.start = native_alltoall},
	[COLL_KIND_GATHER] = {.start = native_gather},
	[COLL_KIND_SCATTER] = {.start = native_scatter},
	[COLL_KIND_ALLGATHERV] = {.start = native_allgatherv, .vector = 1},
	[COLL_KIND_REDUCE_SCATTERV] = {.start = native_reduce_scatterv, .reduces = 1, .vector = 1},
	[COLL_KIND_ALLTOALLV] = {.start = native_alltoallv, .vector = 1},
	[COLL_KIND_GATHERV] = {.start = native_gatherv, .vector = 1},
	[COLL_KIND_SCATTERV] = {.start = native_scatterv, .vector = 1},
	[COLL_KIND_BARRIER] = {.start = native_barrier, .persists = 1},
	[COLL_KIND_SCAN] = {.start = native_scan, .reduces = 1},
	[COLL_KIND_EXSCAN] = {.start = native_exscan, .reduces = 1},
};

static void native_free(struct mpi_endpoint *ep, struct mpi_call *call)
{
	mpi_copy_free(ep, call);
	free(call->arrays);
	free(call);
}

/* Why a collective could not begin or end on this rank. */
static const char *native_why(const struct mpi_endpoint *ep)
{
	return ep->cuda ? "no memory for a collective, or the CUDA driver could not copy a buffer "
			  "of it, as a line of the log says"
			: "no memory for a collective";
}

/*
 * MPI has refused or given up the oldest collective.  If it tells of dead ranks so, the collectives stop: the core learns of
 * the ranks from progress(), and gives the collectives up.
 */
static int32_t native_fail(struct mpi_endpoint *ep, int result, const char *what, coll_error_t *err)
{
	ep->stopped = mpi_watch_error(ep->opened ? ep->opened : ep, result);
	return ep->stopped ? COLL_SUCCESS : mpi_refused(err, result, what);
}

/*
 * Starts the oldest collective.  The collectives of an endpoint run one after the other, since a later collective may use a
 * buffer of an earlier collective.
 */
static int32_t native_start(struct mpi_endpoint *ep, coll_error_t *err)
{
	struct mpi_call *call = ep->call;
	const coll_args_t *args = &call->args;
	const struct native_kind *kind = &native_kinds[args->kind];
	struct native_args a = {
		.ep = ep, .call = call, .coll = args, .send = args->sendbuf, .recv = args->recvbuf};
	int kept, result;

	if (args->kind != COLL_KIND_BARRIER) {
		a.size = mpi_size_of(args->dtype);
		a.bytes = (MPI_Count)(args->count * a.size);
	}
	if (kind->reduces)
		mpi_reduction(args->dtype, args->op, &a.type, &a.op);
	call->started = 1;
	kept = kind->persists && mpi_keep_take(ep, call,
					       &(struct mpi_keep){.kind = args->kind,
								  .bytes = a.bytes,
								  .type = a.type,
								  .op = a.op});
	result = ep->direct ? 0 : mpi_copy_in(ep, call, &a.send, &a.recv);
	if (!result && !kept)
		result = kind->start(&a);
	if (!result && call->keep)
		result = mpi.start(&call->request);
	if (result < 0)
		return error_fill(err, COLL_ERR_NO_MEMORY, "%s", native_why(ep));
	return result ? native_fail(ep, result, "MPI cannot start a collective", err)
		      : COLL_SUCCESS;
}

/*
 * Does the call move more bytes than an int can count?  All ranks must get the same answer: 0 for a v-form, whose ranks do
 * not know each other's counts.
 */
static int native_is_large(const struct mpi_endpoint *ep, const coll_args_t *args)
{
	return args->kind != COLL_KIND_BARRIER && !native_kinds[args->kind].vector &&
	       args->count > INT_MAX / mpi_size_of(args->dtype) / ep->nranks;
}

/* Can the library count what the call moves? */
static int native_fits(const struct mpi_endpoint *ep, const coll_args_t *args)
{
#ifdef MPI_NARROW
	return !native_kinds[args->kind].vector && !native_is_large(ep, args);
#else
	return !(args->kind == COLL_KIND_ALLGATHERV && mpi.traits.iallgatherv_hangs) &&
	       !(mpi.traits.large_fails && native_is_large(ep, args));
#endif
}

/* Does MPI do the call as coll.h says?  All ranks get the same answer. */
static int native_can(const struct mpi_endpoint *ep, const coll_args_t *args)
{
	MPI_Datatype type;
	MPI_Op op;

#ifdef OPEN_MPI
	/* Its non-blocking reductions compute on the processor, whatever it says of CUDA. */
	if (ep->cuda && native_kinds[args->kind].reduces)
		return 0;
#endif
	return ep->native && ep->nranks > 1 && native_fits(ep, args) &&
	       (!native_kinds[args->kind].reduces ||
		mpi_reduction(args->dtype, args->op, &type, &op));
}

static struct mpi_call *native_new(const struct mpi_endpoint *ep, const coll_args_t *args)
{
	struct mpi_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->args = *args;
	if (!mpi_buffers(call, ep))
		return call;
	free(call);
	return NULL;
}

int32_t mpi_start_call(void *ep_, const coll_args_t *args, coll_error_t *err)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	struct mpi_call *call;
	int32_t code;

	if (!native_can(ep, args))
		return error_fill(err, COLL_ERR_UNSUPPORTED, "MPI has no such collective");
	call = native_new(ep, args);
	if (!call)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a collective");
	*ep->call_end = call;
	ep->call_end = &call->next;
	if (ep->call != call)
		return COLL_SUCCESS;
	if (!mpi_enter())
		return mpi_life_ended(err);
	code = native_start(ep, err);
	mpi_leave();
	return code;
}

/* Ends the oldest collective, which MPI has completed. */
static int32_t native_end(struct mpi_endpoint *ep, coll_error_t *err)
{
	struct mpi_call *call = ep->call;
	const int failed = call->result && mpi_copy_out(ep, call);

	ep->call = call->next;
	if (!ep->call)
		ep->call_end = &ep->call;
	if (call->keep)
		mpi_keep_give(call);
	native_free(ep, call);
	return failed ? error_fill(err, COLL_ERR_DEVICE, "%s", native_why(ep)) : COLL_SUCCESS;
}

/* Moves the oldest collective, which MPI has.  Returns COLL_IN_PROGRESS if it is not complete. */
static int32_t native_move_first(struct mpi_endpoint *ep, coll_error_t *err)
{
	int done = 0;
	const int result = mpi.test(&ep->call->request, &done, MPI_STATUS_IGNORE);

	if (result)
		return native_fail(ep, result, "a collective of MPI failed", err);
	if (!done)
		return COLL_IN_PROGRESS;
	return native_end(ep, err);
}

/* Moves the collectives.  Returns COLL_IN_PROGRESS while there is one. */
static int32_t native_move(struct mpi_endpoint *ep, coll_error_t *err)
{
	int32_t code = COLL_SUCCESS;

	while (ep->call && !ep->stopped && !code)
		if (ep->call->started)
			code = native_move_first(ep, err);
		else
			code = native_start(ep, err);
	return code || !ep->stopped ? code : COLL_IN_PROGRESS;
}

int32_t mpi_query(void *ep_, coll_error_t *err)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	int32_t code;

	if (atomic_load(&ep->aborted))
		return error_fill(err, COLL_ERR_ABORTED, "the collectives of MPI are given up");
	if (!ep->call)
		return COLL_SUCCESS;
	if (!mpi_enter())
		return mpi_life_ended(err);
	code = native_move(ep, err);
	mpi_leave();
	return code;
}

void mpi_abort(void *ep_)
{
	struct mpi_endpoint *ep = ep_;

	atomic_store(&ep->aborted, 1);
}

void *mpi_handle(void *ep_)
{
	struct mpi_endpoint *ep = ep_;

	return (void *)(intptr_t)ep->comm;
}
