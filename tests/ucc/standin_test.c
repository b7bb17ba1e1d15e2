/* SPDX-License-Identifier: BSD-3-Clause */
/* standin_test.c - how the ucc backend calls UCC, over a stand-in for UCC: its settings, its failures, its ends. */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"
#include "standin.h"

enum { BARRIERS = 100, WAITS_MOVES = 100, WAITS_S = 20, CLOSE_MOVES = 3 };

static struct ucc_standin *standin;

/* A communicator of one rank is made in this thread. */
static int standin_comms(coll_comm_t *comms, int nranks)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_config_t config;

	ranks_config(&config, "ucc");
	config.init_timeout_ms = 500;
	if (nranks > 1)
		return coll_comm_init_all(comms, nranks, NULL, &config);
	if (coll_get_unique_id(id, sizeof(id)))
		bail_out("%s", coll_get_last_error(NULL));
	return coll_comm_init_rank(comms, 1, id, 0, &config);
}

static void standin_end(coll_comm_t *comms, int nranks)
{
	for (int r = 0; r < nranks; r++)
		is_int(coll_comm_destroy(comms[r]), 0, "rank %d is destroyed", r);
}

/* -------------------------------------------------------------------------- calls -- */

static void barriers(struct rank *r)
{
	int64_t x = 1, y;

	for (int i = 0; i < BARRIERS; i++) {
		rank_did(r, coll_barrier(r->comm), "barrier");
		rank_did(r, coll_group_start(), "group_start");
		rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_sync(r->comm), "sync");
	}
}

/* UCC could keep its locks for ever if pthread_cancel ended a thread in it. */
static void test_cancelling(void)
{
	const struct ranks_job job = {.backend = "ucc", .nranks = 2, .fn = barriers};

	standin->needs_moves = 3;
	standin->cancellable = 0;
	ranks_ok(&job, "barriers and groups");
	is_int(standin->cancellable, 0, "no call of UCC can be cancelled");
	is_int(standin->preconnect, 0, "UCC connects no ranks in open");
}

/* The last bytes of a call that is complete at once may still be in UCX. */
static void test_rest(void)
{
	coll_comm_t comm;

	standin->needs_moves = 0;
	is_int(standin_comms(&comm, 1), 0, "a communicator");
	standin->moves = 0;
	is_int(coll_barrier(comm), 0, "a barrier");
	is_int(coll_sync(comm), 0, "sync");
	ok(standin->moves > 0, "UCC moves after its last call");
	standin_end(&comm, 1);
}

/* -------------------------------------------------------------------------- waits -- */

static void wait_sync(struct rank *r, int32_t *x)
{
	rank_did(r, coll_recv(x, 1, COLL_INT32, 1, 0, r->comm, NULL), "recv");
	rank_did(r, coll_sync(r->comm), "sync");
}

static void wait_wait(struct rank *r, int32_t *x)
{
	rank_ends(r, rank_irecv(r, x, 1, 1, 0), COLL_SUCCESS, "wait");
}

static void wait_test(struct rank *r, int32_t *x)
{
	coll_request_t request = rank_irecv(r, x, 1, 1, 0);
	int32_t done = 0;

	while (!done && rank_did(r, coll_test(request, &done), "test"))
		;
	rank_did(r, coll_request_free(request), "free");
}

/* coll_wait_some and coll_wait_any, with each kind of limit. */
static void wait_some(struct rank *r, int32_t *x, int any, int64_t timeout_ms)
{
	coll_request_t request = rank_irecv(r, x, 1, 1, 0);
	int32_t index, count;
	coll_result_t code;

	do
		code = any ? coll_wait_any(1, &request, timeout_ms, &index)
			   : coll_wait_some(1, &request, timeout_ms, &index, &count);
	while (code == COLL_IN_PROGRESS);
	rank_did(r, code, "wait_some");
	rank_did(r, coll_request_free(request), "free");
}

static void wait_some_now(struct rank *r, int32_t *x)
{
	wait_some(r, x, 0, 0);
}

