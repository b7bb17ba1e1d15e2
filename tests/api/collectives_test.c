/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives_test.c - allreduce, broadcast, reduce, allgather and reduce_scatter against a serial
 * reference: rank counts, every data type and operation, counts from 0 to over 16 MiB, in place and
 * not, every root, buffers of any alignment with guards around them.
 *
 * Inputs of exact checks are chosen so that every order of evaluation gives the same bits: integers
 * wrap, floats are small numbers whose partial results all types can hold.  Inputs repeat with a
 * prime period, so that the reference is worked out once for each (type, operation, ranks).
 *
 * TEST_LEVEL=small takes fewer of each; TEST_BIG=1 adds more than 2^31 elements, which
 * takes 4.5 GiB of memory.
 */
#include "../lib/ranks.h"
#include "../lib/reduce_reference.h"

enum {
	PERIOD = 257,
	GUARD = 64,
	GUARD_BYTE = 0xa5,
	MIB16 = 16 << 20,
	OPS = 5, /* sum, prod, max, min, avg */
	ELEM_MAX = 8
};

/* Inputs of all ranks and the result of the reduction, for one type and operation. */
struct table {
	unsigned char in[RANKS_MAX][PERIOD * ELEM_MAX];
	unsigned char out[PERIOD * ELEM_MAX];
};

static struct table tables[REF_TYPES][OPS]; /* for the number of ranks under test */

struct test {
	int kind;
	int small;
	uint64_t hash[RANKS_MAX]; /* of inexact results */
};

/* One call on one rank. */
struct call {
	struct rank *r;
	int kind, type, op, root, in_place, shift;
	size_t count, elem;
	size_t send_len, recv_len; /* elements */
	unsigned char *send_mem, *recv_mem, *send, *recv;
};

static const char *const kind_names[] = {
	[COLL_KIND_ALLREDUCE] = "allreduce",
	[COLL_KIND_BROADCAST] = "broadcast",
	[COLL_KIND_REDUCE] = "reduce",
	[COLL_KIND_ALLGATHER] = "allgather",
	[COLL_KIND_REDUCE_SCATTER] = "reduce_scatter",
};

/* --------------------------------------------------------------------- inputs -- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static double input_product(uint64_t h, int active)
{
	static const double values[] = {2, 0.5, -2, 1, -0.5, -1, 2, 0.5};

	if (active)
		return values[h % 8];
	return h % 2 ? -1 : 1;
}

static double input_extreme(uint64_t h)
{
	switch (h % 64) {
	case 0: return NAN;
	case 1: return 0.0;
	case 2: return -0.0;
	case 3: return -INFINITY;
	case 4: return INFINITY;
	default: return ((double)(h >> 8 & 0xff) - 128) / 8;
	}
}

/* Sums of up to 16 ranks, and of any of them, are exact. */
static double input_sum(const struct ref_type *t, uint64_t h, int active)
{
	int most = t->mantissa >= 23 ? 1000 : t->mantissa >= 10 ? 100 : 16;

	if (t->mantissa >= 7)
		return (double)(int)(h % (uint64_t)(2 * most + 1)) - most;
	return active ? (double)(int)(h % 5) - 2 : 0;
}

static uint64_t input_code(const struct ref_type *t, int op, int rank, int k, int nranks)
{
	uint64_t h = mix((uint64_t)rank << 32 | (uint64_t)k << 8 | (uint64_t)(op * REF_TYPES) |
			 (uint64_t)t->dtype << 48);
	int active = (rank + k) % nranks < 4; /* at most 4 ranks */

	if (!t->mantissa)
		return h & (2 * (ref_sign(t) - 1) + 1);
	if (op == COLL_PROD)
		return ref_code(t, input_product(h, active));
	if (op == COLL_MIN || op == COLL_MAX)
		return ref_code(t, input_extreme(h));
	return ref_code(t, input_sum(t, h, active));
}

static void make_table(const struct ref_type *t, int op, int nranks, struct table *table)
{
	for (int r = 0; r < nranks; r++)
		for (int k = 0; k < PERIOD; k++)
			ref_store(t, table->in[r], (size_t)k, input_code(t, op, r, k, nranks));
	memcpy(table->out, table->in[0], sizeof(table->out));
	for (int r = 1; r < nranks; r++)
		ref_reduce(t, op == COLL_AVG ? COLL_SUM : op, table->out, table->out, table->in[r],
			   PERIOD, 1);
	if (op == COLL_AVG)
		ref_reduce(t, op, table->out, table->out, table->out, PERIOD, nranks);
}

