/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_order.c - calls with a stream of the program, over a backend that has a transport. */
#include "exec/stream_order.h"
#include "device/caller_stream.h"
#include "device/device.h"
#include "exec/stall.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <time.h>

/* The last look at the word by a stream that was released comes within microseconds, unless the device is busy. */
enum { ORDER_LEAVE_US = 100000, ORDER_POLL_US = 20 };

/* Handles up to this one name another stream in each context or thread. */
enum { ORDER_SHARED_HANDLES = 2 };

/* A stream that was held. */
struct held_stream {
	struct held_stream *next;
	void *stream;
	struct stream_event *passed; /* behind the last hold; NULL: none was recorded */
	uint64_t number;             /* the operation for which it waits */
};

struct parked {
	struct parked *next;
	void *pinned;
};

struct stream_order {
	struct stream_word word;
	struct held_stream *streams;
	struct stream_event *spare;
	struct parked *parked;
	uint64_t number; /* the last operation for which a stream waits */
};

/* -------------------------------------------------------------------- beginning -- */

static int order_new(struct comm *comm, const char *what, void *stream)
{
	struct stream_order *order = calloc(1, sizeof(*order));
	int code;

	if (!order)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", what);
	code = stream_word_make(&order->word, what, stream);
	if (!code) /* a wait that is over at once: a device without such waits refuses it */
		code = stream_word_wait(&order->word, what, stream, 0);
	if (code) {
		stream_word_free(&order->word);
		free(order);
		return code;
	}
	comm->order = order;
	return COLL_SUCCESS;
}

/* The communicator can hold this stream, and moves without the program. */
static int order_prepare(struct comm *comm, const char *what, void *stream)
{
	int code = caller_stream_check(what, stream);

	if (!code && !comm->order)
		code = order_new(comm, what, stream);
	return code ? code : wait_thread_need(comm->context);
}

int stream_order_begin(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;
	const char *what = kind_name(op->call.args.kind);
	void *stream = op->call.args.stream;
	int code = order_prepare(comm, what, stream);

	if (!code && !group)
		code = stream_event_record(&comm->order->spare, what, stream, &op->stream_events);
	return code;
}

/* ----------------------------------------------------------------------- holding -- */

/* The entry of the stream, or one of a stream that is not held any more, or a new one. */
static struct held_stream *order_find(struct stream_order *order, void *stream)
{
	struct held_stream *held = order->streams, *idle = NULL;

	while (held && (held->stream != stream || (uintptr_t)stream <= ORDER_SHARED_HANDLES))
		held = held->next;
	for (struct held_stream *h = held ? NULL : order->streams; h && !idle; h = h->next)
		if (!h->passed || stream_event_query(h->passed) != COLL_IN_PROGRESS)
			idle = h;
	if (held || idle)
		return held ? held : idle;
	held = calloc(1, sizeof(*held));
	if (held) {
		held->next = order->streams;
		order->streams = held;
	}
	return held;
}

static int order_hold(struct stream_order *order, const char *what, void *stream, uint64_t number)
{
	struct held_stream *held = order_find(order, stream);
	int code;

	if (!held)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", what);
	if (held->passed) {
		held->passed->next = order->spare;
		order->spare = held->passed;
		held->passed = NULL;
	}
	held->stream = stream;
	held->number = number;
	if (number > order->number)
		order->number = number;
	code = stream_word_wait(&order->word, what, stream, (uint32_t)number);
	return code ? code : stream_event_record(&order->spare, what, stream, &held->passed);
}

int stream_order_wait(struct comm *comm, const char *what, void *stream, uint64_t number)
{
	int code = order_prepare(comm, what, stream);

	return code ? code : order_hold(comm->order, what, stream, number);
}

void stream_order_hold(struct comm *comm, int kind, void *stream, uint64_t number)
{
	int code = order_hold(comm->order, kind_name(kind), stream, number);
	struct rank_name name;

	if (code)
		comm_fail(comm, 0, code, "%s: %s", comm_own_name(comm, &name), error_text());
}

/* ------------------------------------------------------------------------ groups -- */

static int order_is_in(const struct op *op, uint64_t group)
{
	return op->group == group && op->state == OP_DEFERRED;
}

/* Has an earlier operation of the group the same stream? */
static int order_is_noted(const struct op *first, const struct op *op)
{
	for (const struct op *earlier = first; earlier != op; earlier = earlier->next)
		if (earlier->group == op->group &&
		    earlier->call.args.stream == op->call.args.stream)
			return 1;
	return 0;
}