static void wait_some_long(struct rank *r, int32_t *x)
{
	wait_some(r, x, 0, -1);
}

static void wait_any_short(struct rank *r, int32_t *x)
{
	wait_some(r, x, 1, 1);
}

static void wait_any_long(struct rank *r, int32_t *x)
{
	wait_some(r, x, 1, -1);
}

static void wait_for(struct rank *r, int32_t *x)
{
	coll_request_t request = rank_irecv(r, x, 1, 1, 0);

	rank_did(r, coll_wait_for(request, 60000), "wait_for");
	rank_did(r, coll_request_free(request), "free");
}

static void wait_event(struct rank *r, int32_t *x, int asks)
{
	coll_event_t event;
	coll_result_t code;

	rank_did(r, coll_recv(x, 1, COLL_INT32, 1, 0, r->comm, NULL), "recv");
	if (!rank_did(r, coll_event_create(r->comm, &event), "event_create"))
		return;
	rank_did(r, coll_event_record(event, r->comm), "event_record");
	do
		code = asks ? coll_event_query(event) : coll_event_synchronize(event);
	while (code == COLL_IN_PROGRESS);
	rank_did(r, code, "the event");
	rank_did(r, coll_event_destroy(event), "event_destroy");
}

static void wait_event_synchronize(struct rank *r, int32_t *x)
{
	wait_event(r, x, 0);
}

static void wait_event_query(struct rank *r, int32_t *x)
{
	wait_event(r, x, 1);
}

static void wait_probe(struct rank *r, int32_t *x)
{
	coll_status_t status = {.size = sizeof(status)};

	rank_did(r, coll_probe(1, 0, r->comm, &status), "probe");
	wait_wait(r, x);
}

static void wait_iprobe(struct rank *r, int32_t *x)
{
	coll_status_t status = {.size = sizeof(status)};
	int32_t found = 0;

	while (!found && rank_did(r, coll_iprobe(1, 0, r->comm, &found, &status), "iprobe"))
		;
	wait_wait(r, x);
}

static const struct way {
	const char *name;
	void (*receive)(struct rank *r, int32_t *x);
	int by_receive; /* the message is one of coll_send */
} ways[] = {
	{"coll_sync", wait_sync, 1},
	{"coll_wait", wait_wait, 0},
	{"coll_test", wait_test, 0},
	{"coll_wait_some that only asks", wait_some_now, 0},
	{"coll_wait_some", wait_some_long, 0},
	{"coll_wait_any for a millisecond", wait_any_short, 0},
	{"coll_wait_any", wait_any_long, 0},
	{"coll_wait_for", wait_for, 0},
	{"coll_event_synchronize", wait_event_synchronize, 1},
	{"coll_event_query", wait_event_query, 1},
	{"coll_probe", wait_probe, 0},
	{"coll_iprobe", wait_iprobe, 0},
};

