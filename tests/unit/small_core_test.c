/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * small_core_test.c - the small core of core/README.md is real: this program links its folders alone, gives it an engine, an
 * exchange of one rank and the few functions that it asks for, and runs communicators.
 *
 * The engine copies the send buffer to the receive buffer, which is the result of an allreduce of one rank: at once, after some
 * looks, or never.  The backend is a plugin of the tree, of which the test uses the endpoint only.
 */
#include "api/comm_make.h"
#include "comm/drive.h"
#include "comm/life.h"
#include "comm/op.h"
#include "comm/comm_wait.h"
#include "base/error.h"
#include "base/handle.h"
#include "../lib/tap.h"

#include <coll/coll.h>

/* --------------------------------------------------------------------- the engine -- */

enum { AT_ONCE, LATER, NEVER };
enum { LOOKS = 5 };

static struct {
	int speed; /* AT_ONCE, LATER, NEVER */
	int looks; /* at the operation that runs */
	int started, ended, cancelled, forgotten;
} fake;

/* The result of an operation of one rank is what the rank sends. */
static void fake_copy(const struct op *op)
{
	const coll_args_t *a = &op->call.args;

	if (a->count && a->sendbuf && a->recvbuf && a->sendbuf != a->recvbuf)
		memcpy(a->recvbuf, a->sendbuf, a->count * coll_dtype_size(a->dtype));
}

static enum engine_start fake_start(struct op *op)
{
	fake.started++;
	fake.looks = 0;
	op_begin(op, OP_RUNNING);
	return ENGINE_STARTED;
}

static int fake_advance(struct op *op)
{
	if (fake.speed == NEVER || (fake.speed == LATER && ++fake.looks < LOOKS))
		return 0;
	fake_copy(op);
	op_end(op);
	fake.ended++;
	return 1;
}

static void fake_cancel(struct op *op)
{
	(void)op;
	fake.cancelled++;
}

static void fake_forget(struct op *op)
{
	(void)op;
	fake.forgotten++;
}

static const struct engine fake_engine = {
	.start = fake_start,
	.advance = fake_advance,
	.cancel = fake_cancel,
	.forget = fake_forget,
};

/* ------------------------------------------------- what the small core asks for -- */

static int fake_begin(struct lane *lane)
{
	lane->engine[ENGINE_COMPOSED] = &fake_engine;
	return COLL_SUCCESS;
}

static const struct comm_part fake_parts[] = {
	{"engine", .begin = fake_begin},
	{NULL},
};

static int fake_locate(struct op *op)
{
	(void)op;
	return COLL_SUCCESS;
}

static int fake_supports(const struct lane *lane, int kind)
{
	(void)lane;
	return kind == COLL_KIND_SCAN ? error_set(COLL_ERR_UNSUPPORTED, "no engine does a scan")
				      : COLL_SUCCESS;
}

static int fake_find_redop(const struct redop_table *table, const char *what, int dtype, int op,
			   struct redop *redop)
{
	(void)table;
	(void)what;
	*redop = (struct redop){.dtype = dtype, .op = op};
	return COLL_SUCCESS;
}

static int fake_choose(const struct lane *lane, struct call *call)
{
	(void)lane;
	call->engine = ENGINE_COMPOSED;
	return COLL_SUCCESS;
}

static void fake_nothing(struct lane *lane)
{
	(void)lane;
}

static int fake_no(struct lane *lane)
{
	(void)lane;
	return 0;
}

static unsigned fake_unexpected(const struct lane *lane, char *text, size_t size)
{
	(void)lane;
	(void)text;
	(void)size;
	return 0;
}

static int64_t fake_slice(struct stall *stall, const struct lane *lane)
{
	(void)stall;
	return lane->comm->timeout_us;
}

/* A wait without progress ends after the timeout. */
static int fake_step(struct stall *stall, struct lane *lane, int64_t idle_us)
{
	(void)stall;
	if (idle_us < lane->comm->timeout_us)
		return 0;
	comm_fail(lane, 0, COLL_ERR_TIMEOUT, "the engine does not end its operation");
	return 1;
}

