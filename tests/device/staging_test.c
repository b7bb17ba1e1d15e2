/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_test.c - operations staged through host memory in chunks: every collective gives the
 * right bytes for every combination of memory kinds; schedules are reused; copies in, copies out
 * and messages overlap.
 */
#include "staging_harness.h"

#include <ctype.h>

static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, MOST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* ------------------------------------------------------------------ all calls -- */

static void every_size(struct rank *r, const struct place *place, int kind, int in_place)
{
	for (int i = 0; i < SIZES && !r->failure[0]; i++) {
		const struct oracle_case c = stage_case(r, kind, in_place, sizes[i]);

		if (ranks_small() && i % 2 == 0)
			continue;
		device_call_try(r, &c, place->at, 1, place->name);
	}
}

static void every_kind(struct rank *r)
{
	const struct place *place = r->user;
	int one = place->at[0] == place->at[1];
	void *context = r;

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int in_place = 0; in_place <= one; in_place++)
			every_size(r, place, oracle_kinds[k], in_place);
	if (cuCtxGetCurrent(&context) || context)
		rank_fail(r, "a context was left behind");
}

static void test_every_kind(const char *backend)
{
	for (int k = 0; k < PLACES; k++)
		for (int n = 1; n <= 4; n++)
			if (!ranks_small() || n == 1 + k % 4)
				ranks_ok(&(struct ranks_job){backend, n, 0, every_kind,
							     (void *)(uintptr_t)&places[k]},
					 "every call, %s", places[k].name);
}

/* ------------------------------------------------------------------ all algorithms -- */

static void one_kind(struct rank *r)
{
	const int *kind = r->user;

	for (int in_place = 0; in_place < 2; in_place++)
		every_size(r, &places[0], *kind, in_place);
}

/* Rules select each algorithm wherever it fits: 7 ranks and 4 ranks, on nodes of 2. */
static void test_algorithms(void)
{
	setenv("COLL_NODE_SIZE", "2", 1);
	for (int i = 0; i < coll_algorithm_count(); i++) {
		coll_algorithm_info_t info = {.size = sizeof(info)};
		char option[64] = "COLL_";
		int kind, at;

		coll_algorithm(i, &info);
		kind = info.kind;
		if (kind < COLL_KIND_ALLREDUCE || kind > COLL_KIND_SCATTERV)
			continue;
		at = snprintf(option, sizeof(option), "COLL_%s_ALGORITHM", coll_kind_name(kind));
		for (int k = 0; k < at; k++)
			option[k] = (char)toupper((unsigned char)option[k]);
		setenv(option, info.name, 1);
		for (int n = STAGE_RANKS; n >= 4; n -= 3)
			ranks_ok(&(struct ranks_job){"simulated", n, 0, one_kind, &kind},
				 "%s by %s", coll_kind_name(kind), info.name);
		unsetenv(option);
	}
	unsetenv("COLL_NODE_SIZE");
}

/* ---------------------------------------------------------------- reused schedules -- */

static struct oracle_case greatest(const struct rank *r, int in_place)
{
	struct oracle_case c = stage_case(r, COLL_KIND_ALLREDUCE, in_place, MOST);

	c.op = COLL_MAX;
	return c;
}

/*
 * Repeats the call, then uses other buffers, in place, in host memory, and the first buffers again.
 */
static void repeated(struct rank *r)
{
	static const int order[] = {0, 0, 1, 0, 2, 3, 0, 2, 2, 1};
	const struct oracle_case apart = greatest(r, 0), in_place = greatest(r, 1);
	const struct place *place[] = {&places[r->rank % 2], &places[r->rank % PLACES]};
	const int host[] = {PLACE_HOST, PLACE_HOST};
	struct device_call call[4];

	device_call_begin(&call[0], r, &apart, place[0]->at);
	device_call_begin(&call[1], r, &apart, place[1]->at);
	device_call_begin(&call[2], r, place[0]->at[0] == place[0]->at[1] ? &in_place : &apart,
			  place[0]->at);
	device_call_begin(&call[3], r, &apart, host);
	/* In place the call uses the receive buffer of the first call, which is as long. */
	place_free(call[2].at[ORACLE_RECV], call[2].area[ORACLE_RECV]);
	call[2].area[ORACLE_RECV] = call[0].area[ORACLE_RECV];
	oracle_call_place(&call[2].o, call[2].area[ORACLE_SEND], call[2].area[ORACLE_RECV]);
	for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])) && !r->failure[0]; i++)
		device_call_once(&call[order[i]], "repeated");
	call[2].area[ORACLE_RECV] = NULL;
	for (int i = 0; i < 4; i++)
		device_call_end(&call[i]);
}

