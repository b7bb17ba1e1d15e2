/* SPDX-License-Identifier: BSD-3-Clause */
/* launched.c - makes the processes of a launcher ranks: relays their exchanges and agrees on results. */
#include "check/kit/launched.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/tool.h"

/* Ends the process after a failure: without the other ranks no result holds for all. */
static void launched_must(coll_result_t code)
{
	if (!code)
		return;
	fprintf(stderr, "coll check: the ranks have lost each other: %s\n",
		coll_get_last_error(NULL));
	exit(1);
}

/*
 * Returns the timeout: a rank waits until all ranks have ended a check that hangs.  The bounds are the library's default
 * and the longest timeout that it takes.
 */
static int64_t launched_timeout(int64_t check_ms)
{
	const int64_t least = 300000, most = 31622400000;
	const int64_t ms = 2 * check_ms;

	return ms < least ? least : ms > most ? most : ms;
}

int check_launched_begin(struct check_launch *launch, int64_t check_ms)
{
	/* A rank waits for its peers as long as their checks take. */
	static const char *const options[] = {"stall_after=0", NULL};
	coll_config_t config;

	if (coll_get_launch_info(&launch->rank, &launch->nranks, NULL, NULL))
		return tool_usage("check", "--launched: %s", coll_get_last_error(NULL));
	if (launch->nranks < 2)
		return tool_usage("check",
				  "--launched found no launcher, or one process only: start the "
				  "ranks with mpirun, srun or coll run, or leave --launched out");
	if (launch->nranks > CHECK_RANKS)
		return tool_usage("check", "--launched takes at most %d ranks, not %d", CHECK_RANKS,
				  (int)launch->nranks);
	coll_config_init(&config, sizeof(config));
	config.backend = "tcp";
	config.options = options;
	config.timeout_ms = launched_timeout(check_ms);
	if (!coll_comm_init_env(&launch->comm, &config))
		return 0;
	fprintf(stderr, "coll check: the launched ranks cannot meet: %s\n",
		coll_get_last_error(NULL));
	return 1;
}

/* Waits for all ranks: a launcher may end all processes when the first process ends, and rank 0 must report before. */
void check_launched_end(struct check_launch *launch)
{
	fflush(stdout);
	launched_must(coll_barrier(launch->comm));
	launched_must(coll_sync(launch->comm));
	coll_comm_destroy(launch->comm);
}

const char *check_launched_lacks(const struct check *check, const struct check_options *options,
				 char *text, size_t size)
{
	const struct check_launch *launch = options->launch;

	if (check->ways == CHECK_ALONE)
		return NULL;
	if (check->group != CHECK_API || !(check->ways & CHECK_PROCESSES) ||
	    check->needs & CHECK_COUNTERS)
		return "this check starts its ranks itself: run coll check without --launched too";
	if (options->no_fork && !(check->ways & CHECK_THREADS))
		return "a rank dies in this check: run it without --no-fork too";
	if (launch->nranks >= check->ranks_min &&
	    (!check->ranks_max || launch->nranks <= check->ranks_max))
		return NULL;
	snprintf(text, size, "%s %d ranks, not %d",
		 launch->nranks < check->ranks_min ? "needs at least" : "takes at most",
		 launch->nranks < check->ranks_min ? check->ranks_min : check->ranks_max,
		 (int)launch->nranks);
	return text;
}

/* ------------------------------------------------------------------ exchanges -- */

static void relay_begin(struct launched_relay *relay, int ended)
{
	struct check_shared *shared = relay->c->shared;
	struct launched_part *own = &relay->own;

	memset(own, 0, sizeof(*own));
	own->ended = ended;
	own->failed = atomic_load(&shared->failed) == 2;
	memcpy(own->text, shared->text, sizeof(own->text));
	if (!ended)
		memcpy(own->record, shared->contributed[relay->step][relay->launch->rank],
		       sizeof(own->record));
	launched_must(coll_allgather(own, relay->all, sizeof(*own), COLL_UINT8, relay->launch->comm,
				     NULL));
	launched_must(coll_get_request(relay->launch->comm, &relay->request));
}

/* Gives the child the records of all ranks, or the news that the check has failed elsewhere. */
static void relay_take(struct launched_relay *relay)
{
	struct check_shared *shared = relay->c->shared;
	const int n = relay->launch->nranks;
	int ended = 0;

	for (int r = 0; r < n; r++) {
		ended += relay->all[r].ended;
		if (relay->all[r].failed && !check_failed(relay->c))
			check_fail(relay->c, "%.*s", CHECK_TEXT - 1, relay->all[r].text);
	}
	relay->broken |= ended > 0;
	relay->over = ended == n;
	if (relay->broken)
		return;
	for (int r = 0; r < n; r++)
		memcpy(shared->contributed[relay->step][r], relay->all[r].record, CHECK_RECORD);
	atomic_store(&shared->entered[relay->step++], (unsigned)n);
}

void check_relay(struct launched_relay *relay, int ended)
{
	int entered = !relay->broken && relay->step < CHECK_STEPS &&
		      atomic_load(&relay->c->shared->entered[relay->step]);
	int32_t done = 0;

	if (!relay->request && (ended || entered))
		relay_begin(relay, ended);
	if (!relay->request)
		return;
	launched_must(coll_test(relay->request, &done));
	if (!done)
		return;
	launched_must(coll_request_free(relay->request));
	relay->request = NULL;
	relay_take(relay);
}

/* -------------------------------------------------------------------- results -- */

/* Returns the common result: a failure on any rank, else a pass on any rank. */
static const struct check_result *launched_worst(const struct check_result *all, int n, int *rank)
{
	static const enum check_verdict order[] = {CHECK_NOT_PASSED, CHECK_PASSED, CHECK_SKIPPED};

	for (int i = 0; i < 3; i++)
		for (*rank = 0; *rank < n; (*rank)++)
			if (all[*rank].verdict == order[i])
				return &all[*rank];
	*rank = 0;
	return all;
}

void check_launched_agree(const struct check_launch *launch, struct check_result *result)
{
	struct check_result *all = calloc((size_t)launch->nranks, sizeof(*all));
	const struct check_result *worst;
	int rank;

	if (!all) {
		fprintf(stderr, "coll check: no memory\n");
		exit(1);
	}
	launched_must(coll_allgather(result, all, sizeof(*result), COLL_UINT8, launch->comm, NULL));
	launched_must(coll_sync(launch->comm));
	worst = launched_worst(all, launch->nranks, &rank);
	*result = *worst;
	result->calls = 0;
	for (int r = 0; r < launch->nranks; r++) {
		result->calls += all[r].calls;
		result->stuck |= all[r].stuck;
	}
	if (result->verdict == CHECK_NOT_PASSED && !strstr(result->text, "rank "))
		snprintf(result->text, sizeof(result->text), "rank %d: %.*s", rank, CHECK_TEXT,
			 worst->text);
	free(all);
}
