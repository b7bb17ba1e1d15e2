/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_test.c - which operation is the newest one of a communicator with a lane for calls on host memory. */
#include "comm/lane.h"

#include "../lib/tap.h"

#include <stdlib.h>

/* Is the newest operation that of `lane` with this number? */
static void newest_is(const struct comm *comm, int lane, uint64_t number, const char *what)
{
	const struct issued newest = lane_newest(comm);

	ok(newest.lane == lane && newest.number == number, "%s: %llu", what,
	   (unsigned long long)newest.number);
}

/* Two threads call on host memory; each gets its number there, and notes it once it has the lock here. */
static void test_note(void)
{
	struct comm *comm = calloc(1, sizeof(*comm));
	struct lanes *lanes = calloc(1, sizeof(*lanes));

	if (!comm || !lanes)
		bail_out("no memory");
	comm->lanes = lanes;
	comm->issued = 3;
	newest_is(comm, LANE_FIRST, 3, "no call on host memory");
	lane_note_issued(comm, 6);
	lane_note_issued(comm, 5);
	newest_is(comm, LANE_HOST, 6, "the later call is noted first");
	comm->issued = 4;
	lane_note_issued(comm, 5);
	newest_is(comm, LANE_FIRST, 4, "a call on device memory follows it");
	lane_note_issued(comm, 7);
	newest_is(comm, LANE_HOST, 7, "then one on host memory");
	free(lanes);
	free(comm);
}

int main(void)
{
	test_note();
	return done_testing();
}