static void make_tables(int nranks)
{
	for (int t = 0; t < REF_TYPES; t++)
		for (int op = 0; op < OPS; op++)
			make_table(&ref_types[t], op, nranks, &tables[t][op]);
}

/* The elements first, first + 1, ... of an endless repetition of a table's row. */
static void tile(unsigned char *dst, const unsigned char *row, size_t elem, size_t first,
		 size_t count)
{
	size_t at = first % PERIOD, n;

	for (; count; count -= n, dst += n * elem, at = 0) {
		n = PERIOD - at < count ? PERIOD - at : count;
		memcpy(dst, row + at * elem, n * elem);
	}
}

/* -------------------------------------------------------------------- checking -- */

static int same_element(const struct ref_type *t, uint64_t got, uint64_t want)
{
	return got == want ||
	       (t->mantissa && isnan(ref_value(t, got)) && isnan(ref_value(t, want)));
}

static int call_fail(const struct call *c, const char *what, size_t at)
{
	return rank_fail(c->r, "%s of %zu %s, op %s, root %d, %s, shifted %d: %s at %zu",
			 kind_names[c->kind], c->count, coll_dtype_name(ref_types[c->type].dtype),
			 coll_op_name(c->op), c->root, c->in_place ? "in place" : "out of place",
			 c->shift, what, at);
}

/* Is got[0..count) the repetition of `row` from `first` on? */
static int matches(const struct call *c, const unsigned char *got, const unsigned char *row,
		   size_t first, size_t count, const char *what)
{
	const struct ref_type *t = &ref_types[c->type];
	size_t at = first % PERIOD, done, n;

	for (done = 0; done < count; done += n, at = 0) {
		n = PERIOD - at < count - done ? PERIOD - at : count - done;
		if (!memcmp(got + done * c->elem, row + at * c->elem, n * c->elem))
			continue;
		for (size_t i = 0; i < n; i++)
			if (!same_element(t, ref_load(t, got, done + i), ref_load(t, row, at + i)))
				return call_fail(c, what, done + i);
	}
	return 1;
}

static int guarded(const struct call *c, const unsigned char *mem, size_t bytes, const char *what)
{
	const unsigned char *after = mem + GUARD + (size_t)c->shift + bytes;

	for (size_t i = 0; i < GUARD; i++)
		if (mem[i] != GUARD_BYTE || after[i] != GUARD_BYTE)
			return call_fail(c, what, i);
	return 1;
}

static unsigned char *guarded_new(struct call *c, size_t bytes)
{
	unsigned char *mem = malloc(bytes + 2 * GUARD + ELEM_MAX);

	if (!mem)
		bail_out("no memory for %zu bytes", bytes);
	memset(mem, GUARD_BYTE, GUARD + (size_t)c->shift);
	memset(mem + GUARD + (size_t)c->shift + bytes, GUARD_BYTE, GUARD);
	return mem;
}

/* ---------------------------------------------------------------------- a call -- */

/* Where the buffers lie, and what is in them before the call. */
static void call_prepare(struct call *c)
{
	const struct table *table = &tables[c->type][c->op];
	size_t part = c->count * c->elem * (size_t)c->r->rank;
	int larger_send = c->send_len > c->recv_len;
	size_t larger = larger_send ? c->send_len : c->recv_len;

	c->recv_mem = guarded_new(c, (c->in_place ? larger : c->recv_len) * c->elem);
	c->recv = c->recv_mem + GUARD + c->shift;
	if (c->in_place) {
		c->send_mem = NULL;
		c->send = c->recv;
		if (c->kind == COLL_KIND_ALLGATHER)
			c->send += part;
		if (c->kind == COLL_KIND_REDUCE_SCATTER)
			c->recv += part;
	} else {
		memset(c->recv, 0x5a, c->recv_len * c->elem);
		c->send_mem = guarded_new(c, c->send_len * c->elem);
		c->send = c->send_mem + GUARD + c->shift;
	}
	tile(c->send, table->in[c->r->rank], c->elem, 0, c->send_len);
}

