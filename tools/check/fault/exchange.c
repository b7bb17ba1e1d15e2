/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.c - open when host->exchange fails, takes too long, or the host is aborted. */
#include <string.h>
#include <unistd.h>
#include "check/host/host.h"
#include "check/fault/fault.h"
#include "lib/tool.h"

enum { EXCHANGE_TIMEOUT_MS = 500, EXCHANGE_SLACK_MS = 5000, EXCHANGE_CALLS = 6 };

/*
 * Indexes into the case's numbers: exchanges that an undisturbed open makes; ranks that have finished; ranks that timed
 * out, on a busy machine, before they reached the wanted exchange.
 */
enum { EXCHANGE_NEEDED = 0, EXCHANGE_THROUGH = 1, EXCHANGE_EARLY = 2 };

/* Without an exchange, open cannot notice a failure of another rank. */
static const char exchange_none[] = "open makes no exchange with so many ranks";

/* Attempts to get a run in which no rank times out too early. */
enum { EXCHANGE_TRIES = 5 };

/* An error code needs a text. */
static void exchange_check_text(const struct check_ep *ep)
{
	if (!memchr(ep->err.text, 0, sizeof(ep->err.text)) || !ep->err.text[0])
		check_fail(ep->c, "rank %d: open returned %d but filled no text in *err", ep->rank,
			   ep->code);
	else if (ep->err.code != ep->code)
		check_fail(ep->c, "rank %d: open returned %d but err->code is %d", ep->rank,
			   ep->code, ep->err.code);
}

/* Opens with the endpoint's open mode within its timeout, and closes if open succeeded.  The result is in ep->code. */
static void exchange_open(struct check_ep *ep)
{
	int64_t begin = tool_now_ms(), took;

	ep->open_mode.timeout_ms = EXCHANGE_TIMEOUT_MS;
	check_ep_open(ep);
	took = tool_now_ms() - begin;
	if (took > EXCHANGE_TIMEOUT_MS + EXCHANGE_SLACK_MS)
		check_fail(ep->c, "rank %d: open with timeout_ms %d took %lld ms", ep->rank,
			   EXCHANGE_TIMEOUT_MS, (long long)took);
	check_close(ep, 0);
}

static void exchange_count_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	if (!check_open(ep)) {
		check_barrier(c, rank, &ep->step);
		check_close(ep, 0);
	}
	if (rank == 0)
		atomic_store(&c->shared->number[EXCHANGE_NEEDED], (long long)ep->exchanges);
	check_ep_free(ep);
}

/* ------------------------------------------------------------------ failures -- */

/* The exchange of a run that fails, and the ranks on which it does. */
struct exchange_plan {
	int call;
	/* 1: only rank 0's exchange fails, and all other ranks time out; 0: every rank's exchange fails */
	int one;
	unsigned step;
};

static void exchange_fail_rank(struct check_case *c, int rank)
{
	const struct exchange_plan *plan = c->user;
	struct check_ep *ep = check_ep_new(c, rank, 0);

	ep->step = plan->step;
	if (!plan->one || rank == 0) {
		ep->open_mode.fail_exchange = plan->call;
		ep->open_mode.fail_code = COLL_ERR_REMOTE;
		ep->open_mode.fail_after = !plan->one;
	}
	exchange_open(ep);
	if (!ep->exchanges)
		check_skip(c, "%s", exchange_none);
	else if (!ep->code)
		check_fail(c, "rank %d: open succeeded although its exchange %d failed", rank,
			   plan->call);
	else if ((int)ep->exchanges < plan->call)
		atomic_fetch_add(&c->shared->number[EXCHANGE_EARLY], 1);
	check_ep_free(ep);
}

static void exchange_fail_call(struct check_case *c, struct exchange_plan *plan)
{
	atomic_llong *early = &c->shared->number[EXCHANGE_EARLY];
	int again = EXCHANGE_TRIES;

	do {
		atomic_store(early, 0);
		check_ranks(c, exchange_fail_rank);
		plan->step += CHECK_STEPS / 2 / EXCHANGE_CALLS / EXCHANGE_TRIES;
	} while (atomic_load(early) && --again);
}

static void exchange_fail(struct check_case *c, int one)
{
	struct exchange_plan plan = {.one = one, .step = CHECK_STEPS / 2};
	int needed;

	check_ranks(c, exchange_count_rank);
	needed = (int)atomic_load(&c->shared->number[EXCHANGE_NEEDED]);
	if (!needed)
		check_skip(c, "%s", exchange_none);
	c->user = &plan;
	for (plan.call = 1; plan.call <= needed && plan.call <= EXCHANGE_CALLS; plan.call++)
		exchange_fail_call(c, &plan);
	c->user = NULL;
}

