/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_call.c - one collective on device memory, with counts and places of every form, and what must
 * come out of it.
 *
 * Every element's value follows from its rank and place, so each rank knows all inputs.  The bound for
 * floats that are summed or multiplied, in whatever order: (ranks + 1) units in the last place of the
 * sum of the operands' magnitudes (of the product's magnitude).  The inputs of 8-bit floats are such
 * that results are exact on 1, 2 and 4 ranks, and there they must be.
 */
#include <stdlib.h>
#include "../lib/reduce_reference.h"
#include "gpu.h"

enum { GUARD = 64, PATTERN = 0xa5, GAP = 2 };

static const struct ref_type *call_type(int dtype)
{
	const struct ref_type *t = ref_types;

	while (t->dtype != dtype)
		t++;
	return t;
}

/* "allreduce of float16, sum, in place, 3 elements" */
static const char *call_name(const struct gpu_call *c)
{
	static char text[120];

	snprintf(text, sizeof(text), "%s of %s%s%s%s, %zu elements", coll_kind_name(c->kind),
		 coll_dtype_name(c->dtype), c->op ? ", " : "", c->op ? coll_op_name(c->op) : "",
		 c->in_place ? ", in place" : "", c->count);
	return text;
}

static uint64_t call_mask(const struct ref_type *t)
{
	return 2 * (ref_sign(t) - 1) + 1;
}

static int call_reduces(const struct gpu_call *c)
{
	return c->kind == COLL_KIND_ALLREDUCE || c->kind == COLL_KIND_REDUCE ||
	       c->kind == COLL_KIND_REDUCE_SCATTER || c->kind == COLL_KIND_REDUCE_SCATTERV;
}

/* ------------------------------------------------------------------- inputs -- */

static double call_float(const struct gpu_call *c, const struct ref_type *t, uint64_t h)
{
	if (c->op == COLL_PROD && t->size == 1)
		return (h & 1 ? -1 : 1) * ldexp(1, (int)((h >> 1) % 3) - 1);
	if (c->op == COLL_PROD)
		return (h & 1 ? -1 : 1) * (1 + (double)(h >> 1 & 1023) / 1024);
	if (t->size == 1)
		return (double)(h % 5) - 2;
	return ((double)(h % 4001) - 2000) / 997;
}

/* Element i of a rank's send buffer, as a code. */
static uint64_t call_value(const struct gpu_call *c, const struct ref_type *t, int rank, size_t i)
{
	uint64_t h = (uint64_t)rank * 0x9e3779b97f4a7c15 + i * 0xff51afd7ed558ccd;

	/* splitmix64's end, https://prng.di.unimi.it/splitmix64.c */
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 27) * 0x94d049bb133111eb;
	h ^= h >> 31;
	if (!call_reduces(c) || (!t->mantissa && c->op != COLL_AVG))
		return h & call_mask(t);
	if (!t->mantissa) /* the sum does not wrap around */
		return (h % 8 - (t->is_signed ? 4 : 0)) & call_mask(t);
	return ref_code(t, call_float(c, t, h));
}

/* ------------------------------------------------------------------- layout -- */

/* Elements between two ranks in the v-forms: none, some, count. */
static size_t call_part(const struct gpu_call *c, int a, int b)
{
	return c->count * (size_t)((a + b + 1) % 4) / 3;
}

/* Where rank b's part is in rank a's buffer. */
static size_t call_offset(const struct gpu_call *c, int a, int b, size_t gap)
{
	size_t offset = 0;

	for (int r = 0; r < b; r++)
		offset += call_part(c, a, r) + gap;
	return offset;
}

static void call_counts(const struct gpu *g, struct gpu_call *c)
{
	int me = c->kind == COLL_KIND_ALLTOALLV ? g->rank : 0;
	size_t gap = c->kind == COLL_KIND_REDUCE_SCATTERV ? 0 : GAP;

	for (int r = 0; r < g->nranks; r++) {
		c->sendcounts[r] = c->recvcounts[r] = call_part(c, me, r);
		c->senddispls[r] = c->recvdispls[r] = call_offset(c, me, r, gap);
	}
}

