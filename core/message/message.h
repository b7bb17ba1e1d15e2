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

/* The receive of a coll_irecv or coll_probe with these arguments. */
struct recv message_recv(const struct comm *comm, const struct message_args *args);
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
/* A receive outside the order has completed: struct loose_recv. */
void message_received(struct recv *recv);
/* A message has come that the receive cannot take: it is the receive's error. */
void message_misfit(const struct recv *recv, uint32_t peer, const coll_header_t *header);
/* A rank has destroyed its communicator: ends the receives that no rank can meet any more. */
void message_peer_left(struct comm *comm);
/* Ends all messages of the communicator, which has failed or is being destroyed. */
void message_end_all(struct comm *comm, int code);

/* For message.c (message_end.c): the message is over.  fmt NULL: the communicator's failure is the reason. */
void message_end(struct message *message, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* For message_progress.c: starts the sends that nothing holds any more: 1 if any. */
int message_start_held(struct comm *comm);
/* For message.c: ends a receive that no rank can meet any more: 1 if it did. */
int message_check_left(struct message *message);

/* --- message_staging.c: device buffers.  A send's bytes are copied before it starts, those of a receive before it ends. */

/* Gives a message host memory, before it starts, and warns. */
int message_stage(struct message *message);
/* The message is over, or does not start. */
void message_unstage(struct message *message);
/* Begins the copy of a send's bytes to host memory, or of the bytes that a receive has got from there. */
void message_copy_begin(struct message *message);
/* Waits, for a bounded time, until the message's copy is not under way. */
void message_copy_cancel(struct message *message);

/* --- message_wait.c */

/* Waits until it is done; leaves as comm_wait_or_leave. */
int message_wait_or_leave(struct message *message, void *handle);
/* Waits for such a message. */
int message_probe_wait(struct comm *comm, const struct message_args *args, coll_status_t *status);

#endif
