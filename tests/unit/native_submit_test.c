/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_submit_test.c - operations submitted to a backend without a transport, linked with the
 * layers up to exec alone: the order of submission, the markers by which the core learns how far
 * the backend is, groups that hold operations back, and failures.
 */
#include "fake_backend.h"
#include "comm/call_log.h"

#include "comm/task.h"
#include "comm/moving.h"

enum { POLL_EACH = 256, MARKERS = 16 };

/* A limit, and a time behind its end also by the kernel's tick. */
enum { LIMIT_US = 1000, LATE_US = 50000 };

static int32_t in[64], out[64];

static coll_args_t call(uint64_t count)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_ALLREDUCE,
			     .dtype = COLL_INT32,
			     .sendbuf = in,
			     .recvbuf = out,
			     .count = count};
}

/* Submits one call as coll.h's functions do for a call that was checked before. */
static int now(struct rig *rig, uint64_t count)
{
	const coll_args_t args = call(count);
	struct call known = fake_call(rig->lane, &args);

	known.slot = fake_slot;
	return native_now(rig->lane, &known);
}

/* The same, with a marker before it that tells of the end of all calls so far. */
static void now_marked(struct rig *rig)
{
	native_want_marker(rig->lane);
	now(rig, 1);
}

static void queue_call(struct rig *rig, uint64_t count, uint64_t group)
{
	const coll_args_t args = call(count);

	if (fake_issue(rig->lane, &args, group))
		bail_out("cannot issue: %s", error_text());
}

static int finished(const struct rig *rig)
{
	return (int)rig->lane->finished;
}

/* Is there a plan for the very same call? */
static int is_same(struct rig *rig, const coll_args_t *args)
{
	struct op *op = plan_again(rig->lane, args);

	if (op)
		op_retire(op);
	return op != NULL;
}

static int is_alike(struct rig *rig, const coll_args_t *args)
{
	return plan_alike(rig->lane, args) != NULL;
}

static void test_known_calls(void)
{
	struct rig *rig = rig_new(fake_native);
	coll_args_t args = call(1);
	struct op *op, *first;

	ok(!is_same(rig, &args) && !is_alike(rig, &args), "a call is not known at first");
	queue_call(rig, 1, 0);
	queue_issued(rig->lane);
	first = rig->lane->queue.plans[COLL_KIND_ALLREDUCE];
	ok(is_same(rig, &args), "then it is");
	args.tag = 1;
	ok(!is_same(rig, &args) && is_alike(rig, &args), "with another tag in part");
	args.tag = 0;
	args.sendbuf = out;
	ok(!is_same(rig, &args) && is_alike(rig, &args), "with another buffer in part");
	args.count = 77;
	ok(!is_same(rig, &args) && is_alike(rig, &args), "with another count it is like it");
	args.op = COLL_MAX;
	ok(!is_alike(rig, &args), "not with another operation");
	args.op = COLL_SUM;
	args.dtype = COLL_INT64;
	ok(!is_alike(rig, &args), "not with another type");
	args.dtype = COLL_INT32;
	args.root = 1;
	ok(!is_alike(rig, &args), "not with another root");
	args.root = 0;
	args.kind = COLL_KIND_BROADCAST;
	ok(!is_alike(rig, &args), "not of another kind");
	args = call(1);
	args.sendbuf = out;
	if (fake_op(rig->lane, &args, &op))
		bail_out("%s", error_text());
	ok(op == first && op->stage == PLAN_CHOSEN, "a call with another buffer has its plan");
	op_retire(op);
	rig_free(rig);
}

/* The state of operation `number` in the log, and its count. */
static int is_recorded(struct rig *rig, uint64_t number, uint64_t count, int ended)
{
	const struct record *op = call_log_record(rig->lane, number);
	char text[160], want[64];

	if (!op)
		return 0;
	call_log_describe(rig->lane, op, text, sizeof(text));
	snprintf(want, sizeof(want), "allreduce of %d int32 (sum)", (int)count);
	return !strcmp(text, want) && op->issued_us && op->started_us >= op->issued_us &&
	       (ended ? op->ended_us >= op->started_us : !op->ended_us);
}

