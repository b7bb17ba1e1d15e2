/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outcome.h - how the operations of a communicator ended, for events and for other communicators that
 * wait for them.  The communicator and each of those hold a reference, so that an outcome is found after
 * the communicator is destroyed.
 */
#ifndef CORE_COMM_OUTCOME_H
#define CORE_COMM_OUTCOME_H

#include <coll/coll.h>

#include <stdatomic.h>

struct comm;

struct outcome {
	_Atomic int refs;
	coll_comm_t comm;  /* valid until the communicator is destroyed */
	_Atomic int ended; /* the communicator was freed: the fields below do not change any more */
	uint64_t finished; /* all operations up to this number are complete */
	int error;         /* of the operations behind it */
	char error_text[768];
};

/* Operation OUTCOME_NEVER is never complete: an event recorded after the failure carries the failure. */
#define OUTCOME_NEVER UINT64_MAX

/* With one reference; NULL if memory has run out. */
struct outcome *outcome_new(coll_comm_t comm);
/* Both accept NULL. */
struct outcome *outcome_ref(struct outcome *outcome);
void outcome_unref(struct outcome *outcome);

/* The communicator ends: nobody has it pinned, and its operations do not move any more. */
void outcome_end(struct outcome *outcome, const struct comm *comm);
/* COLL_SUCCESS if operation `number` is complete, COLL_IN_PROGRESS before the end, else the error. */
int outcome_result(const struct outcome *outcome, uint64_t number);

#endif
