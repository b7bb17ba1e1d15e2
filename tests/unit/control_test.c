/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_test.c - control messages, linked with the layers up to exec alone: those about communicators that a rank could
 * not make reach the communicator that they concern and no other; what another rank says of itself and of others is
 * believed only if it can be.
 */
#include "fake_backend.h"

#include "comm/life.h"
#include "comm/shrinks.h"
#include "transport/traffic.h"

enum { CHILD_ID = 77, SPLIT_SEQ = 70000 };

/* A communicator of ranks 0 and 2 that the split of that number has made. */
static struct lane *child_new(struct rig *rig, uint32_t context_id, uint32_t seq)
{
	const int world[] = {0, 2};
	struct lane *child = NULL;

	if (comm_new(&child, rig->context, context_id, 0, 2, world))
		bail_out("cannot make a communicator: %s", error_text());
	context_ref(rig->context);
	child->birth = tag_birth(rig->lane->context_id, seq);
	return child;
}

static void child_free(struct rig *rig, struct lane *child)
{
	rig_free_comm(rig, child);
	context_leave(rig->context);
	context_unref(rig->context, 0);
	context_enter(rig->context);
}

static void unmade(struct rig *rig, uint32_t peer, uint64_t tag, int code, const char *text)
{
	char bytes[sizeof(struct control_body) + 64] = "";
	struct control_body *body = (void *)bytes;

	body->kind = CONTROL_UNMADE;
	body->code = code;
	memcpy(body->text, text, strlen(text) + 1);
	fake_message(rig, peer, tag, (struct signature){{0, 0}}, bytes,
		     sizeof(*body) + strlen(text) + 1);
}

/* early: the message comes before this rank has made the communicator. */
static void test_birth(int early)
{
	const char *when = early ? "before" : "after";
	struct rig *rig = rig_new(fake_transport);
	uint64_t tag = tag_birth(0, SPLIT_SEQ);
	struct lane *child = early ? NULL : child_new(rig, CHILD_ID, SPLIT_SEQ);
	struct lane *older = child_new(rig, CHILD_ID + 1, SPLIT_SEQ - (1 << TAG_SEQ_BITS));

	unmade(rig, 1, tag, COLL_ERR_PEER_LOST, "rank 3 was lost: cut");
	if (early)
		child = child_new(rig, CHILD_ID, SPLIT_SEQ);
	context_progress(rig->context);
	is_int(child->error, 0, "%s: a rank outside could not make its own", when);
	unmade(rig, 2, tag, COLL_ERR_PEER_LOST, "rank 3 was lost: cut");
	context_progress(rig->context);
	is_int(child->error, COLL_ERR_PEER_LOST, "%s: a rank inside could not make it", when);
	is_str(comm_failure(child),
	       "rank 1 (world rank 2) could not make this communicator: in its parent, rank 3 was "
	       "lost: cut",
	       "%s: both ranks are named", when);
	is_int(older->error, 0, "%s: the child of a split 65,536 collectives before is well", when);
	is_int(rig->lane->error, 0, "%s: the parent is well", when);
	child_free(rig, child);
	child_free(rig, older);
	rig_free(rig);
}

/* This rank has destroyed the parent and uses its child. */
static void test_birth_without_parent(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *child = child_new(rig, CHILD_ID, 5);

	context_ref(rig->context);
	rig_free_comm(rig, rig->lane);
	rig->lane = NULL;
	unmade(rig, 2, tag_birth(0, 5), COLL_ERR_NO_MEMORY, "no memory");
	context_progress(rig->context);
	is_int(child->error, COLL_ERR_REMOTE, "the parent is gone: the child fails");
	child_free(rig, child);
	context_leave(rig->context);
	context_unref(rig->context, 0);
	context_enter(rig->context);
	rig_free(rig);
}

/* The text of the k-th control message that this rank sent, or "" if it is of another kind or tag. */
static const char *sent_text(const struct rig *rig, int k, int kind, uint64_t tag)
{
	const coll_send_t *send = rig->fake.send[k];
	const struct control_body *body = send->buf;

	return body->kind == kind && send->header.tag == tag ? body->text : "";
}

static void complete_all(struct rig *rig)
{
	for (int k = 0; k < rig->fake.sends; k++)
		if (rig->fake.send[k])
			fake_complete(rig, k, COLL_SUCCESS);
	context_progress(rig->context);
}

