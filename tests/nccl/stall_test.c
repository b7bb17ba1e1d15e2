/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall_test.c - ranks that wait for each other in different calls tell each other where they wait: in calls on either
 * memory, and inside of a split.
 */
#include "companion.h"

/* The others ask, and await answers, at other times than a rank asks before this timeout. */
enum { TIMEOUT_MS = 750 };

/* The others have time to come to their split before this timeout. */
enum { SPLIT_TIMEOUT_MS = 2000 };

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready, done; /* ranks that have come to the scene, and that are through */
};

static void begin(struct rank *r)
{
	struct scene *s = r->user;

	rank_did(r, call_on(r, 0), "device");
	rank_did(r, call_on(r, 1), "host");
	rank_did(r, call_on(r, 1), "host again");
	meet(&s->ready, r->nranks);
}

static void end(struct rank *r)
{
	struct scene *s = r->user;

	end_together(r, &s->done, r->nranks);
}

/* --------------------------------------------------------------------------- answers -- */

/* Ranks that wait for a call which they have made before sleep, and answer each question at once. */
static void answers(struct rank *r)
{
	coll_status_t status = {.size = sizeof(status)};
	const char *text;

	begin(r);
	if (r->rank == 1) {
		rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
		nccl_fails(r, coll_probe(0, 7, r->comm, &status), COLL_ERR_TIMEOUT,
			   "not heard from: none", "probe");
	} else {
		nccl_fails(r, call_on(r, 1), COLL_ERR_REMOTE, "rank 1: coll_probe", "host");
	}
	text = coll_get_last_error(r->comm);
	if (strstr(text, "does not answer"))
		rank_fail(r, "a rank that lives does not answer: %s", text);
	end(r);
}

static void test_answers(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int i = 0; i < 12; i++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){2 + i % 3, 1, INIT_EXCHANGE, answers, s},
			"ranks that sleep in a wait answer");
	}
}

/* ------------------------------------------------------------- host and device memory -- */

static const char
	host_sum[] = "allreduce of 1 int64 (sum) as collective number 3 of those on host memory",
	device_sum[] =
		"allreduce of 1 int64 (sum) as collective number 2 of those on device memory",
	a_split[] = "comm_split or comm_dup";

static int sum_on_host(struct rank *r)
{
	return call_on(r, 1);
}

static int sum_on_device(struct rank *r)
{
	return call_on(r, 0);
}

/* The ways to wait for a call without coll_wait and coll_sync. */
enum { BY_TEST, BY_QUERY, BY_WAIT_ANY, BY_WAIT_FOR, BY_WAIT_FOR_SHORT };

static int await_by(struct rank *r, int way)
{
	const double deadline = ranks_now() + SOON;
	coll_request_t request = NULL;
	coll_event_t event = NULL;
	int32_t done = 0, index;
	int code = COLL_IN_PROGRESS;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	if (way == BY_QUERY)
		rank_did(r, coll_event_record(event, r->comm), "record");
	while (code == COLL_IN_PROGRESS && ranks_now() < deadline) {
		if (way == BY_TEST)
			code = coll_test(request, &done);
		else if (way == BY_QUERY)
			code = coll_event_query(event);
		else if (way == BY_WAIT_ANY)
			code = coll_wait_any(1, &request, -1, &index);
		else
			code = coll_wait_for(request, way == BY_WAIT_FOR ? -1 : 5);
		if (way == BY_TEST && !code && !done)
			code = COLL_IN_PROGRESS;
	}
	return code;
}

/* The handles stay until the text of the error has been read. */
static int polls_host(struct rank *r, int way)
{
	int64_t x = 1;
	const int code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	return code ? code : await_by(r, way);
}

static int polls_device(struct rank *r, int way)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	int code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	if (!code)
		code = await_by(r, way);
	device_free(r->rank, there);
	return code;
}

static int tests_host(struct rank *r)
{
	return polls_host(r, BY_TEST);
}

static int queries_device(struct rank *r)
{
	return polls_device(r, BY_QUERY);
}

static int queries_host(struct rank *r)
{
	return polls_host(r, BY_QUERY);
}

static int waits_for_any_on_device(struct rank *r)
{
	return polls_device(r, BY_WAIT_ANY);
}