static void test_submit(void)
{
	struct rig *rig = rig_new(fake_native);
	char text[160];

	rig->fake.query_code = COLL_IN_PROGRESS;
	for (int i = 1; i <= 3; i++)
		is_int(now(rig, (uint64_t)i), 1, "call %d is handed over at once", i);
	is_int(rig->fake.issues, 3, "the backend has all");
	ok(rig->fake.issued[0].count == 1 && rig->fake.issued[2].count == 3, "in their order");
	ok(native_busy(rig->lane) && rig->lane->issued == 3 && !rig->lane->queue.head,
	   "none is kept");
	is_int(native_progress(rig->lane), 0, "the backend is at it");
	native_describe(rig->lane, text, sizeof(text));
	is_str(text,
	       "3 operations in the hands of backend 'fake', the last allreduce of 3 int32 (sum)",
	       "in words");
	ok(is_recorded(rig, 1, 1, 0) && is_recorded(rig, 3, 3, 0), "the log has them");
	rig->fake.query_code = COLL_SUCCESS;
	is_int(native_progress(rig->lane), 1, "then it has got on");
	is_int(finished(rig), 3, "and all are done");
	ok(is_recorded(rig, 1, 1, 1) && is_recorded(rig, 3, 3, 1), "also for the log");
	for (int i = 4; i <= 100; i++)
		now(rig, (uint64_t)i);
	ok(!call_log_record(rig->lane, 36) && is_recorded(rig, 37, 37, 0),
	   "which keeps the last 64");
	native_progress(rig->lane);
	ok(is_recorded(rig, 37, 37, 1) && is_recorded(rig, 100, 100, 1), "and ends all of these");
	is_int(native_progress(rig->lane), 0, "with nothing under way it is not asked");
	is_int(rig->fake.queries, 3, "so it was asked three times");
	rig_free(rig);
}

/*
 * A marker shows that the operations before it are complete, even if more operations have followed.
 */
static void test_markers(void)
{
	struct rig *rig = rig_new(fake_native);

	rig->fake.query_code = COLL_IN_PROGRESS;
	now_marked(rig);
	is_int(rig->fake.records, 0, "before the first operation there is nothing to mark");
	now(rig, 1);
	native_want_marker(rig->lane);
	is_int(rig->fake.records, 0, "a marker is not set before the next operation");
	now(rig, 1);
	now(rig, 1);
	is_int(rig->fake.records, 1, "then it is, once");
	native_progress(rig->lane);
	is_int(finished(rig), 0, "the stream has not passed it");
	rig->fake.passed = 1;
	is_int(native_progress(rig->lane), 1, "now it has");
	is_int(finished(rig), 2, "so the two before it are done");
	rig->fake.query_code = COLL_SUCCESS;
	native_progress(rig->lane);
	is_int(finished(rig), 4, "and at last all");
	is_int(rig->fake.events, 1, "the marker's event is kept");
	rig_free(rig);
}

/*
 * Markers that the core did not query before all was complete say nothing about later operations.
 */
static void test_old_markers(void)
{
	struct rig *rig = rig_new(fake_native);

	rig->fake.query_code = COLL_IN_PROGRESS;
	now(rig, 1);
	for (int i = 0; i < 2; i++)
		now_marked(rig);
	rig->fake.query_code = COLL_SUCCESS;
	native_progress(rig->lane);
	is_int(finished(rig), 3, "all is done");
	rig->fake.query_code = COLL_IN_PROGRESS;
	now(rig, 1);
	rig->fake.passed = rig->fake.records;
	is_int(native_progress(rig->lane), 0, "the markers before are over");
	is_int(finished(rig), 3, "and what is done stays done");
	rig_free(rig);
}

