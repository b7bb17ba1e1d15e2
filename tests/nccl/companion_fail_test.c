/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion_fail_test.c - a rank that aborts, or whose NCCL fails, tells the others through the companion:
 * their calls end at once, and name the rank and its reason.
 *
 * All ranks are processes: what one tells the others goes over a connection.
 */
#include "companion.h"

enum {
	QUICK_OF = 9, /* the median of so many aborts */
	INITS = 8     /* rounds of an abort right after init */
};

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready;  /* ranks that have come to the scene */
	_Atomic int done;   /* ranks that are through */
	_Atomic int called; /* ranks whose call before the abort has succeeded */
	double told;        /* when the rank told the others */
	double took;        /* of rank 0, from then on */
};

/* All ranks have made a call, so that NCCL has connected them. */
static void begin(struct rank *r)
{
	struct scene *s = r->user;

	nccl_works(r);
	meet(&s->ready, r->nranks);
}

/* Issues a call that the rank which ends the scene does not make, and waits for it. */
static int hang(struct rank *r, coll_comm_t comm)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	int code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, comm, NULL);

	if (!code)
		code = coll_sync(comm);
	device_free(r->rank, there);
	return code;
}

/* Every call from now on returns the error; and nobody is lost. */
static void stays(struct rank *r, const char *words)
{
	coll_result_t error = 0;
	int32_t failed[RANKS_MAX], n = -1;

	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_REMOTE, words, "a later barrier");
	rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (error != COLL_ERR_REMOTE)
		rank_fail(r, "the asynchronous error is %d", error);
	rank_did(r, coll_comm_get_failed(r->comm, failed, RANKS_MAX, &n), "get_failed");
	if (n != 0)
		rank_fail(r, "%d ranks have failed", (int)n);
}

/* ------------------------------------------------------------------------- aborts -- */

/* The last rank aborts, while the others wait for it. */
static void aborts(struct rank *r)
{
	struct scene *s = r->user;
	char words[64];

	begin(r);
	if (r->rank == r->nranks - 1) {
		ranks_sleep(0.01);
		s->told = ranks_now();
		rank_did(r, coll_comm_abort(r->comm), "abort");
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "its own sync");
	} else {
		snprintf(words, sizeof(words), "rank %d aborted the communicator", r->nranks - 1);
		nccl_fails(r, hang(r, r->comm), COLL_ERR_REMOTE, words, "sync");
		if (r->rank == 0)
			s->took = ranks_now() - s->told;
		stays(r, words);
	}
	meet(&s->done, r->nranks);
	destroy(r);
}

