/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_stream.h - copies between a device and the host that run beside the calling thread.  A copy stream
 * is a CUDA stream of its own, for one context and one direction: the owner starts copies on it and polls
 * them in their order.  The owner of a list of copy streams serialises all calls on it.  No call changes
 * the calling thread's current CUDA context.
 */
#ifndef CORE_DEVICE_COPY_STREAM_H
#define CORE_DEVICE_COPY_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* The direction of a copy: from a device, to a device. */
enum { COPY_STREAM_IN, COPY_STREAM_OUT, COPY_STREAMS };

/* Most copies in flight on a copy stream: enough to keep a device busy, and few to wait for. */
enum { COPY_STREAM_DEPTH = 16 };

/* In place of a code. */
enum { COPY_LOST = -1 };

struct copy_stream {
	struct copy_stream *next;
	int way;
	void *context;
	int primary; /* the device whose primary context is held, or -1 */
	void *stream;
	void *event[COPY_STREAM_DEPTH];
	struct stream_copy {
		/*
		 * For copies.h: the copy has ended, with a code and its message.  COPY_LOST: the device does not end it, and may
		 * use the memory for ever.
		 */
		void (*ended)(const struct stream_copy *copy, int code);
		void *owner;
		int step; /* of the owner */
		void *dst;
		const void *src;
		size_t n;
	} copy[COPY_STREAM_DEPTH]; /* the copies in flight, in a ring */
	int first, count;
};

/*
 * Returns the copy stream for the memory of a device, and makes it if the list has none.  The return is a
 * code, with a message.
 */
int copy_stream_find(struct copy_stream **copy_streams, int way, const void *near,
		     struct copy_stream **copy_stream);
/*
 * Starts a copy; the copy stream must not be full.  COLL_ERR_DEVICE, with a message, if the copy was not
 * started.
 */
int copy_stream_start(struct copy_stream *copy_stream, const struct stream_copy *copy);
/*
 * Polls the oldest copy; the copy stream must not be empty.  COLL_IN_PROGRESS, or COLL_SUCCESS or
 * COLL_ERR_DEVICE (with a message): then *copy is the copy, which has left the copy stream.
 */
int copy_stream_poll(struct copy_stream *copy_stream, struct stream_copy *copy);
/*
 * Takes the copy stream of a device that does not end its copies out of the list, and frees nothing of
 * it.
 */
void copy_stream_abandon(struct copy_stream **copy_streams, struct copy_stream *copy_stream);
/* Frees copy streams without copies in flight. */
void copy_streams_free(struct copy_stream **copy_streams);

#endif
