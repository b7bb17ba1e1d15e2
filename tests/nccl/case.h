/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * case.h - one call of a collective on device memory and what it has to leave behind, found
 * without NCCL, libcoll or a device.
 *
 * Values are so small that every way of grouping them gives the same, exact result in every type.
 */
#ifndef TESTS_NCCL_CASE_H
#define TESTS_NCCL_CASE_H

#include "harness.h"
#include "../lib/reduce_reference.h"

enum { CASE_COUNT = 30, CASE_ROOM = 512, CASE_RANKS = 4, CASE_BLANK = 0xee };

/* Beside those of coll.h: sums of what ranks scale first, by 1 and 2 in turn. */
enum { CASE_SCALED_HOST = 256, CASE_SCALED_DEVICE = 257 };

struct nccl_case {
	struct rank *r;
	int kind, dtype, op, root, in_place, persistent;
	coll_op_t made; /* what the library calls op */
	size_t count;
	const struct ref_type *type;
};

struct nccl_buffers {
	char *send, *recv; /* on the device */
	char given[2][CASE_ROOM * 8], found[2][CASE_ROOM * 8];
	char seen[CASE_ROOM * 8]; /* bytes of the result that were looked at */
};

RANKS_UNUSED static const struct ref_type *case_type(int dtype)
{
	for (int i = 0; i < REF_TYPES; i++)
		if (ref_types[i].dtype == dtype)
			return &ref_types[i];
	bail_out("no type %d", dtype);
}

/* ------------------------------------------------------------------ which elements -- */

/* Where block p of the larger buffer of `rank` is; the v-forms have gaps and empty blocks. */
static void case_layout(const struct nccl_case *c, int rank, size_t *counts, size_t *displs)
{
	int n = c->r->nranks, ordered = !is_v(c->kind) || c->kind == COLL_KIND_REDUCE_SCATTERV;
	size_t at = ordered ? 0 : 3;

	for (int i = 0; i < n; i++) {
		int p = ordered ? i : n - 1 - i;
		int other = c->kind == COLL_KIND_ALLTOALLV ? rank : 2;

		counts[p] = is_v(c->kind) ? (size_t)((p + other) % 3) * c->count : c->count;
		displs[p] = at;
		at += counts[p] + (ordered ? 0 : 5);
	}
}

static int case_scale(const struct nccl_case *c, int rank)
{
	return c->op >= CASE_SCALED_HOST ? 1 + rank % 2 : 1;
}

/* 1 or 2, negative at odd places; equal on three ranks that average, so that this is exact. */
static double case_value(const struct nccl_case *c, int rank, size_t i)
{
	int same = c->op == COLL_AVG && c->r->nranks == 3;
	double x = 1 + (double)((i + (same ? 0 : (size_t)rank)) % 2);

	return c->type->is_signed && i % 3 == 1 ? -x : x;
}

static uint64_t case_code(const struct ref_type *t, double x)
{
	uint64_t mask = t->size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * t->size)) - 1;

	return t->mantissa ? ref_code(t, x) : (uint64_t)(int64_t)x & mask;
}

/* Element i of a rank's send buffer. */
static uint64_t case_input(const struct nccl_case *c, int rank, size_t i)
{
	uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u;

	if (is_reduction(c->kind))
		return case_code(c->type, case_value(c, rank, i));
	x ^= x >> 29;
	return c->type->size == 8 ? x : x & (((uint64_t)1 << (8 * c->type->size)) - 1);
}

static uint64_t case_reduced(const struct nccl_case *c, size_t i)
{
	double y = case_value(c, 0, i) * case_scale(c, 0);

	for (int p = 1; p < c->r->nranks; p++) {
		double x = case_value(c, p, i) * case_scale(c, p);

		y = c->op == COLL_PROD  ? y * x
		    : c->op == COLL_MAX ? (x > y ? x : y)
		    : c->op == COLL_MIN ? (x < y ? x : y)
					: y + x;
	}
	return case_code(c->type, c->op == COLL_AVG ? y / c->r->nranks : y);
}

