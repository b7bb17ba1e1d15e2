/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_ucc.c - UCC over UCX.  UCC has no send and receive, and no sums of f16 on processors.  A group is 100
 * allreduces posted together.
 *
 *   BENCH_UCC=NEW-FILE coll run -n 2 -- bench_ucc allreduce 8 1024
 */
#include <ucc/api/ucc.h>
#include "bench.h"

/* The exchanges before UCC is up go through the file that BENCH_UCC names: one after the other, on all ranks alike. */
enum { UCC_EXCHANGES = 1024, UCC_BYTES = 64 << 20 };

struct ucc_file {
	uint32_t ready[UCC_EXCHANGES]; /* ranks that have written */
	unsigned char bytes[UCC_BYTES];
};

struct ucc_exchange {
	int index;
	void *out;
	const unsigned char *from;
	size_t bytes;
};

static struct {
	struct ucc_file *file;
	int rank, nranks, exchanges;
	size_t used;
	ucc_lib_h lib;
	ucc_context_h context;
	ucc_team_h team;
} ucc;

static void check(ucc_status_t status, const char *what)
{
	if (status == UCC_OK)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, ucc_status_string(status));
	exit(1);
}

/* Must not block: peers may need this rank's progress meanwhile. */
static ucc_status_t exchange_start(void *in, void *out, size_t size, void *user, void **request)
{
	struct ucc_exchange *x = malloc(sizeof(*x));
	size_t bytes = size * (size_t)ucc.nranks;

	(void)user;
	if (!x || ucc.exchanges == UCC_EXCHANGES || bytes > UCC_BYTES - ucc.used)
		bench_fail("UCC's exchanges need more memory than bench_ucc.c has", "");
	*x = (struct ucc_exchange){ucc.exchanges++, out, ucc.file->bytes + ucc.used, bytes};
	memcpy(ucc.file->bytes + ucc.used + size * (size_t)ucc.rank, in, size);
	ucc.used += (bytes + 63) / 64 * 64;
	__atomic_add_fetch(&ucc.file->ready[x->index], 1, __ATOMIC_RELEASE);
	*request = x;
	return UCC_OK;
}

static ucc_status_t exchange_test(void *request)
{
	const struct ucc_exchange *x = request;

	if (__atomic_load_n(&ucc.file->ready[x->index], __ATOMIC_ACQUIRE) < (uint32_t)ucc.nranks) {
		usleep(100);
		return UCC_INPROGRESS;
	}
	memcpy(x->out, x->from, x->bytes);
	return UCC_OK;
}

static ucc_status_t exchange_free(void *request)
{
	free(request);
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
	check(ucc_init(&lib_params, lib_config, &ucc.lib), "ucc_init");
	ucc_lib_config_release(lib_config);
	check(ucc_context_config_read(ucc.lib, NULL, &config), "ucc_context_config_read");
	snprintf(ranks, sizeof(ranks), "%d", ucc.nranks);
	check(ucc_context_config_modify(config, NULL, "ESTIMATED_NUM_EPS", ranks), "NUM_EPS");
	check(ucc_context_config_modify(config, NULL, "ESTIMATED_NUM_PPN", ranks), "NUM_PPN");
	check(ucc_context_create(ucc.lib, &params, config, &ucc.context), "ucc_context_create");
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

	check(ucc_team_create_post(&ucc.context, 1, &params, &ucc.team), "ucc_team_create_post");
	while ((status = ucc_team_create_test(ucc.team)) == UCC_INPROGRESS)
		ucc_context_progress(ucc.context);
	check(status, "ucc_team_create_test");
}

static ucc_coll_req_h post(ucc_coll_args_t *args)
{
	ucc_coll_req_h request;

	check(ucc_collective_init(args, &request, ucc.team), "ucc_collective_init");
	check(ucc_collective_post(request), "ucc_collective_post");
	return request;
}

