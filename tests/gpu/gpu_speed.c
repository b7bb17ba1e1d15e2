/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_speed.c - the cost of coll_allreduce beyond a bare ncclAllReduce on the same communicator and
 * stream, and on a blocking communicator of ncclCommInitRank: the time until the calls return, and
 * until their work is complete.
 *
 * Batches of the two alternate, and the times of two batches make a pair.  The program prints
 * medians, and for the pairs' differences and ratios also the quartiles.  On a non-blocking
 * communicator NCCL accepts the next call only when it has finished the last one, so a program that
 * calls NCCL directly must poll until then: this is part of its time.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

enum { PAIRS = 41, NCCL_FLOAT = 7, NCCL_SUM = 0, NCCL_IN_PROGRESS = 7 };

struct speed_id {
	char bytes[128]; /* ncclUniqueId */
};

struct speed {
	const struct gpu *g;
	int (*get_id)(struct speed_id *id);
	int (*init)(void **comm, int nranks, struct speed_id id, int rank);
	int (*destroy)(void *comm);
	const char *name; /* of the comparison */
	int (*allreduce)(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
			 void *stream);
	int (*async_error)(void *comm, int *state);
	void *native; /* ncclComm_t */
	float *send, *recv;
	size_t count;
	int batch;  /* calls */
	int stream; /* 1: the library's calls use the program's stream too */
};

/* Seconds of a call, the mean over a batch. */
struct speed_time {
	double host, whole;
};

/* -------------------------------------------------------------------- calls -- */

static void speed_settle(const struct speed *s)
{
	int state = NCCL_IN_PROGRESS;

	for (int i = 1; state == NCCL_IN_PROGRESS; i++) {
		gpu_must(s->async_error(s->native, &state), "ncclCommGetAsyncError");
		if (i % 100 == 0)
			/* the thread that this thread waits for may need the processor */
			sched_yield();
	}
	if (state)
		gpu_fail("ncclAllReduce failed: %d", state);
}

static struct speed_time speed_nccl(const struct speed *s)
{
	double begin, called;
	int code = 0;

	speed_settle(s);
	begin = gpu_now();
	for (int i = 0; i < s->batch; i++) {
		code = s->allreduce(s->send, s->recv, s->count, NCCL_FLOAT, NCCL_SUM, s->native,
				    s->g->stream);
		if (code == NCCL_IN_PROGRESS)
			speed_settle(s);
		else if (code)
			gpu_fail("ncclAllReduce: %d", code);
	}
	called = gpu_now();
	gpu_must(cuda_driver.cuStreamSynchronize(s->g->stream), "cuStreamSynchronize");
	return (struct speed_time){(called - begin) / s->batch, (gpu_now() - begin) / s->batch};
}

static struct speed_time speed_coll(const struct speed *s)
{
	coll_stream_t stream = s->stream ? s->g->stream : NULL;
	double begin = gpu_now(), called;

	for (int i = 0; i < s->batch; i++)
		if (coll_allreduce(s->send, s->recv, s->count, COLL_FLOAT32, COLL_SUM, s->g->comm,
				   stream))
			gpu_fail("coll_allreduce: %s", coll_get_last_error(NULL));
	called = gpu_now();
	if (stream)
		gpu_must(cuda_driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
	else
		gpu_did(coll_sync(s->g->comm), "coll_sync");
	return (struct speed_time){(called - begin) / s->batch, (gpu_now() - begin) / s->batch};
}

/* ------------------------------------------------------------------ numbers -- */

static int speed_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the values; then the quartiles are at n / 4, n / 2 and 3 n / 4. */
static const double *speed_sort(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), speed_order);
	return values;
}

/* The maximum over all ranks, so that all ranks decide alike. */
static double speed_agree(const struct gpu *g, double value)
{
	gpu_copy(g->send, &value, sizeof(value));
	gpu_did(coll_allreduce(g->send, g->recv, 1, COLL_FLOAT64, COLL_MAX, g->comm, NULL),
		"agree");
	gpu_did(coll_sync(g->comm), "coll_sync");
	gpu_copy(&value, g->recv, sizeof(value));
	return value;
}

