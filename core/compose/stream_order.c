/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_order.c - calls with a stream of the program, over a backend that has a transport. */
#include "comm/moving.h"
#include "compose/stream_order.h"
#include "compose/composed.h"
#include "watch/stall.h"
#include "compose/staging.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/lane_log.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* The last look at the flag by a stream that was released comes within microseconds, unless the device is busy. */
enum { ORDER_LEAVE_US = 100000 };

/* Between two looks for memory that an earlier call has left. */
enum { ORDER_ROOM_US = 100 };

/* Flags for which streams wait: all operations up to this one need only the copies of their results, or nothing more. */
enum { ORDER_COPIES, ORDER_COMPLETE, ORDER_FLAGS };

struct stream_order {
	struct offload *memory; /* of the flags */
	_Atomic uint32_t *flag; /* an array of ORDER_FLAGS flags */
	uint64_t number;        /* the last operation for which a stream waits */
	void *stream;           /* of the operation `of`, the last operation with a stream */
	uint64_t of;
	const struct op *
		settled; /* the last operation before which all operations need only copies, unless it has left */
	uint64_t settled_number; /* its number */
	uint64_t group;          /* the last group whose streams it has looked at */
};

/* -------------------------------------------------------------------- beginning -- */

static void order_unlock(struct lane *lane)
{
	context_leave(lane->context);
}

static void order_lock(struct lane *lane)
{
	context_enter(lane->context);
}

/*
 * Sets a flag, which never falls: the streams of later operations wait for it already.  The thread that ends an operation
 * and one that fails the communicator may do so at the same time.
 */
static void order_set(struct stream_order *order, int flag, uint64_t number)
{
	uint32_t seen = atomic_load(&order->flag[flag]);

	while ((int32_t)((uint32_t)number - seen) > 0 &&
	       !atomic_compare_exchange_weak(&order->flag[flag], &seen, (uint32_t)number))
		;
}

/* The order of a communicator, without memory yet, or NULL. */
static struct stream_order *order_new(struct lane *lane)
{
	struct stream_order *order = calloc(1, sizeof(*order));

	if (order)
		order->memory = offload_take(&lane->composed->offloads,
					     ORDER_FLAGS * sizeof(*order->flag), order, 1);
	if (order && order->memory)
		return order;
	free(order);
	return NULL;
}

/*
 * Waits compare 32 bits, so they need flags near the numbers that they wait for: these begin with `finished`.  A wait that
 * is over at once tells whether the device has such waits.
 */
static int order_place(struct stream_order *order, const char *what,
		       const struct caller_stream *stream, uint64_t finished)
{
	int code;

	order->memory->what = what;
	order->memory->stream = *stream;
	code = offload_pin(order->memory);
	if (code)
		return code;
	order->flag = (_Atomic uint32_t *)(void *)order->memory->memory;
	for (int i = 0; i < ORDER_FLAGS; i++)
		atomic_store(&order->flag[i], (uint32_t)finished);
	return stream_wait(what, stream, &order->flag[ORDER_COMPLETE], (uint32_t)finished);
}

int stream_order_find(struct lane *lane, const char *what, void *handle, const void *near,
		      struct caller_stream *stream)
{
	int code;

	order_unlock(lane);
	code = caller_stream_find(what, handle, &lane->traffic->home, near, stream);
	order_lock(lane);
	return code;
}

/* The communicator can hold this stream, and moves without the program.  Releases the lock meanwhile. */
static int order_prepare(struct lane *lane, const char *what, const struct caller_stream *stream)
{
	struct stream_order *order = lane->order ? NULL : order_new(lane);
	const uint64_t finished = lane->finished;
	int code;

	if (!lane->order && !order)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", what);
	order_unlock(lane);
	code = caller_stream_check(what, stream);
	if (!code && order)
		code = order_place(order, what, stream, finished);
	order_lock(lane);
	if (order && !code && !lane->order) {
		lane->order = order;
		stream_order_release(lane, lane->finished);
	} else if (order) { /* the device lacks such waits, or another thread was first */
		order->memory->dead = !code; /* the stream may still look at the flag */
		offload_give_back(&lane->composed->offloads, order->memory);
		free(order);
	}
	return code ? code : wait_thread_need(lane->context);
}

