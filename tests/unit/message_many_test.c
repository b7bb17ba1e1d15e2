/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_many_test.c - thousands of open messages, and of limits for operations: a call costs the same however many
 * there are, and every send that is complete ends, also if a thread looks for it before the library's turn has come to it.
 */
#include "comm/task.h"
#include "message/message.h"

#include "fake_backend.h"

#include <time.h>

enum {
	FEW = 1000,
	MANY = 4000,
	TIMES = 10, /* as long at most; a quadratic cost would be 16 */
	TRIALS = 5, /* on a busy machine one comparison may fail */
	FAR_US = 600000000
};

static struct message *messages[MANY];

/* Seconds of processor time. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct message *begin(struct rig *rig, int kind, int tag)
{
	static int32_t x;
	const struct message_args args = {
		.kind = kind, .buf = &x, .count = 1, .dtype = COLL_INT32, .peer = 1, .tag = tag};
	struct message *m;

	if (message_new(rig->lane, &args, &m))
		bail_out("%s", error_text());
	message_start(m);
	return m;
}

static int count_done(int n)
{
	int done = 0;

	for (int i = 0; i < n; i++)
		done += messages[i]->task.done;
	return done;
}

static void forget(int n)
{
	for (int i = 0; i < n; i++)
		task_unref(&messages[i]->task);
}

/* As coll_request_set_timeout does for operation `number`, with a request that the program frees at once. */
static void limit_operation(struct lane *lane, uint64_t number, int64_t timeout_us)
{
	struct task *task = task_new(lane, number);

	if (!task)
		bail_out("%s", error_text());
	task_set_limit(task, timeout_us);
	task_unref(task);
}

static int count_limited(const struct rig *rig)
{
	int n = 0;

	for (const struct task *task = rig->lane->tasks.limited; task; task = task->next_limited)
		n++;
	return n;
}

/* ------------------------------------------------------------------------ the cost -- */

/* Begins n messages, and tests one after the other: seconds. */
static double run(int kind, int limited, int n)
{
	struct rig *rig = rig_new(fake_transport);
	double begun = now(), took;
	int done = 0;

	for (int i = 0; i < n; i++) {
		messages[i] = begin(rig, kind, i);
		if (limited)
			task_set_limit(&messages[i]->task, FAR_US);
	}
	for (int i = 0; i < n; i++) {
		context_progress(rig->context);
		done += task_is_done(&messages[i]->task);
	}
	took = now() - begun;
	if (done)
		bail_out("%d messages are done that nobody has taken or sent", done);
	message_end_all(rig->lane, COLL_ERR_ABORTED);
	forget(n);
	rig_free(rig);
	return took;
}

/* Limits the time of n operations, which end one after the other. */
static double run_limits(int kind, int limited, int n)
{
	struct rig *rig = rig_new(fake_transport);
	double begun = now(), took;

	(void)kind;
	(void)limited;
	for (int i = 1; i <= n; i++) {
		limit_operation(rig->lane, (uint64_t)i, FAR_US);
		task_check_limits(rig->lane);
	}
	for (int i = 1; i <= n; i++) {
		rig->lane->finished = (uint64_t)i;
		task_check_limits(rig->lane);
	}
	took = now() - begun;
	if (rig->lane->tasks.limited || rig->lane->tasks.awaited)
		bail_out("limits of operations that are complete are left");
	rig->lane->finished = 0;
	rig_free(rig);
	return took;
}

static void test_cost(double (*cost)(int kind, int limited, int n), int kind, int limited,
		      const char *what)
{
	double few = 0, many = 1;

	for (int trial = 0; trial < TRIALS && many > TIMES * few; trial++) {
		few = cost(kind, limited, FEW);
		many = cost(kind, limited, MANY);
	}
	diag("%d: %.4f s, %d: %.4f s, ratio %.1f", FEW, few, MANY, many, many / few);
	ok(many <= TIMES * few, "%s: %d open ones cost at most %d times as much as %d", what, MANY,
	   TIMES, FEW);
}

