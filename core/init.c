/* SPDX-License-Identifier: BSD-3-Clause */
/* init.c - making communicators: meet, agree on a backend, open it. */
#include "comm.h"
#include "error.h"
#include "handle.h"
#include "log.h"
#include "select.h"

#include <stdlib.h>
#include <string.h>

/* How one rank meets the others. */
struct meeting {
	int rank, nranks;
	const char *id;            /* from coll_get_unique_id, or */
	const struct launch *env;  /* from the environment, or */
	coll_exchange_fn exchange; /* the caller's own, or */
	void *user;
	struct boot *boot; /* already met */
};

static int init_meet(struct boot **boot, const struct meeting *m, const struct conf *conf)
{
	int64_t timeout_ms = conf_int(conf, "init_timeout") / 1000;
	const char *interface_name = conf_string(conf, "interface");

	*boot = m->boot;
	if (m->boot)
		return COLL_SUCCESS;
	if (m->exchange)
		return boot_open_user(boot, m->exchange, m->user, m->rank, m->nranks, timeout_ms);
	if (m->env)
		return boot_open_root(boot, m->env->root, m->env->key[0] ? m->env->key : NULL,
				      m->rank, m->nranks, interface_name, timeout_ms);
	return boot_open_id(boot, m->id, m->rank, m->nranks, interface_name, timeout_ms);
}

/* All tunings are not the same: takes rank 0's. */
static int init_take_tuning(struct boot *boot, const struct tuning *own, struct tuning *tuning,
			    int64_t timeout_ms)
{
	struct tuning *all = calloc((size_t)boot_nranks(boot), sizeof(*all));
	char differ[256];
	int code;

	if (!all)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", boot_nranks(boot));
	code = boot_exchange(boot, own, all, sizeof(*own), timeout_ms);
	if (!code)
		*tuning = all[0];
	free(all);
	if (code || !memcmp(own, tuning, sizeof(*own)))
		return code;
	choose_differences(own, tuning, differ, sizeof(differ));
	log_warn("rank %d: %s differ from rank 0's, which are used", boot_rank(boot), differ);
	return COLL_SUCCESS;
}

/*
 * Every rank chooses algorithms and builds schedules with rank 0's values.  *tuning: this rank's
 * own, then rank 0's.
 */
static int init_agree_tuning(struct boot *boot, struct tuning *tuning, int64_t timeout_ms)
{
	int n = boot_nranks(boot), code, same = 1;
	const struct tuning own = *tuning;
	uint64_t brief[2] = {own.table, choose_hash(&own)}, (*all)[2];

	all = calloc((size_t)n, sizeof(*all));
	if (!all)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
	code = boot_exchange(boot, brief, all, sizeof(brief), timeout_ms);
	for (int r = 1; !code && r < n; r++) {
		if (all[r][0] != all[0][0])
			code = error_set(COLL_ERR_VERSION,
					 "rank %d knows other algorithms than rank 0: all ranks "
					 "need the same version of libcoll (rank %d has %s)",
					 r, boot_rank(boot), coll_version_string());
		same &= all[r][1] == all[0][1];
	}
	free(all);
	return code || same ? code : init_take_tuning(boot, &own, tuning, timeout_ms);
}

/*
 * All steps after the meeting.  Takes over boot, conf and plugins.  A rank that fails goes on
 * taking part until everybody knows.
 */
static int init_link(struct link **link, struct boot *boot, struct conf *conf,
		     struct plugin_list *plugins, struct tuning *tuning, int code, int device)
{
	int64_t timeout_ms = conf_int(conf, "init_timeout") / 1000;
	const struct plugin *plugin = NULL;

	*link = NULL;
	code = select_agree(boot, conf, plugins, boot_in_process(boot), code, &plugin);
	if (!code)
		code = init_agree_tuning(boot, tuning, timeout_ms);
	if (code) {
		boot_close(boot);
		plugins_free(plugins);
		conf_free(conf);
		return code;
	}
	code = link_open(link, boot, conf, plugins, plugin, tuning, device);
	if (!*link)
		return code;
	code = select_all_ok(boot, code, timeout_ms);
	if (code) {
		link_release(*link, 0);
		*link = NULL;
		return code;
	}
	log_info("rank %d of %d uses backend '%s' from %s", boot_rank(boot), boot_nranks(boot),
		 plugin->backend.name, plugin->path);
	return COLL_SUCCESS;
}

