/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lifetime_test.c - lifetimes: communicators destroyed while requests, events, operations and other
 * threads' calls are under way; waits that could never end; ranks far ahead of others.
 */
#include "../lib/ranks.h"

/* Did the call fail with this code? */
static int gets(struct rank *r, coll_result_t code, coll_result_t want, const char *what)
{
	return code == want ||
	       rank_fail(r, "%s: %d, not %d (%s)", what, code, want, coll_get_last_error(NULL));
}

static int gets_float(struct rank *r, float have, float want, const char *what)
{
	return have == want || rank_fail(r, "%s: %g, not %g", what, (double)have, (double)want);
}

/* ------------------------------------------------------- requests, events, operations -- */

enum { FLOATS = 1 << 16 };

/*
 * Both requests are under way when the rank destroys the operation, frees one request, and then
 * destroys the communicator.
 */
static void run_objects(struct rank *r)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLREDUCE, .count = FLOATS};
	float *x = calloc(FLOATS, sizeof(*x)), two = 2, want = 2 * (float)r->nranks;
	coll_request_t kept, freed;
	coll_event_t before, after;
	coll_comm_t dup;
	int32_t one = 1, sum = 0;

	for (int i = 0; i < FLOATS; i++)
		x[i] = 1;
	rank_did(r, coll_comm_dup(r->comm, &dup), "dup");
	rank_did(r, coll_event_create(dup, &before), "event");
	rank_did(r, coll_event_create(dup, &after), "event");
	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&args.op, &two, COLL_FLOAT32,
						COLL_SCALAR_HOST_IMMEDIATE, dup),
		 "operation");
	args.dtype = COLL_FLOAT32;
	args.sendbuf = args.recvbuf = x;
	rank_did(r, coll_request_init(dup, &args, &kept), "init");
	rank_did(r, coll_request_init(dup, &args, &freed), "init");
	rank_did(r, coll_red_op_destroy(args.op, dup), "destroy the operation");
	rank_did(r, coll_request_start(kept), "start");
	rank_did(r, coll_request_start(freed), "start");
	rank_did(r, coll_request_free(freed), "free");
	rank_did(r, coll_event_record(before, dup), "record");
	rank_did(r, coll_comm_wait_event(r->comm, before), "wait for the event");
	rank_did(r, coll_event_destroy(before), "destroy the event");
	rank_did(r, coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "sum");
	rank_did(r, coll_event_record(after, dup), "record");
	rank_did(r, coll_comm_destroy(dup), "destroy");
	gets(r, coll_wait(kept), COLL_ERR_INVALID_ARGUMENT, "wait after destroy");
	gets(r, coll_request_start(kept), COLL_ERR_INVALID_ARGUMENT, "start after destroy");
	rank_did(r, coll_event_synchronize(after), "event after destroy");
	rank_did(r, coll_comm_wait_event(r->comm, after), "wait for it");
	rank_did(r, coll_sync(r->comm), "sync");
	if (sum != r->nranks)
		rank_fail(r, "the sum is %d", sum);
	gets_float(r, x[FLOATS - 1], want * want, "the product");
	rank_did(r, coll_request_free(kept), "free after destroy");
	rank_did(r, coll_event_destroy(after), "destroy the event");
	free(x);
}

/* ------------------------------------------------------------- other threads' calls -- */

static void *call_until_refused(void *arg)
{
	coll_comm_t comm = arg;
	int32_t x = 1;

	while (!coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, comm, NULL))
		;
	return NULL;
}

/* The other thread never stops calling; nevertheless destroy returns, and so do the calls. */
static void run_destroy_in_use(struct rank *r)
{
	double begin;
	pthread_t thread;
	coll_comm_t dup;

	for (int i = 0; i < 3; i++) {
		if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
			return;
		if (pthread_create(&thread, NULL, call_until_refused, dup))
			bail_out("cannot start a thread");
		ranks_sleep(0.002 * i);
		begin = ranks_now();
		rank_did(r, coll_comm_destroy(dup), "destroy");
		if (ranks_now() - begin > 30)
			rank_fail(r, "destroy took %.1f s", ranks_now() - begin);
		pthread_join(thread, NULL);
	}
}

/* A shrink that waits for the other ranks. */
struct shrinking {
	coll_comm_t comm;
	_Atomic int over;
};

/* The first aborts may come before the shrink has begun. */
static void *abort_until_over(void *arg)
{
	struct shrinking *s = arg;

	while (!atomic_load(&s->over)) {
		ranks_sleep(0.05);
		coll_comm_abort(s->comm);
	}
	return NULL;
}

static void *destroy_soon(void *arg)
{
	struct shrinking *s = arg;

	ranks_sleep(0.2);
	coll_comm_destroy(s->comm);
	return NULL;
}

/* Only rank 0 shrinks: it waits for the other ranks until another thread ends the wait. */
static void end_shrink(struct rank *r, coll_comm_t comm, void *(*end)(void *arg))
{
	struct shrinking s = {.comm = comm};
	double begin = ranks_now();
	coll_result_t code;
	coll_comm_t small;
	pthread_t thread;

	if (pthread_create(&thread, NULL, end, &s))
		bail_out("cannot start a thread");
	code = coll_comm_shrink(comm, NULL, 0, &small, NULL, 0);
	/* On a busy machine the communicator may be gone before the call. */
	if (end != destroy_soon || code != COLL_ERR_INVALID_ARGUMENT)
		gets(r, code, COLL_ERR_ABORTED, "shrink");
	atomic_store(&s.over, 1);
	pthread_join(thread, NULL);
	if (ranks_now() - begin > 30)
		rank_fail(r, "the end of the shrink took %.1f s", ranks_now() - begin);
}

