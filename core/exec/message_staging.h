/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_staging.h - messages outside the order of the operations whose buffers are device memory: host memory stands
 * in for them.
 *
 * The lock is held in all functions but message_free_staged.
 */
#ifndef CORE_EXEC_MESSAGE_STAGING_H
#define CORE_EXEC_MESSAGE_STAGING_H

#include "device/copy_stream.h"
#include "exec/message.h"

/* The copy of a message: none is to be made; waits for a place on the copy stream; runs; has ended. */
enum { STAGED_IDLE, STAGED_WAITS, STAGED_RUNS, STAGED_ENDED };

/* The host memory of a message. */
struct staged {
	struct staged *next; /* of those that the communicator keeps */
	char *memory;        /* NULL: a device may still touch it, and it is never freed */
	size_t size;
	int pinned, state;
	int code; /* of the copy, once it has ended, with its text */
	char text[256];
	struct copy_stream *copy_stream;
};

/* Gives a message host memory, before it starts, and warns. */
int message_stage(struct message *message);
/* The message is over: the communicator keeps the memory for the next. */
void message_unstage(struct message *message);
/* The communicator is freed. */
void message_free_staged(struct comm *comm);

/* Begins the copy of a send's bytes to host memory, or of the bytes that a receive has got from there. */
void message_copy_begin(struct message *message);
/* Starts copies and ends messages whose copies have ended: 1 if any moved.  comm->copying is not NULL. */
int message_copy_progress(struct comm *comm);
/* Waits, for a bounded time, until the message's copy is not in flight. */
void message_copy_cancel(struct message *message);

static inline int message_is_copying(const struct message *message)
{
	return message->staged && message->staged->state != STAGED_IDLE;
}

#endif
