/* SPDX-License-Identifier: BSD-3-Clause */
/* drive.h - the kit in the place of the core towards an observer: loads it, opens states, tells of calls. */
#ifndef TOOLS_CHECK_OBSERVER_DRIVE_H
#define TOOLS_CHECK_OBSERVER_DRIVE_H

#include <coll/observer.h>
#include "check/kit/kit.h"

/* An open state of the observer. */
struct drive {
	struct check_case *c;
	coll_observer_host_t host;
	coll_observer_t table; /* a copy, of missing fields 0 */
	const char *name;
	void *state;
	uint64_t events;
	int64_t longest_ns; /* of one event */
};

/* Loads the observer and copies its table.  Returns 0, or -1 after failing the check. */
int drive_load(struct check_case *c, coll_observer_t *table);
/* Opens a state for a rank.  Returns 0, or -1 after failing or skipping the check. */
int drive_open(struct drive *d, struct check_case *c, int rank);
void drive_close(struct drive *d);
/* Tells of an event, if the observer wants it. */
void drive_tell(struct drive *d, const coll_observed_t *event);
/* The communicator `comm` is made, and destroyed. */
void drive_comm(struct drive *d, uint64_t comm, int phase);
/* All events of one call or message with this number; code: with which it ends. */
void drive_call(struct drive *d, uint64_t comm, uint64_t number, int32_t kind, int32_t code);
/* An event of this call with all fields that belong to it. */
coll_observed_t drive_event(const struct drive *d, uint64_t comm, uint64_t number, uint32_t what,
			    int32_t phase);

#endif
