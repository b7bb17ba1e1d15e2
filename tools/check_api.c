/* SPDX-License-Identifier: BSD-3-Clause */
/* check_api.c - ranks with communicators over the plugin under test, for the checks of coll.h. */
#include "check_api.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "tool.h"

/* ------------------------------------------------------------------ speaking -- */

int api_fail(struct api_rank *r, const char *fmt, ...)
{
	char text[CHECK_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check_fail(r->c, "rank %d of %d: %s", r->slot, r->c->nranks, text);
	return 0;
}

static int api_find_transport(const struct api_rank *r)
{
	coll_backend_info_t backend = {.size = sizeof(backend)};
	coll_config_t config;
	coll_info_t info;
	int has = -1;

	api_configure(r, &config);
	if (coll_info_create(&config, &info))
		return 1;
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (!coll_info_backend(info, i, &backend) &&
		    !strcmp(backend.name, r->c->options->name) &&
		    backend.capabilities & COLL_CAP_TRANSPORT)
			has = 1;
	coll_info_destroy(info);
	return has;
}

int api_may_lack(struct api_rank *r)
{
	if (!r->transport)
		r->transport = api_find_transport(r);
	return r->transport < 0;
}

int api_did(struct api_rank *r, coll_result_t code, const char *what)
{
	char text[CHECK_TEXT];

	if (code == COLL_SUCCESS)
		return 1;
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

/* ------------------------------------------------------------------ meeting -- */

int api_meet(struct api_rank *r)
{
	return !check_barrier(r->c, r->slot, &r->turn);
}

int api_await(struct api_rank *r, int index, long long value)
{
	int64_t deadline = tool_now_ms() + r->c->patience_ms;

	while (atomic_load(&r->c->shared->number[index]) < value) {
		if (check_failed(r->c))
			return 0;
		if (tool_now_ms() > deadline)
			return api_fail(r, "waited in vain for another rank");
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
	config->timeout_ms = plan->timeout_ms ? plan->timeout_ms : r->c->patience_ms;
	config->init_timeout_ms = r->c->patience_ms;
	config->options = plan->options;
}

int api_join(struct api_rank *r, coll_comm_t *comm)
{
	char id[CHECK_RANKS][COLL_UNIQUE_ID_SIZE] = {{0}}, mine[COLL_UNIQUE_ID_SIZE] = {0};
	coll_config_t config;

	if (!r->rank && !api_did(r, coll_get_unique_id(mine, sizeof(mine)), "coll_get_unique_id"))
		return 0;
	if (check_exchange(r->c, r->slot, &r->turn, mine, id, sizeof(mine), r->c->patience_ms))
		return api_fail(r, "the other ranks did not come to fetch the id");
	api_configure(r, &config);
	check_slot(r->c, r->slot, "coll_comm_init_rank");
	return api_did(r, coll_comm_init_rank(comm, r->nranks, id[0], r->rank, &config),
		       "coll_comm_init_rank");
}

int api_join_all(struct api_rank *r, coll_comm_t *comms)
{
	coll_config_t config;

	api_configure(r, &config);
	check_slot(r->c, r->slot, "coll_comm_init_all");
	return api_did(r, coll_comm_init_all(comms, r->nranks, NULL, &config),
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
	int32_t x = 1 << r->rank, all = (1 << r->nranks) - 1;

	if (!api_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		     "coll_allreduce") ||
	    !api_did(r, coll_sync(r->comm), "coll_sync"))
		return 0;
	return x == all || api_fail(r, "the sum of the ranks' powers of two is %d, not %d", x, all);
}

/* ------------------------------------------------------------------ ranks -- */

static void api_rank_run(struct check_case *c, int rank)
{
	const struct api_plan *plan = c->check->plan;
	coll_comm_t *comms = c->user;
	struct api_rank r = {.rank = rank, .nranks = c->nranks, .slot = rank, .c = c};
	coll_result_t code;

	if (comms)
		r.comm = comms[rank];
	else if (!(plan->flags & API_NO_COMM) && !api_join(&r, &r.comm))
		return;
	check_slot(c, rank, NULL);
	plan->rank(&r);
	/* Who gave up may have left its group open. */
	while (coll_group_end() != COLL_ERR_INVALID_USAGE)
		continue;
	if (r.lacks[0] && !atomic_load(&c->shared->calls))
		check_skip(c, "%s", r.lacks);
	if (!r.comm)
		return;
	check_slot(c, rank, "coll_comm_destroy");
	code = coll_comm_destroy(r.comm);
	if (!(plan->flags & API_ROUGH))
		api_did(&r, code, "coll_comm_destroy");
	check_slot(c, rank, NULL);
}

/* Threads get their communicators from one call or, when they are odd in number, meet by an id. */
void api_run(struct check_case *c)
{
	const struct api_plan *plan = c->check->plan;
	struct api_rank r = {.nranks = c->nranks, .c = c};
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
