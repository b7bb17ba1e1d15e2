/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scan_test.c - scan and exscan by every algorithm: every type and operation against the oracle, an operation that
 * does not commute, the receive buffer of rank 0, reproducible results, wrong arguments, ranks that differ.
 */
#include "../lib/calls.h"

#include <ctype.h>

enum { NRANKS_MAX = 9, LENGTH = 3000 };

static const int32_t kinds[] = {COLL_KIND_SCAN, COLL_KIND_EXSCAN};

/* --------------------------------------------------------------- against the oracle -- */

static void sweep(struct rank *r)
{
	const struct oracle_case c = {.kind = *(const int32_t *)r->user, .inputs = ORACLE_SPECIAL};

	oracle_table(&c, r->nranks, calls_try, r);
}

/* Sums whose bits depend on the grouping. */
static void sweep_rough(struct rank *r)
{
	struct oracle_case c = {.kind = *(const int32_t *)r->user,
				.dtype = COLL_FLOAT32,
				.op = COLL_SUM,
				.inputs = ORACLE_ROUGH};

	for (c.count = 1; c.count < 300000; c.count *= 23)
		if (!oracle_places(&c, r->nranks, calls_try, r))
			return;
}

/* ------------------------------------------------------------ an operation that does not commute -- */

/* The halves of an element are a map x -> ax + b; the left operand's map is applied first. */
static uint64_t then(uint64_t left, uint64_t right)
{
	uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left;
	uint32_t c = (uint32_t)(right >> 32), d = (uint32_t)right;

	return (uint64_t)(a * c) << 32 | (uint32_t)(c * b + d);
}

static void apply(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const uint64_t *a = left;
	uint64_t *b = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < count; i++)
		b[i] = then(a[i], b[i]);
}

static uint64_t input(int rank, size_t i)
{
	uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;

	return x ^ (x >> 29);
}

/* Element i over the first ranks; scalar: each rank's input is multiplied by its number plus 2. */
static uint64_t expected(int ranks, size_t i, int scaled)
{
	uint64_t y = input(0, i) * (scaled ? 2 : 1);

	for (int p = 1; p < ranks; p++)
		y = scaled ? y + input(p, i) * ((uint64_t)p + 2) : then(y, input(p, i));
	return y;
}

