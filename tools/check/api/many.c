/* SPDX-License-Identifier: BSD-3-Clause */
/* many.c - several communicators and several threads at the same time. */
#include "check/api/api.h"
#include <pthread.h>

enum { MANY_THREADS = 4, MANY_ROUNDS = 40, MANY_QUESTIONS = 300 };

struct many_thread {
	pthread_t id;
	struct api_rank r;
	int number;
};

static void *many_sums(void *arg)
{
	struct many_thread *t = arg;
	struct oracle_case c = {.kind = COLL_KIND_ALLREDUCE, .dtype = COLL_INT64, .op = COLL_SUM};

	for (int i = 0; i < MANY_ROUNDS; i++) {
		c.count = (size_t)(i * 31 % 2000 + t->number);
		c.place = i % 2;
		if (!api_call_run(&t->r, &c))
			break;
	}
	return NULL;
}

static int many_start(struct api_rank *r, struct many_thread *t, void *(*fn)(void *))
{
	return !pthread_create(&t->id, NULL, fn, t) || api_fail(r, "the kit cannot start a thread");
}

/* Each rank has several threads, each with a communicator of its own. */
static void many_comms(struct api_rank *r)
{
	struct many_thread t[MANY_THREADS];
	coll_comm_t comm[MANY_THREADS];
	int made = 0, started = 0, good = 1;

	for (; made < MANY_THREADS && good; made += good) {
		good = api_did(r, coll_comm_dup(r->comm, &comm[made]), "coll_comm_dup");
		t[made] = (struct many_thread){.r = *r, .number = made};
		t[made].r.comm = good ? comm[made] : NULL;
	}
	for (; started < made && good; started += good)
		good = many_start(r, &t[started], many_sums);
	for (int i = 0; i < started; i++)
		pthread_join(t[i].id, NULL);
	for (int i = 0; i < made; i++)
		api_did(r, coll_comm_destroy(comm[i]), "coll_comm_destroy");
}

/* ------------------------------------------------------- one, asked by many threads -- */

static void *many_questions(void *arg)
{
	struct many_thread *t = arg;
	coll_result_t error;
	const char *name;
	int32_t n;

	for (int i = 0; i < MANY_QUESTIONS; i++)
		if (!api_did(&t->r, coll_comm_count(t->r.comm, &n), "coll_comm_count") ||
		    !api_did(&t->r, coll_comm_backend(t->r.comm, &name), "coll_comm_backend") ||
		    !api_did(&t->r, coll_comm_get_async_error(t->r.comm, &error),
			     "coll_comm_get_async_error") ||
		    !api_did(&t->r, error, "the asynchronous error"))
			break;
	return NULL;
}

static void many_shared(struct api_rank *r)
{
	struct many_thread t[MANY_THREADS];
	int started = 0, good = 1;

	for (; started < MANY_THREADS && good; started += good) {
		t[started] = (struct many_thread){.r = *r};
		good = many_start(r, &t[started], many_questions);
	}
	for (int i = 0; i < 100 && good; i++)
		good = api_works(r);
	for (int i = 0; i < started; i++)
		pthread_join(t[i].id, NULL);
}

/* ---------------------------------------------------- communicators made at the same time -- */

/* Every rank of the check makes a whole job of its own within its process. */
static void many_makers(struct api_rank *r)
{
	coll_comm_t comms[CHECK_RANKS];
	int32_t *x[CHECK_RANKS];
	int good;

	if (r->c->options->no_fork) {
		check_skip(r->c, "its ranks are threads of one process");
		return;
	}
	for (int32_t i = 0; i < r->nranks; i++)
		x[i] = api_buffer_of(r, i, sizeof(*x[i]));

	for (int round = 0; round < 3; round++) {
		if (!api_join_all(r, comms))
			return;
		good = api_did(r, coll_group_start(), "coll_group_start");
		for (int32_t i = 0; i < r->nranks && good; i++) {
			*x[i] = 1;
			good = api_did(
				r,
				coll_allreduce(x[i], x[i], 1, COLL_INT32, COLL_SUM, comms[i], NULL),
				"coll_allreduce");
		}
		good = api_did(r, coll_group_end(), "coll_group_end") && good;
		for (int32_t i = 0; i < r->nranks; i++) {
			good = good && api_did(r, coll_sync(comms[i]), "coll_sync");
			if (good && *x[i] != r->nranks)
				good = api_fail(r, "the sum is %d", *x[i]);
		}
		for (int32_t i = 0; i < r->nranks; i++)
			api_did(r, coll_comm_destroy(comms[i]), "coll_comm_destroy");
	}
}

