/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request_test.c - requests of single operations: waits for some of several and for a limited time,
 * callbacks; timeouts of a communicator; the members of a communicator and its lost ranks.
 */
#include "../lib/log_capture.h"
#include "../lib/scenarios.h"

enum { FAR_S = 60, FEW = 20 };

/* What the threads of a job share. */
struct shared {
	_Atomic int phase;
	char id[COLL_UNIQUE_ID_SIZE];
};

/* The next step of another thread has begun. */
static int reaches(struct rank *r, int phase)
{
	const struct shared *shared = r->user;

	return rank_reaches(r, &shared->phase, phase, 0);
}

static void begins(struct rank *r, int phase)
{
	struct shared *shared = r->user;

	atomic_store(&shared->phase, phase);
}

static coll_args_t sum_of(int32_t *x)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_ALLREDUCE,
			     .dtype = COLL_INT32,
			     .op = COLL_SUM,
			     .sendbuf = x,
			     .recvbuf = x,
			     .count = 1};
}

static coll_args_t recv_from(int32_t *x, int32_t peer)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_RECV,
			     .dtype = COLL_INT32,
			     .root = peer,
			     .recvbuf = x,
			     .count = 1};
}

/* ---------------------------------------------------------- one operation -- */

static void issues(struct rank *r)
{
	int32_t x[2] = {r->rank, 10 * r->rank}, done = 0, n = r->nranks;
	coll_args_t args = sum_of(&x[0]), wrong = sum_of(&x[0]);
	coll_request_t first = NULL, second = NULL, none = (coll_request_t)&args;

	wrong.dtype = 1000;
	rank_is(r, coll_request_issue(r->comm, &wrong, &none), COLL_ERR_INVALID_ARGUMENT, "type");
	rank_is(r, none == NULL, 1, "no request for it");
	rank_is(r, coll_request_issue(r->comm, NULL, &none), COLL_ERR_INVALID_ARGUMENT, "no args");
	rank_is(r, coll_request_issue(r->comm, &args, NULL), COLL_ERR_INVALID_ARGUMENT,
		"no request");
	rank_did(r, coll_request_issue(r->comm, &args, &first), "issue");
	args.sendbuf = args.recvbuf = &x[1];
	rank_did(r, coll_request_issue(r->comm, &args, &second), "issue again");
	rank_did(r, coll_wait(second), "wait for the second");
	rank_did(r, coll_test(first, &done), "test the first");
	rank_is(r, done, 1, "the first is done before the second");
	rank_is(r, x[0], n * (n - 1) / 2, "first sum");
	rank_is(r, x[1], 10 * n * (n - 1) / 2, "second sum");
	rank_is(r, coll_request_start(first), COLL_ERR_INVALID_USAGE, "it is not persistent");
	rank_did(r, coll_request_free(first), "free");
	rank_did(r, coll_request_free(second), "free");
}

static void has_no_use_for(struct rank *r)
{
	scenario_run(r, scenario_barrier_fields);
}

static void waits_for_a_time(struct rank *r)
{
	int32_t x = 1;
	coll_args_t args = sum_of(&x);
	coll_request_t request;
	double begun = ranks_now();

	if (r->rank && !reaches(r, 1))
		return;
	rank_did(r, coll_request_issue(r->comm, &args, &request), "issue");
	if (r->rank == 0) {
		rank_is(r, coll_wait_for(request, 0), COLL_IN_PROGRESS, "no time at all");
		rank_is(r, coll_wait_for(request, 50), COLL_IN_PROGRESS, "50 ms");
		rank_is(r, ranks_now() - begun >= 0.05, 1, "the time of the wait");
		rank_is(r, coll_wait_for(request, -2), COLL_ERR_INVALID_ARGUMENT, "-2 ms");
		begins(r, 1);
		rank_did(r, coll_wait_for(request, 1000 * FAR_S), "a minute");
	} else {
		rank_did(r, coll_wait_for(request, -1), "no limit");
	}
	rank_is(r, x, r->nranks, "sum");
	rank_is(r, coll_wait_for(NULL, 1), COLL_ERR_INVALID_ARGUMENT, "no request");
	rank_did(r, coll_request_free(request), "free");
}

/* --------------------------------------------------------- several operations -- */

