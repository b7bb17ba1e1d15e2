/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue_order_test.c - the queue of a communicator, linked with the layers up to exec alone: the
 * order of operations and groups, the barrier between many collectives, waits for another
 * communicator, ranks that have left, and the wake-ups of sleeping threads.
 */
#include "fake_backend.h"

#include "comm/task.h"
#include "watch/stall.h"
#include "comm/life.h"
#include "comm/comm_wait.h"
#include "exec/control.h"
#include "comm/moving.h"
#include "transport/traffic.h"

static int32_t in[64], out[64];

/* An operation with one send to rank 1, which the test completes. */
static struct op *queue_one(struct rig *rig, struct lane *lane, uint64_t group)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = 1};
	struct op *op;

	(void)rig;
	if (fake_op(lane, &args, &op))
		bail_out("cannot make an operation: %s", error_text());
	sched_reset(&op->sched, 0, FAKE_RANKS, sizeof(int32_t), SIZE_MAX);
	sched_send(&op->sched, 1, sched_slice(SCHED_SEND, 0), sizeof(int32_t), -1);
	op->stage = PLAN_BUILT;
	op->repeatable = 0;
	op_enqueue(op, group);
	return op;
}

/* Lets the communicator make progress, and returns how many sends were ever made. */
static int moved(struct rig *rig)
{
	queue_progress(rig->lane);
	return rig->fake.sends;
}

static int finished(const struct rig *rig)
{
	return (int)rig->lane->finished;
}

/* -------------------------------------------------------------------------- order, groups -- */

static void test_one_by_one(void)
{
	struct rig *rig = rig_new(fake_transport);

	for (int i = 0; i < 3; i++)
		queue_one(rig, rig->lane, 0);
	for (int i = 0; i < 3; i++) {
		is_int(moved(rig), i + 1, "operation %d runs alone", i + 1);
		is_int(finished(rig), i, "those before it are done");
		fake_complete(rig, i, COLL_SUCCESS);
	}
	moved(rig);
	ok(finished(rig) == 3 && !rig->lane->queue.head && !rig->lane->queue.tail, "all are done");
	rig_free(rig);
}

/*
 * Operations of a group run together; they complete in any order, and are counted in their own
 * order.
 */
static void test_group(void)
{
	struct rig *rig = rig_new(fake_transport);

	queue_one(rig, rig->lane, 0);
	for (int i = 0; i < 3; i++)
		queue_one(rig, rig->lane, 5);
	queue_one(rig, rig->lane, 0);
	is_int(moved(rig), 1, "the one before the group runs");
	fake_complete(rig, 0, COLL_SUCCESS);
	is_int(moved(rig), 1, "the group is open: nothing of it runs");
	is_int(finished(rig), 1, "though all before it is done");
	op_release(rig->lane, 4);
	is_int(moved(rig), 1, "the end of another group changes nothing");
	op_release(rig->lane, 5);
	is_int(moved(rig), 4, "it ends: all of it runs, not what comes behind it");
	fake_complete(rig, 3, COLL_SUCCESS);
	is_int(moved(rig), 4, "its last operation is done: the next one waits");
	is_int(finished(rig), 1, "and is not counted before its first");
	fake_complete(rig, 1, COLL_SUCCESS);
	moved(rig);
	is_int(finished(rig), 2, "its first is done");
	fake_complete(rig, 2, COLL_SUCCESS);
	is_int(moved(rig), 5, "its second is done: what comes behind runs");
	is_int(finished(rig), 4, "and all of the group is counted");
	fake_complete(rig, 4, COLL_SUCCESS);
	moved(rig);
	is_int(finished(rig), 5, "then that");
	rig_free(rig);
}

static void test_two_groups(void)
{
	struct rig *rig = rig_new(fake_transport);

	for (int i = 0; i < 4; i++)
		queue_one(rig, rig->lane, 1 + (uint64_t)i / 2);
	op_release(rig->lane, 2);
	is_int(moved(rig), 0, "a group that has ended waits for one that is open");
	op_release(rig->lane, 1);
	is_int(moved(rig), 2, "groups run one after the other");
	fake_complete(rig, 0, COLL_SUCCESS);
	is_int(moved(rig), 2, "when half of the first is done the second waits");
	fake_complete(rig, 1, COLL_SUCCESS);
	is_int(moved(rig), 4, "then it runs");
	rig_free(rig);
}

