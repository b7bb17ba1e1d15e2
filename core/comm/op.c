/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c - operations: from a checked call to a place in the communicator's queue. */
#include "comm/op.h"
#include "base/error.h"
#include "comm/extent.h"

#include <stdlib.h>
#include <string.h>

/* Any engine of the communicator may have run the operation. */
static void op_forget(struct op *op)
{
	for (int i = 0; i < ENGINES; i++)
		if (op->comm->engine[i] && op->comm->engine[i]->forget)
			op->comm->engine[i]->forget(op);
}

void op_free(struct op *op)
{
	if (op->offload)
		op->comm->client->retire(op);
	scratch_free(op->comm, &op->scratch);
	outcome_unref(op->awaited.outcome);
	op_forget(op);
	free(op->arrays);
	free(op);
}

/* A finished operation with the same plan, else the last of many, else a new one. */
static struct op *op_take(struct comm *comm, const coll_args_t *args)
{
	struct op **at = &comm->queue.cache, **found = NULL, *op;

	for (int n = 1; *at && n <= OP_CACHE_SIZE; n++, at = &(*at)->next) {
		if (call_compare(&(*at)->call, args) >= CALL_SAME_PLAN) {
			found = at;
			break;
		}
		if (n == OP_CACHE_SIZE)
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

/* Without displacements of the caller's the blocks follow one another. */
static void op_fill_displs(const size_t *counts, const size_t **displs, size_t *to, size_t n)
{
	size_t at = 0;

	for (size_t r = 0; counts && !*displs && r < n; at += counts[r++])
		to[r] = at;
	if (counts)
		*displs = to;
}

/* The arguments that this kind or this rank does not use may be anything. */
static void op_drop_unused(const struct comm *comm, struct call *call)
{
	coll_args_t *a = &call->args;
	const int is_root = comm->rank == a->root;

	if (!call->kind) /* a wait, without arguments */
		return;
	if (!kind_gives_sendcounts(call->kind, is_root)) {
		a->sendcounts = NULL;
		a->senddispls = call->list & 1 << COLL_BUFFER_SEND ? a->senddispls : NULL;
	}
	if (!kind_gives_recvcounts(call->kind, is_root))
		a->recvcounts = NULL;
	if (!a->recvcounts || call->kind->recv != KIND_EACH)
		a->recvdispls = NULL;
}

/* The arrays of a v-form are the caller's only during the call. */
static int op_copy_arrays(struct op *op, size_t n)
{
	coll_args_t *a = &op->call.args;

	if (!a->sendcounts && !a->recvcounts)
		return COLL_SUCCESS;
	if (!op->arrays)
		op->arrays = malloc(5 * n * sizeof(*op->arrays));
	if (!op->arrays)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", op->call.kind->name);
	op_copy_array(&a->sendcounts, op->arrays, n);
	op_copy_array(&a->senddispls, op->arrays + n, n);
	op_copy_array(&a->recvcounts, op->arrays + 2 * n, n);
	op_copy_array(&a->recvdispls, op->arrays + 3 * n, n);
	op_fill_displs(a->sendcounts, &a->senddispls, op->arrays + n, n);
	op_fill_displs(a->recvcounts, &a->recvdispls, op->arrays + 3 * n, n);
	for (size_t r = 0; op->call.list && r < n; r++)
		op->arrays[4 * n + r] = r * a->count;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------ making and queueing -- */

/* Finds the memory kinds of the buffers.  A plan for other kinds of memory does not fit any more. */
static int op_locate(struct op *op)
{
	struct call *call = &op->call;
	uint32_t send = call->memory[COLL_BUFFER_SEND], recv = call->memory[COLL_BUFFER_RECV];
	const int staged = call->staged;
	int code = COLL_SUCCESS;

	call->memory[COLL_BUFFER_SEND] = call->memory[COLL_BUFFER_RECV] = COLL_MEM_HOST;
	call->staged = 0;
	if (op->comm->context->classify)
		code = op->comm->client->locate(op);
	if (call->memory[COLL_BUFFER_SEND] != send || call->memory[COLL_BUFFER_RECV] != recv ||
	    call->staged != staged)
		call->cacheable = 0;
	return code;
}

/* Completes the description of the call: memory kinds, backend function or algorithm, signature. */
static int op_plan(struct op *op)
{
	struct call *call = &op->call;
	const int in_place = !call->redop.premul_sum && extent_is_in_place(op->comm, &call->args);
	int code = op_locate(op);

	if (in_place != call->in_place && op->comm->asks_place)
		call->cacheable = 0;
	if (!code && !call->cacheable) {
		op->sched_ready = op->prepared = 0;
		code = call->kind ? op->comm->client->choose(op->comm, call) : COLL_SUCCESS;
		call->signature = signature_of(op->comm, call);
		/* A call that is repeated goes to an engine as it is, with the operation's own number. */
		call->cacheable = call->kind && !code && !call->args.sendcounts &&
				  !call->args.recvcounts && !call->redop.fn &&
				  !call->redop.premul_sum &&
				  !(op->comm->native && call->redop.made);
	}
	op->sched_ready &= in_place == call->in_place;
	call->in_place = in_place;
	return code;
}

struct op *op_again(struct comm *comm, const coll_args_t *args)
{
	struct op **at = &comm->queue.cache, *op;

	for (int n = 1; (op = *at) && n <= OP_CACHE_SIZE; n++, at = &op->next) {
		if (call_compare(&op->call, args) < CALL_SAME)
			continue;
		*at = op->next;
		if (!comm->context->classify || (!op_locate(op) && op->call.cacheable))
			return op;
		op_retire(op);
		break;
	}
	return NULL;
}

int op_make(struct comm *comm, const struct call *call, struct op **out)
{
	struct op *op = op_take(comm, &call->args);
	int code = COLL_SUCCESS;

	*out = NULL;
	if (!op)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", kind_name(call->args.kind));
	op->comm = comm;
	op->state = OP_IDLE;
	op->persistent = op->placed = op->repeats = 0;
	op->site = NULL;
	if (call_compare(&op->call, &call->args) >= CALL_SAME_PLAN) {
		op->call.args = call->args;
		op_drop_unused(comm, &op->call);
	} else {
		op->call = *call;
		op_drop_unused(comm, &op->call);
		code = op_copy_arrays(op, (size_t)comm->nranks);
	}
	if (!code)
		code = op_plan(op);
	if (code) {
		op->call.cacheable = 0;
		op_retire(op);
		return code;
	}
	call_log_fill(&op->record, &op->call, &op->call.signature);
	if (!call->known && op->call.cacheable && !kind_is_v(call->args.kind) && call->kind)
		comm->known[call->args.kind] = op->call;
	*out = op;
	return COLL_SUCCESS;
}

static void op_append(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;

	op->next = NULL;
	op->number = comm_count(comm);
	op->group = group;
	op->engine = comm->engine[op->call.engine];
	op->state = group || op->ordered ? OP_DEFERRED : OP_QUEUED;
	op->record.issued_us = context_now(comm->context);
	op->record.started_us = 0;
	op->logged = call_log_place(comm, op->number);
	*op->logged = op->record;
	if (kind_is_collective(op->call.args.kind)) {
		op->seq = op->logged->seq_or_tag = comm->seq++;
		call_log_add_call(comm, &op->call.signature);
	}
	if (comm->queue.tail)
		comm->queue.tail->next = op;
	else
		comm->queue.head = op;
	comm->queue.tail = op;
	if (!comm->queue.waiting)
		comm->queue.waiting = op;
	if (op->state == OP_DEFERRED && !comm->queue.held)
		comm->queue.held = op;
}

static void op_append_barrier(struct comm *comm, uint64_t group)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	const struct call call = call_of_library(comm, &args);
	struct rank_name name;
	struct op *op;
	int code = op_make(comm, &call, &op);

	if (code)
		comm_fail(comm, 0, code, "%s: %s", comm_own_name(comm, &name), error_text());
	else
		op_append(op, group);
}

uint64_t op_enqueue(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;
	uint64_t number;

	if (op_needs_barrier(comm, &op->call.args))
		op_append_barrier(comm, group);
	op_append(op, group);
	number = op->number;
	if (op->ordered)
		comm->client->hold(op);
	return number;
}

int op_issue(struct comm *comm, const coll_args_t *args, uint64_t group)
{
	const struct call call = call_of_library(comm, args);
	struct op *op;
	int code = op_make(comm, &call, &op);

	if (!code)
		op_enqueue(op, group);
	return code;
}

/* ------------------------------------------------------------- persistent and cached -- */

void op_make_persistent(struct op *op)
{
	struct comm *comm = op->comm;

	op->persistent = 1;
	op->persistent_next = comm->queue.persistent;
	comm->queue.persistent = op;
}

void op_end_persistent(struct op *op)
{
	struct comm *comm = op->comm;
	struct op **at = &comm->queue.persistent;

	while (*at != op)
		at = &(*at)->persistent_next;
	*at = op->persistent_next;
	op->persistent = 0;
	if (op->state == OP_IDLE)
		op_retire(op);
}
