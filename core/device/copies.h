/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies.h - copies between devices and the host that run beside the calling thread, on streams of the library's own: one
 * for each CUDA context and direction.  Operations and messages share the streams.  A copy waits in a queue of its owner's
 * until copies_progress starts it; the queues of a stream take turns.  The owner learns of the end of its copy by the
 * copy's function `ended`.
 *
 * The owner of a `struct copies` serialises all calls on it.  No call changes the calling thread's current CUDA context.
 */
#ifndef CORE_DEVICE_COPIES_H
#define CORE_DEVICE_COPIES_H

#include <stddef.h>
#include <stdint.h>

/* The direction of a copy: from a device, to a device. */
enum { COPY_IN, COPY_OUT, COPY_WAYS };

/* In place of a code. */
enum { COPY_LOST = -1 };

struct copy_stream;

/* The memory belongs to the owner, who leaves it alone until the copy has ended. */
struct copy {
	struct copy *next; /* in its queue, then among the copies that run */
	/*
	 * The copy has ended: `code` is its result, with a message.  COPY_LOST: the device does not end it, and may use the
	 * memory for ever.
	 */
	void (*ended)(struct copy *copy, int code);
	void *owner;
	int step; /* of the owner */
	void *dst;
	const void *src;
	size_t n;
};

/* The copies of an owner that wait for room on a stream. */
struct copy_queue {
	struct copy_stream *stream;
	struct copy_queue *next; /* of the stream's, while it has copies */
	struct copy *first, *last;
};

/* All zeros: none yet. */
struct copies {
	struct copy_stream *streams;
	int pending; /* copies that wait or run */
};

/* Finds the stream for copies to or from the memory of a device, or makes it.  The return is a code, with a message. */
int copies_find(struct copies *copies, int way, const void *near, struct copy_stream **stream);
/* Appends a copy to the queue, which has a stream. */
void copies_add(struct copies *copies, struct copy_queue *queue, struct copy *copy);
/*
 * Ends copies that are complete, and starts copies for which their streams have room.  Returns 1 if it has ended or
 * started any.
 */
int copies_progress(struct copies *copies);
/*
 * The owner's copies in these queues, one for each direction, do not start any more, and `ended` is not called for
 * copies that run: waits for their end.  After a second all copies of their stream are lost, with a log line of this
 * rank: then the return is COPY_LOST, else 0.
 */
int copies_cancel(struct copies *copies, struct copy_queue *queues, const void *owner, int rank);
/* No copy waits or runs. */
void copies_free(struct copies *copies);

#endif
