/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repeat_test.c - repeated calls, with the same arguments or with some of them changed: each call
 * must do its own work, not that of the call before.
 *
 * All ranks make the same bursts of calls.  A burst draws from a few forms on a few buffers, so
 * that many calls repeat an earlier call in part or wholly, and every rank can compute the expected
 * result.
 */
#include "../../tools/oracle/oracle.h"
#include "../lib/ranks.h"

enum { COUNT = 3, BLOCKS = 4, CAPACITY = COUNT * BLOCKS, SLOTS = 6 };

enum form {
	SUM,
	SUM_IN_PLACE,
	LARGEST,
	OWN, /* sum or maximum, under one op value */
	BROADCAST,
	REDUCE,
	GATHER_ALL,
	GATHER_ALL_V, /* uses one array of counts, whose values change */
	RING,
	BARRIER,
	FORMS
};

struct call {
	enum form form;
	int number; /* seed of the data */
	int count, root;
	size_t counts[BLOCKS];
	int64_t in[CAPACITY], out[CAPACITY];
};

struct play {
	struct rank *r;
	struct call call[SLOTS];
	size_t counts[BLOCKS];
	uint32_t random; /* seed, the same on all ranks */
	int calls;
	coll_op_t own;
	int own_is_sum;
};

static int draw(struct play *p, int n)
{
	p->random = p->random * 1664525 + 1013904223;
	return (int)(p->random >> 16) % n;
}

static struct oracle_data data_of(const struct call *c, int nranks, int32_t op)
{
	return (struct oracle_data){
		.dtype = COLL_INT64, .op = op, .nranks = nranks, .seed = (uint64_t)c->number};
}

static int64_t value(const struct call *c, int rank, int i)
{
	const struct oracle_data d = data_of(c, BLOCKS, ORACLE_MOVE);

	return (int64_t)oracle_input(&d, rank, (size_t)i);
}

static int64_t combined(const struct call *c, int nranks, int i, int is_sum)
{
	const struct oracle_data d = data_of(c, nranks, is_sum ? COLL_SUM : COLL_MAX);

	return (int64_t)oracle_result(&d, (size_t)i);
}

/* -------------------------------------------------------------------- own operation -- */

static void add(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const int64_t *a = left;
	int64_t *b = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < count; i++)
		b[i] = (int64_t)((uint64_t)a[i] + (uint64_t)b[i]);
}

