/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mismatch_test.c - ranks that call different things: which differences are errors, the code, and both calls
 * in the text.
 *
 * The ranks are threads.  Arguments: the backends; without any, simulated and tcp.
 */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"

enum { MANY = 70000 };

static const char *backend;

/* Each rank's error; "" after success. */
struct outcome {
	coll_result_t code[RANKS_MAX];
	char text[RANKS_MAX][RANKS_TEXT];
};

static void note(struct rank *r, coll_result_t code)
{
	struct outcome *outcome = r->user;

	outcome->code[r->rank] = code;
	snprintf(outcome->text[r->rank], RANKS_TEXT, "%s", code ? coll_get_last_error(NULL) : "");
}

/* Waits for the operations if the call succeeded, and notes the result. */
static void note_sync(struct rank *r, coll_result_t code)
{
	note(r, code ? code : coll_sync(r->comm));
}

/* Runs a function on n ranks that communicate with this timeout; NULL: the default. */
static void run_for(const char *timeout, int n, void (*fn)(struct rank *r), struct outcome *outcome)
{
	struct ranks_job job = {backend, n, 0, fn, outcome};

	memset(outcome, 0, sizeof(*outcome));
	if (timeout)
		setenv("COLL_TIMEOUT", timeout, 1);
	ranks_ok(&job, "ends");
	unsetenv("COLL_TIMEOUT");
}

static void run(int n, void (*fn)(struct rank *r), struct outcome *outcome)
{
	run_for("1s", n, fn, outcome);
}

/* On one rank at least the code and a text with both words; no rank has another code than `or_code`. */
static void expect(const struct outcome *outcome, int n, coll_result_t code, coll_result_t or_code,
		   const char *word, const char *too, const char *what)
{
	int found = 0, others = 0;

	for (int r = 0; r < n; r++) {
		found += outcome->code[r] == code && strstr(outcome->text[r], word) &&
			 strstr(outcome->text[r], too);
		others += outcome->code[r] != code && outcome->code[r] != or_code;
	}
	if (!ok(found && !others, "%s: %s", backend, what))
		for (int r = 0; r < n; r++)
			diag("rank %d: %d %s", r, outcome->code[r], outcome->text[r]);
}

/* ------------------------------------------------------------ the application's operations -- */

static void add(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const int32_t *a = left;
	int32_t *b = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < count; i++)
		b[i] += a[i];
}

/* Rank 0 makes its operation twice if `second`, and one that is ordered if `ordered`. */
static void own_operation(struct rank *r, int second, int ordered)
{
	int32_t x = 1, y = 0;
	coll_op_t op = -1;
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; !code && i <= (second && r->rank == 0); i++)
		code = coll_red_op_create_user(&op, add, NULL, !(ordered && r->rank == 0), r->comm);
	if (!code)
		code = coll_allreduce(&x, &y, 1, COLL_INT32, op, r->comm, NULL);
	if (!code)
		code = coll_sync(r->comm);
	if (!code && y != r->nranks)
		rank_fail(r, "the sum is %d", y);
	note(r, code);
}

static void same_operation(struct rank *r)
{
	own_operation(r, 0, 0);
}

static void second_operation(struct rank *r)
{
	own_operation(r, 1, 0);
}

static void ordered_operation(struct rank *r)
{
	own_operation(r, 0, 1);
}

static void test_operations(void)
{
	struct outcome outcome;

	run(2, same_operation, &outcome);
	expect(&outcome, 2, COLL_SUCCESS, COLL_SUCCESS, "", "", "the same operation: no error");
	run(2, second_operation, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "operation number 1, commutative",
	       "operation number 2, commutative", "operations made as first and as second");
	run(2, ordered_operation, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "number 1, commutative",
	       "number 1, not commutative", "a commutative and an ordered operation");
}

/* ------------------------------------------------------------------------------ messages -- */

/* Rank 0 sends n int32 with tag 5; rank 1 receives as many float64 with that tag, or another. */
static void message(struct rank *r, size_t n, uint32_t tag)
{
	double x[4] = {0};
	coll_result_t code = r->rank == 0 ? coll_send(x, n, COLL_INT32, 1, 5, r->comm, NULL)
					  : coll_recv(x, n, n ? COLL_INT32 : COLL_FLOAT64, 0, tag,
						      r->comm, NULL);

	note_sync(r, code);
}

static void empty_message(struct rank *r)
{
	message(r, 0, 5);
}