/* Rank 1 sends once the wait of rank 0 has moved UCX, as another rank may need. */
static void waits(struct rank *r)
{
	const struct way *way = r->user;
	const double end = ranks_now() + WAITS_S;
	int64_t sum = 1;
	int32_t x = 7;

	if (r->rank == 0) {
		rank_did(r, coll_allreduce(&sum, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		x = 0;
		way->receive(r, &x);
		rank_is(r, x, 7, "the message");
	} else {
		while (standin->moves < WAITS_MOVES && ranks_now() < end)
			ranks_sleep(0.001);
		if (standin->moves < WAITS_MOVES)
			rank_fail(r, "UCX was moved %d times", standin->moves);
		rank_did(r, coll_allreduce(&sum, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		if (way->by_receive)
			rank_did(r, coll_send(&x, 1, COLL_INT32, 0, 0, r->comm, NULL), "send");
		else
			rank_ends(r, rank_isend(r, &x, 1, 0, 0), COLL_SUCCESS, "isend");
	}
	rank_did(r, coll_sync(r->comm), "sync");
}

/* A call of UCC is under way (`needs_moves`), or complete on this rank, while it waits for a call of the companion. */
static void test_waits(int needs_moves)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct ranks_job job = {.backend = "ucc",
					      .nranks = 2,
					      .fn = waits,
					      .user = (void *)(uintptr_t)&ways[i]};

		standin->needs_moves = needs_moves;
		standin->moves = 0;
		ranks_ok(&job, "%s moves UCC, whose call is %s", ways[i].name,
			 needs_moves ? "under way" : "complete");
	}
}

/* ---------------------------------------------------------------- derived communicators -- */

/* A sum over the communicator is a call of UCC on its own team. */
static void sum_by_ucc(struct rank *r, coll_comm_t comm, const char *what)
{
	struct ucc_team *team;
	void *handle = NULL;
	int64_t x = 1;

	if (!rank_did(r, coll_comm_native_handle(comm, &handle), "native_handle"))
		return;
	team = handle;
	rank_is(r, team->collectives, 0, "the calls on a new team");
	rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, comm, NULL), what);
	rank_did(r, coll_sync(comm), "sync");
	rank_is(r, team->collectives, 1, what);
}

static void derives(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t copy = NULL, half = NULL, rest = NULL;

	if (rank_did(r, coll_comm_dup(r->comm, &copy), "dup"))
		sum_by_ucc(r, copy, "the dup");
	if (rank_did(r, coll_comm_split(r->comm, r->rank ? 0 : COLL_SPLIT_NOCOLOR, 0, &half, NULL),
		     "split") &&
	    half)
		sum_by_ucc(r, half, "the split");
	if (r->rank < last &&
	    rank_did(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0), "shrink"))
		sum_by_ucc(r, rest, "the shrunk one");
	rank_did(r, copy ? coll_comm_destroy(copy) : 0, "destroy");
	rank_did(r, half ? coll_comm_destroy(half) : 0, "destroy");
	rank_did(r, rest ? coll_comm_destroy(rest) : 0, "destroy");
}

static void test_derived(void)
{
	const struct ranks_job job = {.backend = "ucc", .nranks = 3, .fn = derives};

	standin->needs_moves = 1;
	ranks_ok(&job, "derived communicators have teams of UCC");
}

/* The ranks that stay have no context: all of them learn it, and why. */
static void fails_shrink(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;

	if (r->rank == last)
		return;
	standin->makes_contexts = 0;
	if (!coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0) || rest)
		rank_fail(r, "a shrink without a context of UCC");
	rank_says(r, "ucc_context_create: UCC says No", "the reason");
	standin->makes_contexts = 1;
	if (rank_did(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0), "shrink again"))
		rank_did(r, coll_comm_destroy(rest), "destroy");
}

static void *aborts(void *arg)
{
	ranks_sleep(0.2);
	(void)coll_comm_abort(((struct rank *)arg)->comm);
	return NULL;
}

/* No team gets ready, and a thread of rank 0 aborts the communicator that shrinks. */
static void aborts_shrink(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	const double begin = ranks_now();
	coll_comm_t rest = NULL;
	coll_result_t code;
	pthread_t thread;

	if (r->rank == last)
		return;
	standin->makes_teams = 0;
	if (r->rank == 0 && pthread_create(&thread, NULL, aborts, r)) {
		rank_fail(r, "no thread");
		return;
	}
	code = coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0);
	if (r->rank == 0)
		pthread_join(thread, NULL);
	if (r->rank ? !code : code != COLL_ERR_ABORTED)
		rank_fail(r, "the shrink returns %d: %s", code, coll_get_last_error(NULL));
	if (ranks_now() - begin > WAITS_S)
		rank_fail(r, "the shrink took %g s", ranks_now() - begin);
}

static void test_shrink_fails(void)
{
	const struct ranks_job job = {.backend = "ucc", .nranks = 3, .fn = fails_shrink};

	const struct ranks_job aborted = {.backend = "ucc", .nranks = 3, .fn = aborts_shrink};

	ranks_ok(&job, "a shrink for which UCC makes no context");
	standin->makes_contexts = 1;
	ranks_ok(&aborted, "an abort ends a shrink for which UCC makes no team");
	standin->makes_teams = 1;
}

