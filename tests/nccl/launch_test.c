/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_test.c - how the nccl backend launches: calls that need no new connection in the calling thread, without a
 * thread of anybody's; calls that connect ranks so that a timeout and an abort end them.
 */
#include "harness.h"

#include <dlfcn.h>

enum { BIG = 1 << 17, CALLS = 50, SOON = 20 };

static long threads(void)
{
	return nccl_calls("pthread_create") + nccl_calls("a thread's first operation");
}

/* ----------------------------------------------------------------- in the calling thread -- */

static void pair(struct rank *r, int64_t *there, void *stream)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;

	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_send(there, 8, COLL_INT64, next, 0, r->comm, stream), "send");
	rank_did(r, coll_recv(there + 8, 8, COLL_INT64, before, 0, r->comm, stream), "recv");
	rank_did(r, coll_group_end(), "group_end");
}

static void call_every_kind(struct rank *r, int64_t *there, void *stream)
{
	for (size_t n = 1; n <= BIG; n *= 64)
		rank_did(r, coll_allreduce(there, there, n, COLL_INT64, COLL_SUM, r->comm, stream),
			 "allreduce");
	pair(r, there, stream);
	rank_did(r, coll_alltoall(there, there + 64, 4, COLL_INT64, r->comm, stream), "alltoall");
	rank_did(r, coll_gather(there, there + 64, 4, COLL_INT64, 1, r->comm, stream), "gather");
	rank_did(r, coll_scatter(there, there + 64, 4, COLL_INT64, 0, r->comm, stream), "scatter");
	rank_did(r, coll_group_start(), "group_start");
	for (int i = 0; i < 3; i++)
		rank_did(r,
			 coll_broadcast(there, there, 100, COLL_INT64, i % r->nranks, r->comm,
					stream),
			 "broadcast");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_barrier(r->comm), "barrier");
}

/* Waits until every rank is here, without a call of the communicator. */
static void meet(struct rank *r, _Atomic int *come, int times)
{
	double deadline = ranks_now() + 60;

	atomic_fetch_add(come, 1);
	while (atomic_load(come) < times * r->nranks && ranks_now() < deadline)
		ranks_sleep(0.001);
}

static void no_threads(struct rank *r)
{
	_Atomic int *come = r->user;
	int64_t *there = device_new(r->rank, BIG * sizeof(*there), 0);
	void *stream = nccl_stream(r->rank), *streams[] = {NULL, stream, CU_STREAM_PER_THREAD};
	long before;

	for (int i = 0; i < 3; i++)
		call_every_kind(r, there, streams[i]);
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	meet(r, come, 1);
	before = threads();
	meet(r, come, 2);
	for (int i = 0; i < CALLS; i++)
		call_every_kind(r, there, streams[i % 3]);
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	context_begin(r->rank);
	cuStreamSynchronize(CU_STREAM_PER_THREAD);
	context_end(r->rank);
	meet(r, come, 3);
	if (threads() != before)
		rank_fail(r, "%ld threads for calls whose connections exist", threads() - before);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* ------------------------------------------------------------------------- connecting -- */

enum { SECOND_ALGORITHM, FIRST_SEND, IN_GROUP, SPLIT, WAYS };
static const char *const ways[] = {"a collective that takes another algorithm", "the first send",
				   "a group", "a split"};

/* A call that has to connect ranks, of which only rank 0 makes it. */
static int connect_alone(struct rank *r, int way, int64_t *there, coll_comm_t *half)
{
	int code = 0;

	switch (way) {
	case SECOND_ALGORITHM:
		code = coll_allreduce(there, there, BIG, COLL_INT64, COLL_SUM, r->comm, NULL);
		break;
	case FIRST_SEND: code = coll_send(there, 1, COLL_INT64, 1, 0, r->comm, NULL); break;
	case IN_GROUP:
		code = coll_group_start();
		for (int i = 0; i < 3 && !code; i++)
			code = coll_allreduce(there, there, BIG, COLL_INT64, COLL_SUM, r->comm,
					      NULL);
		code = coll_group_end();
		break;
	default: code = coll_comm_split(r->comm, 0, 0, half, NULL); break;
	}
	return code ? code : coll_sync(r->comm);
}

struct alone {
	int way, aborts;
	_Atomic int over;
};

static void *abort_soon(void *arg)
{
	ranks_sleep(0.2);
	coll_comm_abort(arg);
	return NULL;
}

static void alone(struct rank *r)
{
	struct alone *a = r->user;
	int64_t *there = device_new(r->rank, BIG * sizeof(*there), 0);
	coll_comm_t half = NULL;
	double begin;
	pthread_t id;
	int code;

	nccl_works(r);
	begin = ranks_now();
	if (r->rank == 0) {
		if (a->aborts && pthread_create(&id, NULL, abort_soon, r->comm))
			bail_out("cannot start a thread");
		code = connect_alone(r, a->way, there, &half);
		if (a->aborts)
			pthread_join(id, NULL);
		nccl_fails(r, code, a->aborts ? COLL_ERR_ABORTED : COLL_ERR_TIMEOUT, "",
			   ways[a->way]);
		if (half)
			rank_fail(r, "there is a communicator");
		atomic_store(&a->over, 1);
	}
	while (!atomic_load(&a->over) && ranks_now() - begin < 60)
		ranks_sleep(0.001);
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	device_free(r->rank, there);
}

static void test_alone(void)
{
	setenv("COLL_TIMEOUT", "1s", 1);
	setenv("COLL_INIT_TIMEOUT", "5s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	for (int way = 0; way < WAYS; way++)
		for (int aborts = 0; aborts < 2; aborts++) {
			struct alone a = {.way = way, .aborts = aborts};

			nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, alone, &a},
				"%s while a peer does not come: %s", ways[way],
				aborts ? "an abort ends it" : "timeout");
		}
	setenv("COLL_TIMEOUT", "60s", 1);
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "5s", 1);
}

