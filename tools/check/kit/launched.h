/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launched.h - `coll check --launched`: each rank is a process that a launcher has started, on any host.  The
 * processes talk through a communicator of their own over tcp.  Each process runs its rank of a case in a
 * child; while the child runs, its parent relays the child's exchanges to the other ranks.  With --no-fork a thread of
 * the process runs the rank instead, since some engines (MPI) serve only the process that the launcher has started.
 */
#ifndef TOOLS_CHECK_LAUNCHED_H
#define TOOLS_CHECK_LAUNCHED_H

#include <coll/coll.h>
#include "check/kit/kit.h"

struct check_launch {
	coll_comm_t comm;
	int32_t rank, nranks;
};

/* The part of one rank in a step of check_exchange. */
struct launched_part {
	int32_t ended, failed; /* the child has ended; the check has failed in it */
	char text[CHECK_TEXT];
	uint8_t record[CHECK_RECORD];
};

/* The exchanges of one case. */
struct launched_relay {
	const struct check_launch *launch;
	struct check_case *c;
	unsigned step;
	coll_request_t request; /* request of an exchange under way, or NULL */
	int broken;             /* 1: a rank has ended, so the children exchange no more */
	int over;               /* 1: all ranks have ended */
	struct launched_part own, all[CHECK_RANKS];
};

/*
 * Joins the processes of the launcher.  check_ms: the time after which a check counts as hung.  Returns 0, or the exit
 * status after a message.
 */
int check_launched_begin(struct check_launch *launch, int64_t check_ms);
void check_launched_end(struct check_launch *launch);

/* Relays the exchanges that are ready.  ended: 1 if this rank's child has ended.  Does not block. */
void check_relay(struct launched_relay *relay, int ended);
/* Turns the results of all ranks into one, the same on each rank. */
void check_launched_agree(const struct check_launch *launch, struct check_result *result);

/* Returns the reason why a check cannot run in launched processes, or NULL. */
const char *check_launched_lacks(const struct check *check, const struct check_options *options,
				 char *text, size_t size);

#endif
