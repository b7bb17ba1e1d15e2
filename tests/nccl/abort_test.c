/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abort_test.c - aborts communicators of the nccl backend: while threads wait, while work hangs,
 * twice, by several threads at once, during destroy, and after it.
 *
 * An operation hangs here because one rank never makes the call.
 */
#include "harness.h"

/* A bound far above the second that an abort may take, and far below the timeouts. */
enum { SOON = 20, THREADS = 4 };

struct hand {
	pthread_t id;
	coll_comm_t comm;
	pthread_barrier_t *together; /* gate to wait for, or NULL: a short time */
	int code;
};

static void *hand_abort(void *arg)
{
	struct hand *h = arg;

	if (h->together)
		pthread_barrier_wait(h->together);
	else
		ranks_sleep(0.2);
	h->code = coll_comm_abort(h->comm);
	return NULL;
}

static void hand_start(struct hand *h)
{
	if (pthread_create(&h->id, NULL, hand_abort, h))
		bail_out("cannot start a thread");
}

/* An operation in which the other ranks do not take part. */
static void hang(struct rank *r, int64_t *there, void *stream)
{
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream), "call");
}

static void in_time(struct rank *r, double begin, const char *what)
{
	if (ranks_now() - begin > SOON)
		rank_fail(r, "%s took %.1f s", what, ranks_now() - begin);
}

/* Every further call on the communicator must report the abort. */
static void is_aborted(struct rank *r, int64_t *there)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	static const char words[] = "abort";
	coll_result_t error = 0;
	coll_request_t request;
	coll_comm_t other;
	coll_event_t event;

	nccl_fails(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_ABORTED, words, "allreduce");
	nccl_fails(r, coll_send(there, 1, COLL_INT64, 0, 0, r->comm, NULL), COLL_ERR_ABORTED, words,
		   "send");
	nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, words, "sync");
	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_ABORTED, words, "barrier");
	nccl_fails(r, coll_comm_split(r->comm, 0, 0, &other, NULL), COLL_ERR_ABORTED, words,
		   "split");
	nccl_fails(r, coll_request_init(r->comm, &args, &request), COLL_ERR_ABORTED, words,
		   "request_init");
	if (coll_event_create(r->comm, &event) == COLL_SUCCESS) {
		nccl_fails(r, coll_event_record(event, r->comm), COLL_ERR_ABORTED, words, "record");
		nccl_fails(r, coll_comm_wait_event(r->comm, event), COLL_ERR_ABORTED, words,
			   "wait_event");
		rank_did(r, coll_event_destroy(event), "event_destroy");
	}
	rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (error != COLL_ERR_ABORTED)
		rank_fail(r, "the asynchronous error is %d", error);
}

static void gone(struct rank *r)
{
	double begin = ranks_now();

	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	in_time(r, begin, "destroy");
	nccl_fails(r, coll_comm_abort(r->comm), COLL_ERR_INVALID_ARGUMENT, "",
		   "abort after destroy");
	nccl_fails(r, coll_comm_destroy(r->comm), COLL_ERR_INVALID_ARGUMENT, "", "destroy again");
	nccl_fails(r, coll_sync(r->comm), COLL_ERR_INVALID_ARGUMENT, "", "sync after destroy");
	r->comm = NULL;
}

/* --------------------------------------------------------- abort while a thread waits -- */

static void abort_sync(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	struct hand h = {.comm = r->comm};
	double begin;

	nccl_works(r);
	if (r->rank == 0) {
		hang(r, there, NULL);
		begin = ranks_now();
		hand_start(&h);
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "sync");
		in_time(r, begin, "sync");
		pthread_join(h.id, NULL);
		rank_did(r, h.code, "abort");
	} else {
		rank_did(r, coll_comm_abort(r->comm), "abort of what is idle");
	}
	is_aborted(r, there);
	rank_did(r, coll_comm_abort(r->comm), "abort again");
	/* Verifies that no operation touches the buffer any more. */
	device_free(r->rank, there);
	gone(r);
}

static void abort_request(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	struct hand h = {.comm = r->comm};
	coll_request_t request;

	if (r->rank == 0) {
		hang(r, there, NULL);
		rank_did(r, coll_get_request(r->comm, &request), "request");
		hand_start(&h);
		nccl_fails(r, coll_wait(request), COLL_ERR_ABORTED, "abort", "wait");
		pthread_join(h.id, NULL);
		rank_did(r, coll_request_free(request), "free");
	}
	rank_did(r, coll_comm_abort(r->comm), "abort");
	gone(r);
	device_free(r->rank, there);
}