static int try_op(struct rank *r, int32_t kind, coll_op_t op, size_t count, int in_place,
		  int scaled)
{
	static _Thread_local uint64_t in[LENGTH], out[LENGTH];
	const int ranks = r->rank + (kind == COLL_KIND_SCAN);
	uint64_t *to = in_place ? in : out;

	for (size_t i = 0; i < count; i++) {
		in[i] = input(r->rank, i);
		out[i] = in_place ? 0 : in[i];
	}
	if (!rank_did(r,
		      kind == COLL_KIND_SCAN
			      ? coll_scan(in, to, count, COLL_UINT64, op, r->comm, NULL)
			      : coll_exscan(in, to, count, COLL_UINT64, op, r->comm, NULL),
		      coll_kind_name(kind)) ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return 0;
	/* Without a rank before it, rank 0 keeps the buffer as it was. */
	for (size_t i = 0; i < count; i++)
		if (to[i] != (ranks ? expected(ranks, i, scaled) : input(0, i)))
			return rank_fail(r, "%s of %zu, %s, %s: element %zu is wrong",
					 coll_kind_name(kind), count,
					 scaled ? "scaled" : "not commutative",
					 in_place ? "in place" : "out of place", i);
	return 1;
}

static void own_operations(struct rank *r)
{
	static const size_t counts[] = {1, 7, LENGTH};
	const int32_t kind = *(const int32_t *)r->user;
	uint64_t scalar = (uint64_t)r->rank + 2;
	coll_op_t op[2];
	int good =
		rank_did(r, coll_red_op_create_user(&op[0], apply, NULL, 0, r->comm), "create") &&
		rank_did(r,
			 coll_red_op_create_pre_mul_sum(&op[1], &scalar, COLL_UINT64,
							COLL_SCALAR_HOST_IMMEDIATE, r->comm),
			 "create");

	for (int i = 0; good && i < 12; i++)
		good = try_op(r, kind, op[i % 2], counts[i / 4], i / 2 % 2, i % 2);
}

/* -------------------------------------------------------------------- the rest of the API -- */

/* A persistent request, and both kinds in one group. */
static void requests(struct rank *r)
{
	int64_t x = r->rank + 1, sum = 0, before = -1, want = x * (x + 1) / 2;
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_SCAN,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .sendbuf = &x,
			    .recvbuf = &sum,
			    .count = 1};
	coll_request_t request;

	if (!rank_did(r, coll_request_init(r->comm, &args, &request), "request_init"))
		return;
	for (int i = 0; i < 3; i++) {
		sum = 0;
		if (!rank_did(r, coll_request_start(request), "start") ||
		    !rank_did(r, coll_wait(request), "wait"))
			return;
		if (sum != want)
			rank_fail(r, "start %d of the request gave %lld", i, (long long)sum);
	}
	rank_did(r, coll_request_free(request), "free");
	sum = 0;
	if (rank_did(r, coll_group_start(), "group_start") &&
	    rank_did(r, coll_scan(&x, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "scan") &&
	    rank_did(r,
		     coll_exscan(&x, r->rank ? &before : NULL, 1, COLL_INT64, COLL_SUM, r->comm,
				 NULL),
		     "exscan") &&
	    rank_did(r, coll_group_end(), "group_end") && rank_did(r, coll_sync(r->comm), "sync") &&
	    (sum != want || before != (r->rank ? want - x : -1)))
		rank_fail(r, "a group gave %lld and %lld", (long long)sum, (long long)before);
}

static void refused(struct rank *r, coll_result_t code, const char *text)
{
	if (code != COLL_ERR_INVALID_ARGUMENT || !strstr(coll_get_last_error(NULL), text))
		rank_fail(r, "expected '%s', got %d: %s", text, code, coll_get_last_error(NULL));
}

static void wrong_arguments(struct rank *r)
{
	float x[4] = {1, 1, 1, 1}, y[4];

	refused(r, coll_scan(x, y, 4, COLL_FLOAT32, COLL_AVG, r->comm, NULL),
		"scan: op 4 (avg) is not an operation on a part of the ranks");
	refused(r, coll_exscan(x, y, 4, COLL_FLOAT32, COLL_AVG, r->comm, NULL),
		"exscan: op 4 (avg) is not an operation on a part of the ranks");
	refused(r, coll_scan(x, y, 4, COLL_FLOAT32, COLL_BAND, r->comm, NULL), "scan: op 32");
	refused(r, coll_scan(x, NULL, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		"scan: recvbuf is NULL");
	refused(r, coll_exscan(NULL, y, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		"exscan: sendbuf is NULL");
	refused(r, coll_scan(x, x + 1, 3, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		"scan: sendbuf and recvbuf overlap");
	if (r->rank)
		refused(r, coll_exscan(x, NULL, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			"exscan: recvbuf is NULL");
}

/* The last rank calls another collective: an error names both calls. */
static void differs(struct rank *r)
{
	int64_t x = 1, y = 0;
	const char *text;
	coll_result_t code;

	if (r->rank == r->nranks - 1)
		(void)!coll_exscan(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	else
		(void)!coll_scan(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	code = coll_sync(r->comm);
	text = coll_get_last_error(NULL);
	/* A rank that has its result before the others meet the error is not told. */
	if (code && (!strstr(text, "exscan of 1 int64 (sum)") || !strstr(text, " scan of 1 int64")))
		rank_fail(r, "the text does not name both calls: %s", text);
	if (!code && r->rank == r->nranks - 1)
		rank_fail(r, "the rank that differs got no error");
}

/* -------------------------------------------------------------------------- backends -- */

static void job(const char *backend, int processes, int nranks, void (*fn)(struct rank *r),
		const int32_t *kind, const char *what)
{
	const struct ranks_job job = {backend, nranks, processes, fn, (void *)(uintptr_t)kind};

	ranks_ok(&job, "%s: %s", kind ? coll_kind_name(*kind) : "both", what);
}

static void test_kind(const char *backend, int processes, int nranks, const int32_t *kind)
{
	coll_algorithm_info_t a = {.size = sizeof(a)};
	char option[64];

	snprintf(option, sizeof(option), "COLL_%s_ALGORITHM", coll_kind_name(*kind));
	for (char *at = option; *at; at++)
		*at = (char)toupper((unsigned char)*at);
	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (coll_algorithm(i, &a) || a.kind != *kind)
			continue;
		setenv(option, a.name, 1);
		job(backend, processes, nranks, sweep, kind, a.name);
		job(backend, processes, nranks, own_operations, kind, a.name);
	}
	unsetenv(option);
	setenv("COLL_REPRODUCIBLE", "yes", 1);
	job(backend, processes, nranks, sweep_rough, kind, "reproducible");
	unsetenv("COLL_REPRODUCIBLE");
}

static void test_backend(const char *backend, int processes, int nranks)
{
	for (int k = 0; k < 2; k++)
		test_kind(backend, processes, nranks, &kinds[k]);
	job(backend, processes, nranks, requests, NULL, "requests and groups");
	job(backend, processes, nranks, wrong_arguments, NULL, "wrong arguments");
}

int main(void)
{
	const int most = ranks_small() ? 5 : NRANKS_MAX;

	setenv("COLL_SEGMENT", "4K", 1);
	for (int n = 1; n <= most; n++)
		test_backend("simulated", 0, n);
	test_backend("tcp", 0, 3);
	test_backend("tcp", 1, 6);
	job("tcp", 0, 3, differs, NULL, "ranks that differ");
	job("simulated", 0, 4, differs, NULL, "ranks that differ");
	if (ranks_can("ucx")) {
		test_backend("ucx", 1, 4);
		test_backend("ucx", 0, 3);
	}
	return done_testing();
}