static const struct comm_client fake_comms = {
	.parts = fake_parts,
	.locate = fake_locate,
	.supports = fake_supports,
	.find_redop = fake_find_redop,
	.choose = fake_choose,
	.issued = fake_nothing,
	.failed = lane_end_all,
	.check = fake_nothing,
	.look_at_messages = fake_no,
	.slice = fake_slice,
	.step = fake_step,
	.poll = fake_nothing,
	.ask_outside = fake_no,
	.listen = fake_nothing,
	.leave = fake_nothing,
	.unexpected = fake_unexpected,
};

static int fake_poll(struct context *context)
{
	(void)context;
	return 0;
}

static const struct context_client fake_contexts = {
	.comms = &fake_comms,
	.size = sizeof(struct context),
	.check = drive_check,
	.poll = fake_poll,
	.advance = drive_advance,
	.look = drive_look,
	.shut = drive_shut,
	.awaits = drive_awaits,
	.due = drive_due,
	.busy = drive_busy,
};

static int fake_check_option(const char *key, const char *value, char *why, size_t size)
{
	(void)key;
	(void)value;
	(void)why;
	(void)size;
	return 0;
}

static int made;

static void fake_made(struct context *context, uint64_t tag)
{
	(void)context;
	(void)tag;
	made++;
}

static const struct library fake_library = {
	.context = &fake_contexts,
	.check_option = fake_check_option,
	.made = fake_made,
};

/* ---------------------------------------------------------------- the meeting -- */

static int meetings;

/* A rank that is alone receives the values of its own send buffer. */
static int32_t exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	(void)user;
	(void)timeout_ms;
	memcpy(out, in, len);
	return 0;
}

static int meet(struct bootstrap **bootstrap, const struct rendezvous *m,
		const struct config *config, int failed)
{
	(void)failed;
	meetings++;
	return bootstrap_open_user(bootstrap, exchange, NULL, m->rank, m->nranks,
				   config_int(config, "init_timeout") / 1000);
}

static coll_comm_t make(void)
{
	coll_comm_t comm = NULL;
	coll_config_t config;
	const struct rendezvous m = {
		.library = &fake_library, .nranks = 1, .config = &config, .meet = meet};
	int code;

	coll_config_init(&config, sizeof(config));
	config.backend = "simulated";
	config.timeout_ms = 300;
	code = comm_make(&comm, &m, 1);
	if (code)
		bail_out("no communicator: %s", error_text());
	return comm;
}

/* ------------------------------------------------------------------- the checks -- */

static void test_calls(coll_comm_t comm, int speed, const char *name)
{
	const double x[2] = {1, 2};
	double y[2] = {0, 0};
	int started = fake.started;

	fake.speed = speed;
	is_int(coll_allreduce(x, y, 2, COLL_FLOAT64, COLL_SUM, comm, NULL), 0,
	       "%s: an allreduce is issued", name);
	is_int(fake.started, started + 1, "and its engine starts it");
	is_int(coll_sync(comm), 0, "and a wait ends it");
	ok(y[0] == x[0] && y[1] == x[1], "with the engine's result");
	is_int(coll_barrier(comm), 0, "a barrier");
}

static void test_requests(coll_comm_t comm)
{
	const int32_t x = 7;
	int32_t y = 0, done = 1;
	coll_request_t request;

	fake.speed = LATER;
	coll_allreduce(&x, &y, 1, COLL_INT32, COLL_MAX, comm, NULL);
	is_int(coll_get_request(comm, &request), 0, "a request for the last call");
	is_int(coll_test(request, &done), 0, "which is tested");
	is_int(coll_wait(request), 0, "and waited for");
	is_int(y, 7, "and has its result");
	is_int(coll_request_free(request), 0, "and is freed");
}

static void test_group(coll_comm_t comm)
{
	const int32_t x[2] = {3, 4};
	int32_t y[2] = {0, 0};
	const int started = fake.started;

	fake.speed = AT_ONCE;
	coll_group_start();
	coll_broadcast(&x[0], &y[0], 1, COLL_INT32, 0, comm, NULL);
	coll_broadcast(&x[1], &y[1], 1, COLL_INT32, 0, comm, NULL);
	is_int(fake.started, started, "nothing of an open group starts");
	is_int(coll_group_end(), 0, "the group ends");
	is_int(coll_sync(comm), 0, "and its operations");
	ok(y[0] == 3 && y[1] == 4, "with their results");
}

