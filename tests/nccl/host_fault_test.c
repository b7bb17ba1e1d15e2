/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_fault_test.c - calls on host memory and on device memory of one communicator fail together: whatever ends the
 * ones, a death, a timeout, an abort or calls that differ, ends the others for the same reason.
 */
#include "companion.h"

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready, done; /* ranks that have come to the scene, and that are through */
	_Atomic int issued;      /* ranks whose calls before the failure have succeeded */
	int on_host;             /* the survivors are in a call on host memory */
	int moment;
	double took[RANKS_MAX];
};

enum { TRIALS = 9 };

static void begin(struct rank *r)
{
	struct scene *s = r->user;

	nccl_works(r);
	sums_to(r, r->comm, 1, r->nranks, "host");
	meet(&s->ready, r->nranks);
}

static void end(struct rank *r)
{
	struct scene *s = r->user;

	end_together(r, &s->done, r->nranks);
}

static int call_on_until_failure(struct rank *r, int on_host)
{
	const double deadline = ranks_now() + SOON;
	int code = 0;

	while (!code && ranks_now() < deadline)
		code = call_on(r, on_host);
	return code;
}

/* The communicator has failed; all that the program can ask says so, for one reason. */
static void fails_for_all(struct rank *r, coll_result_t want, const char *words)
{
	coll_result_t error = 0;
	coll_request_t request;
	int64_t x = 0;

	nccl_fails(r, call_on(r, 1), want, words, "a later call on the host");
	nccl_fails(r, call_on(r, 0), want, words, "a later call on the device");
	nccl_fails(r, coll_sync(r->comm), want, words, "a later sync");
	nccl_fails(r, coll_barrier(r->comm), want, words, "a later barrier");
	nccl_fails(r, coll_irecv(&x, 1, COLL_INT64, 0, 1, r->comm, &request), want, words,
		   "a later irecv");
	rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (error != want || !strstr(coll_get_last_error(r->comm), words))
		rank_fail(r, "the asynchronous error is %d (%s)", error,
			  coll_get_last_error(r->comm));
}

/* ------------------------------------------------------------------------------ deaths -- */

static void death(struct rank *r)
{
	const int dead = r->nranks - 1;
	struct scene *s = r->user;
	int32_t failed[RANKS_MAX], n = 0;
	coll_comm_t rest = NULL;
	char words[64];

	begin(r);
	if (r->rank == dead) {
		ranks_sleep(0.0003 * s->moment);
		ranks_vanish();
	}
	snprintf(words, sizeof(words), "rank %d was lost", dead);
	nccl_fails(r, call_on_until_failure(r, s->on_host), COLL_ERR_PEER_LOST, words, "sync");
	fails_for_all(r, COLL_ERR_PEER_LOST, words);
	rank_did(r, coll_comm_get_failed(r->comm, failed, RANKS_MAX, &n), "get_failed");
	if (n != 1 || failed[0] != dead)
		rank_fail(r, "%d ranks have failed, the first is %d", (int)n, (int)failed[0]);
	if (rank_did(r, coll_comm_shrink(r->comm, failed, n, &rest, NULL, 0), "shrink")) {
		sums_to(r, rest, 1, dead, "the rest on the host");
		nccl_sums(r, rest, r->rank, 1, dead, "the rest on the device");
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	}
	destroy(r);
}

/* Open messages and requests of both kinds end too. */
static void death_with_requests(struct rank *r)
{
	const int dead = r->nranks - 1;
	int64_t x = 0, y = 0, z = 0, *there = nccl_new(r->rank, &x, 1);
	coll_request_t requests[3];
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .count = 1};

	begin(r);
	if (r->rank == dead)
		ranks_vanish();
	args.sendbuf = &x;
	args.recvbuf = &y;
	for (int i = 0; i < 3; i++) {
		const int code =
			i == 0   ? coll_request_issue(r->comm, &args, &requests[i])
			: i == 1 ? coll_irecv(&z, 1, COLL_INT64, dead, 3, r->comm, &requests[i])
				 : (args.sendbuf = args.recvbuf = there,
				    coll_request_issue(r->comm, &args, &requests[i]));

		if (code)
			requests[i] = NULL;
	}
	for (int i = 0; i < 3; i++) {
		if (!requests[i])
			continue;
		nccl_fails(r, coll_wait(requests[i]), COLL_ERR_PEER_LOST, "was lost", "wait");
		rank_did(r, coll_request_free(requests[i]), "free");
	}
	device_free(r->rank, there);
	destroy(r);
}

