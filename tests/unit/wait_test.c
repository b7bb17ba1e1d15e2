/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_test.c - threads that wait on one context: over a backend that always has work and so never lets a
 * thread sleep, and over one on which something moves all the time.  Each wait ends at its timeout.
 */
#include "fake_backend.h"

#include "api/derive.h"
#include "base/clock.h"
#include "comm/life.h"
#include "comm/comm_wait.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { WAITS = 200, WAIT_US = 2000, YIELD_US = 1000, THREADS = 2, LATE_MS = 10000 };

/* Of waits for messages: a timeout; how long a message takes; a timeout that outlasts the test. */
enum { SHORT_US = 100000, SLOW_US = 500000, FAR_US = 300000000 };

static int32_t fake_wait_fd(void *ep)
{
	(void)ep;
	return -1;
}

/* There is work: nobody may sleep. */
static int32_t fake_arm(void *ep)
{
	(void)ep;
	return 1;
}

static void busy_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.wait_fd = fake_wait_fd;
	plugin->transport.arm = fake_arm;
}

static int32_t fake_arm_idle(void *ep)
{
	(void)ep;
	return 0;
}

/* There is no work, and a descriptor to sleep on. */
static void idle_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.wait_fd = fake_wait_fd;
	plugin->transport.arm = fake_arm_idle;
}

/* A rig whose threads pass on the lock without being asked, for YIELD_US of each wait. */
static struct rig *busy_rig(void)
{
	struct rig *rig = rig_new(busy_transport);

	rig->context->waits.poll_us = rig->context->waits.polls_us = 0;
	rig->context->waits.yield_us = YIELD_US;
	return rig;
}

static int never(void *arg)
{
	(void)arg;
	return 0;
}

/* The lock is held. */
static int wait_often(struct context *context)
{
	int timeouts = 0;

	for (int i = 0; i < WAITS; i++)
		timeouts += context_wait(context, never, NULL, WAIT_US) == COLL_ERR_TIMEOUT;
	return timeouts;
}

static void *wait_in_thread(void *arg)
{
	struct context *context = arg;
	intptr_t timeouts;

	context_enter(context);
	timeouts = wait_often(context);
	context_leave(context);
	return (void *)timeouts;
}

static void test_progress_thread(void)
{
	struct rig *rig = busy_rig();
	int64_t begin = clock_now_ms();

	wait_thread_start(rig->context);
	is_int(wait_often(rig->context), WAITS, "beside a progress thread: each wait ends");
	ok(clock_now_ms() - begin < LATE_MS, "beside a progress thread: in time");
	rig_free(rig);
}

static void test_callers(void)
{
	struct rig *rig = busy_rig();
	int64_t begin = clock_now_ms();
	pthread_t thread[THREADS];
	void *timeouts;

	context_leave(rig->context);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, wait_in_thread, rig->context))
			bail_out("cannot start a thread");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &timeouts);
		is_int((int)(intptr_t)timeouts, WAITS, "thread %d: each wait ends", i);
	}
	ok(clock_now_ms() - begin < LATE_MS, "%d threads: in time", THREADS);
	context_enter(rig->context);
	rig_free(rig);
}

/* ---------------------------------------------------- what ran while this thread yielded -- */

static _Atomic int64_t
	yield_us; /* another thread runs so long at each yield; 0: none, or a real one */
static _Atomic int yields;

/* In place of the C library's. */
int sched_yield(void)
{
	int64_t begin = clock_now_us(), us = atomic_load(&yield_us);

	atomic_fetch_add(&yields, 1);
	while (clock_now_us() - begin < us)
		;
	return us ? 0 : (int)syscall(SYS_sched_yield);
}

/* Waits for so long, and returns how often the wait has yielded. */
static int yields_in(struct context *context, int64_t wait_us)
{
	const int before = atomic_load(&yields);

	context_wait(context, never, NULL, wait_us);
	return atomic_load(&yields) - before;
}

