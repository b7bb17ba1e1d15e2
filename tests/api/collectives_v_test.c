/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives_v_test.c - the collectives that only move data, with equal counts and with one for
 * each pair of ranks: every algorithm, every root, with gaps between blocks and without, in place and
 * not, on 1 to 9 ranks.  After each call all memory is compared, so that nothing beside the blocks
 * may have changed.
 */
#include "../lib/ranks.h"

#include <stdbool.h>

enum { NRANKS_MAX = 9, GAP = 3, GUARD = 64 };

struct call {
	struct rank *r;
	int kind, root;
	bool uneven, gaps, in_place;
	size_t base; /* the equal count, or what uneven ones are multiples of */
	coll_dtype_t dtype;
	size_t elem;
	/* What this rank sends to, and receives from, each rank: elements, and where. */
	size_t scounts[NRANKS_MAX], sdispls[NRANKS_MAX], ssize;
	size_t rcounts[NRANKS_MAX], rdispls[NRANKS_MAX], rsize;
};

/* ------------------------------------------------------------------ what goes where -- */

static bool has_root(int kind)
{
	return kind == COLL_KIND_BROADCAST || kind == COLL_KIND_GATHER ||
	       kind == COLL_KIND_GATHERV || kind == COLL_KIND_SCATTER || kind == COLL_KIND_SCATTERV;
}

static bool is_alltoall(int kind)
{
	return kind == COLL_KIND_ALLTOALL || kind == COLL_KIND_ALLTOALLV;
}

static bool is_scatter(int kind)
{
	return kind == COLL_KIND_SCATTER || kind == COLL_KIND_SCATTERV;
}

static bool is_gather(int kind)
{
	return kind == COLL_KIND_GATHER || kind == COLL_KIND_GATHERV;
}

/* Does each destination get a block of its own? */
static bool is_personal(int kind)
{
	return is_alltoall(kind) || is_scatter(kind);
}

/* Elements from one rank to another; in place both ways are equal. */
static size_t count_of(const struct call *c, int from, int to)
{
	if (!c->uneven)
		return c->base;
	if (!is_alltoall(c->kind))
		return c->base * (size_t)((is_scatter(c->kind) ? to : from) % 4);
	return c->base * (size_t)(c->in_place ? (from + to) % 4 : (from + 2 * to) % 4);
}

/* Where blocks of these counts lie; with gaps the last rank's comes first.  Returns their room. */
static size_t place_blocks(const struct call *c, const size_t *counts, size_t *displs)
{
	size_t at = c->gaps ? GAP : 0;

	for (int i = 0; i < c->r->nranks; i++) {
		int rank = c->gaps ? c->r->nranks - 1 - i : i;

		displs[rank] = at;
		at += counts[rank] + (c->gaps ? GAP : 0);
	}
	return at;
}

static void lay_out(struct call *c)
{
	int me = c->r->rank;
	bool root = me == c->root;

	for (int p = 0; p < c->r->nranks; p++) {
		c->scounts[p] = is_scatter(c->kind) && !root ? 0 : count_of(c, me, p);
		c->rcounts[p] = is_gather(c->kind) && !root ? 0 : count_of(c, p, me);
	}
	c->ssize = place_blocks(c, c->scounts, c->sdispls);
	c->rsize = place_blocks(c, c->rcounts, c->rdispls);
	if (is_scatter(c->kind) || c->kind == COLL_KIND_BROADCAST) {
		c->rsize = c->rcounts[c->root];
		c->rdispls[c->root] = 0;
	}
	if (!is_personal(c->kind)) {
		c->ssize = c->scounts[0];
		memset(c->sdispls, 0, sizeof(c->sdispls));
	}
}

/* Does a block come from that rank to this one? */
static bool comes(const struct call *c, int from)
{
	if (is_gather(c->kind))
		return c->r->rank == c->root;
	return from == c->root || (!is_scatter(c->kind) && c->kind != COLL_KIND_BROADCAST);
}

/* The content of a block. */
static void fill(const struct call *c, unsigned char *mem, size_t displ, int from, int to)
{
	size_t bytes = count_of(c, from, to) * c->elem;
	unsigned char *block = mem + displ * c->elem;
	unsigned seed = (unsigned)from * 31 + (is_personal(c->kind) ? (unsigned)to * 7 + 3 : 0);

	for (size_t i = 0; i < bytes; i++)
		block[i] = (unsigned char)(seed + i + (i >> 8));
}

/* ------------------------------------------------------------------------ memory -- */

/* A buffer between guards, and what is to be in it after the call. */
struct memory {
	unsigned char *now, *want;
	size_t bytes; /* with guards */
};

