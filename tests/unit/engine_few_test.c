/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_few_test.c - calls of few steps, which start without the engine's lists, linked with the layers up to exec
 * alone: whichever send completes at once and whichever message is there before, the first time and repeated, through
 * the queue and at once (engine.h).
 */
#include "compose/composed.h"
#include "comm/task.h"

#include "fake_backend.h"
#include "comm/call_log.h"
#include "transport/traffic.h"

enum {
	TEST_OWN = 5,     /* this rank's input; ranks 1 and 2 send */
	TEST_FIRST = 20,  /* the input of rank 1, and */
	TEST_SECOND = 300 /* the sum of ranks 2 and 3 */
};

static unsigned few_at_once; /* bit k: the k-th send completes within send() */
static int few_refused;      /* the number of the send that is refused, or -1 */
static int32_t few_value[2]; /* what the sends carried */

static int few_dirty; /* bytes of the plugin's memory in sends that were not 0 */

static void (*few_news)(void *ep); /* what the next progress() does, once */

static int32_t few_transport_progress(void *ep)
{
	void (*news)(void *ep) = few_news;

	few_news = NULL;
	if (news)
		news(ep);
	return fake_progress(ep) + (news != NULL);
}

static int32_t few_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct fake *f = ep;
	int k = f->sends;

	for (size_t i = 0; i < sizeof(send->plugin); i++)
		few_dirty += ((const char *)send->plugin)[i] != 0;
	memset(send->plugin, 0xff, sizeof(send->plugin));
	if (k == few_refused)
		return error_fill(err, COLL_ERR_SYSTEM, "no room for send %d", k);
	if (k < 2)
		memcpy(&few_value[k], send->buf, sizeof(few_value[k]));
	if (few_at_once >> k & 1)
		send->status = COLL_SUCCESS;
	return fake_send(ep, send, err);
}

static void few_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.send = few_send;
	plugin->transport.progress = few_transport_progress;
}

/* ------------------------------------------------------------------ an allreduce -- */

/* Rank 0 of four: recursive doubling exchanges with rank 1, then with rank 2. */
struct few {
	struct rig *rig;
	int again;   /* repeated calls start at once, without the queue */
	int repeats; /* this call does */
	coll_args_t args;
	struct op *op;
	int32_t in, out;
};

static struct op *few_op(struct few *few, void *out)
{
	struct lane *lane = few->rig->lane;
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = &few->in,
				  .recvbuf = out,
				  .count = 1};
	struct op *op;

	few->args = args;
	few->repeats = few->again && lane->queue.plans[COLL_KIND_ALLREDUCE];
	op = few->repeats ? lane->queue.plans[COLL_KIND_ALLREDUCE] : plan_again(lane, &args);
	if (!op && fake_op(lane, &args, &op))
		bail_out("cannot make an operation: %s", error_text());
	few->op = op;
	few->in = TEST_OWN;
	few->rig->fake.sends = 0;
	few_at_once = 0;
	few_refused = -1;
	return op;
}

static void few_message(struct few *few, int from, uint64_t meta)
{
	int32_t value = from == 1 ? TEST_FIRST : TEST_SECOND;
	struct signature signature = few->op->call.signature;

	signature.meta[1] += meta;
	fake_message(few->rig, (uint32_t)from, tag_collective(few->rig->lane, few->op->seq, 0),
		     signature, &value, sizeof(value));
}

/* Issues a call that repeats an earlier one: 1.  0: it cannot start at once, and nothing was done. */
static int few_repeat(struct lane *lane, const coll_args_t *args)
{
	struct op *op = plan_again(lane, args);

	if (op && composed_engine.at_once(op))
		return 1;
	if (op)
		op_retire(op);
	return 0;
}

static void few_issue(struct few *few)
{
	if (few->repeats) {
		if (!few_repeat(few->rig->lane, &few->args))
			bail_out("the call does not start at once");
		return;
	}
	op_enqueue(few->op, 0);
	queue_issued(few->rig->lane);
}

/* Moves the context in one of the two ways of a wait. */
static void few_progress(struct few *few)
{
	if (!few->again || !composed_poll(few->rig->context))
		context_progress(few->rig->context);
}

/* Completes the sends that are under way. */
static void few_complete(struct few *few)
{
	struct fake *f = &few->rig->fake;

	for (int k = 0; k < f->sends; k++)
		if (f->send[k] && f->send[k]->status == COLL_IN_PROGRESS)
			fake_complete(few->rig, k, COLL_SUCCESS);
	few_progress(few);
}

