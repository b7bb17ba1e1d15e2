/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * campaign_lent.c - the scenes whose buffers lie in memory of coll_mem_alloc, which other ranks read in place.
 *
 * A rank whose call fails writes other bytes to its buffers and frees them, at once.  So a rank whose call succeeds nevertheless,
 * for a moment longer, shows by its sum whether it has read those bytes.
 */
#include "campaign.h"

enum { LENT = 65536 /* int32: 256 KiB */, AFTERWARDS = 3, POISON = 0x5a5a5a5a };

struct lent {
	int32_t *x, *y;
	int failed; /* no further calls may use them */
};

static void lent_wrong(const struct rank *r, struct report *report, const char *what, int at,
		       int32_t is)
{
	if (!report->wrong[0])
		snprintf(report->wrong, RANKS_TEXT, "rank %d, %s: element %d is %d", r->rank, what,
			 at, is);
}

static int lent_alloc(const struct rank *r, coll_comm_t comm, struct report *report,
		      struct lent *lent)
{
	void *x = NULL, *y = NULL;

	if (coll_mem_alloc(comm, LENT * sizeof(*lent->x), &x) ||
	    coll_mem_alloc(comm, LENT * sizeof(*lent->y), &y)) {
		snprintf(report->wrong, RANKS_TEXT, "rank %d, coll_mem_alloc: %s", r->rank,
			 coll_get_last_error(NULL));
		coll_mem_free(x);
		return 0;
	}
	*lent = (struct lent){.x = x, .y = y};
	return 1;
}

/* One allreduce, whose sum is compared. */
static coll_result_t lent_sum(const struct rank *r, coll_comm_t comm, int nranks, int round,
			      struct report *report, const struct lent *lent)
{
	coll_result_t code;

	for (int i = 0; i < LENT; i++)
		lent->x[i] = round + i;
	code = coll_allreduce(lent->x, lent->y, LENT, COLL_INT32, COLL_SUM, comm, NULL);
	if (!code)
		code = coll_sync(comm);
	for (int i = 0; !code && i < LENT; i++)
		if (lent->y[i] != nranks * (round + i)) {
			lent_wrong(r, report, "a sum", i, lent->y[i]);
			break;
		}
	return code;
}

static void lent_poison(const struct lent *lent)
{
	for (int i = 0; i < LENT; i++)
		lent->x[i] = lent->y[i] = POISON;
}

/* After a failure: the library and the other ranks leave the buffers alone. */
static void lent_free(const struct rank *r, struct report *report, const struct lent *lent)
{
	ranks_sleep(1e-4 * (r->rank + 1));
	for (int i = 0; i < LENT; i++) {
		if (lent->x[i] != POISON)
			lent_wrong(r, report, "its input after the error", i, lent->x[i]);
		if (lent->y[i] != POISON)
			lent_wrong(r, report, "its result after the error", i, lent->y[i]);
	}
	coll_mem_free(lent->x);
	coll_mem_free(lent->y);
}

/* Sums until one fails. */
static void lent_loop(struct rank *r, struct report *report)
{
	struct lent lent;
	coll_result_t code = COLL_SUCCESS;

	if (!lent_alloc(r, r->comm, report, &lent))
		return;
	for (int round = 0; !code; round++) {
		code = lent_sum(r, r->comm, NRANKS, round, report, &lent);
		if (!code)
			campaign_looped(report);
	}
	lent_poison(&lent);
	campaign_report(report, code);
	lent_free(r, report, &lent);
}

/* The survivors add in new memory, which the system is likely to put where the old memory was. */
static void lent_survive(const struct rank *r, struct trial *trial, struct report *report)
{
	coll_comm_t rest = NULL;
	struct lent lent;
	coll_result_t code = coll_comm_shrink(r->comm, &trial->victim, 1, &rest, NULL, 0);

	for (int i = 0; !code && i < AFTERWARDS && lent_alloc(r, rest, report, &lent); i++) {
		code = lent_sum(r, rest, NRANKS - 1, i, report, &lent);
		lent_poison(&lent);
		lent_free(r, report, &lent);
	}
	if (code)
		snprintf(report->wrong, RANKS_TEXT, "rank %d, after the shrink: %d (%s)", r->rank,
			 code, coll_get_last_error(NULL));
	coll_comm_destroy(rest);
}

void campaign_act_lent(struct rank *r, struct trial *trial, struct report *report)
{
	if (!campaign_init(r, trial, report))
		return;
	lent_loop(r, report);
	lent_survive(r, trial, report);
}

void campaign_act_lent_abort(struct rank *r, struct trial *trial, struct report *report)
{
	if (campaign_init(r, trial, report))
		lent_loop(r, report);
}

/* The ranks sum in a communicator; one rank aborts the communicator during a sum. */
static void lent_use(const struct rank *r, coll_comm_t part, int round, struct report *report,
		     const struct lent *lent)
{
	coll_result_t code = COLL_SUCCESS;
	const int last = round % 3;

	for (int i = 0; !code && i < last; i++)
		code = lent_sum(r, part, NRANKS, round + i, report, lent);
	if (code || r->rank != round % NRANKS) {
		while (!code)
			code = lent_sum(r, part, NRANKS, round + last, report, lent);
		lent_poison(lent);
		return;
	}
	for (int i = 0; i < LENT; i++)
		lent->x[i] = round + last + i;
	(void)coll_allreduce(lent->x, lent->y, LENT, COLL_INT32, COLL_SUM, part, NULL);
	(void)coll_comm_abort(part);
	lent_poison(lent);
}

/* Communicators that are aborted, beside one that goes on until the victim dies. */
void campaign_act_lent_dup(struct rank *r, struct trial *trial, struct report *report)
{
	coll_result_t code = COLL_SUCCESS;

	if (!campaign_init(r, trial, report))
		return;
	for (int round = 0; !code; round++) {
		coll_comm_t part = NULL;
		struct lent lent;
		int32_t one = 1, sum = 0;

		if (!lent_alloc(r, r->comm, report, &lent))
			return;
		code = coll_comm_dup(r->comm, &part);
		if (!code)
			lent_use(r, part, round, report, &lent);
		else
			lent_poison(&lent);
		lent_free(r, report, &lent);
		if (!code)
			code = coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
		if (!code)
			code = coll_sync(r->comm);
		if (!code && sum != NRANKS)
			lent_wrong(r, report, "the number of ranks", 0, sum);
		if (code)
			campaign_report(report, code);
		else
			campaign_looped(report);
		coll_comm_destroy(part);
	}
	lent_survive(r, trial, report);
}