/* A wait for an operation that the same thread's open group holds back would never end. */
static void test_wait_in_group(void)
{
	struct rig *rig = rig_new(fake_transport);

	group_set_current(7);
	queue_one(rig, rig->lane, 7);
	is_int(lane_wait(rig->lane, 1, 0), COLL_ERR_INVALID_USAGE,
	       "a wait inside a group is refused");
	has_str(error_text(), "coll_group_end", "and the sentence says what to do");
	group_set_current(0);
	rig_free(rig);
}

/* ---------------------------------------------------------- numbers of collectives -- */

/* After this many collectives, is there a barrier in front of the next? */
static int barrier_before(void (*slots)(struct plugin *plugin), uint32_t seq, int kind)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = kind,
				  .dtype = COLL_INT32,
				  .root = 1,
				  .recvbuf = out,
				  .sendbuf = kind == COLL_KIND_RECV ? NULL : in,
				  .count = 1};
	struct rig *rig = rig_new(slots);
	const struct op *op;
	int barrier;

	rig->lane->seq = seq;
	if (fake_issue(rig->lane, &args, 0))
		bail_out("cannot issue: %s", error_text());
	op = rig->lane->queue.head;
	barrier = op->call.args.kind == COLL_KIND_BARRIER;
	if (rig->lane->issued != 1u + (unsigned)barrier ||
	    rig->lane->seq != seq + (unsigned)barrier + (kind != COLL_KIND_RECV) ||
	    (barrier && (op->seq != seq || op->next->call.args.kind != kind || op->next->next)))
		barrier = -1;
	rig_free(rig);
	return barrier;
}

static void test_barriers(void)
{
	const uint32_t apart = TAG_SEQ_APART;
	static const char *const names[] = {"first", "first after many", "one after that",
					    "one before that", "first after all numbers are used"};
	const uint32_t seq[] = {0, apart, apart + 1, apart - 1, TAG_SEQ_MASK + 1};

	for (int i = 0; i < 5; i++)
		is_int(barrier_before(fake_transport, seq[i], COLL_KIND_ALLREDUCE),
		       i == 1 || i == 4, "the %s collective (%u before it)", names[i], seq[i]);
	is_int(barrier_before(fake_transport, apart, COLL_KIND_RECV), 0,
	       "receives are not numbered");
	is_int(barrier_before(fake_native, apart, COLL_KIND_ALLREDUCE), 0,
	       "without a transport there are no tags, and no barrier");
}

/* The sends that run if a group has a collective, and another that comes so many numbers later. */
static int beside_each_other(uint32_t seq, int *after_the_first)
{
	struct rig *rig = rig_new(fake_transport);
	int sends;

	queue_one(rig, rig->lane, 1);
	rig->lane->issued = TAG_SEQ_APART; /* as if those between had been issued, and were done */
	rig->lane->seq = seq;
	queue_one(rig, rig->lane, 1);
	op_release(rig->lane, 1);
	sends = moved(rig);
	fake_complete(rig, 0, COLL_SUCCESS);
	*after_the_first = moved(rig);
	rig_free(rig);
	return sends;
}

/* Else a rank could be so far ahead of another that the numbers in tags repeat. */
static void test_apart(void)
{
	int then;

	is_int(beside_each_other(TAG_SEQ_APART - 1, &then), 2,
	       "collectives of a group that are close to each other run beside each other");
	is_int(beside_each_other(TAG_SEQ_APART + 1, &then), 1,
	       "one that is far ahead of another waits for it");
	is_int(then, 2, "until the other has ended");
}

/* Ranks that name different roots have different signatures, whichever bits of the roots differ. */
static void test_signatures_of_roots(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct call call = {.args = {.kind = COLL_KIND_BROADCAST, .dtype = COLL_INT32, .count = 1}};
	const struct signature zero = signature_of(rig->lane, &call);

	for (int bit = 0; bit < 24; bit++) {
		struct signature other;

		call.args.root = 1 << bit;
		other = signature_of(rig->lane, &call);
		ok(other.meta[0] != zero.meta[0], "roots 0 and %d differ", call.args.root);
	}
	rig_free(rig);
}