/* After all markers are in use the core reuses them, around the ring. */
static void test_marker_ring(void)
{
	struct rig *rig = rig_new(fake_native);
	int wrong = 0, number = 0;

	rig->fake.query_code = COLL_IN_PROGRESS;
	now(rig, 1);
	for (int i = 0; i < MARKERS + 5; i++)
		now_marked(rig);
	is_int(rig->fake.records, MARKERS, "there are %d markers", MARKERS);
	for (int i = 1; i <= 10; i++) {
		rig->fake.passed = i;
		native_progress(rig->lane);
		wrong += finished(rig) != i;
	}
	is_int(wrong, 0, "each says how far the backend is");
	for (int i = 0; i < 10; i++)
		now_marked(rig);
	is_int(rig->fake.records, MARKERS + 10, "those passed are used again");
	is_int(rig->fake.events, MARKERS, "with the same events");
	rig->fake.passed = MARKERS;
	native_progress(rig->lane);
	is_int(finished(rig), MARKERS, "the old ones come first");
	for (int i = 1; i <= 10; i++) {
		rig->fake.passed = MARKERS + i;
		native_progress(rig->lane);
		number = finished(rig);
		wrong += number != MARKERS + 5 + i;
	}
	is_int(wrong, 0, "then the new ones, of the operations behind (the last: %d)", number);
	rig->fake.query_code = COLL_SUCCESS;
	native_progress(rig->lane);
	is_int(finished(rig), (int)rig->lane->issued, "and at last all");
	rig_free(rig);
}

/*
 * A program that never waits still learns of failures, and markers bound the number of operations
 * whose state is unknown.
 */
static void test_polled_now_and_then(void)
{
	struct rig *rig = rig_new(fake_native);

	rig->fake.query_code = COLL_IN_PROGRESS;
	for (int i = 0; i < POLL_EACH - 1; i++)
		now(rig, 1);
	is_int(rig->fake.queries, 0, "%d operations: the backend is not asked", POLL_EACH - 1);
	now(rig, 1);
	is_int(rig->fake.queries, 1, "one more: it is");
	now(rig, 1);
	is_int(rig->fake.records, 1, "and what comes next is marked off");
	for (int i = 0; i < POLL_EACH - 2; i++)
		now(rig, 1);
	is_int(rig->fake.queries, 1, "then it is left alone as long");
	now(rig, 1);
	is_int(rig->fake.queries, 2, "before it is asked again");
	rig->fake.async_code = COLL_ERR_REMOTE;
	for (int i = 0; i < POLL_EACH; i++)
		now(rig, 1);
	is_int(rig->lane->error, COLL_ERR_REMOTE, "so a failure comes out");
	is_str(comm_failure(rig->lane), "rank 0: the fake says 6", "with the backend's words");
	is_int(rig->fake.aborts, 1, "and the backend is told to give up");
	rig_free(rig);
}

/* The companion has told of a failure: an aborted stream passes every marker. */
static void test_markers_of_aborted(void)
{
	struct rig *rig = rig_new(fake_native);

	rig->fake.query_code = COLL_IN_PROGRESS;
	now(rig, 1);
	now_marked(rig);
	atomic_store(&rig->context->notice.ended, 1);
	rig->fake.passed = 1;
	is_int(native_progress(rig->lane), 0,
	       "the stream has passed a marker since it was aborted");
	is_int(finished(rig), 0, "nothing is done");
	atomic_store(&rig->context->notice.ended, 0);
	rig->context->sleepers_have_news = 0;
	is_int(native_progress(rig->lane), 1, "without an abort it is");
	is_int(rig->context->sleepers_have_news, 1, "and threads that sleep are to look");
	rig->fake.query_code = COLL_SUCCESS;
	rig_free(rig);
}

static int32_t no_place(void *ep, coll_stream_t stream, coll_error_t *err)
{
	struct fake *f = ep;

	(void)stream;
	return fake_say(err, f->slot_code);
}

/* A refusal that is this rank's alone does not fail the communicator. */
static void test_no_place(void)
{
	struct rig *rig = rig_new(fake_native);
	const int own[] = {COLL_ERR_DEVICE, COLL_ERR_NO_MEMORY};

	rig->plugin.native.take_place = no_place;
	for (int i = 0; i < 2; i++) {
		rig->fake.slot_code = own[i];
		is_int(native_order_stream(rig->lane, NULL), own[i], "a stream takes no place");
		is_int(rig->lane->error, 0, "the communicator goes on");
	}
	rig->fake.slot_code = COLL_ERR_SYSTEM;
	is_int(native_order_stream(rig->lane, NULL), COLL_ERR_SYSTEM, "the backend is at its end");
	is_int(rig->lane->error, COLL_ERR_SYSTEM, "so is the communicator");
	rig_free(rig);
}