struct speed_pairs {
	int n;
	double host[2][PAIRS], whole[2][PAIRS], more[PAIRS], ratio[PAIRS];
};

static void speed_pair(const struct speed *s, struct speed_pairs *p)
{
	struct speed_time coll, nccl;
	int i = p->n++;

	if (i % 2) {
		coll = speed_coll(s);
		nccl = speed_nccl(s);
	} else {
		nccl = speed_nccl(s);
		coll = speed_coll(s);
	}
	p->host[0][i] = coll.host * 1e9;
	p->host[1][i] = nccl.host * 1e9;
	p->whole[0][i] = coll.whole * 1e6;
	p->whole[1][i] = nccl.whole * 1e6;
	p->more[i] = p->host[0][i] - p->host[1][i];
	p->ratio[i] = coll.whole / nccl.whole;
}

/*
 * Prints a row of the table: times of a call, in ns until it returns and in us until its work is
 * complete.
 */
static void speed_row(const struct speed *s, struct speed_pairs *p)
{
	const double *more = speed_sort(p->more, p->n), *ratio = speed_sort(p->ratio, p->n);
	int q1 = p->n / 4, q2 = p->n / 2, q3 = 3 * p->n / 4;
	char whole[120] = "-|-|-";

	if (!gpu_is_standin)
		snprintf(whole, sizeof(whole), "%.1f|%.1f|%.3f (%.3f to %.3f)",
			 speed_sort(p->whole[0], p->n)[q2], speed_sort(p->whole[1], p->n)[q2],
			 ratio[q2], ratio[q1], ratio[q3]);
	gpu_say("row|%s|%zu|%.0f|%.0f|%.0f (%.0f to %.0f)|%s|%d x %d", s->name,
		s->count * sizeof(float), speed_sort(p->host[0], p->n)[q2],
		speed_sort(p->host[1], p->n)[q2], more[q2], more[q1], more[q3], whole, p->n,
		s->batch);
}

/* ------------------------------------------------------------------ measuring -- */

static void speed_verify(const struct speed *s)
{
	float got[2] = {0, 0}, want = (float)gpu_total(s->g);

	gpu_copy(&got[0], s->recv, sizeof(float));
	gpu_copy(&got[1], s->recv + s->count - 1, sizeof(float));
	if (got[0] < want || got[1] < want || got[0] > want || got[1] > want)
		gpu_fail("sums of %zu elements are %g and %g, not %g", s->count, (double)got[0],
			 (double)got[1], (double)want);
}

/* Measures one size.  Returns the seconds that a pair takes. */
static double speed_size(struct speed *s, size_t bytes)
{
	struct speed_pairs *p = calloc(1, sizeof(*p));
	double begin, each, budget = s->g->small ? 0.1 : gpu_is_standin ? 0.3 : 1.5;
	int pairs;

	if (!p)
		return 1e9;
	s->count = bytes / sizeof(float);
	s->batch = bytes <= 1 << 20 ? 32 : bytes <= 32 << 20 ? 8 : 2;
	speed_pair(s, p); /* warms up */
	begin = gpu_now();
	p->n = 0;
	speed_pair(s, p);
	each = speed_agree(s->g, gpu_now() - begin);
	pairs = each * PAIRS < budget ? PAIRS : (int)(budget / each);
	for (int i = 1; i < pairs || i < 3; i++)
		speed_pair(s, p);
	speed_verify(s);
	if (s->g->rank == 0)
		speed_row(s, p);
	free(p);
	return each;
}

