/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_ranks_test.c - the log of ranks that are threads or processes: a line for each call in the file of its rank, with the
 * communicator, what was called, and how it ended.
 */
#include "../lib/plugin_dir.h"
#include "../lib/ranks.h"

enum { RANKS = 4, CALLS = 20 };

/* The lines of a text that have both pieces. */
static int lines(const char *text, const char *a, const char *b)
{
	char line[2000];
	int n = 0;

	while (*text) {
		const int len = (int)strcspn(text, "\n");

		snprintf(line, sizeof(line), "%.*s", len, text);
		n += strstr(line, a) && strstr(line, b);
		text += len + (text[len] == '\n');
	}
	return n;
}

static void work(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, last = (r->rank + r->nranks - 1) % r->nranks;
	int32_t in[4] = {0}, out[4] = {1, 2, 3, 4};
	coll_comm_t half;
	coll_request_t sent, received;
	coll_result_t code;

	for (int i = 0; i < CALLS; i++)
		sums_to(r, r->comm, 1, r->nranks, "a sum");
	received = rank_irecv(r, in, 4, last, 7);
	sent = rank_isend(r, out, 4, next, 7);
	rank_ends(r, received, COLL_SUCCESS, "a receive");
	rank_ends(r, sent, COLL_SUCCESS, "a send");
	if (!rank_did(r, coll_comm_split(r->comm, r->rank % 2, 0, &half, NULL), "a split"))
		return;
	sums_to(r, half, 1, r->nranks / 2, "a sum of a half");
	rank_did(r, coll_comm_destroy(half), "destroy");
	atomic_fetch_add((_Atomic int *)r->user, 1);
	if (r->rank == 0 && rank_reaches(r, r->user, r->nranks, 1))
		rank_did(r, coll_comm_abort(r->comm), "abort");
	code = coll_barrier(r->comm);
	if (!code)
		code = coll_sync(r->comm);
	rank_is(r, code, r->rank ? COLL_ERR_REMOTE : COLL_ERR_ABORTED,
		"a barrier that rank 0 aborts");
}

static void check_rank(const char *text, int rank, const char *what)
{
	char own[64], peer[96];

	snprintf(own, sizeof(own), "] rank %d ", rank);
	is_int(lines(text, "", ""), lines(text, own, ""), "%s: each line names rank %d", what,
	       rank);
	is_int(lines(text, " comm debug: allreduce number ", "us, success"), CALLS + 1,
	       "%s: a line for each allreduce", what);
	is_int(lines(text, " comm 0 comm debug: allreduce ",
		     ": 1 int64, 8 bytes, op sum, algorithm "),
	       CALLS, "%s: its communicator, type, count, bytes, operation, algorithm", what);
	is_int(lines(text, "allreduce number 3, collective 3:", ""), 1, "%s: its numbers", what);
	is_int(lines(text, "the communicator is made: ", ""), 2, "%s: both communicators", what);
	snprintf(peer, sizeof(peer), "isend number 2: 4 int32, 16 bytes, peer %d, tag 7, ",
		 (rank + 1) % RANKS);
	is_int(lines(text, " message debug: ", peer), 1, "%s: the message that is sent", what);
	is_int(lines(text, " message debug: ", "irecv number 1: 4 int32, 16 bytes, peer "), 1,
	       "%s: the message that is received", what);
	is_int(lines(text, " comm 0 comm info: communicator of ", " failed: "), 1,
	       "%s: the failure", what);
	is_int(lines(text, " trace: ", ""), 0, "%s: no trace", what);
}

static void run(const char *backend, int processes)
{
	const struct ranks_job job = {backend, RANKS, processes, work, ranks_memory(sizeof(int))};
	char pattern[200], name[64];

	snprintf(pattern, sizeof(pattern), "%s/%s.%%r", dir, backend);
	setenv("COLL_LOG", "debug", 1);
	setenv("COLL_LOG_FILE", pattern, 1);
	ranks_ok(&job, "%s: the ranks work", backend);
	for (int rank = 0; rank < RANKS; rank++) {
		snprintf(name, sizeof(name), "%s.%d", backend, rank);
		check_rank(content(name), rank, name);
	}
	unsetenv("COLL_LOG");
	unsetenv("COLL_LOG_FILE");
}

/* The ranks of a process may share a file. */
static void test_shared(void)
{
	const struct ranks_job job = {"simulated", RANKS, 0, work, ranks_memory(sizeof(int))};
	char path[200], own[32];
	const char *text;

	snprintf(path, sizeof(path), "%s/all", dir);
	setenv("COLL_LOG", "warn,compose:trace", 1);
	setenv("COLL_LOG_FILE", path, 1);
	ranks_ok(&job, "one file: the ranks work");
	text = content("all");
	for (int rank = 0; rank < RANKS; rank++) {
		snprintf(own, sizeof(own), "] rank %d comm ", rank);
		ok(lines(text, own,
			 " compose trace: allreduce number 1, collective 1 step 0 begins") ==
			   lines(text, own,
				 " compose trace: allreduce number 1, collective 1 step 0 ends"),
		   "one file: a step of rank %d begins and ends", rank);
		ok(lines(text, own, ", peer ") > CALLS, "one file: the messages of rank %d", rank);
	}
	is_int(lines(text, " comm debug: ", ""), 0, "one file: only the named subsystem");
	unsetenv("COLL_LOG");
	unsetenv("COLL_LOG_FILE");
}

int main(void)
{
	plugin_dir_begin();
	run("simulated", 0);
	if (ranks_can("tcp"))
		run("tcp", 1);
	test_shared();
	plugin_dir_end();
	return done_testing();
}