/* The others only issue calls and record events: the record that comes after the abort of the backend has the reason. */
static void death_between_records(struct rank *r)
{
	const int dead = r->nranks - 1;
	const double deadline = ranks_now() + SOON;
	int64_t x = 0, *there = nccl_new(r->rank, &x, 1);
	coll_event_t event = NULL;
	char words[64];
	int code = 0;

	begin(r);
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	if (r->rank == dead)
		ranks_vanish();
	snprintf(words, sizeof(words), "rank %d was lost", dead);
	while (!code && ranks_now() < deadline)
		code = coll_event_record(event, r->comm);
	nccl_fails(r, code, COLL_ERR_PEER_LOST, words, "record");
	nccl_fails(r, coll_event_query(event), COLL_ERR_PEER_LOST, words, "query");
	nccl_fails(r, coll_comm_wait_event(r->comm, event), COLL_ERR_PEER_LOST, words,
		   "wait_event");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(r->rank, there);
	destroy(r);
}

/* Calls on the device wait for an event behind a call on the host that rank 0, which aborts, does not make. */
static void abort_behind_host(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x = 1, y = 1, *there = nccl_new(r->rank, &y, 1);
	coll_event_t event = NULL;
	double start;
	int code;

	begin(r);
	if (r->rank == 0) {
		wait_until(&s->issued, r->nranks - 1);
		ranks_sleep(0.02);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	} else {
		rank_did(r, coll_event_create(r->comm, &event), "event_create");
		rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
		rank_did(r, coll_event_record(event, r->comm), "record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
		atomic_fetch_add(&s->issued, 1);
		start = ranks_now();
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
		if (!code)
			code = coll_sync(r->comm);
		s->took[r->rank] = ranks_now() - start;
		nccl_fails(r, code, COLL_ERR_REMOTE, "rank 0 aborted the communicator", "sync");
		rank_did(r, coll_event_destroy(event), "event_destroy");
	}
	end(r);
	device_free(r->rank, there);
}

/* The backend's abort would wait for the streams, which wait for the call on the host. */
static void test_quick(void)
{
	struct scene *s = ranks_memory(sizeof(*s));
	double took[TRIALS];

	for (int i = 0; i < TRIALS; i++) {
		*s = (struct scene){.ready = 0};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, abort_behind_host, s},
			"an abort ends calls on the device behind one on the host");
		took[i] = s->took[1];
	}
	is_quick(took, TRIALS, "and soon");
}

/* ------------------------------------------------------------------- timeouts and others -- */

/* The calls on the host have failed, and those on the device do not know it yet. */
static void message_after_failure(struct rank *r)
{
	coll_request_t first = NULL, second = NULL;
	int64_t x = 0;

	begin(r);
	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, 300), "set_timeout");
		rank_did(r, coll_irecv(&x, 1, COLL_INT64, 1, 3, r->comm, &first), "irecv");
		nccl_fails(r, coll_wait(first), COLL_ERR_TIMEOUT, "timed out", "wait");
		nccl_fails(r, coll_irecv(&x, 1, COLL_INT64, 1, 3, r->comm, &second),
			   COLL_ERR_TIMEOUT, "timed out", "a later irecv");
		if (second)
			nccl_fails(r, coll_wait(second), COLL_ERR_TIMEOUT, "timed out", "its wait");
		rank_did(r, coll_request_free(first), "free");
	}
	end(r);
}

