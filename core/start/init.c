/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * init.c - the public functions that make the first communicators of a program.  Each has a way to meet the other ranks:
 * an id, the environment of a launcher, a function of the application, or the memory of one process.
 */
#include "start/library.h"
#include "meet/meet.h"
#include "device/device.h"
#include "algorithm/rules.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the ways to meet -- */

static int64_t init_timeout_ms(const struct config *config)
{
	return config_int(config, "init_timeout") / 1000;
}

/* The maker of an id listens already, so a rank that only tells of its failure needs no interface. */
static int init_meet_id(struct bootstrap **bootstrap, const struct rendezvous *m,
			const struct config *config, int failed)
{
	const struct bootstrap_id id = {.text = m->way, .maker = -1};

	return bootstrap_open_id(bootstrap, &id, m->rank, m->nranks,
				 failed ? NULL : config_string(config, "interface"),
				 init_timeout_ms(config));
}

/* Only rank 0 is to listen, so another rank that only tells of its failure needs no interface. */
static int init_meet_launch(struct bootstrap **bootstrap, const struct rendezvous *m,
			    const struct config *config, int failed)
{
	return bootstrap_open_launch(bootstrap, m->way,
				     failed && m->rank > 0 ? NULL
							   : config_string(config, "interface"),
				     init_timeout_ms(config));
}

/* The exchange of the application, and the first argument that it gets. */
struct init_exchange {
	coll_exchange_fn call;
	void *user;
};

static int init_meet_exchange(struct bootstrap **bootstrap, const struct rendezvous *m,
			      const struct config *config, int failed)
{
	const struct init_exchange *exchange = m->way;

	(void)failed;
	return bootstrap_open_user(bootstrap, exchange->call, exchange->user, m->rank, m->nranks,
				   init_timeout_ms(config));
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

static int init_one(coll_comm_t *out, struct rendezvous *m, const coll_config_t *config)
{
	m->library = &library;
	m->config = config;
	m->uses_cuda = device_in_use() | (comm_config_device(config) >= 0);
	return comm_make(out, m, 1);
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
	struct rendezvous m = {.rank = rank, .nranks = nranks, .way = id};
	int code = init_check("coll_comm_init_rank", comm, nranks, rank);

	m.check = bootstrap_check_interface;
	m.meet = init_meet_id;
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
	struct rendezvous m = {.way = &launch};
	int code = init_check("coll_comm_init_env", comm, 1, 0);

	m.check = bootstrap_check_interface;
	m.meet = init_meet_launch;
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
	const struct init_exchange way = {exchange, user};
	struct rendezvous m = {.rank = rank, .nranks = nranks, .way = &way};
	int code = init_check("coll_comm_init_exchange", comm, nranks, rank);

	m.meet = init_meet_exchange;
	if (comm)
		*comm = NULL;
	if (!code && !exchange)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_init_exchange: exchange is NULL");
	return code ? code : init_one(comm, &m, config);
}

/* The way of each rank, all of which are in this process.  config[r]: the application's, with the device of rank r. */
static int init_all_ways(struct rendezvous *m, coll_config_t *config, int nranks,
			 const int32_t *devices, const coll_config_t *own)
{
	struct bootstrap **bootstraps = calloc((size_t)nranks, sizeof(*bootstraps));
	const int uses_cuda = device_in_use();
	int code;

	if (!bootstraps)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	code = bootstrap_open_local(bootstraps, nranks);
	for (int r = 0; !code && r < nranks; r++) {
		config[r] = *own;
		config[r].device = devices ? devices[r] : r;
		m[r] = (struct rendezvous){.library = &library,
					   .rank = r,
					   .nranks = nranks,
					   .config = &config[r],
					   .bootstrap = bootstraps[r],
					   .uses_cuda = uses_cuda || (devices && devices[r] >= 0),
					   .device_unnamed = !devices,
					   .together = 1};
	}
	free(bootstraps);
	return code;
}

coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks, const int32_t *devices,
				 const coll_config_t *config)
{
	CANCEL_OFF;
	int code = init_check("coll_comm_init_all", comms, nranks, 0);
	struct rendezvous *m;
	coll_config_t own, *configs;

	if (!code)
		code = config_app(config, &own);
	if (code)
		return code;
	memset(comms, 0, (size_t)nranks * sizeof(*comms));
	m = calloc((size_t)nranks, sizeof(*m));
	configs = calloc((size_t)nranks, sizeof(*configs));
	if (!m || !configs)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (!code)
		code = init_all_ways(m, configs, nranks, devices, &own);
	if (!code)
		code = comm_make(comms, m, nranks);
	free(m);
	free(configs);
	return code;
}
