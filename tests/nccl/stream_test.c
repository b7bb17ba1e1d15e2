/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_test.c - the stream on which the nccl backend works, and the order of its work; groups;
 * the parts of NCCL and of the thread's CUDA context that the application can see.
 */
#include "harness.h"

enum { TENSORS = 40, ELEMENTS = 1000 };

/* Runs an allreduce of one number on a stream; the same stream writes the input first. */
static int stream_allreduce(struct rank *r, int64_t *there, void *stream)
{
	return rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream),
			"allreduce");
}

/* ------------------------------------------------------------------ own stream -- */

/*
 * Blocks the default stream of the device until the gate opens.  Every stream that was not created
 * as non-blocking then waits.
 */
static void own_stream(struct rank *r)
{
	struct nccl_gate gate = {0, 0};
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);

	nccl_gate(&gate, r->rank, NULL);
	stream_allreduce(r, there, NULL);
	rank_did(r, coll_sync(r->comm), "sync, past the default stream");
	nccl_open(&gate);
	nccl_stream_do(r->rank, NULL, cuStreamSynchronize);
	if (nccl_value(r->rank, there) != r->nranks)
		rank_fail(r, "the sum is wrong");
	device_free(r->rank, there);
}

/* ------------------------------------------------------------- the caller's stream -- */

/*
 * The gate blocks the stream ahead of the operation: the call returns, and the operation has not
 * run.
 */
static void callers_stream(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	int64_t x = r->rank + 1, sum = r->nranks * (r->nranks + 1) / 2;
	int64_t *there = nccl_new(r->rank, &x, 1);

	nccl_gate(&gate, r->rank, stream);
	for (int i = 0; i < 3; i++)
		stream_allreduce(r, there, stream);
	if (nccl_stream_do(r->rank, stream, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "the stream did not wait for what is before it");
	rank_did(r, coll_sync(r->comm), "sync, which is for the own stream");
	if (nccl_stream_do(r->rank, stream, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "sync has waited for the caller's stream");
	nccl_open(&gate);
	if (nccl_stream_do(r->rank, stream, cuStreamSynchronize))
		rank_fail(r, "the stream failed");
	if (nccl_value(r->rank, there) != sum * r->nranks * r->nranks)
		rank_fail(r, "the sum of sums is %lld", (long long)nccl_value(r->rank, there));
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* A copy issued on the same stream right after the call reads the result. */
static void order_after_call(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	int64_t x = 3, *there = nccl_new(r->rank, &x, 1), y = 0;
	int64_t *copy = device_new(r->rank, 64, 0);

	for (int i = 0; i < 20; i++) {
		device_move(r->rank, there, &x, sizeof(x));
		stream_allreduce(r, there, stream);
		context_begin(r->rank);
		if (cuMemcpyAsync((uintptr_t)copy, (uintptr_t)there, sizeof(x), stream) ||
		    cuStreamSynchronize(stream))
			rank_fail(r, "the copy failed");
		context_end(r->rank);
		y = nccl_value(r->rank, copy);
		if (y != 3 * r->nranks)
			rank_fail(r, "round %d: the copy found %lld", i, (long long)y);
	}
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
	device_free(r->rank, copy);
}

/* Alternates between several streams of the caller and the communicator's own. */
static void many_streams(struct rank *r)
{
	void *streams[4] = {NULL, nccl_stream(r->rank), nccl_stream(r->rank), NULL};
	int64_t x[4] = {1, 2, 3, 4}, *there = nccl_new(r->rank, x, 4);

	for (int i = 0; i < 4; i++)
		stream_allreduce(r, there + i, streams[i]);
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 1; i < 3; i++) {
		nccl_stream_do(r->rank, streams[i], cuStreamSynchronize);
		nccl_stream_do(r->rank, streams[i], cuStreamDestroy_v2);
	}
	for (int i = 0; i < 4; i++)
		if (nccl_value(r->rank, there + i) != x[i] * r->nranks)
			rank_fail(r, "number %d is wrong", i);
	device_free(r->rank, there);
}

/* -------------------------------------------------------------------------- groups -- */

static void group_of_tensors(struct rank *r)
{
	float *there[TENSORS], x[ELEMENTS];
	int bad = 0;

	rank_did(r, coll_group_start(), "group_start");
	for (int t = 0; t < TENSORS; t++) {
		for (int i = 0; i < ELEMENTS; i++)
			x[i] = (float)(t + i % 5 + r->rank);
		there[t] = device_new(r->rank, sizeof(x), 0);
		device_move(r->rank, there[t], x, sizeof(x));
		rank_did(r,
			 coll_allreduce(there[t], there[t], (size_t)(ELEMENTS - t), COLL_FLOAT32,
					t % 2 ? COLL_MAX : COLL_SUM, r->comm, NULL),
			 "allreduce");
	}
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int t = 0; t < TENSORS; t++) {
		device_move(r->rank, x, there[t], sizeof(x));
		device_free(r->rank, there[t]);
		for (int i = 0; i < ELEMENTS - t; i++) {
			float sum =
				(float)(r->nranks * (t + i % 5) + r->nranks * (r->nranks - 1) / 2);
			float most = (float)(t + i % 5 + r->nranks - 1);

			bad += x[i] != (t % 2 ? most : sum);
		}
	}
	if (bad)
		rank_fail(r, "%d elements are wrong", bad);
}

/* One batch with collectives of several kinds, messages and an inner group. */
static void group_of_kinds(struct rank *r)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	int64_t x[24] = {r->rank, 0, r->rank, 0, r->rank + 5}, *at = nccl_new(r->rank, x, 24);

	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_broadcast(at, at + 1, 1, COLL_INT64, r->nranks - 1, r->comm, NULL),
		 "broadcast");
	rank_did(r, coll_group_start(), "inner group_start");
	rank_did(r, coll_send(at + 2, 1, COLL_INT64, next, 0, r->comm, NULL), "send");
	rank_did(r, coll_recv(at + 3, 1, COLL_INT64, before, 0, r->comm, NULL), "recv");
	rank_did(r, coll_group_end(), "inner group_end");
	rank_did(r, coll_allgather(at + 4, at + 8, 1, COLL_INT64, r->comm, NULL), "allgather");
	rank_did(r, coll_alltoall(at + 8 + 8, at + 20, 0, COLL_INT64, r->comm, NULL), "nothing");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	device_move(r->rank, x, at, sizeof(x));
	if (x[1] != r->nranks - 1 || x[3] != before || x[8 + next] != next + 5)
		rank_fail(r, "%lld, %lld, %lld", (long long)x[1], (long long)x[3],
			  (long long)x[8 + next]);
	device_free(r->rank, at);
}

