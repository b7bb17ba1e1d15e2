/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lists_test.c - lists of device buffers, staged through host memory: every form in every kind of memory against the
 * oracle; buffers that lie gigabytes apart, of which only the bytes of the call are staged; lists of mixed memory.
 */
#include "staging_harness.h"

enum { WORDS = 3 * CHUNK + 5 };

static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK + 1, MOST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* --------------------------------------------------------------- against the oracle -- */

static void every_list(struct rank *r)
{
	const struct place *place = r->user;
	const int one = place->at[0] == place->at[1];

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < 2 * SIZES && !r->failure[0]; i++) {
			struct oracle_case c =
				stage_case(r, oracle_kinds[k], one && i % 2, sizes[i / 2]);
			struct device_call call;

			if (!oracle_has_list(c.kind))
				continue;
			c.list = 1;
			c.gaps = i / 2 % 2;
			device_call_begin(&call, r, &c, place->at);
			device_call_once(&call, place->name);
			device_call_once(&call, place->name);
			device_call_end(&call);
		}
}

/* ------------------------------------------------------------------- gigabytes apart -- */

static int32_t word(int from, int to, int i)
{
	return 1000003 * from + 10007 * to + i;
}

static const size_t gap = (size_t)1 << 36;
static _Thread_local void *holes[2 * RANKS_MAX + 1];
static _Thread_local int nholes;

/* Allocates a buffer far below the ones before, and writes the words to it.  The hole between them stays until far_end. */
static int32_t *far_new(const int32_t *words)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	int32_t *there;

	holes[nholes] = mmap(NULL, gap, PROT_NONE, flags, -1, 0);
	if (holes[nholes++] == MAP_FAILED)
		bail_out("no hole of %zu bytes", gap);
	there = device_new(0, WORDS * sizeof(*there), 0);
	device_move(0, there, words, WORDS * sizeof(*words));
	return there;
}

/* Frees the buffers, and unmaps the holes: under ThreadSanitizer a process has addresses for few holes. */
static void far_end(void *const *in, void *const *out, int n)
{
	for (int p = 0; p < n; p++) {
		device_free(0, in[p]);
		device_free(0, out[p]);
	}
	device_free(0, out[n]);
	while (nholes > 0)
		munmap(holes[--nholes], gap);
}

static void holds(struct rank *r, const char *what, const int32_t *there, int from, int to,
		  int times)
{
	static _Thread_local int32_t x[WORDS];

	device_move(0, x, there, sizeof(x));
	for (int i = 0; i < WORDS; i++)
		if (x[i] != times * word(from, to, i))
			rank_fail(r, "%s: word %d is %d, not %d", what, i, x[i],
				  times * word(from, to, i));
}

static int did(struct rank *r, int code, const char *what)
{
	return rank_did(r, code, what) && rank_did(r, coll_sync(r->comm), what);
}

static void far_apart(struct rank *r)
{
	static _Thread_local int32_t x[WORDS];
	const int n = r->nranks, me = r->rank;
	const int32_t factor = 3;
	void *in[RANKS_MAX], *out[RANKS_MAX];
	const void *const *from = (const void *const *)in;
	coll_op_t op = 0;

	for (int p = 0; p < n; p++) {
		for (int i = 0; i < WORDS; i++)
			x[i] = word(me, p, i);
		in[p] = far_new(x);
		out[n - p] = far_new(x);
	}
	out[0] = far_new(x);
	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&op, &factor, COLL_INT32,
						COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		 "create");
	did(r, coll_alltoall_list(from, out, WORDS, COLL_INT32, r->comm, NULL), "alltoall");
	for (int p = 0; p < n; p++)
		holds(r, "alltoall", out[p], p, me, 1);
	did(r, coll_allgather_list(out[me], out, WORDS, COLL_INT32, r->comm, NULL), "in place");
	for (int p = 0; p < n; p++)
		holds(r, "allgather in place", out[p], p, p, 1);
	did(r, coll_scatter_list(from, out[0], WORDS, COLL_INT32, n - 1, r->comm, NULL), "scatter");
	holds(r, "scatter", out[0], n - 1, me, 1);
	did(r, coll_gather_list(out[0], out + 1, WORDS, COLL_INT32, 0, r->comm, NULL), "gather");
	for (int p = 0; p < n && !me; p++)
		holds(r, "gather", out[p + 1], n - 1, p, 1);
	did(r, coll_reduce_scatter_list(from, out[0], WORDS, COLL_INT32, op, r->comm, NULL),
	    "scaled");
	did(r, coll_broadcast(in[0], in[0], WORDS, COLL_INT32, 0, r->comm, NULL), "broadcast");
	did(r, coll_reduce_scatter_list(from, in[me], WORDS, COLL_INT32, COLL_MAX, r->comm, NULL),
	    "reduce_scatter");
	holds(r, "reduce_scatter in place", in[me], me ? n - 1 : 0, me, 1);
	device_move(0, x, out[0], sizeof(x));
	for (int i = 0; i < WORDS; i++) {
		int32_t want = 0;

		for (int p = 0; p < n; p++)
			want += factor * word(p, me, i);
		if (x[i] != want)
			rank_fail(r, "scaled: word %d is %d, not %d", i, x[i], want);
	}
	far_end(in, out, n);
}

