/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.c - who has the processors of this host while a rank yields: the job's ranks alone, or other programs too.  The kernel counts
 * the processor time of each process, with all its threads; the ranks that may run on the processors of this rank have them alone if
 * their times grow as fast as that many processors can.  Only yields count that let others run for long: beside them a processor may
 * be idle.
 */
#include "endpoint/wait_impl.h"

#include <stdlib.h>
#include <time.h>

enum {
	/* The kernel may count the time of a process that runs on another processor at its next tick, 1 to 10 ms later. */
	CROWD_LEAST_US = 20 * 1000,
	CROWD_OURS_US = 500 * 1000, /* so long the ranks count as alone */
	CROWD_OTHERS_US =
		2000 * 1000, /* so long other programs count as there: to find out costs yields */
	CROWD_LOOKS = 8, /* yields after a long one: the next long one is likely to be among them */
	CROWD_PERCENT = 80 /* of the processors' time: the kernel's own work takes a part too */
};

struct crowd_process {
	clockid_t clock;
	int64_t used_us; /* when the yield began; 0: the process was not there */
};

struct crowd {
	int n, cpus;
	uint32_t looks;          /* calls of crowd_begin */
	int64_t took_us;         /* yields since the last judgement */
	int64_t used_us;         /* and the processes' time in these */
	int64_t ours_until_us;   /* the ranks count as alone until then, */
	int64_t others_until_us; /* or other programs as there */
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

/* Reads the clocks.  Returns how much they have grown, of the processes that were there before. */
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

uint32_t crowd_begin(struct context *context)
{
	struct crowd *crowd = context->waits.crowd;

	(void)crowd_look(crowd);
	crowd->looks += crowd->looks == UINT32_MAX ? 2 : 1;
	return crowd->looks;
}

/* Judges by the yields since the last judgement. */
static int crowd_judge(struct crowd *crowd, int64_t now)
{
	const int ours = crowd->used_us * 100 >= crowd->took_us * crowd->cpus * CROWD_PERCENT;

	crowd->took_us = crowd->used_us = 0;
	if (ours)
		crowd->ours_until_us = now + CROWD_OURS_US;
	else
		crowd->others_until_us = now + CROWD_OTHERS_US;
	return ours;
}

int crowd_is_ours(struct context *context, uint32_t look, int64_t took, int64_t now)
{
	struct crowd *crowd = context->waits.crowd;

	if (!crowd)
		crowd = context->waits.crowd = crowd_new(context);
	if (!crowd)
		return 0;
	/* Another thread may have begun a yield meanwhile. */
	if (look && look == crowd->looks) {
		crowd->used_us += crowd_look(crowd);
		crowd->took_us += took;
	}
	context->waits.crowd_looks = 0;
	if (now < crowd->ours_until_us || now < crowd->others_until_us)
		return now < crowd->ours_until_us;
	context->waits.crowd_looks = CROWD_LOOKS;
	if (crowd->took_us < CROWD_LEAST_US)
		return 1;
	context->waits.crowd_looks = 0;
	return crowd_judge(crowd, now);
}
