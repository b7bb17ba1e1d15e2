/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_make.c - making communicators: meet, agree on a backend, open it. */
#include "exec/comm.h"
#include "device/device.h"
#include "base/error.h"
#include "api/comm_make.h"
#include "base/log.h"
#include "plugin/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int init_rendezvous(struct bootstrap **bootstrap, const struct rendezvous *m,
			   const struct config *config)
{
	int64_t timeout_ms = config_int(config, "init_timeout") / 1000;
	const char *interface_name = config_string(config, "interface");

	*bootstrap = m->bootstrap;
	if (m->bootstrap)
		return COLL_SUCCESS;
	if (m->exchange)
		return bootstrap_open_user(bootstrap, m->exchange, m->user, m->rank, m->nranks,
					   timeout_ms);
	if (m->env)
		return bootstrap_open_root(bootstrap, m->env->root,
					   m->env->key[0] ? m->env->key : NULL, m->rank, m->nranks,
					   interface_name, timeout_ms);
	return bootstrap_open_id(bootstrap, m->id, m->rank, m->nranks, interface_name, timeout_ms);
}

/* For lack of memory this rank cannot take part in the next exchange; the other ranks are told. */
static int init_no_memory(struct bootstrap *bootstrap, int64_t timeout_ms)
{
	char text[48];

	snprintf(text, sizeof(text), "no memory for %d ranks", bootstrap_nranks(bootstrap));
	return bootstrap_exchange_fail(bootstrap, COLL_ERR_NO_MEMORY, text, timeout_ms);
}

/* All tunings are not the same: takes rank 0's. */
static int init_take_selection(struct bootstrap *bootstrap, const struct selection *own,
			       struct selection *selection, int64_t timeout_ms)
{
	struct selection *all = calloc((size_t)bootstrap_nranks(bootstrap), sizeof(*all));
	char differ[256];
	int code;

	if (!all)
		return init_no_memory(bootstrap, timeout_ms);
	code = bootstrap_exchange(bootstrap, own, all, sizeof(*own), timeout_ms);
	if (!code)
		*selection = all[0];
	free(all);
	if (code || !memcmp(own, selection, sizeof(*own)))
		return code;
	choose_differences(own, selection, differ, sizeof(differ));
	log_warn("rank %d: %s differ from rank 0's; all ranks use rank 0's",
		 bootstrap_rank(bootstrap), differ);
	return COLL_SUCCESS;
}

/*
 * Every rank chooses algorithms and builds schedules with rank 0's values.  *tuning: this rank's
 * own, then rank 0's.
 */
static int init_agree_selection(struct bootstrap *bootstrap, struct selection *selection,
				int64_t timeout_ms)
{
	int n = bootstrap_nranks(bootstrap), code, same = 1;
	const struct selection own = *selection;
	uint64_t brief[2] = {own.table, choose_hash(&own)}, (*all)[2];

	all = calloc((size_t)n, sizeof(*all));
	if (!all)
		return init_no_memory(bootstrap, timeout_ms);
	code = bootstrap_exchange(bootstrap, brief, all, sizeof(brief), timeout_ms);
	for (int r = 1; !code && r < n; r++) {
		if (all[r][0] != all[0][0])
			code = error_set(COLL_ERR_VERSION,
					 "rank %d knows other algorithms than rank 0: all ranks "
					 "need the same version of libcoll (rank %d has %s)",
					 r, bootstrap_rank(bootstrap), coll_version_string());
		same &= all[r][1] == all[0][1];
	}
	free(all);
	return code || same ? code : init_take_selection(bootstrap, &own, selection, timeout_ms);
}

static void init_free_parts(struct context_parts *parts)
{
	bootstrap_close(parts->bootstrap);
	plugins_free(parts->plugins);
	config_free(parts->config);
}

/*
 * All steps after the meeting.  Takes over boot, config and plugins.  A rank that fails goes on
 * taking part until everybody knows.
 */
static int init_context(struct context **context, struct context_parts *parts, int code,
			int together)
{
	int64_t timeout_ms = config_int(parts->config, "init_timeout") / 1000;
	struct bootstrap *bootstrap = parts->bootstrap;

	*context = NULL;
	code = select_agree(bootstrap, parts->config, parts->plugins,
			    bootstrap_in_process(bootstrap), code, &parts->plugin);
	if (!code)
		code = init_agree_selection(bootstrap, &parts->selection, timeout_ms);
	if (code) {
		init_free_parts(parts);
		return code;
	}
	code = context_make(context, parts);
	if (!code && !(together && parts->plugin->backend.open_all))
		code = context_open(*context);
	code = context_all_ok(*context, bootstrap, code, timeout_ms);
	if (code && *context)
		context_unref(*context, 0);
	else if (code)
		init_free_parts(parts);
	if (code)
		*context = NULL;
	return code;
}