/* The leader's answer comes when this rank has given up: the new communicator must not wait for it. */
static void test_late_answer(void)
{
	struct rig *rig = rig_new(fake_transport);
	uint64_t tag = tag_control(CHILD_ID);

	fake_control(rig, 1, rig->lane, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 3, "an answer that nobody awaits: all ranks are told");
	for (int k = 0; k < rig->fake.sends; k++)
		is_str(sent_text(rig, k, CONTROL_UNMADE, tag),
		       "coll_comm_shrink has ended without the answer",
		       "message %d refuses the new communicator", k);
	complete_all(rig);
	rig->fake.sends = 0;
	rig->lane->shrinks->lost = 3;
	fake_control(rig, 1, rig->lane, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 3, "an answer after the loss of rank 3: all ranks are told");
	for (int k = 0; k < rig->fake.sends; k++)
		is_str(sent_text(rig, k, CONTROL_UNMADE, tag),
		       "rank 3 was lost during coll_comm_shrink", "message %d names rank 3", k);
	complete_all(rig);
	rig->fake.sends = 0;
	rig->lane->shrinks->awaited = 0xabc;
	fake_control(rig, 1, rig->lane, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 0, "an awaited answer: nothing is refused");
	is_int((long long)rig->lane->shrinks->answer.context_id, CHILD_ID,
	       "its context id is taken");
	rig_free(rig);
}

static void test_refused(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *child;

	unmade(rig, 2, tag_control(CHILD_ID), COLL_ERR_NO_MEMORY, "no memory");
	child = child_new(rig, CHILD_ID, 1);
	context_progress(rig->context);
	is_int(child->error, COLL_ERR_REMOTE, "a communicator that rank 2 refused fails");
	child_free(rig, child);
	rig_free(rig);
}

static void control(struct rig *rig, uint32_t peer, int kind, const void *bytes, size_t len)
{
	fake_control_bytes(rig, peer, rig->lane, kind, 0, bytes, len);
}

/* A rank leaves and names more calls than its message has: none is believed, and this rank waits in vain. */
static void test_calls_missing(void)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	struct rig *rig = rig_new(fake_transport);
	const struct report report = {.flags = REPORT_LEAVES, .calls = LOG_CALLS};

	if (fake_issue(rig->lane, &args, 0))
		bail_out("cannot issue a barrier: %s", error_text());
	queue_issued(rig->lane);
	for (uint32_t r = 1; r < FAKE_RANKS; r++)
		control(rig, r, CONTROL_REPORT, &report, sizeof(report));
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_PEER_LOST, "ranks leave without the calls they name");
	has_str(comm_failure(rig->lane), "destroyed its communicator while rank 0 still waits",
		"no call of theirs differs");
	rig_free(rig);
}

/* Another rank has lost a rank: this rank notes that of a rank that there is, and that has not left. */
static void test_lost(void)
{
	uint8_t states[FAKE_RANKS + 2] = {0}, *own;
	struct rig *rig = rig_new(fake_transport);
	const int32_t rank[] = {-1, FAKE_RANKS, 3, 2, 2};

	own = rig->lane->peer_state;
	rig->lane->peer_state = states + 1;
	states[1 + 3] = PEER_LEFT;
	for (int i = 0; i < 3; i++)
		control(rig, 1, CONTROL_LOST, &rank[i], sizeof(rank[i]));
	control(rig, 1, CONTROL_LOST, &rank[3], sizeof(rank[3]) - 1);
	control(rig, 1, CONTROL_LOST, &rank[3], 2 * sizeof(rank[3]));
	context_progress(rig->context);
	is_int(states[0], 0, "rank -1 is none");
	is_int(states[1 + FAKE_RANKS], 0, "nor is one behind the last");
	is_int(states[1 + 3], PEER_LEFT, "one that has left stays so");
	is_int(states[1 + 2], PEER_ALIVE, "a message of another length names none");
	control(rig, 1, CONTROL_LOST, &rank[3], sizeof(rank[3]));
	context_progress(rig->context);
	is_int(states[1 + 2], PEER_REPORTED, "rank 2 is lost for another rank");
	is_int(rig->lane->error, 0, "and this rank goes on");
	rig->lane->peer_state = own;
	rig_free(rig);
}

