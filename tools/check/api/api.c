/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.c - ranks with communicators over the plugin under test, for the checks that go through
 * coll.h.
 */
#include "check/api/api.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "lib/tool.h"

/* Waits that must time out take the timeout of the check divided by this number. */
enum { API_IMPATIENCE = 10 };

/* ------------------------------------------------------------------ speaking -- */

int api_fail(struct api_rank *r, const char *fmt, ...)
{
	char text[CHECK_TEXT];
	va_list args;

	/* A rank that skips because the plugin lacks a call leaves the other ranks in that call. */
	if (api_may_lack(r) && check_skipped(r->c))
		return 0;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check_fail(r->c, "rank %d of %d: %s", r->slot, r->c->nranks, text);
	return 0;
}

int api_may_lack(const struct api_rank *r)
{
	return r->c->options->traits.bare;
}

int api_pass_over(struct api_rank *r, coll_result_t code)
{
	coll_result_t error;

	if (code != COLL_ERR_UNSUPPORTED || !api_may_lack(r))
		return 0;
	snprintf(r->lacks, sizeof(r->lacks), "%s", coll_get_last_error(NULL));
	/* An engine may detect an error late; the communicator then fails on all ranks. */
	if (coll_comm_get_async_error(r->comm, &error) || !error)
		return 1;
	coll_comm_destroy(r->comm);
	r->comm = NULL;
	return api_join(r, &r->comm);
}

/* Checks that a call left the calling thread's current context as it was. */
static int api_same_context(struct api_rank *r, const char *what)
{
	if (r->device < 0 || memory_context() == r->context)
		return 1;
	return api_fail(r, "%s changed the thread's current CUDA context", what);
}

int api_did(struct api_rank *r, coll_result_t code, const char *what)
{
	char text[CHECK_TEXT];

	if (code == COLL_SUCCESS)
		return api_same_context(r, what);
	snprintf(text, sizeof(text), "%s", coll_get_last_error(NULL));
	if (code == COLL_ERR_UNSUPPORTED && api_may_lack(r)) {
		check_skip(r->c, "%s: %s", what, text);
		return 0;
	}
	return api_fail(r, "%s: error %d: %s", what, code, text);
}

int api_answered(struct api_rank *r, coll_result_t code, coll_result_t wanted, const char *word,
		 const char *what)
{
	const char *text = coll_get_last_error(NULL);

	if (code == wanted && (!word || strstr(text, word)))
		return 1;
	return api_fail(r, "%s: expected error %d%s%s%s, got %d: %s", what, wanted,
			word ? " with '" : "", word ? word : "", word ? "'" : "", code,
			code ? text : "");
}

/* ------------------------------------------------------------------ barrier -- */

int api_kit_barrier(struct api_rank *r)
{
	return !check_barrier(r->c, r->slot, &r->step);
}

int api_await(struct api_rank *r, int index, long long value)
{
	int64_t deadline = tool_now_ms() + r->c->timeout_ms;

	while (atomic_load(&r->c->shared->number[index]) < value) {
		if (check_failed(r->c))
			return 0;
		if (tool_now_ms() > deadline)
			return api_fail(r, "another rank did not reach the barrier in time");
		api_sleep_ms(1);
	}
	return 1;
}

void api_sleep_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

/* ------------------------------------------------------------------ communicators -- */

void api_configure(const struct api_rank *r, coll_config_t *config)
{
	const struct api_plan *plan = r->c->check->plan;

	coll_config_init(config, sizeof(*config));
	config->plugin_path = r->c->options->dir;
	config->backend = r->c->options->name;
	config->timeout_ms = plan->timeout_ms ? plan->timeout_ms : r->c->timeout_ms;
	/*
	 * A rank of a backend without transport notices the failure of a peer by its own timeout
	 * only.
	 */
	if (plan->flags & API_ROUGH && api_may_lack(r) && !plan->timeout_ms)
		config->timeout_ms /= API_IMPATIENCE;
	config->device = r->device;
	config->init_timeout_ms = r->c->timeout_ms;
	config->options = plan->options;
}

int api_join(struct api_rank *r, coll_comm_t *comm)
{
	char id[CHECK_RANKS][COLL_UNIQUE_ID_SIZE] = {{0}}, mine[COLL_UNIQUE_ID_SIZE] = {0};
	coll_config_t config;

	if (!r->rank && !api_did(r, coll_get_unique_id(mine, sizeof(mine)), "coll_get_unique_id"))
		return 0;
	if (check_exchange(r->c, r->slot, &r->step, mine, id, sizeof(mine), r->c->timeout_ms))
		return api_fail(r, "the other ranks did not come to fetch the id");
	api_configure(r, &config);
	check_slot(r->c, r->slot, "coll_comm_init_rank");
	return api_did(r, coll_comm_init_rank(comm, r->nranks, id[0], r->rank, &config),
		       "coll_comm_init_rank");
}

