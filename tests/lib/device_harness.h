/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_harness.h - memory of CUDA devices in tests, by a stand-in for the driver (fakes/cuda.c)
 * whose device memory crashes whoever touches it.  Every call is made twice, on host memory and on
 * the device, and must leave the same bytes.
 */
#ifndef TESTS_DEVICE_HARNESS_H
#define TESTS_DEVICE_HARNESS_H

#include "../fakes/cuda.h"
#include "ranks.h"

#include <fcntl.h>

enum { COUNT = 700, ROOM = 16384, BYTES = ROOM * 4, NRANKS = 5 };

/* Where the buffers of a call are. */
enum { ON_DEVICE, SEND_ON_DEVICE, RECV_ON_DEVICE, MANAGED, WHERES };
RANKS_UNUSED static const char *const where_names[] = {"on the device", "sendbuf on the device",
						       "recvbuf on the device", "managed"};

/* -------------------------------------------------------------------- the device -- */

/* A context for a moment: the library is called by threads that have none. */
RANKS_UNUSED static void context_begin(int device)
{
	void *context = NULL;

	if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent_v2(context))
		bail_out("no context");
}

RANKS_UNUSED static void context_end(int device)
{
	void *context;

	if (cuCtxPopCurrent_v2(&context) || cuDevicePrimaryCtxRelease_v2(device))
		bail_out("no context any more");
}

RANKS_UNUSED static void *device_new(int device, size_t bytes, int managed)
{
	CUdeviceptr ptr = 0;

	context_begin(device);
	if (managed ? cuMemAllocManaged(&ptr, bytes, 1) : cuMemAlloc_v2(&ptr, bytes))
		bail_out("no device memory");
	context_end(device);
	return (void *)(uintptr_t)ptr;
}

RANKS_UNUSED static void device_free(int device, void *ptr)
{
	context_begin(device);
	if (ptr && cuMemFree_v2((uintptr_t)ptr))
		bail_out("device memory cannot be freed");
	context_end(device);
}

RANKS_UNUSED static void device_move(int device, void *dst, const void *src, size_t n)
{
	context_begin(device);
	if (cuMemcpy((uintptr_t)dst, (uintptr_t)src, n))
		bail_out("the test itself cannot copy");
	context_end(device);
}

/* ---------------------------------------------------------------------- the calls -- */

struct call {
	struct rank *r;
	int kind, root, in_place, where;
	size_t counts[NRANKS], displs[NRANKS];
};

RANKS_UNUSED static int is_v(int kind)
{
	return kind >= COLL_KIND_ALLGATHERV && kind <= COLL_KIND_SCATTERV;
}

RANKS_UNUSED static int is_reduction(int kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV;
}

RANKS_UNUSED static int has_root(int kind)
{
	return kind == COLL_KIND_BROADCAST || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_GATHER || kind == COLL_KIND_SCATTER || kind == COLL_KIND_GATHERV ||
	       kind == COLL_KIND_SCATTERV;
}

/* Is this rank's part of the larger buffer the other buffer, when in place? */
RANKS_UNUSED static int takes_part(int kind)
{
	return kind != COLL_KIND_ALLREDUCE && kind != COLL_KIND_BROADCAST &&
	       kind != COLL_KIND_REDUCE && kind != COLL_KIND_ALLTOALL &&
	       kind != COLL_KIND_ALLTOALLV;
}

/* Blocks with gaps, the last rank's first; one of them is empty. */
RANKS_UNUSED static void lay_out(struct call *c)
{
	size_t at = 3;

	for (int p = c->r->nranks - 1; p >= 0; p--) {
		int other = c->kind == COLL_KIND_ALLTOALLV ? c->r->rank : 2;

		c->counts[p] = (size_t)((p + other) % 3) * 250;
		c->displs[p] = at;
		at += c->counts[p] + 5;
	}
	if (c->kind == COLL_KIND_REDUCE_SCATTERV) {
		at = 0;
		for (int p = 0; p < c->r->nranks; p++) {
			c->displs[p] = at;
			at += c->counts[p];
		}
	}
}