/* Tags repeat after 2^16 collectives, and distinguish all collectives before that. */
static void test_tags(void)
{
	struct rig *rig = rig_new(fake_transport);
	const struct lane *lane = rig->lane;

	ok(tag_collective(lane, 1, 2) == tag_collective(lane, 1 + (TAG_SEQ_MASK + 1), 2),
	   "numbers repeat");
	ok(tag_collective(lane, TAG_SEQ_MASK, TAG_MSG_MASK) < MATCH_CONTROL,
	   "the largest number is no control message");
	ok(!(tag_collective(lane, UINT32_MAX, UINT32_MAX) & (TAG_USER | MATCH_CONTROL)),
	   "whatever the number");
	ok(tag_user(lane, UINT32_MAX) != tag_user(lane, 0), "all 32 bits of a user's tag count");
	rig_free(rig);
}

/* ------------------------------------------------------------- waiting for another communicator -- */

static struct op *queue_await(struct lane *lane, const struct lane *other, uint64_t number)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	struct op *op;

	if (fake_op(lane, &args, &op))
		bail_out("cannot make an operation: %s", error_text());
	op->awaited = (struct order_point){outcome_ref(other->comm->outcome), LANE_FIRST, number};
	op_enqueue(op, 0);
	return op;
}

/* The other communicator is on the same context, or on a context of its own. */
static void test_await(int elsewhere)
{
	struct rig *rig = rig_new(fake_transport),
		   *rig2 = elsewhere ? rig_new(fake_transport) : rig;
	struct lane *other = rig2->lane;

	if (!elsewhere && comm_new(&other, rig->context, 9, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator");
	queue_one(rig2, other, 0);
	queue_one(rig2, other, 0);
	queue_await(rig->lane, other, 2);
	queue_one(rig, rig->lane, 0);
	if (elsewhere)
		context_leave(rig2->context); /* no thread uses the context */
	for (int i = 0; i < 4; i++)
		context_progress(rig->context);
	is_int(finished(rig), 0, "the other communicator is not that far");
	ok(comm_context_client.awaits(rig->context), "a sleep must look at both");
	fake_complete(rig2, 0, COLL_SUCCESS);
	for (int i = 0; i < 4; i++)
		context_progress(rig->context);
	is_int((int64_t)other->finished, 1, "the other communicator is driven from here");
	is_int(finished(rig), 0, "one of two operations there is done: still waiting");
	fake_complete(rig2, 1, COLL_SUCCESS);
	for (int i = 0; i < 4; i++)
		context_progress(rig->context);
	is_int(finished(rig), 1, "both are done: it is over");
	is_int(rig->fake.sends, elsewhere ? 1 : 3, "and the next one runs");
	if (elsewhere)
		context_enter(rig2->context);
	if (elsewhere)
		rig_free(rig2);
	else
		rig_free_comm(rig, other);
	rig_free(rig);
}

static void test_await_failure(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *other;

	if (comm_new(&other, rig->context, 9, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator");
	queue_one(rig, other, 0);
	queue_await(rig->lane, other, 1);
	comm_fail(other, 1, COLL_ERR_TIMEOUT, "nobody came");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_TIMEOUT, "the failure of the awaited is one's own");
	is_str(comm_failure(rig->lane),
	       "rank 0 waits for an event of a communicator that failed: nobody came",
	       "and the sentence says whose it was");
	rig_free_comm(rig, other);
	rig_free(rig);
}

static void test_await_of_destroyed(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *other;

	if (comm_new(&other, rig->context, 9, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator");
	queue_one(rig, other, 0);
	queue_one(rig, other, 0);
	queue_await(rig->lane, other, 1);
	queue_await(rig->lane, other, 2);
	context_progress(rig->context);
	is_int(finished(rig), 0, "the other communicator is not that far");
	fake_complete(rig, 0, COLL_SUCCESS);
	queue_progress(other);
	rig_free_comm(rig, other);
	context_progress(rig->context);
	is_int(finished(rig), 1, "an operation that was complete at the destroy is complete");
	is_int(rig->lane->error, COLL_ERR_ABORTED, "and one that was not is a failure");
	is_str(comm_failure(rig->lane),
	       "rank 0 waits for an event of a communicator that failed: rank 0 destroyed the "
	       "communicator",
	       "with the sentence of the destroyed communicator");
	rig_free(rig);
}

/* ------------------------------------------------------------- ranks that have left -- */

/* A rank says goodbye before, or while, this rank waits for a message of it. */
static void test_gone(int before)
{
	struct rig *rig = rig_new(fake_transport);
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT32,
				  .root = 2,
				  .recvbuf = out,
				  .count = 3};

	if (before)
		fake_leave(rig, 2);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_SUCCESS, "a rank that nobody waits for may go");
	if (fake_issue(rig->lane, &args, 0))
		bail_out("cannot issue: %s", error_text());
	queue_progress(rig->lane);
	if (!before)
		fake_leave(rig, 2);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_PEER_LOST,
	       "it went %s the receive: the communicator fails", before ? "before" : "during");
	has_str(comm_failure(rig->lane),
		"rank 2 destroyed its communicator while rank 0 still waits for it in recv of 3 "
		"int32 from rank 2 with tag 0",
		"and the sentence names it");
	rig_free(rig);
}

/* The core sends no message to a rank that has left, and messages of other ranks stay valid. */
static void test_gone_but_not_needed(void)
{
	struct rig *rig = rig_new(fake_transport);
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT32,
				  .root = 1,
				  .recvbuf = out,
				  .count = 1};
	const int32_t value = 42;

	fake_leave(rig, 2);
	context_progress(rig->context);
	fake_issue(rig->lane, &args, 0);
	queue_progress(rig->lane);
	fake_message(rig, 1, tag_user(rig->lane, 0), rig->lane->queue.head->call.signature, &value,
		     sizeof(value));
	context_progress(rig->context);
	ok(finished(rig) == 1 && !rig->lane->error && out[0] == 42,
	   "what other ranks send is not affected");
	comm_send_control(rig->lane, CONTROL_FAIL, 0, "");
	is_int(rig->fake.sends, 2, "only the ranks that are there are told");
	ok(rig->fake.send[0]->peer == 1 && rig->fake.send[1]->peer == 3, "ranks 1 and 3");
	rig_free(rig);
}

/* A message that nobody took is dropped with its communicator, and so are those that come after its end. */
static void test_freed(void)
{
	struct rig *rig = rig_new(fake_transport);
	const struct signature none = {{0, 0}};
	struct lane *other;
	uint64_t tag;

	if (comm_new(&other, rig->context, 9, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator");
	tag = tag_user(other, 0);
	fake_message(rig, 1, tag, none, NULL, 0);
	fake_message(rig, 1, tag_user(rig->lane, 0), none, NULL, 0);
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 2, "two messages wait");
	rig_free_comm(rig, other);
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 1,
	       "that of the freed communicator is gone");
	fake_message(rig, 1, tag, none, NULL, 0);
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 1,
	       "and a later one is not kept");
	rig_free(rig);
}