static int waits_for_host(struct rank *r)
{
	return polls_host(r, BY_WAIT_FOR);
}

static int waits_shortly_for_host(struct rank *r)
{
	return polls_host(r, BY_WAIT_FOR_SHORT);
}

/* The program waits for its stream after a call on it, and no thread of it is in a call. */
static int waits_outside(struct rank *r, void *stream, int code)
{
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	if (!code)
		code = coll_sync(r->comm);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	return code;
}

static int sum_on_stream(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	int64_t x = 1;

	return waits_outside(r, stream,
			     coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, stream));
}

static int broadcast_on_stream(struct rank *r, int root)
{
	const int64_t x = 1;
	int64_t *there = nccl_new(r->rank, &x, 1);
	void *stream = nccl_stream(r->rank);
	const int code = waits_outside(
		r, stream, coll_broadcast(there, there, 1, COLL_INT64, root, r->comm, stream));

	device_free(r->rank, there);
	return code;
}

static int from_zero_on_stream(struct rank *r)
{
	return broadcast_on_stream(r, 0);
}

static int from_one_on_stream(struct rank *r)
{
	return broadcast_on_stream(r, 1);
}

static int sum_of_device_on_stream(struct rank *r)
{
	const int64_t x = 1;
	int64_t *there = nccl_new(r->rank, &x, 1);
	void *stream = nccl_stream(r->rank);
	const int code = waits_outside(
		r, stream, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream));

	device_free(r->rank, there);
	return code;
}

/* The program only asks for the communicator's error. */
static int asks_on_host(struct rank *r)
{
	int64_t x = 1;
	const int code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	return code ? code : sync_when_told(r);
}

static int barrier(struct rank *r)
{
	return coll_barrier(r->comm);
}

static int dup_comm(struct rank *r)
{
	coll_comm_t made = NULL;
	const int code = coll_comm_dup(r->comm, &made);

	if (made)
		rank_did(r, coll_comm_destroy(made), "destroy the dup");
	return code;
}

static int split_comm(struct rank *r)
{
	coll_comm_t made = NULL;
	const int code = coll_comm_split(r->comm, r->rank % 2, 0, &made, NULL);

	if (made)
		rank_did(r, coll_comm_destroy(made), "destroy the split");
	return code;
}

static int idup_in_group(struct rank *r)
{
	coll_request_t request = NULL;
	coll_comm_t made = NULL;
	int code = coll_group_start();

	if (!code)
		code = coll_comm_idup(r->comm, &made, NULL, &request);
	code = coll_group_end() ? COLL_ERR_MISMATCH : code;
	if (request)
		rank_did(r, coll_request_free(request), "free");
	return code;
}

/* A group of calls on both memories, and one that lacks that on the device, with a call on the host behind it. */
static int group_of_both(struct rank *r)
{
	int64_t x = 0, *there = nccl_new(r->rank, &x, 1);
	int code = coll_group_start();

	if (!code)
		code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_group_end();
	if (!code)
		code = coll_sync(r->comm);
	device_free(r->rank, there);
	return code;
}

static int two_on_host(struct rank *r)
{
	const int code = call_on(r, 1);

	return code ? code : call_on(r, 1);
}

