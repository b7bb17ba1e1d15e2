/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - derived communicators: split, dup, and two communicators in one group. */
#include "scenario/scenario.h"

void scenario_split(struct scenario_rank *r)
{
	int32_t mates = (r->nranks + 1 - r->rank % 2) / 2;
	coll_comm_t half;

	if (scenario_did(r, coll_comm_split(r->comm, r->rank % 2, -r->rank, &half, NULL),
			 "coll_comm_split") &&
	    scenario_expect(r, half, mates, mates - 1 - r->rank / 2))
		scenario_works(r);
}

void scenario_split_no_colour(struct scenario_rank *r)
{
	const int32_t last = r->nranks - 1;
	const struct {
		int out;
		int32_t nranks, rank; /* the ranks to expect */
	} rounds[] = {{r->rank % 2 == 0, r->nranks / 2, r->rank / 2},
		      {r->rank == 0, last, r->rank - 1},
		      {r->rank == last, last, r->rank}};
	coll_comm_t part;

	for (int i = 0; i < 3; i++) {
		part = r->comm;
		if (!scenario_did(r,
				  coll_comm_split(r->comm, rounds[i].out ? COLL_SPLIT_NOCOLOR : 5,
						  0, &part, NULL),
				  "coll_comm_split"))
			return;
		if (rounds[i].out != (part == NULL))
			scenario_fail(r, "%s colour came communicator %p",
				      rounds[i].out ? "without" : "with", (void *)part);
		else if (part && !scenario_expect(r, part, rounds[i].nranks, rounds[i].rank))
			return;
	}
	scenario_works(r);
}

/* ------------------------------------------------------------------------------ dup -- */

/* A sum of ones on the first communicator and a sum of twos on the second, in the order of the rank. */
static int comm_sums(struct scenario_rank *r, const coll_comm_t *comm, int32_t *const *x)
{
	int good = 1;

	for (int i = 0; i < 2 && good; i++) {
		const int which = (i + r->rank) % 2;

		scenario_set(r, x[which], which + 1);
		good = scenario_sum(r, comm[which], x[which]);
	}
	return good;
}

static int comm_summed(struct scenario_rank *r, const coll_comm_t *comm, int32_t *const *x)
{
	const int first = (r->rank + 1) % 2;
	int32_t sum[2];

	if (!scenario_did(r, coll_sync(comm[first]), "coll_sync") ||
	    !scenario_did(r, coll_sync(comm[1 - first]), "coll_sync"))
		return 0;
	sum[0] = scenario_get(r, x[0]);
	sum[1] = scenario_get(r, x[1]);
	return (sum[0] == r->nranks && sum[1] == 2 * r->nranks) ||
	       scenario_fail(r, "the sums are %d and %d", sum[0], sum[1]);
}

static void comm_twice(struct scenario_rank *r, int group)
{
	int32_t *const x[2] = {scenario_buffer(r, sizeof(int32_t)),
			       scenario_buffer(r, sizeof(int32_t))};
	coll_comm_t comm[2] = {r->comm, NULL};
	int good = scenario_did(r, coll_comm_dup(r->comm, &comm[1]), "coll_comm_dup");

	for (int round = 0; round < 20 && good; round++) {
		if (group)
			good = scenario_did(r, coll_group_start(), "coll_group_start");
		good = good && comm_sums(r, comm, x);
		if (group)
			good = scenario_did(r, coll_group_end(), "coll_group_end") && good;
		good = good && comm_summed(r, comm, x);
	}
	if (comm[1])
		scenario_expect(r, comm[1], r->nranks, r->rank);
}

void scenario_dup(struct scenario_rank *r)
{
	comm_twice(r, 0);
}

void scenario_two_comms(struct scenario_rank *r)
{
	comm_twice(r, 1);
}

void scenario_dup_of_dup(struct scenario_rank *r)
{
	coll_comm_t one, two;

	if (!scenario_did(r, coll_comm_dup(r->comm, &one), "coll_comm_dup"))
		return;
	if (scenario_did(r, coll_comm_dup(one, &two), "coll_comm_dup of a duplicate") &&
	    scenario_expect(r, one, r->nranks, r->rank) &&
	    scenario_expect(r, two, r->nranks, r->rank))
		scenario_works(r);
}
