/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_make.c - the public functions that make communicators: of one rank, or of all ranks, which are then
 * in this process.
 */
#include "api/comm_make.h"
#include "api/host_memory.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/device.h"
#include "comm/pair.h"
#include "exec/comm_life.h"
#include "meet/meet.h"
#include "transport/channel.h"

#include <stdlib.h>
#include <string.h>

/* A rank that a call makes. */
struct init_rank {
	struct rendezvous rendezvous;
	const coll_config_t *config;
	coll_config_t own_config; /* `config` may point to it: a copy with this rank's device */
	struct context *context;  /* owned by this struct until a communicator owns it */
	pthread_t thread;
	int started;
	struct error_first error;
};

static void *init_thread(void *arg)
{
	struct init_rank *rank = arg;

	error_note(&rank->error, comm_rendezvous(&rank->context, &rank->rendezvous, rank->config));
	return NULL;
}

static int init_start_all(struct init_rank *all, int nranks)
{
	for (int r = 0; r < nranks; r++) {
		if (thread_start(&all[r].thread, init_thread, &all[r])) {
			for (int i = r; i < nranks;
			     i++) /* so that the started ranks do not wait for them */
				bootstrap_close(all[i].rendezvous.bootstrap);
			return error_set(COLL_ERR_SYSTEM, "cannot start a thread for rank %d", r);
		}
		all[r].started = 1;
	}
	return COLL_SUCCESS;
}

/* The first failure, but a rank that lost another rank only knows the other's failure as a lost peer. */
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

/* Some engines fail if a thread that soon ends makes their first communicators: the caller opens them. */
static int init_open_all(struct init_rank *all, int nranks)
{
	struct context **contexts;
	int code;

	if (!all[0].rendezvous.together || !all[0].context->plugin->backend.open_all)
		return COLL_SUCCESS; /* the endpoints are open */
	contexts = calloc((size_t)nranks, sizeof(*contexts));
	if (!contexts)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	for (int r = 0; r < nranks; r++)
		contexts[r] = all[r].context;
	code = context_open_all(contexts, nranks);
	free(contexts);
	return code;
}

int init_comm(coll_comm_t *out, struct context *context, struct comm *host_comm)
{
	struct comm *comm = NULL;
	int code = wait_thread_start(context);

	context_enter(context); /* from now on the calling thread drives it */
	context->next_context_id = 1;
	if (!code)
		code = comm_new(&comm, context, host_comm ? host_comm->context_id : 0,
				context->rank, context->nranks, NULL);
	if (!code && host_comm)
		code = pair_make(comm, host_comm);
	context_leave(context);
	if (!code)
		channel_watch(context, comm_tag_control(comm->context_id));
	if (code) {
		(void)host_memory_free(host_comm, 0); /* no other thread knows it */
		if (comm)
			comm_free(comm);
		context_unref(context, 0);
		return code;
	}
	*out = comm->handle;
	return COLL_SUCCESS;
}

/*
 * Makes the communicator of a rank whose endpoint is open.  Its threads or its memory may fail on one rank only, so
 * ranks that do not start together agree once more: all have their communicators, or all get the error.
 */
static int init_finish(coll_comm_t *out, struct init_rank *rank)
{
	struct context *context = rank->context;
	struct comm *host_comm;
	int code;

	log_info("rank %d of %d uses backend '%s' from %s", context->rank, context->nranks,
		 context->plugin->backend.name, context->plugin->path);
	context_ref(context); /* its bootstrap must outlive a failed init_comm */
	code = host_memory_new(context, &host_comm);
	if (!code) {
		rank->context = NULL;
		code = init_comm(out, context, host_comm);
	}
	if (!rank->rendezvous.together)
		code = bootstrap_all_ok(context->bootstrap, code,
					config_int(context->config, "init_timeout") / 1000);
	context_unref(context, 0);
	return code;
}