/* Aborts a barrier that no other rank calls. */
static void abort_barrier(struct rank *r)
{
	struct hand h = {.comm = r->comm};

	nccl_works(r);
	if (r->rank == 0) {
		hand_start(&h);
		nccl_fails(r, coll_barrier(r->comm), COLL_ERR_ABORTED, "abort", "barrier");
		pthread_join(h.id, NULL);
	}
	rank_did(r, coll_comm_abort(r->comm), "abort");
	gone(r);
}

/* Aborts while a thread waits for an event: the wait ends with the error, which the event keeps. */
static void abort_event(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	struct hand h = {.comm = r->comm};
	coll_event_t event;
	double begin;

	nccl_works(r);
	rank_did(r, coll_event_create(r->comm, &event), "event");
	if (r->rank == 0) {
		hang(r, there, NULL);
		rank_did(r, coll_event_record(event, r->comm), "record");
		begin = ranks_now();
		hand_start(&h);
		nccl_fails(r, coll_event_synchronize(event), COLL_ERR_ABORTED, "abort",
			   "event_synchronize");
		in_time(r, begin, "event_synchronize");
		pthread_join(h.id, NULL);
		nccl_fails(r, coll_event_query(event), COLL_ERR_ABORTED, "abort", "event_query");
	}
	rank_did(r, coll_comm_abort(r->comm), "abort");
	gone(r);
	if (r->rank == 0)
		nccl_fails(r, coll_event_query(event), COLL_ERR_ABORTED, "abort",
			   "event_query after destroy");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(r->rank, there);
}

/*
 * NCCL connects ranks when they first need the connection, and some calls wait for the connection.
 */
static void abort_first(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	struct hand h = {.comm = r->comm};
	double begin = ranks_now();
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "event");
	if (r->rank == 0) {
		hand_start(&h);
		(void)!coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
		(void)!coll_event_record(event, r->comm);
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "sync");
		in_time(r, begin, "the calls");
		pthread_join(h.id, NULL);
	}
	rank_did(r, coll_comm_abort(r->comm), "abort");
	gone(r);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(r->rank, there);
}

/* Aborts in an open group: the group's end returns the error, and the thread's next group works. */
static void abort_group(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	struct hand h = {.comm = r->comm};
	coll_comm_t dup = NULL;
	int code;

	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		return;
	rank_did(r, coll_group_start(), "group_start");
	hang(r, there, NULL);
	hand_start(&h);
	pthread_join(h.id, NULL);
	code = coll_group_end();
	nccl_fails(r, code ? code : coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "group_end");
	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, dup, NULL), "call");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(dup), "sync");
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	gone(r);
	device_free(r->rank, there);
}

