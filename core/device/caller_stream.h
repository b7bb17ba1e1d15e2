/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_stream.h - the order between a stream of the program and operations of the library.  An event tells
 * when the stream has come to a position.  A hold stops the stream at a position until a word of host memory
 * has a value.
 *
 * The stream waits by cuStreamWaitValue32, and never by a host function (cuLaunchHostFunc): CUDA forbids a host
 * function to wait for other work of the device, such as the copies of a staged operation, and it may run the
 * host functions of all streams one after the other, also those of other ranks of the process.
 *
 * The owner of a list serialises all calls on it.  No call blocks, and none changes the calling thread's
 * current CUDA context.
 */
#ifndef CORE_DEVICE_CALLER_STREAM_H
#define CORE_DEVICE_CALLER_STREAM_H

#include <stdatomic.h>
#include <stdint.h>

/* An event on a stream of the program, or a reference to one. */
struct stream_event {
	struct stream_event *next; /* in a list of its owner's */
	struct stream_event *of;   /* a reference: the event; else NULL */
	_Atomic int refs;          /* an event: its owner, and each reference */
	void *context, *event;
};

/* The word that streams wait for. */
struct stream_word {
	_Atomic uint32_t *value; /* NULL: not allocated yet */
};

/*
 * Can operations be ordered with this stream now?  COLL_ERR_UNSUPPORTED if the driver is too old,
 * COLL_ERR_INVALID_USAGE while the stream is being captured; the text begins with `what`.
 */
int caller_stream_check(const char *what, void *stream);
/*
 * Records an event behind the work that the stream has now.  The event comes from the list of spare events, or
 * is made.  The return is a code, with a message that begins with `what`.
 */
int stream_event_record(struct stream_event **spare, const char *what, void *stream,
			struct stream_event **event);
/* COLL_SUCCESS: the stream has passed the event; COLL_IN_PROGRESS; COLL_ERR_DEVICE with a message. */
int stream_event_query(const struct stream_event *event);
/* Later work of the stream waits for the event. */
int stream_event_wait(const struct stream_event *event, const char *what, void *stream);
/* A reference, which keeps the event, or NULL without memory.  Nobody records the event again meanwhile. */
struct stream_event *stream_event_ref(struct stream_event *event);
/* Gives up a reference or the ownership of an event; NULL does nothing. */
void stream_event_unref(struct stream_event *event);
void stream_events_free(struct stream_event **list);

/* Makes a stream of the library's own in the primary context of a device. */
int caller_stream_make(int device, void **stream);
void caller_stream_free(int device, void *stream);

/* Allocates the word where the stream's device reads it. */
int stream_word_make(struct stream_word *word, const char *what, void *stream);
/* No stream may wait for the word any more. */
void stream_word_free(struct stream_word *word);
/* Later work of the stream waits until (int32_t)(word - value) >= 0. */
int stream_word_wait(const struct stream_word *word, const char *what, void *stream,
		     uint32_t value);

#endif
