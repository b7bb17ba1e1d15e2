/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_stream.h - the order between a stream of the program and operations of the library.  An event tells
 * when the stream has come to a position.  The stream writes flags, words of pinned host memory, and waits for them.
 *
 * The stream waits by cuStreamWaitValue32, and never by a host function (cuLaunchHostFunc): CUDA forbids a host
 * function to wait for other work of the device, such as the copies of a staged operation, and it may run the host
 * functions of all streams in turn, for other ranks of the process too.
 *
 * While a stream waits, the driver may block the calling thread in any of these functions but stream_event_query:
 * behind cudaFree, behind a copy of memory that is not pinned, or behind a stream that has no room for more work,
 * in whichever thread of the program.  So the thread must hold no lock that another one needs for the end of that wait.
 *
 * None changes the calling thread's current CUDA context.  The owner of a list serialises all calls on it.
 */
#ifndef CORE_DEVICE_CALLER_STREAM_H
#define CORE_DEVICE_CALLER_STREAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A stream of the program.  A default stream (handles 1 and 2) is another one in each context. */
struct caller_stream {
	void *handle, *context;
};

/* The device whose default streams the program means. */
struct stream_home {
	int device; /* -1: it has named none */
	void *_Atomic
		primary; /* the device's primary context, once it was needed, which is held; else NULL */
};

/* An event on a stream of the program, or a reference to one. */
struct stream_event {
	struct stream_event *next; /* in a list of its owner's */
	struct stream_event *of;   /* a reference: the event; else NULL */
	_Atomic int refs;          /* an event: its owner, and each reference */
	void *context, *event;
};

/*
 * Finds the stream that a handle names.  A default stream is one of the home's device; if there is none, of the device of
 * the memory `near`; if that is no device memory, of the current context.  The return is a code, with a message that begins
 * with `what`.
 */
int caller_stream_find(const char *what, void *handle, struct stream_home *home, const void *near,
		       struct caller_stream *stream);
/* Nobody uses the streams any more that were found by it. */
void stream_home_leave(struct stream_home *home);
/*
 * Can an event of this stream be recorded now?  COLL_ERR_UNSUPPORTED if the driver is too old, COLL_ERR_INVALID_USAGE
 * while the stream is being captured; the text begins with `what`.
 */
int caller_stream_check_capture(const char *what, const struct caller_stream *stream);
/* Can operations be ordered with this stream now?  The same, but a stream that writes flags needs a newer driver. */
int caller_stream_check(const char *what, const struct caller_stream *stream);
/*
 * Records an event behind the work that the stream has now.  The event comes from the list of spare events, or
 * is made.  The return is a code, with a message that begins with `what`.
 */
int stream_event_record(struct stream_event **spare, const char *what,
			const struct caller_stream *stream, struct stream_event **event);
/* COLL_SUCCESS: the stream has passed the event; COLL_IN_PROGRESS; COLL_ERR_DEVICE with a message. */
int stream_event_query(const struct stream_event *event);
/* Later work of the stream waits for the event. */
int stream_event_wait(const struct stream_event *event, const char *what,
		      const struct caller_stream *stream);
/* A reference, which keeps the event, or NULL without memory.  Nobody records the event again meanwhile. */
struct stream_event *stream_event_ref(struct stream_event *event);
/* Gives up a reference or the ownership of an event; NULL does nothing. */
void stream_event_unref(struct stream_event *event);
void stream_events_free(struct stream_event **list);

/* Makes a stream of the library's own in the primary context of a device. */
int caller_stream_make(int device, void **stream);
void caller_stream_free(int device, void *stream);

/* Later work of the stream waits until (int32_t)(*flag - value) >= 0. */
int stream_wait(const char *what, const struct caller_stream *stream, const _Atomic uint32_t *flag,
		uint32_t value);
/* The stream sets *flag when its earlier work is complete, and the bytes that it has copied are visible. */
int stream_write(const char *what, const struct caller_stream *stream, _Atomic uint32_t *flag,
		 uint32_t value);
/* Copies between device memory and pinned memory in the order of the stream. */
int stream_copy(const struct caller_stream *stream, uintptr_t dst, uintptr_t src, size_t n);

#endif
