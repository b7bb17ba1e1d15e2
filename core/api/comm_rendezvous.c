/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_rendezvous.c - the ranks meet, agree on a backend and open the endpoint. */
#include "api/comm_make.h"
#include "base/error.h"
#include "base/log.h"
#include "plugin/select.h"

#include <stdlib.h>

static void rendezvous_free_parts(struct context_parts *parts)
{
	bootstrap_close(parts->bootstrap);
	plugins_free(parts->plugins);
	config_free(parts->config);
}

/* The ranks have met: do all ranks run on one host? */
static void rendezvous_place(struct context_parts *parts)
{
	plugins_place(
		parts->plugins, parts->config,
		bootstrap_all_share(parts->bootstrap, COLL_SHARES_HOST | COLL_SHARES_NETWORK));
}

static int rendezvous_choose(struct context_parts *parts, int code, int *by_name)
{
	return select_agree(parts->bootstrap, parts->config, parts->plugins,
			    bootstrap_in_process(parts->bootstrap), code, &parts->plugin, by_name);
}

/* A companion that the user did not ask for may be missing: rank 0 warns. */
static int rendezvous_go_without(const struct context *context, int by_name, int code)
{
	if (!code || by_name || !bootstrap_rank_failed(context->bootstrap))
		return code;
	if (context->rank == 0)
		log_warn(
			"the ranks have no companion, so the loss of a rank ends in a timeout, and "
			"calls on host memory fail: %s",
			error_text());
	return COLL_SUCCESS;
}

/* Opens the companion's endpoints, beside the backend's endpoint. */
static int rendezvous_open_channel(struct context *context, const struct context_parts *parts,
				   const struct rendezvous *m, const struct companion_wish *wish)
{
	const struct plugin *plugin;
	int code;

	code = select_companion(parts->bootstrap, parts->config, parts->plugins, wish, &plugin);
	if (code || !plugin)
		return code;
	return rendezvous_go_without(context, wish->named,
				     m->library->open_channel(context, plugin));
}

/*
 * Makes a context of the chosen backend and opens it: on all ranks or on none.  Sets *by_name if the user has named a
 * companion, which is then no more to be passed over than a backend that he has named.
 */
static int rendezvous_open(struct context **context, const struct context_parts *parts,
			   const struct rendezvous *m, int *by_name)
{
	int64_t timeout_ms = config_int(parts->config, "init_timeout") / 1000;
	struct companion_wish wish;
	struct error_first first = {0};
	int code;

	*context = NULL;
	code = select_companion_wish(parts->bootstrap, parts->config, parts->plugins, parts->plugin,
				     &wish);
	if (code)
		return code;
	code = context_make(context, parts);
	if (!code && !(m->together && parts->plugin->backend.open_all))
		code = context_open(*context);
	error_note(&first, context_all_ok(*context, parts->bootstrap, code, timeout_ms));
	if (!first.code) {
		*by_name |= wish.named;
		error_note(&first, rendezvous_open_channel(*context, parts, m, &wish));
	}
	if (!first.code)
		return COLL_SUCCESS;
	if (*context)
		context_withdraw(*context, 0);
	*context = NULL;
	return error_raise(&first);
}

/*
 * Does the failed open of a backend leave another backend to try?  All ranks know the failure from the same
 * exchange, so all come to the same answer.  A wrong option stays an error: a warning would hide it.
 */
static int rendezvous_may_go_on(const struct context_parts *parts, int by_name, int code)
{
	return !by_name && code != COLL_ERR_CONFIG && code != COLL_ERR_ABORTED &&
	       bootstrap_rank_failed(parts->bootstrap);
}

/* A rank cannot open the chosen backend: chooses another.  If none is left, the failed open is the cause. */
static int rendezvous_choose_again(struct context_parts *parts, int open_code, int *by_name)
{
	int code;

	select_give_up(parts->plugins, parts->plugin, open_code);
	if (bootstrap_rank(parts->bootstrap) == 0)
		log_warn("backend '%s' is given up: %s; all ranks take the next one",
			 parts->plugin->backend.name, parts->plugin->reason);
	code = rendezvous_choose(parts, COLL_SUCCESS, by_name);
	return code == COLL_ERR_NOT_FOUND ? error_set(open_code, "%s", error_text()) : code;
}

