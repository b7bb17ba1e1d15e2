/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outcome.h - how a communicator ended: its failure, and how far each of its lanes came (comm/lane.h).  Each lane holds
 * a reference.  So do events, and operations that wait for another communicator, since they may ask after the
 * communicator is destroyed.
 */
#ifndef CORE_COMM_OUTCOME_H
#define CORE_COMM_OUTCOME_H

#include <coll/coll.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

struct lane;

/* The lanes of a communicator.  Most communicators have the first only. */
enum { LANE_FIRST, LANE_HOST, LANES };

struct outcome {
	_Atomic int refs;
	coll_comm_t comm; /* valid until the communicator is destroyed */
	/*
	 * The failure.  The lane that fails first writes it, and nobody changes it afterwards: readers need no lock
	 * once `code` is not 0.
	 */
	pthread_mutex_t lock; /* of the lanes that write it */
	_Atomic int code;     /* written last; 0: the communicator has not failed */
	int is_remote;        /* another rank has told of it */
	char text[768];
	_Atomic int is_told; /* a call of the program has returned it */
	struct {
		_Atomic int ended; /* the lane was freed: `finished` does not change any more */
		uint64_t finished; /* all operations of the lane up to this number are complete */
	} lane[LANES];
};

/* A point in the issue order of a lane: behind its operation `number`.  outcome NULL: no point, for which nothing waits. */
struct order_point {
	struct outcome *outcome;
	int lane_index;
	uint64_t number;
};

/* Operation OUTCOME_NEVER is never complete: an event recorded after the failure carries the failure. */
#define OUTCOME_NEVER UINT64_MAX

/* Returns an outcome with one reference, or NULL: memory has run out. */
struct outcome *outcome_new(coll_comm_t comm);
/* Both accept NULL. */
struct outcome *outcome_ref(struct outcome *outcome);
void outcome_unref(struct outcome *outcome);

/* Writes the failure and returns 1.  Returns 0 if there is an earlier failure, which stays. */
int outcome_fail(struct outcome *outcome, int is_remote, int code, const char *fmt, va_list ap);
/* The lane ends: its operations do not move any more. */
void outcome_end(struct outcome *outcome, const struct lane *lane);
/*
 * Returns COLL_SUCCESS if operation `number` of the lane is complete, COLL_IN_PROGRESS before the lane ends, else the
 * failure.
 */
int outcome_result(const struct outcome *outcome, int lane_index, uint64_t number);

#endif