/* Elements of the two buffers on this rank, and where its own part is in the larger one. */
struct call_size {
	size_t send, recv, own;
};

static struct call_size call_size(const struct gpu *g, const struct gpu_call *c)
{
	size_t n = (size_t)g->nranks, me = (size_t)g->rank, root = g->rank == c->root;
	size_t all = c->recvdispls[n - 1] + c->recvcounts[n - 1];
	size_t part = c->recvcounts[me], at = c->recvdispls[me];

	switch (c->kind) {
	case COLL_KIND_BROADCAST: return (struct call_size){root * c->count, c->count, 0};
	case COLL_KIND_REDUCE: return (struct call_size){c->count, root * c->count, 0};
	case COLL_KIND_ALLGATHER: return (struct call_size){c->count, n * c->count, me * c->count};
	case COLL_KIND_REDUCE_SCATTER:
		return (struct call_size){n * c->count, c->count, me * c->count};
	case COLL_KIND_ALLTOALL: return (struct call_size){n * c->count, n * c->count, 0};
	case COLL_KIND_GATHER:
		return (struct call_size){c->count, root * n * c->count, root * me * c->count};
	case COLL_KIND_SCATTER:
		return (struct call_size){root * n * c->count, c->count, root * me * c->count};
	case COLL_KIND_ALLGATHERV: return (struct call_size){part, all, at};
	case COLL_KIND_REDUCE_SCATTERV: return (struct call_size){all, part, at};
	case COLL_KIND_ALLTOALLV: return (struct call_size){all, all, 0};
	case COLL_KIND_GATHERV: return (struct call_size){part, root * all, root * at};
	case COLL_KIND_SCATTERV: return (struct call_size){root * all, part, root * at};
	default: return (struct call_size){c->count, c->count, 0};
	}
}

/* ------------------------------------------------------------------ results -- */

/* Where an element of the result is from: a rank's element, all ranks' (rank -1), or nowhere (-2). */
struct call_origin {
	int rank;
	size_t index;
};

/* The part that element k of a receive buffer is in. */
static struct call_origin call_part_of(const struct gpu *g, const struct gpu_call *c, size_t k)
{
	for (int r = 0; r < g->nranks; r++)
		if (k >= c->recvdispls[r] && k - c->recvdispls[r] < c->recvcounts[r])
			return (struct call_origin){r, k - c->recvdispls[r]};
	return (struct call_origin){-2, 0};
}

static struct call_origin call_origin(const struct gpu *g, const struct gpu_call *c, size_t k)
{
	size_t me = (size_t)g->rank;
	struct call_origin o;

	switch (c->kind) {
	case COLL_KIND_BROADCAST: return (struct call_origin){c->root, k};
	case COLL_KIND_ALLGATHER:
	case COLL_KIND_GATHER: return (struct call_origin){(int)(k / c->count), k % c->count};
	case COLL_KIND_REDUCE_SCATTER: return (struct call_origin){-1, me * c->count + k};
	case COLL_KIND_ALLTOALL:
		return (struct call_origin){(int)(k / c->count), me * c->count + k % c->count};
	case COLL_KIND_SCATTER: return (struct call_origin){c->root, me * c->count + k};
	case COLL_KIND_ALLGATHERV:
	case COLL_KIND_GATHERV: return call_part_of(g, c, k);
	case COLL_KIND_REDUCE_SCATTERV: return (struct call_origin){-1, c->recvdispls[me] + k};
	case COLL_KIND_SCATTERV: return (struct call_origin){c->root, c->recvdispls[me] + k};
	case COLL_KIND_ALLTOALLV:
		o = call_part_of(g, c, k);
		if (o.rank >= 0)
			o.index += call_offset(c, o.rank, g->rank, GAP);
		return o;
	default: return (struct call_origin){-1, k};
	}
}

