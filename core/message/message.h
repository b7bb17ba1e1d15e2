/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - messages outside the order of the communicator's operations: coll_isend and coll_irecv.  Such a
 * message is no operation: it starts at once, waits for no operation, and no operation waits for it.  Each has
 * its own error.
 *
 * The lock is held in all functions except message_unref.
 */
#ifndef CORE_MESSAGE_MESSAGE_H
#define CORE_MESSAGE_MESSAGE_H

#include "watch/message_words.h"

/* Makes a message, with one reference. */
int message_new(struct comm *comm, const struct message_args *args, struct message **message);
/* Accepts NULL.  Any thread may call it. */
void message_unref(struct message *message);
/* Starts the message.  What goes wrong from now on is the message's own error. */
void message_start(struct message *message);
/* Reports a message that is done: its code, with the text.  COLL_IN_PROGRESS if it is not. */
int message_result(const struct message *message);
/* Ends a receive for which no message has come: COLL_ERR_INVALID_USAGE if it cannot be ended. */
int message_cancel(struct message *message);
/* Calls fn once the message is done; during this call if it is done already. */
int message_call_back(struct message *message, coll_request_fn fn, void *user);
/* Ends the message after timeout_us. */
void message_set_limit(struct message *message, int64_t timeout_us);

/* Looks for a message that a receive with these arguments would get: 1 if there is one; fills the status. */
int message_probe(struct comm *comm, const struct message_args *args, coll_status_t *status);

/*
 * Ends messages whose time is over, and sends that are complete: 1 if any.  A call looks at a few sends, the next call at
 * the next ones.
 */
int message_progress(struct comm *comm);
/* Ends all sends that are complete: 1 if there was one that message_progress may not have looked at. */
int message_look_at_all(struct comm *comm);
/* Is the message done?  Looks at a send. */
int message_is_done(struct message *message);
/* A message has come that the receive cannot take: it is the receive's error. */
void message_misfit(const struct recv *recv, uint32_t peer, const coll_header_t *header);
/* A rank has destroyed its communicator: ends the receives that no rank can meet any more. */
void message_peer_left(struct comm *comm);
/* Ends all messages of the communicator, which has failed or is being destroyed. */
void message_end_all(struct comm *comm, int code);

/* Waits until it is done; leaves as comm_wait_or_leave. */
int message_wait_or_leave(struct message *message, void *handle);
/* Waits for such a message. */
int message_probe_wait(struct comm *comm, const struct message_args *args, coll_status_t *status);

#endif