/* Ids of communicators: each rank of the context draws its own, as many as the bits of tags leave. */
static void test_ids(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct context *context = rig->context;
	const uint32_t most = 1u << (TAG_CONTEXT_BITS - 2);

	is_int(comm_most_context_ids(context), most, "four ranks share the ids");
	context->rank = FAKE_RANKS - 1;
	context->next_context_id = most - 1;
	is_int(comm_draw_context_id(context), (1u << TAG_CONTEXT_BITS) - 1, "the last id of all");
	is_int(comm_draw_context_id(context), UINT32_MAX, "then there is none");
	context->rank = 0;
	rig_free(rig);
}

/* Who has left is not asked; an answer counts until this rank has done something. */
static void test_asking(void)
{
	struct rig *rig = rig_new(fake_transport);

	fake_leave(rig, 2);
	context_progress(rig->context);
	report_ask(rig->lane);
	is_int(rig->fake.sends, 2, "the ranks that are there are asked");
	ok(rig->fake.send[0]->peer == 1 && rig->fake.send[1]->peer == 3, "ranks 1 and 3");
	rig->lane->watch->rank[1].answered = ANSWERED;
	report_ask(rig->lane);
	is_int(rig->lane->watch->rank[1].answered, ANSWERED_BEFORE,
	       "rank 1 has answered at this place");
	is_int(rig->lane->watch->rank[3].answered, ANSWERED_NOT, "rank 3 has not");
	rig->lane->steps++;
	report_ask(rig->lane);
	is_int(rig->lane->watch->rank[1].answered, ANSWERED_NOT,
	       "nor has rank 1 at the next place");
	rig_free(rig);
}

