/* SPDX-License-Identifier: BSD-3-Clause */
/* counters_test.c - coll_get_counters: what is counted, for which kinds, and what it refuses. */
#include "../lib/ranks.h"

enum { CALLS = 20, COUNT = 4, MESSAGES = 3 };

static void rank_has(struct rank *r, uint64_t got, uint64_t want, const char *what)
{
	if (got != want)
		rank_fail(r, "%s: %llu instead of %llu", what, (unsigned long long)got,
			  (unsigned long long)want);
}

static coll_counters_t counters(struct rank *r, int kind)
{
	coll_counters_t c = {.size = sizeof(c), .kind = kind};

	rank_did(r, coll_get_counters(r->comm, &c), "get_counters");
	return c;
}

static uint64_t buckets(const coll_counters_t *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < COLL_COUNTER_BUCKETS; i++)
		sum += c->bucket[i];
	return sum;
}

/* A message for which rank 0 waits, and an event: each wait counts where it belongs. */
static void waits(struct rank *r)
{
	coll_request_t request = NULL;
	int32_t x = 1, index, count;
	coll_counters_t c;

	if (r->rank == 1)
		ranks_sleep(0.05);
	rank_did(r,
		 r->rank ? coll_isend(&x, 1, COLL_INT32, 0, 99, r->comm, &request)
			 : coll_irecv(&x, 1, COLL_INT32, 1, 99, r->comm, &request),
		 "a late message");
	rank_did(r, coll_wait(request), "wait");
	request = NULL;
	c = counters(r, COLL_COUNT_IRECV);
	if (!r->rank && (c.waited_ns < 20000000 || c.latency_ns < 20000000))
		rank_fail(r, "a late message costs %llu ns, of which %llu waited",
			  (unsigned long long)c.latency_ns, (unsigned long long)c.waited_ns);
	if (r->rank == 1)
		ranks_sleep(0.05);
	rank_did(r,
		 r->rank ? coll_isend(&x, 1, COLL_INT32, 0, 98, r->comm, &request)
			 : coll_irecv(&x, 1, COLL_INT32, 1, 98, r->comm, &request),
		 "another one");
	rank_did(r, coll_wait_some(1, &request, -1, &index, &count), "wait_some");
	rank_did(r, coll_wait(request), "wait again");
	c = counters(r, COLL_COUNT_IRECV);
	if (!r->rank && c.waited_ns < 40000000)
		rank_fail(r, "wait_some has waited %llu ns", (unsigned long long)c.waited_ns);
	c = counters(r, COLL_COUNT_OTHER);
	rank_has(r, c.calls, 0, "other calls");
	if (c.waited_ns > 20000000)
		rank_fail(r, "other waits %llu ns", (unsigned long long)c.waited_ns);
}

static coll_counters_t counters_of(struct rank *r, int rank)
{
	coll_counters_t c = {.size = sizeof(c), .rank = rank};

	rank_did(r, coll_get_counters(r->comm, &c), "get_counters");
	return c;
}

/* Rank 1 comes last to a call, and late enough to be asked where it is. */
static void came_last(struct rank *r)
{
	const coll_counters_t before = counters_of(r, 1);
	coll_counters_t c;
	int32_t x = 1;

	if (r->rank == 1)
		ranks_sleep(0.4);
	rank_did(r, coll_broadcast(&x, &x, 1, COLL_INT32, 1, r->comm, NULL), "broadcast");
	rank_did(r, coll_sync(r->comm), "sync");
	c = counters_of(r, 1);
	if (r->rank == 0) {
		if (c.last_waits <= before.last_waits || c.last_ns < before.last_ns + 200000000)
			rank_fail(r, "rank 1 has ended %llu waits of %llu ns",
				  (unsigned long long)(c.last_waits - before.last_waits),
				  (unsigned long long)(c.last_ns - before.last_ns));
		if (c.stalls <= before.stalls || c.behind <= before.behind)
			rank_fail(r, "of %llu stalls rank 1 was behind in %llu",
				  (unsigned long long)(c.stalls - before.stalls),
				  (unsigned long long)(c.behind - before.behind));
	}
	c = counters_of(r, r->rank);
	rank_has(r, c.last_waits, 0, "waits that this rank has ended itself");
	rank_has(r, c.behind, 0, "stalls in which this rank was behind itself");
}