/* ------------------------------------------------------------------------ the ends -- */

static struct rig *rig_with_sends(void)
{
	struct rig *rig = rig_new(fake_transport);

	for (int i = 0; i < MANY; i++)
		messages[i] = begin(rig, COLL_KIND_SEND, i);
	is_int(rig->lane->messages.sends.count, MANY, "sends are open");
	return rig;
}

static void complete(struct rig *rig, int step)
{
	for (int i = 0; i < MANY; i += step)
		fake_complete(rig, i, COLL_SUCCESS);
}

static void test_ends(void)
{
	struct rig *rig = rig_with_sends();
	int turns = 0;

	fake_complete(rig, MANY - 1, COLL_SUCCESS);
	ok(task_is_done(&messages[MANY - 1]->task), "a thread finds its send complete at once");
	ok(!task_is_done(&messages[0]->task), "and another one not");
	complete(rig, 3);
	while (count_done(MANY) < MANY / 3 + 1 && turns++ < MANY)
		context_progress(rig->context);
	is_int(count_done(MANY), MANY / 3 + 1, "progress ends each complete send in turn");
	is_int(rig->lane->messages.sends.count, MANY - count_done(MANY), "the others are open");
	for (int i = 0; i < MANY; i++)
		if (!messages[i]->task.done)
			fake_complete(rig, i, COLL_SUCCESS);
	ok(rig->context->client->look(rig->context), "before a sleep all are looked at");
	is_int(count_done(MANY), MANY, "all have ended");
	ok(!rig->context->client->look(rig->context), "nothing is left");
	is_int(rig->lane->messages.looks, 0, "nothing is left to look at");
	forget(MANY);
	rig_free(rig);
}

static int is_empty(void *arg)
{
	return !((struct lane *)arg)->messages.sends.first;
}

/* A thread waits for all sends; what the last turn did not look at must not be slept through. */
static void test_wait(void)
{
	struct rig *rig = rig_with_sends();

	complete(rig, 1);
	is_int(context_wait(rig->context, is_empty, rig->lane, FAR_US), COLL_SUCCESS,
	       "a wait for all of them ends");
	forget(MANY);
	rig_free(rig);
}

static void test_failure(void)
{
	struct rig *rig = rig_with_sends();

	fake_complete(rig, MANY / 2, COLL_ERR_PEER_LOST);
	ok(task_is_done(&messages[MANY / 2]->task), "a send that has failed is done");
	is_int(messages[MANY / 2]->task.code, COLL_ERR_PEER_LOST, "its code");
	is_int(count_done(MANY), MANY, "the communicator has failed, and with it the others");
	forget(MANY);
	rig_free(rig);
}

/* Limits are looked at when the first of them is over, in whatever order they were set. */
static void test_limits(void)
{
	static const int64_t limits_us[] = {FAR_US, 1, FAR_US, 20000, FAR_US};
	enum { N = sizeof(limits_us) / sizeof(limits_us[0]) };
	struct rig *rig = rig_new(fake_transport);
	int64_t begun;

	for (int i = 0; i < N; i++) {
		messages[i] = begin(rig, COLL_KIND_RECV, i);
		task_set_limit(&messages[i]->task, limits_us[i]);
	}
	begun = clock_now_us();
	while (count_done(N) < 2 && clock_now_us() - begun < FAR_US)
		context_progress(rig->context);
	is_int(messages[1]->task.code, COLL_ERR_TIMEOUT, "the first limit");
	is_int(messages[3]->task.code, COLL_ERR_TIMEOUT, "the second limit");
	is_int(count_limited(rig), N - 2, "the others wait");
	message_end_all(rig->lane, COLL_ERR_ABORTED);
	forget(N);
	rig_free(rig);
}

static void progress_until_done(struct rig *rig, const struct message *m)
{
	const int64_t begun = clock_now_us();

	while (!m->task.done && clock_now_us() - begun < FAR_US / 100)
		context_progress(rig->context);
}

