/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd_test.c - who has had the processors in long yields: the ranks, which are threads of this process, or others.  The processor
 * time is real; the test tells the time of day and how long the yields took.
 */
#include "fake_backend.h"

#include "base/clock.h"
#include "endpoint/wait_impl.h"

#include <time.h>

enum { MS = 1000, WORK_MS = 15, YIELDS = 4 };

static int64_t now = 1000 * MS;

static int64_t used_us(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

/* One yield, in which this process computes.  It takes as long as that takes on all processors of the rank, in percent. */
static int yield_is_ours(const struct rig *rig, int percent)
{
	const int cpus = bootstrap_peer(rig->context->bootstrap, 0)->cpus;
	const uint32_t look = rig->context->waits.crowd_looks ? crowd_begin(rig->context) : 0;
	int64_t begin, took;

	begin = used_us();
	while (used_us() - begin < (int64_t)WORK_MS * MS * cpus)
		;
	took = (used_us() - begin) * percent / 100 / cpus;
	now += took;
	return crowd_is_ours(rig->context, look, took, now);
}

/* So many yields, until there is a judgement.  Returns it. */
static int judgement(const struct rig *rig, int percent)
{
	int ours = 1;

	for (int i = 0; i < YIELDS && rig->context->waits.crowd_looks && ours; i++)
		ours = yield_is_ours(rig, percent);
	ok(!rig->context->waits.crowd_looks, "yields of 50 ms are enough for a judgement");
	return ours;
}

int main(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct context *context = rig->context;

	ok(yield_is_ours(rig, 100), "after the first yield nothing is known");
	ok(context->waits.crowd_looks, "so the next ones are looked at");
	ok(judgement(rig, 100), "the ranks alone have had the processors");
	now += 200 * MS;
	ok(yield_is_ours(rig, 1000), "so it is taken to be for a while");
	ok(!context->waits.crowd_looks, "without a look");
	now += 600 * MS;
	ok(yield_is_ours(rig, 100), "half a second later nothing is known");
	now += 5000 * MS;
	ok(judgement(rig, 110),
	   "neither idle time between yields nor 10 percent in them are another program");
	now += 600 * MS;
	ok(yield_is_ours(rig, 100), "again nothing is known");
	ok(!judgement(rig, 150), "somebody else has had a third of the time");
	now += 1900 * MS;
	ok(!yield_is_ours(rig, 100), "so it is taken to be for two seconds");
	now += 200 * MS;
	ok(yield_is_ours(rig, 100), "then nothing is known");
	ok(judgement(rig, 100), "and the ranks are alone again");
	rig_free(rig);
	return done_testing();
}