/* ------------------------------------------------------------------------ the call -- */

static size_t case_send_elements(const struct nccl_case *c)
{
	size_t counts[CASE_RANKS], displs[CASE_RANKS], end = 0;

	case_layout(c, c->r->rank, counts, displs);
	if (c->kind == COLL_KIND_ALLGATHERV || c->kind == COLL_KIND_GATHERV)
		return counts[c->r->rank];
	if (!is_v(c->kind) && c->kind != COLL_KIND_REDUCE_SCATTER &&
	    c->kind != COLL_KIND_ALLTOALL && c->kind != COLL_KIND_SCATTER)
		return c->count;
	for (int p = 0; p < c->r->nranks; p++)
		end = displs[p] + counts[p] > end ? displs[p] + counts[p] : end;
	return end;
}

static int case_in_place(const struct nccl_case *c)
{
	return c->in_place && (!has_root(c->kind) || c->r->rank == c->root);
}

/* Elements before this rank's part of the larger buffer, when that holds the other one. */
static size_t case_part(const struct nccl_case *c)
{
	size_t counts[CASE_RANKS], displs[CASE_RANKS];

	case_layout(c, c->r->rank, counts, displs);
	return case_in_place(c) && takes_part(c->kind) ? displs[c->r->rank] : 0;
}

static int case_scatters(int kind)
{
	return kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV ||
	       kind == COLL_KIND_SCATTER || kind == COLL_KIND_SCATTERV;
}

static coll_args_t case_args(const struct nccl_case *c, const struct nccl_buffers *b,
			     size_t *counts, size_t *displs)
{
	coll_args_t a = {.size = sizeof(a), .kind = c->kind, .dtype = c->dtype, .op = c->made};
	size_t part = case_part(c) * (size_t)c->type->size;
	int rank = c->r->rank, v = is_v(c->kind);

	case_layout(c, rank, counts, displs);
	a.root = c->root;
	a.count = v ? counts[rank] : c->count;
	if (c->kind == COLL_KIND_ALLTOALLV || c->kind == COLL_KIND_REDUCE_SCATTERV)
		a.count = 0;
	if (c->kind == COLL_KIND_ALLTOALLV || c->kind == COLL_KIND_SCATTERV) {
		a.sendcounts = counts;
		a.senddispls = displs;
	}
	if (v && c->kind != COLL_KIND_SCATTERV) {
		a.recvcounts = counts;
		a.recvdispls = c->kind == COLL_KIND_REDUCE_SCATTERV ? NULL : displs;
	}
	a.sendbuf = b->send;
	a.recvbuf = b->recv;
	if (case_in_place(c) && case_scatters(c->kind))
		a.recvbuf = b->send + part;
	else if (case_in_place(c))
		a.sendbuf = b->recv + part;
	return a;
}

/* Puts the input where the call will look for it, and blanks everything else. */
static void case_fill(const struct nccl_case *c, struct nccl_buffers *b)
{
	int device = c->r->rank % NCCL_DEVICES,
	    within = case_in_place(c) && !case_scatters(c->kind);
	size_t first = within ? case_part(c) : 0, n = case_send_elements(c);

	memset(b->given, CASE_BLANK, sizeof(b->given));
	memset(b->seen, 0, sizeof(b->seen));
	for (size_t i = 0; i < n; i++)
		ref_store(c->type, b->given[within], first + i, case_input(c, c->r->rank, i));
	device_move(device, b->send, b->given[0], sizeof(b->given[0]));
	device_move(device, b->recv, b->given[1], sizeof(b->given[1]));
}

/* ---------------------------------------------------------------------- the result -- */

struct case_result {
	const struct nccl_case *c;
	struct nccl_buffers *b;
	const char *found;
	int good;
};