/* While a group is open the backend may keep operations back, and the core does not query it. */
static void test_deferred(void)
{
	struct rig *rig = rig_new(fake_native);

	rig->lane->deferred += 2;
	for (int i = 0; i < 2 * POLL_EACH; i++)
		now(rig, 1);
	now_marked(rig);
	is_int(native_progress(rig->lane), 0, "nothing is known of the stream in a group");
	is_int(rig->fake.queries + rig->fake.records, 0, "and nothing is asked or marked");
	rig->lane->deferred--;
	is_int(native_progress(rig->lane), 0, "nor before the outer group has ended");
	rig->lane->deferred--;
	is_int(native_progress(rig->lane), 1, "then it is asked");
	is_int(finished(rig), 2 * POLL_EACH + 1, "and all is done");
	rig_free(rig);
}

/* The core queues the operations of an open group, and all operations behind them. */
static void test_group_holds(void)
{
	struct rig *rig = rig_new(fake_native);

	queue_call(rig, 1, 0);
	queue_progress(rig->lane);
	is_int(rig->fake.issues, 1, "an operation without a group is handed over");
	ok(!rig->lane->queue.head, "and leaves the queue");
	rig->fake.query_code = COLL_IN_PROGRESS;
	queue_call(rig, 2, 5);
	queue_call(rig, 3, 5);
	queue_call(rig, 4, 0);
	queue_progress(rig->lane);
	is_int(rig->fake.issues, 1, "a group that is open is held, and what is behind it");
	is_int(now(rig, 5), 0, "a call behind it must be queued");
	op_release(rig->lane, 5);
	queue_progress(rig->lane);
	is_int(rig->fake.issues, 4, "it ends: all go");
	ok(rig->fake.issued[1].count == 2 && rig->fake.issued[2].count == 3 &&
		   rig->fake.issued[3].count == 4,
	   "in their order");
	is_int(finished(rig), 0, "the backend is not done with any");
	rig->fake.query_code = COLL_SUCCESS;
	queue_progress(rig->lane);
	is_int(finished(rig), 4, "then all");
	rig_free(rig);
}

/* The core ends each of the backend's groups that it has begun, also after a failure. */
static void test_backend_groups(void)
{
	struct rig *rig = rig_new(fake_native);

	native_engine.group_end(rig->lane);
	is_int(rig->fake.ends, 0, "without a begin there is no end");
	native_engine.group_begin(rig->lane);
	comm_fail(rig->lane, 1, COLL_ERR_ABORTED, "given up");
	native_engine.group_end(rig->lane);
	ok(rig->fake.begins == 1 && rig->fake.ends == 1, "what was begun is ended after a failure");
	native_engine.group_begin(rig->lane);
	is_int(rig->fake.begins, 1, "and nothing is begun");
	rig_free(rig);
}

static void test_failures(int where)
{
	static const char *const places[] = {"a slot", "query", "async_error"};
	struct rig *rig = rig_new(fake_native);

	rig->fake.query_code = COLL_IN_PROGRESS;
	if (where == 0)
		rig->fake.slot_code = COLL_ERR_SYSTEM;
	is_int(now(rig, 1), 1, "a call that %s is over", where ? "goes" : "fails");
	if (where == 1)
		rig->fake.query_code = COLL_ERR_SYSTEM;
	if (where == 2)
		rig->fake.async_code = COLL_ERR_SYSTEM;
	queue_progress(rig->lane);
	is_int(rig->lane->error, COLL_ERR_SYSTEM, "%s fails: so does the communicator",
	       places[where]);
	is_str(comm_failure(rig->lane), "rank 0: the fake says 2", "with its words");
	is_int(finished(rig), 0, "the operation is not done");
	rig_free(rig);
}