static void finish(ucc_coll_req_h request)
{
	ucc_status_t status;

	while ((status = ucc_collective_test(request)) == UCC_INPROGRESS)
		ucc_context_progress(ucc.context);
	check(status, "ucc_collective_test");
	ucc_collective_finalize(request);
}

static ucc_coll_buffer_info_t buffer(const void *p, size_t count, ucc_datatype_t type)
{
	return (ucc_coll_buffer_info_t){.buffer = (void *)(uintptr_t)p,
					.count = count,
					.datatype = type,
					.mem_type = UCC_MEMORY_TYPE_HOST};
}

static void group(ucc_coll_args_t *args, const struct bench_call *c)
{
	ucc_coll_req_h requests[BENCH_GROUPED];

	for (size_t i = 0; i < BENCH_GROUPED; i++) {
		args->dst.info.buffer = c->out + i * c->count;
		requests[i] = post(args);
	}
	for (size_t i = 0; i < BENCH_GROUPED; i++)
		finish(requests[i]);
}

static int call(struct bench_rank *r, const struct bench_call *c)
{
	ucc_coll_args_t args = {.op = UCC_OP_SUM, .root = (uint64_t)c->root};
	ucc_datatype_t type = c->op == BENCH_ALLREDUCE_BF16 ? UCC_DT_BFLOAT16 : UCC_DT_FLOAT32;
	size_t n = c->count, all = n * (size_t)r->nranks;

	args.src.info = buffer(c->in, n, type);
	args.dst.info = buffer(c->out, n, type);
	switch (c->op) {
	case BENCH_ALLREDUCE:
	case BENCH_ALLREDUCE_BF16:
	case BENCH_GROUP: args.coll_type = UCC_COLL_TYPE_ALLREDUCE; break;
	case BENCH_ALLGATHER:
		args.coll_type = UCC_COLL_TYPE_ALLGATHER;
		args.dst.info.count = all;
		break;
	case BENCH_BROADCAST:
		args.coll_type = UCC_COLL_TYPE_BCAST;
		if (r->rank != c->root)
			args.src.info.buffer = c->out;
		break;
	case BENCH_REDUCE_SCATTER:
		args.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER;
		args.src.info.count = all;
		break;
	case BENCH_ALLTOALL:
		args.coll_type = UCC_COLL_TYPE_ALLTOALL;
		args.src.info.count = args.dst.info.count = all;
		break;
	case BENCH_REDUCE: args.coll_type = UCC_COLL_TYPE_REDUCE; break;
	case BENCH_BARRIER: args.coll_type = UCC_COLL_TYPE_BARRIER; break;
	default: return 0;
	}
	if (c->op == BENCH_GROUP)
		group(&args, c);
	else
		finish(post(&args));
	return 1;
}

static void *map_file(const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	void *file = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct ucc_file)) == 0)
		file = mmap(NULL, sizeof(struct ucc_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    0);
	if (file == MAP_FAILED)
		bench_fail("no memory in the file that BENCH_UCC names", "");
	close(fd);
	return file;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("COLL_RANK"), *size = getenv("COLL_WORLD_SIZE");
	ucc_oob_coll_t oob = {
		.allgather = exchange_start, .req_test = exchange_test, .req_free = exchange_free};
	struct bench_rank r = {.call = call};

	if (!rank || !size)
		bench_fail("usage: BENCH_UCC=NEW-FILE coll run -n N -- bench_ucc ...", "");
	ucc.rank = r.rank = atoi(rank);
	ucc.nranks = r.nranks = atoi(size);
	ucc.file = map_file(getenv("BENCH_UCC"));
	oob.oob_ep = (uint32_t)r.rank;
	oob.n_oob_eps = (uint32_t)r.nranks;
	open_context(&oob);
	open_team(&oob);
	r.shared = bench_shared_file();
	bench_rank_run(&r, argc, argv);
	while (ucc_team_destroy(ucc.team) == UCC_INPROGRESS)
		ucc_context_progress(ucc.context);
	ucc_context_destroy(ucc.context);
	ucc_finalize(ucc.lib);
	return 0;
}
