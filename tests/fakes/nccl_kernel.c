/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_kernel.c - the work on streams: one piece of work for all operations of a group on a
 * communicator.  The work runs on the first stream that the operations use; it waits for the other
 * streams, and they wait for it.  Launches of a communicator run in order, whatever their streams.
 */
#include <stdlib.h>
#include <time.h>

#include "cuda.h"
#include "nccl_parts.h"

enum { KERNEL_STREAMS = 8 };

/* A position where another stream waits for the launch. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int refs, expected, arrived, open;
};

struct kernel {
	nccl_comm_t comm;
	struct share *share;
	struct op *colls, *p2ps;
	int captured;      /* part of a graph, which runs it any number of times */
	struct gate *gate; /* or NULL */
	uint64_t ticket;
	int fault;
};

void ops_free(struct op *ops)
{
	struct op *next;

	for (; ops; ops = next) {
		next = ops->next;
		free(ops);
	}
}

/* ------------------------------------------------------------------------- gates -- */

static struct gate *gate_new(int expected)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (!gate)
		return NULL;
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->moved, NULL);
	gate->expected = expected;
	gate->refs = expected + 1;
	return gate;
}

/* Unlocks. */
static void gate_unref(struct gate *gate)
{
	int last = --gate->refs == 0;

	pthread_mutex_unlock(&gate->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&gate->lock);
	pthread_cond_destroy(&gate->moved);
	free(gate);
}

static void gate_sleep(struct gate *gate)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 2000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&gate->moved, &gate->lock, &until);
}

/* Runs on one of the other streams. */
static int gate_run(void *arg)
{
	struct gate *gate = arg;

	pthread_mutex_lock(&gate->lock);
	gate->arrived++;
	pthread_cond_broadcast(&gate->moved);
	while (!gate->open)
		pthread_cond_wait(&gate->moved, &gate->lock);
	gate_unref(gate);
	return CUDA_SUCCESS;
}

static void gate_wait(struct gate *gate, const struct halt *halt)
{
	pthread_mutex_lock(&gate->lock);
	while (gate->arrived < gate->expected && !halt_asked(halt))
		gate_sleep(gate);
	pthread_mutex_unlock(&gate->lock);
}

static void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->open = 1;
	pthread_cond_broadcast(&gate->moved);
	gate_unref(gate);
}

/* A stream that should wait could not be made to wait. */
static void gate_forget(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->expected--;
	pthread_cond_broadcast(&gate->moved);
	gate_unref(gate);
}

/* ----------------------------------------------------------------------- kernels -- */

/* A launch that never ends by itself. */
static void kernel_hang(const struct halt *halt)
{
	const struct timespec delay = {0, 1000000};

	while (!halt_asked(halt))
		nanosleep(&delay, NULL);
}

static int kernel_body(struct kernel *kernel, const struct halt *halt)
{
	nccl_comm_t comm = kernel->comm;
	const struct op *op;
	int code = CUDA_SUCCESS;

	if (kernel->fault)
		atomic_store(&comm->failed, kernel->fault);
	if (kernel->fault || call_env("STANDIN_NCCL_MUTE", -1) == comm->rank)
		kernel_hang(halt);
	for (op = kernel->colls; op && !code && !halt_asked(halt); op = op->next)
		code = coll_run(comm, op);
	if (kernel->p2ps && !code && !halt_asked(halt))
		code = pairs_run(comm, kernel->p2ps);
	return code;
}

static int kernel_run(void *arg)
{
	struct kernel *kernel = arg;
	struct share *share = kernel->share;
	struct halt halt;
	int code;

	comm_halt(kernel->comm, &halt);
	if (kernel->captured) {
		pthread_mutex_lock(&share->lock);
		kernel->ticket = share->next++;
		atomic_fetch_add(&kernel->comm->kernels, 1);
		pthread_mutex_unlock(&share->lock);
	}
	if (kernel->gate)
		gate_wait(kernel->gate, &halt);
	pthread_mutex_lock(&share->lock);
	while (share->serving != kernel->ticket)
		pthread_cond_wait(&share->next_served, &share->lock);
	pthread_mutex_unlock(&share->lock);
	code = kernel_body(kernel, &halt);
	if (kernel->gate)
		gate_open(kernel->gate);
	if (!kernel->captured) {
		ops_free(kernel->colls);
		ops_free(kernel->p2ps);
	}
	pthread_mutex_lock(&share->lock);
	share->serving++;
	atomic_fetch_sub(&kernel->comm->kernels, 1);
	pthread_cond_broadcast(&share->next_served);
	pthread_mutex_unlock(&share->lock);
	if (kernel->captured)
		return code;
	share_unref(share);
	free(kernel);
	return code;
}

/* The end of a graph that has the launch. */
static void kernel_drop_captured(void *arg)
{
	struct kernel *kernel = arg;

	atomic_fetch_sub(&kernel->comm->graphs, 1);
	ops_free(kernel->colls);
	ops_free(kernel->p2ps);
	share_unref(kernel->share);
	free(kernel);
}