/* A rank that says twice that it leaves is one rank. */
static void test_left_twice(void)
{
	struct rig *rig = rig_new(fake_transport);

	for (int i = 0; i < 2; i++)
		fake_leave(rig, 2);
	context_progress(rig->context);
	is_int(rig->lane->nleft, 1, "one rank has left");
	rig_free(rig);
}

/* A rank leaves and names more calls than any rank remembers. */
static void test_too_many_calls(void)
{
	const struct report report = {.flags = REPORT_LEAVES, .calls = LOG_CALLS + 8};
	const struct signature calls[LOG_CALLS + 8] = {{{0}}};
	struct rig *rig = rig_new(fake_transport);

	fake_report(rig, 2, &report, calls);
	context_progress(rig->context);
	is_int(rig->lane->nleft, 1, "the rank has left");
	ok(!watch_left(rig->lane, 2), "its calls are not kept");
	rig_free(rig);
}

/* ------------------------------------------------------------------------- ranks that are lost */

/* The kind of the k-th control message that this rank sent, and its receiver. */
static int sent_kind(const struct rig *rig, int k)
{
	return ((const struct control_body *)rig->fake.send[k]->buf)->kind;
}

/* Rank 1 is lost after rank 2 has left: rank 3, which is still there, is told so and why this rank fails, once. */
static void test_lost_is_told(void)
{
	struct rig *rig = rig_new(fake_transport);
	const coll_host_t *host = &rig->context->host;

	fake_leave(rig, 2);
	context_progress(rig->context);
	host->peer_lost(host, 1, "the cable is cut");
	host->peer_lost(host, 1, "it is cut again");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_PEER_LOST, "rank 1 is lost");
	is_str(comm_failure(rig->lane), "rank 1 was lost: the cable is cut",
	       "the first cause stays");
	is_int(rig->lane->peer_state[1], PEER_FAILED, "rank 1 has failed");
	is_int(rig->fake.sends, 2, "two messages tell of it");
	for (int k = 0; k < rig->fake.sends; k++)
		is_int(rig->fake.send[k]->peer, 3, "message %d is for rank 3", k);
	is_int(sent_kind(rig, 0), CONTROL_LOST, "the loss comes first");
	is_int(sent_kind(rig, 1), CONTROL_FAIL, "then the failure");
	fake_control(rig, 3, rig->lane, CONTROL_SHRINK, 0, "0");
	context_progress(rig->context);
	is_int(rig->fake.sends, 2, "nobody is told twice");
	rig_free(rig);
}

static void test_left_and_lost(void)
{
	struct rig *rig = rig_new(fake_transport);
	const coll_host_t *host = &rig->context->host;

	fake_leave(rig, 2);
	context_progress(rig->context);
	host->peer_lost(host, 2, "connection closed");
	context_progress(rig->context);
	is_int(rig->lane->error, 0, "the end of a rank that has left is no failure");
	is_int(rig->lane->peer_state[2], PEER_LEFT, "it has left");
	is_int(rig->fake.sends, 0, "and nobody is told");
	rig_free(rig);
}

/* This rank destroys the communicator: whoever ends now has done so too. */
static void test_lost_while_leaving(void)
{
	struct rig *rig = rig_new(fake_transport);
	const coll_host_t *host = &rig->context->host;

	rig->lane->leaving = 1;
	host->peer_lost(host, 1, "connection closed");
	context_progress(rig->context);
	is_int(rig->lane->error, 0, "a rank ends while this one leaves: no failure");
	is_int(rig->fake.sends, 0, "and nobody is told");
	rig_free(rig);
}

/* A mismatch was found before rank 1 is lost, or before it leaves while this rank waits for it. */
static void test_mismatch_first(int leaves)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	struct rig *rig = rig_new(fake_transport);
	const coll_host_t *host = &rig->context->host;

	if (fake_issue(rig->lane, &args, 0))
		bail_out("cannot issue a barrier: %s", error_text());
	queue_issued(rig->lane);
	lane_set_pending(rig->lane, COLL_ERR_MISMATCH, "other calls");
	for (uint32_t r = 1; leaves && r < FAKE_RANKS; r++)
		fake_leave(rig, r);
	if (!leaves)
		host->peer_lost(host, 1, "connection closed");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_MISMATCH, "calls differ, then rank 1 %s",
	       leaves ? "leaves" : "is lost");
	is_str(comm_failure(rig->lane), "other calls", "the mismatch is told");
	rig_free(rig);
}

