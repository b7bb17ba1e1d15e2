/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_stream.h - copies between a device and the host that nobody waits for: a copy_stream is a stream of its own
 * in one context, for one direction, on which copies are started, and asked later whether they are
 * done, in their order.  The owner of a list of copy streams serialises all calls on it.  No call
 * changes the calling thread's current CUDA context.
 */
#ifndef CORE_DEVICE_COPY_STREAM_H
#define CORE_DEVICE_COPY_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* From a device, to a device. */
enum { COPY_STREAM_IN, COPY_STREAM_OUT, COPY_STREAMS };

/* So many copies are under way on a copy_stream: enough to keep a device busy, few to be waited for. */
enum { COPY_STREAM_DEPTH = 16 };

struct copy_stream {
	struct copy_stream *next;
	int way;
	void *context;
	int primary; /* the device whose primary context is held, or -1 */
	void *stream;
	void *event[COPY_STREAM_DEPTH];
	struct stream_copy {
		void *owner;
		int step; /* for the owner */
		void *dst;
		const void *src;
		size_t n;
	} copy[COPY_STREAM_DEPTH]; /* a ring */
	int first, count;
};

/* The copy_stream for memory of a device, made if the list has none.  A code, with a sentence. */
int copy_stream_find(struct copy_stream **copy_streams, int way, const void *near,
		     struct copy_stream **copy_stream);
/* Starts one; not if the copy_stream is full.  COLL_ERR_DEVICE, with a sentence, if nothing was started. */
int copy_stream_start(struct copy_stream *copy_stream, const struct stream_copy *copy);
/*
 * Is the oldest copy over?  COLL_IN_PROGRESS, else *copy is that one and no longer on the copy_stream:
 * COLL_SUCCESS or COLL_ERR_DEVICE, with a sentence.  Not if the copy_stream is empty.
 */
int copy_stream_poll(struct copy_stream *copy_stream, struct stream_copy *copy);
/* Takes it out of the list, with a device that does not end its copies: nothing of it is freed. */
void copy_stream_abandon(struct copy_stream **copy_streams, struct copy_stream *copy_stream);
/* Frees copy_streams on which nothing is under way. */
void copy_streams_free(struct copy_stream **copy_streams);

#endif