int init_comm(coll_comm_t *out, struct context *context)
{
	struct comm *comm = NULL;
	int code = wait_thread_start(context);

	context_enter(context); /* from now on the calling thread drives it */
	context->next_context_id = 1;
	if (!code)
		code = comm_new(&comm, context, 0, context->rank, context->nranks, NULL);
	context_leave(context);
	if (code) {
		if (comm)
			comm_free(comm);
		context_unref(context, 0);
		return code;
	}
	*out = comm->handle;
	return COLL_SUCCESS;
}

int init_world(coll_comm_t *out, struct context *context)
{
	log_info("rank %d of %d uses backend '%s' from %s", context->rank, context->nranks,
		 context->plugin->backend.name, context->plugin->path);
	return init_comm(out, context);
}

/* The device that the application has named, or -1. */
static int init_device(const coll_config_t *config)
{
	if (!config || config->size < offsetof(coll_config_t, reserved))
		return -1;
	return config->device;
}

int init_begin(struct context **context, const struct rendezvous *m, const coll_config_t *config)
{
	struct context_parts parts = {.client = &comm_context_client};
	struct error_first first = {0};
	int code = config_load(config, &parts.config), met;

	*context = NULL;
	if (!parts.config) {
		bootstrap_close(m->bootstrap);
		return code;
	}
	if (!code)
		code = choose_compile(parts.config, &parts.selection);
	if (!code)
		code = plugins_load(parts.config, select_wants, m->uses_cuda, &parts.plugins);
	/* A rank with a bad configuration still meets the others, to tell them. */
	if (code)
		log_debug("rank %d: %s", m->rank, error_text());
	error_note(&first, code);
	met = init_rendezvous(&parts.bootstrap, m, parts.config);
	if (met) {
		plugins_free(parts.plugins);
		config_free(parts.config);
		return met;
	}
	code = error_raise(&first);
	config_warn_unknown_env(parts.config);
	parts.device = init_device(config);
	return init_context(context, &parts, code, m->together);
}

static int init(coll_comm_t *out, struct rendezvous *m, const coll_config_t *config)
{
	struct context *context;
	int code;

	*out = NULL;
	m->uses_cuda = device_in_use() | (init_device(config) >= 0);
	code = init_begin(&context, m, config);
	return code ? code : init_world(out, context);
}

/* ------------------------------------------------------------- public functions -- */

int init_check(const char *what, const coll_comm_t *comm, int nranks, int rank)
{
	if (!comm)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: comm is NULL", what);
	if (nranks < 1)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: nranks is %d, it must be at least 1", what, nranks);
	if (rank < 0 || rank >= nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: rank is %d, but with %d ranks it goes from 0 to %d", what,
				 rank, nranks, nranks - 1);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_init_rank(coll_comm_t *comm, int32_t nranks, const char *id, int32_t rank,
				  const coll_config_t *config)
{
	struct rendezvous m = {.rank = rank, .nranks = nranks, .id = id};
	int code = init_check("coll_comm_init_rank", comm, nranks, rank);

	if (comm)
		*comm = NULL;
	if (!code && !id)
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_init_rank: id is NULL");
	return code ? code : init(comm, &m, config);
}

coll_result_t coll_comm_init_env(coll_comm_t *comm, const coll_config_t *config)
{
	struct launch launch;
	struct rendezvous m = {.env = &launch};
	int code = init_check("coll_comm_init_env", comm, 1, 0);

	if (comm)
		*comm = NULL;
	if (!code)
		code = launch_detect(&launch);
	if (code)
		return code;
	m.rank = launch.rank;
	m.nranks = launch.nranks;
	log_set_rank(launch.rank);
	return init(comm, &m, config);
}

coll_result_t coll_comm_init_exchange(coll_comm_t *comm, int32_t nranks, int32_t rank,
				      coll_exchange_fn exchange, void *user,
				      const coll_config_t *config)
{
	struct rendezvous m = {.rank = rank, .nranks = nranks, .exchange = exchange, .user = user};
	int code = init_check("coll_comm_init_exchange", comm, nranks, rank);

	if (comm)
		*comm = NULL;
	if (!code && !exchange)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_init_exchange: exchange is NULL");
	return code ? code : init(comm, &m, config);
}