int api_join_all(struct api_rank *r, coll_comm_t *comms)
{
	int32_t device[CHECK_RANKS];
	coll_config_t config;

	if (check_few_devices(r->c)) {
		check_skip(r->c, "coll_comm_init_all needs a device for each rank");
		return 0;
	}
	for (int32_t i = 0; i < r->nranks; i++)
		device[i] = check_device(r->c, i);
	api_configure(r, &config);
	check_slot(r->c, r->slot, "coll_comm_init_all");
	return api_did(r,
		       coll_comm_init_all(comms, r->nranks, r->device < 0 ? NULL : device, &config),
		       "coll_comm_init_all");
}

int api_derive(struct api_rank *derived, const struct api_rank *r, coll_comm_t comm)
{
	*derived = *r;
	derived->comm = comm;
	return api_did(derived, coll_comm_count(comm, &derived->nranks), "coll_comm_count") &&
	       api_did(derived, coll_comm_user_rank(comm, &derived->rank), "coll_comm_user_rank");
}

int api_works(struct api_rank *r)
{
	int32_t *x = api_buffer(r, sizeof(*x)), all = (1 << r->nranks) - 1;

	*x = 1 << r->rank;
	if (!api_did(r, coll_allreduce(x, x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		     "coll_allreduce") ||
	    !api_did(r, coll_sync(r->comm), "coll_sync"))
		return 0;
	return *x == all ||
	       api_fail(r, "the sum of the ranks' powers of two is %d, not %d", *x, all);
}

/* ------------------------------------------------------------------ ranks -- */

static struct api_rank api_rank_of(struct check_case *c, int rank)
{
	int device = check_device(c, rank);

	return (struct api_rank){.rank = rank,
				 .nranks = c->nranks,
				 .slot = rank,
				 .c = c,
				 .device = device,
				 .memory = device < 0 || check_is_carried(c) ? MEMORY_HOST
									     : MEMORY_MANAGED};
}

/* ---------------------------------------------------------------- scenarios -- */

static void *api_scenario_buffer(struct scenario_rank *s, size_t bytes)
{
	return api_buffer(s->user, bytes);
}

static void api_scenario_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static int api_scenario_did(struct scenario_rank *s, coll_result_t code, const char *what)
{
	return api_did(s->user, code, what);
}

static int api_scenario_fail(struct scenario_rank *s, const char *text)
{
	return api_fail(s->user, "%s", text);
}

static void api_scenario(struct api_rank *r, scenario_fn scenario)
{
	enum { QUICK = 70001, LONGEST = (4 << 20) + 3 };
	static const struct scenario_frame frame = {api_scenario_buffer, api_scenario_copy,
						    api_scenario_did, api_scenario_fail};
	struct scenario_rank s = {.comm = r->comm,
				  .rank = r->rank,
				  .nranks = r->nranks,
				  .longest = r->c->quick ? QUICK : LONGEST,
				  .frame = &frame,
				  .user = r};

	scenario(&s);
}

/* ------------------------------------------------------------ beginning, end -- */

static void api_rank_end(struct api_rank *r)
{
	const struct api_plan *plan = r->c->check->plan;
	coll_result_t code;

	check_slot(r->c, r->slot, "coll_comm_destroy");
	code = coll_comm_destroy(r->comm);
	if (!(plan->flags & API_ROUGH))
		api_did(r, code, "coll_comm_destroy");
	check_slot(r->c, r->slot, NULL);
}

static void api_rank_run(struct check_case *c, int rank)
{
	const struct api_plan *plan = c->check->plan;
	coll_comm_t *comms = c->user;
	struct api_rank r = api_rank_of(c, rank);

	if (comms)
		r.comm = comms[rank];
	else if (!(plan->flags & API_NO_COMM) && !api_join(&r, &r.comm))
		return;
	check_slot(c, rank, NULL);
	api_arena_make(&r);
	if (plan->scenario)
		api_scenario(&r, plan->scenario);
	else
		plan->rank(&r);
	/* A rank that gave up may have left its group open. */
	while (coll_group_end() != COLL_ERR_INVALID_USAGE)
		continue;
	if (r.lacks[0] && !atomic_load(&c->shared->calls))
		check_skip(c, "%s", r.lacks);
	if (r.comm)
		api_rank_end(&r);
	api_arena_free(&r);
}

/* Runs a check.  Threads get their communicators from coll_comm_init_all or, if their number is odd, from a unique id. */
void api_run(struct check_case *c)
{
	const struct api_plan *plan = c->check->plan;
	struct api_rank r = api_rank_of(c, 0);
	coll_comm_t comms[CHECK_RANKS];

	if (!c->options->name[0]) {
		check_skip(c, "no backend has the name of this file: it must be coll_<name>.so");
		return;
	}
	if (!c->processes && c->nranks % 2 == 0 && !(plan->flags & API_NO_COMM)) {
		if (!api_join_all(&r, comms))
			return;
		c->user = comms;
	}
	check_ranks(c, api_rank_run);
}
