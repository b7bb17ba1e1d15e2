/* SPDX-License-Identifier: BSD-3-Clause */
/* limit.c - operations that must be complete by a time that the program has set. */
#include "comm/limit.h"
#include "comm/op.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/* So long before its end the other ranks are asked where they are, or a quarter of the limit. */
enum { LIMIT_ANSWER_US = 250000 };

struct limit {
	struct limit *next;
	uint64_t number; /* the operation */
	int64_t timeout_us, end_us;
	int asked; /* the other ranks were asked */
};

/* When is the limit to be looked at next? */
static int64_t limit_next_us(const struct limit *l)
{
	const int64_t quarter = l->timeout_us / 4;

	return l->asked ? l->end_us
			: l->end_us - (quarter < LIMIT_ANSWER_US ? quarter : LIMIT_ANSWER_US);
}

int limit_add(struct comm *comm, uint64_t number, int64_t timeout_us)
{
	struct limit *limit = malloc(sizeof(*limit));
	int64_t next;

	if (!limit)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a limit");
	*limit = (struct limit){NULL, number, timeout_us, clock_now_us() + timeout_us, 0};
	next = limit_next_us(limit);
	if (!comm->limits.first || next < comm->limits.look_us)
		comm->limits.look_us = next;
	*(comm->limits.first ? &comm->limits.last->next : &comm->limits.first) = limit;
	comm->limits.last = limit;
	comm_set_busy(comm);
	return COLL_SUCCESS;
}

void limit_free(struct comm *comm)
{
	while (comm->limits.first) {
		struct limit *next = comm->limits.first->next;

		free(comm->limits.first);
		comm->limits.first = next;
	}
}

/* The oldest operation is the one that the others wait for. */
static void limit_fail(struct comm *comm, const struct limit *limit)
{
	char what[160], missing[512];
	struct rank_name name;

	comm->client->describe_missing(comm, limit->asked, missing, sizeof(missing));
	comm->client->describe_own(comm, what, sizeof(what));
	comm_fail(comm, 0, COLL_ERR_TIMEOUT,
		  "%s: operation number %llu timed out: it is not complete %.3g s after the "
		  "program limited its time; the rank is at %s%s",
		  comm_own_name(comm, &name), (unsigned long long)limit->number,
		  (double)limit->timeout_us / 1e6, what, missing);
}

/* One question serves all limits that end in the time for its answers. */
static void limit_ask(struct comm *comm, int64_t now)
{
	comm->client->ask(comm);
	for (struct limit *l = comm->limits.first; l; l = l->next)
		l->asked |= l->end_us <= now + LIMIT_ANSWER_US;
}

/* Fails the communicator if one of the limits is over; else finds the one to be looked at next. */
static void limit_look(struct comm *comm, int64_t now)
{
	int64_t next = INT64_MAX;

	for (const struct limit *l = comm->limits.first; l && !comm->error; l = l->next) {
		if (l->number <= comm->finished)
			continue;
		if (l->end_us <= now)
			limit_fail(comm, l);
		else if (limit_next_us(l) <= now)
			limit_ask(comm, now);
		if (limit_next_us(l) < next)
			next = limit_next_us(l);
	}
	comm->limits.look_us = next;
}

/*
 * The limits lie in the order in which they were set, which most programs do in the order of the operations: so a call
 * looks at those in front that are complete, not at all of them.
 */
int limit_fail_late(struct comm *comm)
{
	struct limit *limit;
	int64_t now;

	while ((limit = comm->limits.first) && limit->number <= comm->finished) {
		comm->limits.first = limit->next;
		free(limit);
	}
	now = clock_tick_us();
	if (comm->limits.first && now >= comm->limits.look_us)
		limit_look(comm, now);
	return comm->error != 0;
}