static int call_issue(const struct call *c)
{
	coll_comm_t comm = c->r->comm;
	int dtype = ref_types[c->type].dtype, on_root = c->r->rank == c->root;
	/* A buffer used on root only may be anything elsewhere, NULL among them. */
	const void *root_send = on_root || c->in_place ? c->send : NULL;
	void *root_recv = on_root || c->in_place ? c->recv : NULL;

	switch (c->kind) {
	case COLL_KIND_ALLREDUCE:
		return coll_allreduce(c->send, c->recv, c->count, dtype, c->op, comm, NULL);
	case COLL_KIND_BROADCAST:
		return coll_broadcast(root_send, c->recv, c->count, dtype, c->root, comm, NULL);
	case COLL_KIND_REDUCE:
		return coll_reduce(c->send, root_recv, c->count, dtype, c->op, c->root, comm, NULL);
	case COLL_KIND_ALLGATHER:
		return coll_allgather(c->send, c->recv, c->count, dtype, comm, NULL);
	default: return coll_reduce_scatter(c->send, c->recv, c->count, dtype, c->op, comm, NULL);
	}
}

static int call_check_result(const struct call *c)
{
	const struct table *table = &tables[c->type][c->op];
	int good = 1;

	switch (c->kind) {
	case COLL_KIND_ALLREDUCE:
		return matches(c, c->recv, table->out, 0, c->count, "wrong result");
	case COLL_KIND_BROADCAST:
		return matches(c, c->recv, table->in[c->root], 0, c->count, "wrong data");
	case COLL_KIND_REDUCE:
		if (c->r->rank == c->root)
			return matches(c, c->recv, table->out, 0, c->count, "wrong result");
		if (c->in_place)
			return matches(c, c->recv, table->in[c->r->rank], 0, c->count,
				       "a rank that is not root has its buffer changed");
		return 1;
	case COLL_KIND_ALLGATHER:
		for (int r = 0; r < c->r->nranks && good; r++)
			good = matches(c, c->recv + (size_t)r * c->count * c->elem, table->in[r], 0,
				       c->count, "wrong data");
		return good;
	default:
		return matches(c, c->recv, table->out, (size_t)c->r->rank * c->count, c->count,
			       "wrong result");
	}
}

static int call_check(const struct call *c)
{
	size_t larger = c->send_len > c->recv_len ? c->send_len : c->recv_len;

	if (!call_check_result(c))
		return 0;
	if (c->in_place)
		return guarded(c, c->recv_mem, larger * c->elem, "a guard byte was overwritten");
	return matches(c, c->send, tables[c->type][c->op].in[c->r->rank], 0, c->send_len,
		       "the send buffer was changed") &&
	       guarded(c, c->send_mem, c->send_len * c->elem, "a guard of sendbuf was changed") &&
	       guarded(c, c->recv_mem, c->recv_len * c->elem, "a guard of recvbuf was changed");
}

static int call_run(struct call *c)
{
	int good, each = c->r->nranks;

	c->elem = (size_t)ref_types[c->type].size;
	c->send_len = c->count * (size_t)(c->kind == COLL_KIND_REDUCE_SCATTER ? each : 1);
	c->recv_len = c->count * (size_t)(c->kind == COLL_KIND_ALLGATHER ? each : 1);
	call_prepare(c);
	good = rank_did(c->r, call_issue(c), kind_names[c->kind]) &&
	       rank_did(c->r, coll_sync(c->r->comm), kind_names[c->kind]) && call_check(c);
	free(c->send_mem);
	free(c->recv_mem);
	return good;
}

/* ------------------------------------------------------------- sets of calls -- */

static int both_places(struct rank *r, int type, int op, int root, int shift, size_t count)
{
	const struct test *test = r->user;

	for (int in_place = 0; in_place < 2; in_place++) {
		struct call c = {.r = r,
				 .kind = test->kind,
				 .type = type,
				 .op = op,
				 .root = root,
				 .in_place = in_place,
				 .shift = shift,
				 .count = count};

		if (!call_run(&c))
			return 0;
	}
	return 1;
}

static int is_reduction(int kind)
{
	return kind != COLL_KIND_BROADCAST && kind != COLL_KIND_ALLGATHER;
}

static int has_root(int kind)
{
	return kind == COLL_KIND_BROADCAST || kind == COLL_KIND_REDUCE;
}

/* Is a count worth the time with every type and operation, or with one operation for each type? */
static int is_costly(const struct test *test, int nranks, size_t count)
{
	if (count < 65537)
		return 0;
	return test->small || (test->kind == COLL_KIND_REDUCE_SCATTER && nranks > 4);
}