/* A wait beside a program that computes sleeps instead of yielding, and looks again after a while. */
static void test_crowded_processor(void)
{
	struct rig *rig = rig_new(idle_transport);
	struct context_waits *waits = &rig->context->waits;
	int64_t begin = clock_now_ms();
	int often;

	waits->poll_us = waits->polls_us = 0;
	waits->yield_us = FAR_US;
	rig->context->oversubscribed = 0; /* crowd_test.c has ranks that share processors */
	atomic_store(&yield_us, 4000);
	is_int(yields_in(rig->context, SHORT_US / 4), 1,
	       "a yield of a tick: a thread computes there, so the wait sleeps after it");
	is_int((int)waits->crowded_for_us, 50000, "and will not yield for 50 ms");
	/* On a busy machine this thread may not run for those 50 ms. */
	waits->crowded_until_us = clock_now_us() + FAR_US;
	is_int(yields_in(rig->context, SHORT_US), 0, "a long wait sleeps on");
	waits->crowded_until_us = 0;
	is_int(yields_in(rig->context, SHORT_US / 4), 1,
	       "the next wait finds that it still computes");
	is_int((int)waits->crowded_for_us, 100000, "and will not yield for longer");
	atomic_store(&yield_us, 1);
	do
		often = yields_in(rig->context, SHORT_US);
	while (often <= 1 && clock_now_ms() - begin < LATE_MS);
	ok(often > 1, "yields that end at once: the processor is free, and waits yield again");
	waits->yields_anyway = 1;
	waits->crowded_until_us = 0;
	atomic_store(&yield_us, 4000);
	ok(yields_in(rig->context, SHORT_US) > 1,
	   "if the user has set how long, waits yield anyway");
	atomic_store(&yield_us, 0);
	rig_free(rig);
}

/* Ranks share processors: after one long yield the wait does not know yet who had the processors.  crowd_test.c tests the judgement. */
static void test_own_crowd(void)
{
	struct rig *rig = rig_new(idle_transport);
	struct context_waits *waits = &rig->context->waits;

	waits->poll_us = waits->polls_us = 0;
	waits->yield_us = FAR_US;
	rig->context->oversubscribed = 1;
	atomic_store(&yield_us, 4000);
	ok(yields_in(rig->context, SHORT_US) > 1,
	   "ranks share the processor: one yield of a tick tells nothing, waits yield on");
	waits->crowded_until_us = clock_now_us() + FAR_US;
	is_int(yields_in(rig->context, SHORT_US), 0, "until others are there");
	atomic_store(&yield_us, 0);
	rig_free(rig);
}

/* Ends a wait with this polling time, if each yield takes `us` microseconds?  On a busy machine not each wait does. */
static int polls_become(struct context *context, int64_t us, int64_t polls)
{
	int64_t begin = clock_now_ms();

	atomic_store(&yield_us, us);
	do
		context_wait(context, never, NULL, WAIT_US);
	while (context->waits.polls_us != polls && clock_now_ms() - begin < LATE_MS);
	atomic_store(&yield_us, 0);
	return context->waits.polls_us == polls;
}

static void test_shared_processor(void)
{
	struct rig *rig = busy_rig();
	struct context *context = rig->context;

	context->waits.poll_us = context->waits.polls_us = 20;
	ok(polls_become(context, 10, 1),
	   "a yield of 10 us: a rank shares the processor, so the next wait polls little");
	ok(polls_become(context, 0, 20),
	   "a yield that nobody uses: a wait polls as long as it is told");
	ok(polls_become(context, 10, 1), "shared again");
	ok(polls_become(context, 4000, 20),
	   "a yield of a tick: a thread computes there, so a yield is dear");
	context->waits.poll_us = context->waits.polls_us = 0;
	context_wait(context, never, NULL, WAIT_US);
	is_int(context->waits.polls_us, 0, "a wait never polls longer than it is told");
	rig_free(rig);
}

/* ---------------------------------------- a context on which something moves all the time -- */

/* A message that the transport is delivering, and the message that the transport delivers after it. */
static struct {
	struct rig *rig; /* NULL: none */
	coll_sink_t sink;
	int64_t end_us;          /* the time at which it has come */
	const struct op *behind; /* the receive for a message behind it; or NULL */
} coming;

static void message_to(struct rig *rig, const struct op *op)
{
	const int32_t x = 1;

	fake_message(rig, 1, op->tag, op->call.signature, &x, sizeof(x));
}

static int32_t moving_progress(void *ep)
{
	struct rig *rig = coming.rig;
	struct fake *f = ep;

	f->progresses++;
	if (rig && f == &rig->fake && clock_now_us() >= coming.end_us) {
		coming.rig = NULL;
		fake_end(rig, coming.sink, COLL_SUCCESS);
		if (coming.behind)
			message_to(rig, coming.behind);
	}
	return 1;
}

static void moving_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.progress = moving_progress;
}

static struct rig *moving_rig(void)
{
	struct rig *rig = rig_new(moving_transport);

	rig->lane->comm->timeout_us = SHORT_US;
	return rig;
}

static void test_contexts(void)
{
	struct rig *rig = moving_rig(), *other = moving_rig();

	context_leave(other->context);
	is_int(context_wait(rig->context, never, NULL, WAIT_US), COLL_ERR_TIMEOUT,
	       "a wait ends, although its context moves");
	ok(other->fake.progresses > 0, "it has driven the thread's other context");
	context_enter(other->context);
	rig_free(other);
	rig_free(rig);
}