RANKS_UNUSED static coll_args_t make_args(struct call *c, char *send, char *recv)
{
	coll_args_t a = {.size = sizeof(a), .kind = c->kind, .dtype = COLL_INT32, .op = COLL_SUM};
	int rank = c->r->rank, in_place = c->in_place && (!has_root(c->kind) || rank == c->root);
	size_t part = (size_t)rank * COUNT * 4;

	lay_out(c);
	a.root = c->root;
	a.count = COUNT;
	if (is_v(c->kind)) {
		part = c->displs[rank] * 4;
		a.count = c->kind == COLL_KIND_REDUCE_SCATTERV ? 0 : c->counts[rank];
	}
	if (!takes_part(c->kind))
		part = 0;
	if (c->kind == COLL_KIND_ALLTOALLV)
		a.count = 0;
	if (c->kind == COLL_KIND_ALLTOALLV || c->kind == COLL_KIND_SCATTERV) {
		a.sendcounts = c->counts;
		a.senddispls = c->displs;
	}
	if (is_v(c->kind) && c->kind != COLL_KIND_SCATTERV) {
		a.recvcounts = c->counts;
		a.recvdispls = c->kind == COLL_KIND_REDUCE_SCATTERV ? NULL : c->displs;
	}
	a.sendbuf = in_place ? recv : send;
	a.recvbuf = recv;
	if (in_place && (c->kind == COLL_KIND_ALLGATHER || c->kind == COLL_KIND_GATHER ||
			 c->kind == COLL_KIND_ALLGATHERV || c->kind == COLL_KIND_GATHERV))
		a.sendbuf = recv + part;
	else if (in_place)
		a.recvbuf = recv + part;
	return a;
}

/* Starts a persistent request three times; the content of buffers goes round with it. */
RANKS_UNUSED static int run(struct call *c, const coll_args_t *a)
{
	coll_request_t request;
	int good = rank_did(c->r, coll_request_init(c->r->comm, a, &request), "request_init");

	for (int i = 0; good && i < 3; i++)
		good = rank_did(c->r, coll_request_start(request), "start") &&
		       rank_did(c->r, coll_wait(request), "wait");
	return good && rank_did(c->r, coll_request_free(request), "request_free");
}

/* The buffers of one rank: as given, as the host call leaves them, as the device's does. */
struct buffers {
	char given[2][BYTES], host[2][BYTES], found[2][BYTES];
	char *used[2];
};

RANKS_UNUSED static void fill(struct call *c, struct buffers *b)
{
	for (int buf = 0; buf < 2; buf++)
		for (int i = 0; i < ROOM; i++)
			((int32_t *)(void *)b->given[buf])[i] =
				(c->r->rank + 1) * (i % 97) - 1000 * buf;
	memcpy(b->host, b->given, sizeof(b->host));
	for (int buf = 0; buf < 2; buf++) {
		b->used[buf] = malloc(BYTES);
		if ((c->where == SEND_ON_DEVICE && buf) || (c->where == RECV_ON_DEVICE && !buf)) {
			memcpy(b->used[buf], b->given[buf], BYTES);
			continue;
		}
		free(b->used[buf]);
		b->used[buf] = device_new(c->r->rank % 2, BYTES, c->where == MANAGED);
		device_move(c->r->rank % 2, b->used[buf], b->given[buf], BYTES);
	}
}

RANKS_UNUSED static void take_back(struct call *c, struct buffers *b)
{
	for (int buf = 0; buf < 2; buf++) {
		int host =
			(c->where == SEND_ON_DEVICE && buf) || (c->where == RECV_ON_DEVICE && !buf);

		device_move(c->r->rank % 2, b->found[buf], b->used[buf], BYTES);
		if (host)
			free(b->used[buf]);
		else
			device_free(c->r->rank % 2, b->used[buf]);
	}
}

RANKS_UNUSED static int same(struct call *c, const struct buffers *b)
{
	for (int buf = 0; buf < 2; buf++)
		for (int i = 0; i < BYTES; i++)
			if (b->host[buf][i] != b->found[buf][i])
				return rank_fail(
					c->r, "%s%s, %s: byte %d of %s differs",
					coll_kind_name(c->kind), c->in_place ? " in place" : "",
					where_names[c->where], i, buf ? "recvbuf" : "sendbuf");
	return 1;
}

RANKS_UNUSED static int compare(struct call *c)
{
	struct buffers *b = malloc(sizeof(*b));
	coll_args_t a;
	int good;

	if (!b)
		bail_out("no memory");
	fill(c, b);
	a = make_args(c, b->host[0], b->host[1]);
	good = run(c, &a);
	a = make_args(c, b->used[0], b->used[1]);
	good = good && run(c, &a);
	take_back(c, b);
	good = good && same(c, b);
	free(b);
	return good;
}

/* ---------------------------------------------------------------- what is logged -- */

static int log_file = -1, log_stderr = -1;