static void other_tag(struct rank *r)
{
	message(r, 4, 6);
}

static void recv_from_anybody(struct rank *r)
{
	int32_t x[4];
	coll_result_t code =
		coll_recv(x, 4, COLL_INT32, COLL_ANY_SOURCE, 7 + (uint32_t)r->rank, r->comm, NULL);

	note_sync(r, code);
}

static void test_messages(void)
{
	struct outcome outcome;

	run(2, empty_message, &outcome);
	expect(&outcome, 2, COLL_SUCCESS, COLL_SUCCESS, "", "",
	       "a message of no elements has no type");
	run(2, other_tag, &outcome);
	expect(&outcome, 2, COLL_ERR_PEER_LOST, COLL_SUCCESS,
	       "recv of 4 int32 from rank 0 with tag 6",
	       "rank 0 has called send of 4 int32 with tag 5, for which nothing waits here",
	       "a message with another tag");
	run(2, recv_from_anybody, &outcome);
	expect(&outcome, 2, COLL_ERR_TIMEOUT, COLL_ERR_REMOTE, "recv of 4 int32 from any rank with",
	       "still needs data from: any rank", "a message from anybody that never comes");
}

/* ----------------------------------------------------------------------------- long groups -- */

/* More collectives in one group than their numbers in tags can tell apart. */
static void long_group(struct rank *r)
{
	static int64_t x = 1;
	int64_t *y = calloc(MANY, sizeof(*y));
	coll_result_t code = y ? coll_group_start() : COLL_ERR_NO_MEMORY;

	for (int i = 0; !code && i < MANY; i++)
		code = coll_allreduce(&x, y + i, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_group_end();
	if (!code)
		code = coll_sync(r->comm);
	for (int i = 0; !code && i < MANY; i++)
		if (y[i] != r->nranks)
			rank_fail(r, "sum %d is %lld", i, (long long)y[i]);
	note(r, code);
	free(y);
}

/* A message that comes late on one side of so many collectives, and first on the other. */
static void message_across(struct rank *r)
{
	int32_t x[2] = {r->rank, -1}, y;
	coll_result_t code = coll_group_start();

	if (!code && r->rank == 1)
		code = coll_recv(x + 1, 1, COLL_INT32, 0, 3, r->comm, NULL);
	for (int i = 0; !code && i < MANY / 2; i++)
		code = coll_allreduce(x, &y, 1, COLL_INT32, COLL_MAX, r->comm, NULL);
	if (!code && r->rank == 0)
		code = coll_send(x, 1, COLL_INT32, 1, 3, r->comm, NULL);
	if (!code)
		code = coll_group_end();
	if (!code)
		code = coll_sync(r->comm);
	if (!code && r->rank == 1 && x[1])
		rank_fail(r, "the message is %d", x[1]);
	note(r, code);
}

static void test_groups(void)
{
	struct outcome outcome;
	char name[80];

	snprintf(name, sizeof(name), "%d collectives in one group", MANY);
	run_for(NULL, 3, long_group, &outcome);
	expect(&outcome, 3, COLL_SUCCESS, COLL_SUCCESS, "", "", name);
	snprintf(name, sizeof(name), "a message before and after %d collectives", MANY / 2);
	run_for(NULL, 2, message_across, &outcome);
	expect(&outcome, 2, COLL_SUCCESS, COLL_SUCCESS, "", "", name);
}

/* --------------------------------------------------------------- ranks that wait for each other */

static void other_roots(struct rank *r)
{
	int32_t x = r->rank;
	coll_result_t code = coll_broadcast(&x, &x, 1, COLL_INT32, r->rank == 0, r->comm, NULL);

	note_sync(r, code);
}

static void both_roots(struct rank *r)
{
	int32_t x = r->rank, y;
	coll_result_t code = coll_reduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->rank, r->comm, NULL);

	note_sync(r, code);
}

/* Rank 0 scatters from rank 1, which gathers. */
static void other_kind(struct rank *r)
{
	int32_t x[2] = {0}, y[2];
	coll_result_t code = r->rank == 0 ? coll_scatter(x, y, 1, COLL_INT32, 1, r->comm, NULL)
					  : coll_gather(x, y, 1, COLL_INT32, 1, r->comm, NULL);

	note_sync(r, code);
}

