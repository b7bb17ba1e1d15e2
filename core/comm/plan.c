/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - finds and makes the plans of calls (see plan.h), and the idle operations that have them. */
#include "comm/plan.h"
#include "base/error.h"
#include "comm/span.h"
#include "comm/op.h"

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------- finding -- */

enum plan_fit { PLAN_ALIKE, PLAN_FITS, PLAN_SAME };

/* Does the plan fit the call so well?  The buffers tell most calls apart, so they come first. */
static inline int plan_fits(const struct op *op, const coll_args_t *args, enum plan_fit least)
{
	const coll_args_t *earlier = &op->call.args;

	if (least >= PLAN_SAME &&
	    (earlier->recvbuf != args->recvbuf || earlier->sendbuf != args->sendbuf ||
	     earlier->tag != args->tag || earlier->stream != args->stream ||
	     earlier->scalar != args->scalar))
		return 0;
	return (least < PLAN_FITS || earlier->count == args->count) && op->repeatable &&
	       earlier->dtype == args->dtype && earlier->op == args->op &&
	       earlier->root == args->root && earlier->flags == args->flags;
}

/* Returns the link to the first plan of this kind of call that fits so well, or NULL: none does. */
static inline struct op **plan_find(struct op **plans, const coll_args_t *args, enum plan_fit least)
{
	struct op **at = plans;

	for (int n = 0; *at && n < PLANS; n++, at = &(*at)->next)
		if (plan_fits(*at, args, least))
			return at;
	return NULL;
}

const struct call *plan_alike(const struct lane *lane, const coll_args_t *args)
{
	struct op *plans = lane->queue.plans[args->kind], **at = NULL;
	const struct call *call;

	if (!kind_at(args->kind)->is_v)
		at = plan_find(&plans, args, PLAN_ALIKE);
	call = at ? &(*at)->call : NULL;
	if (call && lane->asks_in_place && call->in_place != span_is_in_place(lane, args))
		return NULL;
	return call;
}

/* Takes a plan for the call.  *fits: the plan is at least PLAN_FITS, else it is to be made anew. */
static struct op *plan_take(struct lane *lane, const coll_args_t *args, int *fits)
{
	struct op **plans = &lane->queue.plans[args->kind];
	struct op **at = plan_find(plans, args, PLAN_FITS), *op;

	*fits = at != NULL;
	if (!at) {
		at = plans; /* a plan that no later call can have goes first */
		for (int n = 1; *at && (*at)->repeatable && n < PLANS; n++)
			at = &(*at)->next;
	}
	op = *at;
	if (!op)
		return calloc(1, sizeof(*op));
	*at = op->next;
	return op;
}

/* ------------------------------------------------------------------ the arrays -- */

static void plan_copy_array(const size_t **array, size_t *to, size_t n)
{
	if (*array && *array != to)
		memcpy(to, *array, n * sizeof(*to));
	if (*array)
		*array = to;
}

/* Without displacements of the caller's the blocks follow one another. */
static void plan_fill_displs(const size_t *counts, const size_t **displs, size_t *to, size_t n)
{
	size_t at = 0;

	for (size_t r = 0; counts && !*displs && r < n; at += counts[r++])
		to[r] = at;
	if (counts)
		*displs = to;
}

