/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_recorder.h - the last messages outside the order of a communicator's operations, for the file that a failed
 * communicator leaves (recorder.h).
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_EXEC_MESSAGE_RECORDER_H
#define CORE_EXEC_MESSAGE_RECORDER_H

#include "exec/message.h"

/* Of the messages that are open when the communicator fails, the oldest half are kept: they hold up the others. */
enum { MESSAGE_RECORDS = 64 };

struct message_record {
	struct message_args args; /* with source, tag and count of the message that came */
	/* By context_now; ended_us 0: the communicator failed before. */
	int64_t issued_us, ended_us;
	int code; /* once ended: the result */
};

/* Made for the first message that ends.  Without memory there is none. */
struct message_recorder {
	uint64_t count; /* ever kept; number k, from 0, is at k % MESSAGE_RECORDS */
	int open;       /* of them those that the failure has ended */
	struct message_record record[MESSAGE_RECORDS];
};

/* A message ends, with its code and its status set. */
void message_recorder_add(const struct message *message);
/* Record number `n` of those that are kept, the oldest first, or NULL. */
const struct message_record *message_recorder_at(const struct comm *comm, uint64_t n);

#endif
