/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd_test.c - who has had the processors: the ranks, which are threads of this process, or others.  The processor time is real;
 * the test tells the time of day.
 */
#include "fake_backend.h"

#include "base/clock.h"
#include "endpoint/wait_impl.h"

#include <time.h>

enum { MS = 1000, WORK_MS = 55 };

static int64_t used_us(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

/* Computes.  Returns the time that it takes if this process has all processors of the rank. */
static int64_t work(const struct rig *rig)
{
	const int cpus = bootstrap_peer(rig->context->bootstrap, 0)->cpus;
	const int64_t begin = used_us();

	while (used_us() - begin < (int64_t)WORK_MS * MS * cpus)
		;
	return (used_us() - begin) / cpus;
}

int main(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct context *context = rig->context;
	int64_t now = 1000 * MS;

	ok(crowd_is_ours(context, now), "at the first look nothing is known");
	now += work(rig);
	ok(crowd_is_ours(context, now), "the ranks alone have had the processors");
	ok(crowd_is_ours(context, now + 10 * MS), "ten milliseconds later nothing new is known");
	now += 100 * MS;
	ok(!crowd_is_ours(context, now), "somebody else has had them");
	now += work(rig);
	ok(!crowd_is_ours(context, now), "so it is taken to be for a while");
	now += 2000 * MS;
	ok(crowd_is_ours(context, now), "two seconds later nothing is known again");
	now += work(rig) * 10 / 7;
	ok(!crowd_is_ours(context, now), "somebody else has had 30 percent");
	now += 2001 * MS;
	ok(crowd_is_ours(context, now), "again nothing is known");
	now += work(rig) * 10 / 9;
	ok(crowd_is_ours(context, now), "10 percent are no program: the ranks go on as if alone");
	now += 600 * MS;
	ok(crowd_is_ours(context, now), "a look long ago says nothing of the present");
	rig_free(rig);
	return done_testing();
}
