/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lists_test.c - the collectives with lists of buffers: against the oracle, with buffers all over the memory, by every
 * algorithm of the v-forms, with operations of the application, in groups; and wrong lists.
 */
#include "../lib/calls.h"

#include <ctype.h>

enum { NRANKS_MAX = 7, PART = 500 };

static const int32_t kinds[] = {COLL_KIND_ALLGATHER, COLL_KIND_REDUCE_SCATTER, COLL_KIND_ALLTOALL,
				COLL_KIND_GATHER, COLL_KIND_SCATTER};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* --------------------------------------------------------------- against the oracle -- */

static void sweep(struct rank *r)
{
	for (int k = 0; k < KINDS; k++) {
		const struct oracle_case c = {
			.kind = kinds[k], .list = 1, .inputs = ORACLE_SPECIAL};

		if (!oracle_table(&c, r->nranks, calls_try, r))
			return;
	}
}

/* --------------------------------------------------- buffers all over the memory -- */

/* Words that tell their sender, receiver and place. */
static int64_t word(int from, int to, int i)
{
	return (int64_t)from * 1000000 + to * 10000 + i;
}

enum { LIST = RANKS_MAX + 1, PAGE = 1 << 16 };
static const size_t gap = (size_t)1 << 36, list_bytes = (size_t)2 << 36;

/* A list of buffers in the order of `step`, gigabytes apart: nobody may use the memory between. */
static void list_new(struct rank *r, void *list[LIST], int step)
{
	char *base = mmap(NULL, list_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);

	if (base == MAP_FAILED)
		bail_out("no room for a list");
	for (int i = 0; i < r->nranks; i++) {
		const size_t at = (size_t)(i * step % r->nranks);

		list[i] = base + at * PAGE + (at % 2 ? gap : 0);
		if (mprotect(list[i], PAGE, PROT_READ | PROT_WRITE))
			bail_out("no memory");
	}
	list[RANKS_MAX] = base;
}

static void list_free(void *const list[LIST])
{
	munmap(list[RANKS_MAX], list_bytes);
}

static void is_word(struct rank *r, const char *what, const int64_t *x, int i, int64_t want)
{
	if (x[i] != want)
		rank_fail(r, "%s: word %d is %lld, not %lld", what, i, (long long)x[i],
			  (long long)want);
}

static int did(struct rank *r, int code, const char *what)
{
	return rank_did(r, code, what) && rank_did(r, coll_sync(r->comm), what);
}

static void far_apart(struct rank *r)
{
	const int n = r->nranks, root = n - 1;
	void *in[LIST], *out[LIST];
	int64_t one[PART], two[PART];

	list_new(r, in, 1);
	list_new(r, out, n - 1 ? n - 1 : 1);
	for (int p = 0; p < n; p++)
		for (int i = 0; i < PART; i++)
			((int64_t *)in[p])[i] = word(r->rank, p, i);
	for (int i = 0; i < PART; i++)
		one[i] = word(r->rank, 0, i);
	did(r, coll_alltoall_list((const void *const *)in, out, PART, COLL_INT64, r->comm, NULL),
	    "alltoall");
	for (int p = 0; p < n; p++)
		for (int i = 0; i < PART; i++)
			is_word(r, "alltoall", out[p], i, word(p, r->rank, i));
	did(r, coll_allgather_list(one, out, PART, COLL_INT64, r->comm, NULL), "allgather");
	for (int p = 0; p < n; p++)
		for (int i = 0; i < PART; i++)
			is_word(r, "allgather", out[p], i, word(p, 0, i));
	did(r,
	    coll_scatter_list((const void *const *)in, two, PART, COLL_INT64, root, r->comm, NULL),
	    "scatter");
	for (int i = 0; i < PART; i++)
		is_word(r, "scatter", two, i, word(root, r->rank, i));
	did(r,
	    coll_gather_list(two, r->rank == root ? out : NULL, PART, COLL_INT64, root, r->comm,
			     NULL),
	    "gather");
	for (int p = 0; p < n && r->rank == root; p++)
		for (int i = 0; i < PART; i++)
			is_word(r, "gather", out[p], i, word(root, p, i));
	did(r,
	    coll_reduce_scatter_list((const void *const *)in, two, PART, COLL_INT64, COLL_SUM,
				     r->comm, NULL),
	    "reduce_scatter");
	for (int i = 0; i < PART; i++)
		is_word(r, "reduce_scatter", two, i, word(n * (n - 1) / 2, n * r->rank, n * i));
	for (int p = 0; p < n; p++)
		for (int i = 0; i < PART; i++)
			is_word(r, "the input", in[p], i, word(r->rank, p, i));
	list_free(in);
	list_free(out);
}