/* Another rank's mismatch is this one's.  Later messages of the communicator are not kept. */
static void test_failed(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct lane *child = child_new(rig, CHILD_ID, 1);
	const struct signature none = {{0, 0}};

	fake_message(rig, 1, tag_collective(child, 0, 0), none, "", 1);
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 0,
	       "a message of a rank that is not in the communicator is dropped");
	fake_control(rig, 2, rig->lane, CONTROL_FAIL, COLL_ERR_MISMATCH, "other calls");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_MISMATCH, "the code of rank 2 is that of all");
	is_str(comm_failure(rig->lane), "rank 2: other calls", "and its text");
	fake_message(rig, 1, tag_collective(rig->lane, 0, 0), none, "", 1);
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 0,
	       "a message of a communicator that has failed is dropped");
	child_free(rig, child);
	rig_free(rig);
}

/* A rank that has left this communicator may use another one: these messages go to it too. */
static void test_told_though_left(void)
{
	struct rig *rig = rig_new(fake_transport);

	fake_leave(rig, 2);
	context_progress(rig->context);
	comm_send_abort(rig->lane);
	is_int(rig->fake.sends, 3, "all ranks hear of an abort");
	comm_send_unmade(rig->lane, 1, COLL_ERR_NO_MEMORY, "no memory");
	is_int(rig->fake.sends, 6, "and of a communicator that this rank could not make");
	comm_refuse(rig->lane, CHILD_ID, COLL_ERR_NO_MEMORY, "no memory");
	is_int(rig->fake.sends, 9, "and of one that it refuses");
	complete_all(rig);
	rig->fake.refuse = COLL_ERR_SYSTEM;
	comm_send_abort(rig->lane);
	is_int(context_controls_pending(rig->context), 0, "messages that are refused are over");
	rig->fake.refuse = 0;
	fake_control(rig, 1, rig->lane, CONTROL_SHRUNK, CHILD_ID, "abc 3");
	context_progress(rig->context);
	is_int(rig->fake.sends, 9, "a late answer without a new communicator needs no word");
	is_int((int64_t)rig->lane->shrinks->answer.hash, 0, "and answers nothing");
	rig_free(rig);
}

/* A plugin announces messages and the loss of a rank that does not exist, and reduces by no operation. */
static void test_no_such_rank(void)
{
	char *failure[FAKE_RANKS + 1] = {NULL}, **own;
	const coll_header_t header = {.tag = 5, .len = 1};
	struct rig *rig = rig_new(fake_transport);
	const coll_host_t *host = &rig->context->host;
	coll_sink_t sink;
	int32_t x = 1;

	is_int(host->arrive(host, FAKE_RANKS, &header, &sink), COLL_ERR_INTERNAL,
	       "a message of a rank that does not exist is refused");
	is_int(host->message(host, FAKE_RANKS, &header, "x"), COLL_ERR_INTERNAL,
	       "also one that has come whole");
	is_int((int64_t)traffic_of(rig->context)->match.unexpected_count, 0, "and none is kept");
	own = rig->context->failure;
	rig->context->failure = failure;
	host->peer_lost(host, FAKE_RANKS, "gone");
	ok(!failure[FAKE_RANKS], "nor can such a rank be lost");
	rig->context->failure = own;
	is_int(host->reduce(host, &x, &x, &x, 1, COLL_INT32, COLL_AVG + 100), COLL_ERR_UNSUPPORTED,
	       "an operation that does not exist");
	rig_free(rig);
}

/* -------------------------------------------------------- the calls of a backend's functions */

static void fake_both(struct plugin *plugin)
{
	fake_native(plugin);
	fake_transport(plugin);
}

/* The call with that number, of any rank. */
static struct signature call_at(uint32_t number)
{
	return (struct signature){{COLL_KIND_BROADCAST, number}};
}

/* This rank makes calls until there are `number`. */
static void call_until(struct rig *rig, uint32_t number)
{
	while (rig->lane->seq < number) {
		const struct signature call = call_at(rig->lane->seq++);

		fake_log_call(rig->lane, &call);
	}
}

