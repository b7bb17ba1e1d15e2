/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_make_all.c - the communicators of all ranks of one process.  They meet and agree in a thread each,
 * since each has to wait for the others; the rest is done by the thread that called, which drives
 * them until others call in.
 */
#include "exec/comm.h"
#include "device/device.h"
#include "base/error.h"
#include "api/comm_make.h"

#include <stdlib.h>
#include <string.h>

/* One rank's part. */
struct init_one {
	pthread_t thread;
	int started;
	struct error_first error;
	struct rendezvous meeting;
	coll_config_t config;
	struct context *context; /* until it is a communicator's */
};

static void *init_one(void *arg)
{
	struct init_one *one = arg;

	error_note(&one->error, init_begin(&one->context, &one->meeting, &one->config));
	return NULL;
}

static int init_start_all(struct init_one *all, int nranks, struct bootstrap **bootstraps)
{
	for (int r = 0; r < nranks; r++) {
		all[r].meeting.bootstrap = bootstraps[r];
		if (pthread_create(&all[r].thread, NULL, init_one, &all[r])) {
			for (int i = r; i < nranks; i++) /* the started ones see them go */
				bootstrap_close(bootstraps[i]);
			return error_set(COLL_ERR_SYSTEM, "cannot start a thread for rank %d", r);
		}
		all[r].started = 1;
	}
	return COLL_SUCCESS;
}

/* A rank that another one has left tells nothing of the cause, which is that one's. */
static int init_error_of_all(const struct init_one *all, int nranks)
{
	int first = -1;

	for (int r = 0; r < nranks; r++) {
		int code = all[r].started ? all[r].error.code : COLL_SUCCESS;

		if (code && (first < 0 || all[first].error.code == COLL_ERR_PEER_LOST))
			first = r;
	}
	return first < 0 ? COLL_SUCCESS : error_raise(&all[first].error);
}

static int init_join_all(struct init_one *all, int nranks, int code)
{
	for (int r = 0; r < nranks; r++)
		if (all[r].started)
			pthread_join(all[r].thread, NULL);
	return code ? code : init_error_of_all(all, nranks);
}

/* Some engines go wrong when threads that soon end make their first communicators. */
static int init_open_all(struct init_one *all, int nranks)
{
	struct context **contexts;
	int code;

	if (!all[0].context->plugin->backend.open_all)
		return COLL_SUCCESS; /* they are open */
	contexts = calloc((size_t)nranks, sizeof(*contexts));
	if (!contexts)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	for (int r = 0; r < nranks; r++)
		contexts[r] = all[r].context;
	code = context_open_all(contexts, nranks);
	free(contexts);
	return code;
}

/* All or none. */
static int init_all(coll_comm_t *comms, struct init_one *all, int nranks,
		    struct bootstrap **bootstraps)
{
	int code = init_join_all(all, nranks, init_start_all(all, nranks, bootstraps));

	if (!code)
		code = init_open_all(all, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		code = init_world(&comms[r], all[r].context);
		all[r].context = NULL;
	}
	for (int r = 0; code && r < nranks; r++) {
		if (all[r].context)
			context_unref(all[r].context, 0);
		if (comms[r])
			coll_comm_destroy(comms[r]);
		comms[r] = NULL;
	}
	return code;
}

coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks, const int32_t *devices,
				 const coll_config_t *config)
{
	int code = init_check("coll_comm_init_all", comms, nranks, 0);
	struct init_one *all = NULL;
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
		all[r].config = own;
		all[r].config.device = devices ? devices[r] : r;
		all[r].meeting =
			(struct rendezvous){.rank = r,
					    .nranks = nranks,
					    .uses_cuda = uses_cuda || (devices && devices[r] >= 0),
					    .together = 1};
	}
	if (!code)
		code = init_all(comms, all, nranks, bootstraps);
	free(all);
	free(bootstraps);
	return code;
}
