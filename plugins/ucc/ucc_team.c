/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_team.c - makes an endpoint: a context of UCC, and the team of all ranks on it.
 *
 * UCC connects the ranks over an allgather of the plugin, which is that of the host while the endpoint is made.  UCC calls it
 * once more amid the end of a context, as a barrier: no rank may end before the others have closed their connections.  No
 * exchange is allowed there (backend.h).  In its place a context that has ended moves the other ranks' last messages for a
 * moment; ranks that share a host need none.
 */
#include "ucc.h"
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TEAM_LINGER_MS =
		100, /* between hosts a context moves the last messages of other ranks for so long */
	TEAM_NAP_US = 50,
	TEAM_GIVE_UP_MS =
		300 /* for UCC to make the team after all, or to notice that an exchange fails */
};

/* ----------------------------------------------------------------------- exchange -- */

/*
 * UCC loses the memory and the descriptors of a context whose exchange fails: it gets zeros from the other ranks instead, and the
 * plugin ends the context.
 */
static void team_pretend(const coll_host_t *host, const void *src, void *recv, size_t size)
{
	memset(recv, 0, size * host->nranks);
	memcpy((char *)recv + size * host->rank, src, size);
}

static ucc_status_t team_allgather(void *src, void *recv, size_t size, void *info, void **request)
{
	struct ucc_exchange *x = info;

	*request = x;
	if (x->given_up)
		return UCC_ERR_NO_MESSAGE;
	if (!x->host) {
		x->until = clock_deadline(x->linger_ms);
		return x->linger_ms ? UCC_OK : UCC_ERR_NO_MESSAGE;
	}
	if (!x->failed &&
	    x->host->exchange(x->host, src, recv, size, clock_remaining(x->deadline), x->err))
		x->failed = 1;
	if (!x->failed)
		return UCC_OK;
	if (!x->in_context)
		return UCC_ERR_NO_MESSAGE;
	team_pretend(x->host, src, recv, size);
	return UCC_OK;
}

static ucc_status_t team_exchanged(void *request)
{
	const struct ucc_exchange *x = request;

	return x->host || !clock_remaining(x->until) ? UCC_OK : UCC_INPROGRESS;
}

static ucc_status_t team_exchange_free(void *request)
{
	(void)request;
	return UCC_OK;
}

static ucc_oob_coll_t team_oob(const struct ucc *u)
{
	return (ucc_oob_coll_t){.allgather = team_allgather,
				.req_test = team_exchanged,
				.req_free = team_exchange_free,
				.coll_info = u->exchange,
				.n_oob_eps = u->nranks,
				.oob_ep = u->rank};
}

/* ------------------------------------------------------------------------- making -- */

/* The ranks must have the same UCC. */
static int32_t team_check_versions(const struct ucc *u, coll_error_t *err)
{
	const size_t size = sizeof(ucc_library.version);
	unsigned(*all)[3] = calloc(u->nranks, size);
	const unsigned *own = ucc_library.version;
	int32_t code;

	if (!all) {
		error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", u->nranks);
		return kit_exchange_fail(u->host, COLL_ERR_NO_MEMORY, err);
	}
	code = u->host->exchange(u->host, own, all, size, clock_remaining(u->exchange->deadline),
				 err);
	for (uint32_t r = 0; !code && r < u->nranks; r++)
		if (memcmp(all[r], all[0], size) != 0)
			code = error_fill(err, COLL_ERR_VERSION,
					  "UCC is %u.%u.%u on rank 0, but %u.%u.%u on rank %u: "
					  "install the same UCC for all ranks",
					  all[0][0], all[0][1], all[0][2], all[r][0], all[r][1],
					  all[r][2], r);
	free(all);
	return code;
}

/*
 * All ranks get the same bits (coll.h), if each part of a sum is added up on one rank: UCC's other algorithm for short sums adds in
 * another order on each rank.  Two ranks have one order.
 */