static void case_see(struct case_result *w, size_t at, uint64_t want)
{
	const struct ref_type *t = w->c->type;
	uint64_t found = ref_load(t, w->found, at);

	memset(w->b->seen + at * (size_t)t->size, 1, (size_t)t->size);
	if (found != want && w->good)
		w->good = rank_fail(w->c->r,
				    "%s%s of %s, op %d, root %d: element %zu is %#llx, not "
				    "%#llx",
				    coll_kind_name(w->c->kind), w->c->in_place ? " in place" : "",
				    coll_dtype_name(w->c->dtype), w->c->op, w->c->root, at,
				    (unsigned long long)found, (unsigned long long)want);
}

static void case_see_copy(struct case_result *w, size_t at, int from, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		case_see(w, at + i, case_input(w->c, from, first + i));
}

static void case_see_reduced(struct case_result *w, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		case_see(w, i, case_reduced(w->c, first + i));
}

static void case_see_blocks(struct case_result *w, const size_t *counts, const size_t *displs)
{
	const struct nccl_case *c = w->c;
	size_t theirs[CASE_RANKS], at[CASE_RANKS];
	int exchanges = c->kind == COLL_KIND_ALLTOALL || c->kind == COLL_KIND_ALLTOALLV;

	for (int p = 0; p < c->r->nranks; p++) {
		case_layout(c, p, theirs, at);
		case_see_copy(w, displs[p], p, exchanges ? at[c->r->rank] : 0, counts[p]);
	}
}

static void case_see_all(struct case_result *w)
{
	const struct nccl_case *c = w->c;
	size_t counts[CASE_RANKS], displs[CASE_RANKS];
	int me = c->r->rank, root = me == c->root;

	case_layout(c, me, counts, displs);
	switch (c->kind) {
	case COLL_KIND_REDUCE:
		if (root)
			case_see_reduced(w, 0, c->count);
		break;
	case COLL_KIND_ALLREDUCE: case_see_reduced(w, 0, c->count); break;
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_REDUCE_SCATTERV: case_see_reduced(w, displs[me], counts[me]); break;
	case COLL_KIND_BROADCAST: case_see_copy(w, 0, c->root, 0, c->count); break;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV: case_see_copy(w, 0, c->root, displs[me], counts[me]); break;
	default:
		if (root || !has_root(c->kind))
			case_see_blocks(w, counts, displs);
	}
}

/* The result, and that nothing else was written. */
static int case_check(const struct nccl_case *c, struct nccl_buffers *b)
{
	int device = c->r->rank % NCCL_DEVICES;
	int within = case_in_place(c) && case_scatters(c->kind);
	size_t part = within ? case_part(c) * (size_t)c->type->size : 0;
	struct case_result w = {c, b, b->found[!within] + part, 1};

	device_move(device, b->found[0], b->send, sizeof(b->found[0]));
	device_move(device, b->found[1], b->recv, sizeof(b->found[1]));
	case_see_all(&w);
	for (size_t i = 0; w.good && !within && i < sizeof(b->seen); i++)
		if (!b->seen[i] && b->found[1][i] != b->given[1][i])
			w.good = rank_fail(c->r, "%s: byte %zu of recvbuf was written",
					   coll_kind_name(c->kind), i);
	for (size_t i = 0; w.good && !within && i < sizeof(b->seen); i++)
		if (b->found[0][i] != b->given[0][i])
			w.good = rank_fail(c->r, "%s: byte %zu of sendbuf was written",
					   coll_kind_name(c->kind), i);
	return w.good;
}

/* --------------------------------------------------------------------- all together -- */