/* Sends a report of a rank with `room` of its calls behind it, from report.first on, of which `bytes` bytes come. */
static void report_with(struct rig *rig, uint32_t peer, struct report report, size_t room,
			size_t bytes)
{
	char *all = calloc(1, sizeof(report) + room * sizeof(struct signature));

	if (!all)
		bail_out("no memory");
	memcpy(all, &report, sizeof(report));
	for (size_t i = 0; i < room; i++) {
		const struct signature call = call_at(report.first + (uint32_t)i);

		memcpy(all + sizeof(report) + i * sizeof(call), &call, sizeof(call));
	}
	control(rig, peer, CONTROL_REPORT, all, bytes);
	context_progress(rig->context);
	free(all);
}

static size_t report_bytes(size_t calls)
{
	return sizeof(struct report) + calls * sizeof(struct signature);
}

/* What a rank says of its last calls when it leaves must be whole. */
static void test_last_calls(void)
{
	const struct {
		uint32_t calls;
		size_t bytes;
		const char *what;
	} bad[] = {
		{3, report_bytes(2), "two of three calls"},
		{3, report_bytes(4), "four of three calls"},
		{3, report_bytes(3) + 1, "a part of a call"},
		{LOG_MARK_EVERY + 1, report_bytes(LOG_MARK_EVERY + 1), "more than there may be"}};
	const struct report cut = {.flags = REPORT_LEAVES};
	struct rig *rig = rig_new(fake_both);

	report_with(rig, 1, cut, 0, sizeof(cut) - 1);
	is_int(rig->lane->nleft, 0, "a part of a report says nothing");
	rig_free(rig);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct report report = {.flags = REPORT_LEAVES, .calls = bad[i].calls};

		rig = rig_new(fake_both);
		report_with(rig, 1, report, LOG_MARK_EVERY + 1, bad[i].bytes);
		ok(rig->lane->nleft == 1 && !watch_left(rig->lane, 1), "last calls: %s",
		   bad[i].what);
		rig_free(rig);
	}
}

/* Rank 1 sends calls 0 and up, which differ: returns the text of the failure that follows, or "". */
static const char *after_calls(struct rig *rig, uint32_t calls, size_t bytes)
{
	const struct report report = {.flags = REPORT_DIFFERS, .calls = calls};

	report_with(rig, 1, report, LOG_MARK_EVERY + 1, bytes);
	return rig->lane->error ? comm_failure(rig->lane) : "";
}

static void test_calls_malformed(void)
{
	struct rig *rig = rig_new(fake_both);

	call_until(rig, 1);
	is_str(after_calls(rig, 0, sizeof(struct report) - 1), "", "calls without a number");
	is_str(after_calls(rig, LOG_MARK_EVERY + 1, report_bytes(LOG_MARK_EVERY + 1)), "",
	       "too many calls");
	is_str(after_calls(rig, 2, report_bytes(1)), "", "one of two calls");
	rig_free(rig);
}

/* Rank 1 names its calls, and this rank does not know its own of these numbers: not yet, or not any more. */
static void test_calls_unknown(int forgotten)
{
	struct signature other[2] = {call_at(0), {{COLL_KIND_ALLREDUCE, 1}}};
	const struct report report = {.flags = REPORT_DIFFERS, .calls = 2};
	struct rig *rig = rig_new(fake_both);

	if (forgotten)
		other[0] = other[1];
	call_until(rig, forgotten ? LOG_HASHED_CALLS + 2 : 1);
	fake_report(rig, 1, &report, other);
	context_progress(rig->context);
	has_str(comm_failure(rig->lane),
		"the first 2 collectives of rank 1 are others than those of rank 0",
		"%s: the calls are not compared", forgotten ? "forgotten" : "not made yet");
	rig_free(rig);
}

static void test_hashes_malformed(void)
{
	const struct {
		struct report report;
		char more;
	} sent = {.report = {.here = {.number = 5, .kind = POSITION_NONE}}};
	struct rig *rig = rig_new(fake_both);

	control(rig, 1, CONTROL_REPORT, &sent, sizeof(sent.report) - 1);
	control(rig, 1, CONTROL_REPORT, &sent, sizeof(sent.report) + 1);
	context_progress(rig->context);
	is_int(rig->lane->watch->compared->number[1], 0, "a report of another length says nothing");
	control(rig, 1, CONTROL_REPORT, &sent, sizeof(sent.report));
	context_progress(rig->context);
	is_int(rig->lane->watch->compared->number[1], 5, "one of the right length does");
	rig_free(rig);
}

