/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c - operations: from checked arguments to a place in the communicator's queue. */
#include "exec/engine.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/*
 * So many finished operations are kept for calls that repeat them; those with more than
 * so many bytes of memory for any.
 */
enum { OP_CACHE_SIZE = 4, OP_LITTLE = 64 << 10 };

void op_free(struct op *op)
{
	const coll_host_t *host = &op->comm->context->host;

	host->free(host, op->scratch, op->scratch_size);
	staging_free(op);
	sched_free(&op->sched);
	free(op->run);
	free(op->ready);
	free(op->arrays);
	free(op);
}

/* Would the plan and the schedule of a finished operation serve this call as well? */
static int op_repeats(const struct op *op, const coll_args_t *a)
{
	const coll_args_t *b = &op->args;

	return op->cacheable && a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
	       a->root == b->root && a->count == b->count && a->flags == b->flags;
}

/* A finished one that did the same, else any that is not worth keeping, else a new one. */
static struct op *op_take(struct comm *comm, const coll_args_t *args)
{
	struct op **at = &comm->op_cache, **found = NULL, *op;

	for (int n = 1; *at && n <= OP_CACHE_SIZE; n++, at = &(*at)->next) {
		size_t size = (*at)->scratch_size + (*at)->staging.size;

		if (op_repeats(*at, args)) {
			found = at;
			break;
		}
		if (!found && (n == OP_CACHE_SIZE || size > OP_LITTLE))
			found = at;
	}
	if (!found)
		return calloc(1, sizeof(*op));
	op = *found;
	*found = op->next;
	return op;
}

/* ------------------------------------------------------------------ the arrays -- */

static void op_copy_array(const size_t **array, size_t *to, size_t n)
{
	if (*array && *array != to)
		memcpy(to, *array, n * sizeof(*to));
	if (*array)
		*array = to;
}

/* Displacements that the caller did not give: blocks follow one another. */
static void op_fill_displs(const size_t *counts, const size_t **displs, size_t *to, size_t n)
{
	size_t at = 0;

	for (size_t r = 0; counts && !*displs && r < n; at += counts[r++])
		to[r] = at;
	if (counts)
		*displs = to;
}

/* What this kind, or this rank, has no use for may be anything. */
static void op_drop_unused(const struct comm *comm, coll_args_t *a)
{
	int root = comm->rank == a->root;

	if (a->kind != COLL_KIND_ALLTOALLV && !(a->kind == COLL_KIND_SCATTERV && root))
		a->sendcounts = a->senddispls = NULL;
	if (a->kind < COLL_KIND_ALLGATHERV || a->kind > COLL_KIND_GATHERV ||
	    (a->kind == COLL_KIND_GATHERV && !root))
		a->recvcounts = a->recvdispls = NULL;
	if (a->kind == COLL_KIND_REDUCE_SCATTERV)
		a->recvdispls = NULL;
}

