/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_test.c - reductions move while the caller computes: with `progress = thread` without any
 * call into the library, else with a query of an event between slices of the computation.
 *
 * The early rank issues allreduce A and B with an event after each, and then computes.  A cannot
 * begin before this computation, since the late rank issues its part only then.  B cannot begin
 * until the early rank has seen the reduction of A complete and has computed one more slice.  So
 * the order of events on the early rank is fixed, whatever the speed:
 *
 *   computing begins < A is reduced < a slice is computed < B is reduced < computing ends
 *
 * An operation of the test records which thread reduced, and when.  If nothing moves, the test
 * fails after a minute.
 */
#include "../lib/ranks.h"

enum { RANKS = 2, LATE = 1, COUNT = RANKS * 50000, SLICE = 20000 };

static const double LONGEST = 60;

/* Flags that the early rank shows to the late rank. */
struct shared {
	_Atomic int computing, first_done;
};

/* The record of one reduction on one rank. */
struct note {
	_Atomic int64_t begin, end; /* times of its first and last piece, in ns */
	_Atomic int64_t elements;
	/* foreign: number of pieces reduced in another thread than the rank's */
	_Atomic int pieces, foreign;
	pthread_t rank_thread;
};

struct overlap {
	struct rank *r;
	struct shared *shared;
	struct note note[2];
	coll_op_t op[2];
	coll_event_t event[2];
	int64_t *in, *out[2];
	int64_t begin, end;             /* computing */
	int64_t slice_begin, slice_end; /* the slice between the two reductions */
	int slices;
	volatile double product;
};

static int caller_driven;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void add(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	struct note *note = user;
	const int64_t *a = left;
	int64_t *b = inout, begin = now_ns();

	(void)dtype;
	if (atomic_fetch_add(&note->pieces, 1) == 0)
		atomic_store(&note->begin, begin);
	if (!pthread_equal(pthread_self(), note->rank_thread))
		atomic_fetch_add(&note->foreign, 1);
	for (size_t i = 0; i < count; i++)
		b[i] += a[i];
	atomic_store(&note->end, now_ns());
	atomic_fetch_add(&note->elements, (int64_t)count);
}

/* In a ring every rank reduces all blocks but one. */
static int reduced(struct note *note)
{
	return atomic_load(&note->elements) >= COUNT / RANKS * (RANKS - 1);
}

/* -------------------------------------------------------------------- computing -- */

static int query(struct overlap *o, int i, coll_result_t *state)
{
	*state = coll_event_query(o->event[i]);
	if (*state == COLL_SUCCESS || *state == COLL_IN_PROGRESS)
		return 1;
	return rank_did(o->r, *state, "event_query");
}

/* Makes progress if no progress thread does. */
static int drive(struct overlap *o)
{
	coll_result_t state;

	return !caller_driven || query(o, 0, &state);
}

static void compute_slice(struct overlap *o)
{
	double x = 1;

	for (int i = 0; i < SLICE; i++)
		x = x * 1.0000001 + 1e-9;
	o->product = x;
	o->slices++;
}

/* Computes until the condition holds; returns 0 if it does not within a minute. */
static int compute_until(struct overlap *o, int (*condition)(struct overlap *o), const char *what)
{
	double deadline = ranks_now() + LONGEST;

	while (!condition(o)) {
		if (ranks_now() > deadline)
			return rank_fail(o->r,
					 "%s: not within %.0f s, although %d slices were "
					 "computed",
					 what, LONGEST, o->slices);
		compute_slice(o);
		if (!drive(o))
			return 0;
	}
	return 1;
}

static int other_computes(struct overlap *o)
{
	return atomic_load(&o->shared->computing);
}

static int other_has_first(struct overlap *o)
{
	return atomic_load(&o->shared->first_done);
}

/*
 * If the caller queries events, the first event must be complete as well, and the second must not.
 */
static int first_done(struct overlap *o)
{
	coll_result_t first, second;

	if (!reduced(&o->note[0]))
		return 0;
	if (!caller_driven)
		return 1;
	if (!query(o, 0, &first) || !query(o, 1, &second))
		return 1;
	if (second != COLL_IN_PROGRESS)
		rank_fail(o->r, "the second event is complete before its reduction began");
	return first == COLL_SUCCESS;
}

static int second_done(struct overlap *o)
{
	return reduced(&o->note[1]);
}

/* ------------------------------------------------------------------------ a rank -- */

static int issue(struct overlap *o, int i)
{
	coll_comm_t comm = o->r->comm;

	return rank_did(o->r,
			coll_allreduce(o->in, o->out[i], COUNT, COLL_INT64, o->op[i], comm, NULL),
			"allreduce") &&
	       rank_did(o->r, coll_event_record(o->event[i], comm), "event_record");
}

static int early_rank(struct overlap *o)
{
	coll_result_t state;

	if (!issue(o, 0) || !issue(o, 1) || !query(o, 0, &state))
		return 0;
	if (state != COLL_IN_PROGRESS)
		return rank_fail(o->r, "an event is complete before all ranks have called");
	o->begin = now_ns();
	atomic_store(&o->shared->computing, 1);
	if (!compute_until(o, first_done, "the first reduction"))
		return 0;
	o->slice_begin = now_ns();
	compute_slice(o);
	o->slice_end = now_ns();
	atomic_store(&o->shared->first_done, 1);
	if (!compute_until(o, second_done, "the second reduction"))
		return 0;
	o->end = now_ns();
	return 1;
}

