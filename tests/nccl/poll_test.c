/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll_test.c - waits for events, and loops of calls that do not block: they move the operations, and end when a rank is
 * away or has called something else.
 */
#include "companion.h"

enum { TIMEOUT_MS = 800, TRIALS = 20 };

/* Of one job, in memory that the ranks share. */
struct scene {
	int queries; /* a loop of coll_event_query, not coll_event_synchronize */
	_Atomic int ready, done;
};

static int sum(struct rank *r, int64_t *there, size_t count)
{
	return coll_allreduce(there, there, count, COLL_INT64, COLL_SUM, r->comm, NULL);
}

static int wait_for(struct rank *r, coll_event_t event)
{
	const struct scene *s = r->user;
	const double end = ranks_now() + SOON;
	int code = s->queries ? COLL_IN_PROGRESS : coll_event_synchronize(event);

	while (code == COLL_IN_PROGRESS && ranks_now() < end)
		code = coll_event_query(event);
	return code;
}

/* On a busy machine a rank may hear of the other call before it has recorded the event. */
static int sum_and_wait(struct rank *r, int64_t *there, coll_event_t event)
{
	int code = sum(r, there, 4);

	if (!code)
		code = coll_event_record(event, r->comm);
	return code ? code : wait_for(r, event);
}

/* The others wait for an event behind a call that rank 1 makes in its own way, if at all. */
static void waits(struct rank *r, int odd_calls, coll_result_t want, const char *const *words)
{
	struct scene *s = r->user;
	const int64_t values[4] = {0};
	int64_t *there = nccl_new(r->rank, values, 4);
	coll_event_t event = NULL;
	int code;

	rank_did(r, call_on(r, 0), "warm up");
	rank_did(r, call_on(r, 1), "warm up on the host");
	/* Ranks that differ answer, but on a busy machine not at once. */
	if (!odd_calls)
		rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	meet(&s->ready, r->nranks);
	if (r->rank == 1) {
		if (odd_calls)
			rank_did(r, sum(r, there, 3), "another count");
		wait_until(&s->done, r->nranks - 1);
		if (odd_calls)
			nccl_fails(r, sync_when_told(r), want, words[0], "sync");
	} else {
		code = sum_and_wait(r, there, event);
		for (int i = 0; words[i]; i++)
			nccl_fails(r, code, want, words[i], "the event");
		nccl_fails(r, coll_event_record(event, r->comm), want, words[0], "record");
		atomic_fetch_add(&s->done, 1);
	}
	wait_until(&s->done, r->nranks - 1);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(r->rank, there);
	destroy(r);
}

static void away(struct rank *r)
{
	static const char *const words[] = {"behind: rank 1", "timed out: nothing has moved",
					    "rank 1 last called allreduce of 1 int64 (sum)", NULL};

	waits(r, 0, COLL_ERR_TIMEOUT, words);
}

static void differs(struct rank *r)
{
	static const char *const words[] = {"allreduce of 4 int64 (sum)",
					    "allreduce of 3 int64 (sum)", NULL};

	waits(r, 1, COLL_ERR_MISMATCH, words);
}

/* The others wait for an event on a stream of the program, behind a call that rank 1 makes in its own way, if at all. */
static void waits_on_stream(struct rank *r, int odd_calls)
{
	struct scene *s = r->user;
	const int64_t values[4] = {0};
	int64_t *there = nccl_new(r->rank, values, 4);
	void *stream = nccl_stream(r->rank);
	coll_event_t event = NULL;
	int code;

	rank_did(r, call_on(r, 0), "warm up");
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	if (!odd_calls)
		rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
	meet(&s->ready, r->nranks);
	if (r->rank != 1 || odd_calls)
		rank_did(r,
			 coll_allreduce(there, there, r->rank == 1 ? 3 : 4, COLL_INT64, COLL_SUM,
					r->comm, r->rank == 1 ? NULL : stream),
			 "sum");
	if (r->rank != 1) {
		rank_did(r, coll_event_record_on_stream(event, r->comm, stream), "record");
		code = wait_for(r, event);
		if (odd_calls) {
			/* The event tells only how far the stream is, which is free now. */
			rank_did(r, code, "the event");
			nccl_fails(r, sync_when_told(r), COLL_ERR_MISMATCH,
				   "allreduce of 3 int64 (sum)", "sync");
		} else {
			nccl_fails(r, code, COLL_ERR_TIMEOUT,
				   "the event's stream has not reached the event after 0.8 s; "
				   "behind: rank 1; rank 1 last called allreduce of 1 int64",
				   "the event");
			rank_did(r, coll_comm_abort(r->comm), "abort");
		}
		atomic_fetch_add(&s->done, 1);
	}
	wait_until(&s->done, r->nranks - 1);
	if (r->rank == 1 && odd_calls)
		nccl_fails(r, sync_when_told(r), COLL_ERR_MISMATCH, "allreduce of 4 int64 (sum)",
			   "sync");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	destroy(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

static void away_from_stream(struct rank *r)
{
	waits_on_stream(r, 0);
}

static void differs_on_stream(struct rank *r)
{
	waits_on_stream(r, 1);
}

/* ------------------------------------------------------------------------------ connecting */

enum { CONNECT_MS = 4000, MANY = 10000 /* NCCL takes another algorithm than for a few */ };

/* Rank 1 is away while a call of rank 0 has NCCL connect the two: the next request waits for that, once. */
static void connects(struct rank *r)
{
	struct scene *s = r->user;
	int64_t *there = device_new(r->rank, MANY * sizeof(*there), 0);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .count = MANY,
			    .sendbuf = there,
			    .recvbuf = there};
	coll_request_t first = NULL, second = NULL;
	double begin;

	rank_did(r, call_on(r, 0), "warm up");
	meet(&s->ready, r->nranks);
	if (r->rank == 0) {
		begin = ranks_now();
		rank_did(r, coll_request_issue(r->comm, &args, &first), "issue");
		nccl_fails(r, coll_request_issue(r->comm, &args, &second), COLL_ERR_TIMEOUT,
			   "behind: rank 1", "issue again");
		if (ranks_now() - begin > CONNECT_MS * 1.75e-3)
			rank_fail(r, "the calls took %.1f s", ranks_now() - begin);
		if (first)
			rank_did(r, coll_request_free(first), "free");
		atomic_store(&s->done, 1);
	}
	wait_until(&s->done, 1);
	device_free(r->rank, there);
	destroy(r);
}

/* ------------------------------------------------------------------ a stream of the program */

/* The communicator has no operation, and its stream waits for work of the program: nobody else is to blame. */
static void held(struct rank *r)
{
	struct nccl_gate gate = {0};
	void *stream = nccl_stream(r->rank);
	coll_event_t of_stream, event;

	rank_did(r, call_on(r, 0), "warm up");
	rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
	rank_did(r, coll_event_create(r->comm, &of_stream), "event_create");
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	nccl_gate(&gate, r->rank, stream);
	rank_did(r, coll_event_record_on_stream(of_stream, r->comm, stream), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, of_stream), "wait_event");
	rank_did(r, coll_event_record(event, r->comm), "record");
	nccl_fails(r, coll_event_synchronize(event), COLL_ERR_TIMEOUT,
		   "the event's stream has not reached the event after 0.8 s", "synchronize");
	nccl_open(&gate);
	rank_did(r, coll_event_synchronize(event), "synchronize again");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_event_destroy(of_stream), "event_destroy");
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
}

