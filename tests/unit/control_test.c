/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_test.c - control messages about communicators that a rank could not make, linked with the layers
 * up to exec alone: each one reaches the communicator that it concerns and no other.
 */
#include "fake_backend.h"

enum { CHILD_ID = 77, SPLIT_SEQ = 70000 };

/* A communicator of ranks 0 and 2 that the split of that number has made. */
static struct comm *child_new(struct rig *rig, uint32_t context_id, uint32_t seq)
{
	const int world[] = {0, 2};
	struct comm *child = NULL;

	if (comm_new(&child, rig->context, context_id, 0, 2, world))
		bail_out("cannot make a communicator: %s", error_text());
	context_ref(rig->context);
	child->birth = comm_tag_birth(rig->comm->context_id, seq);
	return child;
}

static void child_free(struct rig *rig, struct comm *child)
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
	uint64_t tag = comm_tag_birth(0, SPLIT_SEQ);
	struct comm *child = early ? NULL : child_new(rig, CHILD_ID, SPLIT_SEQ);
	struct comm *older = child_new(rig, CHILD_ID + 1, SPLIT_SEQ - (1 << TAG_SEQ_BITS));

	unmade(rig, 1, tag, COLL_ERR_PEER_LOST, "rank 3 was lost: cut");
	if (early)
		child = child_new(rig, CHILD_ID, SPLIT_SEQ);
	context_progress(rig->context);
	is_int(child->error, 0, "%s: a rank outside could not make its own", when);
	unmade(rig, 2, tag, COLL_ERR_PEER_LOST, "rank 3 was lost: cut");
	context_progress(rig->context);
	is_int(child->error, COLL_ERR_PEER_LOST, "%s: a rank inside could not make it", when);
	is_str(child->error_text,
	       "rank 1 (world rank 2) could not make this communicator: in its parent, rank 3 was "
	       "lost: cut",
	       "%s: both ranks are named", when);
	is_int(older->error, 0, "%s: the child of a split 65,536 collectives before is well", when);
	is_int(rig->comm->error, 0, "%s: the parent is well", when);
	child_free(rig, child);
	child_free(rig, older);
	rig_free(rig);
}

/* This rank has destroyed the parent and uses its child. */
static void test_birth_without_parent(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct comm *child = child_new(rig, CHILD_ID, 5);

	context_ref(rig->context);
	rig_free_comm(rig, rig->comm);
	rig->comm = NULL;
	unmade(rig, 2, comm_tag_birth(0, 5), COLL_ERR_NO_MEMORY, "no memory");
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
	uint64_t tag = comm_tag_control(CHILD_ID);

	fake_control(rig, 1, rig->comm, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 3, "an answer that nobody awaits: all ranks are told");
	for (int k = 0; k < rig->fake.sends; k++)
		is_str(sent_text(rig, k, CONTROL_UNMADE, tag),
		       "coll_comm_shrink has ended without the answer",
		       "message %d refuses the new communicator", k);
	complete_all(rig);
	rig->fake.sends = 0;
	rig->comm->shrunk.lost = 3;
	fake_control(rig, 1, rig->comm, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 3, "an answer after the loss of rank 3: all ranks are told");
	for (int k = 0; k < rig->fake.sends; k++)
		is_str(sent_text(rig, k, CONTROL_UNMADE, tag),
		       "rank 3 was lost during coll_comm_shrink", "message %d names rank 3", k);
	complete_all(rig);
	rig->fake.sends = 0;
	rig->comm->shrunk.awaited = 0xabc;
	fake_control(rig, 1, rig->comm, CONTROL_SHRUNK, CHILD_ID, "abc -1");
	context_progress(rig->context);
	is_int(rig->fake.sends, 0, "an awaited answer: nothing is refused");
	is_int((long long)rig->comm->shrunk.context_id, CHILD_ID, "its context id is taken");
	rig_free(rig);
}

static void test_refused(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct comm *child;

	unmade(rig, 2, comm_tag_control(CHILD_ID), COLL_ERR_NO_MEMORY, "no memory");
	child = child_new(rig, CHILD_ID, 1);
	context_progress(rig->context);
	is_int(child->error, COLL_ERR_REMOTE, "a communicator that rank 2 refused fails");
	child_free(rig, child);
	rig_free(rig);
}

/* A rank leaves and names more calls than its message has: none is believed, and this rank waits in vain. */
static void test_calls_missing(void)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	struct rig *rig = rig_new(fake_transport);
	char bytes[sizeof(struct control_body) + sizeof(struct last_calls)] = "";
	struct control_body *body = (void *)bytes;
	struct last_calls *calls = (void *)body->text;

	if (fake_issue(rig->comm, &args, 0))
		bail_out("cannot issue a barrier: %s", error_text());
	queue_issued(rig->comm);
	body->kind = CONTROL_LEAVE;
	calls->number = COMM_HISTORY;
	for (uint32_t r = 1; r < FAKE_RANKS; r++)
		fake_message(rig, r, comm_tag_control(0), (struct signature){{0, 0}}, bytes,
			     sizeof(*body) + offsetof(struct last_calls, call));
	context_progress(rig->context);
	is_int(rig->comm->error, COLL_ERR_PEER_LOST, "ranks leave without the calls they name");
	has_str(rig->comm->error_text, "destroyed its communicator while rank 0 still waits",
		"no call of theirs differs");
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
	return done_testing();
}
