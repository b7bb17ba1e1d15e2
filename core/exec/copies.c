/* SPDX-License-Identifier: BSD-3-Clause */
/* copies.c - the copies in flight on the copy streams of a context, whoever has started them. */
#include "exec/copies.h"
#include "device/copy_stream.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

enum {
	COPIES_WAIT_US = 1000000, /* an abort must be over within about a second */
	COPIES_POLL_US = 20
};

static int copies_reap_stream(struct context *context, struct copy_stream *copy_stream)
{
	struct stream_copy copy;
	int moved = 0, code = COLL_SUCCESS;

	while (copy_stream->count && code != COLL_IN_PROGRESS) {
		code = copy_stream_poll(copy_stream, &copy);
		if (code == COLL_IN_PROGRESS)
			break;
		context->copies_pending--;
		copy.ended(&copy, code);
		moved = 1;
	}
	return moved;
}

/* Operations share copy streams: an ended copy may be another operation's. */
int copies_reap(struct context *context)
{
	int moved = 0;

	for (struct copy_stream *copy_stream = context->copy_streams;
	     copy_stream && context->copies_pending; copy_stream = copy_stream->next)
		moved |= copies_reap_stream(context, copy_stream);
	return moved;
}

static int copies_is_in_flight(const void *owner, const struct copy_stream *copy_stream)
{
	for (int k = 0; k < copy_stream->count; k++)
		if (copy_stream->copy[(copy_stream->first + k) % COPY_STREAM_DEPTH].owner == owner)
			return 1;
	return 0;
}

/* The first copy stream with a copy of the owner in flight. */
static struct copy_stream *copies_stream(const struct context *context, const void *owner)
{
	struct copy_stream *copy_stream = context->copies_pending ? context->copy_streams : NULL;

	while (copy_stream && !copies_is_in_flight(owner, copy_stream))
		copy_stream = copy_stream->next;
	return copy_stream;
}

static void copies_lose(const struct stream_copy *copy)
{
	error_set(COLL_ERR_DEVICE, "a device does not end its copies");
	copy->ended(copy, COPY_LOST);
}

/*
 * The device does not end its copies: memory that it may still touch is never freed, and every other
 * operation with copies on the copy stream fails too.
 */
static void copies_abandon(const struct comm *comm, struct copy_stream *copy_stream)
{
	struct context *context = comm->context;

	log_error("rank %d: a device has not ended its copies within %d s of the failure of their "
		  "communicator; it may still read and write buffers of calls that were under way",
		  comm->rank, COPIES_WAIT_US / 1000000);
	context->copies_pending -= copy_stream->count;
	copy_stream_abandon(&context->copy_streams, copy_stream);
	for (int k = 0; k < copy_stream->count; k++)
		copies_lose(&copy_stream->copy[(copy_stream->first + k) % COPY_STREAM_DEPTH]);
}

void copies_await(struct comm *comm, const void *owner)
{
	int64_t deadline = clock_now_us() + COPIES_WAIT_US;
	struct copy_stream *copy_stream;

	while ((copy_stream = copies_stream(comm->context, owner))) {
		if (copies_reap(comm->context))
			continue;
		if (clock_now_us() < deadline)
			clock_nap(COPIES_POLL_US);
		else
			copies_abandon(comm, copy_stream);
	}
}