static int case_start(const struct nccl_case *c, const coll_args_t *a, coll_request_t request)
{
	coll_comm_t m = c->r->comm;

	if (request)
		return coll_request_start(request);
	switch (c->kind) {
	case COLL_KIND_ALLREDUCE:
		return coll_allreduce(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, m, NULL);
	case COLL_KIND_BROADCAST:
		return coll_broadcast(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, m, NULL);
	case COLL_KIND_REDUCE:
		return coll_reduce(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, a->root, m,
				   NULL);
	case COLL_KIND_ALLGATHER:
		return coll_allgather(a->sendbuf, a->recvbuf, a->count, a->dtype, m, NULL);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, m,
					   NULL);
	case COLL_KIND_ALLTOALL:
		return coll_alltoall(a->sendbuf, a->recvbuf, a->count, a->dtype, m, NULL);
	case COLL_KIND_GATHER:
		return coll_gather(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, m, NULL);
	case COLL_KIND_SCATTER:
		return coll_scatter(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, m, NULL);
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts,
				       a->recvdispls, a->dtype, m, NULL);
	case COLL_KIND_REDUCE_SCATTERV:
		return coll_reduce_scatterv(a->sendbuf, a->recvbuf, a->recvcounts, a->dtype, a->op,
					    m, NULL);
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf,
				      a->recvcounts, a->recvdispls, a->dtype, m, NULL);
	case COLL_KIND_GATHERV:
		return coll_gatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts, a->recvdispls,
				    a->dtype, a->root, m, NULL);
	default:
		return coll_scatterv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf, a->count,
				     a->dtype, a->root, m, NULL);
	}
}

static int case_run(const struct nccl_case *c, struct nccl_buffers *b)
{
	size_t counts[CASE_RANKS], displs[CASE_RANKS];
	coll_args_t a = case_args(c, b, counts, displs);
	coll_request_t request = NULL;
	int good = 1;

	if (c->persistent)
		good = rank_did(c->r, coll_request_init(c->r->comm, &a, &request), "request_init");
	for (int i = 0; good && i < 1 + 2 * c->persistent; i++) {
		case_fill(c, b);
		good = rank_did(c->r, case_start(c, &a, request), coll_kind_name(c->kind)) &&
		       rank_did(c->r, request ? coll_wait(request) : coll_sync(c->r->comm),
				"completion") &&
		       case_check(c, b);
	}
	if (request)
		rank_did(c->r, coll_request_free(request), "request_free");
	return good;
}

/* Makes the operation, where it is one that has to be made. */
static int case_make_op(struct nccl_case *c, char *scalar)
{
	int device = c->r->rank % NCCL_DEVICES;
	uint64_t code = case_code(c->type, case_scale(c, c->r->rank));

	c->made = c->op;
	if (c->op < CASE_SCALED_HOST)
		return 1;
	device_move(device, scalar, &code, sizeof(code));
	return rank_did(c->r,
			c->op == CASE_SCALED_HOST
				? coll_red_op_create_pre_mul_sum(&c->made, &code, c->dtype,
								 COLL_SCALAR_HOST_IMMEDIATE,
								 c->r->comm)
				: coll_red_op_create_pre_mul_sum(&c->made, scalar, c->dtype,
								 COLL_SCALAR_DEVICE, c->r->comm),
			"red_op_create");
}

/* One case, from making its buffers to looking at them. */
RANKS_UNUSED static int case_holds(struct nccl_case c)
{
	int device = c.r->rank % NCCL_DEVICES, good;
	struct nccl_buffers *b = calloc(1, sizeof(*b));
	char *scalar = device_new(device, 8, 0);

	if (!b)
		bail_out("no memory");
	c.type = case_type(c.dtype);
	b->send = device_new(device, sizeof(b->given[0]), 0);
	b->recv = device_new(device, sizeof(b->given[1]), 0);
	good = case_make_op(&c, scalar) && case_run(&c, b);
	if (c.made >= CASE_SCALED_HOST)
		rank_did(c.r, coll_red_op_destroy(c.made, c.r->comm), "red_op_destroy");
	device_free(device, b->send);
	device_free(device, b->recv);
	device_free(device, scalar);
	free(b);
	return good;
}

#endif