static void team_tune(const struct ucc *u, ucc_context_config_h config)
{
	ucc_status_t status;

	if (u->nranks <= 2 || secure_getenv("UCC_TL_UCP_TUNE"))
		return;
	status = ucc_library.ucc_context_config_modify(config, "tl/ucp", "TUNE",
						       "allreduce:0-inf:@sra_knomial");
	if (status)
		kit_log(u->host, COLL_LOG_WARN,
			"UCC does not take the setting UCC_TL_UCP_TUNE (%s): the ranks may get "
			"different bits of a sum",
			ucc_library.ucc_status_string(status));
}

static void team_configure(const struct ucc *u, ucc_context_config_h config)
{
	char ranks[16];

	snprintf(ranks, sizeof(ranks), "%u", u->nranks);
	ucc_library.ucc_context_config_modify(config, NULL, "ESTIMATED_NUM_EPS", ranks);
	/* UCC would wait without a limit for the connections to all ranks.  Without tl/ucp there is no such wait. */
	ucc_library.ucc_context_config_modify(config, "tl/ucp", "PRECONNECT", "0");
	team_tune(u, config);
}

static int32_t team_make_context(struct ucc *u, coll_error_t *err)
{
	const ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE |
						     UCC_CONTEXT_PARAM_FIELD_OOB,
					     .type = UCC_CONTEXT_EXCLUSIVE,
					     .oob = team_oob(u)};
	ucc_context_config_h config;
	ucc_status_t status = ucc_library.ucc_context_config_read(u->lib, NULL, &config);
	if (status)
		return ucc_refused(err, status, "ucc_context_config_read");
	team_configure(u, config);
	u->exchange->in_context = 1;
	status = ucc_library.ucc_context_create(u->lib, &params, config, &u->context);
	u->exchange->in_context = 0;
	ucc_library.ucc_context_config_release(config);
	if (status)
		u->context = NULL;
	if (u->exchange->failed)
		return err->code;
	return status ? ucc_refused(err, status, "ucc_context_create") : COLL_SUCCESS;
}

/* Why the making of the team has not ended. */
static int32_t team_interrupted(const struct ucc *u, coll_error_t *err)
{
	const coll_host_t *host = u->host;

	if (host->aborted(host))
		return error_fill(err, COLL_ERR_ABORTED,
				  "UCC was connecting the ranks when the communicator was aborted "
				  "or another rank failed");
	if (clock_remaining(u->exchange->deadline) > 0)
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_TIMEOUT,
			  "UCC has not connected the ranks after %g s (init_timeout)",
			  (double)host->timeout_ms / 1000);
}

/*
 * UCC cannot end a team that is being made, but one that it has made, or that has failed.  So UCC's next exchange fails.
 * Returns 0 if UCC waits for messages of other ranks, which do not come.
 */
static int team_give_up(struct ucc *u)
{
	const int64_t deadline = clock_deadline(TEAM_GIVE_UP_MS);
	ucc_status_t status;

	u->exchange->given_up = 1;
	while ((status = ucc_library.ucc_team_create_test(u->team)) == UCC_INPROGRESS &&
	       clock_remaining(deadline) > 0) {
		ucc_library.ucc_context_progress(u->context);
		sched_yield();
	}
	return status != UCC_INPROGRESS;
}

static int32_t team_make_team(struct ucc *u, coll_error_t *err)
{
	ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP |
					    UCC_TEAM_PARAM_FIELD_EP_RANGE |
					    UCC_TEAM_PARAM_FIELD_OOB,
				    .ep = u->rank,
				    .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
				    .oob = team_oob(u)};
	ucc_status_t status = ucc_library.ucc_team_create_post(&u->context, 1, &params, &u->team);
	int32_t code = COLL_SUCCESS;

	if (status) {
		u->team = NULL;
		return ucc_refused(err, status, "ucc_team_create_post");
	}
	while (!code && (status = ucc_library.ucc_team_create_test(u->team)) == UCC_INPROGRESS) {
		ucc_library.ucc_context_progress(u->context);
		sched_yield();
		code = team_interrupted(u, err);
	}
	/* A team that goes on to be made stays in memory, with its context. */
	u->unfinished = code && !team_give_up(u);
	if (!code && status)
		code = u->exchange->failed ? err->code
					   : ucc_refused(err, status, "ucc_team_create_test");
	return code;
}