static void exchange_fails(struct check_case *c)
{
	exchange_fail(c, 0);
}

static void exchange_missing(struct check_case *c)
{
	exchange_fail(c, 1);
}

static void exchange_text_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	ep->open_mode.fail_exchange = 1;
	ep->open_mode.fail_code = COLL_ERR_REMOTE;
	ep->open_mode.fail_after = 1;
	ep->open_mode.timeout_ms = EXCHANGE_TIMEOUT_MS;
	if (check_ep_open(ep))
		exchange_check_text(ep);
	else if (!ep->exchanges)
		check_skip(c, "%s", exchange_none);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void exchange_text(struct check_case *c)
{
	check_ranks(c, exchange_text_rank);
}

/* -------------------------------------------------------- the second try succeeds -- */

static void exchange_then_open(struct check_case *c)
{
	struct exchange_plan plan = {.call = 1, .step = 0};

	c->user = &plan;
	check_ranks(c, exchange_fail_rank);
	c->user = NULL;
	if (check_failed(c) || c->processes)
		return;
	for (int step = 0; step < CHECK_STEPS; step++) {
		atomic_store(&c->shared->entered[step], 0);
		atomic_store(&c->shared->gave_up[step], 0);
	}
	check_ranks(c, exchange_count_rank);
}

/* -------------------------------------------------------- a rank that does not open -- */

/* The last rank never opens. */
static void exchange_absent_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	if (rank < c->nranks - 1) {
		exchange_open(ep);
		if (!ep->exchanges)
			check_skip(c, "%s", exchange_none);
		else if (!ep->code)
			check_fail(c, "rank %d: open succeeded although rank %d never came", rank,
				   c->nranks - 1);
	}
	check_ep_free(ep);
}

static void exchange_absent(struct check_case *c)
{
	check_ranks(c, exchange_absent_rank);
}

/* ------------------------------------------------------------------ abort -- */

/* The last rank stays in its last exchange.  The other ranks may wait for it in open until the host aborts them. */
static void exchange_abort_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	atomic_llong *through = &c->shared->number[EXCHANGE_THROUGH];
	int64_t begin = tool_now_ms(), deadline;

	ep->step = CHECK_STEPS / 2;
	ep->open_mode.timeout_ms = 3 * c->options->timeout_ms;
	if (rank == c->nranks - 1) {
		ep->open_mode.block_exchange =
			(int)atomic_load(&c->shared->number[EXCHANGE_NEEDED]);
		ep->open_mode.timeout_ms = EXCHANGE_TIMEOUT_MS;
	} else {
		atomic_store(&ep->aborted, 1);
	}
	check_ep_open(ep);
	if (rank < c->nranks - 1 && tool_now_ms() - begin > EXCHANGE_SLACK_MS)
		check_fail(c, "rank %d: open took %lld ms although host->aborted says 1", rank,
			   (long long)(tool_now_ms() - begin));
	if (atomic_fetch_add(through, 1) + 1 == c->nranks - 1)
		atomic_store(&c->shared->number[CHECK_RELEASED], 1);
	deadline = tool_now_ms() + c->timeout_ms;
	while (atomic_load(through) < c->nranks && tool_now_ms() < deadline)
		usleep(1000);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void exchange_abort(struct check_case *c)
{
	check_ranks(c, exchange_count_rank);
	if (!atomic_load(&c->shared->number[EXCHANGE_NEEDED]))
		check_skip(c, "%s", exchange_none);
	else
		check_ranks(c, exchange_abort_rank);
}

const struct check check_exchange_checks[] = {
	{.name = "exchange-fails",
	 .says = "open fails when its exchange fails, and close accepts the half-made endpoint",
	 .promise = "coll_host_t.exchange",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .run = exchange_fails},
	{.name = "exchange-missing",
	 .rests = "exchange-fails",
	 .says = "open fails in time when a rank does not take part in an exchange",
	 .promise = "Blocking",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = exchange_missing},
	{.name = "open-text",
	 .rests = "exchange-fails",
	 .says = "open fills code and text of *err when it fails",
	 .promise = "Results",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_THREADS,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = exchange_text},
	{.name = "open-after-failure",
	 .rests = "exchange-fails",
	 .says = "open succeeds after an open that failed",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_THREADS,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = exchange_then_open},
	{.name = "open-absent",
	 .rests = "exchange-fails",
	 .says = "open fails in time when a rank never comes",
	 .promise = "Blocking",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = exchange_absent},
	{.name = "open-aborted",
	 .says = "open ends when the host is aborted",
	 .promise = "coll_host_t.aborted",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = exchange_abort},
	{.name = NULL},
};