int init_comm(coll_comm_t *out, struct link *link)
{
	struct comm *comm = NULL;
	int code = wait_serve(link);

	link_enter(link); /* from now on the calling thread drives it */
	link->next_context = 1;
	if (!code)
		code = comm_new(&comm, link, 0, link->rank, link->nranks, NULL);
	link_leave(link);
	if (code) {
		if (comm)
			comm_free(comm);
		link_release(link, 0);
		return code;
	}
	*out = comm->handle;
	return COLL_SUCCESS;
}

static int init(coll_comm_t *out, const struct meeting *m, const coll_config_t *config)
{
	struct conf *conf = NULL;
	struct plugin_list *plugins = NULL;
	struct boot *boot = NULL;
	struct error_first first = {0};
	struct tuning tuning;
	struct link *link;
	int code = conf_load(config, &conf), met, device = -1;

	*out = NULL;
	if (!conf) {
		boot_close(m->boot);
		return code;
	}
	if (!code)
		code = choose_compile(conf, &tuning);
	if (!code)
		code = plugins_load(conf, select_wants, &plugins);
	/* A rank with a bad configuration still meets the others, to tell them. */
	if (code)
		log_debug("rank %d: %s", m->rank, error_text());
	error_note(&first, code);
	met = init_meet(&boot, m, conf);
	if (met) {
		plugins_free(plugins);
		conf_free(conf);
		return met;
	}
	code = error_raise(&first);
	conf_warn_unknown_env(conf);
	if (config && config->size >= offsetof(coll_config_t, reserved))
		device = config->device;
	code = init_link(&link, boot, conf, plugins, &tuning, code, device);
	return code ? code : init_comm(out, link);
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

coll_result_t coll_comm_init_rank(coll_comm_t *comm, int32_t nranks, const char *id, int32_t rank,
				  const coll_config_t *config)
{
	struct meeting m = {.rank = rank, .nranks = nranks, .id = id};
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
	struct meeting m = {.env = &launch};
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
	struct meeting m = {.rank = rank, .nranks = nranks, .exchange = exchange, .user = user};
	int code = init_check("coll_comm_init_exchange", comm, nranks, rank);

	if (comm)
		*comm = NULL;
	if (!code && !exchange)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_init_exchange: exchange is NULL");
	return code ? code : init(comm, &m, config);
}

/* --------------------------------------------------- all ranks of one process -- */

/* One rank's part, in a thread of its own: opening may have to wait for the others. */
struct init_one {
	pthread_t thread;
	int started;
	struct error_first error;
	struct meeting meeting;
	coll_config_t config;
	coll_comm_t comm;
};

static void *init_one(void *arg)
{
	struct init_one *one = arg;

	error_note(&one->error, init(&one->comm, &one->meeting, &one->config));
	return NULL;
}

static int init_start_all(struct init_one *all, int nranks, struct boot **boots)
{
	for (int r = 0; r < nranks; r++) {
		all[r].meeting = (struct meeting){.rank = r, .nranks = nranks, .boot = boots[r]};
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

/* The calling thread drives all of them until others call in. */
static void init_adopt(coll_comm_t handle)
{
	struct comm *comm = comm_enter(handle, "coll_comm_init_all");

	if (comm)
		comm_leave(comm);
}

coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks, const int32_t *devices,
				 const coll_config_t *config)
{
	int code = init_check("coll_comm_init_all", comms, nranks, 0);
	struct init_one *all = NULL;
	struct boot **boots = NULL;
	coll_config_t own;

	if (!code)
		code = conf_app(config, &own);
	if (code)
		return code;
	memset(comms, 0, (size_t)nranks * sizeof(*comms));
	all = calloc((size_t)nranks, sizeof(*all));
	boots = calloc((size_t)nranks, sizeof(*boots));
	if (!all || !boots)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (!code)
		code = boot_open_local(boots, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		all[r].config = own;
		all[r].config.device = devices ? devices[r] : r;
	}
	if (!code)
		code = init_join_all(all, nranks, init_start_all(all, nranks, boots));
	for (int r = 0; all && r < nranks; r++) {
		comms[r] = all[r].comm;
		if (code && comms[r]) {
			coll_comm_destroy(comms[r]);
			comms[r] = NULL;
		} else if (comms[r]) {
			init_adopt(comms[r]);
		}
	}
	free(all);
	free(boots);
	return code;
}