/* The control messages of the failure stay on their way. */
static void test_flush(void)
{
	struct rig *rig = moving_rig();
	int64_t begin = clock_now_ms();

	comm_fail(rig->lane, 0, COLL_ERR_ABORTED, "a test");
	lane_flush(rig->lane);
	ok(context_controls_pending(rig->context), "the others have not been told of a failure");
	ok(clock_now_ms() - begin < LATE_MS, "the wait for that ends");
	rig_free(rig);
}

static coll_args_t recv_args(int32_t *x)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_RECV,
			     .dtype = COLL_INT32,
			     .recvbuf = x,
			     .count = 1,
			     .root = 1};
}

/* Begins a receive of one number from rank 1. */
static const struct op *begin_recv(struct lane *lane, int32_t *x)
{
	const coll_args_t args = recv_args(x);

	if (fake_issue(lane, &args, 0))
		bail_out("no receive: %s", error_text());
	queue_issued(lane);
	return lane->queue.tail;
}

/* A message from rank `peer` with this tag is on its way: from rank 1 for SLOW_US, from another rank for good. */
static void begin_message(struct rig *rig, uint32_t peer, uint64_t tag, const struct op *like,
			  const struct op *behind)
{
	coming.sink = fake_begin(rig, peer, tag, like->call.signature, sizeof(int32_t));
	coming.end_us = peer == 1 ? clock_now_us() + SLOW_US : INT64_MAX;
	coming.behind = behind;
	coming.rig = rig;
}

/* Another communicator of the context, whose messages move. */
static struct lane *begin_other(struct rig *rig)
{
	struct lane *other = NULL;