static void test_far_apart(const char *backend, int nranks)
{
	ranks_ok(&(struct ranks_job){backend, nranks, 0, far_apart, NULL}, "gigabytes apart");
}

/* ------------------------------------------------------------------------ wrong lists -- */

static void is_refused(struct rank *r, int code, int want, const char *one, const char *other)
{
	const char *text = coll_get_last_error(NULL);

	if (code != want || !strstr(text, one) || !strstr(text, other))
		rank_fail(r, "%d (%s), not '%s' and '%s'", code, text, one, other);
}

static void mixed(struct rank *r)
{
	int32_t x[2] = {0};
	int32_t *zero = device_new(0, 64, 0), *one = device_new(1, 64, 0);
	void *list[3] = {zero, zero + 4, x};

	is_refused(r, coll_allgather_list(zero + 8, list, 1, COLL_INT32, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT,
		   "allgather_list: recvbufs[0] is CUDA memory of device 0, but recvbufs[2] is "
		   "host memory",
		   "pass a list whose buffers lie in the same memory");
	list[2] = one;
	is_refused(r,
		   coll_reduce_scatter_list((const void *const *)list, zero + 8, 1, COLL_INT32,
					    COLL_SUM, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "sendbufs[0] is CUDA memory of device 0",
		   "but sendbufs[2] is CUDA memory of device 1");
	list[2] = zero + 12;
	did(r, coll_allgather_list(x, list, 1, COLL_INT32, r->comm, NULL), "from the host");
	device_free(0, zero);
	device_free(1, one);
}

static void not_staged(struct rank *r)
{
	int32_t *there = device_new(0, 64, 0), x = 0;
	void *list[3] = {there, there + 4, there + 8};

	is_refused(r, coll_allgather_list(&x, list, 1, COLL_INT32, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "allgatherv: recvbuf is CUDA memory of device 0",
		   "COLL_ENABLE_GPU_FALLBACK=1");
	device_free(0, there);
}

int main(void)
{
	static const char *const backends[] = {"simulated", "tcp", "ucx"};
	int can[3];

	for (int b = 0; b < 3; b++)
		can[b] = ranks_can(backends[b]);
	stage_begin();
	device_init();
	log_begin();
	for (int b = 0; b < 3; b++) {
		if (!can[b])
			continue;
		for (int k = 0; k < PLACES; k++)
			for (int n = 1 + k % 2; n <= 4; n += 2)
				ranks_ok(&(struct ranks_job){backends[b], n, 0, every_list,
							     (void *)(uintptr_t)&places[k]},
					 "lists, %s", places[k].name);
		test_far_apart(backends[b], 3);
		ranks_ok(&(struct ranks_job){backends[b], 3, 0, mixed, NULL}, "mixed lists");
	}
	test_far_apart("simulated", 1);
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
	ranks_ok(&(struct ranks_job){"simulated", 3, 0, not_staged, NULL}, "not staged");
	log_end();
	stage_end();
	return done_testing();
}