/* The report of a rank at its call `number`, with the calls of this rank or with others. */
static struct report report_at(uint32_t number, int equal)
{
	struct report report = {
		.here = {.number = number, .mark = SIGNATURE_HASH_BEGIN, .kind = POSITION_NONE}};

	for (uint32_t i = 0; i < number; i++) {
		const struct signature call = call_at(i);

		report.here.mark = call_log_hash(report.here.mark, &call);
	}
	report.here.mark += !equal;
	report.here.hash = report.here.mark;
	return report;
}

/* The number is a multiple of LOG_MARK_EVERY. */
static void ahead(struct rig *rig, uint32_t peer, uint32_t number, int equal)
{
	const struct report report = report_at(number, equal);

	fake_report(rig, peer, &report, NULL);
	context_progress(rig->context);
}

/* The rank that was sent this rank's calls, since its own differ; 0: none. */
static int suspect(const struct rig *rig)
{
	for (int k = 0; k < rig->fake.sends; k++) {
		const struct report *report = fake_sent_report(rig, k);

		if (report && report->flags & REPORT_DIFFERS)
			return (int)rig->fake.send[k]->peer;
	}
	return 0;
}

/* This rank keeps the hash of a rank that is ahead until it is there itself. */
static void test_ahead(void)
{
	struct rig *rig = rig_new(fake_both);

	ahead(rig, 1, LOG_MARK_EVERY, 0);
	ahead(rig, 2, LOG_MARK_EVERY, 1);
	call_until(rig, LOG_MARK_EVERY - 1);
	is_int(suspect(rig), 0, "this rank is behind: it cannot compare");
	call_until(rig, LOG_MARK_EVERY);
	is_int(suspect(rig), 1, "it is there: rank 1 differs, whoever came after it");
	rig_free(rig);

	rig = rig_new(fake_both);
	ahead(rig, 1, LOG_MARK_EVERY, 1);
	call_until(rig, LOG_MARK_EVERY);
	is_int(suspect(rig), 0, "equal calls");
	ahead(rig, 2, 2 * LOG_MARK_EVERY, 0);
	call_until(rig, 2 * LOG_MARK_EVERY);
	is_int(suspect(rig), 2, "the next rank that was ahead differs");
	rig_free(rig);
}

/* A rank is so far behind that this one knows neither its own calls nor its hashes of then. */
static void test_behind(uint32_t calls, uint32_t number)
{
	struct report report = report_at(number, 1);
	struct rig *rig = rig_new(fake_both);

	call_until(rig, calls);
	report.here.mark = SIGNATURE_HASH_BEGIN;
	fake_report(rig, 1, &report, NULL);
	context_progress(rig->context);
	is_int(suspect(rig), 0, "a rank at call %u with equal calls, this one at %u", number,
	       calls);
	is_int(rig->lane->error, 0, "no failure");
	rig_free(rig);
}

/* Rank 1 is to name the first call that differs: it gets none that this rank has overwritten. */
static void test_calls_sent(void)
{
	struct rig *rig = rig_new(fake_both);
	const struct report *report;

	call_until(rig, LOG_HASHED_CALLS + LOG_MARK_EVERY / 2);
	ahead(rig, 1, LOG_MARK_EVERY, 0);
	is_int(suspect(rig), 1, "rank 1 differs");
	report = fake_sent_report(rig, rig->fake.sends - 1);
	is_int(report->calls, LOG_MARK_EVERY / 2, "half of the calls are known still");
	is_int((int64_t)rig->fake.send[rig->fake.sends - 1]->header.len,
	       (int64_t)(sizeof(struct control_body) + report_bytes(LOG_MARK_EVERY / 2)),
	       "and follow");
	is_int(report->first, LOG_MARK_EVERY / 2, "from the first of them on");
	rig_free(rig);
}

/* ------------------------------------------- the calls of ranks that have left, of such functions */