/* Two messages to rank 0 on two communicators, the later request first. */
static void waits_for_any_of(struct rank *r, coll_comm_t other)
{
	int32_t x[2] = {-1, -1}, index = -7, count = -7, indices[3];
	coll_request_t requests[3] = {NULL, NULL, NULL};
	coll_args_t args = recv_from(&x[0], 1);

	if (r->rank == 1) {
		x[0] = 100;
		x[1] = 200;
		if (reaches(r, 1))
			rank_did(r, coll_send(&x[1], 1, COLL_INT32, 0, 0, other, NULL), "send");
		rank_did(r, coll_sync(other), "sync");
		if (reaches(r, 2))
			rank_did(r, coll_send(&x[0], 1, COLL_INT32, 0, 0, r->comm, NULL), "send");
		rank_did(r, coll_sync(r->comm), "sync");
	}
	if (r->rank)
		return;
	rank_is(r, coll_wait_any(3, requests, -1, &index), 0, "nothing to wait for");
	rank_is(r, index, -1, "no index of nothing");
	rank_did(r, coll_request_issue(r->comm, &args, &requests[0]), "issue");
	args = recv_from(&x[1], 1);
	rank_did(r, coll_request_issue(other, &args, &requests[2]), "issue");
	rank_is(r, coll_wait_any(3, requests, 0, &index), COLL_IN_PROGRESS, "none is complete");
	rank_is(r, coll_wait_some(3, requests, 10, indices, &count), COLL_IN_PROGRESS, "none");
	rank_is(r, count, 0, "no indices");
	begins(r, 1);
	rank_is(r, coll_wait_any(3, requests, 1000 * FAR_S, &index), 0, "any");
	rank_is(r, index, 2, "index of the one that is complete");
	rank_is(r, x[1], 200, "message");
	rank_is(r, coll_wait_any(3, requests, -1, &index), 0, "once more");
	rank_is(r, index, 2, "it is reported again");
	begins(r, 2);
	rank_did(r, coll_wait(requests[0]), "wait");
	rank_is(r, coll_wait_some(3, requests, -1, indices, &count), 0, "some");
	rank_is(r, count, 2, "both");
	rank_is(r, indices[0] == 0 && indices[1] == 2, 1, "indices");
	rank_is(r, x[0], 100, "message");
	coll_request_free(requests[0]);
	coll_request_free(requests[2]);
	rank_is(r, coll_wait_any(3, requests, -1, &index), COLL_ERR_INVALID_ARGUMENT, "freed");
	rank_is(r, coll_wait_any(-1, requests, -1, &index), COLL_ERR_INVALID_ARGUMENT,
		"-1 requests");
	rank_is(r, coll_wait_any(3, NULL, -1, &index), COLL_ERR_INVALID_ARGUMENT, "no array");
	rank_is(r, coll_wait_some(3, requests, -1, NULL, &count), COLL_ERR_INVALID_ARGUMENT,
		"no room");
}

static void waits_on_one_context(struct rank *r)
{
	coll_comm_t other = NULL;

	if (rank_did(r, coll_comm_dup(r->comm, &other), "dup"))
		waits_for_any_of(r, other);
	coll_comm_destroy(other);
}

static void waits_on_two_contexts(struct rank *r)
{
	struct shared *shared = r->user;
	coll_comm_t other = NULL;
	const char *backend;
	coll_config_t config;

	coll_comm_backend(r->comm, &backend);
	ranks_config(&config, backend);
	if (r->rank == 0 && rank_did(r, coll_get_unique_id(shared->id, sizeof(shared->id)), "id"))
		begins(r, -1);
	if (reaches(r, -1) &&
	    rank_did(r, coll_comm_init_rank(&other, r->nranks, shared->id, r->rank, &config),
		     "init"))
		waits_for_any_of(r, other);
	coll_comm_destroy(other);
}

/* More requests than the library keeps without memory of their own. */
static void waits_for_many(struct rank *r)
{
	int32_t x[FEW], indices[FEW], count = 0, got = 0;
	coll_request_t requests[FEW];

	for (int i = 0; i < FEW; i++) {
		coll_args_t args = sum_of(&x[i]);

		x[i] = i;
		rank_did(r, coll_request_issue(r->comm, &args, &requests[i]), "issue");
	}
	while (got < FEW && rank_did(r, coll_wait_some(FEW, requests, -1, indices, &count), "some"))
		for (int i = 0; i < count; i++) {
			rank_is(r, x[indices[i]], indices[i] * r->nranks, "sum");
			coll_request_free(requests[indices[i]]);
			requests[indices[i]] = NULL;
			got++;
		}
}

