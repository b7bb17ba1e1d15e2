/* SPDX-License-Identifier: BSD-3-Clause */
/* host_memory_test.c - which operation is the newest one of a communicator whose host memory has a sequence of its own. */
#include "api/host_memory.h"

#include "../lib/tap.h"

#include <stdlib.h>

/* Is the newest operation that of `comm` with this number? */
static void newest_is(const struct comm *comm, const struct comm *of, uint64_t number,
		      const char *what)
{
	const struct issued newest = host_memory_newest(comm);

	ok(newest.comm == of->handle && newest.number == number, "%s: %llu", what,
	   (unsigned long long)newest.number);
}

/* Two threads call on host memory; each gets its number there, and notes it once it has the lock here. */
static void test_note(void)
{
	static int handles[2];
	struct comm *comm = calloc(1, sizeof(*comm)), *host_comm = calloc(1, sizeof(*host_comm));

	if (!comm || !host_comm)
		bail_out("no memory");
	comm->host_comm = host_comm;
	comm->handle = (coll_comm_t)&handles[0];
	host_comm->handle = (coll_comm_t)&handles[1];
	comm->issued = 3;
	newest_is(comm, comm, 3, "no call on host memory");
	host_memory_note(comm, 6);
	host_memory_note(comm, 5);
	newest_is(comm, host_comm, 6, "the later call is noted first");
	comm->issued = 4;
	host_memory_note(comm, 5);
	newest_is(comm, comm, 4, "a call on device memory follows it");
	host_memory_note(comm, 7);
	newest_is(comm, host_comm, 7, "then one on host memory");
	free(comm);
	free(host_comm);
}

int main(void)
{
	test_note();
	return done_testing();
}
