/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - messages outside the order of the communicator's operations: coll_isend and coll_irecv.  Such a
 * message is no operation: it starts at once, waits for no operation, and no operation waits for it.  Each has
 * its own error.  It is a task: see comm/task.h.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_MESSAGE_MESSAGE_H
#define CORE_MESSAGE_MESSAGE_H

#include "watch/message_words.h"

extern const struct task_kind message_kind;

/* Returns the message that begins with the task, or NULL: the task is of another kind. */
static inline struct message *message_of_task(struct task *task)
{
	return task->kind == &message_kind ? (struct message *)task : NULL;
}

/* Makes a message, with one reference.  On an error *message is NULL. */
int message_new(struct lane *lane, const struct message_args *args, struct message **message);
/* Starts the message.  What goes wrong from now on is the message's own error. */
void message_start(struct message *message);
/* Ends a receive for which no message has come: COLL_ERR_INVALID_USAGE if it cannot be ended. */
int message_cancel(struct message *message);

/* Looks for a message that a receive with these arguments would get.  Returns 1 and fills the status if there is one. */
int message_probe(struct lane *lane, const struct message_args *args, coll_status_t *status);
/* Waits for such a message. */
int message_probe_wait(struct lane *lane, const struct message_args *args, coll_status_t *status);

/* Completes sends.  Returns 1 if it has completed any.  A call looks at a few sends, the next call at the next sends. */
int message_progress(struct lane *lane);
/* Completes every finished send.  Returns 1 if message_progress might have missed one. */
int message_look_at_all(struct lane *lane);
/* A message has come that the receive cannot take: it is the receive's error. */
void message_misfit(const struct recv *recv, uint32_t peer, const coll_header_t *header);
/* A rank has destroyed its communicator: ends the receives that no rank can meet any more. */
void message_peer_left(struct lane *lane);
/* Ends all messages of the communicator, which has failed or is being destroyed. */
void message_end_all(struct lane *lane, int code);

#endif
