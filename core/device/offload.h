/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.h - host memory that stands in for the device buffers of a call, and the copies between both.
 *
 * A communicator has one pool of such memory for its operations and its messages.  While calls have streams of the program, a
 * piece goes back to the system only with the communicator: CUDA frees pinned memory only when the device is idle, and a
 * stream may wait for a call.
 *
 * The copies run in one of two ways.
 *
 * Without a stream of the program: beside the transfer, each as soon as its bytes are there, on streams of the library's
 * own (copies.h).  The thread that moves the call starts the copies and finds them complete, so no stream waits.
 *
 * With a stream of the program: on that stream.  The calling thread puts all of it there before the call begins:
 *
 *   offload_fill    copies of the input to the memory, and a flag that tells that they have arrived;
 *   offload_drain   a wait for the end of the call, copies of the result, and a flag that tells that the stream has passed.
 *
 * The thread that moves the call then needs no function of the driver, which could block it for ever: cudaFree waits
 * for all streams, also for the stream that waits for this call, and meanwhile no thread can start a copy.
 */
#ifndef CORE_DEVICE_OFFLOAD_H
#define CORE_DEVICE_OFFLOAD_H

#include "device/caller_stream.h"
#include "device/copies.h"

/* The idle pieces by their sizes, which are powers of two from 4 KiB on. */
enum { OFFLOAD_BINS = 36 };

/* A copy on a stream of the program, between the program's memory and the offload's, at an offset. */
struct offload_copy {
	uintptr_t user;
	size_t at, len;
};

struct offload {
	struct offload *next; /* in the pool */
	void *owner;          /* the operation or message; NULL: none, or none any more */
	char *memory;         /* NULL: not there yet */
	size_t size;
	_Atomic uint32_t *flags; /* behind the memory */
	int pinned;
	int lost;    /* a device may touch the memory for ever */
	int counted; /* in the pool's `bytes` */
	int buffers; /* the memory stands in for buffers; 0: only the flags are used */

	/* Without a stream of the program. */
	struct copy_queue way[COPY_WAYS];
	struct copy whole; /* of a message */

	/* With one. */
	int on_stream;
	struct caller_stream stream;
	const char *what;                /* the name of the call */
	int filling;                     /* the calling thread puts work on the stream */
	int dead;                        /* the driver has refused a part of the work */
	uint32_t turn;                   /* the value of the flags in this use */
	struct offload_copy *copy;       /* copies to the memory, then from it */
	size_t ins, outs, capacity;      /* how many of both, and capacity of `copy` */
	struct stream_event *event;      /* tells whether the stream has failed */
	struct stream_event *spare;      /* for the next use */
	int64_t looked_us;               /* when the driver was asked last */
	struct offload *next_dependency; /* of the operation that waits for several streams */
};

/* All zeros: empty. */
struct offload_pool {
	struct offload *idle[OFFLOAD_BINS];
	int kept[OFFLOAD_BINS];  /* how many */
	struct offload *passing; /* nobody uses them, but a stream may still have to pass them */
	size_t bytes;            /* of the pieces that were made for calls with a stream */
	int on_streams;          /* pieces with a stream that have an owner or are being filled */
};

/* --- The pool.  The caller serialises these calls. */

/*
 * Takes a piece for a call without a stream.  It may lack memory until offload_pin_near.  pinned: it has pinned memory,
 * or lacks memory until offload_pin.  Returns NULL if memory has run out.
 */
struct offload *offload_take(struct offload_pool *pool, size_t need, void *owner, int pinned);
/*
 * Takes a piece for a call with a stream, or, with owner NULL, for a stream that only waits.  It may lack memory until
 * offload_pin.  Returns NULL with a code in *code and a message.  COLL_IN_PROGRESS, if the call may wait: the pieces of
 * earlier calls have too much memory, so a piece must become idle first.
 */
struct offload *offload_take_stream(struct offload_pool *pool, size_t need, void *owner,
				    const char *what, const struct caller_stream *stream,
				    int may_wait, int *code);
/* Makes room in o->copy for copies, which the caller lists then.  The return is a code, with a message. */
int offload_reserve(struct offload *o, size_t copies);
/* Joins copies that follow one another at both ends; returns their number. */
size_t offload_join(struct offload_copy *copy, size_t n);
/* The owner does not use the piece any more; the calling thread may still put work on the stream. */
void offload_give_back(struct offload_pool *pool, struct offload *o);
/* The calling thread puts no more work on the stream. */
void offload_filled(struct offload_pool *pool, struct offload *o);
/*
 * Frees all pieces, of which none has an owner.  Returns 0 if a stream has not passed its piece by the time `deadline_us`:
 * the memory of that piece stays allocated.
 */
int offload_free_pool(struct offload_pool *pool, int64_t deadline_us);
/* Frees a piece that was taken; keep: its memory stays allocated. */
void offload_free(struct offload *o, int keep);

/*
 * Gives the piece memory that the device of `near` reaches directly, or other memory if the driver has none: copies are
 * correct then, but the driver may block in them.  Returns 0 if memory has run out.
 */
int offload_pin_near(struct offload *o, const void *near);

/*
 * --- The work on a stream.  The calling thread holds no lock that the thread needs which moves the call.  The return is a
 * code, with a message.
 */

/* Gives the piece pinned memory. */
int offload_pin(struct offload *o);
/* Barrier across streams: call offload_meet for every stream, then offload_meet_other for every pair. */
int offload_meet(struct offload *o);
int offload_meet_other(struct offload *o, const struct offload *other);
int offload_fill(struct offload *o);
/* The call is complete when *flag has reached `number`. */
int offload_drain(struct offload *o, const _Atomic uint32_t *flag, uint32_t number);

/* COLL_SUCCESS: the input is here; COLL_IN_PROGRESS; COLL_ERR_DEVICE with a message.  look: may ask the driver. */
int offload_has_arrived(struct offload *o, int look);
/* The same of the result, in the program's memory. */
int offload_has_passed(struct offload *o, int look);

#endif
