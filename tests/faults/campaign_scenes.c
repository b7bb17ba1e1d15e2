/* SPDX-License-Identifier: BSD-3-Clause */
/* campaign_scenes.c - the scenes in which a rank dies: each rank's part. */
#include "campaign.h"

void campaign_report(struct report *report, coll_result_t code)
{
	report->at = ranks_now();
	report->code = code;
	snprintf(report->text, sizeof(report->text), "%s", coll_get_last_error(NULL));
	atomic_store(&report->phase, PHASE_DONE);
}

int campaign_init(struct rank *r, struct trial *trial, struct report *report)
{
	coll_config_t config;
	coll_result_t code = COLL_SUCCESS;

	ranks_config(&config, r->user);
	config.init_timeout_ms = trial->init_timeout_ms;
	if (!r->comm) /* of threads coll_comm_init_all has made it */
		code = coll_comm_init_rank(&r->comm, NRANKS, trial->shared.id, r->rank, &config);
	if (code)
		campaign_report(report, code);
	else
		atomic_store(&report->phase, PHASE_MADE);
	return !code;
}

void campaign_looped(struct report *report)
{
	if (atomic_fetch_add(&report->rounds, 1) == 1)
		atomic_store(&report->phase, PHASE_LOOPING);
}

coll_result_t campaign_sums(struct rank *r, coll_comm_t comm, int nranks, struct report *report,
			    const _Atomic int *stop)
{
	int32_t x[SUMS], y[SUMS];

	for (int round = 0;; round++) {
		int32_t ends = stop && atomic_load(stop);
		coll_result_t code;

		for (int i = 0; i < SUMS; i++)
			x[i] = round + i;
		x[0] = ends;
		code = coll_allreduce(x, y, SUMS, COLL_INT32, COLL_SUM, comm, NULL);
		if (!code)
			code = coll_sync(comm);
		if (code)
			return code;
		for (int i = 1; i < SUMS; i++)
			if (y[i] != nranks * x[i] && !report->wrong[0])
				snprintf(report->wrong, RANKS_TEXT,
					 "rank %d, allreduce %d: element %d is %d, not %d", r->rank,
					 round, i, y[i], nranks * x[i]);
		campaign_looped(report);
		if (y[0])
			return COLL_SUCCESS;
	}
}

/* The survivors make a communicator without the victim and `others` ranks besides, and add in it. */
static void scene_shrink(struct rank *r, struct trial *trial, struct report *report, int others)
{
	const int32_t exclude[] = {trial->victim, trial->second};
	coll_comm_t rest = NULL;
	int32_t x = 1, y = 0;
	coll_result_t code = coll_comm_shrink(r->comm, exclude, 1 + others, &rest, NULL, 0);

	if (!code)
		code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, rest, NULL);
	if (!code)
		code = coll_sync(rest);
	if (code || y != NRANKS - 1 - others)
		snprintf(report->wrong, RANKS_TEXT, "rank %d, shrink afterwards: %d (%s), sum %d",
			 r->rank, code, coll_get_last_error(NULL), y);
	coll_comm_destroy(rest);
}

static void act_sums(struct rank *r, struct trial *trial, struct report *report)
{
	if (!campaign_init(r, trial, report))
		return;
	campaign_report(report, campaign_sums(r, r->comm, NRANKS, report, NULL));
}

static void act_survive(struct rank *r, struct trial *trial, struct report *report)
{
	act_sums(r, trial, report);
	if (r->comm)
		scene_shrink(r, trial, report, 0);
}

static coll_result_t scene_use(coll_comm_t comm, int nranks, struct report *report)
{
	int32_t x = 1, y = 0;
	coll_result_t code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL);

	if (!code)
		code = coll_sync(comm);
	if (!code && y != nranks)
		snprintf(report->wrong, RANKS_TEXT, "the sum is %d, not %d", y, nranks);
	return code;
}