/* A limit that is set later, and ends before the one that is known already. */
static void test_limit_set_later(void)
{
	struct rig *rig = rig_new(fake_transport);

	for (int i = 0; i < 2; i++)
		messages[i] = begin(rig, COLL_KIND_RECV, i);
	task_set_limit(&messages[0]->task, FAR_US);
	context_progress(rig->context);
	task_set_limit(&messages[1]->task, FAR_US);
	task_set_limit(&messages[1]->task, 1);
	progress_until_done(rig, messages[1]);
	is_int(messages[1]->task.code, COLL_ERR_TIMEOUT, "the later limit ends its receive");
	ok(!messages[0]->task.done, "the earlier one goes on");
	is_int(count_limited(rig), 1, "one message has a limit");
	message_end_all(rig->lane, COLL_ERR_ABORTED);
	is_int(count_limited(rig), 0, "then none");
	is_int(rig->lane->messages.looks, 0, "and none is to be looked at");
	forget(2);
	rig_free(rig);
}

/* The bytes of a send are under way: it cannot be taken back, and the communicator fails. */
static void test_limit_of_send(void)
{
	struct rig *rig = rig_new(fake_transport);

	messages[0] = begin(rig, COLL_KIND_SEND, 0);
	task_set_limit(&messages[0]->task, 1);
	progress_until_done(rig, messages[0]);
	is_int(messages[0]->task.code, COLL_ERR_TIMEOUT, "the limit ends the send");
	is_int(rig->lane->error, COLL_ERR_TIMEOUT, "and the communicator");
	is_int(rig->fake.cancels, 1, "the transport gives it up");
	forget(1);
	rig_free(rig);
}

/* Ranks destroy their communicators: a receive from any of them ends with the last one. */
static void test_left(void)
{
	struct rig *rig = rig_new(fake_transport);
	static int32_t x;
	const struct message_args args = {.kind = COLL_KIND_RECV,
					  .buf = &x,
					  .count = 1,
					  .dtype = COLL_INT32,
					  .peer = COLL_ANY_SOURCE,
					  .tag = COLL_ANY_TAG};

	if (message_new(rig->lane, &args, &messages[0]))
		bail_out("%s", error_text());
	message_start(messages[0]);
	messages[1] = begin(rig, COLL_KIND_SEND, 0);
	for (uint32_t r = 2; r < FAKE_RANKS; r++)
		fake_leave(rig, r);
	context_progress(rig->context);
	ok(!messages[0]->task.done, "rank 1 is still there, and may send");
	fake_leave(rig, 1);
	context_progress(rig->context);
	is_int(messages[0]->task.code, COLL_ERR_PEER_LOST, "all have left: the receive ends");
	fake_complete(rig, 0, COLL_ERR_PEER_LOST);
	context_progress(rig->context);
	is_int(messages[1]->task.code, COLL_ERR_PEER_LOST, "a send to one of them");
	has_str(messages[1]->task.text,
		"rank 1 destroyed its communicator before rank 0 could send", "its text");
	messages[2] = begin(rig, COLL_KIND_SEND, 1);
	is_int(messages[2]->task.code, COLL_ERR_PEER_LOST, "a later send ends at once");
	is_int(rig->fake.sends, 1, "and the transport does not get it");
	messages[3] = begin(rig, COLL_KIND_RECV, 1);
	is_int(messages[3]->task.code, COLL_ERR_PEER_LOST, "a later receive too");
	is_int(rig->lane->error, 0, "the communicator goes on");
	forget(4);
	rig_free(rig);
}

static int called;

static void count_call(void *user, coll_result_t result)
{
	(void)user;
	called += result == COLL_SUCCESS;
}

static void unordered_message(struct rig *rig, int tag, uint64_t len)
{
	static const int32_t x = 1;
	const struct signature signature = {
		{(uint64_t)COLL_KIND_SEND | signature_dtype_bits(COLL_INT32), (uint64_t)tag}};

	fake_message(rig, 1, tag_unordered(rig->lane), signature, &x, len);
}