/* Starts a persistent request several times. */
static void persistent(struct rank *r)
{
	for (int k = 0; k < ORACLE_KINDS; k++) {
		const struct oracle_case c = stage_case(r, oracle_kinds[k], 0, MOST);
		const struct place *place = &places[oracle_kinds[k] % PLACES];

		device_call_try(r, &c, place->at, 3, "persistent");
	}
}

/* Many operations at once share the copy streams. */
static void grouped(struct rank *r)
{
	enum { OPS = 7 };
	const struct oracle_case c = greatest(r, 0);
	struct device_call call[OPS];

	for (int i = 0; i < OPS; i++) {
		device_call_begin(&call[i], r, &c, places[i % PLACES].at);
		for (int round = 0; round <= i; round++)
			device_call_fill(&call[i]);
	}
	rank_did(r, coll_group_start(), "group");
	for (int i = 0; i < OPS; i++)
		rank_did(r, oracle_issue(&call[i].o.args, r->comm, NULL), "allreduce");
	rank_did(r, coll_group_end(), "group");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < OPS; i++) {
		device_call_check(&call[i], "in a group");
		device_call_end(&call[i]);
	}
}

/* -------------------------------------------------------------- created operations -- */

static void at_least(void *user, const void *in, void *inout, size_t n, coll_dtype_t dtype)
{
	const int32_t *x = in;
	int32_t *y = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] > y[i] ? x[i] : y[i];
}

/* Runs every reduction with a created operation that equals `op` for the oracle. */
static void by_operation(struct rank *r, coll_op_t made, int32_t op)
{
	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int in_place = 0; in_place < 2 && oracle_reduces(oracle_kinds[k]);
		     in_place++) {
			struct oracle_case c = stage_case(r, oracle_kinds[k], in_place, MOST);
			struct device_call call;

			c.op = op;
			device_call_begin(&call, r, &c, places[0].at);
			call.o.args.op = made;
			device_call_request(&call, 1, "operation made here");
			device_call_end(&call);
		}
}

/*
 * Pre-multiplied sums, with the factor in host or device memory, and a function of the application.
 */
static void made_here(struct rank *r)
{
	int32_t factor = (int32_t)oracle_scale(oracle_format(COLL_INT32), r->rank);
	void *there = device_new(0, 64, 0);
	coll_op_t op[3] = {0, 0, 0};

	device_move(0, there, &factor, sizeof(factor));
	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&op[0], &factor, COLL_INT32,
						COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		 "op_create");
	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&op[1], there, COLL_INT32, COLL_SCALAR_DEVICE,
						r->comm),
		 "op_create");
	rank_did(r, coll_red_op_create_user(&op[2], at_least, NULL, 1, r->comm), "op_create");
	by_operation(r, op[0], ORACLE_SCALED);
	by_operation(r, op[1], ORACLE_SCALED);
	by_operation(r, op[2], COLL_MAX);
	device_free(0, there);
}

/* -------------------------------------------------------------- number of copies -- */

/* Number of copies that a call makes on all ranks together: MOST elements take 6. */
struct tally {
	int kind, in_place, nranks;
	unsigned long copies;
	const char *what;
};

static const struct tally tallies[] = {
	{COLL_KIND_ALLREDUCE, 0, 1, 12, "in and out"},
	{COLL_KIND_ALLREDUCE, 1, 1, 0, "what stays as it is"},
	{COLL_KIND_BROADCAST, 1, 2, 12, "in at root, out at the others"},
	{COLL_KIND_BROADCAST, 0, 2, 18, "root has a copy too"},
	{COLL_KIND_GATHER, 1, 2, 12, "root's own block stays"},
	{COLL_KIND_ALLGATHER, 1, 3, 54, "in for one, out for the others"},
	{COLL_KIND_SCATTER, 1, 3, 24, "root keeps its own"},
	{COLL_KIND_REDUCE, 0, 2, 18, "in at both, out at root"},
};