static void test_errors(coll_comm_t comm)
{
	const int32_t x = 1;
	int32_t y;

	is_int(coll_allreduce(&x, NULL, 1, COLL_INT32, COLL_SUM, comm, NULL),
	       COLL_ERR_INVALID_ARGUMENT, "a wrong argument is an error");
	is_str(coll_get_last_error(NULL), "allreduce: recvbuf is NULL, count is 1",
	       "whose sentence names it");
	is_int(coll_broadcast(&x, &y, 1, COLL_INT32, 1, comm, NULL), COLL_ERR_INVALID_ARGUMENT,
	       "a rank that does not exist");
	has_str(coll_get_last_error(NULL), "root is 1, but ranks go from 0 to 0", "is named");
	is_int(coll_scan(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "a call that no engine does");
	is_str(coll_get_last_error(NULL), "no engine does a scan", "has the sentence of its table");
}

static void test_queries(coll_comm_t comm)
{
	int32_t n = 0, rank = 1, count = 1;
	coll_result_t error = COLL_ERR_TIMEOUT;
	const char *name = NULL;

	coll_comm_count(comm, &n);
	coll_comm_user_rank(comm, &rank);
	coll_comm_backend(comm, &name);
	ok(n == 1 && rank == 0, "the communicator knows its ranks");
	is_str(name, "simulated", "and its backend");
	is_int(coll_comm_get_async_error(comm, &error) || error, 0, "and that nothing has failed");
	is_int(coll_comm_get_failed(comm, NULL, 0, &count) || count, 0, "nor any rank");
}

static void test_split(coll_comm_t comm)
{
	coll_comm_t split = NULL, none = comm, dup = NULL;

	fake.speed = LATER;
	is_int(coll_comm_split(comm, 5, 0, &split, NULL), 0, "a split over the engine");
	test_calls(split, AT_ONCE, "the new communicator");
	is_int(coll_comm_split(comm, COLL_SPLIT_NOCOLOR, 0, &none, NULL), 0,
	       "a split without a colour");
	ok(!none, "makes none");
	is_int(coll_comm_dup(comm, &dup), 0, "a dup");
	is_int(coll_comm_destroy(split), 0, "the split one is destroyed");
	test_calls(dup, LATER, "a dup, which outlives it");
	is_int(coll_comm_destroy(dup), 0, "and is destroyed");
}

static void test_abort(void)
{
	const int32_t x = 1;
	int32_t y = 0;
	coll_comm_t comm = make();
	const int cancelled = fake.cancelled;

	fake.speed = NEVER;
	coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL);
	is_int(coll_comm_abort(comm), 0, "an abort amid an operation");
	is_int(fake.cancelled, cancelled + 1, "which the engine cancels");
	is_int(coll_sync(comm), COLL_ERR_ABORTED, "a wait returns the abort");
	has_str(coll_get_last_error(comm), "aborted the communicator", "with its sentence");
	is_int(coll_comm_destroy(comm), 0, "then it is destroyed");
}

static void test_timeout(void)
{
	const int32_t x = 1;
	int32_t y = 0;
	coll_comm_t comm = make(), shrunk = NULL;

	fake.speed = NEVER;
	coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL);
	is_int(coll_sync(comm), COLL_ERR_TIMEOUT, "a wait that nothing ends times out");
	is_str(coll_get_last_error(comm), "the engine does not end its operation",
	       "with the sentence of the watch");
	is_int(coll_comm_shrink(comm, NULL, 0, &shrunk, NULL, 0), 0, "a shrink after the failure");
	test_calls(shrunk, AT_ONCE, "the shrunk one");
	is_int(coll_comm_destroy(shrunk), 0, "which is destroyed");
	is_int(coll_comm_destroy(comm), 0, "as is the failed one");
}

int main(void)
{
	coll_comm_t comm = make();

	is_int(meetings, 1, "the rank meets itself");
	is_int(made, 1, "the communicator is reported");
	test_calls(comm, AT_ONCE, "at once");
	test_calls(comm, LATER, "later");
	test_requests(comm);
	test_group(comm);
	test_errors(comm);
	test_queries(comm);
	test_split(comm);
	test_abort();
	test_timeout();
	is_int(coll_comm_destroy(comm), 0, "the communicator is destroyed");
	ok(fake.forgotten > 0, "and the engine forgets its operations");
	return done_testing();
}