static int every_type(struct rank *r, size_t count)
{
	const struct test *test = r->user;
	int ops = is_reduction(test->kind) ? OPS : 1, turn = (int)(count % 5);

	for (int t = 0; t < REF_TYPES; t++)
		for (int op = 0; op < ops; op++) {
			turn++;
			if (is_costly(test, r->nranks, count) && op != t % ops)
				continue;
			if (!both_places(r, t, op, turn % r->nranks, turn % 3, count))
				return 0;
		}
	return 1;
}

static int type_index(int dtype)
{
	int t = 0;

	while (ref_types[t].dtype != dtype)
		t++;
	return t;
}

static int every_root(struct rank *r)
{
	const struct test *test = r->user;

	for (int root = 0; root < r->nranks && has_root(test->kind); root++)
		if (!both_places(r, type_index(COLL_INT32), COLL_SUM, root, 0, 1000) ||
		    !both_places(r, type_index(COLL_INT32), COLL_MAX, root, 1, 1))
			return 0;
	return 1;
}

/* Over 16 MiB, all ranks' parts together where they are gathered or scattered by many. */
static int large(struct rank *r)
{
	const struct test *test = r->user;
	int each = test->kind == COLL_KIND_ALLGATHER || test->kind == COLL_KIND_REDUCE_SCATTER;
	size_t parts = each && r->nranks > 2 ? (size_t)r->nranks : 1;

	if (test->small && r->nranks > 2)
		return 1;
	return both_places(r, type_index(COLL_FLOAT32), COLL_SUM, r->nranks / 2, 0,
			   MIB16 / 4 / parts + 1003) &&
	       both_places(r, type_index(COLL_FLOAT16), COLL_AVG, 0, 1, MIB16 / 2 / parts + 1009);
}

static void run_kind(struct rank *r)
{
	static const size_t counts[] = {0, 1, 7, 1000, 65537};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!every_type(r, counts[i]))
			return;
	if (every_root(r))
		large(r);
}

/* ------------------------------------------------------------------ inexact sums -- */

/* A number in [-1, 1). */
static double fraction(int rank, size_t i)
{
	return (double)(int64_t)mix((uint64_t)rank << 40 | i) / 9223372036854775808.0;
}

/*
 * However f32 numbers are added, the result is off by at most (n - 1) units of roundoff (2^-24) of
 * the sum of their magnitudes, to first order; avg adds one more.
 */
static int inexact_check(struct rank *r, const float *got, size_t count, int op)
{
	for (size_t i = 0; i < count; i++) {
		double sum = 0, magnitude = 0, n = r->nranks, scale = op == COLL_AVG ? n : 1;

		for (int k = 0; k < r->nranks; k++) {
			double x = (float)fraction(k, i);

			sum += x;
			magnitude += fabs(x);
		}
		if (fabs((double)got[i] - sum / scale) >
		    1.01 * n * ldexp(1, -24) * magnitude / scale)
			return rank_fail(r, "%s of %zu float32: element %zu is %.9g, exactly %.9g",
					 coll_op_name(op), count, i, (double)got[i], sum / scale);
	}
	return 1;
}

static int inexact(struct rank *r, size_t count, int op)
{
	struct test *test = r->user;
	float *x = malloc(count * sizeof(*x));
	uint32_t bits;
	int good;

	if (!x)
		bail_out("no memory");
	for (size_t i = 0; i < count; i++)
		x[i] = (float)fraction(r->rank, i);
	good = rank_did(r, coll_allreduce(x, x, count, COLL_FLOAT32, op, r->comm, NULL),
			"allreduce") &&
	       rank_did(r, coll_sync(r->comm), "sync") && inexact_check(r, x, count, op);
	for (size_t i = 0; i < count; i++) {
		memcpy(&bits, &x[i], sizeof(bits));
		test->hash[r->rank] = mix(test->hash[r->rank] ^ bits);
	}
	free(x);
	return good;
}

static void run_inexact(struct rank *r)
{
	static const size_t counts[] = {1, 7, 1000, 16384, 65537, 300001};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!inexact(r, counts[i], COLL_SUM) || !inexact(r, counts[i], COLL_AVG))
			return;
}

static void test_inexact(struct ranks_job *job)
{
	struct test *test = job->user;
	int equal = 1;

	memset(test->hash, 0, sizeof(test->hash));
	job->fn = run_inexact;
	ranks_ok(job, "inexact sums are within their bound");
	for (int r = 1; r < job->nranks; r++)
		equal = equal && test->hash[r] == test->hash[0];
	ok(equal, "%s, %d %s: inexact sums have the same bits on all ranks", job->backend,
	   job->nranks, job->processes ? "processes" : "threads");
}