/* Without events all submitted operations complete together. */
static void no_events(struct plugin *plugin)
{
	fake_native(plugin);
	plugin->native.event_create = NULL;
	plugin->native.event_destroy = NULL;
	plugin->native.event_record = NULL;
	plugin->native.event_query = NULL;
	plugin->native.async_error = NULL;
}

static void test_no_events(void)
{
	struct rig *rig = rig_new(no_events);

	rig->fake.query_code = COLL_IN_PROGRESS;
	now(rig, 1);
	now_marked(rig);
	is_int(native_progress(rig->lane), 0, "a backend without events is busy as a whole");
	rig->fake.query_code = COLL_SUCCESS;
	is_int(native_progress(rig->lane), 1, "or done as a whole");
	is_int(finished(rig), 2, "with all operations");
	rig_free(rig);
}

/*
 * A backend with both groups of slots: operations that the native group refuses go over the
 * transport.
 */
static void both(struct plugin *plugin)
{
	fake_transport(plugin);
	fake_native(plugin);
}

static void test_refused_by_slot(void)
{
	struct rig *rig = rig_new(both);

	rig->fake.slot_code = COLL_ERR_UNSUPPORTED;
	queue_call(rig, 1, 0);
	queue_progress(rig->lane);
	ok(!rig->lane->error && rig->fake.sends > 0,
	   "an operation refused goes over the transport");
	rig->lane->error = COLL_ERR_ABORTED;
	rig->fake.slot_code = 0;
	queue_cancel(rig->lane);
	rig_free(rig);
}

static void test_slot_beside_transport(void)
{
	struct rig *rig = rig_new(both);

	rig->fake.query_code = COLL_IN_PROGRESS;
	queue_call(rig, 1, 0);
	queue_call(rig, 2, 0);
	queue_progress(rig->lane);
	is_int(rig->fake.issues, 2, "operations of the backend follow one another at once");
	is_int(finished(rig), 0, "none is done");
	rig->fake.query_code = COLL_SUCCESS;
	queue_progress(rig->lane);
	is_int(finished(rig), 2, "then both");
	rig_free(rig);
}

/* The backend completes the operation in time, but nobody looks before the limit is over. */
static void test_limit_beside_transport(void)
{
	struct rig *rig = rig_new(both);
	struct task *task;

	rig->fake.query_code = COLL_IN_PROGRESS;
	queue_call(rig, 1, 0);
	queue_progress(rig->lane);
	task = task_new(rig->lane, 1);
	if (!task)
		bail_out("%s", error_text());
	task_set_limit(task, LIMIT_US);
	task_unref(task);
	rig->fake.query_code = COLL_SUCCESS;
	usleep(LATE_US);
	queue_progress(rig->lane);
	is_int(rig->lane->error, COLL_SUCCESS, "what the backend has completed is not late");
	is_int(finished(rig), 1, "but done");
	rig_free(rig);
}

/* The state of the backend never lets later operations pass an open group. */
static void test_slots_behind_group(void)
{
	struct rig *rig = rig_new(both);

	rig->fake.query_code = COLL_IN_PROGRESS;
	queue_call(rig, 1, 0);
	queue_call(rig, 2, 5);
	queue_call(rig, 3, 0);
	queue_progress(rig->lane);
	is_int(rig->fake.issues, 1, "behind an open group nothing is handed over");
	op_release(rig->lane, 5);
	queue_progress(rig->lane);
	ok(rig->fake.issues == 3 && rig->fake.issued[1].count == 2, "at its end all is, in order");
	rig->fake.query_code = COLL_SUCCESS;
	queue_progress(rig->lane);
	is_int(finished(rig), 3, "and done");
	rig_free(rig);
}

int main(void)
{
	test_known_calls();
	test_submit();
	test_markers();
	test_old_markers();
	test_marker_ring();
	test_polled_now_and_then();
	test_markers_of_aborted();
	test_no_place();
	test_deferred();
	test_group_holds();
	test_backend_groups();
	for (int where = 0; where < 3; where++)
		test_failures(where);
	test_no_events();
	test_refused_by_slot();
	test_slot_beside_transport();
	test_limit_beside_transport();
	test_slots_behind_group();
	return done_testing();
}