/* No call of the library waits, but the program waits for its own stream: the abort ends the work there. */
static void aborts_stream(struct rank *r)
{
	struct scene *s = r->user;
	void *stream = nccl_stream(r->rank);
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double begins;

	begin(r);
	if (r->rank == 0) {
		rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream),
			 "call");
		atomic_fetch_add(&s->called, 1);
		begins = ranks_now();
		nccl_stream_do(r->rank, stream, cuStreamSynchronize);
		if (ranks_now() - begins > SOON)
			rank_fail(r, "the stream was busy for %.1f s", ranks_now() - begins);
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_REMOTE,
			   "rank 1 aborted the communicator", "sync");
	} else {
		wait_until(&s->called, 1);
		ranks_sleep(0.05);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	}
	destroy(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* The abort of one communicator leaves the others alone: the parent, and the other half of the split. */
static void aborts_split(struct rank *r)
{
	coll_comm_t pair = NULL;

	rank_did(r, coll_comm_split(r->comm, r->rank / 2, -r->rank, &pair, NULL), "split");
	begin(r);
	if (r->rank == 3)
		rank_did(r, coll_comm_abort(pair), "abort");
	else if (r->rank == 2)
		nccl_fails(r, call_until_failure(r, pair), COLL_ERR_REMOTE,
			   "rank 0 (world rank 3) aborted the communicator", "the pair");
	else
		nccl_sums(r, pair, r->rank, 2, 4, "the other pair");
	nccl_works(r);
	rank_did(r, coll_comm_destroy(pair), "destroy the pair");
	destroy(r);
}

/* A rank aborts before the others have made the communicator, or are watched. */
static void aborts_at_once(struct rank *r)
{
	struct scene *s = r->user;

	for (int i = 1; i <= INITS; i++) {
		if (!rank_did(r, nccl_init(r, &r->comm, NULL), "init"))
			return;
		if (r->rank == 1)
			rank_did(r, coll_comm_abort(r->comm), "abort");
		else
			nccl_fails(r, hang(r, r->comm), COLL_ERR_REMOTE,
				   "rank 1 aborted the communicator", "sync");
		meet(&s->done, i * r->nranks);
		destroy(r);
	}
}

/* The rank that has aborted ends; the others go on without it. */
static void aborts_and_ends(struct rank *r)
{
	struct scene *s = r->user;
	const int32_t without = r->nranks - 1;
	coll_comm_t rest = NULL;

	begin(r);
	if (r->rank == without) {
		rank_did(r, coll_comm_abort(r->comm), "abort");
		ranks_vanish();
	}
	nccl_fails(r, hang(r, r->comm), COLL_ERR_REMOTE, "aborted the communicator", "sync");
	meet(&s->done, r->nranks - 1);
	if (rank_did(r, coll_comm_shrink(r->comm, &without, 1, &rest, NULL, 0), "shrink") &&
	    is_rank(r, rest, r->rank, r->nranks - 1))
		nccl_sums(r, rest, r->rank, 2, 2 * (r->nranks - 1), "the rest");
	if (rest)
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	destroy(r);
}

static void *abort_soon(void *comm)
{
	ranks_sleep(0.2);
	coll_comm_abort(comm);
	return NULL;
}

/* Ends the shrink of another thread, and returns when that ends too. */
static void *destroy_soon(void *arg)
{
	const double start = ranks_now();
	struct rank *r = arg;

	ranks_sleep(0.2);
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	if (ranks_now() - start > SOON)
		rank_fail(r, "the destroy took %.1f s", ranks_now() - start);
	return NULL;
}

static void end_shrink(struct rank *r, const int32_t *exclude, int32_t n)
{
	coll_comm_t rest = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, destroy_soon, r))
		bail_out("cannot start a thread");
	nccl_fails(r, coll_comm_shrink(r->comm, exclude, n, &rest, NULL, 0), COLL_ERR_ABORTED,
		   "abort", "shrink");
	pthread_join(thread, NULL);
	r->comm = NULL;
}

/* Only rank 0 shrinks, until another thread destroys the communicator. */
static void destroys_lonely_shrink(struct rank *r)
{
	struct scene *s = r->user;

	begin(r);
	if (r->rank == 0)
		end_shrink(r, NULL, 0);
	end_together(r, &s->done, r->nranks);
}

/* The same while NCCL shrinks. */
static void destroys_shrink(struct rank *r)
{
	const int32_t without = r->nranks - 1;
	struct scene *s = r->user;
	coll_comm_t rest = NULL;

	begin(r);
	setenv("STANDIN_NCCL_SHRINK_MS", "60000", 1);
	if (r->rank == 0)
		end_shrink(r, &without, 1);
	else if (r->rank != without && coll_comm_shrink(r->comm, &without, 1, &rest, NULL, 0) == 0)
		rank_fail(r, "a shrink without rank 0");
	end_together(r, &s->done, r->nranks);
}

/* Another thread of rank 1 aborts while NCCL shrinks a communicator that is well: the shrink ends on all ranks. */
static void aborts_shrink(struct rank *r)
{
	const int32_t without = r->nranks - 1;
	struct scene *s = r->user;
	coll_comm_t rest = NULL;
	pthread_t thread;
	double start;

	begin(r);
	if (r->rank != without) {
		setenv("STANDIN_NCCL_SHRINK_MS", "60000", 1);
		if (r->rank == 1 && pthread_create(&thread, NULL, abort_soon, r->comm))
			bail_out("cannot start a thread");
		start = ranks_now();
		nccl_fails(r, coll_comm_shrink(r->comm, &without, 1, &rest, NULL, 0),
			   COLL_ERR_ABORTED, "abort", "shrink");
		if (ranks_now() - start > SOON)
			rank_fail(r, "the end of the shrink took %.1f s", ranks_now() - start);
		if (r->rank == 1)
			pthread_join(thread, NULL);
	}
	end_together(r, &s->done, r->nranks);
}