static void count_copies(struct rank *r)
{
	const struct tally *t = r->user;
	const struct oracle_case like = stage_case(r, t->kind, t->in_place, MOST);
	struct device_call c;
	unsigned long before;

	device_call_begin(&c, r, &like, places[0].at);
	device_call_fill(&c);
	rank_did(r, coll_barrier(r->comm), "barrier");
	before = standin_copies();
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, oracle_issue(&c.o.args, r->comm, NULL), "call");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (standin_copies() - before != t->copies)
		rank_fail(r, "%lu copies", standin_copies() - before);
	rank_did(r, coll_barrier(r->comm), "barrier");
	device_call_check(&c, "counted");
	device_call_end(&c);
}

static void test_copies(void)
{
	for (int i = 0; i < (int)(sizeof(tallies) / sizeof(tallies[0])); i++)
		ranks_ok(&(struct ranks_job){"simulated", tallies[i].nranks, 0, count_copies,
					     (void *)(uintptr_t)&tallies[i]},
			 "%s%s makes %lu copies: %s", coll_kind_name(tallies[i].kind),
			 tallies[i].in_place ? " in place" : "", tallies[i].copies,
			 tallies[i].what);
}

enum { COUNTED = 1000 };

static coll_counters_t counters(struct rank *r)
{
	coll_counters_t c = {.size = sizeof(c)};

	rank_did(r, coll_get_counters(r->comm, &c), "get_counters");
	return c;
}

