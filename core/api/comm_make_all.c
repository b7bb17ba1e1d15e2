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
	struct meeting meeting;
	coll_config_t config;
	struct link *link; /* until it is a communicator's */
};

static void *init_one(void *arg)
{
	struct init_one *one = arg;

	error_note(&one->error, init_begin(&one->link, &one->meeting, &one->config));
	return NULL;
}

static int init_start_all(struct init_one *all, int nranks, struct boot **boots)
{
	for (int r = 0; r < nranks; r++) {
		all[r].meeting.boot = boots[r];
		if (pthread_create(&all[r].thread, NULL, init_one, &all[r])) {
			for (int i = r; i < nranks; i++) /* the started ones see them go */
				boot_close(boots[i]);
			return error_set(COLL_ERR_SYSTEM, "cannot start a thread for rank %d", r);
		}
		all[r].started = 1;
	}
	return COLL_SUCCESS;
}

static int init_join_all(struct init_one *all, int nranks, int code)
{
	for (int r = 0; r < nranks; r++)
		if (all[r].started) {
			pthread_join(all[r].thread, NULL);
			if (!code)
				code = error_raise(&all[r].error);
		}
	return code;
}

/* Some engines go wrong when threads that soon end make their first communicators. */
static int init_open_all(struct init_one *all, int nranks)
{
	struct link **links;
	int code;

	if (!all[0].link->plugin->backend.open_all)
		return COLL_SUCCESS; /* they are open */
	links = calloc((size_t)nranks, sizeof(*links));
	if (!links)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	for (int r = 0; r < nranks; r++)
		links[r] = all[r].link;
	code = link_open_all(links, nranks);
	free(links);
	return code;
}

/* All or none. */
static int init_all(coll_comm_t *comms, struct init_one *all, int nranks, struct boot **boots)
{
	int code = init_join_all(all, nranks, init_start_all(all, nranks, boots));

	if (!code)
		code = init_open_all(all, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		code = init_world(&comms[r], all[r].link);
		all[r].link = NULL;
	}
	for (int r = 0; code && r < nranks; r++) {
		if (all[r].link)
			link_release(all[r].link, 0);
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
	struct boot **boots = NULL;
	coll_config_t own;
	int uses_cuda;

	if (!code)
		code = conf_app(config, &own);
	if (code)
		return code;
	memset(comms, 0, (size_t)nranks * sizeof(*comms));
	uses_cuda = device_in_use();
	all = calloc((size_t)nranks, sizeof(*all));
	boots = calloc((size_t)nranks, sizeof(*boots));
	if (!all || !boots)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (!code)
		code = boot_open_local(boots, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		all[r].config = own;
		all[r].config.device = devices ? devices[r] : r;
		all[r].meeting =
			(struct meeting){.rank = r,
					 .nranks = nranks,
					 .uses_cuda = uses_cuda || (devices && devices[r] >= 0),
					 .together = 1};
	}
	if (!code)
		code = init_all(comms, all, nranks, boots);
	free(all);
	free(boots);
	return code;
}