/* Makes a communicator, uses it once and destroys it, again and again. */
static void many_lives(struct api_rank *r)
{
	struct api_rank again = *r;

	for (int i = 0; i < 8; i++) {
		if (!api_join(&again, &again.comm) || !api_works(&again) ||
		    !api_did(&again, coll_comm_destroy(again.comm), "coll_comm_destroy"))
			return;
	}
}

/* --------------------------------------------------- a thread of the library's own */

static const char *const many_thread_options[] = {"progress=thread", "segment=4K", NULL};

/* Runs all collectives while the progress thread and the calling thread call the plugin for one endpoint. */
static void many_thread_matrix(struct api_rank *r)
{
	int good = 1;

	r->tolerant = api_may_lack(r);
	for (int k = 0; k < ORACLE_SLOTS && good; k++)
		for (size_t count = 0; count < 4000 && good; count = count * 5 + 1) {
			const int32_t kind = oracle_kinds[k];
			struct oracle_case c = {.kind = kind,
						.dtype = COLL_FLOAT64,
						.op = COLL_SUM,
						.root = (int32_t)count % r->nranks,
						.place = kind % 2,
						.count = count};

			good = api_call_run(r, &c);
		}
}

/*
 * Rank 0 makes no further call until rank 1 has received a message larger than any buffer on the
 * way.
 */
static void many_thread_alone(struct api_rank *r)
{
	enum { N = 16 << 20 };
	unsigned char *x = api_buffer(r, N);

	if (r->rank == 0 &&
	    api_did(r, coll_send(x, N, COLL_UINT8, 1, 1, r->comm, NULL), "coll_send") &&
	    api_await(r, 0, 1))
		api_did(r, coll_sync(r->comm), "coll_sync");
	if (r->rank == 1 &&
	    api_did(r, coll_recv(x, N, COLL_UINT8, 0, 1, r->comm, NULL), "coll_recv") &&
	    api_did(r, coll_sync(r->comm), "coll_sync"))
		atomic_fetch_add(&r->c->shared->number[0], 1);
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan many_comms_plan = {.rank = many_comms};
static const struct api_plan many_shared_plan = {.rank = many_shared};
static const struct api_plan many_makers_plan = {.rank = many_makers, .flags = API_NO_COMM};
static const struct api_plan many_thread_matrix_plan = {.rank = many_thread_matrix,
							.options = many_thread_options};
static const struct api_plan many_thread_alone_plan = {.rank = many_thread_alone,
						       .options = many_thread_options};
static const struct api_plan many_lives_plan = {.rank = many_lives, .flags = API_NO_COMM};

const struct check check_api_many[] = {
	{"many-comms", "several threads of each rank use a communicator each", "coll.h, Threads",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &many_comms_plan},
	{"many-questions", "other threads ask questions while one works", "coll.h, Threads",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &many_shared_plan},
	{"many-makers", "several threads make communicators at once", "Threads", CHECK_API,
	 .ways = CHECK_EITHER, .run = api_run, .plan = &many_makers_plan},
	{"many-progress", "with progress = thread every collective agrees with the reference",
	 "Threads", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &many_thread_matrix_plan},
	{"many-progress-alone", "with progress = thread data moves between the calls",
	 "coll.h, Progress", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED | CHECK_COUNTERS, .ranks_min = 2, .ranks_max = 3,
	 .run = api_run, .plan = &many_thread_alone_plan},
	{"many-lives", "communicators are made and destroyed again and again",
	 "coll_backend_t.close", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &many_lives_plan},
	{.name = NULL},
};