static void test_destroys(void)
{
	static const char *const companions[] = {"tcp", "none"};
	struct scene *s = ranks_memory(sizeof(*s));

	setenv("COLL_DESTROY_TIMEOUT", "100ms", 1);
	for (int i = 0; i < 2; i++) {
		setenv("COLL_COMPANION", companions[i], 1);
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, destroys_lonely_shrink, s},
			"a destroy ends a shrink that waits, companion %s", companions[i]);
	}
	unsetenv("COLL_COMPANION");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, destroys_shrink, s},
		"a destroy ends the shrink of NCCL");
	unsetenv("COLL_DESTROY_TIMEOUT");
}

static void test_aborts(void)
{
	double took[QUICK_OF];
	struct scene *s = ranks_memory(sizeof(*s));

	for (int i = 0; i < QUICK_OF; i++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){2 + i % 3, 1, INIT_EXCHANGE, aborts, s},
			"an abort ends the waits of the others, and is named");
		took[i] = s->took;
	}
	is_quick(took, QUICK_OF, "the others hear of an abort at once");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, aborts_stream, s},
		"an abort ends the work on the stream of another rank's program");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){4, 1, INIT_EXCHANGE, aborts_split, s},
		"an abort concerns the communicator that was aborted");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_NONE, aborts_at_once, s},
		"a rank aborts a communicator that others still make");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, aborts_shrink, s},
		"an abort ends the shrink of the other survivors");
	test_destroys();
	for (int nranks = 2; nranks <= 4; nranks++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, aborts_and_ends, s},
			"a rank aborts and ends: the others shrink without it");
	}
}

/* ----------------------------------------------------------------------- failures -- */

/* NCCL fails on the last rank only. */
static void nccl_breaks(struct rank *r)
{
	struct scene *s = r->user;
	char words[64];
	int code;

	begin(r);
	snprintf(words, sizeof(words), "rank %d: ", r->nranks - 1);
	if (r->rank == r->nranks - 1)
		setenv("STANDIN_NCCL_FAULT", "ncclAllReduce:3@2", 1);
	code = hang(r, r->comm);
	unsetenv("STANDIN_NCCL_FAULT");
	if (r->rank == r->nranks - 1) {
		nccl_fails(r, code, COLL_ERR_INTERNAL, "ncclAllReduce: NCCL says", "its call");
	} else {
		nccl_fails(r, code, COLL_ERR_REMOTE, words, "sync");
		nccl_fails(r, code, COLL_ERR_REMOTE, "ncclAllReduce: NCCL says", "its reason");
		stays(r, words);
	}
	meet(&s->done, r->nranks);
	destroy(r);
}

/* Rank 1 loses patience first; rank 2 does not call. */
static void times_out(struct rank *r)
{
	struct scene *s = r->user;

	begin(r);
	if (r->rank == 1) {
		rank_did(r, coll_comm_set_timeout(r->comm, 300), "set_timeout");
		nccl_fails(r, hang(r, r->comm), COLL_ERR_TIMEOUT, "timed out", "sync");
	} else if (r->rank == 0) {
		nccl_fails(r, hang(r, r->comm), COLL_ERR_REMOTE, "rank 1: 1 operation", "sync");
		stays(r, "timed out");
	}
	meet(&s->done, r->nranks);
	destroy(r);
}

static void test_failures(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int nranks = 2; nranks <= 4; nranks++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, nccl_breaks, s},
			"NCCL fails on one rank: all hear NCCL's reason");
	}
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, times_out, s},
		"the timeout of one rank ends the waits of all");
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 0);
	test_aborts();
	test_failures();
	return done_testing();
}
