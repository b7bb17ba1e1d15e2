/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_words.h - a message outside the order of the operations (message/message.h), as far as the communicator knows it: what
 * the message waits for, in words and as a position.
 */
#ifndef CORE_WATCH_MESSAGE_WORDS_H
#define CORE_WATCH_MESSAGE_WORDS_H

#include "comm/task.h"
#include "transport/match.h"

struct position;

/* The arguments of the call; they are checked. */
struct message_args {
	int kind;  /* COLL_KIND_SEND or COLL_KIND_RECV */
	void *buf; /* a send only reads it */
	size_t count;
	coll_dtype_t dtype;
	int32_t peer;     /* or COLL_ANY_SOURCE */
	int32_t tag;      /* or COLL_ANY_TAG */
	int staged;       /* the buffer is device memory, for which host memory stands in */
	const void *site; /* the place in the program that called */
};

struct message {
	struct task task; /* the request has a reference, and the list of open messages */
	struct message *next, *prev; /* in sends or recvs of lane->messages while it is open */
	struct message_args args;
	int unsent;              /* a send that has not started */
	struct offload *offload; /* the memory that stands in for the buffer, or NULL */
	int copying;             /* a copy between the buffer and the memory is under way */
	int64_t issued_us;       /* by context_now */
	uint64_t counted;        /* when it was issued, for counters: a stamp */
	uint64_t
		number; /* for observers: among the messages of the lane; 0: they were not told of it */
	int64_t issued_ns; /* for observers */
	coll_status_t status;
	union {
		coll_send_t send;
		struct unordered_recv in;
	} u;
};

/* Is it a receive for which no message has come? */
int message_is_posted(const struct message *message);
/* Returns the record of a message that has these arguments, without its times and its result. */
struct record message_record(const struct message_args *args);
/* Writes, of the arguments, "coll_irecv of 4 int32 from rank 1 with tag 7". */
void message_describe(const struct lane *lane, const struct message_args *args, char *text,
		      size_t size);
/* For a rank without operations: its coll_probe, else its oldest open receive, is its position. */
void message_position(const struct lane *lane, struct position *position);

#endif