/* The last rank makes no call, on the memory that the others use. */
static void time_out(struct rank *r)
{
	struct scene *s = r->user;
	const char *words = "timed out";
	coll_result_t error = 0;

	begin(r);
	rank_did(r, coll_comm_set_timeout(r->comm, 300), "set_timeout");
	if (r->rank < r->nranks - 1) {
		const int code = call_on(r, s->on_host);

		if (code != COLL_ERR_TIMEOUT && code != COLL_ERR_REMOTE)
			rank_fail(r, "sync: %d (%s)", code, coll_get_last_error(NULL));
		nccl_fails(r, code, code, words, "sync");
		fails_for_all(r, code, words);
	} else {
		while (!error && rank_did(r, coll_comm_get_async_error(r->comm, &error), "error"))
			ranks_sleep(0.001);
		fails_for_all(r, COLL_ERR_REMOTE, words);
	}
	end(r);
}

/* The ranks make one call, but on other memory: each is told on which one it waits. */
static void two_memories(struct rank *r)
{
	const char *text;
	int code;

	begin(r);
	rank_did(r, coll_comm_set_timeout(r->comm, r->rank ? 60000 : 300), "set_timeout");
	code = call_on(r, r->rank == 0);
	text = coll_get_last_error(NULL);
	if (code != (r->rank ? COLL_ERR_REMOTE : COLL_ERR_TIMEOUT) ||
	    !strstr(text, "allreduce of 1 int64 (sum), on host memory timed out"))
		rank_fail(r, "%d (%s)", code, text);
	end(r);
}

/* Calls on the host that differ fail those on the device, also of a rank that waits there. */
static void mismatch(struct rank *r)
{
	int64_t x[2] = {0, 0};
	int code;

	begin(r);
	if (r->rank == 2) {
		code = call_on_until_failure(r, 0);
	} else {
		code = coll_allreduce(x, x, 1 + (size_t)r->rank, COLL_INT64, COLL_SUM, r->comm,
				      NULL);
		if (!code)
			code = coll_sync(r->comm);
	}
	nccl_fails(r, code, COLL_ERR_MISMATCH, "allreduce of 2 int64", "calls that differ");
	fails_for_all(r, COLL_ERR_MISMATCH, "allreduce of 1 int64");
	end(r);
}

/* Rank 0 aborts; the others wait for it, half of them in a call on each memory. */
static void abort_both(struct rank *r)
{
	begin(r);
	if (r->rank == 0) {
		ranks_sleep(0.05);
		rank_did(r, coll_comm_abort(r->comm), "abort");
		fails_for_all(r, COLL_ERR_ABORTED, "rank 0 aborted the communicator");
	} else {
		nccl_fails(r, call_on_until_failure(r, r->rank % 2), COLL_ERR_REMOTE,
			   "rank 0 aborted the communicator", "sync");
		fails_for_all(r, COLL_ERR_REMOTE, "rank 0 aborted the communicator");
	}
	end(r);
}

/* Rank 0 aborts; the splits of a group all end for this reason, also those behind the first one. */
static void abort_splits(struct rank *r)
{
	const char *words = "rank 0 aborted the communicator";
	coll_request_t requests[2] = {NULL};
	coll_comm_t made[2] = {NULL};
	struct scene *s = r->user;

	begin(r);
	if (r->rank) {
		rank_did(r, coll_group_start(), "group_start");
		for (int i = 0; i < 2; i++)
			rank_did(r, coll_comm_isplit(r->comm, 0, 0, &made[i], NULL, &requests[i]),
				 "isplit");
		meet(&s->ready, 2 * r->nranks);
		nccl_fails(r, coll_group_end(), COLL_ERR_REMOTE, words, "group_end");
	} else {
		meet(&s->ready, 2 * r->nranks);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	}
	for (int i = 0; r->rank && i < 2; i++) {
		nccl_fails(r, coll_wait(requests[i]), COLL_ERR_REMOTE, words, "a split");
		rank_did(r, coll_request_free(requests[i]), "free");
	}
	end(r);
}