/* Rank 1 sends messages, and rank 0 posts no receive before they are here. */
static void unexpected(struct rank *r)
{
	enum { BYTES = 1000 };
	static _Thread_local char bytes[MESSAGES][BYTES];
	coll_request_t request[MESSAGES];
	coll_status_t status = {.size = sizeof(status)};
	int32_t found;
	coll_counters_t c;

	rank_did(r, coll_barrier(r->comm), "barrier");
	c = counters(r, COLL_COUNT_ALL);
	for (int i = 0; i < MESSAGES && r->rank == 1; i++)
		rank_did(r, coll_isend(bytes[i], BYTES, COLL_INT8, 0, i, r->comm, &request[i]),
			 "isend");
	while (r->rank == 0 && c.unexpected_now < MESSAGES &&
	       rank_did(r, coll_iprobe(1, MESSAGES - 1, r->comm, &found, &status), "iprobe"))
		c = counters(r, COLL_COUNT_ALL);
	if (r->rank == 0 &&
	    (c.unexpected_memory < MESSAGES * BYTES || c.unexpected_memory > 2 * MESSAGES * BYTES ||
	     c.unexpected_memory_most < c.unexpected_memory))
		rank_fail(r, "%llu bytes hold %d messages, at most %llu",
			  (unsigned long long)c.unexpected_memory, MESSAGES,
			  (unsigned long long)c.unexpected_memory_most);
	for (int i = 0; i < MESSAGES; i++) {
		if (r->rank == 0)
			rank_did(r,
				 coll_irecv(bytes[i], BYTES, COLL_INT8, 1, i, r->comm, &request[i]),
				 "irecv");
		rank_did(r, coll_wait(request[i]), "wait");
	}
	c = counters(r, COLL_COUNT_ALL);
	if (r->rank == 0 && c.unexpected_memory >= MESSAGES * BYTES)
		rank_fail(r, "%llu bytes hold nothing", (unsigned long long)c.unexpected_memory);
	if (r->rank == 0 && c.unexpected_memory_most < MESSAGES * BYTES)
		rank_fail(r, "the most memory is forgotten");
}

static void messages(struct rank *r)
{
	coll_request_t request[2];
	int32_t in[2], out[2] = {1, 2};

	for (int i = 0; i < MESSAGES; i++) {
		if (!rank_did(r,
			      coll_irecv(in, 2, COLL_INT32, 1 - r->rank, i, r->comm, &request[0]),
			      "irecv") ||
		    !rank_did(r,
			      coll_isend(out, 2, COLL_INT32, 1 - r->rank, i, r->comm, &request[1]),
			      "isend"))
			return;
		for (int k = 0; k < 2; k++)
			rank_did(r, coll_wait(request[k]), "wait");
	}
}