static int order_group_stream(struct op *first, const struct op *op, uint64_t last)
{
	struct comm *comm = op->comm;
	void *stream = op->call.args.stream;
	const char *what = kind_name(op->call.args.kind);
	struct stream_event *event;
	struct rank_name name;
	int code = caller_stream_check(what, stream);

	if (!code)
		code = stream_event_record(&comm->order->spare, what, stream, &event);
	if (code) {
		comm_fail(comm, 0, code, "%s: %s", comm_own_name(comm, &name), error_text());
		return code;
	}
	event->next = first->stream_events;
	first->stream_events = event;
	stream_order_hold(comm, op->call.args.kind, stream, last);
	return comm->error;
}

void stream_order_group(struct comm *comm, uint64_t group)
{
	struct op *first = comm->head;
	uint64_t last = 0;

	while (first && !order_is_in(first, group))
		first = first->next;
	for (const struct op *op = first; op; op = op->next)
		if (order_is_in(op, group))
			last = op->number;
	for (const struct op *op = first; op && !comm->error; op = op->next)
		if (order_is_in(op, group) && op->call.args.stream && !order_is_noted(first, op) &&
		    order_group_stream(first, op, last))
			return;
}

/* --------------------------------------------------------------- starting, ending -- */

static void order_take_first(struct op *op)
{
	struct stream_event *event = op->stream_events;
	struct stream_order *order = op->comm->order;

	op->stream_events = event->next;
	if (event->of) {
		stream_event_unref(event);
		return;
	}
	event->next = order->spare;
	order->spare = event;
}

int stream_order_gated(struct op *op)
{
	struct comm *comm = op->comm;
	struct rank_name name;
	char what[160];

	while (op->stream_events) {
		int code = stream_event_query(op->stream_events);

		if (code == COLL_IN_PROGRESS)
			return 1;
		if (code) {
			call_describe(comm, &op->call, what, sizeof(what));
			comm_fail(comm, 0, code, "%s: %s cannot start: %s",
				  comm_own_name(comm, &name), what, error_text());
			return 1;
		}
		order_take_first(op);
	}
	return 0;
}

void stream_order_drop(struct op *op)
{
	while (op->stream_events)
		order_take_first(op);
}

void stream_order_release(struct comm *comm, uint64_t number)
{
	atomic_store(comm->order->word.value, (uint32_t)number);
}

/* While the oldest operation waits for its stream, the program computes: nobody waits for other ranks. */
int stream_order_watch(struct comm *comm)
{
	const struct op *head = comm->head;

	if (comm->finished < comm->order->number && head && head->state == OP_RUNNING)
		stall_poll(comm);
	return comm->error != 0;
}

/* ------------------------------------------------------------------------ freeing -- */

int stream_order_park(struct comm *comm, void *pinned)
{
	struct parked *parked = malloc(sizeof(*parked));

	if (!parked)
		return COLL_ERR_NO_MEMORY;
	*parked = (struct parked){comm->order->parked, pinned};
	comm->order->parked = parked;
	return COLL_SUCCESS;
}

/* Has the stream looked at the word for the last time?  A stream that has failed does not look again. */
static int order_has_passed(const struct held_stream *held, int64_t deadline)
{
	const struct timespec pause = {.tv_nsec = ORDER_POLL_US * 1000};

	while (held->passed && stream_event_query(held->passed) == COLL_IN_PROGRESS) {
		if (clock_now_us() > deadline)
			return 0;
		nanosleep(&pause, NULL);
	}
	return 1;
}

void stream_order_free(struct comm *comm)
{
	struct stream_order *order = comm->order;
	int64_t deadline = clock_now_us() + ORDER_LEAVE_US;
	struct held_stream *held;
	struct parked *parked;
	int passed = 1;

	if (!order)
		return;
	while ((held = order->streams)) {
		order->streams = held->next;
		passed &= order_has_passed(held, deadline);
		stream_events_free(&held->passed);
		free(held);
	}
	while ((parked = order->parked)) {
		order->parked = parked->next;
		device_unpin(parked->pinned);
		free(parked);
	}
	stream_events_free(&order->spare);
	if (passed)
		stream_word_free(&order->word);
	else
		log_info("rank %d: a stream of the program has not come to its last call yet; a "
			 "page of "
			 "host memory stays allocated for it",
			 comm->rank);
	free(order);
	comm->order = NULL;
}