/* Threads sleep: they look again at what begins, ends or is given up. */
static void test_wakes(void)
{
	struct rig *rig = rig_new(fake_transport);

	rig->context->sleepers = 1;
	messages[0] = begin(rig, COLL_KIND_RECV, 0);
	ok(fake_woken(rig), "a receive begins");
	is_int(message_cancel(messages[0]), COLL_SUCCESS, "it is given up");
	ok(fake_woken(rig), "which its own thread must see");
	messages[1] = begin(rig, COLL_KIND_RECV, 1);
	(void)fake_woken(rig);
	unordered_message(rig, 1, sizeof(int32_t));
	context_progress(rig->context);
	is_int(messages[1]->task.code, COLL_SUCCESS, "a message comes");
	ok(fake_woken(rig), "the one that waits for it is woken");
	messages[2] = begin(rig, COLL_KIND_SEND, 2);
	(void)fake_woken(rig);
	fake_complete(rig, 0, COLL_SUCCESS);
	ok(task_is_done(&messages[2]->task), "another thread finds a send complete");
	ok(fake_woken(rig), "its own thread is woken");
	task_call_back(&messages[2]->task, count_call, NULL);
	is_int(called, 1, "a function for a message that is complete is called at once");
	rig->context->sleepers = 0;
	forget(3);
	rig_free(rig);
}

/* A message is under way to its receive: that cannot be given up, and fails with its sender. */
static void test_under_way(void)
{
	const struct signature signature = {
		{(uint64_t)COLL_KIND_SEND | signature_dtype_bits(COLL_INT32), 0}};
	struct rig *rig = rig_new(fake_transport);
	coll_sink_t sink;

	messages[0] = begin(rig, COLL_KIND_RECV, 0);
	sink = fake_begin(rig, 1, tag_unordered(rig->lane), signature, sizeof(int32_t));
	is_int(message_cancel(messages[0]), COLL_ERR_INVALID_USAGE, "it cannot be given up");
	fake_end(rig, sink, COLL_ERR_PEER_LOST);
	context_progress(rig->context);
	is_int(messages[0]->task.code, COLL_ERR_PEER_LOST, "its sender is lost");
	is_int(rig->lane->error, COLL_ERR_PEER_LOST, "and the communicator fails");
	forget(1);
	rig_free(rig);
}

/* The communicator has ended a receive: a message that comes for it later finds none. */
static void test_ended(void)
{
	const struct message_args probe = {.kind = COLL_KIND_NONE, .peer = 1, .tag = 0};
	struct rig *rig = rig_new(fake_transport);
	coll_status_t status = {0};

	messages[0] = begin(rig, COLL_KIND_RECV, 0);
	message_end_all(rig->lane, COLL_ERR_ABORTED);
	unordered_message(rig, 0, 0);
	is_int(message_probe(rig->lane, &probe, &status), 1, "a later message is kept");
	is_int(status.dtype, COLL_DTYPE_NONE, "an empty one has no type");
	is_int((int64_t)status.bytes, 0, "and no bytes");
	forget(1);
	rig_free(rig);
}

/* The send at which the library goes on is complete, and a thread has found it. */
static void test_next_look(void)
{
	struct rig *rig = rig_with_sends();
	struct message *next;

	context_progress(rig->context);
	next = rig->lane->messages.next_look;
	for (int i = 0; i < MANY; i++)
		if (messages[i] == next)
			fake_complete(rig, i, COLL_SUCCESS);
	ok(next && task_is_done(&next->task), "the next send is complete");
	ok(rig->lane->messages.next_look != next, "the library goes on behind it");
	message_end_all(rig->lane, COLL_ERR_ABORTED);
	forget(MANY);
	rig_free(rig);
}

