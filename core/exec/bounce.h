/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.h - what a call needs of its stream, over a backend that has a transport: pinned host memory in place of device
 * buffers, and words that the stream writes and waits for.
 *
 * The calling thread puts all of it on the stream before the operation begins:
 *
 *   copies of the input to the pinned memory, and a word that tells that they have arrived;
 *   a wait for the end of the operation, copies of the result, and a word that tells that the stream has passed.
 *
 * The thread that moves the operation then needs no function of the driver, which could block it for ever: cudaFree
 * waits for all streams, also for the one that waits for this operation, and meanwhile no thread can start a copy.
 */
#ifndef CORE_EXEC_BOUNCE_H
#define CORE_EXEC_BOUNCE_H

#include "device/caller_stream.h"

struct comm;
struct op;

/* A copy between the program's memory and the pinned memory, at an offset. */
struct bounce_copy {
	uintptr_t user;
	size_t at, len;
};

struct bounce {
	struct bounce *next;      /* of the communicator */
	struct bounce *next_gate; /* of the operation that waits for several streams */
	struct op *op;            /* which uses it, or NULL */
	int filling;              /* the calling thread puts work on the stream */
	int dead;                 /* the driver has refused a part of the work */
	struct caller_stream stream;
	const char *what; /* the name of the call */
	_Atomic uint32_t *words;
	char *memory;
	size_t size, need;
	uint32_t turn; /* the value of the words in this use */
	struct bounce_copy *copy;
	size_t ins, outs, room;             /* copies to the pinned memory, then from it */
	size_t scalar;                      /* where a factor on the device lies in the memory */
	int carries;                        /* the operation's device buffers are copied here */
	struct stream_event *event, *spare; /* tells whether the stream has failed */
	int64_t looked_us;
};

/* Will the bounce of this operation stand for its device buffers?  Its own function takes them as they are. */
int bounce_carries(const struct op *op);
/*
 * Returns an idle one, or makes one, for an operation with this stream, or for a stream that only waits (op NULL), and
 * lists its copies.  It may lack memory until bounce_pin.  NULL: a code in *code, with a message; COLL_IN_PROGRESS, if
 * the call may wait: the others have too much memory, so one of them must become idle first.  The lock is held.
 */
struct bounce *bounce_take(struct bounce **list, struct op *op, const char *what,
			   const struct caller_stream *stream, int may_wait, int *code);
/* The operation does not use it any more.  The lock is held. */
void bounce_give_back(struct bounce *b);

/*
 * The calling thread, without the lock.  Each puts a part of the work on the stream; the return is a code, with a message.
 */
int bounce_pin(struct bounce *b);
/* Of several streams each waits here for the earlier work of the others; the first function goes before the second. */
int bounce_meet(struct bounce *b);
int bounce_meet_other(struct bounce *b, const struct bounce *other);
int bounce_fill(struct bounce *b);
/* The operation is complete when *word has reached `number`. */
int bounce_drain(struct bounce *b, const _Atomic uint32_t *word, uint32_t number);

/* COLL_SUCCESS: the input is here; COLL_IN_PROGRESS; COLL_ERR_DEVICE with a message.  look: may ask the driver. */
int bounce_has_arrived(struct bounce *b, int look);
/* The same of the result, in the program's memory. */
int bounce_has_passed(struct bounce *b, int look);
/* Frees it; passed 0: a stream may still use the memory, which stays allocated. */
void bounce_free(struct bounce *b, int passed);

#endif
