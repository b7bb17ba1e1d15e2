/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_impl.h - declarations that the files of the stand-in for the CUDA driver share.
 *
 * One lock guards all data.  No thread holds it while it does stream work, so copies on two streams
 * run at once.
 */
#ifndef TESTS_FAKES_CUDA_IMPL_H
#define TESTS_FAKES_CUDA_IMPL_H

#include "cuda.h"

#include <pthread.h>

enum { STANDIN_DEVICES = 16 };

struct standin_stream;

struct standin_context {
	int device, refs;
	int broken;                    /* if not 0: the code that every call returns from now on */
	int freeing;                   /* threads in cuMemFree, for which others wait */
	struct standin_stream *legacy; /* the context's default stream, once used */
};

/* A position in a stream: all work up to a ticket; holds a reference to the stream. */
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
	int exact;  /* duration of the work, kept also while a thread waits for it */
	int fails;  /* if not 0: the work does not run, and a waiting thread gets this code */
	int breaks; /* if not 0: the work does not run, and its context breaks */
	int always; /* function that runs in every case */
	char *dst;
	const char *src;
	unsigned long dst_id, src_id; /* ids of the memory of both ends; 0: not the driver's */
	size_t n;
	unsigned value, width;
	void (*host)(void *arg);
	int (*kernel)(void *arg);
	void (*drop)(void *arg); /* at the end of the graph that has the work */
	void *arg;
	size_t nafter; /* the position that the work waits for */
	struct standin_point *after;
};

/*
 * Tickets grow over all streams, so a single number gives the progress of a stream.  The stream's
 * thread, created with the first piece of work, does its work in order.
 */
struct standin_stream {
	struct standin_stream *next;
	struct standin_context *context;
	int refs;
	int blocking; /* the stream synchronises with its context's default stream */
	int made;     /* created by cuStreamCreate */
	int owned;    /* created by a thread, as that thread's default stream */
	int gone;     /* no handle names the stream any more; its queued work still runs */
	int dead;     /* the stream's context has ended */
	int capture;  /* CU_STREAM_CAPTURE_STATUS_* */
	struct standin_task *captured; /* the work of the capture */
	/* Unsafe calls of all threads, of capture_thread, or of none invalidate the capture. */
	int capture_mode;
	pthread_t capture_thread;
	int threaded;        /* the stream has its thread */
	int waiters;         /* number of threads that wait for the stream, for which it hurries */
	int error;           /* error for the threads that wait for ticket error_at */
	int pieces;          /* of work, queued or running */
	unsigned long given; /* ticket of the last work queued */
	unsigned long done;  /* ticket of the last work done */
	unsigned long since; /* time at which the running work began; 0: none runs */
	unsigned long error_at;
	struct standin_task *first, *last; /* the running work is the first */
	/* conditions for the stream's thread and for waiting threads */
	pthread_cond_t work, changed;
};

/* A piece of memory that the driver knows. */
struct standin_memory {
	struct standin_memory *next;
	char *base;   /* address for the program */
	char *inside; /* address of the same memory for the stand-in only */
	size_t bytes;
	unsigned type, managed;
	int pooled;               /* no context owns it */
	unsigned long id, buried; /* buried: ticket at which the memory was freed */
	struct standin_context *context;
};

/*
 * cuda.c.  standin_begin and standin_enter take the lock if they return 0; standin_leave releases
 * it.
 */
extern pthread_mutex_t standin_lock;
extern unsigned long standin_clock; /* source of tickets and times */

int standin_fault(const char *name, unsigned long *after);
int standin_injected(const char *name, unsigned long before);
int standin_process_ok(void);
int standin_begin(struct standin_context **context);
int standin_enter(struct standin_context **context);
int standin_leave(int code);

/* cuda_stream.c; the caller holds the lock. */
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
/* Waits while other threads free memory, as the real driver does (STANDIN_CUDA_FREE=locked). */
void standin_await_freeing(const struct standin_context *context);
void standin_streams_wake(struct standin_context *context);
int standin_streams_capture(const struct standin_context *context); /* is a stream captured? */
/* An unsafe call: invalidates all global captures, and returns the code of the call. */
int standin_streams_invalidate(void);

/*
 * cuda_order.c; the caller holds the lock.  An unsafe call of this thread begins: 0, or the code with
 * which it fails because of a capture.
 */
int standin_unsafe(void);

/* cuda_worker.c.  standin_worker: the stream whose thread is the calling thread, else NULL. */
extern _Thread_local struct standin_stream *standin_worker;

int standin_worker_start(struct standin_stream *stream);
void standin_context_break(struct standin_context *context, int code);

/* cuda_event.c; the caller holds the lock. */
void standin_events_end(struct standin_context *context);

/* cuda_graph.c */
struct standin_graph;
int standin_capture_add(struct standin_stream *stream, const struct standin_task *task);
void standin_captured_free(struct standin_task *task); /* the caller does not hold the lock */
struct standin_graph *standin_graph_new(struct standin_task *first);

/* cuda_memory.c; the caller holds the lock. */
struct standin_memory *standin_memory_find(const void *ptr);
unsigned long standin_memory_id(const void *ptr);
char *standin_memory_inside(const struct standin_memory *memory, const void *ptr, size_t n);
void standin_memory_reap(void); /* unmaps freed memory that no running work uses any more */
void standin_memory_end(struct standin_context *context);

#endif
