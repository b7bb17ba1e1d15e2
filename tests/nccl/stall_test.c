/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall_test.c - ranks that wait for each other in different calls: what they tell each other, whichever memory the
 * calls are on, and also inside of a split.
 */
#include "companion.h"

/* The others ask, and await answers, at other times than a rank asks before this timeout. */
enum { TIMEOUT_MS = 750 };

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready, done; /* ranks that have come to the scene, and that are through */
};

/* A call on host or device memory, and its wait. */
static int call_on(struct rank *r, int on_host)
{
	static _Thread_local int64_t x;
	int64_t *there = on_host ? &x : nccl_new(r->rank, &x, 1);
	int code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (!on_host)
		device_free(r->rank, there);
	return code;
}

static void begin(struct rank *r)
{
	struct scene *s = r->user;

	rank_did(r, call_on(r, 0), "device");
	rank_did(r, call_on(r, 1), "host");
	rank_did(r, call_on(r, 1), "host again");
	atomic_fetch_add(&s->ready, 1);
	wait_until(&s->ready, r->nranks);
}

/* No rank destroys its communicator before all have seen their errors. */
static void end(struct rank *r)
{
	struct scene *s = r->user;

	atomic_fetch_add(&s->done, 1);
	wait_until(&s->done, r->nranks);
	destroy(r);
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

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 1);
	setenv("COLL_STALL_AFTER", "200ms", 1);
	test_answers();
	return done_testing();
}