static void memory_make(struct memory *m, const struct call *c, size_t elements, int background)
{
	m->bytes = elements * c->elem + 2 * GUARD;
	m->now = malloc(m->bytes);
	m->want = malloc(m->bytes);
	if (!m->now || !m->want)
		bail_out("no memory");
	memset(m->now, background, m->bytes);
	memset(m->want, background, m->bytes);
}

static void memory_free(struct memory *m)
{
	free(m->now);
	free(m->want);
}

static void put_sent(const struct call *c, unsigned char *mem)
{
	for (int p = 0; p < (is_personal(c->kind) ? c->r->nranks : 1); p++)
		if (!is_scatter(c->kind) || c->r->rank == c->root)
			fill(c, mem + GUARD, c->sdispls[p], c->r->rank, p);
}

static void put_received(const struct call *c, unsigned char *mem)
{
	for (int p = 0; p < c->r->nranks; p++)
		if (comes(c, p))
			fill(c, mem + GUARD, c->rdispls[p], p, c->r->rank);
}

static int is_wanted(const struct call *c, const struct memory *m, const char *what)
{
	for (size_t i = 0; i < m->bytes; i++)
		if (m->now[i] != m->want[i])
			return rank_fail(c->r,
					 "%s of %zu, root %d, %s, %s: byte %lld of the %s buffer "
					 "is %d, not %d",
					 coll_kind_name(c->kind), c->base, c->root,
					 c->gaps ? "gaps" : "no gaps",
					 c->in_place ? "in place" : "not in place",
					 (long long)i - GUARD, what, m->now[i], m->want[i]);
	return 1;
}

/* ------------------------------------------------------------------------- calls -- */

static coll_result_t issue(const struct call *c, const void *in, void *out)
{
	const size_t *sd = c->gaps ? c->sdispls : NULL, *rd = c->gaps ? c->rdispls : NULL;
	size_t sent = c->scounts[0], received = c->rcounts[c->root];
	coll_comm_t comm = c->r->comm;

	switch (c->kind) {
	case COLL_KIND_BROADCAST:
		return coll_broadcast(in, out, c->base, c->dtype, c->root, comm, NULL);
	case COLL_KIND_ALLGATHER: return coll_allgather(in, out, c->base, c->dtype, comm, NULL);
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(in, sent, out, c->rcounts, rd, c->dtype, comm, NULL);
	case COLL_KIND_ALLTOALL: return coll_alltoall(in, out, c->base, c->dtype, comm, NULL);
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(in, c->scounts, sd, out, c->rcounts, rd, c->dtype, comm,
				      NULL);
	case COLL_KIND_GATHER: return coll_gather(in, out, c->base, c->dtype, c->root, comm, NULL);
	case COLL_KIND_GATHERV:
		return coll_gatherv(in, sent, out, c->rcounts, rd, c->dtype, c->root, comm, NULL);
	case COLL_KIND_SCATTER:
		return coll_scatter(in, out, c->base, c->dtype, c->root, comm, NULL);
	default:
		return coll_scatterv(in, c->scounts, sd, out, received, c->dtype, c->root, comm,
				     NULL);
	}
}

static int complete(const struct call *c, const void *in, void *out)
{
	return rank_did(c->r, issue(c, in, out), coll_kind_name(c->kind)) &&
	       rank_did(c->r, coll_sync(c->r->comm), "sync");
}

/* Arguments that only root's call has a use for are NULL elsewhere. */
static int apart(struct call *c)
{
	bool root = c->r->rank == c->root;
	bool sends = root || !(is_scatter(c->kind) || c->kind == COLL_KIND_BROADCAST);
	bool receives = root || !is_gather(c->kind);
	struct memory s, r;
	int good;

	memory_make(&s, c, c->ssize, 0xe1);
	memory_make(&r, c, c->rsize, 0xe2);
	put_sent(c, s.now);
	put_sent(c, s.want);
	put_received(c, r.want);
	good = complete(c, sends ? s.now + GUARD : NULL, receives ? r.now + GUARD : NULL) &&
	       is_wanted(c, &s, "send") && is_wanted(c, &r, "receive");
	memory_free(&s);
	memory_free(&r);
	return good;
}