static void counted(struct rank *r)
{
	int32_t x[COUNT] = {1, 2, 3, 4}, y[COUNT];
	coll_counters_t c;

	for (int i = 0; i < CALLS; i++)
		if (!rank_did(r, coll_allreduce(x, y, COUNT, COLL_INT32, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r, coll_sync(r->comm), "sync"))
			return;
	/* Rank 0 waits for a rank that is late. */
	if (r->rank == 1)
		ranks_sleep(0.05);
	rank_did(r, coll_broadcast(x, y, 1, COLL_INT32, 1, r->comm, NULL), "broadcast");
	rank_did(r, coll_sync(r->comm), "sync");
	messages(r);
	c = counters(r, COLL_KIND_ALLREDUCE);
	rank_has(r, c.calls, CALLS, "calls");
	rank_has(r, c.bytes, (uint64_t)CALLS * COUNT * 4, "bytes");
	rank_has(r, c.ended, CALLS, "ended");
	rank_has(r, buckets(&c), CALLS, "the sum of the buckets");
	if (!c.latency_ns || c.latency_ns > (uint64_t)60 * 1000000000)
		rank_fail(r, "latency %llu ns", (unsigned long long)c.latency_ns);
	c = counters(r, COLL_KIND_BROADCAST);
	rank_has(r, c.calls, 1, "broadcasts");
	if (r->rank == 0 && (c.latency_ns < 20000000 || c.waited_ns < 20000000))
		rank_fail(r, "a late rank costs %llu ns, of which %llu waited",
			  (unsigned long long)c.latency_ns, (unsigned long long)c.waited_ns);
	c = counters(r, COLL_COUNT_ISEND);
	rank_has(r, c.calls, MESSAGES, "isend");
	rank_has(r, c.bytes, MESSAGES * 8, "their bytes");
	c = counters(r, COLL_COUNT_ALL);
	rank_has(r, c.calls, CALLS + 1 + 2 * MESSAGES, "all calls");
	rank_has(r, buckets(&c), c.ended, "all buckets");
}

/* A communicator that has the place of one that is gone counts from 0. */
static void counted_again(struct rank *r)
{
	coll_comm_t first, second;
	coll_counters_t c = {.size = sizeof(c)};

	if (!rank_did(r, coll_comm_dup(r->comm, &first), "dup") ||
	    !rank_did(r, coll_barrier(first), "barrier") ||
	    !rank_did(r, coll_comm_destroy(first), "destroy") ||
	    !rank_did(r, coll_comm_dup(r->comm, &second), "dup again"))
		return;
	rank_did(r, coll_get_counters(second, &c), "get_counters");
	rank_has(r, c.calls, 0, "the calls of a new communicator");
	rank_has(r, buckets(&c), 0, "its buckets");
	rank_did(r, coll_comm_destroy(second), "destroy again");
}

static void refused(struct rank *r)
{
	coll_counters_t c = {.size = sizeof(c), .kind = 99};
	struct {
		coll_counters_t c;
		uint64_t later;
	} larger = {{.size = sizeof(larger)}, 7};

	rank_has(r, (uint64_t)coll_get_counters(r->comm, NULL), COLL_ERR_INVALID_ARGUMENT, "NULL");
	rank_has(r, (uint64_t)coll_get_counters(r->comm, &c), COLL_ERR_INVALID_ARGUMENT,
		 "another kind");
	c.kind = COLL_COUNT_ALL;
	for (int i = 0; i < 2; i++) {
		c.rank = i ? 2 : -1;
		rank_has(r, (uint64_t)coll_get_counters(r->comm, &c), COLL_ERR_INVALID_ARGUMENT,
			 "a rank that is none");
	}
	c.size = 8;
	rank_has(r, (uint64_t)coll_get_counters(r->comm, &c), COLL_ERR_INVALID_ARGUMENT,
		 "a small size");
	c.size = offsetof(coll_counters_t, bytes);
	c.bytes = 4711;
	rank_did(r, coll_get_counters(r->comm, &c), "an older struct");
	rank_has(r, c.bytes, 4711, "what an older struct does not have");
	rank_did(r, coll_get_counters(r->comm, &larger.c), "a later struct");
	rank_has(r, larger.later, 7, "what this library does not know");
}

static void off(struct rank *r)
{
	coll_counters_t c = {.size = sizeof(c)};

	rank_has(r, (uint64_t)coll_get_counters(r->comm, &c), COLL_ERR_UNSUPPORTED,
		 "without option");
}

static void test_names(void)
{
	coll_counter_info_t info = {.size = sizeof(info)};
	int all = 1, of_rank = 0;

	for (int32_t i = 0; i < coll_counter_count(); i++) {
		all &= coll_counter_describe(i, &info) == COLL_SUCCESS && info.name[0] &&
		       info.unit[0] && info.help[0] && info.offset >= 16 &&
		       (size_t)info.offset < sizeof(coll_counters_t) &&
		       !(info.of_rank && info.of_kind);
		of_rank += info.of_rank;
	}
	ok(all, "each counter has a name, a unit and a place");
	is_int(of_rank, 3, "three of them are about a rank");
	is_int(coll_counter_describe(coll_counter_count(), &info), COLL_ERR_INVALID_ARGUMENT,
	       "there are no others");
}

int main(void)
{
	static const char *const backends[] = {"simulated", "tcp"};

	for (int i = 0; i < 2; i++) {
		struct ranks_job job = {backends[i], 2, 0, counted, NULL};

		setenv("COLL_COUNTERS", "yes", 1);
		ranks_ok(&job, "%s: calls are counted", backends[i]);
		job.fn = waits;
		ranks_ok(&job, "%s: waits count where they belong", backends[i]);
		setenv("COLL_STALL_AFTER", "100ms", 1);
		job.fn = came_last;
		ranks_ok(&job, "%s: who came last", backends[i]);
		unsetenv("COLL_STALL_AFTER");
		job.fn = unexpected;
		ranks_ok(&job, "%s: memory of unexpected messages", backends[i]);
		job.fn = counted_again;
		ranks_ok(&job, "%s: a second communicator begins at 0", backends[i]);
		job.fn = refused;
		ranks_ok(&job, "%s: wrong arguments", backends[i]);
		setenv("COLL_PAGE", "no", 1);
		job.fn = counted;
		ranks_ok(&job, "%s: without a page", backends[i]);
		unsetenv("COLL_PAGE");
		unsetenv("COLL_COUNTERS");
		job.fn = off;
		ranks_ok(&job, "%s: without the option", backends[i]);
	}
	test_names();
	return done_testing();
}