static void larger(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const int64_t *a = left;
	int64_t *b = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < count; i++)
		b[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Gives another operation the same op value. */
static int change_own(struct play *p)
{
	coll_op_t before = p->own;
	int code = p->own ? coll_red_op_destroy(p->own, p->r->comm) : COLL_SUCCESS;

	p->own_is_sum = !p->own_is_sum;
	if (!code)
		code = coll_red_op_create_user(&p->own, p->own_is_sum ? add : larger, NULL, 1,
					       p->r->comm);
	return rank_did(p->r, code, "another operation") &&
	       (!before || p->own == before || rank_fail(p->r, "its number is another"));
}

/* -------------------------------------------------------------------------- calls -- */

static coll_result_t call_ring(struct play *p, struct call *c)
{
	struct rank *r = p->r;
	uint32_t tag = (uint32_t)c->number % 3;
	int code = coll_group_start();

	if (!code)
		code = coll_send(c->in, (size_t)c->count, COLL_INT64, (r->rank + 1) % r->nranks,
				 tag, r->comm, NULL);
	if (!code)
		code = coll_recv(c->out, (size_t)c->count, COLL_INT64,
				 (r->rank + r->nranks - 1) % r->nranks, tag, r->comm, NULL);
	return code ? code : coll_group_end();
}

static coll_result_t call_gather_v(struct play *p, struct call *c)
{
	for (int r = 0; r < p->r->nranks; r++)
		p->counts[r] = c->counts[r];
	return coll_allgatherv(c->in, c->counts[p->r->rank], c->out, p->counts, NULL, COLL_INT64,
			       p->r->comm, NULL);
}

static coll_result_t make_call(struct play *p, struct call *c)
{
	coll_comm_t comm = p->r->comm;
	size_t n = (size_t)c->count;

	switch (c->form) {
	case SUM: return coll_allreduce(c->in, c->out, n, COLL_INT64, COLL_SUM, comm, NULL);
	case SUM_IN_PLACE:
		memcpy(c->out, c->in, sizeof(c->out));
		return coll_allreduce(c->out, c->out, n, COLL_INT64, COLL_SUM, comm, NULL);
	case LARGEST: return coll_allreduce(c->in, c->out, n, COLL_INT64, COLL_MAX, comm, NULL);
	case OWN: return coll_allreduce(c->in, c->out, n, COLL_INT64, p->own, comm, NULL);
	case BROADCAST: return coll_broadcast(c->in, c->out, n, COLL_INT64, c->root, comm, NULL);
	case REDUCE:
		return coll_reduce(c->in, c->out, n, COLL_INT64, COLL_SUM, c->root, comm, NULL);
	case GATHER_ALL: return coll_allgather(c->in, c->out, n, COLL_INT64, comm, NULL);
	case GATHER_ALL_V: return call_gather_v(p, c);
	case RING: return call_ring(p, c);
	default: return coll_barrier(comm);
	}
}

static void draw_call(struct play *p, struct call *c)
{
	c->form = (enum form)draw(p, FORMS);
	c->number = p->calls++;
	c->count = draw(p, 2) ? 1 : COUNT;
	c->root = draw(p, 2);
	for (int r = 0; r < p->r->nranks; r++)
		c->counts[r] = (size_t)draw(p, COUNT + 1);
	for (int i = 0; i < CAPACITY; i++) {
		c->in[i] = value(c, p->r->rank, i);
		c->out[i] = -1;
	}
}

/* ------------------------------------------------------------------------ results -- */

/* The expected value of out[i]; -1: not written. */
static int64_t wanted(const struct play *p, const struct call *c, int i)
{
	int me = p->r->rank, n = p->r->nranks, in = i < c->count;

	switch (c->form) {
	case SUM: return in ? combined(c, n, i, 1) : -1;
	case SUM_IN_PLACE: return in ? combined(c, n, i, 1) : value(c, me, i);
	case LARGEST: return in ? combined(c, n, i, 0) : -1;
	case OWN: return in ? combined(c, n, i, p->own_is_sum) : -1;
	case BROADCAST: return in ? value(c, c->root, i) : -1;
	case REDUCE: return in && me == c->root ? combined(c, n, i, 1) : -1;
	case GATHER_ALL: return i < n * c->count ? value(c, i / c->count, i % c->count) : -1;
	case GATHER_ALL_V:
		for (int r = 0; r < n; i -= (int)c->counts[r++])
			if (i < (int)c->counts[r])
				return value(c, r, i);
		return -1;
	case RING: return in ? value(c, (me + n - 1) % n, i) : -1;
	default: return -1;
	}
}

static int right(struct play *p, const struct call *c)
{
	for (int i = 0; i < CAPACITY; i++)
		if (c->out[i] != wanted(p, c, i))
			return rank_fail(p->r, "call %d, form %d: element %d is %lld, not %lld",
					 c->number, (int)c->form, i, (long long)c->out[i],
					 (long long)wanted(p, c, i));
	return 1;
}

static int burst(struct play *p)
{
	int n = 1 + draw(p, SLOTS), good = 1;

	for (int i = 0; good && i < n; i++) {
		draw_call(p, &p->call[i]);
		good = rank_did(p->r, make_call(p, &p->call[i]), "a call");
	}
	good = good && rank_did(p->r, coll_sync(p->r->comm), "sync");
	for (int i = 0; good && i < n; i++)
		good = right(p, &p->call[i]);
	return good;
}

/* The library refuses a wrong call again, and also if the same call was right before. */
static int refusals(struct play *p)
{
	coll_comm_t comm = p->r->comm;
	int64_t x = 1, y = 0;

	for (int i = 0; i < 3; i++) {
		if (!sums_to(p->r, comm, 1, p->r->nranks, "a sum"))
			return 0;
		if (coll_allreduce(&x, NULL, 1, COLL_INT64, COLL_SUM, comm, NULL) !=
			    COLL_ERR_INVALID_ARGUMENT ||
		    coll_broadcast(&x, &y, 1, COLL_INT64, p->r->nranks, comm, NULL) !=
			    COLL_ERR_INVALID_ARGUMENT)
			return rank_fail(p->r, "wrong arguments were taken");
	}
	if (!rank_did(p->r, coll_red_op_destroy(p->own, comm), "destroy the operation"))
		return 0;
	return coll_allreduce(&x, &y, 1, COLL_INT64, p->own, comm, NULL) ==
		       COLL_ERR_INVALID_ARGUMENT ||
	       rank_fail(p->r, "an operation that is destroyed was taken");
}

/* One sum that scales takes the place of another, with its number: each scales by its own factor until it is destroyed. */
static int scales(struct play *p)
{
	coll_comm_t comm = p->r->comm;
	int64_t x = 1, y = 0;
	coll_op_t op, before = 0;

	for (int64_t factor = 2; factor < 4; factor++, before = op) {
		if (!rank_did(p->r,
			      coll_red_op_create_pre_mul_sum(&op, &factor, COLL_INT64,
							     COLL_SCALAR_HOST_IMMEDIATE, comm),
			      "a sum that scales"))
			return 0;
		if (before && op != before)
			return rank_fail(p->r, "its number is another");
		for (int i = 0; i < 2; i++)
			if (!rank_did(p->r, coll_allreduce(&x, &y, 1, COLL_INT64, op, comm, NULL),
				      "a scaled sum") ||
			    !rank_did(p->r, coll_sync(comm), "sync"))
				return 0;
		if (y != factor * p->r->nranks)
			return rank_fail(p->r, "the scaled sum is %lld", (long long)y);
		if (!rank_did(p->r, coll_red_op_destroy(op, comm), "destroy the operation"))
			return 0;
		if (coll_allreduce(&x, &y, 1, COLL_INT64, op, comm, NULL) !=
		    COLL_ERR_INVALID_ARGUMENT)
			return rank_fail(p->r, "a sum that is destroyed was taken");
	}
	return 1;
}

static void play(struct rank *r)
{
	struct play *p = calloc(1, sizeof(*p));
	int bursts = ranks_small() ? 150 : 600, good;

	if (!p)
		bail_out("no memory");
	p->r = r;
	p->random = 7;
	good = change_own(p);
	for (int i = 0; good && i < bursts; i++) {
		good = burst(p);
		if (good && i % 8 == 7)
			good = change_own(p);
	}
	if (good)
		good = refusals(p) && scales(p);
	if (!good)
		coll_comm_abort(r->comm);
	free(p);
}

int main(void)
{
	for (int n = 2; n <= BLOCKS; n++)
		ranks_ok(&(struct ranks_job){"simulated", n, 0, play, NULL}, "repeated calls");
	ranks_ok(&(struct ranks_job){"tcp", 2, 1, play, NULL}, "repeated calls");
	ranks_ok(&(struct ranks_job){"tcp", 3, 1, play, NULL}, "repeated calls");
	return done_testing();
}