/* The calls of rank 1 and of the others, which wait for each other, and the words for both in the error of each rank. */
static const struct crossing {
	int (*odd)(struct rank *r), (*others)(struct rank *r);
	const char *name, *words[2];
} crossings[] = {
	{sum_on_device, sum_on_host, "one call on two memories", {device_sum, host_sum}},
	{sum_on_host, sum_on_device, "one call on two memories", {device_sum, host_sum}},
	{sum_on_stream, sum_on_device, "a stream and a call", {device_sum, host_sum}},
	{tests_host, sum_on_device, "coll_test in a loop, and a call", {device_sum, host_sum}},
	{queries_device, queries_host, "loops of coll_event_query", {device_sum, host_sum}},
	{waits_shortly_for_host,
	 waits_for_any_on_device,
	 "coll_wait_for and coll_wait_any",
	 {device_sum, host_sum}},
	{sum_on_device, waits_for_host, "a call and coll_wait_for", {device_sum, host_sum}},
	{sum_of_device_on_stream,
	 sum_on_host,
	 "a program that waits for its stream, and a call",
	 {device_sum, host_sum}},
	{asks_on_host, sum_on_device, "questions for errors, and a call", {device_sum, host_sum}},
	{sum_of_device_on_stream,
	 asks_on_host,
	 "a program that waits for its stream, and questions",
	 {device_sum, host_sum}},
	{from_zero_on_stream,
	 from_one_on_stream,
	 "programs that wait for streams",
	 {"broadcast of 1 int64 with root 0", "broadcast of 1 int64 with root 1"}},
	{barrier,
	 sum_on_host,
	 "a barrier and a call on the host",
	 {"barrier as collective number 2 of those on device memory", host_sum}},
	{dup_comm, sum_on_device, "a dup and a call on the device", {device_sum, a_split}},
	{sum_on_device, dup_comm, "a call on the device and dups", {device_sum, a_split}},
	{barrier, split_comm, "a barrier and splits", {"barrier as collective number 2", a_split}},
	{dup_comm, sum_on_host, "a dup and a call on the host", {"allreduce of 1 int64", a_split}},
	{sum_on_host,
	 split_comm,
	 "a call on the host and splits",
	 {"allreduce of 1 int64", a_split}},
	{sum_on_host,
	 idup_in_group,
	 "a call on the host and groups with a dup",
	 {"allreduce of 1 int64", a_split}},
	{two_on_host,
	 group_of_both,
	 "a call that a group lacks",
	 {device_sum, "collective number 4 of those on host memory"}},
};

static const struct crossing *crossing; /* of the job that runs */

static void crosses(struct rank *r)
{
	const double start = ranks_now();
	int code;

	begin(r);
	code = r->rank == 1 ? crossing->odd(r) : crossing->others(r);
	for (int i = 0; i < 2; i++)
		nccl_fails(r, code, COLL_ERR_MISMATCH, crossing->words[i], "its call");
	if (ranks_now() - start > SOON)
		rank_fail(r, "the call took %.1f s", ranks_now() - start);
	end(r);
}

/* A message holds up rank 0, a call on the device the others: neither is proof that a call differs. */
static void times_out(struct rank *r)
{
	coll_request_t request = NULL;
	int64_t x = 0;
	int code;

	begin(r);
	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
		rank_did(r, coll_irecv(&x, 1, COLL_INT64, 1, 5, r->comm, &request), "irecv");
		code = coll_wait(request);
		nccl_fails(r, code, COLL_ERR_TIMEOUT,
			   "rank 0 itself last called allreduce of 1 int64 (sum) as collective "
			   "number 1 of those on device memory",
			   "wait");
	} else {
		code = call_on(r, 0);
		nccl_fails(r, code, COLL_ERR_REMOTE, "coll_irecv of 1 int64", "device");
	}
	nccl_fails(r, code, code,
		   "rank 1 has called 2 collectives on host memory and waits in none, and waits in "
		   "allreduce of 1 int64 (sum) as collective number 2 of those on device memory",
		   "where rank 1 is");
	if (request)
		rank_did(r, coll_request_free(request), "free");
	end(r);
}

/* Rank 1 leaves, and the programs of the others wait for their streams. */
static void leaves(struct rank *r)
{
	const double start = ranks_now();

	begin(r);
	if (r->rank != 1) {
		nccl_fails(r, from_one_on_stream(r), COLL_ERR_PEER_LOST,
			   "rank 1 destroyed its communicator", "a call on a stream");
		if (ranks_now() - start > SOON)
			rank_fail(r, "the call took %.1f s", ranks_now() - start);
	}
}

static void test_left(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int nranks = 2; nranks <= 4; nranks++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, leaves, s},
			"a rank leaves that programs wait for outside the library");
	}
}

static void test_crossings(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (size_t i = 0; i < sizeof(crossings) / sizeof(crossings[0]); i++) {
		crossing = &crossings[i];
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){2 + (int)i % 3, 1, i % 2 ? INIT_EXCHANGE : INIT_ID,
					   crosses, s},
			"a mismatch: %s", crossing->name);
	}
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, times_out, s},
		"a timeout names the calls on both memories");
}