/* -------------------------------------------------------------------------- close -- */

/* Rank 0 destroys first, and waits for the others, which may still need its data. */
static void closes(struct rank *r)
{
	coll_comm_t copy = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &copy), "dup"))
		return;
	rank_did(r, coll_barrier(copy), "barrier");
	if (r->rank)
		ranks_sleep(0.5);
	standin->moves = 0;
	rank_did(r, coll_comm_destroy(copy), "destroy");
	if (r->rank == 0 && standin->moves < CLOSE_MOVES)
		rank_fail(r, "UCX was not moved while the rank waited for the others");
}

static void test_close(void)
{
	const struct ranks_job job = {.backend = "ucc", .nranks = 2, .processes = 1, .fn = closes};

	ranks_ok(&job, "a rank that waits to close moves UCX");
}

/* ----------------------------------------------------------------------- settings -- */

static void test_tune(void)
{
	coll_comm_t comms[3];

	standin->takes_tune = 0;
	log_begin();
	is_int(standin_comms(comms, 3), 0, "communicators without the setting TUNE");
	log_end();
	ok(log_lines("UCC_TL_UCP_TUNE") > 0, "a warning names the setting");
	standin->takes_tune = 1;
	standin_end(comms, 3);
}

static void test_old_warning(void)
{
	coll_comm_t comm;

	standin->warns = 1;
	is_int(standin_comms(&comm, 1), 0, "a communicator with a warning");
	standin_end(&comm, 1);
	standin->makes_contexts = 0;
	ok(standin_comms(&comm, 1), "no context, with a warning");
	has_str(coll_get_last_error(NULL), "a warning of the stand-in", "the reason");
	standin->makes_contexts = 1;
	is_int(standin_comms(&comm, 1), 0, "a communicator with a warning");
	standin_end(&comm, 1);
	standin->warns = standin->makes_contexts = 0;
	ok(standin_comms(&comm, 1), "no context, without a warning");
	ok(!strstr(coll_get_last_error(NULL), "stand-in"), "an old warning is not the reason: %s",
	   coll_get_last_error(NULL));
	standin->makes_contexts = 1;
}

/* --------------------------------------------------------------------------- ends -- */

/* UCC would go on to make the team in a context that has ended. */
static void test_unfinished(void)
{
	coll_comm_t comm;

	standin->makes_teams = 0;
	is_int(standin_comms(&comm, 1), COLL_ERR_TIMEOUT, "no team gets ready");
	is_int(standin->ended_early, 0, "the context of the team stays");
	standin->makes_teams = 1;
}

static coll_comm_t exit_comm;

/* An exit handler of the program: it runs after those that the library installed later. */
static void exit_calls(void)
{
	const int moves = standin->moves, ended = standin->contexts_ended;
	const int code = coll_barrier(exit_comm);

	(void)coll_comm_destroy(exit_comm);
	_exit(!code ? 2 : standin->moves != moves ? 3 : standin->contexts_ended != ended ? 4 : 0);
}

static void test_exit(void)
{
	int status = 0;
	const pid_t pid = fork();

	if (!pid) {
		atexit(exit_calls);
		exit(standin_comms(&exit_comm, 1) || coll_barrier(exit_comm) ||
		     coll_sync(exit_comm));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "calls at the end of the process fail without UCC");
}

int main(void)
{
	ranks_plugins(".libs", NULL);
	standin = standin_open();
	test_exit();  /* first: a child of a process that uses UCC cannot */
	test_close(); /* its ranks are children too */
	test_cancelling();
	test_rest();
	test_waits(0);
	test_waits(WAITS_MOVES / 2);
	test_derived();
	test_shrink_fails();
	test_tune();
	test_old_warning();
	test_unfinished();
	return done_testing();
}
