/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_impl.h - what the files of the stand-in for the CUDA driver share.
 *
 * One lock guards all of it, and is never held while work is done: copies on two streams run at once.
 */
#ifndef TESTS_FAKES_CUDA_IMPL_H
#define TESTS_FAKES_CUDA_IMPL_H

#include "cuda.h"

#include <pthread.h>

enum { STANDIN_DEVICES = 16 };

struct standin_stream;

struct standin_context {
	int device, refs;
	int broken;                    /* what every call says from now on, if not 0 */
	struct standin_stream *legacy; /* its default stream, once used */
};

/* Everything up to a piece of work on a stream; holds the stream. */
struct standin_point {
	struct standin_stream *stream;
	unsigned long ticket;
};

/* A piece of work for a stream. */
struct standin_task {
	struct standin_task *next;
	int (*run)(const struct standin_task *task);
	unsigned long ticket;
	unsigned delay_us;
	int exact;  /* it takes so long also while somebody waits */
	int fails;  /* whoever waits is told this, and it is not run */
	int breaks; /* its context breaks, and it is not run */
	int always; /* run in every case */
	char *dst;
	const char *src;
	unsigned long dst_id, src_id; /* of the memory that they are in, 0: not the driver's */
	size_t n;
	unsigned value, width;
	void (*host)(void *arg);
	int (*kernel)(void *arg);
	void *arg;
	size_t nafter; /* what it waits for */
	struct standin_point *after;
};

/*
 * Tickets grow over all streams, so that one number says how far a stream is.  What it has been
 * given is done in order by its thread, which is made with the first piece.
 */
struct standin_stream {
	struct standin_stream *next;
	struct standin_context *context;
	int refs;
	int blocking;        /* it synchronises with its context's default stream */
	int made;            /* by cuStreamCreate */
	int owned;           /* by a thread, whose default stream it is */
	int gone;            /* no handle names it any more; what it was given is still done */
	int dead;            /* its context has ended */
	int threaded;        /* it has its thread */
	int waiters;         /* who wait for it, and would like it soon */
	int error;           /* to be told to who waits for error_at */
	unsigned long given; /* the last ticket given */
	unsigned long done;  /* the last ticket done */
	unsigned long since; /* when its running task began, 0 if none runs */
	unsigned long error_at;
	struct standin_task *first, *last; /* the running one is the first */
	pthread_cond_t work, changed;      /* for its thread; for who waits for it */
};

/* A piece of memory that the driver knows. */
struct standin_memory {
	struct standin_memory *next;
	char *base;   /* as its owner sees it */
	char *inside; /* the same memory, as only the stand-in sees it */
	size_t bytes;
	unsigned type, managed;
	unsigned long id, buried; /* buried: when it was freed */
	struct standin_context *context;
};

/* cuda.c.  standin_begin and standin_enter take the lock if they return 0, standin_leave gives it. */
extern pthread_mutex_t standin_lock;
extern unsigned long standin_clock; /* gives tickets and times */

int standin_fault(const char *name, unsigned long *after);
int standin_injected(const char *name, unsigned long before);
int standin_process_ok(void);
int standin_begin(struct standin_context **context);
int standin_enter(struct standin_context **context);
int standin_leave(int code);

/* cuda_stream.c, with the lock held. */
int standin_stream_find(void *handle, struct standin_context *context,
			struct standin_stream **stream);
void standin_stream_unref(struct standin_stream *stream);
int standin_stream_give(struct standin_stream *stream, const struct standin_task *task,
			const struct standin_point *after);
int standin_stream_await(struct standin_stream *stream, unsigned long ticket);
int standin_stream_error(struct standin_stream *stream, unsigned long ticket);
unsigned long standin_stream_oldest(void);
void standin_streams_end(struct standin_context *context);
int standin_streams_await(struct standin_context *context);
void standin_streams_wake(struct standin_context *context);

/* cuda_worker.c.  standin_worker: the stream whose thread this is, else NULL. */
extern _Thread_local struct standin_stream *standin_worker;

int standin_worker_start(struct standin_stream *stream);
void standin_context_break(struct standin_context *context, int code);

/* cuda_event.c, with the lock held. */
void standin_events_end(struct standin_context *context);

/* cuda_memory.c, with the lock held. */
struct standin_memory *standin_memory_find(const void *ptr);
unsigned long standin_memory_id(const void *ptr);
char *standin_memory_inside(const struct standin_memory *memory, const void *ptr, size_t n);
void standin_memory_reap(void); /* what is freed, and not in use any more */
void standin_memory_end(struct standin_context *context);

#endif
