/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allreduce_ucc.c - the same loop as allreduce_coll.c over UCC, whose ranks exchange addresses over
 * this library's tcp backend.  coll run -n 2 ...
 */
#include <coll/coll.h>
#include <ucc/api/ucc.h>
#include "bench.h"

static coll_comm_t comm;
static ucc_lib_h lib;
static ucc_context_h context;
static ucc_team_h team;

static void check_coll(coll_result_t result)
{
	if (result == COLL_SUCCESS)
		return;
	fprintf(stderr, "allreduce_ucc: %s\n", coll_get_last_error(NULL));
	exit(1);
}

static void check(ucc_status_t status, const char *what)
{
	if (status == UCC_OK)
		return;
	fprintf(stderr, "allreduce_ucc: %s: %s\n", what, ucc_status_string(status));
	exit(1);
}

/* The exchange must not block, because peers may need this rank's UCX progress meanwhile. */
static ucc_status_t oob_allgather(void *in, void *out, size_t size, void *user, void **request)
{
	coll_request_t issued;

	(void)user;
	check_coll(coll_allgather(in, out, size, COLL_UINT8, comm, NULL));
	check_coll(coll_get_request(comm, &issued));
	*request = issued;
	return UCC_OK;
}

static ucc_status_t oob_test(void *request)
{
	int32_t done;

	check_coll(coll_test(request, &done));
	return done ? UCC_OK : UCC_INPROGRESS;
}

static ucc_status_t oob_free(void *request)
{
	check_coll(coll_request_free(request));
	return UCC_OK;
}

static void open_context(const ucc_oob_coll_t *oob)
{
	ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCC_THREAD_SINGLE};
	ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_TYPE |
					       UCC_CONTEXT_PARAM_FIELD_OOB,
				       .type = UCC_CONTEXT_SHARED,
				       .oob = *oob};
	ucc_lib_config_h lib_config;
	ucc_context_config_h config;
	char ranks[16];

	check(ucc_lib_config_read(NULL, NULL, &lib_config), "ucc_lib_config_read");
	check(ucc_init(&lib_params, lib_config, &lib), "ucc_init");
	ucc_lib_config_release(lib_config);
	check(ucc_context_config_read(lib, NULL, &config), "ucc_context_config_read");
	snprintf(ranks, sizeof(ranks), "%u", (unsigned)oob->n_oob_eps);
	check(ucc_context_config_modify(config, NULL, "ESTIMATED_NUM_EPS", ranks), "NUM_EPS");
	check(ucc_context_config_modify(config, NULL, "ESTIMATED_NUM_PPN", ranks), "NUM_PPN");
	check(ucc_context_create(lib, &params, config, &context), "ucc_context_create");
	ucc_context_config_release(config);
}

static void open_team(const ucc_oob_coll_t *oob)
{
	ucc_team_params_t params = {.mask = UCC_TEAM_PARAM_FIELD_EP |
					    UCC_TEAM_PARAM_FIELD_EP_RANGE |
					    UCC_TEAM_PARAM_FIELD_OOB,
				    .oob = *oob,
				    .ep = oob->oob_ep,
				    .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
	ucc_status_t status;

	check(ucc_team_create_post(&context, 1, &params, &team), "ucc_team_create_post");
	while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS)
		ucc_context_progress(context);
	check(status, "ucc_team_create_test");
}

static void allreduce(const void *in, void *out, size_t count, ucc_datatype_t dtype,
		      ucc_reduction_op_t op)
{
	ucc_coll_args_t args = {.coll_type = UCC_COLL_TYPE_ALLREDUCE, .op = op};
	ucc_coll_req_h request;
	ucc_status_t status;

	args.src.info = (ucc_coll_buffer_info_t){.buffer = (void *)(uintptr_t)in,
						 .count = count,
						 .datatype = dtype,
						 .mem_type = UCC_MEMORY_TYPE_HOST};
	args.dst.info = args.src.info;
	args.dst.info.buffer = out;
	check(ucc_collective_init(&args, &request, team), "ucc_collective_init");
	check(ucc_collective_post(request), "ucc_collective_post");
	while ((status = ucc_collective_test(request)) == UCC_INPROGRESS)
		ucc_context_progress(context);
	check(status, "ucc_collective_test");
	ucc_collective_finalize(request);
}

static void sum(const float *in, float *out, size_t count)
{
	allreduce(in, out, count, UCC_DT_FLOAT32, UCC_OP_SUM);
}

static double slowest(double took)
{
	double most;

	allreduce(&took, &most, 1, UCC_DT_FLOAT64, UCC_OP_MAX);
	return most;
}

int main(void)
{
	struct bench_program program = {.allreduce = sum, .slowest = slowest};
	ucc_oob_coll_t oob = {
		.allgather = oob_allgather, .req_test = oob_test, .req_free = oob_free};
	coll_config_t config;
	int32_t rank, nranks;

	check_coll(coll_config_init(&config, sizeof(config)));
	config.backend = "tcp";
	check_coll(coll_comm_init_env(&comm, &config));
	check_coll(coll_comm_user_rank(comm, &rank));
	check_coll(coll_comm_count(comm, &nranks));
	oob.oob_ep = (uint32_t)rank;
	oob.n_oob_eps = (uint32_t)nranks;
	open_context(&oob);
	open_team(&oob);
	program.rank = rank;
	program.nranks = nranks;
	bench_all(&program);
	while (ucc_team_destroy(team) == UCC_INPROGRESS)
		ucc_context_progress(context);
	ucc_context_destroy(context);
	ucc_finalize(lib);
	check_coll(coll_comm_destroy(comm));
	return 0;
}