/* A call copies its input and its result, and a message its bytes. */
static void count_bytes(struct rank *r)
{
	char *in = device_new(0, COUNTED, 0), *out = device_new(0, COUNTED, 0);
	coll_counters_t before = counters(r), c;
	coll_request_t request;

	rank_did(r, coll_allreduce(in, out, COUNTED, COLL_UINT8, COLL_MAX, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_sync(r->comm), "sync");
	c = counters(r);
	if (c.staged != before.staged + 1 || c.staged_bytes != before.staged_bytes + 2 * COUNTED)
		rank_fail(r, "an allreduce has staged %llu bytes",
			  (unsigned long long)(c.staged_bytes - before.staged_bytes));
	before = c;
	rank_did(r,
		 r->rank ? coll_isend(in, COUNTED, COLL_UINT8, 0, 1, r->comm, &request)
			 : coll_irecv(out, COUNTED, COLL_UINT8, 1, 1, r->comm, &request),
		 "a message");
	rank_did(r, coll_wait(request), "wait");
	c = counters(r);
	if (c.staged != before.staged + 1 || c.staged_bytes != before.staged_bytes + COUNTED)
		rank_fail(r, "a message has staged %llu bytes",
			  (unsigned long long)(c.staged_bytes - before.staged_bytes));
	device_free(0, in);
	device_free(0, out);
}

/* ------------------------------------------------------------------------- gaps -- */

/* The blocks lie in separate allocations, so that a copy across the gap between them fails. */
static void far_apart(struct rank *r)
{
	char *piece[2] = {device_new(0, 65536, 0), device_new(0, 65536, 0)}, found[8];
	int low = piece[0] > piece[1];
	size_t counts[2] = {40000, 40000}, displs[2] = {0, (size_t)(piece[!low] - piece[low])};
	char *own = device_new(0, 65536, 0), mark[2] = {(char)('a' + r->rank), 0};

	if (displs[1] < (size_t)256 << 20) {
		device_move(0, own + 39999, mark, 1);
		rank_did(r,
			 coll_allgatherv(own, 40000, piece[low], counts, displs, COLL_INT8, r->comm,
					 NULL),
			 "allgatherv");
		rank_did(r, coll_sync(r->comm), "sync");
		for (int p = 0; p < 2 && !r->failure[0]; p++) {
			device_move(0, found, piece[low ^ p] + 39999, 1);
			if (found[0] != 'a' + p)
				rank_fail(r, "block %d ends with %d", p, found[0]);
		}
	}
	device_free(0, own);
	device_free(0, piece[0]);
	device_free(0, piece[1]);
}

/* ---------------------------------------------------------------------- overlap -- */

enum { OVERLAP_CHUNKS = 96 };

static int32_t device_word(const int32_t *there)
{
	int32_t x;

	device_move(0, &x, there, sizeof(x));
	return x;
}

/*
 * Each copy takes 40 ms, and copies run in order, so all copies in one direction take about 4 s.
 * When the first chunk of the result is on the device, the last chunk of the input has not left it
 * yet, so a change of the input at that moment shows in the result.  (No application may do that.)
 */
static void overlap(struct rank *r)
{
	size_t count = (size_t)OVERLAP_CHUNKS * CHUNK, bytes = count * 4;
	int32_t *send = device_new(0, bytes, 0), *recv = device_new(0, bytes, 0), *x, one = 1;
	coll_request_t request = NULL;
	int32_t done = 0;

	x = calloc(1, bytes);
	if (!x)
		bail_out("no memory");
	for (size_t i = 0; i < count / 2; i++)
		x[i] = x[count / 2 + i] = 3;
	device_move(0, send, x, bytes);
	memset(x, 0, bytes);
	device_move(0, recv, x, bytes);
	rank_did(r, coll_allreduce(send, recv, count, COLL_INT32, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_get_request(r->comm, &request), "request");
	while (!done && device_word(recv) != 3 * r->nranks)
		if (!rank_did(r, coll_test(request, &done), "test"))
			break;
	device_move(0, send + count - 1, &one, sizeof(one));
	if (done)
		rank_fail(r, "all was done when the first chunk was seen");
	rank_did(r, coll_wait(request), "wait");
	if (device_word(recv + count - 2) != 3 * r->nranks)
		rank_fail(r, "the result is %d", (int)device_word(recv + count - 2));
	if (device_word(recv + count - 1) != r->nranks)
		rank_fail(r, "what was the last input had left before the first output came");
	rank_did(r, coll_request_free(request), "free");
	free(x);
	device_free(0, send);
	device_free(0, recv);
}

/* The calling thread has the same current context after each call. */
static void with_context(struct rank *r)
{
	const struct oracle_case like = greatest(r, 0);
	void *before = NULL, *after = NULL;
	struct device_call c;

	context_begin(1);
	device_call_begin(&c, r, &like, places[0].at);
	cuCtxGetCurrent(&before);
	device_call_once(&c, "in another context");
	cuCtxGetCurrent(&after);
	if (before != after || standin_contexts_pushed() != 1)
		rank_fail(r, "another context is current");
	device_call_end(&c);
	context_end(1);
}

int main(void)
{
	static const char *const backends[] = {"simulated", "tcp", "ucx"};

	stage_begin();
	device_init();
	log_begin();
	for (int b = 0; b < 3; b++) {
		const char *backend = backends[b];
		char reason[256];

		if (coll_backend_available(backend, reason, sizeof(reason))) {
			skip(1, "%s: %s", backend, reason);
			continue;
		}
		test_every_kind(backend);
		ranks_ok(&(struct ranks_job){backend, 3, 0, repeated, NULL}, "repeated calls");
		ranks_ok(&(struct ranks_job){backend, 3, 0, persistent, NULL}, "requests");
		ranks_ok(&(struct ranks_job){backend, 2, 0, grouped, NULL}, "a group");
	}
	test_algorithms();
	ranks_ok(&(struct ranks_job){"simulated", 3, 0, made_here, NULL}, "operations made here");
	test_copies();
	setenv("COLL_COUNTERS", "yes", 1);
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, count_bytes, NULL}, "bytes are counted");
	unsetenv("COLL_COUNTERS");
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, far_apart, NULL}, "gaps");
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, with_context, NULL}, "contexts");
	setenv("STANDIN_CUDA_DELAY_US", "40000", 1);
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, overlap, NULL}, "all at the same time");
	unsetenv("STANDIN_CUDA_DELAY_US");
	log_end();
	stage_end();
	return done_testing();
}