static void order_note(struct stream_order *order, uint64_t number)
{
	if (number > order->number)
		order->number = number;
}

/* Handles up to this one name another stream in each context or thread. */
enum { ORDER_SHARED_HANDLES = 2 };

/*
 * Calls of a communicator follow one another whatever their streams: the operation for whose end the stream has to wait
 * before the copies of a new call, or 0 if the stream itself has the order.
 */
static uint64_t order_before(const struct lane *lane, const void *stream)
{
	const struct stream_order *order = lane->order;
	const uint64_t before = lane->issued;

	if (lane->finished >= before || (order->of == before && order->stream == stream &&
					 (uintptr_t)stream > ORDER_SHARED_HANDLES))
		return 0;
	return before;
}

/* -------------------------------------------------------------- work on the streams -- */

/*
 * The calls of a group that have streams, or one call alone.  `wait` has a piece for each stream of these calls; every one of
 * several streams waits for the begin and the end of all calls.
 */
struct order_group {
	struct offload **call, **wait;
	size_t n, waits;
	uint64_t before, last; /* the operation before the calls, or 0, and the last call */
};

/* Each stream waits for the earlier work of the other streams. */
static int order_meet(const struct order_group *calls)
{
	int code = COLL_SUCCESS;

	for (size_t i = 0; i < calls->waits && !code; i++)
		code = offload_meet(calls->wait[i]);
	for (size_t i = 0; i < calls->waits; i++)
		for (size_t k = 0; k < calls->waits && !code; k++)
			if (k != i)
				code = offload_meet_other(calls->wait[i], calls->wait[k]);
	return code;
}

/* Behind the copies of all results each stream waits for the end of all calls. */
static int order_part(const struct lane *lane, const struct order_group *calls)
{
	int code = COLL_SUCCESS;

	for (size_t i = 0; i < calls->waits && !code; i++)
		code = offload_fill(calls->wait[i]);
	for (size_t i = 0; i < calls->waits && !code; i++)
		code = offload_drain(calls->wait[i], &lane->order->flag[ORDER_COMPLETE],
				     (uint32_t)calls->last);
	return code;
}

/* Puts the first half of the work on the streams.  The lock is not held. */
static int order_fill(const struct lane *lane, const struct order_group *calls)
{
	int code = COLL_SUCCESS;

	for (size_t i = 0; i < calls->n && !code; i++)
		code = offload_pin(calls->call[i]);
	for (size_t i = 0; i < calls->waits && !code; i++) {
		struct offload *o = calls->wait[i];

		code = offload_pin(o);
		if (!code && calls->before)
			code = stream_wait(o->what, &o->stream, &lane->order->flag[ORDER_COMPLETE],
					   (uint32_t)calls->before);
	}
	if (!code && calls->waits > 1)
		code = order_meet(calls);
	for (size_t i = 0; i < calls->n && !code; i++)
		code = offload_fill(calls->call[i]);
	return code;
}

/* The second half. */
static int order_drain(const struct lane *lane, const struct order_group *calls)
{
	int code = COLL_SUCCESS;

	for (size_t i = 0; i < calls->n && !code; i++)
		code = offload_drain(calls->call[i], &lane->order->flag[ORDER_COPIES],
				     (uint32_t)calls->last);
	if (!code && calls->waits > 1)
		code = order_part(lane, calls);
	return code;
}

/* ------------------------------------------------------------------- a lone call -- */

/* The operation will not be enqueued. */
static void order_give_up(struct op *op, struct offload *o)
{
	staging_end(op);
	offload_filled(&op->lane->composed->offloads, o);
}

/* The memory and the flags of an operation with a stream; its schedule lists the copies. */
static struct offload *order_take(struct op *op, int may_wait, int *code)
{
	const int copies = staging_is_on_stream(op);
	struct offload *o;

	*code = copies ? composed_build(op) : COLL_SUCCESS;
	if (*code)
		return NULL;
	o = offload_take_stream(&op->lane->composed->offloads, copies ? staging_need(op) : 0, op,
				kind_name(op->call.args.kind), &op->stream, may_wait, code);
	if (!o)
		return NULL;
	op->ordered = op->offload = o;
	if (copies)
		*code = staging_list(op, o);
	if (!*code)
		return o;
	order_give_up(op, o);
	return NULL;
}