/* Makes all n communicators or none.  Several ranks meet in a thread each: each waits for the others. */
static int init_ranks(coll_comm_t *comms, struct init_rank *ranks, int n)
{
	int code;

	if (ranks[0].rendezvous.together)
		code = init_join_all(ranks, n, init_start_all(ranks, n));
	else
		code = comm_rendezvous(&ranks[0].context, &ranks[0].rendezvous, ranks[0].config);
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

static int init_one(coll_comm_t *out, const struct rendezvous *m, const coll_config_t *config)
{
	struct init_rank rank = {.rendezvous = *m, .config = config};

	*out = NULL;
	rank.rendezvous.uses_cuda = device_in_use() | (comm_config_device(config) >= 0);
	return init_ranks(out, &rank, 1);
}

/* ------------------------------------------------------------- public functions -- */

static int init_check(const char *what, const coll_comm_t *comm, int nranks, int rank)
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

coll_result_t coll_get_unique_id(char *id, size_t size)
{
	CANCEL_OFF;
	struct config *config = NULL;
	int code;

	if (id == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "id is NULL");
	code = config_load(NULL, rules_check_option, &config);
	if (code == 0)
		code = bootstrap_check_interface(config);
	if (code == 0)
		code = bootstrap_make_id(id, size, config_string(config, "interface"));
	config_free(config);
	return code;
}

coll_result_t coll_comm_init_rank(coll_comm_t *comm, int32_t nranks, const char *id, int32_t rank,
				  const coll_config_t *config)
{
	CANCEL_OFF;
	struct rendezvous m = {.rank = rank, .nranks = nranks, .id = id};
	int code = init_check("coll_comm_init_rank", comm, nranks, rank);

	if (comm)
		*comm = NULL;
	if (!code && !id)
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_init_rank: id is NULL");
	return code ? code : init_one(comm, &m, config);
}

coll_result_t coll_comm_init_env(coll_comm_t *comm, const coll_config_t *config)
{
	CANCEL_OFF;
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
	return init_one(comm, &m, config);
}

coll_result_t coll_get_launch_info(int32_t *rank, int32_t *nranks, int32_t *local_rank,
				   int32_t *local_nranks)
{
	CANCEL_OFF;
	struct launch launch;
	int code = launch_detect_ranks(&launch);
	int alone = launch.nranks == 1;

	if (code)
		return code;
	if (rank)
		*rank = launch.rank;
	if (nranks)
		*nranks = launch.nranks;
	/* A single rank needs no launcher to know its place on its host. */
	if (local_rank)
		*local_rank = alone ? 0 : launch.local_rank;
	if (local_nranks)
		*local_nranks = alone ? 1 : launch.local_nranks;
	return COLL_SUCCESS;
}

coll_result_t coll_comm_init_exchange(coll_comm_t *comm, int32_t nranks, int32_t rank,
				      coll_exchange_fn exchange, void *user,
				      const coll_config_t *config)
{
	CANCEL_OFF;
	struct rendezvous m = {.rank = rank, .nranks = nranks, .exchange = exchange, .user = user};
	int code = init_check("coll_comm_init_exchange", comm, nranks, rank);

	if (comm)
		*comm = NULL;
	if (!code && !exchange)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_init_exchange: exchange is NULL");
	return code ? code : init_one(comm, &m, config);
}

coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks, const int32_t *devices,
				 const coll_config_t *config)
{
	CANCEL_OFF;
	int code = init_check("coll_comm_init_all", comms, nranks, 0);
	struct init_rank *all = NULL;
	struct bootstrap **bootstraps = NULL;
	coll_config_t own;
	int uses_cuda;

	if (!code)
		code = config_app(config, &own);
	if (code)
		return code;
	memset(comms, 0, (size_t)nranks * sizeof(*comms));
	uses_cuda = device_in_use();
	all = calloc((size_t)nranks, sizeof(*all));
	bootstraps = calloc((size_t)nranks, sizeof(*bootstraps));
	if (!all || !bootstraps)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (!code)
		code = bootstrap_open_local(bootstraps, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		all[r].own_config = own;
		all[r].own_config.device = devices ? devices[r] : r;
		all[r].config = &all[r].own_config;
		all[r].rendezvous =
			(struct rendezvous){.rank = r,
					    .nranks = nranks,
					    .bootstrap = bootstraps[r],
					    .uses_cuda = uses_cuda || (devices && devices[r] >= 0),
					    .device_unnamed = !devices,
					    .together = 1};
	}
	if (!code)
		code = init_ranks(comms, all, nranks);
	free(all);
	free(bootstraps);
	return code;
}