/* The program aborts the communicator from another thread: waits for a message end. */
static void test_aborted(int probes)
{
	const struct message_args args = {.kind = COLL_KIND_NONE, .peer = 1, .tag = 0};
	struct rig *rig = rig_new(fake_transport);
	coll_status_t status = {0};

	messages[0] = begin(rig, COLL_KIND_RECV, 0);
	rig->fake.refuse = COLL_ERR_SYSTEM; /* no message is left to wait for */
	atomic_store(&rig->lane->comm->aborted, 1);
	is_int(probes ? message_probe_wait(rig->lane, &args, &status)
		      : task_wait(&messages[0]->task, NULL),
	       COLL_ERR_ABORTED, "a %s ends with the abort", probes ? "probe" : "wait");
	is_int(messages[0]->task.code, COLL_ERR_ABORTED, "and with it the receive");
	forget(1);
	rig_free(rig);
}

/* The limit of an operation that is complete lies behind one of an operation that is not. */
static void test_limit_of_complete(void)
{
	struct rig *rig = rig_new(fake_transport);
	const int64_t begun = clock_now_us();

	rig->lane->issued = 2;
	limit_operation(rig->lane, 2, FAR_US);
	limit_operation(rig->lane, 1, 1);
	rig->lane->finished = 1;
	while (clock_tick_us() <= begun + 1)
		;
	is_int(task_check_limits(rig->lane), 0,
	       "a limit that is over, of an operation that was in time");
	is_int(rig->lane->error, 0, "no failure");
	rig->lane->finished = 2;
	rig_free(rig);
}

/* The limit that ends first is not the one that was set first. */
static void test_limits_of_operations(void)
{
	static const int64_t limits_us[] = {FAR_US, 20000, FAR_US};
	enum { N = sizeof(limits_us) / sizeof(limits_us[0]) };
	struct rig *rig = rig_new(fake_transport);
	const int64_t begun = clock_now_us();
	static int32_t x[N];

	for (int i = 0; i < N; i++) {
		struct op *op = fake_empty_op(rig->lane, &x[i], &x[i], 1);

		sched_recv(&op->sched, 1, sched_slice(SCHED_RECV, 0), sizeof(x[i]), -1);
		op_enqueue(op, 0);
		limit_operation(rig->lane, (uint64_t)i + 1, limits_us[i]);
	}
	while (!task_check_limits(rig->lane) && clock_now_us() - begun < FAR_US)
		usleep(1000);
	is_int(rig->lane->error, COLL_ERR_TIMEOUT, "the limit that ends first");
	ok(strstr(comm_failure(rig->lane), "number 2 timed out") != NULL, "its operation: %s",
	   comm_failure(rig->lane));
	rig_free(rig);
}

/* The program limits an operation twice: the limit that ends first counts, and both requests may be gone. */
static void test_limit_set_twice(void)
{
	struct rig *rig = rig_new(fake_transport);
	const int64_t begun = clock_now_us();
	static int32_t x;
	struct op *op = fake_empty_op(rig->lane, &x, &x, 1);
	struct task *task = task_new(rig->lane, 1);

	if (!task)
		bail_out("%s", error_text());
	sched_recv(&op->sched, 1, sched_slice(SCHED_RECV, 0), sizeof(x), -1);
	op_enqueue(op, 0);
	task_set_limit(task, 20000);
	task_set_limit(task, FAR_US);
	is_int(count_limited(rig), 1, "a second limit of an operation is no second one to look at");
	task_unref(task);
	while (!task_check_limits(rig->lane) && clock_now_us() - begun < FAR_US / 100)
		usleep(1000);
	is_int(rig->lane->error, COLL_ERR_TIMEOUT, "the limit that ends first counts");
	rig_free(rig);
}

int main(void)
{
	test_cost(run, COLL_KIND_SEND, 0, "sends");
	test_cost(run, COLL_KIND_RECV, 1, "receives of limited time");
	test_cost(run, COLL_KIND_SEND, 1, "sends of limited time");
	test_cost(run_limits, 0, 1, "operations of limited time");
	test_ends();
	test_wait();
	test_failure();
	test_limits();
	test_limit_set_later();
	test_limit_of_send();
	test_left();
	test_wakes();
	test_under_way();
	test_ended();
	test_next_look();
	test_aborted(0);
	test_aborted(1);
	test_limit_of_complete();
	test_limits_of_operations();
	test_limit_set_twice();
	return done_testing();
}