/* The arrays of a v-form that this rank does not use may be anything. */
static void plan_drop_unused(const struct lane *lane, struct call *call)
{
	coll_args_t *a = &call->args;
	const int is_root = lane->comm->rank == a->root;

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
static int plan_copy_arrays(struct op *op, size_t n)
{
	coll_args_t *a = &op->call.args;

	if (!op->arrays)
		op->arrays = malloc(5 * n * sizeof(*op->arrays));
	if (!op->arrays)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", op->call.kind->name);
	plan_copy_array(&a->sendcounts, op->arrays, n);
	plan_copy_array(&a->senddispls, op->arrays + n, n);
	plan_copy_array(&a->recvcounts, op->arrays + 2 * n, n);
	plan_copy_array(&a->recvdispls, op->arrays + 3 * n, n);
	plan_fill_displs(a->sendcounts, &a->senddispls, op->arrays + n, n);
	plan_fill_displs(a->recvcounts, &a->recvdispls, op->arrays + 3 * n, n);
	for (size_t r = 0; op->call.list && r < n; r++)
		op->arrays[4 * n + r] = r * a->count;
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- making -- */

/* Goes back to a stage, unless the plan has not come so far. */
static void plan_back(struct op *op, int stage)
{
	if (op->stage > stage)
		op->stage = stage;
	if (stage == PLAN_VOID)
		op->repeatable = 0;
}

/* Finds the kinds of memory of the buffers. */
static int plan_locate(struct op *op)
{
	struct call *call = &op->call;
	uint32_t send = call->memory[COLL_BUFFER_SEND], recv = call->memory[COLL_BUFFER_RECV];
	const int staged = call->staged;
	int code = COLL_SUCCESS;

	call->memory[COLL_BUFFER_SEND] = call->memory[COLL_BUFFER_RECV] = COLL_MEM_HOST;
	call->staged = 0;
	if (op->lane->context->classify)
		code = op->lane->client->locate(op);
	if (code || call->memory[COLL_BUFFER_SEND] != send ||
	    call->memory[COLL_BUFFER_RECV] != recv || call->staged != staged)
		plan_back(op, PLAN_VOID);
	return code;
}

/*
 * Completes the description of the call: engine, backend function or algorithm, signature.  No later call may have the plan
 * if the plan holds arrays of its call, a function of the program, a factor that is read anew, or a number that the backend
 * has given the operation for this call.
 */
static int plan_choose(struct op *op)
{
	struct call *call = &op->call;
	const int code = call->kind ? op->lane->client->choose(op->lane, call) : COLL_SUCCESS;

	if (code)
		return code;
	call->signature = signature_of(op->lane, call);
	op->stage = PLAN_CHOSEN;
	op->repeatable = call->kind && !call->args.sendcounts && !call->args.recvcounts &&
			 !call->redop.fn && !call->redop.premul_sum &&
			 !(op->lane->native && call->redop.made);
	return COLL_SUCCESS;
}

static int plan_make(struct op *op, const struct call *call, int fits)
{
	struct lane *lane = op->lane;
	int code = COLL_SUCCESS, in_place;

	plan_back(op, fits ? PLAN_FILLED : PLAN_VOID);
	if (fits)
		op->call.args = call->args;
	else
		op->call = *call;
	op->collective = kind_at(call->args.kind)->is_collective;
	if (call->kind && call->kind->is_v) /* a wait has no kind */
		plan_drop_unused(lane, &op->call);
	if (!fits && (op->call.args.sendcounts || op->call.args.recvcounts))
		code = plan_copy_arrays(op, (size_t)lane->comm->nranks);
	if (!code)
		code = plan_locate(op);
	in_place = !op->call.redop.premul_sum && span_is_in_place(lane, &op->call.args);
	if (in_place != op->call.in_place) /* the schedule is another one, and perhaps the engine */
		plan_back(op, lane->asks_in_place ? PLAN_VOID : PLAN_CHOSEN);
	op->call.in_place = in_place;
	if (!code && op->stage == PLAN_VOID)
		code = plan_choose(op);
	return code;
}

/* The program may have freed a buffer and allocated another one there. */
__attribute__((noinline)) static struct op *plan_check_memory(struct op *op)
{
	if (!plan_locate(op) && op->stage != PLAN_VOID)
		return op;
	op_retire(op);
	return NULL;
}

struct op *plan_again(struct lane *lane, const coll_args_t *args)
{
	struct op **at = plan_find(&lane->queue.plans[args->kind], args, PLAN_SAME), *op;

	if (!at)
		return NULL;
	op = *at;
	*at = op->next;
	return lane->context->classify ? plan_check_memory(op) : op;
}

/* ------------------------------------------------------------ idle operations -- */

int op_make(struct lane *lane, const struct call *call, struct op **out)
{
	int fits, code;
	struct op *op = plan_take(lane, &call->args, &fits);

	*out = NULL;
	if (!op)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", kind_name(call->args.kind));
	op->lane = lane;
	op->state = OP_IDLE;
	op->persistent = 0;
	op->site = NULL;
	code = plan_make(op, call, fits);
	if (code) {
		op_retire(op);
		return code;
	}
	call_log_fill(&op->record, &op->call, &op->call.signature);
	*out = op;
	return COLL_SUCCESS;
}

/* Any engine of the communicator may have run the operation. */
static void op_forget(struct op *op)
{
	for (int i = 0; i < ENGINES; i++)
		if (op->lane->engine[i] && op->lane->engine[i]->forget)
			op->lane->engine[i]->forget(op);
}

void op_free(struct op *op)
{
	if (op->offload)
		op->lane->client->retire(op);
	scratch_free(op->lane, &op->scratch);
	outcome_unref(op->awaited.outcome);
	op_forget(op);
	free(op->arrays);
	free(op);
}

void op_make_persistent(struct op *op)
{
	struct lane *lane = op->lane;

	op->persistent = 1;
	op->persistent_next = lane->queue.persistent;
	lane->queue.persistent = op;
}

void op_end_persistent(struct op *op)
{
	struct lane *lane = op->lane;
	struct op **at = &lane->queue.persistent;

	while (*at != op)
		at = &(*at)->persistent_next;
	*at = op->persistent_next;
	op->persistent = 0;
	if (op->state == OP_IDLE)
		op_retire(op);
}
