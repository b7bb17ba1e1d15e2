/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.c - a peer dies, leaves, stays silent, aborts or makes another call.  Every other rank must
 * get the right error code and a text with that peer's number, and must neither hang nor get wrong
 * data.
 */
#include "check/api/api.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "lib/tool.h"

enum { FAULT_SLACK_MS = 4000, FAULT_ABORTED = 1, FAULT_LATE = 8 };

static coll_result_t fault_sum(const struct api_rank *r, float *x, size_t count)
{
	coll_result_t code = coll_allreduce(x, x, count, COLL_FLOAT32, COLL_MAX, r->comm, NULL);

	return code ? code : coll_sync(r->comm);
}

/* Does the call return one of the two codes, with a text that names the rank at fault? */
static int fault_named(struct api_rank *r, coll_result_t code, coll_result_t wanted, int32_t rank)
{
	const char *text = coll_get_last_error(NULL);
	char who[24];

	snprintf(who, sizeof(who), "rank %d", rank);
	if ((code == wanted || code == COLL_ERR_REMOTE) && strstr(text, who))
		return 1;
	/* A vendor's engine may know no more than that its peers do not answer. */
	if (code && api_may_lack(r))
		return 1;
	return api_fail(r, "expected error %d or %d with '%s', got %d: %s", wanted, COLL_ERR_REMOTE,
			who, code, code ? text : "");
}

/* Checks that a communicator that has failed stays failed. */
static int fault_stays(struct api_rank *r, coll_result_t code)
{
	float *x = api_buffer(r, sizeof(*x));
	coll_result_t state = COLL_SUCCESS;

	if (!api_did(r, coll_comm_get_async_error(r->comm, &state), "coll_comm_get_async_error"))
		return 0;
	if (state != code)
		return api_fail(r, "the asynchronous error is %d after a call has given %d", state,
				code);
	return api_answered(r, fault_sum(r, x, 1), code, NULL, "an operation after the failure");
}

/* --------------------------------------------------------------- death, leaving -- */

/*
 * Checks that coll_comm_get_failed names the lost rank.  A rank may learn of the loss from another rank first.  A rank that
 * has learned of it may have ended by now, so that it is lost as well.
 */
static void fault_knows(struct api_rank *r, int32_t last)
{
	int32_t lost[CHECK_RANKS], n = 0;
	int found = 0;

	for (int ms = 0; ms < FAULT_SLACK_MS; ms += 5) {
		if (!api_did(r, coll_comm_get_failed(r->comm, lost, CHECK_RANKS, &n),
			     "coll_comm_get_failed"))
			return;
		if (n || api_may_lack(r))
			break;
		api_sleep_ms(5);
	}
	if (!n && api_may_lack(r))
		return;
	for (int i = 0; i < n; i++)
		found |= lost[i] == last;
	if (!found)
		api_fail(r, "coll_comm_get_failed tells %d lost ranks, the first %d, not rank %d",
			 n, n ? lost[0] : -1, last);
}

static void fault_loop(struct api_rank *r, size_t count)
{
	int32_t last = r->nranks - 1;
	float *x = api_buffer(r, count * sizeof(*x));
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; !code; i++) {
		if (i == 5 && r->rank == last) {
			check_dies(r->c, r->slot);
			raise(SIGKILL);
		}
		code = fault_sum(r, x, count);
	}
	if (fault_named(r, code, COLL_ERR_PEER_LOST, last) && fault_stays(r, code))
		fault_knows(r, last);
}

static void fault_killed(struct api_rank *r)
{
	fault_loop(r, 100);
}

static void fault_killed_large(struct api_rank *r)
{
	fault_loop(r, 300000);
}

static void fault_leaves(struct api_rank *r)
{
	int32_t last = r->nranks - 1;
	coll_result_t code;

	if (!api_works(r))
		return;
	if (r->rank == last) {
		api_did(r, coll_comm_destroy(r->comm), "coll_comm_destroy");
		r->comm = NULL;
	}
	api_kit_barrier(r);
	if (!r->comm)
		return;
	code = coll_barrier(r->comm);
	if (fault_named(r, code, COLL_ERR_PEER_LOST, last))
		fault_stays(r, code);
}

/* ------------------------------------------------------------------------ silence -- */