/* The stream waits for a call that is staged through host memory, for which rank 1 is away. */
static void held_by_staged(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_event_t event;

	rank_did(r, call_on(r, 0), "warm up");
	rank_did(r, call_on(r, 1), "warm up on the host");
	rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
	meet(&s->ready, r->nranks);
	if (r->rank == 0) {
		rank_did(r, coll_event_create(r->comm, &event), "event_create");
		rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_BXOR, r->comm, NULL),
			 "bxor");
		rank_did(r, coll_event_record(event, r->comm), "record");
		nccl_fails(r, wait_for(r, event), COLL_ERR_TIMEOUT, "not heard from: rank 1",
			   "the event");
		rank_did(r, coll_event_destroy(event), "event_destroy");
		atomic_store(&s->done, 1);
	}
	wait_until(&s->done, 1);
	destroy(r);
	device_free(r->rank, there);
}

/* ------------------------------------------------------------------------------- callbacks */

static void count_end(void *user, coll_result_t result)
{
	atomic_fetch_add((_Atomic int *)user, result ? 1000 : 1);
}

/* The call on the host waits for one on the device, and the program only asks for the communicator's error. */
static void callback(struct rank *r)
{
	const double end = ranks_now() + SOON;
	_Atomic int over = 0;
	int64_t x = 1, y = 1, *there = nccl_new(r->rank, &x, 1);
	coll_result_t error = COLL_SUCCESS;
	coll_event_t event;
	coll_request_t request;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	rank_did(r, sum(r, there, 1), "device");
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	rank_did(r, coll_request_set_callback(request, count_end, (void *)&over), "callback");
	while (!atomic_load(&over) && !error && ranks_now() < end)
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (error || atomic_load(&over) != 1 || y != r->nranks)
		rank_fail(r, "%d, %d, %lld", error, atomic_load(&over), (long long)y);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	struct scene *s = ranks_memory(sizeof(*s));

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 1);
	setenv("COLL_STALL_AFTER", "200ms", 1);
	for (int queries = 0; queries < 2; queries++) {
		const char *how = queries ? "queries of an event" : "a wait for an event";

		*s = (struct scene){.queries = queries};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, away, s}, "%s: a rank is away",
			how);
		for (int nranks = 2; nranks <= 3; nranks++) {
			*s = (struct scene){.queries = queries};
			nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, differs, s},
				"%s: a rank has called something else", how);
		}
	}
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, away_from_stream, s},
		"a wait for an event on a stream of the program: a rank is away");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, differs_on_stream, s},
		"a wait for an event on a stream of the program: a rank has called something else");
	for (int i = 0; i < TRIALS; i++) {
		*s = (struct scene){.queries = i % 4 == 0};
		nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, differs, s},
			"an event that an abort lets pass is not complete");
	}
	*s = (struct scene){0};
	setenv("COLL_INIT_TIMEOUT", "4s", 1);
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, connects, s},
		"a request behind a call that connects waits at most init_timeout");
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
	nccl_ok(&(struct nccl_job){1, 1, INIT_EXCHANGE, held, NULL},
		"a wait for an event behind a stream of the program");
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	for (int queries = 0; queries < 2; queries++) {
		*s = (struct scene){.queries = queries};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, held_by_staged, s},
			"%s behind a call that is staged: a rank is away",
			queries ? "queries of an event" : "a wait for an event");
	}
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
	for (int nranks = 1; nranks <= 3; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, callback, NULL},
			"coll_comm_get_async_error moves calls on the host behind the device");
	return done_testing();
}