/* A program that recovers may have aborted the communicator before it shrinks it. */
static void run_abort_shrink(struct rank *r)
{
	coll_comm_t dup;

	rank_did(r, coll_comm_dup(r->comm, &dup), "dup");
	if (r->rank == 0) {
		end_shrink(r, dup, abort_until_over);
		end_shrink(r, dup, abort_until_over);
		end_shrink(r, dup, destroy_soon);
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank)
		rank_did(r, coll_comm_destroy(dup), "destroy");
}

/* ------------------------------------------------------------------------- groups -- */

/*
 * The library refuses to wait for an operation that begins only at the end of the group; the
 * operation is unharmed.
 */
static void run_wait_in_group(struct rank *r)
{
	coll_request_t request;
	coll_event_t event;
	int32_t x = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event");
	rank_did(r, coll_barrier(r->comm), "barrier");
	coll_group_start();
	rank_did(r, coll_event_synchronize(event), "event of before");
	rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "allreduce");
	rank_did(r, coll_get_request(r->comm, &request), "request");
	rank_did(r, coll_event_record(event, r->comm), "record");
	gets(r, coll_wait(request), COLL_ERR_INVALID_USAGE, "wait");
	gets(r, coll_event_synchronize(event), COLL_ERR_INVALID_USAGE, "synchronize");
	gets(r, coll_stream_wait_event(r->comm, NULL, event), COLL_ERR_INVALID_USAGE,
	     "stream_wait_event");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_wait(request), "wait after the group");
	if (x != r->nranks)
		rank_fail(r, "the sum is %d", x);
	coll_request_free(request);
	coll_event_destroy(event);
}

/* After two errors the error text belongs to the code that the call returns. */
static void test_group_text(void)
{
	coll_comm_t comms[2];
	coll_config_t config;
	coll_result_t code;
	int32_t x = 1;

	ranks_config(&config, "simulated");
	for (int i = 0; i < 2; i++)
		if (coll_comm_init_all(&comms[i], 1, NULL, &config))
			bail_out("init_all: %s", coll_get_last_error(NULL));
	coll_group_start();
	for (int i = 0; i < 2; i++)
		coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, comms[i], NULL);
	coll_comm_abort(comms[0]);
	coll_comm_destroy(comms[1]);
	code = coll_group_end();
	is_int(code, COLL_ERR_ABORTED, "the first error of a group");
	ok(strstr(coll_get_last_error(NULL), "aborted") != NULL, "and its words: %s",
	   coll_get_last_error(NULL));
	coll_comm_destroy(comms[0]);
}

/* ---------------------------------------------------------------------- far ahead -- */

enum { AHEAD = 70000 };

/*
 * Rank 0 issues more broadcasts, alternating between two kinds, than tags have numbers, before
 * other ranks call.
 */
static void run_ahead(struct rank *r)
{
	int32_t *x = calloc(AHEAD, sizeof(*x));
	int wrong = 0;

	ranks_sleep(r->rank ? 0.5 : 0);
	for (int i = 0; i < AHEAD; i++) {
		x[i] = r->rank ? 0 : i;
		if (!rank_did(r,
			      i % 2 ? coll_broadcast(&x[i], &x[i], 1, COLL_INT32, 0, r->comm, NULL)
				    : coll_broadcast(&x[i], &x[i], 4, COLL_INT8, 0, r->comm, NULL),
			      "broadcast"))
			break;
	}
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < AHEAD; i++)
		wrong += x[i] != i;
	if (wrong)
		rank_fail(r, "%d values are wrong", wrong);
	free(x);
}

static void test_kind(void)
{
	coll_args_t args = {.size = sizeof(args)};
	coll_request_t request;
	coll_config_t config;
	coll_comm_t comm;

	ranks_config(&config, "simulated");
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		bail_out("init_all: %s", coll_get_last_error(NULL));
	for (int kind = COLL_KIND_EXSCAN + 1; kind < COLL_KIND_EXSCAN + 4; kind++) {
		args.kind = kind;
		is_int(coll_request_init(comm, &args, &request), COLL_ERR_INVALID_ARGUMENT,
		       "a request of kind %d", kind);
	}
	coll_comm_destroy(comm);
}

static const struct {
	const char *name;
	void (*fn)(struct rank *r);
} runs[] = {
	{"requests, events and operations after their communicator", run_objects},
	{"destroyed while another thread calls", run_destroy_in_use},
	{"abort and destroy while shrink waits", run_abort_shrink},
	{"waits inside a group", run_wait_in_group},
};

static void test_runs(const char *backend, int processes)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		ranks_ok(&(struct ranks_job){backend, 3, processes, runs[i].fn, NULL}, "%s",
			 runs[i].name);
	if (!ranks_small())
		ranks_ok(&(struct ranks_job){backend, 2, processes, run_ahead, NULL},
			 "a root far ahead of the others");
}

int main(void)
{
	static const char *const progress[] = {"caller", "thread"};

	setenv("COLL_DESTROY_TIMEOUT", "500ms", 1);
	setenv("COLL_TIMEOUT", "120s", 1);
	setenv("COLL_LOG", "error", 1);
	for (int i = 0; i < 2; i++) {
		setenv("COLL_PROGRESS", progress[i], 1);
		test_runs("simulated", 0);
		test_runs("tcp", 1);
		if (ranks_can("ucx"))
			test_runs("ucx", 1);
	}
	test_group_text();
	test_kind();
	return done_testing();
}