/* A rank leaves after `number` calls, the last two of which it names. */
static void leave(struct rig *rig, uint32_t peer, uint32_t number)
{
	struct report report = report_at(number, 1);

	report.flags = REPORT_LEAVES;
	report.calls = number < 2 ? number : 2;
	report.first = number - report.calls;
	report.here.mark = SIGNATURE_HASH_BEGIN;
	report_with(rig, peer, report, report.calls, report_bytes(report.calls));
}

/* The rank whose hash this one has kept, or whose calls it has asked for, leaves and names none. */
static void test_left_unnamed(int asked)
{
	struct report report = report_at(LOG_MARK_EVERY, 0);
	struct rig *rig = rig_new(fake_both);

	ahead(rig, 1, LOG_MARK_EVERY, 0);
	if (asked)
		call_until(rig, LOG_MARK_EVERY);
	report.flags = REPORT_LEAVES;
	report.first = LOG_MARK_EVERY;
	fake_report(rig, 1, &report, NULL);
	context_progress(rig->context);
	if (!asked)
		call_until(rig, LOG_MARK_EVERY);
	is_int(suspect(rig), asked, "%s", asked ? "rank 1 is asked" : "who has left is not asked");
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_MISMATCH, "rank 1 has left with other calls");
	has_str(comm_failure(rig->lane),
		"the first 1024 collectives of rank 1 are others than those of rank 0",
		"nobody knows which");
	rig_free(rig);
}

/* Ranks leave one after the other: only the second one has made less calls. */
static void test_left_in_turn(void)
{
	struct rig *rig = rig_new(fake_both);

	call_until(rig, 2);
	leave(rig, 2, 2);
	is_int(rig->lane->error, 0, "rank 2 leaves after the same calls");
	leave(rig, 1, 1);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_MISMATCH, "rank 1 leaves and lacks one");
	has_str(comm_failure(rig->lane), "as collective number 2, but rank 1 destroyed its",
		"it is named");
	rig_free(rig);
}

/* While this rank waits, its wait tells of the rank that has left; if it has waited for another, the calls differ. */
static void test_left_meanwhile(int waits)
{
	struct rig *rig = rig_new(fake_both);

	call_until(rig, 2);
	rig->lane->issued++;
	leave(rig, 1, 1);
	is_int(rig->lane->pending.code, 0, "rank 1 leaves while an operation is under way");
	rig->lane->finished++;
	if (waits)
		rig->lane->issued++;
	report_check_left(rig->lane, 0);
	is_int(rig->lane->pending.code, waits ? 0 : COLL_ERR_MISMATCH, "that operation ends%s",
	       waits ? ", and the next one waits" : "");
	rig->lane->finished = rig->lane->issued;
	rig_free(rig);
}

/* This rank leaves before calls that a rank which has left has made, and not all of which it has named. */
static void test_leaves_earlier(void)
{
	struct rig *rig = rig_new(fake_both);

	call_until(rig, 1);
	leave(rig, 1, 100);
	is_int(rig->lane->error, 0, "rank 1 leaves after 100 calls, which may still come here");
	report_check_left(rig->lane, 1);
	is_int(rig->lane->pending.code, COLL_ERR_MISMATCH, "they will not");
	is_str(rig->lane->pending.text,
	       "rank 1 called a collective as collective number 2, but rank 0 destroyed its "
	       "communicator after 1: all ranks must make the same calls in the same order",
	       "the first of them was not named");
	rig_free(rig);
}

int main(void)
{
	test_birth(0);
	test_birth(1);
	test_birth_without_parent();
	test_late_answer();
	test_refused();
	test_calls_missing();
	test_lost();
	test_left_twice();
	test_too_many_calls();
	test_lost_is_told();
	test_left_and_lost();
	test_lost_while_leaving();
	test_mismatch_first(0);
	test_mismatch_first(1);
	test_failed();
	test_told_though_left();
	test_no_such_rank();
	test_last_calls();
	test_calls_malformed();
	test_calls_unknown(0);
	test_calls_unknown(1);
	test_hashes_malformed();
	test_ahead();
	test_behind(LOG_HASHED_CALLS + 10, 5);
	test_behind(LOG_MARKS * LOG_MARK_EVERY, 0);
	test_calls_sent();
	test_left_unnamed(0);
	test_left_unnamed(1);
	test_left_in_turn();
	test_left_meanwhile(0);
	test_left_meanwhile(1);
	test_leaves_earlier();
	return done_testing();
}