/* ------------------------------------------------------------------ callbacks -- */

struct heard {
	_Atomic int count;
	int order[8], result[8];
};

struct mark {
	struct heard *heard;
	int number;
};

static void hear(void *user, coll_result_t result)
{
	struct mark *mark = user;
	int n = atomic_load(&mark->heard->count);

	mark->heard->order[n] = mark->number;
	mark->heard->result[n] = result;
	atomic_store(&mark->heard->count, n + 1);
}

static void hears(struct rank *r)
{
	struct heard heard = {0};
	struct mark mark[5] = {{&heard, 0}, {&heard, 1}, {&heard, 2}, {&heard, 3}, {&heard, 4}};
	coll_request_t first, second, broken;
	int32_t x[3] = {1, 1, 1};
	coll_args_t args = sum_of(&x[0]);

	if (r->rank && !reaches(r, 1))
		return;
	rank_did(r, coll_request_issue(r->comm, &args, &first), "issue");
	args = sum_of(&x[1]);
	rank_did(r, coll_request_issue(r->comm, &args, &second), "issue");
	rank_did(r, coll_request_set_callback(second, hear, &mark[1]), "second");
	rank_did(r, coll_request_set_callback(first, hear, &mark[0]), "first");
	if (r->rank == 0)
		rank_is(r, atomic_load(&heard.count), 0, "nothing is complete yet");
	begins(r, 1);
	rank_did(r, coll_request_free(first), "free before the callback");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, heard.count, 2, "both were called");
	if (r->rank == 0) /* on rank 1 both may be complete before it sets a callback */
		rank_is(r, heard.order[0] == 0 && heard.order[1] == 1, 1,
			"in the order of the operations");
	rank_did(r, coll_request_set_callback(second, hear, &mark[2]), "after the end");
	rank_is(r, heard.count, 3, "it was called at once");
	rank_is(r, heard.result[0] | heard.result[1] | heard.result[2], 0, "results");
	rank_is(r, coll_request_set_callback(second, NULL, NULL), COLL_ERR_INVALID_ARGUMENT,
		"no fn");
	if (r->rank) {
		rank_did(r, coll_request_free(second), "free");
		begins(r, 2);
		reaches(r, 3); /* rank 0 waits for a rank that is alive */
	}
	if (r->rank || !reaches(r, 2))
		return;
	args = recv_from(&x[2], 1);
	rank_did(r, coll_request_issue(r->comm, &args, &broken), "issue");
	rank_did(r, coll_request_set_callback(broken, hear, &mark[3]), "one that will fail");
	rank_did(r, coll_comm_abort(r->comm), "abort");
	rank_is(r, heard.count, 4, "the abort ended the operation");
	rank_is(r, heard.result[3], COLL_ERR_ABORTED, "with its code");
	rank_is(r, coll_wait_for(broken, 1), COLL_ERR_ABORTED, "the wait says the same");
	rank_did(r, coll_request_set_callback(second, hear, &mark[4]), "one that was complete");
	rank_is(r, heard.count, 5, "it was called at once");
	rank_is(r, heard.result[4], COLL_SUCCESS,
		"the failure came after the end of the operation");
	rank_did(r, coll_request_free(second), "free");
	begins(r, 3);
	rank_did(r, coll_request_free(broken), "free");
}

/* -------------------------------------------------------- communicators -- */

static void times_out(struct rank *r)
{
	coll_comm_t child = NULL;
	int32_t x = 0;
	double begun;

	rank_is(r, coll_comm_set_timeout(r->comm, 0), COLL_ERR_INVALID_ARGUMENT, "0 ms");
	rank_is(r, coll_comm_set_timeout(r->comm, INT64_MAX), COLL_ERR_INVALID_ARGUMENT,
		"for ever");
	if (r->rank == 0)
		rank_did(r, coll_comm_set_timeout(r->comm, 300), "300 ms");
	if (!rank_did(r, coll_comm_dup(r->comm, &child), "dup"))
		return;
	begun = ranks_now();
	if (r->rank == 0) {
		rank_did(r, coll_recv(&x, 1, COLL_INT32, 1, 0, child, NULL), "recv");
		rank_is(r, coll_sync(child), COLL_ERR_TIMEOUT,
			"the child has the timeout of its parent");
		rank_is(r, ranks_now() - begun < FAR_S, 1, "in time");
		rank_is(r, strstr(coll_get_last_error(child), "timed out") != NULL, 1, "the words");
		begins(r, 1);
	}
	reaches(r, 1);
	coll_comm_destroy(child);
}