/* A wait for memory that earlier calls have. */
struct order_wait {
	uint64_t moves; /* lane_own_moves, as it was seen last */
	int64_t since_us;
};

/* The wait ends after a timeout in which no operation has moved. */
static int order_look_at_time(struct order_wait *wait, const struct op *op)
{
	const struct lane *lane = op->lane;
	const uint64_t moves = lane_own_moves(lane);
	const int64_t now = clock_now_us();

	if (!wait->since_us || wait->moves != moves)
		*wait = (struct order_wait){moves, now};
	if (now - wait->since_us < lane->comm->timeout_us)
		return COLL_IN_PROGRESS;
	return error_set(
		COLL_ERR_TIMEOUT,
		"%s timed out: it waits for pinned memory of earlier calls with a stream, and "
		"nothing has moved for %.3g s",
		kind_name(op->call.args.kind), (double)lane->comm->timeout_us / 1e6);
}

/* As order_take, once earlier calls with streams have left enough memory.  Releases the lock while it waits. */
static struct offload *order_take_when_due(struct op *op, int *code)
{
	struct lane *lane = op->lane;
	struct order_wait wait = {0};
	struct offload *o = order_take(op, 1, code);

	while (*code == COLL_IN_PROGRESS &&
	       (*code = order_look_at_time(&wait, op)) == COLL_IN_PROGRESS) {
		order_unlock(lane);
		clock_nap(ORDER_ROOM_US);
		order_lock(lane);
		*code = comm_error(lane);
		o = *code ? NULL : order_take(op, 1, code);
	}
	return o;
}

int stream_order_begin(struct op *op, uint64_t group)
{
	struct lane *lane = op->lane;
	const coll_args_t *a = &op->call.args;
	struct offload *o;
	struct order_group lone = {&o, &o, 1, 1, 0, 0};
	int code = stream_order_find(lane, kind_name(a->kind), a->stream,
				     op->call.elements[COLL_BUFFER_SEND] ? a->sendbuf : a->recvbuf,
				     &op->stream);

	if (!code)
		code = order_prepare(lane, kind_name(a->kind), &op->stream);

	if (code || group)
		return code;
	o = order_take_when_due(op, &code);
	if (code)
		return code;
	lone.before = order_before(lane, o->stream.handle);
	order_unlock(lane);
	code = order_fill(lane, &lone);
	order_lock(lane);
	if (!code)
		code = comm_error(lane);
	op->dependencies = o;
	if (code)
		order_give_up(op, o);
	return code;
}

static void order_failed(struct lane *lane, int code)
{
	struct rank_name name;

	comm_fail(lane, 0, code, "%s: %s", comm_own_name(lane, &name), error_text());
}

void stream_order_hold(struct lane *lane, struct offload *o)
{
	const uint64_t number = ((struct op *)o->owner)->number;
	const struct order_group lone = {&o, &o, 1, 1, 0, number};
	int code;

	order_note(lane->order, number);
	lane->order->stream = o->stream.handle;
	lane->order->of = number;
	order_unlock(lane);
	code = order_drain(lane, &lone);
	order_lock(lane);
	if (code)
		order_failed(lane, code);
	if (o->owner)
		op_release_one(o->owner);
	offload_filled(&lane->composed->offloads, o);
}

int stream_order_wait(struct lane *lane, const char *what, const struct caller_stream *stream,
		      uint64_t number)
{
	struct offload *o = NULL;
	int code = order_prepare(lane, what, stream);

	if (!code)
		o = offload_take_stream(&lane->composed->offloads, 0, NULL, what, stream, 0, &code);
	if (code)
		return code;
	order_note(lane->order, number);
	lane_set_busy(lane);
	order_unlock(lane);
	code = offload_pin(o);
	if (!code)
		code = offload_fill(o);
	if (!code)
		code = offload_drain(o, &lane->order->flag[ORDER_COMPLETE], (uint32_t)number);
	order_lock(lane);
	offload_filled(&lane->composed->offloads, o);
	return code;
}

