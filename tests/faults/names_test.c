/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names_test.c - texts about ranks.  In a communicator made by split they tell both numbers of a rank; and they tell
 * in which receive or probe a rank waits.
 *
 * The ranks are threads.  Ranks 1 to 3 of the world are ranks 0 to 2 of the communicator that fails.  Arguments: the
 * backends; without any, simulated and tcp.
 */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"

enum { NRANKS = 4 };

static const char *backend;

struct scene {
	int (*fn)(coll_comm_t comm, int rank);
	int of_world; /* the function runs on the world, of ranks 0 to 2 */
	char text[RANKS_MAX][RANKS_TEXT];
};

static void body(struct rank *r)
{
	struct scene *scene = r->user;
	coll_comm_t comm = r->comm;
	int rank = r->rank;

	if (!scene->of_world) {
		if (coll_comm_split(r->comm, r->rank > 0, 0, &comm, NULL))
			rank_fail(r, "%s", coll_get_last_error(NULL));
		rank--;
	}
	if (comm && rank >= 0 && scene->fn(comm, rank))
		snprintf(scene->text[rank], RANKS_TEXT, "%s", coll_get_last_error(NULL));
	if (!scene->of_world && comm)
		coll_comm_destroy(comm);
}

/* Runs the scene, and reads the log lines of its ranks. */
static void run(struct scene *scene, int (*fn)(coll_comm_t comm, int rank))
{
	struct ranks_job job = {backend, scene->of_world ? NRANKS - 1 : NRANKS, 0, body, scene};

	scene->fn = fn;
	memset(scene->text, 0, sizeof(scene->text));
	log_begin();
	setenv("COLL_TIMEOUT", "1.5s", 1);
	setenv("COLL_STALL_AFTER", "0.2s", 1);
	ranks_ok(&job, "ends");
	unsetenv("COLL_TIMEOUT");
	unsetenv("COLL_STALL_AFTER");
	log_end();
}

static void has(const char *text, const char *words, const char *what)
{
	if (!ok(strstr(text, words) != NULL, "%s: %s", backend, what))
		diag("no '%s' in: %s", words, text);
}

static int barrier(coll_comm_t comm)
{
	int code = coll_barrier(comm);

	return code ? code : coll_sync(comm);
}

static int barrier_of(coll_comm_t comm, int rank)
{
	(void)rank;
	return barrier(comm);
}

/* -------------------------------------------------------------------------- the numbers -- */

/* Ranks 1 and 2 stay away. */
static int absent(coll_comm_t comm, int rank)
{
	if (rank) {
		ranks_sleep(3);
		return 0;
	}
	return barrier(comm);
}

static int roots(coll_comm_t comm, int rank)
{
	int32_t x = 1;
	int code = coll_broadcast(&x, &x, 1, COLL_INT32, rank == 2, comm, NULL);

	return code ? code : coll_sync(comm);
}

static int abort_it(coll_comm_t comm, int rank)
{
	return rank == 1 ? coll_comm_abort(comm) : barrier(comm);
}

/* The message is longer than the receive. */
static int misfit(coll_comm_t comm, int rank)
{
	coll_request_t request = NULL;
	char bytes[8] = "";
	int code;

	if (rank == 1)
		code = coll_isend(bytes, 8, COLL_INT8, 2, 5, comm, &request);
	else
		code = coll_irecv(bytes, 4, COLL_INT8, 1, 5, comm, &request);
	if (!rank) /* nothing comes */
		return coll_request_free(request);
	if (!code)
		code = coll_wait(request);
	coll_request_free(request);
	return code;
}

static void test_numbers(void)
{
	static struct scene scene;

	run(&scene, absent);
	has(log_text(), "rank 0 (world rank 1) waits in barrier, and nothing", "the waiting rank");
	has(log_text(), "rank 1 (world rank 2) does not answer", "a rank that does not answer");
	has(scene.text[0], "rank 0 (world rank 1): barrier timed out", "the rank whose call ends");
	has(scene.text[0], "not heard from: rank 1 (world rank 2), 2 (world rank 3);",
	    "the ranks that are missing");
	has(log_text(), "rank 0 (world rank 1): 1 of the last ", "the recorder");
	run(&scene, roots);
	has(scene.text[2], "rank 2 (world rank 3) called broadcast", "ranks whose calls differ");
	has(scene.text[2], "with root 1 (world rank 2)", "the root");
	run(&scene, abort_it);
	has(scene.text[0], "rank 1 (world rank 2) aborted the communicator", "who aborts");
	run(&scene, misfit);
	has(scene.text[2],
	    "rank 2 (world rank 3): coll_irecv of 4 int8 from rank 1 (world rank 2) with tag 5: "
	    "rank 1 (world rank 2) sent 8 bytes",
	    "a message that does not fit");
	scene.of_world = 1;
	run(&scene, absent);
	has(scene.text[0], "not heard from: rank 1, 2;", "the world has one number");
	ok(!strstr(log_text(), "world rank"), "%s: also in warnings", backend);
	scene.of_world = 0;
}

/* ------------------------------------------------------- messages that no call receives -- */

static int unreceived(coll_comm_t comm, int rank)
{
	char bytes[8] = "";
	int code = 0;

	for (uint32_t tag = 5; tag <= 6 && !rank && !code; tag++)
		code = coll_send(bytes, 8, COLL_INT8, 2, tag, comm, NULL);
	return code ? code : barrier(comm);
}