/* A program that has polled fast, and then waits in steps that are short, meets the timeout too. */
static void times_out_in_steps(struct rank *r)
{
	enum { FAST = 200, STEP_MS = 100, MOST = 20 };
	coll_result_t code = COLL_IN_PROGRESS;
	coll_request_t request = NULL;
	int32_t x = 0, done = 0;
	const coll_args_t args = sum_of(&x);
	int steps = 0;

	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, 300), "300 ms");
		rank_did(r, coll_request_issue(r->comm, &args, &request), "issue");
		for (int i = 0; i < FAST; i++)
			rank_did(r, coll_test(request, &done), "test");
		while (code == COLL_IN_PROGRESS && steps++ < 10 * MOST)
			code = coll_wait_for(request, STEP_MS);
		rank_is(r, code, COLL_ERR_TIMEOUT, "the communicator's timeout");
		rank_is(r, steps <= MOST, 1, "in time");
		rank_did(r, coll_request_free(request), "free");
		begins(r, 1);
	}
	reaches(r, 1);
}

static void splits_with_a_timeout(struct rank *r)
{
	coll_comm_t child = NULL;
	coll_config_t config;
	int32_t x = 0;

	coll_config_init(&config, sizeof(config));
	config.backend = "tcp";
	rank_is(r, coll_comm_split(r->comm, 0, 0, &child, &config), COLL_ERR_INVALID_ARGUMENT,
		"field");
	config.backend = NULL;
	config.timeout_ms = 0;
	rank_is(r, coll_comm_split(r->comm, 0, 0, &child, &config), COLL_ERR_INVALID_ARGUMENT,
		"0 ms");
	config.timeout_ms = INT64_MAX;
	rank_is(r, coll_comm_split(r->comm, 0, 0, &child, &config), COLL_ERR_INVALID_ARGUMENT,
		"for ever");
	config.timeout_ms = r->rank ? 1000 * FAR_S : 300;
	if (!rank_did(r, coll_comm_split(r->comm, 0, 0, &child, &config), "split"))
		return;
	if (r->rank == 0) {
		rank_did(r, coll_recv(&x, 1, COLL_INT32, 1, 0, child, NULL), "recv");
		rank_is(r, coll_sync(child), COLL_ERR_TIMEOUT, "the child has its own timeout");
		begins(r, 1);
	}
	reaches(r, 1);
	coll_comm_destroy(child);
	child = NULL;
	if (rank_did(r, coll_comm_shrink(r->comm, NULL, 0, &child, &config, 0), "shrink"))
		sums_to(r, child, 1, r->nranks, "the new communicator");
	coll_comm_destroy(child);
}

/* A wait for a request whose communicator is gone is an error, which keeps no request from being freed. */
static void outlives(struct rank *r)
{
	coll_comm_t child = NULL;
	coll_request_t requests[2] = {NULL, NULL};
	int32_t x = 1, index, indices[2], count;
	const coll_args_t args = sum_of(&x);

	if (!rank_did(r, coll_comm_dup(r->comm, &child), "dup"))
		return;
	rank_did(r, coll_request_issue(r->comm, &args, &requests[0]), "issue");
	rank_did(r, coll_wait(requests[0]), "wait");
	rank_did(r, coll_request_issue(child, &args, &requests[1]), "issue on the other");
	rank_did(r, coll_wait(requests[1]), "wait");
	rank_did(r, coll_comm_destroy(child), "destroy");
	rank_is(r, coll_wait_any(2, requests, -1, &index), COLL_ERR_INVALID_ARGUMENT, "any");
	rank_is(r,
		strcmp(coll_get_last_error(NULL),
		       "coll_wait_any: requests[1] is of a communicator that was destroyed"),
		0, coll_get_last_error(NULL));
	rank_is(r, coll_wait_some(2, requests, -1, indices, &count), COLL_ERR_INVALID_ARGUMENT,
		"some");
	rank_is(r, coll_wait_for(requests[1], 1), COLL_ERR_INVALID_ARGUMENT, "for");
	rank_did(r, coll_request_free(requests[0]), "free");
	rank_did(r, coll_request_free(requests[1]), "free what outlives its communicator");
}