/* ------------------------------------------------------------------------ groups -- */

static int order_is_in(const struct op *op, uint64_t group)
{
	return op->group == group && op->state == OP_DEFERRED;
}

/* Has an earlier call of the group the same stream? */
static int order_is_noted(const struct order_group *calls, size_t i)
{
	const struct caller_stream *own = &calls->call[i]->stream, *other;

	for (size_t k = 0; k < calls->waits; k++) {
		other = &calls->wait[k]->stream;
		if (other->handle == own->handle && other->context == own->context)
			return 1;
	}
	return 0;
}

static size_t order_count(struct lane *lane, uint64_t group, struct order_group *calls)
{
	size_t n = 0;

	for (const struct op *op = lane->queue.deferred; op; op = op->next)
		if (order_is_in(op, group)) {
			n += op->call.args.stream != NULL;
			calls->before = calls->last ? calls->before : op->number - 1;
			calls->last = op->number;
		}
	if (lane->finished >= calls->before)
		calls->before = 0;
	return n;
}

/* Takes what the streams of the group need. */
static int order_collect(struct lane *lane, uint64_t group, struct order_group *calls)
{
	const size_t n = order_count(lane, group, calls);
	struct offload *o;
	int code = COLL_SUCCESS;

	calls->call = n ? calloc(2 * n, sizeof(struct offload *)) : NULL;
	if (n && !calls->call)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a group");
	for (struct op *op = n ? lane->queue.deferred : NULL; op && !code; op = op->next)
		if (order_is_in(op, group) && op->call.args.stream &&
		    (o = order_take(op, 0, &code)))
			calls->call[calls->n++] = o;
	calls->wait = calls->call + n;
	for (size_t i = 0; i < calls->n && !code; i++)
		if (!order_is_noted(calls, i) &&
		    (o = offload_take_stream(&lane->composed->offloads, 0, NULL,
					     calls->call[i]->what, &calls->call[i]->stream, 0,
					     &code)))
			calls->wait[calls->waits++] = o;
	return code;
}

/* A capture may have begun since the calls. */
static int order_check(const struct order_group *calls)
{
	int code = COLL_SUCCESS;

	for (size_t i = 0; i < calls->waits && !code; i++)
		code = caller_stream_check(calls->wait[i]->what, &calls->wait[i]->stream);
	return code;
}

/* The first operation of the group waits for all streams. */
static void order_depend_group(struct lane *lane, uint64_t group, const struct order_group *calls)
{
	struct op *first = lane->queue.deferred;

	while (first && !order_is_in(first, group))
		first = first->next;
	for (size_t i = 0; i < calls->n; i++) {
		if (first && calls->call[i]->owner) {
			calls->call[i]->next_dependency = first->dependencies;
			first->dependencies = calls->call[i];
		}
		offload_filled(&lane->composed->offloads, calls->call[i]);
	}
	for (size_t i = 0; i < calls->waits; i++)
		offload_filled(&lane->composed->offloads, calls->wait[i]);
}

static void order_end_group(struct lane *lane, uint64_t group, struct order_group *calls, int code)
{
	order_depend_group(lane, group, calls);
	free(calls->call);
	free(calls);
	if (code)
		order_failed(lane, code);
}

struct order_group *stream_order_group(struct lane *lane, uint64_t group)
{
	struct order_group *calls;
	int code;

	/* A communicator may be a member of the group twice (group.c). */
	if (!lane->order || lane->order->group == group)
		return NULL;
	lane->order->group = group;
	calls = calloc(1, sizeof(*calls));
	if (!calls) {
		order_failed(lane, error_set(COLL_ERR_NO_MEMORY, "no memory for a group"));
		return NULL;
	}
	code = order_collect(lane, group, calls);
	if (!code && calls->n) {
		order_note(lane->order, calls->last);
		order_unlock(lane);
		code = order_check(calls);
		if (!code)
			code = order_fill(lane, calls);
		order_lock(lane);
	}
	if (!code && calls->n)
		return calls;
	order_end_group(lane, group, calls, code);
	return NULL;
}