/* Rank 0 sends rank 1 a whole piece of a message, rank 1 expects two: a short or a last piece would tell. */
static void whole_pieces(struct rank *r)
{
	const size_t piece = (size_t)1 << 20, counts[2] = {0, piece}; /* option segment */
	char *x = calloc(2, piece);
	coll_result_t code = coll_scatterv(x, counts, NULL, x, r->rank ? 2 * piece : 0, COLL_INT8,
					   0, r->comm, NULL);

	note_sync(r, code);
	free(x);
}

/* Rank 0 only polls. */
static void poll_other_roots(struct rank *r)
{
	int32_t x = r->rank, done = 0;
	coll_request_t request = NULL;
	coll_result_t code = coll_broadcast(&x, &x, 1, COLL_INT32, r->rank == 0, r->comm, NULL);

	if (!code)
		code = coll_get_request(r->comm, &request);
	while (!code && !done)
		code = coll_test(request, &done);
	note(r, code);
	coll_request_free(request);
}

/* As both_roots; the program waits in no call. */
static void poll_for_error(struct rank *r)
{
	const double deadline = ranks_now() + 20;
	int32_t x = r->rank, y;
	coll_result_t error = COLL_SUCCESS;
	coll_result_t code = coll_reduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->rank, r->comm, NULL);

	while (!code && !error && ranks_now() < deadline) {
		code = coll_comm_get_async_error(r->comm, &error);
		ranks_sleep(0.001);
	}
	/* A rank that comes late is told by its call. */
	if (!error && !code)
		rank_fail(r, "there is no error");
	note_sync(r, code);
}

/* Nobody else calls: the time limit holds for rank 0, which only polls. */
static void poll_alone(struct rank *r)
{
	int32_t x = 1, done = 0;
	coll_request_t request = NULL;
	coll_result_t code = COLL_SUCCESS;

	if (r->rank) {
		ranks_sleep(2.5);
		note(r, COLL_SUCCESS);
		return;
	}
	code = coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_get_request(r->comm, &request);
	while (!code && !done) {
		code = coll_test(request, &done);
		ranks_sleep(0.001);
	}
	note(r, code);
	coll_request_free(request);
}

/* A run with a long timeout; the ranks ask each other after 0.2 s. */
static void run_long(int n, void (*fn)(struct rank *r), struct outcome *outcome)
{
	struct ranks_job job = {backend, n, 0, fn, outcome};
	double begin = ranks_now();

	memset(outcome, 0, sizeof(*outcome));
	setenv("COLL_STALL_AFTER", "0.2s", 1);
	ranks_ok(&job, "ends");
	unsetenv("COLL_STALL_AFTER");
	ok(ranks_now() - begin < 30, "%s: long before the timeout", backend);
}

static void test_waits(void)
{
	struct outcome outcome;

	run_long(3, other_roots, &outcome);
	expect(&outcome, 3, COLL_ERR_MISMATCH, COLL_SUCCESS, "broadcast of 1 int32 with root 0",
	       "broadcast of 1 int32 with root 1", "broadcasts with different roots");
	run_long(2, both_roots, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH,
	       "reduce of 1 int32 (sum) with root 0", "reduce of 1 int32 (sum) with root 1",
	       "each rank believes that it is the root");
	run(2, whole_pieces, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_SUCCESS, "rank 0 sends 0 bytes to rank 1",
	       "which expects 1048576", "a scatterv of one whole piece for one of two");
	run_long(2, other_kind, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "scatter of 1 int32 with root 1",
	       "gather of 1 int32 with root 1", "a scatter and a gather");
	run_long(3, poll_other_roots, &outcome);
	expect(&outcome, 3, COLL_ERR_MISMATCH, COLL_SUCCESS, "broadcast of 1 int32 with root 0",
	       "broadcast of 1 int32 with root 1", "different roots, and ranks that poll");
	run_long(2, poll_for_error, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH,
	       "reduce of 1 int32 (sum) with root 0", "reduce of 1 int32 (sum) with root 1",
	       "each believes that it is the root, and asks for errors alone");
	run(2, poll_alone, &outcome);
	expect(&outcome, 2, COLL_ERR_TIMEOUT, COLL_SUCCESS, "timed out: nothing has moved",
	       "not heard from: rank 1", "a rank that polls alone");
}

/* --------------------------------------------------------------------- ranks without elements */

enum { PART = 3 }; /* elements from each rank to each rank */

/* The counts of a rank: the last one has no elements. */
static size_t counts_of(size_t *counts, const struct rank *r, int rank)
{
	for (int i = 0; i < r->nranks; i++)
		counts[i] = i == r->nranks - 1 || rank == r->nranks - 1 ? 0 : PART;
	return counts[rank];
}