static void fault_timeout(struct api_rank *r)
{
	int32_t last = r->nranks - 1;
	atomic_llong *named = &r->c->shared->number[0];
	float *x = api_buffer(r, sizeof(*x));
	coll_result_t code;
	char who[24];

	snprintf(who, sizeof(who), "rank %d", last);
	if (!api_works(r) || !api_kit_barrier(r))
		return;
	if (r->rank != last) {
		code = fault_sum(r, x, 1);
		if (code != COLL_ERR_TIMEOUT && code != COLL_ERR_REMOTE)
			api_fail(r, "a wait for a silent rank ended with %d: %s", code,
				 code ? coll_get_last_error(NULL) : "");
		atomic_fetch_add(named, strstr(coll_get_last_error(NULL), who) != NULL);
	}
	if (api_kit_barrier(r) && !r->rank && !atomic_load(named) && !api_may_lack(r))
		api_fail(r, "no rank's text names the silent rank %d: %s", last,
			 coll_get_last_error(NULL));
}

/* ------------------------------------------------------------------------- abort -- */

struct fault_waiter {
	struct api_rank *r;
	coll_result_t code;
	char text[CHECK_TEXT];
};

static void *fault_wait(void *arg)
{
	struct fault_waiter *w = arg;
	float *x = api_buffer(w->r, sizeof(*x));

	w->code = coll_allreduce(x, x, 1, COLL_FLOAT32, COLL_MAX, w->r->comm, NULL);
	atomic_fetch_add(&w->r->c->shared->number[0], 1);
	if (!w->code)
		w->code = coll_sync(w->r->comm);
	snprintf(w->text, sizeof(w->text), "%s", coll_get_last_error(NULL));
	return NULL;
}

/* On rank 0 one thread waits while another thread aborts. */
static void fault_abort_waiting(struct api_rank *r)
{
	struct fault_waiter w = {.r = r};
	float *x = api_buffer(r, sizeof(*x));
	pthread_t thread;
	int64_t begun;

	if (pthread_create(&thread, NULL, fault_wait, &w)) {
		api_fail(r, "the kit cannot start a thread");
		return;
	}
	api_await(r, 0, 1);
	api_sleep_ms(50);
	begun = tool_now_ms();
	api_did(r, coll_comm_abort(r->comm), "coll_comm_abort");
	atomic_fetch_add(&r->c->shared->number[FAULT_ABORTED], 1);
	pthread_join(thread, NULL);
	if (w.code != COLL_ERR_ABORTED)
		api_fail(r, "the aborted wait ended with %d: %s", w.code, w.text);
	if (tool_now_ms() - begun > FAULT_SLACK_MS)
		api_fail(r, "the wait ended %lld ms after the abort",
			 (long long)(tool_now_ms() - begun));
	if (api_did(r, coll_comm_abort(r->comm), "coll_comm_abort again"))
		api_answered(r, fault_sum(r, x, 1), COLL_ERR_ABORTED, NULL,
			     "an operation after abort");
}

/*
 * Waits for the abort to show.  Peers learn of it without waiting for anything; peers with a vendor's engine learn of it by
 * their timeout.
 */
static void fault_abort_seen(struct api_rank *r)
{
	int64_t deadline = tool_now_ms() + r->c->timeout_ms;
	float *x = api_buffer(r, sizeof(*x));
	coll_result_t code = COLL_SUCCESS;

	if (api_may_lack(r)) {
		/* Rank 0's part of the first operation may have arrived before rank 0 aborted. */
		if (api_await(r, FAULT_ABORTED, 1) && !fault_sum(r, x, 1) && !fault_sum(r, x, 1))
			api_fail(r, "an allreduce succeeds without rank 0, which has aborted");
		return;
	}
	while (!code && tool_now_ms() < deadline && !check_failed(r->c)) {
		if (!api_did(r, coll_comm_get_async_error(r->comm, &code),
			     "coll_comm_get_async_error"))
			return;
		api_sleep_ms(1);
	}
	if (code != COLL_ERR_REMOTE || !strstr(coll_get_last_error(r->comm), "rank 0"))
		api_fail(r, "a peer's abort gives %d: %s", code, coll_get_last_error(r->comm));
}

static void fault_abort(struct api_rank *r)
{
	if (!api_works(r))
		return;
	if (!r->rank)
		fault_abort_waiting(r);
	else
		fault_abort_seen(r);
	api_kit_barrier(r);
}

/*
 * Rank 0 aborts a fresh communicator, then a communicator with many queued operations of several
 * kinds.
 */