static void *wait_in_thread(void *arg)
{
	struct rank *r = arg;

	nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "aborted the communicator",
		   "sync of another thread");
	return NULL;
}

/* Another thread of the rank waits for a call on the host. */
static void abort_own_wait(struct rank *r)
{
	int64_t x = 0;
	pthread_t other;

	begin(r);
	if (r->rank == 0) {
		rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
		if (pthread_create(&other, NULL, wait_in_thread, r))
			bail_out("cannot start a thread");
		ranks_sleep(0.05);
		rank_did(r, coll_comm_abort(r->comm), "abort");
		pthread_join(other, NULL);
	}
	end(r);
}

/* A destroy drops a call on the host that cannot end, and tells the others, which then call on the device. */
static void destroy_early(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x = 0;
	int code;

	begin(r);
	if (r->rank == 0) {
		rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
		r->comm = NULL;
	} else {
		code = call_on_until_failure(r, 0);
		nccl_fails(r, code, code == COLL_ERR_PEER_LOST ? code : COLL_ERR_REMOTE,
			   "rank 0 destroyed its communicator", "a call on the device");
	}
	meet(&s->done, r->nranks);
	destroy(r);
}

/* A rank that leaves after calls on both is no failure for the others. */
static void leave(struct rank *r)
{
	struct scene *s = r->user;
	coll_result_t error = 0;
	int64_t x = 0;

	begin(r);
	if (r->rank == 0) {
		destroy(r);
		atomic_store(&s->done, 1);
		return;
	}
	wait_until(&s->done, 1);
	for (int i = 0; i < 50; i++) {
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
		ranks_sleep(0.001);
	}
	if (error)
		rank_fail(r, "%d (%s)", error, coll_get_last_error(r->comm));
	nccl_fails(r, coll_send(&x, 1, COLL_INT64, r->rank, 0, r->comm, NULL), 0, "", "send");
	destroy(r);
}

/* -------------------------------------------------------------------------------- main -- */

static void test_scenes(void)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
		int nranks;
	} scenes[] = {{two_memories, "one call on two memories", 2},
		      {mismatch, "calls on the host that differ", 3},
		      {abort_both, "an abort", 4},
		      {abort_splits, "an abort before the end of a group with splits", 3},
		      {abort_own_wait, "an abort while a thread waits for the host", 2},
		      {leave, "a rank that leaves", 3},
		      {message_after_failure, "a message after the failure of another", 2}};
	struct scene *s = ranks_memory(sizeof(*s));

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		*s = (struct scene){.moment = 0};
		nccl_ok(&(struct nccl_job){scenes[i].nranks, 1, INIT_EXCHANGE, scenes[i].fn, s},
			"%s", scenes[i].name);
	}
	for (int on_host = 0; on_host < 2; on_host++) {
		*s = (struct scene){.on_host = on_host};
		nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, time_out, s}, "a timeout on the %s",
			on_host ? "host" : "device");
	}
	setenv("COLL_DESTROY_TIMEOUT", "300ms", 1);
	*s = (struct scene){.moment = 0};
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, destroy_early, s},
		"a destroy with a call on the host under way");
	unsetenv("COLL_DESTROY_TIMEOUT");
}

static void test_deaths(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int i = 0; i < 12; i++) {
		*s = (struct scene){.on_host = i % 2, .moment = i / 2};
		nccl_ok(&(struct nccl_job){2 + i % 3, 1, INIT_EXCHANGE, death, s},
			"a death at moment %d while the others call on the %s", s->moment,
			s->on_host ? "host" : "device");
	}
	for (int nranks = 2; nranks <= 4; nranks++) {
		*s = (struct scene){.moment = 0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, death_with_requests, s},
			"a death ends requests of both");
		*s = (struct scene){.moment = 0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, death_between_records, s},
			"a death between the records of an event");
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	test_deaths();
	test_scenes();
	test_quick();
	return done_testing();
}