/* ------------------------------------------------------------------------------ splits -- */

static void *abort_soon(void *arg)
{
	struct rank *r = arg;

	ranks_sleep(0.3);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	return NULL;
}

/* Rank 1 aborts, and lives on. */
static void aborts_split(struct rank *r)
{
	double start;

	begin(r);
	start = ranks_now();
	if (r->rank == 1)
		abort_soon(r);
	else
		nccl_fails(r, r->rank ? split_comm(r) : dup_comm(r), COLL_ERR_REMOTE,
			   "rank 1 aborted the communicator", "dup");
	if (ranks_now() - start > SOON)
		rank_fail(r, "the dup took %.1f s", ranks_now() - start);
	end(r);
}

/* All ranks have voted, and NCCL does not end their split; then a thread of rank 1 aborts. */
static void aborts_inside(struct rank *r)
{
	pthread_t thread;
	double start;

	begin(r);
	start = ranks_now();
	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	if (r->rank == 1 && pthread_create(&thread, NULL, abort_soon, r))
		bail_out("cannot start a thread");
	nccl_fails(r, dup_comm(r), r->rank == 1 ? COLL_ERR_ABORTED : COLL_ERR_REMOTE,
		   "rank 1 aborted the communicator", "dup");
	if (r->rank == 1)
		pthread_join(thread, NULL);
	if (ranks_now() - start > SOON)
		rank_fail(r, "the dup took %.1f s", ranks_now() - start);
	end(r);
}

/* Rank 1's wait for a message times out. */
static void fails_split(struct rank *r)
{
	coll_status_t status = {.size = sizeof(status)};

	begin(r);
	if (r->rank == 1) {
		rank_did(r, coll_comm_set_timeout(r->comm, SPLIT_TIMEOUT_MS), "set_timeout");
		nccl_fails(r, coll_probe(0, 7, r->comm, &status), COLL_ERR_TIMEOUT,
			   "waits in comm_split or comm_dup as collective number 3", "probe");
	} else {
		nccl_fails(r, dup_comm(r), COLL_ERR_REMOTE, "rank 1: coll_probe", "dup");
	}
	end(r);
}

static void test_splits(void)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
	} scenes[] = {{aborts_split, "an abort ends the splits of the others"},
		      {aborts_inside, "an abort ends the splits inside of NCCL"},
		      {fails_split, "a failure ends the splits of the others"}};
	struct scene *s = ranks_memory(sizeof(*s));

	for (size_t i = 0; i < 6; i++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){2 + (int)i % 3, 1, i < 3 ? INIT_EXCHANGE : INIT_ID,
					   scenes[i % 3].fn, s},
			"%s", scenes[i % 3].name);
	}
}

/* ---------------------------------------------------------------------- no false alarm -- */

/* Ranks that come late to calls on both memories, in turn, and wait for them in another order than that of the calls. */
static void all_agree(struct rank *r)
{
	int64_t x = 0, *there = nccl_new(r->rank, &x, 1);
	coll_request_t requests[2];
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .count = 1};

	for (int i = 0; i < 24; i++) {
		for (int n = 0; n < 2; n++) {
			args.sendbuf = args.recvbuf = (n + i / 8) % 2 ? &x : there;
			if ((i + n) % r->nranks == r->rank)
				ranks_sleep(0.07);
			if (!rank_did(r, coll_request_issue(r->comm, &args, &requests[n]), "issue"))
				return;
		}
		for (int n = 0; n < 2; n++) {
			const int which = (n + i + r->rank) % 2;

			rank_did(r, coll_wait(requests[which]), "wait");
			rank_did(r, coll_request_free(requests[which]), "free");
		}
		if (i % 8 == 7)
			rank_did(r, dup_comm(r), "dup");
	}
	device_free(r->rank, there);
	destroy(r);
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 1);
	setenv("COLL_STALL_AFTER", "200ms", 1);
	test_answers();
	test_crossings();
	test_left();
	test_splits();
	setenv("COLL_STALL_AFTER", "10ms", 1);
	for (int nranks = 2; nranks <= 4; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, all_agree, NULL},
			"calls on both memories that agree");
	return done_testing();
}