/* ------------------------------------------------------------------------- more -- */

static void run_barrier(struct rank *r)
{
	_Atomic int *arrived = r->user;

	for (int round = 1; round <= 20; round++) {
		atomic_fetch_add(arrived, 1);
		if (!rank_did(r, coll_barrier(r->comm), "barrier"))
			return;
		if (atomic_load(arrived) < round * r->nranks) {
			rank_fail(r, "left barrier %d before all had come", round);
			return;
		}
		if (!rank_did(r, coll_barrier(r->comm), "barrier"))
			return;
	}
}

/* Many operations are issued before the first is waited for. */
static void run_queue(struct rank *r)
{
	enum { N = 100 };
	int32_t x[N];

	for (int i = 0; i < N; i++) {
		x[i] = r->rank + i;
		if (!rank_did(r,
			      coll_allreduce(&x[i], &x[i], 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r,
			      coll_broadcast(&x[i], &x[i], 1, COLL_INT32, i % r->nranks, r->comm,
					     NULL),
			      "broadcast"))
			return;
	}
	if (!rank_did(r, coll_sync(r->comm), "sync"))
		return;
	for (int i = 0; i < N; i++)
		if (x[i] != r->nranks * (r->nranks - 1) / 2 + r->nranks * i)
			rank_fail(r, "operation %d of the queue gave %d", i, x[i]);
}

/* More elements than 31 bits count. */
static void run_huge(struct rank *r)
{
	size_t count = ((size_t)1 << 31) + 12345;
	unsigned char *x = malloc(count);

	if (!x) {
		rank_fail(r, "no memory for %zu bytes", count);
		return;
	}
	tile(x, tables[type_index(COLL_INT8)][COLL_SUM].in[r->rank], 1, 0, count);
	if (rank_did(r, coll_allreduce(x, x, count, COLL_INT8, COLL_SUM, r->comm, NULL),
		     "allreduce") &&
	    rank_did(r, coll_sync(r->comm), "sync")) {
		struct call c = {.r = r, .kind = COLL_KIND_ALLREDUCE, .count = count, .elem = 1};

		c.type = type_index(COLL_INT8);
		matches(&c, x, tables[c.type][COLL_SUM].out, 0, count, "wrong result");
	}
	free(x);
}

static void test_ranks(struct ranks_job *job)
{
	struct test *test = job->user;

	for (int kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_REDUCE_SCATTER; kind++) {
		test->kind = kind;
		job->fn = run_kind;
		ranks_ok(job, "%s agrees with the serial reference", kind_names[kind]);
	}
	test_inexact(job);
	job->fn = run_queue;
	ranks_ok(job, "200 operations in the queue");
	job->fn = run_barrier;
	job->user = ranks_memory(sizeof(_Atomic int));
	ranks_ok(job, "barrier");
	job->user = test;
}

static void test_backend(const char *backend, struct test *test)
{
	static const int full[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 0};
	static const int few[] = {1, 2, 3, 4, 7, 0};

	for (const int *n = test->small ? few : full; *n; n++) {
		struct ranks_job job = {.backend = backend, .nranks = *n, .user = test};

		make_tables(*n);
		if (strcmp(backend, "simulated") && (*n == 3 || *n == 4)) {
			job.processes = 1;
			test_ranks(&job);
			job.processes = 0;
		}
		test_ranks(&job);
	}
}

int main(int argc, char **argv)
{
	struct test *test = ranks_memory(sizeof(*test));
	const char *big = getenv("TEST_BIG");

	alarm(3600);
	test->small = ranks_small();
	for (int i = 1; i < argc; i++)
		test_backend(argv[i], test);
	if (argc == 1) {
		test_backend("simulated", test);
		test_backend("tcp", test);
		if (!test->small && ranks_can("ucx"))
			test_backend("ucx", test);
	}
	if (!big || !big[0]) {
		skip(1, "more than 2^31 elements: set TEST_BIG=1 (takes 4.5 GiB)");
	} else {
		struct ranks_job job = {
			.backend = "tcp", .nranks = 2, .fn = run_huge, .user = test};

		make_tables(2);
		ranks_ok(&job, "allreduce of 2^31 + 12345 int8");
	}
	return done_testing();
}