static void test_unreceived(void)
{
	static struct scene scene;

	scene.of_world = 1;
	run(&scene, barrier_of);
	ok(!log_lines("that no call has received"), "%s: no warning without such a message",
	   backend);
	run(&scene, unreceived);
	has(log_text(),
	    "rank 2 destroys a communicator with 2 messages that no call has received; rank 0 has "
	    "called "
	    "send of 8 int8 with tag 5",
	    "a warning counts the messages that nobody receives, and tells of the first");
	is_int(log_lines("that no call has received"), 1, "%s: no other rank has a warning",
	       backend);
}

/* ----------------------------------------------------------------- shrinks that differ -- */

/* Rank 0 excludes rank 2, rank 1 does not, and rank 2 makes no call but destroys its communicator. */
static int other_lists(coll_comm_t comm, int rank)
{
	const int32_t exclude[] = {2};
	coll_comm_t shrunk = NULL;
	int code;

	if (rank == 2)
		return 0;
	if (rank == 1)
		ranks_sleep(0.7);
	code = coll_comm_shrink(comm, exclude, rank == 0, &shrunk, NULL, 0);
	return shrunk ? 0 : code;
}

static void test_shrink(void)
{
	static struct scene scene;

	run(&scene, other_lists);
	has(scene.text[0],
	    "rank 1 (world rank 2) has destroyed its communicator, and has not called it",
	    "the leader says so of a rank with another list");
	has(scene.text[1],
	    "rank 2 (world rank 3) has destroyed its communicator, and has not called it",
	    "a rank that has left is not gone");
}

/* ------------------------------------------------------------------------ where ranks are -- */

/* Rank 0 waits for one of two messages that never come; the others are in a barrier. */
static int any(coll_comm_t comm, int rank)
{
	coll_request_t request[2] = {NULL, NULL};
	char bytes[8];
	int32_t at;
	int code;

	if (rank)
		return barrier(comm);
	code = coll_irecv(bytes, 4, COLL_INT8, COLL_ANY_SOURCE, COLL_ANY_TAG, comm, &request[0]);
	if (!code)
		code = coll_irecv(bytes + 4, 4, COLL_INT8, 1, 6, comm, &request[1]);
	if (!code)
		code = coll_wait_any(2, request, -1, &at);
	coll_request_free(request[0]);
	coll_request_free(request[1]);
	return code;
}

static int probe(coll_comm_t comm, int rank)
{
	coll_status_t status = {.size = sizeof(status)};

	return rank ? barrier(comm) : coll_probe(1, 9, comm, &status);
}

static void test_places(void)
{
	static struct scene scene;

	run(&scene, any);
	has(log_text(),
	    "rank 0 (world rank 1) waits in coll_irecv of 4 int8 from any rank with any tag",
	    "coll_wait_any warns");
	has(log_text(), "rank 0 (world rank 1) waits in coll_irecv from any rank with any tag",
	    "the others know of the receive");
	run(&scene, probe);
	has(log_text(),
	    " s; rank 0 (world rank 1) waits in coll_probe of a message from rank 1 (world rank 2) "
	    "with tag 9",
	    "the others know of the probe");
}

/* ------------------------------------------------------------------- who was heard from -- */

static _Atomic int sum_failed;

/* In the ring, rank 0 has its data from rank 2 alone.  Rank 1 takes part in ten sums, and not in one more. */
static int sum_without_one(coll_comm_t comm, int rank)
{
	int64_t x = 1;
	int code = COLL_SUCCESS;

	for (int i = 0; i < 11 && !code; i++) {
		if (i == 10 && rank == 1) {
			while (!atomic_load(&sum_failed))
				ranks_sleep(0.001);
			return COLL_SUCCESS;
		}
		code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_BAND, comm, NULL);
		code = code ? code : coll_sync(comm);
	}
	atomic_store(&sum_failed, 1);
	return code;
}

static void test_heard(void)
{
	static struct scene scene = {.of_world = 1};

	atomic_store(&sum_failed, 0);
	setenv("COLL_ALLREDUCE_ALGORITHM", "ring", 1);
	run(&scene, sum_without_one);
	unsetenv("COLL_ALLREDUCE_ALGORITHM");
	/* Rank 2, which rank 1 sends to, may be the first to give up. */
	has(scene.text[0],
	    strncmp(scene.text[0], "rank 2: ", 8)
		    ? "rank 1 does not answer, and has sent nothing directly to this rank"
		    : "rank 1 does not answer, and was last heard from in allreduce",
	    "a rank with which sums are complete, though no message has come from it");
	has(log_text(),
	    "rank 1 does not answer, and was last heard from in allreduce as collective",
	    "a rank whose messages have come");
}

int main(int argc, char **argv)
{
	const char *const usual[] = {"simulated", "tcp"};
	int n = argc > 1 ? argc - 1 : 2;

	for (int i = 0; i < n; i++) {
		backend = argc > 1 ? argv[i + 1] : usual[i];
		if (!ranks_can(backend))
			continue;
		test_numbers();
		test_unreceived();
		test_shrink();
		test_places();
		test_heard();
	}
	return done_testing();
}
