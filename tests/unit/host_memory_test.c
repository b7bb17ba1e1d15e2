/* SPDX-License-Identifier: BSD-3-Clause */
/* host_memory_test.c - which operation is the newest one of a communicator with a lane for calls on host memory. */
#include "api/host_memory.h"

#include "../lib/tap.h"

#include <stdlib.h>

/* Is the newest operation that of `lane` with this number? */
static void newest_is(const struct comm *comm, int lane, uint64_t number, const char *what)
{
	const struct issued newest = host_memory_newest(comm);

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
	host_memory_note(comm, 6);
	host_memory_note(comm, 5);
	newest_is(comm, LANE_HOST, 6, "the later call is noted first");
	comm->issued = 4;
	host_memory_note(comm, 5);
	newest_is(comm, LANE_FIRST, 4, "a call on device memory follows it");
	host_memory_note(comm, 7);
	newest_is(comm, LANE_HOST, 7, "then one on host memory");
	free(lanes);
	free(comm);
}

int main(void)
{
	test_note();
	return done_testing();
}