/* One thread holds 4 ranks of two communicators each, and issues all calls in one group. */
static void test_group_of_communicators(void)
{
	coll_comm_t comms[2][4];
	coll_config_t config;
	int64_t *there[2][4], x;
	int bad = 0;

	ranks_config(&config, "nccl");
	for (int m = 0; m < 2; m++)
		is_int(coll_comm_init_all(comms[m], 4, NULL, &config), 0, "init_all %d", m);
	bad += coll_group_start() != 0;
	for (int m = 0; m < 2; m++)
		for (int r = 0; r < 4; r++) {
			x = (m + 1) * (r + 1);
			there[m][r] = nccl_new(r, &x, 1);
			bad += coll_allreduce(there[m][r], there[m][r], 1, COLL_INT64, COLL_SUM,
					      comms[m][r], NULL) != 0;
		}
	bad += coll_group_end() != 0;
	is_int(bad, 0, "8 communicators of one thread in one group");
	for (int m = 0; m < 2; m++)
		for (int r = 0; r < 4; r++) {
			bad += coll_sync(comms[m][r]) != 0;
			bad += nccl_value(r, there[m][r]) != 10 * (m + 1);
			bad += coll_comm_destroy(comms[m][r]) != 0;
			device_free(r, there[m][r]);
		}
	is_int(bad, 0, "each has its sum");
}

/* A group of communicators with and without `blocking = yes`: NCCL refuses a group of both kinds of its own. */
static void group_of_both(struct rank *r)
{
	static const char *const options[] = {"nccl.blocking=yes", NULL};
	int64_t x[2] = {1, 2}, *there = nccl_new(r->rank, x, 2);
	coll_comm_t comms[2] = {r->comm, NULL};
	coll_config_t config;

	nccl_config(&config, r->rank);
	config.options = options;
	if (!rank_did(r, nccl_init(r, &comms[1], &config), "init"))
		return;
	for (int i = 0; i < 3; i++) {
		rank_did(r, coll_group_start(), "group_start");
		for (int m = 0; m < 2; m++)
			rank_did(r,
				 coll_allreduce(there + m, there + m, 1, COLL_INT64, COLL_SUM,
						comms[m], NULL),
				 "allreduce");
		rank_did(r, coll_group_end(), "group_end");
		for (int m = 0; m < 2; m++)
			rank_did(r, coll_sync(comms[m]), "sync");
	}
	device_move(r->rank, x, there, sizeof(x));
	if (x[0] != r->nranks * r->nranks * r->nranks || x[1] != 2 * x[0])
		rank_fail(r, "%lld, %lld", (long long)x[0], (long long)x[1]);
	rank_did(r, coll_comm_destroy(comms[1]), "destroy");
	device_free(r->rank, there);
}