/* Another rank's failure is not sent on, unless the endpoint may be closed before that rank has told all. */
static void test_failure_of_another(int cancels)
{
	struct rig *rig = rig_new(fake_transport);

	if (!cancels)
		rig->plugin.transport.cancel = NULL;
	fake_control(rig, 1, rig->lane, CONTROL_FAIL, COLL_ERR_SYSTEM, "no disk");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_REMOTE, "rank 1 has failed");
	is_int(rig->fake.sends, cancels ? 0 : 3, "a transport %s cancel: the ranks told",
	       cancels ? "with" : "without");
	rig_free(rig);
}

/* An abort ends the destroy of this rank only. */
static void test_abort_of_leaving(void)
{
	struct rig *rig = rig_new(fake_transport);

	rig->lane->leaving = 1;
	atomic_store(&rig->lane->comm->aborted, 1);
	lane_check_aborted(rig->lane, UINT64_MAX);
	is_int(rig->lane->error, COLL_ERR_ABORTED, "an abort while this rank leaves");
	is_int(rig->fake.sends, 0, "the others may go on");
	rig_free(rig);
}

static char order[8];

static void note_call(void *user, coll_result_t result)
{
	const size_t n = strlen(order);

	order[n] = result == COLL_SUCCESS ? *(const char *)user : 'x';
}

/* As coll_request_set_callback does for operation `number`, with a request that the program frees at once. */
static void call_back(struct lane *lane, uint64_t number, const char *name)
{
	struct task *task = task_new(lane, number);

	if (!task || task_call_back(task, note_call, (void *)(uintptr_t)name))
		bail_out("%s", error_text());
	task_unref(task);
}

/* Functions are called in the order of their operations, those of one in the order in which they were set. */
static void test_callbacks(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *lane = rig->lane;

	lane->issued = 3;
	call_back(lane, 2, "c");
	call_back(lane, 1, "a");
	call_back(lane, 1, "b");
	call_back(lane, 3, "d");
	lane->finished = 2;
	task_check(lane);
	is_str(order, "abc", "the functions of the complete operations");
	comm_fail(lane, 1, COLL_ERR_SYSTEM, "no disk");
	is_str(order, "abcx", "and of the one that fails");
	rig_free(rig);
}

static void test_controls(void)
{
	struct report idle = {.flags = REPORT_ASKS, .here = {.kind = POSITION_NONE}};
	struct rig *rig = rig_new(fake_transport);

	fake_report(rig, 3, &idle, NULL);
	context_progress(rig->context);
	ok(rig->fake.sends == 1 && rig->fake.send[0]->peer == 3 && fake_sent_report(rig, 0) &&
		   fake_sent_report(rig, 0)->flags == REPORT_ANSWERS,
	   "who asks gets an answer");
	fake_complete(rig, 0, COLL_SUCCESS);
	idle.flags = REPORT_ANSWERS;
	fake_report(rig, 1, &idle, NULL);
	fake_control_bytes(rig, 2, rig->lane, CONTROL_REPORT, 0, &idle, sizeof(idle) - 1);
	context_progress(rig->context);
	ok(rig->lane->watch->rank[1].answered && !rig->lane->watch->rank[2].answered,
	   "an answer is noted");
	is_int(context_controls_pending(rig->context), 0, "the sent one is freed");
	fake_control(rig, 1, rig->lane, CONTROL_FAIL, COLL_ERR_SYSTEM, "rank 1 has no disk");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_REMOTE, "another rank's failure is this one's");
	is_str(comm_failure(rig->lane), "rank 1 has no disk", "with its words");
	is_int(rig->fake.sends, 1, "which are not sent on");
	rig_free(rig);
}

/* The core ignores a control message that is too short, or whose text has no end. */
static void test_bad_controls(void)
{
	struct rig *rig = rig_new(fake_transport);
	const uint64_t tag = tag_control(rig->lane->context_id);
	const struct signature none = {{0, 0}};

	fake_control_bytes(rig, 1, rig->lane, CONTROL_FAIL, COLL_ERR_SYSTEM, "abcd", 4);
	fake_control_bytes(rig, 1, rig->lane, CONTROL_FAIL, COLL_ERR_SYSTEM, "", 0);
	fake_message(rig, 1, tag, none, "abc", 3);
	fake_message(rig, 1, tag, none, NULL, 0);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_SUCCESS, "control messages that cannot be are ignored");
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 0, "and not kept");
	rig_free(rig);
}