/* Moves UCC's messages while the endpoint's own thread is in an exchange. */
struct team_mover {
	struct ucc *u;
	atomic_int stop;
};

static void *team_move(void *arg)
{
	struct team_mover *m = arg;
	const coll_host_t *before = ucc_log_begin(m->u->host);

	while (!atomic_load(&m->stop)) {
		ucc_library.ucc_context_progress(m->u->context);
		clock_nap(TEAM_NAP_US);
	}
	ucc_log_end(before);
	return NULL;
}

/* The other ranks may still need messages of this rank to make their teams. */
static int32_t team_exchange_moving(struct ucc *u, const void *in, void *out, uint64_t len,
				    coll_error_t *err)
{
	struct team_mover mover = {.u = u};
	pthread_t thread;
	const int moves = !thread_start(&thread, team_move, &mover);
	const int32_t code = u->host->exchange(u->host, in, out, len,
					       clock_remaining(u->exchange->deadline), err);

	if (moves) {
		atomic_store(&mover.stop, 1);
		pthread_join(thread, NULL);
	}
	return code;
}

/* All ranks have the team, or all ranks know why not. */
static int32_t team_agree(struct ucc *u, int32_t code, coll_error_t *err)
{
	const coll_host_t *host = u->host;
	uint8_t own = 0, *all;

	/* After an abort the core tells the other ranks. */
	if (u->exchange->failed || code == COLL_ERR_ABORTED)
		return code;
	if (code)
		return kit_exchange_fail(host, code, err);
	all = malloc(u->nranks);
	if (!all) {
		error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", u->nranks);
		return kit_exchange_fail(host, COLL_ERR_NO_MEMORY, err);
	}
	code = team_exchange_moving(u, &own, all, sizeof(own), err);
	free(all);
	return code;
}

static int32_t team_make(struct ucc *u, coll_error_t *err)
{
	int32_t code = ucc_library_open(u->host, err);

	if (!code)
		code = ucc_library_init(&u->lib, err);
	if (code)
		return kit_exchange_fail(u->host, code, err);
	code = team_check_versions(u, err);
	if (code)
		return code;
	code = team_make_context(u, err);
	if (!code)
		code = team_make_team(u, err);
	return team_agree(u, code, err);
}

static struct ucc *team_new(const coll_host_t *host, coll_error_t *err)
{
	struct ucc *u = calloc(1, sizeof(*u));
	struct ucc_exchange *x = calloc(1, sizeof(*x));

	if (!u || !x) {
		free(u);
		free(x);
		return NULL;
	}
	*x = (struct ucc_exchange){
		.host = host,
		.deadline = clock_deadline(host->timeout_ms),
		.linger_ms = kit_all_share(host, COLL_SHARES_HOST) ? 0 : TEAM_LINGER_MS,
		.err = err};
	u->exchange = x;
	u->host = host;
	u->rank = host->rank;
	u->nranks = host->nranks;
	return u;
}

int32_t ucc_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct ucc *u = team_new(host, err);
	const coll_host_t *before;
	int32_t code;

	*ep = u;
	if (!u) {
		error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
		return kit_exchange_fail(host, COLL_ERR_NO_MEMORY, err);
	}
	before = ucc_log_begin(host);
	code = team_make(u, err);
	ucc_log_end(before);
	u->exchange->host = NULL;
	ucc_log_add(u);
	return code;
}