/* ---------------------------------------------------------------- own operations -- */

static void keep_left(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	(void)user;
	memcpy(inout, left, count * coll_dtype_size(dtype));
}

/* The inputs of a pre-multiplied sum are copied together, whatever lies between them. */
static void operations(struct rank *r)
{
	const int64_t scalar = r->rank + 2;
	const int n = r->nranks;
	void *in[LIST];
	int64_t out[PART], sum = 0;
	coll_op_t op[2];

	list_new(r, in, n - 1 ? n - 1 : 1);
	for (int p = 0; p < n; p++)
		for (int i = 0; i < PART; i++)
			((int64_t *)in[p])[i] = word(1, p, i);
	if (!rank_did(r,
		      coll_red_op_create_pre_mul_sum(&op[0], &scalar, COLL_INT64,
						     COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		      "create") ||
	    !rank_did(r, coll_red_op_create_user(&op[1], keep_left, NULL, 0, r->comm), "create"))
		return;
	for (int p = 0; p < n; p++)
		sum += p + 2;
	did(r,
	    coll_reduce_scatter_list((const void *const *)in, out, PART, COLL_INT64, op[0], r->comm,
				     NULL),
	    "pre_mul_sum");
	for (int i = 0; i < PART; i++)
		is_word(r, "pre_mul_sum", out, i, sum * word(1, r->rank, i));
	for (int p = 0; p < n; p++)
		((int64_t *)in[p])[0] = word(r->rank, p, 0);
	did(r,
	    coll_reduce_scatter_list((const void *const *)in, out, 1, COLL_INT64, op[1], r->comm,
				     NULL),
	    "own operation");
	is_word(r, "own operation", out, 0, word(0, r->rank, 0));
	list_free(in);
}

/* ------------------------------------------------------------ groups and requests -- */

static void together(struct rank *r)
{
	void *out[2][LIST];
	int64_t x = r->rank, y = 10 + r->rank;
	coll_request_t request;

	list_new(r, out[0], 1);
	list_new(r, out[1], 1);
	if (!rank_did(r, coll_group_start(), "group") ||
	    !rank_did(r, coll_allgather_list(&x, out[0], 1, COLL_INT64, r->comm, NULL), "first") ||
	    !rank_did(r, coll_allgather_list(&y, out[1], 1, COLL_INT64, r->comm, NULL), "second") ||
	    !rank_did(r, coll_group_end(), "group end") ||
	    !rank_did(r, coll_get_request(r->comm, &request), "request") ||
	    !rank_did(r, coll_wait(request), "wait") || !rank_did(r, coll_sync(r->comm), "sync"))
		return;
	rank_did(r, coll_request_free(request), "free");
	for (int p = 0; p < r->nranks; p++)
		if (*(int64_t *)out[0][p] != p || *(int64_t *)out[1][p] != 10 + p)
			rank_fail(r, "of rank %d: %lld and %lld", p,
				  (long long)*(int64_t *)out[0][p],
				  (long long)*(int64_t *)out[1][p]);
	list_free(out[0]);
	list_free(out[1]);
}

/* -------------------------------------------------------------------- wrong lists -- */

static void refused(struct rank *r, coll_result_t code, const char *text)
{
	if (code != COLL_ERR_INVALID_ARGUMENT || !strstr(coll_get_last_error(NULL), text))
		rank_fail(r, "expected '%s', got %d: %s", text, code, coll_get_last_error(NULL));
}

static void wrong_lists(struct rank *r)
{
	const int n = r->nranks, last = n - 1;
	static _Thread_local float x[RANKS_MAX * 8];
	void *good[RANKS_MAX], *bad[RANKS_MAX];
	const void *const *sends = (const void *const *)bad;
	char text[100];
	float y[8];

	for (int i = 0; i < n; i++)
		good[i] = bad[i] = x + 4 * (n - 1 - i);
	bad[last] = NULL;
	snprintf(text, sizeof(text), "allgather_list: recvbufs[%d] is NULL, count is 4", last);
	refused(r, coll_allgather_list(y, bad, 4, COLL_FLOAT32, r->comm, NULL), text);
	snprintf(text, sizeof(text), "reduce_scatter_list: sendbufs[%d] is NULL", last);
	refused(r, coll_reduce_scatter_list(sends, y, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		text);
	refused(r, coll_allgather_list(y, NULL, 4, COLL_FLOAT32, r->comm, NULL),
		"allgather_list: recvbufs is NULL");
	refused(r, coll_allgather_list(NULL, good, 4, COLL_FLOAT32, r->comm, NULL),
		"allgather_list: sendbuf is NULL");
	refused(r, coll_allgather_list(y, good, 4, 999, r->comm, NULL),
		"allgather_list: dtype 999 is not a data type");
	refused(r, coll_gather_list(y, good, 4, COLL_FLOAT32, n, r->comm, NULL),
		"gather_list: root is");
	refused(r, coll_allgather_list(y, good, SIZE_MAX / 4, COLL_FLOAT32, r->comm, NULL),
		"does not fit into memory");
	refused(r,
		coll_allgather_list(y, good, (size_t)PTRDIFF_MAX / 4 / (size_t)n + 1, COLL_FLOAT32,
				    r->comm, NULL),
		"does not fit into memory");
	if (n > 2) /* so many for all ranks are few: the product wraps around */
		refused(r,
			coll_alltoall(y, x, SIZE_MAX / (size_t)n + 1, COLL_FLOAT32, r->comm, NULL),
			"does not fit into memory");
	refused(r,
		coll_alltoall_list((const void *const *)good, good, 4, COLL_FLOAT32, r->comm, NULL),
		"alltoall_list: ");
	bad[last] = (char *)good[last] + 1;
	snprintf(text, sizeof(text), "bytes apart, no multiple of the 4 bytes of float32");
	if (n > 1) {
		refused(r, coll_scatter_list(sends, y, 3, COLL_FLOAT32, r->rank, r->comm, NULL),
			text);
		bad[0] = (char *)good[last] + 12;
		bad[last] = good[last];
		refused(r, coll_allgather_list(y, bad, 4, COLL_FLOAT32, r->comm, NULL),
			"overlap, and the operation writes there");
		/* The same buffer to all: only read. */
		for (int i = 0; i < n; i++)
			bad[i] = y;
		refused(r,
			coll_alltoall_list((const void *const *)good, bad, 4, COLL_FLOAT32, r->comm,
					   NULL),
			"recvbufs[0] and recvbufs[1] overlap");
		did(r, coll_alltoall_list(sends, good, 4, COLL_FLOAT32, r->comm, NULL),
		    "one buffer for all");
		refused(r,
			coll_reduce_scatter_list((const void *const *)good, good[(r->rank + 1) % n],
						 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			"overlap, and the operation writes there");
	}
	/* Nothing was issued, and without elements no pointer counts. */
	for (int i = 0; i < n; i++)
		bad[i] = NULL;
	did(r, coll_alltoall_list(sends, bad, 0, COLL_FLOAT32, r->comm, NULL), "no elements");
	did(r, coll_reduce_scatter_list(sends, NULL, 0, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
	    "no elements");
}

/* With check_buffers a group's lists count block by block, and reduce_scatterv receives one block. */
static void overlaps(struct rank *r)
{
	const int n = r->nranks;
	int32_t x[RANKS_MAX * 2] = {0}, y[RANKS_MAX * 2], one = 1;
	void *even[RANKS_MAX], *odd[RANKS_MAX];
	size_t counts[RANKS_MAX];
	coll_result_t code;

	for (int i = 0; i < n; i++) {
		even[i] = y + 2 * i;
		odd[i] = y + 2 * i + 1;
		counts[i] = 1;
	}
	rank_did(r, coll_group_start(), "group");
	rank_did(r, coll_allgather_list(&one, even, 1, COLL_INT32, r->comm, NULL), "even");
	rank_did(r, coll_allgather_list(&one, odd, 1, COLL_INT32, r->comm, NULL), "odd");
	code = coll_allgather_list(&one, even, 1, COLL_INT32, r->comm, NULL);
	if (code != COLL_ERR_INVALID_USAGE)
		rank_fail(r, "%d: %s", code, coll_get_last_error(NULL));
	rank_did(r, coll_group_end(), "group end");
	did(r, COLL_SUCCESS, "sync");
	/* The result of the first is as long as one part; the next words are those of the second. */
	rank_did(r, coll_group_start(), "group");
	rank_did(r, coll_reduce_scatterv(x, y, counts, COLL_INT32, COLL_SUM, r->comm, NULL),
		 "the first");
	rank_did(r, coll_reduce_scatterv(x, y + 1, counts, COLL_INT32, COLL_SUM, r->comm, NULL),
		 "the second");
	rank_did(r,
		 coll_reduce_scatter_list((const void *const *)even, x, 0, COLL_INT32, COLL_SUM,
					  r->comm, NULL),
		 "nothing");
	code = coll_reduce_scatter_list((const void *const *)odd, x + 1, 1, COLL_INT32, COLL_SUM,
					r->comm, NULL);
	if (code != COLL_ERR_INVALID_USAGE)
		rank_fail(r, "%d: %s", code, coll_get_last_error(NULL));
	rank_did(r, coll_group_end(), "group end");
	did(r, COLL_SUCCESS, "sync");
}

/* ----------------------------------------------------- displacements of the program -- */

/* The blocks of one buffer lie in the gaps of the other, at displacements from the same address. */
static void interleaved(struct rank *r)
{
	const int n = r->nranks, root = n - 1;
	static _Thread_local int64_t x[2 * RANKS_MAX + 1];
	size_t counts[RANKS_MAX] = {0}, even[RANKS_MAX] = {0}, odd[RANKS_MAX] = {0};

	for (int p = 0; p < n; p++) {
		counts[p] = 1;
		even[p] = 2 * (size_t)p;
		odd[p] = 2 * (size_t)(n - 1 - p) + 1;
		x[even[p]] = word(r->rank, p, 0);
	}
	did(r, coll_alltoallv(x, counts, even, x, counts, odd, COLL_INT64, r->comm, NULL),
	    "alltoallv");
	for (int p = 0; p < n; p++) {
		is_word(r, "alltoallv", x, (int)odd[p], word(p, r->rank, 0));
		is_word(r, "its input", x, (int)even[p], word(r->rank, p, 0));
	}
	x[2 * n] = word(r->rank, 0, 7);
	if (r->rank)
		x[2] = word(r->rank, 0, 7);
	did(r,
	    coll_allgatherv(r->rank && n > 1 ? x + 2 : x + 2 * n, 1, x, counts, odd, COLL_INT64,
			    r->comm, NULL),
	    "allgatherv");
	for (int p = 0; p < n; p++)
		is_word(r, "allgatherv", x, (int)odd[p], word(p, 0, 7));
	did(r,
	    coll_scatterv(x, counts, odd, r->rank == root ? x + 2 * n : x, 1, COLL_INT64, root,
			  r->comm, NULL),
	    "scatterv");
	is_word(r, "scatterv", x, r->rank == root ? 2 * n : 0, word(r->rank, 0, 7));
	if (n < 2)
		return;
	odd[0]--;
	refused(r, coll_alltoallv(x, counts, even, x, counts, odd, COLL_INT64, r->comm, NULL),
		"alltoallv: sendbuf and recvbuf overlap");
	refused(r,
		coll_allgatherv(x + even[(r->rank + 1) % n], 1, x, counts, even, COLL_INT64,
				r->comm, NULL),
		"allgatherv: sendbuf and recvbuf overlap");
}

/* -------------------------------------------------------------------------- backends -- */

static void job(const char *backend, int processes, int nranks, void (*fn)(struct rank *r),
		const char *what)
{
	ranks_ok(&(struct ranks_job){backend, nranks, processes, fn, NULL}, "%s", what);
}

/* Every algorithm of the v-forms takes buffers that lie apart. */
static void test_algorithms(int nranks)
{
	coll_algorithm_info_t a = {.size = sizeof(a)};
	char option[64];

	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (coll_algorithm(i, &a) || !oracle_varies(a.kind))
			continue;
		snprintf(option, sizeof(option), "COLL_%s_ALGORITHM", coll_kind_name(a.kind));
		for (char *at = option; *at; at++)
			*at = (char)toupper((unsigned char)*at);
		setenv(option, a.name, 1);
		job("simulated", 0, nranks, far_apart, a.name);
		unsetenv(option);
	}
}

static void test_backend(const char *backend, int processes, int nranks)
{
	job(backend, processes, nranks, sweep, "against the oracle");
	job(backend, processes, nranks, far_apart, "far apart");
	job(backend, processes, nranks, operations, "own operations");
	job(backend, processes, nranks, together, "a group, and a request");
	job(backend, processes, nranks, wrong_lists, "wrong lists");
	job(backend, processes, nranks, interleaved, "buffers in each other's gaps");
	setenv("COLL_CHECK_BUFFERS", "yes", 1);
	job(backend, processes, nranks, overlaps, "lists that overlap in a group");
	unsetenv("COLL_CHECK_BUFFERS");
}

int main(void)
{
	const int most = ranks_small() ? 3 : NRANKS_MAX;

	setenv("COLL_SEGMENT", "4K", 1);
	for (int n = 1; n <= most; n++)
		test_backend("simulated", 0, n);
	test_algorithms(5);
	test_backend("tcp", 0, 3);
	test_backend("tcp", 1, 4);
	if (ranks_can("ucx")) {
		test_backend("ucx", 1, 4);
		test_backend("ucx", 0, 3);
	}
	return done_testing();
}
