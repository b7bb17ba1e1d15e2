/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.c - who has the processors of this host while a rank waits: the job's ranks alone, or other programs too.  The kernel counts
 * the processor time of each process, with all its threads; the ranks that may run on the processors of this rank have them alone if
 * their times grow as fast as that many processors can.
 */
#include "endpoint/wait_impl.h"

#include <stdlib.h>
#include <time.h>

enum {
	/* The kernel may count the time of a process that runs on another processor at its next tick, 1 to 10 ms later. */
	CROWD_LEAST_US = 50 * 1000,
	CROWD_MOST_US = 500 * 1000, /* an older look says nothing of the present */
	CROWD_AGAIN_US =
		2000 * 1000, /* so long other programs count as there: to find out costs yields */
	CROWD_PERCENT = 80   /* of the processors' time: the kernel's own work takes a part too */
};

struct crowd_process {
	clockid_t clock;
	int64_t used_us; /* at the last look; 0: the process was not there */
};

struct crowd {
	int n, cpus;
	int64_t seen_us;         /* the last look */
	int64_t others_until_us; /* other programs count as there until then */
	struct crowd_process process[];
};

/* May the process of the rank run on the processors of this rank, and no others? */
static int crowd_has(const struct context *context, int rank)
{
	const struct bootstrap_peer *own = bootstrap_peer(context->bootstrap, context->rank);
	const struct bootstrap_peer *peer = bootstrap_peer(context->bootstrap, rank);
	const uint8_t seen = COLL_SHARES_HOST | COLL_SHARES_PIDS;

	return peer->cpus == own->cpus && peer->first_cpu == own->first_cpu &&
	       (bootstrap_shares(context->bootstrap, context->rank, rank) & seen) == seen;
}

/* Adds a process, once. */
static void crowd_add(struct crowd *crowd, int pid)
{
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock))
		return;
	for (int i = 0; i < crowd->n; i++)
		if (crowd->process[i].clock == clock)
			return;
	crowd->process[crowd->n++].clock = clock;
}

static struct crowd *crowd_new(const struct context *context)
{
	struct crowd *crowd;
	int n = 0;

	for (int r = 0; r < context->nranks; r++)
		n += crowd_has(context, r);
	crowd = calloc(1, sizeof(*crowd) + (size_t)n * sizeof(*crowd->process));
	for (int r = 0; crowd && r < context->nranks; r++)
		if (crowd_has(context, r))
			crowd_add(crowd, bootstrap_peer(context->bootstrap, r)->pid);
	if (crowd)
		crowd->cpus = bootstrap_peer(context->bootstrap, context->rank)->cpus;
	return crowd;
}

/* Returns the processor time of the processes since the last look, of those that were there then. */
static int64_t crowd_look(struct crowd *crowd)
{
	struct timespec clock;
	int64_t sum = 0;

	for (int i = 0; i < crowd->n; i++) {
		struct crowd_process *p = &crowd->process[i];
		const int64_t before = p->used_us;

		p->used_us = 0;
		if (!clock_gettime(p->clock, &clock))
			p->used_us = (int64_t)clock.tv_sec * 1000000 + clock.tv_nsec / 1000;
		if (before && p->used_us > before)
			sum += p->used_us - before;
	}
	return sum;
}

int crowd_is_ours(struct context *context, int64_t now)
{
	struct crowd *crowd = context->waits.crowd;
	int64_t took, used;

	if (!crowd)
		crowd = context->waits.crowd = crowd_new(context);
	if (!crowd || now < crowd->others_until_us)
		return 0;
	took = now - crowd->seen_us;
	if (crowd->seen_us && took < CROWD_LEAST_US)
		return 1;
	used = crowd_look(crowd);
	crowd->seen_us = now;
	if (took > CROWD_MOST_US || used * 100 >= took * crowd->cpus * CROWD_PERCENT)
		return 1;
	crowd->others_until_us = now + CROWD_AGAIN_US;
	return 0;
}