static int late_rank(struct overlap *o)
{
	return compute_until(o, other_computes, "the early rank's computing") && issue(o, 0) &&
	       compute_until(o, other_has_first, "the early rank's first reduction") &&
	       issue(o, 1) && compute_until(o, second_done, "the second reduction");
}

/* Verifies the order of events that the head of this file gives. */
static int in_order(struct overlap *o)
{
	const int64_t at[] = {
		o->begin,     atomic_load(&o->note[0].begin), o->note[0].end, o->slice_begin,
		o->slice_end, atomic_load(&o->note[1].begin), o->note[1].end, o->end};
	static const char *const name[] = {"computing begins",
					   "the first reduction begins",
					   "the first reduction ends",
					   "a slice begins",
					   "the slice ends",
					   "the second reduction begins",
					   "the second reduction ends",
					   "computing ends"};

	for (int i = 1; i < 8; i++)
		if (at[i] < at[i - 1])
			return rank_fail(o->r, "'%s' comes %lld us before '%s'", name[i],
					 (long long)(at[i - 1] - at[i]) / 1000, name[i - 1]);
	return 1;
}

static int by_whom(struct overlap *o)
{
	for (int i = 0; i < 2; i++) {
		int foreign = atomic_load(&o->note[i].foreign),
		    all = atomic_load(&o->note[i].pieces);

		if (caller_driven ? foreign != 0 : foreign != all)
			return rank_fail(o->r, "reduction %d: %d of %d pieces by another thread", i,
					 foreign, all);
	}
	return 1;
}

static int right_results(struct overlap *o)
{
	coll_result_t first, second;

	if (!rank_did(o->r, coll_sync(o->r->comm), "sync") || !query(o, 0, &first) ||
	    !query(o, 1, &second))
		return 0;
	if (first || second)
		return rank_fail(o->r, "an event is not complete after sync");
	for (int i = 0; i < COUNT; i++)
		if (o->out[0][i] != (int64_t)RANKS * i + RANKS * (RANKS - 1) / 2 ||
		    o->out[1][i] != o->out[0][i])
			return rank_fail(o->r, "element %d is wrong", i);
	return 1;
}

static int prepare(struct overlap *o)
{
	for (int i = 0; i < 2; i++) {
		o->out[i] = calloc(COUNT, sizeof(int64_t));
		o->note[i].rank_thread = pthread_self();
		if (!o->out[i])
			bail_out("no memory");
		if (!rank_did(o->r,
			      coll_red_op_create_user(&o->op[i], add, &o->note[i], 1, o->r->comm),
			      "red_op_create_user") ||
		    !rank_did(o->r, coll_event_create(o->r->comm, &o->event[i]), "event_create"))
			return 0;
	}
	o->in = calloc(COUNT, sizeof(int64_t));
	if (!o->in)
		bail_out("no memory");
	for (int i = 0; i < COUNT; i++)
		o->in[i] = i + o->r->rank;
	return 1;
}

static void work(struct rank *r)
{
	struct overlap *o = calloc(1, sizeof(*o));

	if (!o)
		bail_out("no memory");
	o->r = r;
	o->shared = r->user;
	if (prepare(o) && (r->rank == LATE ? late_rank(o) : early_rank(o)) && right_results(o) &&
	    r->rank != LATE && in_order(o) && by_whom(o))
		diag("%d slices in %.1f ms; reductions from %.1f to %.1f and %.1f to %.1f ms",
		     o->slices, 1e-6 * (double)(o->end - o->begin),
		     1e-6 * (double)(o->note[0].begin - o->begin),
		     1e-6 * (double)(o->note[0].end - o->begin),
		     1e-6 * (double)(o->note[1].begin - o->begin),
		     1e-6 * (double)(o->note[1].end - o->begin));
	if (r->failure[0])
		coll_comm_abort(r->comm); /* so that no operation touches the buffers any more */
	for (int i = 0; i < 2; i++) {
		rank_did(r, coll_event_destroy(o->event[i]), "event_destroy");
		rank_did(r, coll_red_op_destroy(o->op[i], r->comm), "red_op_destroy");
		free(o->out[i]);
	}
	free(o->in);
	free(o);
}

/* ------------------------------------------------------------------------- main -- */

static void test(const char *backend, int processes, const char *progress, const char *name)
{
	struct shared *shared = ranks_memory(sizeof(*shared));

	setenv("COLL_PROGRESS", progress, 1);
	caller_driven = !strcmp(progress, "caller");
	ranks_ok(&(struct ranks_job){backend, RANKS, processes, work, shared}, "%s", name);
}

int main(void)
{
	static const char thread[] = "reduces while the caller computes, without a call";
	static const char caller[] = "reduces between slices, when asked about an event";

	setenv("COLL_ALLREDUCE_ALGORITHM", "ring", 1);
	test("simulated", 0, "thread", thread);
	test("tcp", 0, "thread", thread);
	test("tcp", 1, "thread", thread);
	test("simulated", 0, "caller", caller);
	test("tcp", 0, "caller", caller);
	test("tcp", 1, "caller", caller);
	if (ranks_can("ucx")) {
		test("ucx", 1, "thread", thread);
		test("ucx", 1, "caller", caller);
		test("ucx", 0, "thread", thread);
		test("ucx", 0, "caller", caller);
	}
	return done_testing();
}