static int speed_open(struct speed *s)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), *symbol[5];

	if (!gpu_did(coll_comm_native_handle(s->g->comm, &s->native), "coll_comm_native_handle"))
		return 0;
	if (!library)
		return gpu_fail("libnccl.so.2 is not what the backend has opened");
	symbol[0] = dlsym(library, "ncclAllReduce");
	symbol[1] = dlsym(library, "ncclCommGetAsyncError");
	symbol[2] = dlsym(library, "ncclGetUniqueId");
	symbol[3] = dlsym(library, "ncclCommInitRank");
	symbol[4] = dlsym(library, "ncclCommDestroy");
	for (int i = 0; i < 5; i++)
		if (!symbol[i])
			return gpu_fail("libnccl.so.2 lacks a function");
	memcpy(&s->allreduce, &symbol[0], sizeof(symbol[0]));
	memcpy(&s->async_error, &symbol[1], sizeof(symbol[1]));
	memcpy(&s->get_id, &symbol[2], sizeof(symbol[2]));
	memcpy(&s->init, &symbol[3], sizeof(symbol[3]));
	memcpy(&s->destroy, &symbol[4], sizeof(symbol[4]));
	return 1;
}

/* Makes a communicator as programs without libcoll do. */
static void *speed_bare(const struct speed *s)
{
	const struct gpu *g = s->g;
	struct speed_id id = {{0}};
	void *comm = NULL;
	int code = g->rank ? 0 : s->get_id(&id);

	gpu_copy(g->send, &id, sizeof(id));
	gpu_did(coll_broadcast(g->send, g->recv, sizeof(id), COLL_UINT8, 0, g->comm, NULL),
		"coll_broadcast");
	gpu_did(coll_sync(g->comm), "coll_sync");
	gpu_copy(&id, g->recv, sizeof(id));
	if (!code)
		code = s->init(&comm, g->nranks, id, g->rank);
	if (code)
		gpu_fail("ncclCommInitRank: %d", code);
	return code ? NULL : comm;
}

/* The library as it is by default, against a blocking communicator of NCCL's own. */
static void speed_against_bare(struct speed *s, size_t most)
{
	const size_t sizes[] = {8, 1 << 12, 1 << 20, 64 << 20};
	double each = 0;

	s->native = speed_bare(s);
	s->name = "the program's; NCCL: bare, blocking";
	s->stream = 1;
	for (int i = 0; s->native && i < 4 && sizes[i] <= most && each < 1; i++)
		each = speed_size(s, sizes[i]);
	if (s->native)
		s->destroy(s->native);
}

/* The largest size, at most `bytes`, that all ranks can allocate. */
static size_t speed_memory(struct speed *s, size_t bytes)
{
	float mine = (float)s->g->rank + 1;
	unsigned bits;

	memcpy(&bits, &mine, sizeof(bits));
	for (;; bytes /= 8) {
		s->send = gpu_alloc(bytes, 0);
		s->recv = gpu_alloc(bytes, 0);
		if (bytes < 64 || speed_agree(s->g, !s->send || !s->recv) < 0.5)
			break;
		gpu_free(s->send);
		gpu_free(s->recv);
	}
	gpu_must(cuda_driver.cuMemsetD32Async((uintptr_t)s->send, bits, bytes / 4, s->g->stream),
		 "fill");
	gpu_must(cuda_driver.cuStreamSynchronize(s->g->stream), "cuStreamSynchronize");
	return bytes;
}

void gpu_speed(struct gpu *g)
{
	struct speed s = {.g = g, .stream = 1, .name = "the program's"};
	size_t most = (size_t)1 << 30;
	double each = 0;

	if (!g->native) {
		gpu_skip("overhead", "backend '%s' is not NCCL", g->backend);
		return;
	}
	if (speed_open(&s)) {
		most = speed_memory(&s, gpu_is_standin ? 1 << 12 : most);
		for (size_t bytes = 8; bytes <= most && each < 1; bytes *= 8)
			each = speed_size(&s, bytes);
		if (each < 1) {
			s.stream = 0;
			s.name = "the communicator's";
			speed_size(&s, 8);
		}
		speed_against_bare(&s, most);
		gpu_free(s.send);
		gpu_free(s.recv);
	}
	gpu_report("overhead over a bare ncclAllReduce");
}