/* The abort also ends work on the caller's stream, so that the stream is free again. */
static void abort_stream(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double begin = ranks_now();

	nccl_works(r);
	if (r->rank == 0)
		hang(r, there, stream);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	in_time(r, begin, "abort and the stream");
	gone(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* --------------------------------------------------------------- concurrent aborts -- */

struct race {
	int destroys;
	_Atomic int ready; /* ranks whose first call is complete */
};

/* Several threads abort rank 0's communicator, and one of them destroys it meanwhile. */
static void abort_race(struct rank *r)
{
	struct hand hands[THREADS];
	struct race *race = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	pthread_barrier_t together;
	double begin;
	int code;

	pthread_barrier_init(&together, NULL, THREADS + 1);
	nccl_works(r);
	if (r->rank == 0)
		hang(r, there, NULL);
	atomic_fetch_add(&race->ready, 1);
	while (atomic_load(&race->ready) < r->nranks)
		ranks_sleep(0.0001);
	for (int i = 0; i < THREADS; i++) {
		hands[i] = (struct hand){.comm = r->comm, .together = &together};
		hand_start(&hands[i]);
	}
	pthread_barrier_wait(&together);
	begin = ranks_now();
	if (race->destroys) {
		code = coll_comm_destroy(r->comm);
		/* Before all aborts, on both ranks: rank 0 has made a call more. */
		if (code != COLL_ERR_MISMATCH)
			rank_did(r, code, "destroy");
		in_time(r, begin, "destroy");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(hands[i].id, NULL);
		if (hands[i].code &&
		    !(race->destroys && hands[i].code == COLL_ERR_INVALID_ARGUMENT))
			rank_fail(r, "abort %d: %d", i, hands[i].code);
	}
	in_time(r, begin, "abort");
	if (!race->destroys)
		gone(r);
	r->comm = NULL;
	pthread_barrier_destroy(&together);
	device_free(r->rank, there);
}

/* Another thread calls without a pause. */
static void *call_until_refused(void *arg)
{
	struct rank *r = arg;
	int64_t *there = device_new(r->rank, 64, 0);
	int code;

	do
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	while (!code);
	/* COLL_ERR_REMOTE: the other rank aborted before. */
	if (code != COLL_ERR_ABORTED && code != COLL_ERR_REMOTE &&
	    code != COLL_ERR_INVALID_ARGUMENT)
		rank_fail(r, "the other thread: %d (%s)", code, coll_get_last_error(NULL));
	return there;
}

static void abort_in_use(struct rank *r)
{
	pthread_t other;
	void *there;

	if (pthread_create(&other, NULL, call_until_refused, r))
		bail_out("cannot start a thread");
	ranks_sleep(0.02 * (1 + r->rank));
	rank_did(r, coll_comm_abort(r->comm), "abort");
	pthread_join(other, &there);
	gone(r);
	device_free(r->rank, there);
}

static void destroy_in_use(struct rank *r)
{
	coll_comm_t comm = r->comm;
	pthread_t other;
	void *there;

	if (pthread_create(&other, NULL, call_until_refused, r))
		bail_out("cannot start a thread");
	ranks_sleep(0.02 * (1 + r->rank));
	rank_did(r, coll_comm_destroy(comm), "destroy");
	pthread_join(other, &there);
	r->comm = NULL;
	device_free(r->rank, there);
}

/* ------------------------------------------------------------------------ afterwards -- */

/* All ranks abort, and then shrink the communicator to a new one. */
static void shrink_aborted(struct rank *r)
{
	const int32_t without = 1;
	coll_comm_t rest = NULL;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);

	nccl_works(r);
	if (r->rank == 0)
		hang(r, there, NULL);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	if (r->rank != without &&
	    rank_did(r, coll_comm_shrink(r->comm, &without, 1, &rest, NULL, 0), "shrink")) {
		nccl_sums(r, rest, r->rank, 1, r->nranks - 1, "the rest");
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	}
	gone(r);
	device_free(r->rank, there);
}

/* A communicator split from the aborted communicator goes on. */
static void abort_parent(struct rank *r)
{
	coll_comm_t dup = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		return;
	rank_did(r, coll_comm_abort(r->comm), "abort");
	nccl_sums(r, dup, r->rank, 2, 2 * r->nranks, "the dup");
	gone(r);
	nccl_sums(r, dup, r->rank, 3, 3 * r->nranks, "the dup, its parent destroyed");
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
}

/* The dup waits for work that the abort dropped. */
static void abort_awaited(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_event_t event;
	coll_comm_t dup = NULL;

	nccl_works(r);
	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		return;
	rank_did(r, coll_event_create(dup, &event), "event");
	if (r->rank == 0) {
		hang(r, there, NULL);
		rank_did(r, coll_event_record(event, r->comm), "record");
	}
	rank_did(r, coll_comm_abort(r->comm), "abort");
	gone(r);
	if (r->rank == 0) {
		nccl_fails(r, coll_comm_wait_event(dup, event), COLL_ERR_ABORTED,
			   "waits for an event of a communicator that failed", "wait_event");
		nccl_fails(r, coll_sync(dup), COLL_ERR_ABORTED, "waits for an event", "sync");
	}
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
		int nranks;
	} tests[] = {
		{abort_sync, "abort during sync, twice, and every later call", 2},
		{abort_request, "abort during a request's wait", 2},
		{abort_barrier, "abort during a barrier", 2},
		{abort_event, "abort while an event is waited for", 2},
		{abort_first, "abort while NCCL connects", 2},
		{abort_group, "abort in an open group", 2},
		{abort_stream, "abort of work on the caller's stream", 2},
		{abort_in_use, "abort while another thread calls", 2},
		{destroy_in_use, "destroy while another thread calls", 2},
		{shrink_aborted, "shrink after an abort", 3},
		{abort_awaited, "a communicator that waits for aborted work fails too", 2},
		{abort_parent, "what was split from an aborted one goes on", 3},
	};

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_DESTROY_TIMEOUT", "2s", 1);
	nccl_hold_devices();
	/* What a rank's own abort does; companion_fail_test has what the other ranks hear of it. */
	setenv("COLL_COMPANION", "none", 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		nccl_ok(&(struct nccl_job){tests[i].nranks, 0, INIT_ALL, tests[i].fn, NULL}, "%s",
			tests[i].name);
	unsetenv("COLL_COMPANION");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, abort_in_use, NULL},
		"aborts of two ranks that call, and tell each other");
	for (int round = 0; round < 6; round++) {
		struct race race = {.destroys = round % 2};

		nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, abort_race, &race},
			"%d threads abort at once%s", THREADS,
			race.destroys ? ", and one destroys" : "");
	}
	is_int(standin_contexts_pushed(), 0, "no context is left with a thread");
	is_int(standin_events(), 0, "nor an event");
	is_int(standin_streams(), 0, "nor a stream");
	return done_testing();
}