/*
 * Chooses a backend and opens it.  If a priority has chosen the backend and some rank cannot open it, all ranks give it
 * up and open the next backend.  `code`: see rendezvous_context.
 */
static int rendezvous_choose_and_open(struct context **context, struct context_parts *parts,
				      const struct rendezvous *m, int code)
{
	int by_name, open_code;

	if (!code)
		rendezvous_place(parts);
	code = rendezvous_choose(parts, code, &by_name);
	if (!code && m->library->agree)
		code = m->library->agree(parts);
	while (!code) {
		open_code = rendezvous_open(context, parts, m, &by_name);
		if (!open_code || !rendezvous_may_go_on(parts, by_name, open_code))
			return open_code;
		code = rendezvous_choose_again(parts, open_code, &by_name);
	}
	return code;
}

/*
 * All steps after the rendezvous.  Takes over the parts, also on an error.  `code` is the failure of this
 * rank so far: a rank that has failed takes part until all ranks know.
 */
static int rendezvous_context(struct context **context, struct context_parts *parts,
			      const struct rendezvous *m, int code)
{
	*context = NULL;
	code = rendezvous_choose_and_open(context, parts, m, code);
	if (code)
		rendezvous_free_parts(parts);
	return code;
}

int comm_config_device(const coll_config_t *config)
{
	if (!config || config->size < offsetof(coll_config_t, reserved))
		return -1;
	return config->device;
}

/* failed: this rank has failed already, and only tells the other ranks. */
static int rendezvous_bootstrap(struct bootstrap **bootstrap, const struct rendezvous *m,
				const struct config *config, int failed)
{
	bootstrap_set_stall(config_int(config, "stall_after") / 1000);
	*bootstrap = m->bootstrap;
	return m->bootstrap ? COLL_SUCCESS : m->meet(bootstrap, m, config, failed);
}

/* Meets the other ranks and opens the context.  code: the error of the options, or 0.  Takes over parts->config. */
static int rendezvous_go(struct context **context, const struct rendezvous *m,
			 struct context_parts *parts, int code)
{
	const struct library *library = m->library;
	struct error_first first = {0};
	int met;

	if (!code && library->choose)
		code = library->choose(parts->config, &parts->selection);
	if (!code)
		code = plugins_load(parts->config, PLUGINS_ALLOWED | PLUGINS_UNPROBED, m->uses_cuda,
				    &parts->plugins);
	if (!code && m->check)
		code = m->check(parts->config);
	/* A rank with a bad configuration still meets the other ranks, so that they learn of its failure. */
	if (code)
		log_debug("rank %d: %s", m->rank, error_text());
	error_note(&first, code);
	met = rendezvous_bootstrap(&parts->bootstrap, m, parts->config, code);
	if (met) {
		free(parts->selection);
		plugins_free(parts->plugins);
		config_free(parts->config);
		return code ? error_raise(&first) : met;
	}
	code = error_raise(&first);
	config_warn_unused(parts->config);
	parts->device = comm_config_device(m->config);
	parts->device_named = !m->device_unnamed;
	code = rendezvous_context(context, parts, m, code);
	free(parts->selection);
	return code;
}

int comm_rendezvous(struct context **context, const struct rendezvous *m)
{
	struct context_parts parts = {.client = m->library->context};
	int code = config_load(m->config, m->library->check_option, &parts.config);
	struct log_place former;

	*context = NULL;
	if (!parts.config) {
		bootstrap_close(m->bootstrap);
		return code;
	}
	config_open_log(parts.config, m->rank);
	former = log_enter(config_log_about(parts.config, NULL).place);
	code = rendezvous_go(context, m, &parts, code);
	log_leave(former);
	return code;
}