/* --------------------------------------------------------------------------- overlap -- */

/*
 * Communication continues while the caller's stream computes, and the stream computes while
 * communication waits.
 */
static void overlap(struct rank *r)
{
	void *compute = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	int64_t x[2] = {1, 0}, *there = nccl_new(r->rank, x, 2);
	pthread_barrier_t *late = r->user;
	int32_t done = 1;
	coll_request_t request;

	nccl_gate(&gate, r->rank, compute);
	nccl_sums(r, r->comm, r->rank, 4, 4 * r->nranks, "communication while computing");
	if (nccl_stream_do(r->rank, compute, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "the stream was not computing");
	nccl_open(&gate);
	nccl_stream_do(r->rank, compute, cuStreamSynchronize);
	/* The reverse: rank 0 calls the allreduce late. */
	if (r->rank == 0)
		pthread_barrier_wait(late);
	stream_allreduce(r, there, NULL);
	rank_did(r, coll_get_request(r->comm, &request), "request");
	if (r->rank) {
		rank_did(r, coll_test(request, &done), "test");
		if (done)
			rank_fail(r, "complete without rank 0");
		context_begin(r->rank);
		if (cuMemsetD32Async((uintptr_t)(there + 1), 7, 2, compute) ||
		    cuStreamSynchronize(compute))
			rank_fail(r, "no computing while communicating");
		context_end(r->rank);
		pthread_barrier_wait(late);
	}
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	if (nccl_value(r->rank, there) != r->nranks)
		rank_fail(r, "the sum is wrong");
	nccl_stream_do(r->rank, compute, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* -------------------------------------------------------------------- for experts -- */

static void native_handle(struct rank *r)
{
	int (*count)(void *comm, int *n), (*rank)(void *comm, int *n), n = 0, me = -1;
	void *comm = NULL, *symbol = nccl_symbol("ncclCommCount");

	memcpy(&count, &symbol, sizeof(symbol));
	symbol = nccl_symbol("ncclCommUserRank");
	memcpy(&rank, &symbol, sizeof(symbol));
	if (!rank_did(r, coll_comm_native_handle(r->comm, &comm), "native_handle"))
		return;
	if (count(comm, &n) || rank(comm, &me) || n != r->nranks || me != r->rank)
		rank_fail(r, "NCCL says rank %d of %d", me, n);
}

static void registered(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	void *handle = NULL;

	rank_did(r, coll_comm_register(r->comm, there, sizeof(x), &handle), "register");
	stream_allreduce(r, there, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(r->rank, there) != r->nranks)
		rank_fail(r, "the sum is wrong");
	rank_did(r, coll_comm_deregister(r->comm, handle), "deregister");
	nccl_works(r);
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	pthread_barrier_t late;

	(void)argc;
	nccl_begin(argv, ".libs");
	nccl_hold_devices();
	for (int nranks = 1; nranks <= 4; nranks += 3) {
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, own_stream, NULL},
			"own stream: non-blocking, dedicated");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, callers_stream, NULL},
			"the caller's stream: in its order, without waiting");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, order_after_call, NULL},
			"the caller's stream: what comes after the call comes after the operation");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, many_streams, NULL},
			"several streams, NULL is the communicator's own");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, group_of_tensors, NULL},
			"a group of %d tensors", TENSORS);
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, group_of_kinds, NULL},
			"a group of collectives and messages, nested");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, group_of_both, NULL},
			"a group of communicators with and without blocking = yes");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, native_handle, NULL},
			"native handle: ncclCommCount and ncclCommUserRank take it");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, registered, NULL},
			"registered memory");
	}
	test_group_of_communicators();
	pthread_barrier_init(&late, NULL, 3);
	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, overlap, &late},
		"overlap of communication and computing");
	return done_testing();
}