/* A v-form; `type` is that of this rank.  There are as many elements as counts_of() says, `from` 12 bytes each. */
static coll_result_t v_form(struct rank *r, int32_t kind, coll_dtype_t type, const void *from,
			    void *to)
{
	size_t counts[RANKS_MAX], none[RANKS_MAX] = {0}, mine = counts_of(counts, r, r->rank);

	switch (kind) {
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(from, counts, NULL, to, counts, NULL, type, r->comm, NULL);
	case COLL_KIND_GATHERV:
		return coll_gatherv(from, mine, to, counts, NULL, type, 0, r->comm, NULL);
	case COLL_KIND_SCATTERV:
		return coll_scatterv(from, counts, NULL, to, mine, type, 0, r->comm, NULL);
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(NULL, 0, NULL, none, NULL, type, r->comm, NULL);
	default: return coll_reduce_scatterv(NULL, NULL, none, type, COLL_SUM, r->comm, NULL);
	}
}

/* The last rank names types of its own, and comes early and late. */
static void other_types(struct rank *r)
{
	static const int32_t kinds[] = {COLL_KIND_ALLTOALLV, COLL_KIND_GATHERV, COLL_KIND_SCATTERV,
					COLL_KIND_ALLGATHERV, COLL_KIND_REDUCE_SCATTERV};
	static const coll_dtype_t own[] = {COLL_INT8, COLL_COMPLEX128, COLL_FLOAT32};
	const int last = r->rank == r->nranks - 1;
	char from[PART * RANKS_MAX * 12], to[sizeof(from)];
	coll_result_t code = COLL_SUCCESS;

	memset(from, 'a' + r->rank, sizeof(from));
	for (size_t i = 0; !code && i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
		const int32_t kind = kinds[i / 2];
		const int reduces = kind == COLL_KIND_REDUCE_SCATTERV, root = r->rank == 0;

		memset(to, '.', sizeof(to));
		ranks_sleep(i % 2 == (size_t)last ? 0.005 : 0);
		code = v_form(r, kind,
			      last      ? own[i % 3]
			      : reduces ? COLL_INT32
					: COLL_COMPLEX64,
			      from, to);
		if (!code)
			code = coll_sync(r->comm);
		if (!code && !last &&
		    (kind == COLL_KIND_ALLTOALLV || (kind == COLL_KIND_GATHERV && root)) &&
		    (to[0] != 'a' || to[(r->nranks - 1) * PART * 8 - 1] != 'a' + r->nranks - 2 ||
		     to[(r->nranks - 1) * PART * 8] != '.'))
			rank_fail(r, "%s gives %.80s", coll_kind_name(kind), to);
		if (last && to[0] != '.')
			rank_fail(r, "%s writes", coll_kind_name(kind));
	}
	note(r, code);
}

/* The same with elements of other sizes whose meaning nobody knows, and lists. */
static void other_opaque(struct rank *r)
{
	const int last = r->rank == r->nranks - 1;
	void *nowhere[RANKS_MAX] = {0};
	char from[PART * RANKS_MAX * 12] = "", to[sizeof(from)] = "";
	coll_result_t code =
		v_form(r, COLL_KIND_ALLTOALLV, coll_dtype_opaque(last ? 5 : 12), from, to);

	if (!code)
		code = coll_alltoall_list((const void *const *)nowhere, nowhere, 0,
					  last ? COLL_INT8 : COLL_FLOAT64, r->comm, NULL);
	note_sync(r, code);
}

/* All ranks have elements. */
static void two_types(struct rank *r)
{
	size_t counts[RANKS_MAX];
	int64_t x[RANKS_MAX] = {0}, y[RANKS_MAX];

	for (int i = 0; i < r->nranks; i++)
		counts[i] = 1;
	note_sync(r, coll_alltoallv(x, counts, NULL, y, counts, NULL,
				    r->rank ? COLL_INT64 : COLL_FLOAT64, r->comm, NULL));
}

/* Rank 0 has elements for the last rank, which expects none. */
static void elements_for_none(struct rank *r)
{
	size_t counts[RANKS_MAX] = {0};
	int64_t x[RANKS_MAX] = {0}, y[RANKS_MAX];

	counts[r->nranks - 1] = r->rank == 0;
	note_sync(r, coll_scatterv(x, counts, NULL, y, 0, r->rank ? COLL_INT8 : COLL_INT64, 0,
				   r->comm, NULL));
}