/*
 * Bits of `way`: 1 and 2: that send completes at once; 4 and 8: the message of rank 1, of rank 2 is there before;
 * 16: the message of rank 2 comes first; 32: sends complete before the late messages come.
 */
static void few_run(struct few *few, unsigned way)
{
	few->op->seq = few->rig->lane->seq;
	few_at_once = way & 3;
	if (way & 4)
		few_message(few, 1, 0);
	if (way & 8)
		few_message(few, 2, 0);
	few_issue(few);
	if (way & 32)
		few_complete(few);
	for (int k = 0; k < 2; k++) {
		int from = (way & 16) ? 2 - k : 1 + k;

		if (!(way & (from == 1 ? 4 : 8)))
			few_message(few, from, 0);
		few_progress(few);
	}
	few_complete(few);
	few_complete(few);
}

static void test_ways(int in_place, int again)
{
	struct few few = {.rig = rig_new(few_transport), .again = again};
	struct lane *lane = few.rig->lane;
	int32_t *out = in_place ? &few.in : &few.out;
	int wrong = 0, unfinished = 0;

	for (unsigned run = 0; run < 128; run++) {
		int sent;

		few_op(&few, out);
		few.out = 0;
		few_run(&few, run % 64);
		sent = few_value[0] == TEST_OWN && few_value[1] == TEST_OWN + TEST_FIRST;
		wrong += *out != TEST_OWN + TEST_FIRST + TEST_SECOND || !sent ||
			 few.rig->fake.sends != 2;
		unfinished += lane->finished != lane->issued || lane->error;
		if ((wrong || unfinished) && lane->error)
			break;
	}
	is_int(unfinished, 0, "%s%s: every call ends", in_place ? "in place" : "two buffers",
	       again ? ", at once" : "");
	is_int(wrong, 0, "with its result");
	is_int(few_dirty, 0, "the plugin's memory in a send is cleared each time");
	is_int(few.op->sched.nsteps, in_place ? 6 : 5,
	       in_place ? "in place both messages wait in scratch memory"
			: "the first message is added as it arrives");
	is_int((int64_t)call_log_record(lane, lane->issued)->kind, COLL_KIND_ALLREDUCE,
	       "the log has the last call");
	rig_free(few.rig);
}

/* Recursive halving over a power of two of ranks sums the last block where the caller wants it. */
static void test_no_copy(int in_place)
{
	struct rig *rig = rig_new(few_transport);
	int32_t in[FAKE_RANKS] = {1, 2, 3, 4}, out = 0;
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_REDUCE_SCATTER,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = in,
				  .recvbuf = in_place ? in : &out,
				  .count = 1};
	struct op *op;
	int copies = 0;

	if (fake_op(rig->lane, &args, &op) || composed_build(op))
		bail_out("cannot make an operation: %s", error_text());
	for (int i = 0; i < op->sched.nsteps; i++)
		copies += op->sched.step[i].kind == STEP_COPY;
	is_int(op->sched.nsteps, 4, "a reduce_scatter on 4 ranks%s: two rounds",
	       in_place ? " in place" : "");
	is_int(copies, 0, "without a copy");
	op_retire(op);
	rig_free(rig);
}

/* ----------------------------------------------------------------------- failures -- */

/* The calls before have made their schedule, so that the failing one repeats. */
static void few_warm(struct few *few)
{
	for (int i = 0; i < 2; i++) {
		few_op(few, &few->out);
		few_run(few, 3);
	}
	few_op(few, &few->out);
	few->op->seq = few->rig->lane->seq;
}

/* A message of another call, before this call or during it, from either rank. */
static void test_mismatch(int from, int early, int again)
{
	struct few few = {.rig = rig_new(few_transport), .again = again};

	few_warm(&few);
	if (early)
		few_message(&few, from, 1);
	few_issue(&few);
	if (!early)
		few_message(&few, from, 1);
	few_complete(&few);
	context_progress(few.rig->context);
	is_int(few.rig->lane->error, COLL_ERR_MISMATCH,
	       "a message of rank %d for another call, %s%s", from,
	       early ? "before this one" : "during this one", again ? ", repeated" : "");
	rig_free(few.rig);
}