/* ------------------------------------------------------------------------------- wake-ups -- */

static void test_wake_ups(void)
{
	struct rig *rig = rig_new(fake_transport);

	rig->context->sleepers = 1;
	queue_one(rig, rig->lane, 0);
	queue_issued(rig->lane);
	ok(fake_woken(rig), "what is issued wakes a thread that sleeps: it may have to look again");
	context_progress(rig->context);
	ok(!fake_woken(rig), "while nothing is done nobody is woken");
	fake_complete(rig, 0, COLL_SUCCESS);
	context_progress(rig->context);
	is_int(finished(rig), 1, "the operation is done");
	ok(fake_woken(rig), "which wakes the sleeping thread");
	context_progress(rig->context);
	ok(!fake_woken(rig), "once");
	fake_control(rig, 1, rig->lane, CONTROL_FAIL, COLL_ERR_SYSTEM, "no disk");
	context_progress(rig->context);
	ok(fake_woken(rig), "a failure wakes it too");
	rig->context->sleepers = 0;
	rig_free(rig);
}

/* By this counter threads see that another thread has moved something. */
static void test_progress_count(void)
{
	struct rig *rig = rig_new(fake_transport);
	uint64_t before;

	context_progress(rig->context);
	before = rig->context->progress_count;
	context_progress(rig->context);
	ok(rig->context->progress_count == before, "nothing moved: the counter stays");
	queue_one(rig, rig->lane, 0);
	queue_issued(rig->lane);
	ok(rig->context->progress_count > before, "an operation began: it grows");
	before = rig->context->progress_count;
	fake_complete(rig, 0, COLL_SUCCESS);
	context_progress(rig->context);
	ok(rig->context->progress_count > before, "an operation is done: it grows");
	rig_free(rig);
}

static int busy_comms(const struct rig *rig)
{
	int n = 0;

	for (const struct lane *lane = rig->context->busy; lane; lane = lane->next_busy)
		n++;
	return n;
}

/* Progress walks the communicators that have work, and no idle ones. */
static void test_busy(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *other[2];

	for (int i = 0; i < 2; i++)
		if (comm_new(&other[i], rig->context, 9 + (uint32_t)i, 0, FAKE_RANKS, NULL))
			bail_out("cannot make a communicator");
	is_int(busy_comms(rig), 0, "idle communicators are not walked");
	queue_one(rig, other[0], 0);
	queue_one(rig, rig->lane, 0);
	queue_one(rig, other[0], 0);
	is_int(busy_comms(rig), 2, "each with an operation is, once");
	context_progress(rig->context);
	is_int(rig->fake.sends, 2, "the first operation of both starts");
	fake_complete(rig, 0, COLL_SUCCESS);
	fake_complete(rig, 1, COLL_SUCCESS);
	context_progress(rig->context);
	context_progress(rig->context);
	is_int(busy_comms(rig), 1, "one whose operations are done is idle again");
	ok(rig->context->busy == other[0], "the other has one operation left");
	queue_one(rig, other[1], 0);
	rig_free_comm(rig, other[1]);
	rig_free_comm(rig, other[0]);
	is_int(busy_comms(rig), 0, "a destroyed communicator is not walked");
	rig_free(rig);
}

int main(void)
{
	test_one_by_one();
	test_group();
	test_two_groups();
	test_wait_in_group();
	test_barriers();
	test_apart();
	test_signatures_of_roots();
	test_tags();
	test_await(0);
	test_await(1);
	test_await_failure();
	test_await_of_destroyed();
	test_gone(1);
	test_gone(0);
	test_gone_but_not_needed();
	test_freed();
	test_ids();
	test_asking();
	test_failure_of_another(1);
	test_failure_of_another(0);
	test_abort_of_leaving();
	test_callbacks();
	test_controls();
	test_bad_controls();
	test_wake_ups();
	test_progress_count();
	test_busy();
	return done_testing();
}