	if (comm_new(&other, rig->context, comm_draw_context_id(rig->context), 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator: %s", error_text());
	context_ref(rig->context);
	return other;
}

static void end_other(struct rig *rig, struct lane *other)
{
	rig_free_comm(rig, other);
	context_leave(rig->context);
	context_unref(rig->context, 0);
	context_enter(rig->context);
}

static void end_with_other(struct rig *rig, struct lane *other)
{
	coming.rig = NULL;
	end_other(rig, other);
	rig_free(rig);
}

static void test_own_message(void)
{
	struct rig *rig = moving_rig();
	struct lane *other = begin_other(rig);
	int32_t x = 0;
	const struct op *op = begin_recv(rig->lane, &x);

	begin_message(rig, 1, op->tag, op, NULL);
	is_int(lane_wait(rig->lane, 1, 0), COLL_SUCCESS,
	       "a message may take longer than the timeout");
	begin_recv(rig->lane, &x);
	is_int(lane_wait(rig->lane, 2, 0), COLL_ERR_TIMEOUT, "none comes: the timeout");
	end_with_other(rig, other);
}

/* The message of another communicator, for which a receive is posted or not, comes from rank `peer`. */
static int waits_beside(uint32_t peer, int posted)
{
	struct rig *rig = moving_rig();
	struct lane *other = begin_other(rig);
	int32_t x = 0, y = 0;
	const struct op *op = begin_recv(rig->lane, &x), *first = begin_recv(other, &y);
	int code;

	begin_message(rig, peer, posted ? first->tag : first->tag + 1, first, op);
	code = lane_wait(rig->lane, 1, 0);
	end_with_other(rig, other);
	return code;
}

static void test_others_messages(void)
{
	is_int(waits_beside(1, 1), COLL_SUCCESS, "it may come behind one of another communicator");
	is_int(waits_beside(1, 0), COLL_SUCCESS, "also if nothing waits for that one");
	is_int(waits_beside(2, 0), COLL_ERR_TIMEOUT, "a message from another rank: the timeout");
}

/* The message from rank `peer` is for a communicator that is destroyed while it comes, or before. */
static int waits_beside_dropped(uint32_t peer, int begun)
{
	struct rig *rig = moving_rig();
	struct lane *other = begin_other(rig), *destroyed = begin_other(rig);
	const uint64_t tag = tag_user(destroyed, 0);
	int32_t x = 0;
	const struct op *op = begin_recv(rig->lane, &x);
	int code;

	if (begun)
		begin_message(rig, peer, tag, op, op);
	end_other(rig, destroyed);
	if (!begun)
		begin_message(rig, peer, tag, op, op);
	code = lane_wait(rig->lane, 1, 0);
	end_with_other(rig, other);
	return code;
}

static void test_dropped_messages(void)
{
	is_int(waits_beside_dropped(1, 1), COLL_SUCCESS,
	       "it may come behind one of a communicator that was destroyed meanwhile");
	is_int(waits_beside_dropped(1, 0), COLL_SUCCESS, "or before");
	is_int(waits_beside_dropped(2, 1), COLL_ERR_TIMEOUT, "from another rank: the timeout");
	is_int(waits_beside_dropped(2, 0), COLL_ERR_TIMEOUT, "or before: the timeout");
}

/* ------------------------------------------------------------ functions of coll.h -- */

static void *set_timeout(void *arg)
{
	return (void *)(intptr_t)coll_comm_set_timeout(arg, SHORT_US / 1000);
}

static void test_lower_timeout(void)
{
	struct rig *rig = rig_new(fake_transport);
	pthread_t thread;
	int32_t x = 0;
	void *code;

	rig->lane->comm->timeout_us = FAR_US;
	rig->context->stall_us = 0;
	begin_recv(rig->lane, &x);
	if (pthread_create(&thread, NULL, set_timeout, rig->lane->comm->handle))
		bail_out("cannot start a thread");
	is_int(lane_wait(rig->lane, 1, 0), COLL_ERR_TIMEOUT,
	       "a wait under way takes a new timeout");
	context_leave(rig->context);
	pthread_join(thread, &code);
	context_enter(rig->context);
	is_int((int)(intptr_t)code, COLL_SUCCESS, "which another thread has set");
	rig_free(rig);
}

static void test_lower_timeout_of_shrink(void)
{
	const uint8_t excluded[FAKE_RANKS] = {0};
	struct rig *rig = rig_new(fake_transport);
	struct lane *made;
	pthread_t thread;

	rig->lane->comm->timeout_us = FAR_US;
	if (pthread_create(&thread, NULL, set_timeout, rig->lane->comm->handle))
		bail_out("cannot start a thread");
	is_int(derive_transport_shrunk(rig->lane, excluded, 0, &made), COLL_ERR_TIMEOUT,
	       "a shrink under way takes a new timeout too");
	context_leave(rig->context);
	pthread_join(thread, NULL);
	context_enter(rig->context);
	rig_free(rig);
}

/* Does one coll_wait_any move both rigs more than once?  On a busy machine not each does. */
static int wait_any_moves(struct rig *const *rig, coll_request_t *request)
{
	const int64_t begin = clock_now_ms();
	int32_t index, before[2];
	int moves;

	do {
		for (int i = 0; i < 2; i++)
			before[i] = rig[i]->fake.progresses;
		if (coll_wait_any(2, request, 50, &index) != COLL_IN_PROGRESS)
			return 0;
		moves = 1;
		for (int i = 0; i < 2; i++)
			moves &= rig[i]->fake.progresses > before[i] + 1;
	} while (!moves && clock_now_ms() - begin < LATE_MS);
	return moves;
}

static void test_wait_any(void)
{
	struct rig *rig[2] = {moving_rig(), moving_rig()};
	coll_request_t request[2] = {NULL, NULL};
	int32_t x[2];

	for (int i = 0; i < 2; i++) {
		const coll_args_t args = recv_args(&x[i]);

		rig[i]->lane->comm->timeout_us = FAR_US;
		context_leave(rig[i]->context);
		if (coll_request_issue(rig[i]->lane->comm->handle, &args, &request[i]))
			bail_out("no request: %s", error_text());
	}
	is_int(coll_wait_for(request[0], 10), COLL_IN_PROGRESS, "coll_wait_for ends in time");
	ok(wait_any_moves(rig, request), "so does coll_wait_any, and moves both communicators");
	for (int i = 0; i < 2; i++) {
		coll_request_free(request[i]);
		context_enter(rig[i]->context);
		rig_free(rig[i]);
	}
}

static void test_shrink(void)
{
	struct rig *rig = moving_rig();
	coll_comm_t made = NULL;

	context_leave(rig->context);
	is_int(coll_comm_shrink(rig->lane->comm->handle, NULL, 0, &made, NULL, 0), COLL_ERR_TIMEOUT,
	       "a shrink ends");
	context_enter(rig->context);
	rig_free(rig);
}

int main(void)
{
	setenv("COLL_PROGRESS", "thread", 1);
	setenv("COLL_LOG", "error", 1);
	test_progress_thread();
	test_callers();
	test_shared_processor();
	test_crowded_processor();
	test_own_crowd();
	test_contexts();
	test_flush();
	test_own_message();
	test_others_messages();
	test_dropped_messages();
	test_lower_timeout();
	test_lower_timeout_of_shrink();
	test_wait_any();
	test_shrink();
	return done_testing();
}