void stream_order_group_end(struct lane *lane, uint64_t group, struct order_group *calls)
{
	int code;

	if (!calls)
		return;
	order_unlock(lane);
	code = order_drain(lane, calls);
	order_lock(lane);
	order_end_group(lane, group, calls, code);
}

/* --------------------------------------------------------------- starting, ending -- */

static void order_take_first(struct op *op)
{
	struct stream_event *event = op->stream_events;

	op->stream_events = event->next;
	stream_event_unref(event);
}

static int order_cannot(struct op *op, int code, const char *what_not)
{
	struct lane *lane = op->lane;
	struct rank_name name;
	char what[160];

	call_describe(lane, &op->call, what, sizeof(what));
	comm_fail(lane, 0, code, "%s: %s cannot %s: %s", comm_own_name(lane, &name), what, what_not,
		  error_text());
	return 1;
}

/*
 * May a thread that moves operations ask the driver about a stream?  Not while a stream waits for another communicator:
 * the driver answers only when that stream has room for the work of a thread of the program.
 */
static int order_may_ask(const struct lane *lane)
{
	for (const struct lane *other = lane->context->busy; other; other = other->next_busy)
		if (other != lane && other->order && other->finished < other->order->number)
			return 0;
	return lane->finished + 1 >= lane->queue.head->number;
}

int stream_order_depends(struct op *op)
{
	int code;

	while (op->dependencies) {
		code = offload_has_arrived(op->dependencies, order_may_ask(op->lane));
		if (code)
			return code == COLL_IN_PROGRESS || order_cannot(op, code, "start");
		op->dependencies = op->dependencies->next_dependency;
	}
	while (op->stream_events) {
		code = stream_event_query(op->stream_events);
		if (code)
			return code == COLL_IN_PROGRESS || order_cannot(op, code, "start");
		order_take_first(op);
	}
	return 0;
}

void stream_order_drop(struct op *op)
{
	op->dependencies = NULL;
	while (op->stream_events)
		order_take_first(op);
}

void stream_order_release(struct lane *lane, uint64_t number)
{
	order_set(lane->order, ORDER_COPIES, number);
	order_set(lane->order, ORDER_COMPLETE, number);
}

static int order_is_settled(const struct op *op)
{
	return op->state == OP_DONE ||
	       (op->state == OP_RUNNING && !op->steps_left && op->engine->by_messages);
}

/* Releases the copies of the results of operations before which none has a step left. */
static void order_settle(struct lane *lane)
{
	struct stream_order *order = lane->order;
	const struct op *ahead = lane->queue.head;

	if (order->settled && order->settled_number > ahead->number)
		ahead = order->settled;
	while (ahead && order_is_settled(ahead)) {
		order_set(order, ORDER_COPIES, ahead->number);
		order->settled = ahead;
		order->settled_number = ahead->number;
		ahead = ahead->next;
	}
}

int stream_order_drained(struct op *op)
{
	struct lane *lane = op->lane;
	int code;

	order_settle(lane);
	code = offload_has_passed(op->ordered, order_may_ask(lane));
	if (code && code != COLL_IN_PROGRESS)
		(void)order_cannot(op, code, "end");
	return !code;
}

/* While the oldest operation waits for its stream, the program computes: nobody waits for other ranks. */
int stream_order_watch(struct lane *lane)
{
	const struct op *head = lane->queue.head;

	if (lane->finished < lane->order->number && head && head->state == OP_RUNNING)
		stall_poll(lane);
	return lane->error != 0;
}

/* ------------------------------------------------------------------------ freeing -- */

void stream_order_free(struct lane *lane)
{
	struct stream_order *order = lane->order;
	int passed;

	if (!lane->composed)
		return;
	passed = offload_free_pool(&lane->composed->offloads, clock_now_us() + ORDER_LEAVE_US);
	if (!passed)
		lane_log(lane, COLL_LOG_INFO,
			 "rank %d: a stream of the program has not come to its last call yet; "
			 "pinned host memory stays allocated for it",
			 lane->comm->rank);
	if (!order)
		return;
	offload_free(order->memory, !passed);
	free(order);
	lane->order = NULL;
}
