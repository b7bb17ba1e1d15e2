/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_both.c - a backend with a transport, that of simulated, and with functions of its own, whose engine
 * does not compare the calls of the ranks.
 *
 * Its allreduce sums up to eight int32: the engine ends the n-th of them when all ranks have called their n-th
 * with equal counts, else never.  Its broadcast ends at once on every rank and moves no data.
 */
#include <coll/backend.h>

/* The table of simulated is not exported. */
#undef COLL_BACKEND_EXPORT
#define COLL_BACKEND_EXPORT __attribute__((unused)) static
#define coll_backend_v1     both_simulated
#include "../../../plugins/simulated/simulated.c"
#undef coll_backend_v1

enum { BOTH_RANKS = 8, BOTH_COUNT = 8, BOTH_ROWS = 256 };

/* The n-th allreduce of one rank. */
struct both_call {
	uint64_t number, count;
	int32_t value[BOTH_COUNT];
};

/* The engine of all ranks. */
struct both_engine {
	pthread_mutex_t lock;
	int refs;
	struct both_call call[BOTH_ROWS][BOTH_RANKS];
	uint64_t came[BOTH_RANKS]; /* how often each rank has come to a split: coll_splits */
};

struct both {
	const coll_host_t *host;
	void *simulated;
	struct both_engine *engine;
	uint64_t called, ended;
	coll_args_t args[BOTH_ROWS];
	int in_group;
};

/* ----------------------------------------------------------------- the engine -- */

static int32_t both_fail(coll_error_t *err, int code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

static int32_t both_allreduce(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct both *both = ep;
	struct both_call *call;

	if (args->dtype != COLL_INT32 || args->op != COLL_SUM || args->count > BOTH_COUNT)
		return both_fail(err, COLL_ERR_UNSUPPORTED, "sums of up to eight int32 only");
	if (both->called - both->ended == BOTH_ROWS)
		return both_fail(err, COLL_ERR_DEVICE, "the engine is full");
	both->args[++both->called % BOTH_ROWS] = *args;
	call = &both->engine->call[both->called % BOTH_ROWS][both->host->rank];
	pthread_mutex_lock(&both->engine->lock);
	call->number = both->called;
	call->count = args->count;
	memcpy(call->value, args->sendbuf, args->count * sizeof(call->value[0]));
	pthread_mutex_unlock(&both->engine->lock);
	return COLL_SUCCESS;
}

static int32_t both_broadcast(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)args;
	(void)err;
	return COLL_SUCCESS;
}

/* Ends the oldest allreduce if all ranks have called it. */
static int both_end(struct both *both)
{
	const uint64_t number = both->ended + 1;
	const coll_args_t *args = &both->args[number % BOTH_ROWS];
	const struct both_call *call = both->engine->call[number % BOTH_ROWS];
	int32_t sum[BOTH_COUNT] = {0};
	int all = 1;

	pthread_mutex_lock(&both->engine->lock);
	for (uint32_t r = 0; r < both->host->nranks; r++) {
		all &= call[r].number == number && call[r].count == args->count;
		for (uint64_t i = 0; i < args->count; i++)
			sum[i] += call[r].value[i];
	}
	pthread_mutex_unlock(&both->engine->lock);
	if (!all)
		return 0;
	memcpy(args->recvbuf, sum, args->count * sizeof(sum[0]));
	both->ended = number;
	return 1;
}

static int32_t both_query(void *ep, coll_error_t *err)
{
	struct both *both = ep;

	if (both->in_group)
		return both_fail(err, COLL_ERR_INTERNAL, "queried inside a group");
	while (both->ended < both->called)
		if (!both_end(both))
			return COLL_IN_PROGRESS;
	return COLL_SUCCESS;
}

#ifndef BOTH_IS_A_PART
static int32_t both_group_begin(void *ep, coll_error_t *err)
{
	(void)err;
	((struct both *)ep)->in_group++;
	return COLL_SUCCESS;
}

static int32_t both_group_end(void *ep, coll_error_t *err)
{
	(void)err;
	((struct both *)ep)->in_group--;
	return COLL_SUCCESS;
}
#endif

static void *both_handle(void *ep)
{
	return ((struct both *)ep)->engine;
}

/* -------------------------------------------------------------- the transport -- */

static int32_t both_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	return sim_send(((struct both *)ep)->simulated, send, err);
}

static int32_t both_progress(void *ep)
{
	return sim_progress(((struct both *)ep)->simulated);
}

static void both_cancel(void *ep, coll_send_t *send)
{
	sim_cancel(((struct both *)ep)->simulated, send);
}

static void both_drop(void *ep, uint64_t cookie)
{
	sim_drop(((struct both *)ep)->simulated, cookie);
}

static int32_t both_wait_fd(void *ep)
{
	return sim_wait_fd(((struct both *)ep)->simulated);
}

static int32_t both_arm(void *ep)
{
	return sim_arm(((struct both *)ep)->simulated);
}

/* -------------------------------------------------------- opening and closing -- */

static void both_close(void *ep, int64_t timeout_ms)
{
	struct both *both = ep;
	struct both_engine *engine = both->engine;
	int refs = 1;

	if (both->simulated)
		sim_close(both->simulated, timeout_ms);
	if (engine) {
		pthread_mutex_lock(&engine->lock);
		refs = --engine->refs;
		pthread_mutex_unlock(&engine->lock);
	}
	if (!refs) {
		pthread_mutex_destroy(&engine->lock);
		free(engine);
	}
	free(both);
}

/* Rank 0 makes the engine, and tells the others its address. */
static int32_t both_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct both *both = calloc(1, sizeof(*both));
	struct both_engine *engine = NULL;
	uint64_t own = 0, all[BOTH_RANKS] = {0};
	int code;

	*ep = both;
	if (!both || host->nranks > BOTH_RANKS)
		return both_fail(err, COLL_ERR_UNSUPPORTED, "made for up to eight ranks");
	both->host = host;
	code = sim_open(host, &both->simulated, err);
	if (code)
		return code;
	if (host->rank == 0)
		engine = calloc(1, sizeof(*engine));
	if (engine) {
		pthread_mutex_init(&engine->lock, NULL);
		engine->refs = (int)host->nranks;
		own = (uintptr_t)engine;
	}
	code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	if (!code && !all[0])
		code = both_fail(err, COLL_ERR_NO_MEMORY, "no memory for the engine");
	if (!code)
		both->engine = (struct both_engine *)(uintptr_t)all[0];
	else
		free(engine);
	return code;
}

/* coll_splits.c includes this file, and has a table of its own. */
#ifndef BOTH_IS_A_PART
static const coll_transport_t both_transport = {
	.size = sizeof(coll_transport_t),
	.send = both_send,
	.progress = both_progress,
	.cancel = both_cancel,
	.drop = both_drop,
	.wait_fd = both_wait_fd,
	.arm = both_arm,
};

static const coll_native_t both_native = {
	.size = sizeof(coll_native_t),
	.allreduce = both_allreduce,
	.broadcast = both_broadcast,
	.group_begin = both_group_begin,
	.group_end = both_group_end,
	.query = both_query,
	.handle = both_handle,
};

__attribute__((visibility("default"))) const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME,
	.name = "both",
	.version = "1.0",
	.description = "messages, and operations of its own",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.transport = &both_transport,
	.native = &both_native,
	.open = both_open,
	.close = both_close,
};
#endif