/* The arrays of a v-form are the caller's only during the call. */
static int op_keep_arrays(struct op *op, size_t n)
{
	coll_args_t *a = &op->args;

	if (!a->sendcounts && !a->recvcounts)
		return COLL_SUCCESS;
	if (!op->arrays)
		op->arrays = malloc(4 * n * sizeof(*op->arrays));
	if (!op->arrays)
		return COLL_ERR_NO_MEMORY;
	op_copy_array(&a->sendcounts, op->arrays, n);
	op_copy_array(&a->senddispls, op->arrays + n, n);
	op_copy_array(&a->recvcounts, op->arrays + 2 * n, n);
	op_copy_array(&a->recvdispls, op->arrays + 3 * n, n);
	op_fill_displs(a->sendcounts, &a->senddispls, op->arrays + n, n);
	op_fill_displs(a->recvcounts, &a->recvdispls, op->arrays + 3 * n, n);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------ making and queueing -- */

/* Looks the operation up, and keeps the arrays. */
static int op_prepare(struct op *op)
{
	const coll_args_t *a = &op->args;
	const char *name = kind_name(a->kind);

	op->redop = (struct redop){.dtype = a->dtype};
	if (kind_reduces(a->kind) &&
	    redop_find(&op->comm->redops, name, a->dtype, a->op, &op->redop))
		op->redop = (struct redop){.dtype = a->dtype}; /* was checked before */
	if (op_keep_arrays(op, (size_t)op->comm->nranks))
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", name);
	return COLL_SUCCESS;
}

/* Does it go to the backend as it is? */
static int op_is_taken(struct op *op)
{
	int taken = op->comm->native && !op->redop.premul_sum && kind_is_valid(op->args.kind) &&
		    native_takes(op->comm, &op->args);

	if (taken)
		op->memory[COLL_BUFFER_SEND] = op->memory[COLL_BUFFER_RECV] = 0;
	return taken;
}

/* Looks where the buffers are.  What was planned for other kinds of memory is to be planned anew. */
static int op_look(struct op *op)
{
	uint32_t *kinds = op->memory;
	uint32_t send = kinds[COLL_BUFFER_SEND], recv = kinds[COLL_BUFFER_RECV];
	int code = COLL_SUCCESS;

	kinds[COLL_BUFFER_SEND] = kinds[COLL_BUFFER_RECV] = COLL_MEM_HOST;
	op->staged = 0;
	if (op->comm->context->classify && !op_is_taken(op))
		code = staging_look(op);
	if (kinds[COLL_BUFFER_SEND] != send || kinds[COLL_BUFFER_RECV] != recv)
		op->cacheable = 0;
	return code;
}

static void op_plan(struct op *op)
{
	const coll_args_t *a = &op->args;

	op->algorithm = dispatch_algorithm(op);
	op->signature = signature_of(op->comm, op);
	op->sched_ready = 0;
	op->cacheable = !a->sendcounts && !a->recvcounts && !op->redop.fn && !op->redop.premul_sum;
}

/* The same buffers, too. */
static int op_is_same(const struct op *op, const coll_args_t *a)
{
	const coll_args_t *b = &op->args;

	return op_repeats(op, a) && a->sendbuf == b->sendbuf && a->recvbuf == b->recvbuf &&
	       a->tag == b->tag && a->stream == b->stream && a->scalar == b->scalar;
}

struct op *op_again(struct comm *comm, const coll_args_t *args)
{
	struct op **at = &comm->op_cache, *op;

	for (int n = 1; (op = *at) && n <= OP_CACHE_SIZE; n++, at = &op->next) {
		if (!op_is_same(op, args))
			continue;
		*at = op->next;
		if (!op_look(op) && op->cacheable)
			return op;
		op_retire(op);
		break;
	}
	return NULL;
}

int op_make(struct comm *comm, const coll_args_t *args, struct op **out)
{
	struct op *op = op_take(comm, args);
	int code = COLL_SUCCESS, in_place;

	*out = NULL;
	if (!op)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", kind_name(args->kind));
	op->cacheable = op_repeats(op, args);
	op->comm = comm;
	op->args = *args;
	op->state = OP_IDLE;
	op->persistent = 0;
	op->awaited = NULL;
	op_drop_unused(comm, &op->args);
	if (!op->cacheable)
		code = op_prepare(op);
	if (!code)
		code = op_look(op);
	if (!code && !op->cacheable)
		code = dispatch_takes(op);
	if (code) {
		op->cacheable = 0;
		op_retire(op);
		return code;
	}
	if (!op->cacheable)
		op_plan(op);
	in_place = !op->redop.premul_sum && extent_is_in_place(comm, &op->args);
	op->sched_ready &= in_place == op->in_place;
	op->in_place = in_place;
	*out = op;
	return COLL_SUCCESS;
}

static int op_is_collective(const struct op *op)
{
	int kind = op->args.kind;

	return kind != COLL_KIND_SEND && kind != COLL_KIND_RECV && kind != KIND_AWAIT;
}

static void op_append(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;

	op->next = NULL;
	op->number = ++comm->issued;
	op->group = group;
	op->native = 0;
	op->state = group ? OP_DEFERRED : OP_QUEUED;
	if (op_is_collective(op)) {
		op->seq = comm->seq++;
		comm_remember(comm, &op->signature);
	}
	if (comm->tail)
		comm->tail->next = op;
	else
		comm->head = op;
	comm->tail = op;
}

/* A root that never waits could get any number of broadcasts ahead of the others. */
static void op_append_barrier(struct comm *comm, uint64_t group)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	struct op *op;
	int code = op_make(comm, &args, &op);

	if (code)
		comm_fail(comm, 0, code, "rank %d: %s", comm->rank, error_text());
	else
		op_append(op, group);
}

void op_enqueue(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;

	if (op_is_collective(op) && comm->seq && comm->seq % TAG_SEQ_APART == 0 &&
	    comm->context->plugin->backend.transport)
		op_append_barrier(comm, group);
	op_append(op, group);
}

int op_issue(struct comm *comm, const coll_args_t *args, uint64_t group)
{
	struct op *op;
	int code = op_make(comm, args, &op);

	if (!code)
		op_enqueue(op, group);
	return code;
}

void op_release(struct comm *comm, uint64_t group)
{
	for (struct op *op = comm->head; op; op = op->next)
		if (op->state == OP_DEFERRED && op->group == group)
			op->state = OP_QUEUED;
}

/* ---------------------------------------------------------------- kept for later -- */

void op_make_persistent(struct op *op)
{
	struct comm *comm = op->comm;

	op->persistent = 1;
	op->persistent_next = comm->persistent;
	comm->persistent = op;
}

void op_end_persistent(struct op *op)
{
	struct comm *comm = op->comm;
	struct op **at = &comm->persistent;

	while (*at != op)
		at = &(*at)->persistent_next;
	*at = op->persistent_next;
	op->persistent = 0;
	if (op->state == OP_IDLE)
		op_retire(op);
}

void op_retire(struct op *op)
{
	op->state = OP_IDLE;
	if (op->persistent)
		return;
	op->next = op->comm->op_cache;
	op->comm->op_cache = op;
}