static void test_refused(int k, int again)
{
	struct few few = {.rig = rig_new(few_transport), .again = again};
	char text[64];

	few_warm(&few);
	few_refused = k;
	few_at_once = 1;
	few_message(&few, 1, 0);
	few_issue(&few);
	context_progress(few.rig->context);
	snprintf(text, sizeof(text), "no room for send %d", k);
	is_int(few.rig->lane->error, COLL_ERR_SYSTEM, "send %d is refused", k);
	ok(strstr(comm_failure(few.rig->lane), text) != NULL, "with the cause: %s",
	   comm_failure(few.rig->lane));
	rig_free(few.rig);
}

/* Rank 1 is lost when its message, the first one, has come or not. */
static void test_lost(int came, int again)
{
	struct few few = {.rig = rig_new(few_transport), .again = again};
	const coll_host_t *host = &few.rig->context->host;

	few_warm(&few);
	few_at_once = 1;
	few_issue(&few);
	if (came)
		few_message(&few, 1, 0);
	host->peer_lost(host, 1, "it is gone");
	context_progress(few.rig->context);
	is_int(few.rig->lane->error, COLL_ERR_PEER_LOST, "rank 1 is lost %s its message",
	       came ? "after" : "before");
	ok(strstr(comm_failure(few.rig->lane), "it is gone") != NULL, "with the cause: %s",
	   comm_failure(few.rig->lane));
	rig_free(few.rig);
}

static int few_no_memory; /* strdup() fails */

/* Takes the place of the C library's function. */
char *strdup(const char *text)
{
	const size_t size = strlen(text) + 1;
	char *copy = few_no_memory ? NULL : malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* There is no memory for the cause: the operation ends at once all the same. */
static void test_lost_without_memory(void)
{
	struct few few = {.rig = rig_new(few_transport)};
	const coll_host_t *host = &few.rig->context->host;

	few_warm(&few);
	few_at_once = 1;
	few_issue(&few);
	few_no_memory = 1;
	host->peer_lost(host, 1, "it is gone");
	few_no_memory = 0;
	context_progress(few.rig->context);
	is_int(few.rig->lane->error, COLL_ERR_PEER_LOST,
	       "rank 1 is lost, and there is no memory for the cause");
	has_str(comm_failure(few.rig->lane), "rank 1 was lost: there was no memory for the cause",
		"the text says so");
	rig_free(few.rig);
}

/*
 * Rank 2 has aborted, which ends rank 1.  In one progress(), rank 3 tells the cause and rank 1's connection ends: with
 * a send under way, and perhaps within a message.
 */
static struct rig *few_told;
static uint64_t few_half; /* the cookie of that message; 0: none */

static void few_ends(void *ep)
{
	struct fake *f = ep;
	const coll_host_t *host = &few_told->context->host;

	fake_control(few_told, 3, few_told->lane, CONTROL_FAIL, COLL_ERR_ABORTED,
		     "rank 2 aborted the communicator");
	if (few_half)
		host->arrived(host, few_half, COLL_ERR_PEER_LOST);
	f->send[0]->status = COLL_ERR_PEER_LOST;
	host->peer_lost(host, 1, "connection closed");
}

static void test_told(int half, int again)
{
	struct few few = {.rig = rig_new(few_transport), .again = again};

	few_warm(&few);
	few_issue(&few);
	few_told = few.rig;
	few_half = 0;
	if (half)
		few_half = fake_begin(few.rig, 1, tag_collective(few.rig->lane, few.op->seq, 0),
				      few.op->call.signature, sizeof(int32_t))
				   .cookie;
	few_news = few_ends;
	for (int i = 0; i < 3; i++)
		few_progress(&few);
	is_int(few.rig->lane->error, COLL_ERR_REMOTE, "a rank ends%s after another has told why",
	       half ? " within a message" : "");
	is_str(comm_failure(few.rig->lane), "rank 2 aborted the communicator", "the cause is told");
	rig_free(few.rig);
}

/* All comes within the call itself, which repeats an earlier one. */
static void test_told_at_once(void)
{
	struct few few = {.rig = rig_new(few_transport), .again = 1};

	few_warm(&few);
	few_told = few.rig;
	few_half = 0;
	few_news = few_ends;
	few_issue(&few);
	is_int(few.rig->lane->error, COLL_ERR_REMOTE, "a repeated call finds the failure");
	rig_free(few.rig);
}

/* A receive from any rank takes a message of another rank each time. */
static void test_any_source(void)
{
	struct rig *rig = rig_new(few_transport);
	struct lane *lane = rig->lane;
	int32_t got = 0;
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT32,
				  .root = COLL_ANY_SOURCE,
				  .recvbuf = &got,
				  .count = 1};
	int repeated = 0;

	for (int32_t from = 1; from < FAKE_RANKS; from++) {
		if (few_repeat(lane, &args)) {
			repeated++;
		} else {
			if (fake_issue(lane, &args, 0))
				bail_out("%s", error_text());
			queue_issued(lane);
		}
		fake_message(rig, (uint32_t)from, tag_user(lane, 0),
			     lane->queue.head->call.signature, &from, sizeof(from));
		context_progress(rig->context);
		is_int(got, from, "the message of rank %d", from);
		is_int((int64_t)lane->finished, from, "ends receive %d", from);
	}
	is_int(repeated, FAKE_RANKS - 2, "all but the first start at once");
	rig_free(rig);
}