/* One buffer holds both; scatter's is the send buffer, for the others the receive buffer. */
static int in_place(struct call *c)
{
	size_t own = c->r->rank, scatter = is_scatter(c->kind);
	struct memory m;
	unsigned char *in, *out;
	int good;

	memory_make(&m, c, scatter ? c->ssize : c->rsize, 0xe3);
	in = out = m.now + GUARD;
	if (scatter) {
		put_sent(c, m.now);
		put_sent(c, m.want);
		out += c->sdispls[own] * c->elem;
	} else {
		if (!is_alltoall(c->kind) && c->kind != COLL_KIND_BROADCAST) {
			in += c->rdispls[own] * c->elem;
			fill(c, in, 0, (int)own, 0);
		} else if (c->kind != COLL_KIND_BROADCAST || (int)own == c->root) {
			put_sent(c, m.now);
		}
		put_received(c, m.want);
	}
	good = complete(c, in, out) && is_wanted(c, &m, "only");
	memory_free(&m);
	return good;
}

static int try_call(struct call *c)
{
	bool root = c->r->rank == c->root;

	lay_out(c);
	/* Only root has both buffers there; the others call as ever. */
	if (c->in_place && (root || (!is_gather(c->kind) && !is_scatter(c->kind))))
		return in_place(c);
	return apart(c);
}

/* ------------------------------------------------------------------------- sweeps -- */

struct kind {
	int kind;
	bool uneven;
	const char *variable;
};

static const struct kind kinds[] = {
	{COLL_KIND_BROADCAST, false, "COLL_BROADCAST_ALGORITHM"},
	{COLL_KIND_ALLGATHER, false, "COLL_ALLGATHER_ALGORITHM"},
	{COLL_KIND_ALLTOALL, false, "COLL_ALLTOALL_ALGORITHM"},
	{COLL_KIND_GATHER, false, "COLL_GATHER_ALGORITHM"},
	{COLL_KIND_SCATTER, false, "COLL_SCATTER_ALGORITHM"},
	{COLL_KIND_ALLGATHERV, true, "COLL_ALLGATHERV_ALGORITHM"},
	{COLL_KIND_ALLTOALLV, true, "COLL_ALLTOALLV_ALGORITHM"},
	{COLL_KIND_GATHERV, true, "COLL_GATHERV_ALGORITHM"},
	{COLL_KIND_SCATTERV, true, "COLL_SCATTERV_ALGORITHM"},
};

static const size_t bases[] = {0, 1, 3, 250, 3000};
static const coll_dtype_t dtypes[] = {COLL_INT8, COLL_FLOAT16, COLL_INT32, COLL_FLOAT64};

static int sweep_forms(struct rank *r, const struct kind *k, int root, int b)
{
	for (int form = 0; form < (k->uneven ? 4 : 2); form++) {
		struct call c = {.r = r,
				 .kind = k->kind,
				 .root = root,
				 .uneven = k->uneven,
				 .in_place = form % 2,
				 .gaps = form / 2,
				 .base = bases[b],
				 .dtype = dtypes[(b + root) % 4]};

		c.elem = coll_dtype_size(c.dtype);
		if (!try_call(&c))
			return 0;
	}
	return 1;
}

static void sweep(struct rank *r)
{
	const struct kind *k = r->user;

	for (int b = 0; b < (int)(sizeof(bases) / sizeof(bases[0])); b++)
		for (int root = 0; root < (has_root(k->kind) ? r->nranks : 1); root++)
			if (!sweep_forms(r, k, root, b))
				return;
}

/* Every algorithm of the kind. */
static void test_kind(const char *backend, int processes, int nranks, const struct kind *k)
{
	struct ranks_job job = {backend, nranks, processes, sweep, (void *)(uintptr_t)k};
	coll_algorithm_info_t a = {.size = sizeof(a)};
	int tried = 0;

	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (coll_algorithm(i, &a) || a.kind != k->kind)
			continue;
		setenv(k->variable, a.name, 1);
		ranks_ok(&job, "%s by %s", coll_kind_name(k->kind), a.name);
		tried++;
	}
	unsetenv(k->variable);
	if (!tried)
		ok(0, "%s has an algorithm", coll_kind_name(k->kind));
}

static void test_backend(const char *backend, int processes, int nranks)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		test_kind(backend, processes, nranks, &kinds[k]);
}

int main(void)
{
	const int most = ranks_small() ? 5 : NRANKS_MAX;

	alarm(900); /* what hangs must end */
	setenv("COLL_SEGMENT", "4K", 1);
	for (int n = 1; n <= most; n++)
		test_backend("simulated", 0, n);
	test_backend("tcp", 0, 3);
	test_backend("tcp", 0, 4);
	test_backend("tcp", 1, 5);
	if (ranks_can("ucx")) {
		test_backend("ucx", 1, 4);
		test_backend("ucx", 0, 3);
	}
	return done_testing();
}