RANKS_UNUSED static void log_begin(void)
{
	FILE *f = tmpfile();

	log_file = f ? fileno(f) : -1;
	log_stderr = fcntl(2, F_DUPFD_CLOEXEC, 0);
	if (log_file < 0 || log_stderr < 0 || dup2(log_file, 2) < 0)
		bail_out("cannot redirect stderr");
}

/* How many lines hold a text. */
RANKS_UNUSED static int log_lines(const char *piece)
{
	char *text, *line, *rest;
	off_t size = lseek(log_file, 0, SEEK_END);
	int n = 0;

	text = calloc((size_t)size + 1, 1);
	if (!text || pread(log_file, text, (size_t)size, 0) != size)
		bail_out("cannot read the log");
	for (rest = text; (line = strsep(&rest, "\n"));)
		n += strstr(line, piece) != NULL;
	free(text);
	return n;
}

RANKS_UNUSED static void log_end(void)
{
	dup2(log_stderr, 2);
	close(log_stderr);
}

/* ------------------------------------------------------------- all calls in turn -- */

/* Where buffers are, and which calls are made: collectives that reduce, that move, messages. */
struct plan {
	int where, reductions, moves, point;
};

RANKS_UNUSED static int send_and_recv(struct rank *r)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	char *buf[2] = {device_new(0, BYTES, 0), device_new(0, BYTES, 0)}, found[64];
	int good;

	memset(found, 'a' + r->rank, sizeof(found));
	device_move(0, buf[0], found, sizeof(found));
	good = rank_did(r, coll_group_start(), "group") &&
	       rank_did(r, coll_send(buf[0], 64, COLL_INT8, next, 5, r->comm, NULL), "send") &&
	       rank_did(r, coll_recv(buf[1], 64, COLL_INT8, before, 5, r->comm, NULL), "recv") &&
	       rank_did(r, coll_group_end(), "group") && rank_did(r, coll_sync(r->comm), "sync");
	device_move(0, found, buf[1], sizeof(found));
	device_free(0, buf[0]);
	device_free(0, buf[1]);
	return good && (found[63] == 'a' + before || rank_fail(r, "recv: %c", found[63]));
}

RANKS_UNUSED static void every_call(struct rank *r)
{
	const struct plan *plan = r->user;
	void *context = r;

	for (int kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_SCATTERV; kind++)
		for (int in_place = 0; in_place < 2 && !r->failure[0]; in_place++) {
			struct call c = {r, kind, r->nranks - 1, in_place, plan->where, {0}, {0}};

			if (in_place &&
			    (plan->where == SEND_ON_DEVICE || plan->where == RECV_ON_DEVICE))
				continue;
			if (is_reduction(kind) ? plan->reductions : plan->moves)
				compare(&c);
		}
	if (plan->point)
		send_and_recv(r);
	if (cuCtxGetCurrent(&context) || context)
		rank_fail(r, "a context was left behind");
}

/* ------------------------------------------------------------------- refusals -- */

/* Is a call refused, with these words? */
RANKS_UNUSED static int refused(struct rank *r, int code, const char *words)
{
	const char *text = coll_get_last_error(NULL);

	return (code == COLL_ERR_UNSUPPORTED && !strcmp(text, words)) ||
	       rank_fail(r, "%d (%s), not (%s)", code, text, words);
}

#define OPT_IN                                                                                     \
	": choose another backend with COLL_BACKEND, or set COLL_ENABLE_GPU_FALLBACK=1 (option "   \
	"enable_gpu_fallback) to have it copied through host memory, which is slow"

/* ---------------------------------------------------------- beginning and ending -- */

RANKS_UNUSED static void device_begin(void)
{
	const char *top = getenv("top_builddir");
	char path[1024];

	alarm(900);
	top = top ? top : ".";
	snprintf(path, sizeof(path), "%s/.libs:%s/tests/plugins/.libs", top, top);
	setenv("COLL_PLUGIN_PATH", path, 1);
	setenv("COLL_TIMEOUT", "20s", 1);
}

/* The application uses CUDA, and holds its devices all the time. */
RANKS_UNUSED static void device_init(void)
{
	void *context;

	if (cuInit(0))
		bail_out("no stand-in");
	for (int device = 0; device < 2; device++)
		if (cuDevicePrimaryCtxRetain(&context, device))
			bail_out("no context");
}

RANKS_UNUSED static void device_end(void)
{
	is_int(standin_pinned(), 0, "no pinned memory is left");
	is_int(standin_held(0), 1, "nor is device 0 held");
	is_int(standin_held(1), 1, "nor device 1");
}

#endif