/* Integers, min and max: the bits. */
static uint64_t call_exact(const struct gpu *g, const struct gpu_call *c, const struct ref_type *t,
			   size_t i)
{
	int op = c->op >= 256 || c->op == COLL_AVG ? COLL_SUM : c->op;
	uint64_t sum = 0, x;

	for (int r = 0; r < g->nranks; r++) {
		x = call_value(c, t, r, i);
		if (c->op >= 256)
			x = x * (uint64_t)c->scalar[r] & call_mask(t);
		if (r)
			x = t->mantissa ? ref_float(t, op, sum, x, 0)
					: ref_integer(t, op, sum, x, 0);
		sum = x & call_mask(t);
	}
	if (c->op == COLL_AVG)
		sum = ref_integer(t, COLL_AVG, sum, 0, g->nranks);
	return sum & call_mask(t);
}

static int call_near(const struct gpu *g, const struct gpu_call *c, const struct ref_type *t,
		     size_t i, uint64_t got)
{
	int n = g->nranks, exact = t->size == 1 && (n == 1 || n == 2 || n == 4);
	long double want = c->op == COLL_PROD, magnitude = 0, x, bound;

	for (int r = 0; r < n; r++) {
		x = ref_value(t, call_value(c, t, r, i));
		x *= c->op >= 256 ? c->scalar[r] : 1;
		want = c->op == COLL_PROD ? want * x : want + x;
		magnitude = c->op == COLL_PROD ? fabsl(want) : magnitude + fabsl(x);
	}
	if (c->op == COLL_AVG) {
		want /= n;
		magnitude /= n;
	}
	bound = exact ? 0 : (n + 1) * ldexpl(magnitude, -t->mantissa);
	bound += exact ? 0 : n * ldexpl(1, 1 - t->bias - t->mantissa);
	x = ref_value(t, got);
	return fabsl(x - want) <= bound ||
	       gpu_fail("%s: element %zu of the result is %.9Lg, not within %.3Lg of %.9Lg",
			call_name(c), i, x, bound, want);
}

static int call_right(const struct gpu *g, const struct gpu_call *c, const struct ref_type *t,
		      size_t k, uint64_t got)
{
	struct call_origin o = call_origin(g, c, k);
	int bits = !t->mantissa || c->op == COLL_MIN || c->op == COLL_MAX;
	uint64_t want = 0xa5a5a5a5a5a5a5a5 & call_mask(t);

	if (o.rank == -1 && !bits)
		return call_near(g, c, t, o.index, got);
	if (o.rank == -2 && c->in_place)
		return 1;
	if (o.rank != -2)
		want = o.rank == -1 ? call_exact(g, c, t, o.index)
				    : call_value(c, t, o.rank, o.index);
	return got == want || gpu_fail("%s: element %zu is %#jx, not %#jx", call_name(c), k,
				       (uintmax_t)got, (uintmax_t)want);
}

/* ------------------------------------------------------------------- calling -- */

static coll_result_t call_v(const struct gpu_call *c, const void *send, void *recv, size_t own,
			    coll_comm_t comm)
{
	switch (c->kind) {
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(send, own, recv, c->recvcounts, c->recvdispls, c->dtype,
				       comm, c->stream);
	case COLL_KIND_REDUCE_SCATTERV:
		return coll_reduce_scatterv(send, recv, c->recvcounts, c->dtype, c->op, comm,
					    c->stream);
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(send, c->sendcounts, c->senddispls, recv, c->recvcounts,
				      c->recvdispls, c->dtype, comm, c->stream);
	case COLL_KIND_GATHERV:
		return coll_gatherv(send, own, recv, c->recvcounts, c->recvdispls, c->dtype,
				    c->root, comm, c->stream);
	default:
		return coll_scatterv(send, c->sendcounts, c->senddispls, recv, own, c->dtype,
				     c->root, comm, c->stream);
	}
}