/* Takes over comm's operations once they are in the graph. */
static int kernel_record(struct kernel *kernel, void *stream)
{
	nccl_comm_t comm = kernel->comm;
	int code;

	kernel->captured = 1;
	kernel->colls = comm->colls;
	kernel->p2ps = comm->p2ps;
	atomic_fetch_add(&comm->graphs, 1);
	atomic_fetch_add(&kernel->share->refs, 1);
	code = standin_stream_record(stream, kernel_run, kernel_drop_captured, kernel);
	if (code) {
		atomic_fetch_sub(&comm->graphs, 1);
		atomic_fetch_sub(&kernel->share->refs, 1);
	} else {
		comm->colls = comm->p2ps = NULL;
	}
	return code;
}

/* Adds the streams of the operations, each once, to list[0..n). */
static int kernel_streams(const struct op *ops, void **list, int n)
{
	int i;

	for (; ops; ops = ops->next) {
		for (i = 0; i < n && list[i] != ops->stream; i++)
			;
		if (i == n && n < KERNEL_STREAMS)
			list[n++] = ops->stream;
	}
	return n;
}

static int kernel_count_self(const struct op *ops, int rank, int kind)
{
	int n = 0;

	for (; ops; ops = ops->next)
		n += ops->kind == kind && ops->root == rank;
	return n;
}

static int kernel_check(nccl_comm_t comm)
{
	int sends = kernel_count_self(comm->p2ps, comm->rank, KIND_SEND);
	int recvs = kernel_count_self(comm->p2ps, comm->rank, KIND_RECV);

	if (sends > recvs)
		return call_fail(NCCL_INVALID_USAGE,
				 "Trying to send to self without a matching recv");
	if (recvs > sends)
		return call_fail(NCCL_INVALID_USAGE,
				 "Trying to recv to self without a matching send");
	return NCCL_SUCCESS;
}

static void kernel_drop(struct kernel *kernel)
{
	if (kernel->gate)
		free(kernel->gate);
	free(kernel);
}

static struct kernel *kernel_new(nccl_comm_t comm, int streams)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));

	if (!kernel)
		return NULL;
	kernel->comm = comm;
	kernel->share = comm->share;
	kernel->gate = streams > 1 ? gate_new(streams - 1) : NULL;
	if (streams > 1 && !kernel->gate) {
		free(kernel);
		return NULL;
	}
	kernel->fault = call_async_fault();
	return kernel;
}

/*
 * Takes over comm's operations once they are on the stream; launches run in the order of this call.
 */
static int kernel_enqueue(struct kernel *kernel, void *stream)
{
	nccl_comm_t comm = kernel->comm;
	struct share *share = kernel->share;
	int code;

	kernel->colls = comm->colls;
	kernel->p2ps = comm->p2ps;
	comm->colls = comm->p2ps = NULL;
	pthread_mutex_lock(&share->lock);
	kernel->ticket = share->next++;
	atomic_fetch_add(&comm->kernels, 1);
	atomic_fetch_add(&share->refs, 1);
	pthread_mutex_unlock(&share->lock);
	code = standin_stream_do(stream, kernel_run, kernel); /* waits for room */
	if (!code)
		return code;
	comm->colls = kernel->colls;
	comm->p2ps = kernel->p2ps;
	pthread_mutex_lock(&share->lock);
	share->next--;
	atomic_fetch_sub(&comm->kernels, 1);
	atomic_fetch_sub(&share->refs, 1);
	pthread_mutex_unlock(&share->lock);
	return code;
}

static int kernel_start(nccl_comm_t comm, void **streams, int n)
{
	struct kernel *kernel = kernel_new(comm, n);
	struct gate *gate;
	int i, code, failed, captured = 0;

	if (!kernel)
		return NCCL_SYSTEM_ERROR;
	gate = kernel->gate;
	if (!cuStreamIsCapturing(streams[0], &captured) && captured && n == 1)
		code = kernel_record(kernel, streams[0]);
	else
		code = kernel_enqueue(kernel, streams[0]);
	if (code) {
		kernel_drop(kernel);
		return call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code);
	}
	for (i = 1; i < n; i++) {
		failed = standin_stream_do(streams[i], gate_run, gate);
		code = code ? code : failed;
		if (failed)
			gate_forget(gate);
	}
	return code ? call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code) : NCCL_SUCCESS;
}

int kernel_launch(nccl_comm_t comm)
{
	void *streams[KERNEL_STREAMS], *popped;
	int n, code = kernel_check(comm);

	n = kernel_streams(comm->colls, streams, 0);
	n = kernel_streams(comm->p2ps, streams, n);
	if (code || !n)
		return code;
	code = cuCtxPushCurrent_v2(comm->context);
	if (code)
		return call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code);
	code = kernel_start(comm, streams, n);
	cuCtxPopCurrent_v2(&popped);
	return code;
}

void kernel_drain(nccl_comm_t comm)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct share *share = comm->share;

	pthread_mutex_lock(&share->lock);
	while (atomic_load(&comm->kernels))
		pthread_cond_wait(&share->next_served, &share->lock);
	pthread_mutex_unlock(&share->lock);
	while (atomic_load(&comm->graphs) && !atomic_load(&share->abort))
		nanosleep(&pause, NULL);
}