static void test_no_elements(void)
{
	struct outcome outcome;

	run(4, other_types, &outcome);
	expect(&outcome, 4, COLL_SUCCESS, COLL_SUCCESS, "", "",
	       "v-forms with a rank that has no elements and names another type");
	run(3, other_opaque, &outcome);
	expect(&outcome, 3, COLL_SUCCESS, COLL_SUCCESS, "", "", "another opaque type");
	run_long(3, two_types, &outcome);
	expect(&outcome, 3, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "alltoallv of float64",
	       "alltoallv of int64", "an alltoallv of two types");
	run(2, elements_for_none, &outcome);
	expect(&outcome, 2, COLL_ERR_MISMATCH, COLL_SUCCESS, "scatterv of no elements with root 0",
	       "rank 0 sends 8 bytes to rank 1, which expects 0",
	       "elements for a rank that expects none");
}

/* ------------------------------------------------------------------------------- warnings -- */

/* Rank 1 comes late to the second allreduce. */
static void late(struct rank *r)
{
	int32_t x = 1, y;
	coll_result_t code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (r->rank == 1)
		ranks_sleep(1.3);
	if (!code)
		code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	note_sync(r, code);
}

static void test_warnings(void)
{
	struct outcome outcome;
	int n;

	log_begin();
	run_long(2, late, &outcome);
	log_end();
	expect(&outcome, 2, COLL_SUCCESS, COLL_SUCCESS, "", "", "a late rank is no error");
	ok(log_lines("rank 0 waits in allreduce of 1 int32 (sum), and nothing has moved for") &&
		   log_lines("rank 1 does not answer, and was last heard from in allreduce as "
			     "collective number 1"),
	   "%s: a warning says who is behind, and at which call", backend);
	n = log_lines("rank 0 waits in");
	if (!ok(n >= 1 && n <= 4, "%s: the warning is repeated sparsely: %d times", backend, n))
		diag("%s", log_text());
}

/* ------------------------------------------------------- ranks that wait somewhere else -- */

/* Rank 0 calls on the communicator, and rank 1 on a dup of it. */
static void across(struct rank *r)
{
	coll_comm_t dup = NULL;
	int32_t x = 1, y;
	coll_result_t code = coll_comm_dup(r->comm, &dup);

	if (!code)
		code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->rank ? dup : r->comm,
				      NULL);
	if (!code)
		code = coll_sync(r->rank ? dup : r->comm);
	note(r, code);
	coll_comm_destroy(dup);
}

/* Rank 1 calls nothing after the dup until rank 0 has given up. */
static void after_dup(struct rank *r)
{
	coll_comm_t dup = NULL;
	int32_t x = 1, y;
	coll_result_t code = coll_comm_dup(r->comm, &dup);

	if (!code && r->rank == 0)
		code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code && r->rank == 0)
		code = coll_sync(r->comm);
	if (r->rank == 1)
		ranks_sleep(2);
	note(r, code);
	coll_comm_destroy(dup);
}

static void across_shrink(struct rank *r)
{
	coll_comm_t shrunk = NULL;
	int32_t x = 1, y;
	coll_result_t code;

	if (r->rank == 0) {
		code = coll_comm_shrink(r->comm, NULL, 0, &shrunk, NULL, 0);
		note(r, code);
		coll_comm_destroy(shrunk);
	} else {
		code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
		note_sync(r, code);
	}
}

static void test_elsewhere(void)
{
	struct outcome outcome;

	setenv("COLL_STALL_AFTER", "0.2s", 1);
	run(2, across, &outcome);
	expect(&outcome, 2, COLL_ERR_TIMEOUT, COLL_ERR_PEER_LOST, "and waits in none, ",
	       "none, but in allreduce on another communicator",
	       "ranks that wait for each other on two communicators");
	log_begin();
	run(2, across_shrink, &outcome);
	log_end();
	ok(log_lines("rank 0 has called 0 collectives and waits in none, but in coll_comm_shrink"),
	   "%s: a rank in shrink", backend);
	run(2, after_dup, &outcome);
	expect(&outcome, 2, COLL_ERR_TIMEOUT, COLL_SUCCESS,
	       "was last heard from in comm_split or comm_dup as collective number 1", "",
	       "a rank last heard from in a dup");
	unsetenv("COLL_STALL_AFTER");
}