static coll_result_t call_issue(const struct gpu_call *c, const void *send, void *recv, size_t own,
				coll_comm_t comm)
{
	size_t n = c->count;
	coll_stream_t s = c->stream;

	switch (c->kind) {
	case COLL_KIND_ALLREDUCE: return coll_allreduce(send, recv, n, c->dtype, c->op, comm, s);
	case COLL_KIND_BROADCAST: return coll_broadcast(send, recv, n, c->dtype, c->root, comm, s);
	case COLL_KIND_REDUCE: return coll_reduce(send, recv, n, c->dtype, c->op, c->root, comm, s);
	case COLL_KIND_ALLGATHER: return coll_allgather(send, recv, n, c->dtype, comm, s);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter(send, recv, n, c->dtype, c->op, comm, s);
	case COLL_KIND_ALLTOALL: return coll_alltoall(send, recv, n, c->dtype, comm, s);
	case COLL_KIND_GATHER: return coll_gather(send, recv, n, c->dtype, c->root, comm, s);
	case COLL_KIND_SCATTER: return coll_scatter(send, recv, n, c->dtype, c->root, comm, s);
	default: return call_v(c, send, recv, own, comm);
	}
}

static void call_wait(const struct gpu *g, const struct gpu_call *c)
{
	if (c->stream)
		gpu_must(gpu_driver.stream_synchronize(c->stream), "cuStreamSynchronize");
	else
		gpu_did(coll_sync(g->comm), "coll_sync");
}

static void call_verify(const struct gpu *g, const struct gpu_call *c, const char *recv,
			size_t count)
{
	const struct ref_type *t = call_type(c->dtype);
	size_t size = (size_t)t->size;
	int fine = 1;

	gpu_copy(g->host, recv, count * size + (c->in_place ? 0 : GUARD));
	for (size_t k = 0; fine && k < count; k++)
		fine = call_right(g, c, t, k, ref_load(t, g->host, k));
	for (size_t k = 0; fine && !c->in_place && k < GUARD; k++)
		if ((unsigned char)g->host[count * size + k] != PATTERN)
			fine = gpu_fail("%s: byte %zu behind the result was changed", call_name(c),
					k);
}

/* The buffers that this rank has a use for. */
static int call_sends(const struct gpu *g, const struct gpu_call *c)
{
	return g->rank == c->root ||
	       (c->kind != COLL_KIND_BROADCAST && c->kind != COLL_KIND_SCATTER &&
		c->kind != COLL_KIND_SCATTERV);
}

static int call_receives(const struct gpu *g, const struct gpu_call *c)
{
	return g->rank == c->root || (c->kind != COLL_KIND_REDUCE && c->kind != COLL_KIND_GATHER &&
				      c->kind != COLL_KIND_GATHERV);
}

/* Writes the rank's elements to `send`, and the pattern to everything else that a call may change. */
static void call_fill(const struct gpu *g, const struct gpu_call *c, struct call_size s, char *send)
{
	const struct ref_type *t = call_type(c->dtype);
	size_t longer = s.send > s.recv ? s.send : s.recv, size = (size_t)t->size;

	for (size_t i = 0; i < s.send; i++)
		ref_store(t, g->host, i, call_value(c, t, g->rank, i));
	gpu_must(gpu_driver.fill((uintptr_t)g->recv, PATTERN, (longer + 1) * size + 2 * GUARD,
				 g->stream),
		 "cuMemsetD8");
	gpu_must(gpu_driver.stream_synchronize(g->stream), "cuStreamSynchronize");
	gpu_copy(send, g->host, s.send * size);
}

coll_result_t gpu_try(const struct gpu *g, struct gpu_call *c)
{
	size_t size = coll_dtype_size(c->dtype), shift = GUARD;
	char *send, *recv;
	coll_result_t code;
	struct call_size s;

	shift += (size_t)(c->kind + c->dtype) % 2 * size;
	send = (c->in_place ? g->recv : g->send) + shift;
	recv = g->recv + shift;
	call_counts(g, c);
	s = call_size(g, c);
	if (c->in_place)
		*(s.send > s.recv ? &recv : &send) += s.own * size;
	call_fill(g, c, s, send);
	code = call_issue(c, call_sends(g, c) ? send : NULL, call_receives(g, c) ? recv : NULL,
			  c->recvcounts[g->rank], g->comm);
	if (code)
		return code;
	call_wait(g, c);
	call_verify(g, c, recv, s.recv);
	return COLL_SUCCESS;
}

void gpu_call(const struct gpu *g, struct gpu_call *c)
{
	coll_result_t code = gpu_try(g, c);

	if (code)
		gpu_fail("%s: %d, %s", call_name(c), code, coll_get_last_error(NULL));
}