/* Makes a communicator, adds in it and destroys it, until a call fails. */
static void scene_derive(struct rank *r, struct trial *trial, struct report *report, int split)
{
	coll_result_t code = COLL_SUCCESS;

	if (!campaign_init(r, trial, report))
		return;
	for (int i = 0; !code; i++) {
		coll_comm_t part = NULL;

		code = split ? coll_comm_split(r->comm, r->rank / 2, i % 3 * r->rank, &part, NULL)
			     : coll_comm_dup(r->comm, &part);
		if (!code)
			code = scene_use(part, split ? NRANKS / 2 : NRANKS, report);
		if (code)
			campaign_report(report, code);
		else
			campaign_looped(report);
		if (part)
			coll_comm_destroy(part);
	}
	scene_shrink(r, trial, report, 0);
}

static void act_split(struct rank *r, struct trial *trial, struct report *report)
{
	scene_derive(r, trial, report, 1);
}

static void act_dup(struct rank *r, struct trial *trial, struct report *report)
{
	scene_derive(r, trial, report, 0);
}

/* `second` leaves; the others shrink again and again without it, until the victim dies. */
static void act_shrink(struct rank *r, struct trial *trial, struct report *report)
{
	coll_result_t code = COLL_SUCCESS;

	if (!campaign_init(r, trial, report))
		return;
	if (r->rank == trial->second) {
		campaign_report(report, COLL_SUCCESS);
		atomic_fetch_add(&report->rounds, 2);
		return;
	}
	while (!code) {
		coll_comm_t rest = NULL;

		code = coll_comm_shrink(r->comm, &trial->second, 1, &rest, NULL, 0);
		if (!code)
			code = scene_use(rest, NRANKS - 1, report);
		if (code)
			campaign_report(report, code);
		else
			campaign_looped(report);
		if (rest)
			coll_comm_destroy(rest);
	}
	scene_shrink(r, trial, report, 1);
}

/* The time of a report is that of the return from destroy. */
static void act_destroy(struct rank *r, struct trial *trial, struct report *report)
{
	coll_result_t code = COLL_SUCCESS;

	if (!campaign_init(r, trial, report))
		return;
	for (int i = 0; i < 20 && !code;
	     i++) { /* long enough for the death to be aimed at the end */
		code = scene_use(r->comm, NRANKS, report);
		if (!code)
			campaign_looped(report);
	}
	code = coll_comm_destroy(r->comm);
	r->comm = NULL;
	campaign_report(report, code);
}

const struct scene campaign_scenes[] = {
	{.name = "kill", .act = act_sums, .phase = PHASE_LOOPING, .delay = 0.005, .limit_ms = 5000},
	{.name = "survive",
	 .act = act_survive,
	 .phase = PHASE_LOOPING,
	 .delay = 0.005,
	 .limit_ms = 5000},
	{.name = "split",
	 .act = act_split,
	 .phase = PHASE_LOOPING,
	 .delay = 0.02,
	 .limit_ms = 5000},
	{.name = "dup", .act = act_dup, .phase = PHASE_LOOPING, .delay = 0.02, .limit_ms = 5000},
	{.name = "shrink",
	 .act = act_shrink,
	 .phase = PHASE_LOOPING,
	 .delay = 0.02,
	 .limit_ms = 5000,
	 .one_leaves = 1},
	{.name = "init",
	 .act = act_sums,
	 .phase = PHASE_BEGUN,
	 .delay = 0.03,
	 .limit_ms = 9000,
	 .may_name_any = 1},
	{.name = "destroy",
	 .act = act_destroy,
	 .phase = PHASE_LOOPING,
	 .delay = 0.002,
	 .limit_ms = 9000,
	 .may_succeed = 1},
	{.name = "abort",
	 .act = act_sums,
	 .phase = PHASE_LOOPING,
	 .delay = 0.005,
	 .limit_ms = 5000,
	 .threads = 1},
	{.name = "lent",
	 .act = campaign_act_lent,
	 .phase = PHASE_LOOPING,
	 .delay = 0.005,
	 .limit_ms = 5000},
	{.name = "lent-dup",
	 .act = campaign_act_lent_dup,
	 .phase = PHASE_LOOPING,
	 .delay = 0.02,
	 .limit_ms = 5000},
	{.name = "lent-abort",
	 .act = campaign_act_lent_abort,
	 .phase = PHASE_LOOPING,
	 .delay = 0.005,
	 .limit_ms = 5000,
	 .threads = 1},
	{.name = NULL},
};