/* ------------------------------------------------------------ through the queue -- */

/* The call has to go through the queue, and nothing was done. */
static int few_is_queued(struct few *few)
{
	struct lane *lane = few->rig->lane;
	const uint64_t issued = lane->issued;
	const uint32_t seq = lane->seq;
	struct op *const *plans = &lane->queue.plans[COLL_KIND_ALLREDUCE];
	const struct op *plan = *plans;

	return !few_repeat(lane, &few->args) && lane->issued == issued && lane->seq == seq &&
	       *plans == plan && !few->rig->fake.sends;
}

static void test_other_calls(void)
{
	struct few few = {.rig = rig_new(few_transport), .again = 1};
	struct lane *lane = few.rig->lane;
	struct op *op;

	few_warm(&few);
	op = lane->queue.plans[COLL_KIND_ALLREDUCE];
	few.args.count = 2;
	ok(few_is_queued(&few), "a call with another count repeats none");
	few.args.count = 1;
	few.args.recvbuf = few_value;
	ok(few_is_queued(&few), "nor does one with another buffer");
	few.args.recvbuf = &few.out;
	lane->seq = TAG_SEQ_APART;
	ok(few_is_queued(&few), "one before which the queue inserts a barrier waits for it");
	lane->seq = 2;
	ok(!composed_poll(few.rig->context), "without an operation a wait looks at all");
	ok(!few_is_queued(&few) && lane->queue.head == op && op->state == OP_RUNNING,
	   "without all that a call starts at once");
	few.rig->fake.sends = 0;
	ok(few_is_queued(&few), "and not before the one before it is complete");
	rig_free(few.rig);
}

/* Calls beside which there is more to look at than messages for them. */
static void test_beside(void)
{
	struct few few = {.rig = rig_new(few_transport), .again = 1};
	struct lane *lane = few.rig->lane;
	struct context *context = few.rig->context;
	struct task *task;

	few_warm(&few);
	context->sleepers = 1;
	ok(few_is_queued(&few), "a call while a thread sleeps goes through the queue");
	context->sleepers = 0;
	context->pending_events = 1;
	ok(few_is_queued(&few), "so does one after the loss of a rank");
	context->pending_events = 0;
	traffic_of(context)->match.controls = 1;
	ok(few_is_queued(&few), "one after a control message");
	traffic_of(context)->match.controls = 0;
	lane->nleft = 1;
	ok(few_is_queued(&few), "one after a rank has left");
	lane->nleft = 0;
	context->busy = (struct lane *)&few; /* another one */
	ok(few_is_queued(&few), "one beside operations of another communicator");
	context->busy = NULL;
	lane->busy = 0;
	lane->messages.looks = 1;
	ok(few_is_queued(&few), "one beside messages outside the order");
	lane->messages.looks = 0;
	task = task_new(lane, lane->issued + 1);
	if (!task)
		bail_out("no task");
	task_set_limit(task, 1000000);
	ok(few_is_queued(&few), "one that must be complete by some time");
	lane->finished++;
	task_check(lane);
	lane->finished--;
	task_unref(task);
	context->classify = 1;
	ok(!few_is_queued(&few), "without all that it starts at once, also where buffers may be "
				 "device memory");
	rig_free(few.rig);
}

int main(void)
{
	for (int again = 0; again < 2; again++) {
		test_ways(0, again);
		test_ways(1, again);
	}
	test_no_copy(0);
	test_no_copy(1);
	for (int k = 0; k < 4; k++) {
		const int early = k & 1, again = k >> 1;

		test_mismatch(1, early, again);
		test_mismatch(2, early, again);
		test_lost(early, again);
		test_refused(early, again);
		test_told(early, again);
	}
	test_told_at_once();
	test_any_source();
	test_lost_without_memory();
	test_other_calls();
	test_beside();
	return done_testing();
}