/* ------------------------------------------------------------------- a thread that is late -- */

/* The next thread that the calling thread starts is late: it begins when NCCL's communicator is being aborted. */
static _Thread_local int next_is_late;
static _Atomic int late_over;

struct late {
	void *(*run)(void *arg);
	void *arg;
};

static void *late_run(void *arg)
{
	const struct late late = *(struct late *)arg;
	const double deadline = ranks_now() + SOON;
	void *result;

	free(arg);
	while (!nccl_calls("ncclCommAbort") && ranks_now() < deadline)
		ranks_sleep(0.0005);
	result = late.run(late.arg);
	atomic_store(&late_over, 1);
	return result;
}

/* Takes the place of the C library's function, also for plugins. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attr,
							  void *(*run)(void *arg), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *symbol = dlsym(RTLD_NEXT, "pthread_create");
	struct late *late;

	memcpy(&next, &symbol, sizeof(next));
	if (!next_is_late)
		return next(thread, attr, run, arg);
	next_is_late = 0;
	late = malloc(sizeof(*late));
	*late = (struct late){run, arg};
	return next(thread, attr, late_run, late);
}

struct late_call {
	int grouped; /* with a call of another communicator, which the abort drops too */
	_Atomic int come;
};

static int send_late(struct rank *r, int64_t *there, coll_comm_t other)
{
	int code = other ? coll_group_start() : COLL_SUCCESS;

	next_is_late = 1;
	if (!code)
		code = coll_send(there, 1, COLL_INT64, 1, 0, r->comm, NULL);
	if (!code && other)
		code = coll_send(there, 1, COLL_INT64, 1, 0, other, NULL);
	return code || !other ? code : coll_group_end();
}

/* The thread of a call gets no processor until an abort frees the communicator, for which a busy device lets it wait. */
static void late_call(struct rank *r)
{
	struct late_call *call = r->user;
	const double deadline = ranks_now() + SOON;
	coll_comm_t other = NULL;
	int64_t *there = device_new(r->rank, sizeof(*there), 0);
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};

	nccl_works(r);
	if (call->grouped)
		rank_did(r, coll_comm_dup(r->comm, &other), "dup");
	meet(r, &call->come, 1);
	if (r->rank == 0) {
		log_begin();
		nccl_gate(&gate, r->rank, stream);
		setenv("STANDIN_CUDA_FREE", "wait", 1);
		rank_did(r, send_late(r, there, other), "send");
		rank_did(r, coll_comm_abort(r->comm), "abort");
		if (other)
			nccl_fails(r, coll_sync(other), COLL_ERR_INTERNAL, "was aborted",
				   "sync of the other communicator");
		while (!atomic_load(&late_over) && ranks_now() < deadline)
			ranks_sleep(0.001);
		if (!atomic_load(&late_over))
			rank_fail(r, "the call has no thread, or the thread has not ended");
		nccl_open(&gate);
		nccl_stream_do(r->rank, stream, cuStreamSynchronize);
		log_end();
	}
	meet(r, &call->come, 2);
	if (other)
		rank_did(r, coll_comm_destroy(other), "destroy");
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* ------------------------------------------------------------------------------- init -- */

static void init_hangs(struct rank *r)
{
	double begin = ranks_now();

	nccl_fails(r, nccl_init(r, &r->comm, NULL), COLL_ERR_TIMEOUT, "NCCL", "init");
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
}

/* NCCL does not end the split: the parent is aborted, and everything is gone afterwards. */
static void split_hangs(struct rank *r)
{
	double begin = ranks_now();
	coll_comm_t half = NULL;

	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	nccl_fails(r, coll_comm_split(r->comm, 0, 0, &half, NULL), COLL_ERR_TIMEOUT, "NCCL",
		   "split");
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
}

static void test_init(void)
{
	setenv("COLL_INIT_TIMEOUT", "1s", 1);
	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	nccl_ok(&(struct nccl_job){2, 0, INIT_NONE, init_hangs, NULL},
		"NCCL never connects the ranks: init_timeout");
	unsetenv("STANDIN_NCCL_INIT_HANG");
	setenv("COLL_INIT_TIMEOUT", "5s", 1);
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, split_hangs, NULL},
		"NCCL never ends a split: init_timeout");
	unsetenv("STANDIN_NCCL_INIT_HANG");
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
}

int main(int argc, char **argv)
{
	struct late_call *call = ranks_memory(sizeof(*call));
	_Atomic int come;

	nccl_begin(argv, argc > 1 ? argv[1] : ".libs");
	for (int grouped = 0; grouped < 2; grouped++) {
		*call = (struct late_call){.grouped = grouped};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, late_call, call},
			"an abort before the thread of a %s has begun", grouped ? "group" : "call");
	}
	nccl_hold_devices();
	for (int nranks = 2; nranks <= 4; nranks += 2) {
		atomic_init(&come, 0);
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, no_threads, &come},
			"no thread for a call that needs no new connection");
	}
	test_alone();
	test_init();
	is_int(nccl_comms_left(), 0, "no communicator of NCCL's is left");
	is_int(standin_contexts_pushed(), 0, "nor a context with a thread");
	is_int(standin_streams(), 0, "nor a stream");
	return done_testing();
}