static void fault_abort_states(struct api_rank *r)
{
	enum { N = 1 << 16 };
	float *x = api_buffer(r, N * 8 * sizeof(*x));

	for (int round = 0; round < 2; round++) {
		if (!api_join(r, &r->comm))
			break;
		for (int i = 0; i < 8 && round; i++) {
			/* The library may refuse an operation after a peer has aborted. */
			coll_allreduce(x + i * N, x + i * N, N, COLL_FLOAT32, COLL_SUM, r->comm,
				       NULL);
			coll_recv(x, 1, COLL_FLOAT32, r->rank, 77, r->comm, NULL);
		}
		api_did(r, coll_comm_abort(r->comm), "coll_comm_abort");
		memset(x, 0, N * 8 * sizeof(*x));
		api_did(r, coll_comm_destroy(r->comm), "coll_comm_destroy after abort");
		r->comm = NULL;
	}
}

/* ---------------------------------------------------------------------- destroy -- */

/* Rank 0 aborts operations that no other rank has issued.  The wait for them ends in bounded time. */
/* May calls that do not fit end before the library hears of it? */
static int fault_may_be_late(const struct api_rank *r)
{
	return api_may_lack(r) || r->c->options->traits.engine;
}

static void fault_destroy_busy(struct api_rank *r)
{
	enum { N = 1 << 18 };
	float *x = api_buffer(r, N * sizeof(*x));
	int64_t begun;
	coll_result_t code;

	if (!api_works(r) || !api_kit_barrier(r))
		return;
	if (!r->rank) {
		begun = tool_now_ms();
		api_did(r, coll_allreduce(x, x, N, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			"coll_allreduce");
		coll_comm_destroy(r->comm);
		memset(x, 1, N * sizeof(*x));
		r->comm = NULL;
		if (tool_now_ms() - begun > FAULT_SLACK_MS + 1000)
			api_fail(r, "coll_comm_destroy took %lld ms with destroy_timeout = 300ms",
				 (long long)(tool_now_ms() - begun));
	}
	api_kit_barrier(r);
	if (r->comm) {
		code = coll_barrier(r->comm);
		/*
		 * A vendor's engine may complete a few operations with data that rank 0 had already
		 * sent.
		 */
		for (int i = 0; i < FAULT_LATE && !code && fault_may_be_late(r); i++)
			code = fault_sum(r, x, N);
		if (!code)
			api_fail(r, "a barrier succeeds without rank 0");
	}
}

/* --------------------------------------------------------------------- mismatch -- */

struct fault_mismatch {
	coll_args_t mine, odd; /* the call of the last rank, and the call of the other ranks */
	const char *word[2];   /* two words that every rank's error text must contain */
};

/* Some ranks may complete the call before the mismatch shows, but no rank completes the barrier that follows. */
static int fault_mismatch_one(struct api_rank *r, const struct fault_mismatch *m)
{
	coll_args_t args = r->rank == r->nranks - 1 ? m->odd : m->mine;
	float *x = api_buffer(r, 128 * sizeof(*x));
	coll_result_t code;
	int good = 0;

	args.sendbuf = args.recvbuf = x;
	if (!api_join(r, &r->comm))
		return 0;
	code = oracle_issue(&args, r->comm, NULL);
	code = code ? code : coll_barrier(r->comm);
	if (code != COLL_ERR_MISMATCH && fault_may_be_late(r))
		check_skip(r->c, "the library compares the calls of an engine later");
	else
		good = api_answered(r, code, COLL_ERR_MISMATCH, m->word[0],
				    "ranks call different things") &&
		       api_answered(r, code, COLL_ERR_MISMATCH, m->word[1],
				    "ranks call different things");
	/* No rank leaves before all ranks have their error. */
	good = api_kit_barrier(r) && good;
	coll_comm_destroy(r->comm);
	r->comm = NULL;
	return good;
}

static void fault_mismatch(struct api_rank *r)
{
	static const coll_args_t usual = {
		.kind = COLL_KIND_ALLREDUCE, .dtype = COLL_FLOAT32, .op = COLL_SUM, .count = 100};
	struct fault_mismatch m[] = {
		{usual, usual, {"101 float32", "100 float32"}},
		{usual, usual, {"int32", "float32"}},
		{usual, usual, {"max", "sum"}},
		{usual, usual, {"broadcast", "allreduce"}},
		{usual, usual, {"root 1", "root 0"}},
	};

	m[0].odd.count = 101;
	m[1].odd.dtype = COLL_INT32;
	m[2].odd.op = COLL_MAX;
	m[3].odd.kind = COLL_KIND_BROADCAST;
	m[4].mine.kind = m[4].odd.kind = COLL_KIND_BROADCAST;
	m[4].odd.root = 1;
	for (int i = 0; i < 5; i++)
		if (!fault_mismatch_one(r, &m[i]) || check_skipped(r->c))
			return;
}

/* The count of the receive differs from the count of the send. */
static void fault_message(struct api_rank *r)
{
	float *x = api_buffer(r, 8 * sizeof(*x));
	coll_result_t code = COLL_SUCCESS;

	if (r->rank == 0)
		code = coll_send(x, 8, COLL_FLOAT32, 1, 5, r->comm, NULL);
	if (r->rank == 1)
		code = coll_recv(x, 7, COLL_FLOAT32, 0, 5, r->comm, NULL);
	code = code ? code : coll_barrier(r->comm);
	api_answered(r, code, COLL_ERR_MISMATCH, "7 float32", "a receive of another count");
	api_kit_barrier(r);
}

/* ------------------------------------------------------------------ the table -- */

static const char *const fault_short_destroy[] = {"destroy_timeout=300ms", NULL};

static const struct api_plan fault_killed_plan = {.rank = fault_killed, .flags = API_ROUGH};
static const struct api_plan fault_killed_large_plan = {.rank = fault_killed_large,
							.flags = API_ROUGH};
static const struct api_plan fault_leaves_plan = {.rank = fault_leaves, .flags = API_ROUGH};
static const struct api_plan fault_timeout_plan = {
	.rank = fault_timeout, .flags = API_ROUGH, .timeout_ms = 1500};
static const struct api_plan fault_abort_plan = {.rank = fault_abort, .flags = API_ROUGH};
static const struct api_plan fault_abort_states_plan = {.rank = fault_abort_states,
							.flags = API_ROUGH | API_NO_COMM};
static const struct api_plan fault_destroy_busy_plan = {
	.rank = fault_destroy_busy, .flags = API_ROUGH, .options = fault_short_destroy};
static const struct api_plan fault_mismatch_plan = {.rank = fault_mismatch,
						    .flags = API_ROUGH | API_NO_COMM};
static const struct api_plan fault_message_plan = {.rank = fault_message, .flags = API_ROUGH};

const struct check check_api_fault[] = {
	{"fault-killed", "a rank that dies is named to all others", "coll_host_t.peer_lost",
	 CHECK_API, .ways = CHECK_PROCESSES, .ranks_min = 2, .run = api_run,
	 .plan = &fault_killed_plan},
	{"fault-killed-large", "a rank that dies during large transfers is named to all others",
	 "coll_host_t.peer_lost", CHECK_API, .ways = CHECK_PROCESSES, .ranks_min = 2,
	 .run = api_run, .plan = &fault_killed_large_plan},
	{"fault-leaves", "a rank that destroys its communicator early is named to the others",
	 "coll.h, coll_comm_destroy", CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2,
	 .run = api_run, .plan = &fault_leaves_plan},
	{"fault-timeout", "a wait for a silent rank ends and names it", "coll.h, Blocking",
	 CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS, .ranks_min = 2, .ranks_max = 3,
	 .run = api_run, .plan = &fault_timeout_plan},
	{"fault-abort", "an abort from another thread ends a wait, and the peers get an error",
	 "coll.h, coll_comm_abort", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS,
	 .ranks_min = 2, .run = api_run, .plan = &fault_abort_plan},
	{"fault-abort-states", "a communicator is aborted idle and busy, then destroyed",
	 "coll.h, coll_comm_abort", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &fault_abort_states_plan},
	{"fault-destroy-busy", "destroy waits a bounded time for operations under way",
	 "coll.h, coll_comm_destroy", CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2,
	 .run = api_run, .plan = &fault_destroy_busy_plan},
	{"fault-mismatch", "ranks that make different calls get an error that names both calls",
	 "coll.h, Order", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_TRANSPORT | CHECK_CARRIED,
	 .ranks_min = 2, .run = api_run, .plan = &fault_mismatch_plan},
	{"fault-message", "a receive of another count than the send is an error on both sides",
	 "coll.h, coll_send", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2, .run = api_run,
	 .plan = &fault_message_plan},
	{.name = NULL},
};