enum { MESSAGES = 2000 };

/* A message comes each millisecond, so that only the limit ends the wait. */
static void is_limited(struct rank *r)
{
	coll_request_t request;
	int32_t x = 0, y[MESSAGES];
	coll_args_t args = recv_from(&x, 1);
	coll_result_t code = COLL_SUCCESS;

	if (r->rank == 1) {
		for (int i = 0; i < MESSAGES && !code; i++) {
			code = coll_send(&x, 1, COLL_INT32, 0, 1, r->comm, NULL);
			code = code ? code : coll_sync(r->comm);
			ranks_sleep(0.001);
		}
		rank_is(r, code, COLL_ERR_REMOTE, "the sender hears of it");
		return;
	}
	rank_did(r, coll_group_start(), "group");
	rank_did(r, coll_request_issue(r->comm, &args, &request), "issue");
	for (int i = 0; i < MESSAGES; i++)
		rank_did(r, coll_recv(&y[i], 1, COLL_INT32, 1, 1, r->comm, NULL), "recv");
	rank_did(r, coll_group_end(), "end");
	rank_is(r, coll_request_set_timeout(request, 0), COLL_ERR_INVALID_ARGUMENT, "0 ms");
	rank_is(r, coll_request_set_timeout(request, INT64_MAX), COLL_ERR_INVALID_ARGUMENT,
		"for ever");
	rank_did(r, coll_request_set_timeout(request, 200), "200 ms");
	rank_is(r, coll_wait(request), COLL_ERR_TIMEOUT, "the wait");
	rank_is(r,
		strstr(coll_get_last_error(r->comm), "timed out: it is not complete 0.2 s") != NULL,
		1, coll_get_last_error(r->comm));
	coll_request_free(request);
}

/*
 * The rank that does not come is named, also by a rank that needs data from another one.  Of a second the last quarter
 * is for the answers of the other ranks.
 */
static void names_the_missing(struct rank *r)
{
	struct shared *shared = r->user;
	coll_request_t request = NULL;
	int32_t x = 0;
	const coll_args_t args = sum_of(&x);
	coll_result_t code;

	if (r->rank == 1) {
		reaches(r, 1); /* from -2 on */
		return;
	}
	rank_did(r, coll_request_issue(r->comm, &args, &request), "issue");
	rank_did(r, coll_request_set_timeout(request, 1000), "1 s");
	code = coll_wait(request);
	rank_is(r, code == COLL_ERR_TIMEOUT || code == COLL_ERR_REMOTE, 1, "the wait");
	rank_is(r,
		strstr(coll_get_last_error(r->comm), "; rank 1 does not answer, and was ") != NULL,
		1, "the text");
	coll_request_free(request);
	atomic_fetch_add(&shared->phase, 1);
}

/* The odd ranks in reverse order, and the even ranks. */
static void has_members(struct rank *r)
{
	coll_comm_t part = NULL, whole = NULL;
	int32_t ranks[RANKS_MAX], n = 0;

	rank_did(r, coll_comm_members(r->comm, ranks), "members");
	for (int i = 0; i < r->nranks; i++)
		rank_is(r, ranks[i], i, "a member of the first communicator");
	rank_is(r, coll_comm_members(r->comm, NULL), COLL_ERR_INVALID_ARGUMENT, "no room");
	if (!rank_did(
		    r,
		    coll_comm_split(r->comm, r->rank % 2, r->rank % 2 ? -r->rank : 0, &part, NULL),
		    "split") ||
	    !rank_did(r, coll_comm_dup(part, &whole), "dup"))
		return;
	rank_did(r, coll_comm_count(whole, &n), "count");
	rank_did(r, coll_comm_members(whole, ranks), "members");
	for (int i = 0; i < n; i++)
		rank_is(r, ranks[i], r->rank % 2 ? 2 * (n - i) - 1 : 2 * i, "a member of a part");
	coll_comm_destroy(whole);
	coll_comm_destroy(part);
}

