/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_make.c - makes the first communicators of a program: of one rank, or of all ranks, which are then in this process. */
#include "api/comm_make.h"
#include "base/error.h"
#include "endpoint/context_log.h"
#include "base/thread.h"
#include "comm/lane.h"
#include "comm/life.h"
#include "comm/observed.h"

#include <stdlib.h>

/* A rank that a call makes. */
struct init_rank {
	const struct rendezvous *rendezvous;
	struct context *context; /* owned by this struct until a communicator owns it */
	pthread_t thread;
	int started;
	struct error_first error;
};

static void *init_thread(void *arg)
{
	struct init_rank *rank = arg;

	error_note(&rank->error, comm_rendezvous(&rank->context, rank->rendezvous));
	return NULL;
}

static int init_start_all(struct init_rank *all, int nranks)
{
	for (int r = 0; r < nranks; r++) {
		if (thread_start(&all[r].thread, init_thread, &all[r])) {
			for (int i = r; i < nranks;
			     i++) /* so that the started ranks do not wait for them */
				bootstrap_close(all[i].rendezvous->bootstrap);
			return error_set(COLL_ERR_SYSTEM, "cannot start a thread for rank %d", r);
		}
		all[r].started = 1;
	}
	return COLL_SUCCESS;
}

/* The first failure, but a rank that has lost a peer knows the peer's failure only as that loss. */
static int init_error_of_all(const struct init_rank *all, int nranks)
{
	int first = -1;

	for (int r = 0; r < nranks; r++) {
		int code = all[r].started ? all[r].error.code : COLL_SUCCESS;

		if (code && (first < 0 || all[first].error.code == COLL_ERR_PEER_LOST))
			first = r;
	}
	return first < 0 ? COLL_SUCCESS : error_raise(&all[first].error);
}

static int init_join_all(struct init_rank *all, int nranks, int code)
{
	for (int r = 0; r < nranks; r++)
		if (all[r].started)
			pthread_join(all[r].thread, NULL);
	return code ? code : init_error_of_all(all, nranks);
}

/* Some backends fail if a thread that soon ends makes their first communicators: the caller opens them. */
static int init_open_all(struct init_rank *all, int nranks)
{
	struct context **contexts;
	int code;

	if (!all[0].rendezvous->together || !all[0].context->plugin->backend.open_all)
		return COLL_SUCCESS; /* the endpoints are open */
	/* gcc 14 takes a size_t here for too large. */
	contexts = calloc((unsigned)nranks, sizeof(*contexts));
	if (!contexts)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	for (int r = 0; r < nranks; r++)
		contexts[r] = all[r].context;
	code = context_open_all(contexts, nranks);
	free(contexts);
	return code;
}

int init_comm(coll_comm_t *out, struct context *context, struct lane *host)
{
	struct lane *lane = NULL;
	int code = wait_thread_start(context);

	context_enter(context); /* from now on the calling thread drives it */
	context->next_context_id = 1;
	if (!code)
		code = lane_new(&lane,
				host ? host->comm : comm_blank(context->rank, context->nranks),
				LANE_FIRST, context, host ? host->context_id : 0, NULL, NULL);
	if (!code && context->parent && context->parent->lanes)
		lane->comm->parent = observed_number(context->parent->lanes->comm);
	if (!code)
		code = comm_publish(lane->comm);
	if (!code)
		context_progress(context); /* messages for it may have come already */
	context_leave(context);
	if (code) {
		lane_free_host(lane ? lane_part(lane) : host);
		if (lane)
			lane_free(lane);
		context_unref(context, 0);
		return code;
	}
	*out = lane->comm->handle;
	return COLL_SUCCESS;
}

static int init_all_ok(struct context *context, const struct library *of, int code)
{
	const int64_t timeout_ms = config_int(context->config, "init_timeout") / 1000;

	return of->all_ok ? of->all_ok(context, code, timeout_ms)
			  : bootstrap_all_ok(context->bootstrap, code, timeout_ms);
}

/*
 * Makes the communicator of a rank whose endpoint is open.  Its threads or its memory may fail on one rank only, so
 * ranks that do not start together agree once more: all have their communicators, or all get the error.
 */
static int init_finish(coll_comm_t *out, struct init_rank *rank)
{
	struct context *context = rank->context;
	struct lane *host;
	int code;

	context_log(context, COLL_LOG_INFO, "rank %d of %d uses backend '%s' from %s",
		    context->rank, context->nranks, context->plugin->backend.name,
		    context->plugin->path);
	context_ref(context); /* its bootstrap must outlive a failed init_comm */
	context_observe(context);
	code = lane_new_host(context, &host);
	if (!code) {
		rank->context = NULL;
		code = init_comm(out, context, host);
	}
	if (!code && rank->rendezvous->library->made)
		rank->rendezvous->library->made(context, tag_control(host ? host->context_id : 0));
	if (!rank->rendezvous->together)
		code = init_all_ok(context, rank->rendezvous->library, code);
	context_unref(context, 0);
	return code;
}

/* Several ranks meet in a thread each: each waits for all ranks. */
static int init_ranks(coll_comm_t *comms, struct init_rank *ranks, int n)
{
	int code;

	if (ranks[0].rendezvous->together)
		code = init_join_all(ranks, n, init_start_all(ranks, n));
	else
		code = comm_rendezvous(&ranks[0].context, ranks[0].rendezvous);
	if (!code)
		code = init_open_all(ranks, n);
	for (int r = 0; !code && r < n; r++)
		code = init_finish(&comms[r], &ranks[r]);
	for (int r = 0; code && r < n; r++) {
		if (ranks[r].context)
			context_unref(ranks[r].context, 0);
		if (comms[r])
			coll_comm_destroy(comms[r]);
		comms[r] = NULL;
	}
	return code;
}

int comm_make(coll_comm_t *comms, const struct rendezvous *m, int n)
{
	struct init_rank one = {.rendezvous = m};
	struct init_rank *ranks = n == 1 ? &one : calloc((size_t)n, sizeof(*ranks));
	int code;

	for (int r = 0; r < n; r++)
		comms[r] = NULL;
	if (!ranks) {
		for (int r = 0; r < n; r++)
			bootstrap_close(m[r].bootstrap);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
	}
	for (int r = 0; r < n; r++)
		ranks[r].rendezvous = &m[r];
	code = init_ranks(comms, ranks, n);
	if (ranks != &one)
		free(ranks);
	return code;
}