/* --------------------------------------------------------------- two ranks that wait for a third -- */

enum { WAITERS = 3, SLEEPS_S = 12 };

/* The last rank sleeps until the others have given up. */
static void wait_for_sleeper(struct rank *r, int polls)
{
	static _Atomic int given_up;
	double end = ranks_now() + SLEEPS_S;
	int32_t x = 1, y;
	coll_request_t request = NULL;
	coll_result_t code;
	int done = 0;

	if (r->rank == WAITERS - 1) {
		while (atomic_load(&given_up) < WAITERS - 1 && ranks_now() < end)
			ranks_sleep(0.01);
		atomic_store(&given_up, 0);
		return;
	}
	code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code && polls)
		code = coll_get_request(r->comm, &request);
	while (!code && polls && !done) {
		code = coll_test(request, &done);
		ranks_sleep(0.001);
	}
	note_sync(r, code);
	coll_request_free(request);
	if (ranks_now() < end)
		atomic_fetch_add(&given_up, 1);
}

static void wait_by_sync(struct rank *r)
{
	wait_for_sleeper(r, 0);
}

static void wait_by_test(struct rank *r)
{
	wait_for_sleeper(r, 1);
}

/* Their questions to each other are no progress. */
static void test_two_wait(void (*fn)(struct rank *r), const char *what)
{
	struct outcome outcome;
	double begin = ranks_now();
	int first;

	setenv("COLL_STALL_AFTER", "0.2s", 1);
	run_for("1.5s", WAITERS, fn, &outcome);
	unsetenv("COLL_STALL_AFTER");
	/* The rank whose time is over first tells the other, which may have been too busy to answer. */
	first = outcome.code[0] != COLL_ERR_TIMEOUT;
	if (!ok(outcome.code[0] && outcome.code[1] && outcome.code[first] == COLL_ERR_TIMEOUT &&
			strstr(outcome.text[first], "not heard from: rank ") &&
			strstr(outcome.text[first], "2; still needs data from: "),
		"%s: %s", backend, what))
		for (int r = 0; r < WAITERS; r++)
			diag("rank %d: %d %s", r, outcome.code[r], outcome.text[r]);
	ok(ranks_now() - begin < SLEEPS_S, "%s: %s: before the third rank ends: %.1f s", backend,
	   what, ranks_now() - begin);
}

/* ------------------------------------------------------------------- ranks that have left -- */

/*
 * Rank 2 has another root, and calls `wait` seconds late; the others destroy their communicators at once, so the broadcast
 * ends after this function.
 */
static void root_then_destroy(struct rank *r, double wait)
{
	static int32_t numbers[3];
	int32_t *x = &numbers[r->rank];
	coll_result_t code;

	if (r->rank == 2)
		ranks_sleep(wait);
	code = coll_broadcast(x, x, 1, COLL_INT32, r->rank == 2, r->comm, NULL);
	if (r->rank == 2)
		note_sync(r, code);
}

static void root_and_destroy(struct rank *r)
{
	root_then_destroy(r, 0);
}

static void destroy_and_root(struct rank *r)
{
	root_then_destroy(r, 0.3);
}

static void test_left(void)
{
	void (*const fn[])(struct rank * r) = {root_and_destroy, destroy_and_root};
	struct outcome outcome;

	for (int late = 0; late < 2; late++) {
		run(3, fn[late], &outcome);
		if (!ok(outcome.code[2] == COLL_ERR_MISMATCH &&
				strstr(outcome.text[2],
				       "called broadcast of 1 int32 with root 0") &&
				strstr(outcome.text[2],
				       "rank 2 called broadcast of 1 int32 with root 1"),
			"%s: ranks that leave%s another root", backend, late ? " before" : " at"))
			diag("%d %s", outcome.code[2], outcome.text[2]);
	}
}

int main(int argc, char **argv)
{
	const char *const usual[] = {"simulated", "tcp"};
	int n = argc > 1 ? argc - 1 : 2;

	for (int i = 0; i < n; i++) {
		backend = argc > 1 ? argv[i + 1] : usual[i];
		if (!ranks_can(backend))
			continue;
		test_operations();
		test_messages();
		test_no_elements();
		test_groups();
		test_waits();
		test_warnings();
		test_elsewhere();
		test_two_wait(wait_by_sync, "two ranks wait for a third");
		test_two_wait(wait_by_test, "two ranks poll for a third");
		test_left();
	}
	return done_testing();
}