/* After a mismatch no rank is lost: the communicator of the survivors has all ranks. */
static void goes_on(struct rank *r)
{
	coll_comm_t again = NULL;
	int32_t x = 1, count = -1;
	coll_result_t code;

	if (r->rank == 1)
		code = coll_broadcast(&x, &x, 1, COLL_INT32, 0, r->comm, NULL);
	else
		code = coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	rank_is(r, code ? code : coll_sync(r->comm), COLL_ERR_MISMATCH, "different calls");
	rank_did(r, coll_comm_get_failed(r->comm, NULL, 0, &count), "failed");
	rank_is(r, count, 0, "nobody is lost");
	if (rank_did(r, coll_comm_shrink(r->comm, NULL, 0, &again, NULL, 0), "shrink"))
		sums_to(r, again, r->rank, 3, "all go on");
	coll_comm_destroy(again);
}

static void knows_the_lost(struct rank *r)
{
	int32_t ranks[RANKS_MAX] = {-1, -1}, count = -1, x = 1;
	coll_result_t code;

	rank_did(r, coll_comm_get_failed(r->comm, ranks, RANKS_MAX, &count), "none");
	rank_is(r, count, 0, "nobody is lost");
	rank_is(r, coll_comm_get_failed(r->comm, NULL, 1, &count), COLL_ERR_INVALID_ARGUMENT,
		"room");
	code = coll_barrier(r->comm); /* rank 2 may be dead before this barrier ends here */
	if (r->rank == 2)
		raise(SIGKILL);
	while (!code) {
		code = coll_allreduce(&x, &x, 1, COLL_INT32, COLL_MAX, r->comm, NULL);
		code = code ? code : coll_sync(r->comm);
	}
	rank_did(r, coll_comm_get_failed(r->comm, ranks, 1, &count), "one");
	rank_is(r, count, 1, "one is lost");
	rank_is(r, ranks[0], 2, "its number");
	rank_did(r, coll_comm_get_failed(r->comm, NULL, 0, &count), "the number alone");
	rank_is(r, count, 1, "one is counted without room for it");
}

/* ------------------------------------------------------------------------- main -- */

static void run(const char *backend, int nranks, void (*fn)(struct rank *), const char *name)
{
	static struct shared shared;
	struct ranks_job job = {.backend = backend, .nranks = nranks, .fn = fn, .user = &shared};

	memset(&shared, 0, sizeof(shared));
	shared.phase = -2;
	ranks_ok(&job, "%s", name);
}

static void run_all(const char *backend)
{
	run(backend, 3, issues, "requests of single operations");
	run(backend, 3, has_no_use_for, "fields that a barrier does not use");
	run(backend, 3, waits_for_a_time, "waits of limited time");
	run(backend, 2, waits_on_one_context, "waits for one of several");
	if (strcmp(backend, "simulated") != 0) /* its ranks are made together */
		run(backend, 2, waits_on_two_contexts, "waits for one of several contexts");
	run(backend, 3, waits_for_many, "waits for many");
	run(backend, 2, hears, "callbacks");
	run(backend, 2, times_out, "a communicator's own timeout");
	run(backend, 2, times_out_in_steps, "the timeout of a program that polls");
	run(backend, 2, splits_with_a_timeout, "a split's own timeout");
	log_begin();
	run(backend, 2, outlives, "requests of a destroyed communicator");
	log_end();
	is_int(log_lines("a request is not freed"), 0, "%s: those requests are freed", backend);
	run(backend, 2, is_limited, "an operation of limited time");
	run(backend, 4, names_the_missing, "an operation of limited time names who is missing");
	run(backend, 5, has_members, "members");
	run(backend, 3, goes_on, "all go on after a mismatch");
}

static void test_lost(const char *backend)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct ranks_job job = {.backend = backend, .nranks = 3, .processes = 1};

	job.fn = knows_the_lost;
	ranks_run_processes(&job, shared);
	for (int r = 0; r < 3; r++)
		if (r == 2)
			has_str(shared->failure[r], "status 0x9", "%s: rank 2 is dead", backend);
		else
			is_str(shared->failure[r], "", "%s: rank %d knows the lost", backend, r);
}

int main(void)
{
	is_int(coll_version_number(), COLL_VERSION_NUMBER, "the header's version");
	test_lost("tcp");
	if (ranks_can("ucx"))
		test_lost("ucx");
	run_all("simulated");
	run_all("tcp");
	if (ranks_can("ucx"))
		run_all("ucx");
	setenv("COLL_PROGRESS", "thread", 1);
	run("tcp", 2, times_out_in_steps, "with a progress thread: a program that polls");
	return done_testing();
}
