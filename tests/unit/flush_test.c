/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush_test.c - the core and a transport that keeps messages back: the core flushes before each call returns,
 * once for a group, and before it computes for long; a transport without these slots gets each message by send.
 */
#include "fake_backend.h"
#include "comm/moving.h"

enum { GROUP = 10, COUNT = 1 << 20 };

static int kept, kept_most, flushes;
static const char *watched; /* its value at the first flush becomes `seen` */
static int seen;

static int32_t fake_send_more(void *ep, coll_send_t *send, coll_error_t *err)
{
	int32_t code = fake_send(ep, send, err);

	kept += !code;
	kept_most = kept > kept_most ? kept : kept_most;
	return code;
}

/* The system takes the messages. */
static void fake_flush(void *ep)
{
	struct fake *f = ep;

	if (!flushes++ && watched)
		seen = *watched;
	for (int i = 0; i < f->sends; i++)
		if (f->send[i] && f->send[i]->status == COLL_IN_PROGRESS)
			f->send[i]->status = COLL_SUCCESS;
	kept = 0;
}

static void keeping_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.send_more = fake_send_more;
	plugin->transport.flush = fake_flush;
}

static void begin(void)
{
	kept = kept_most = flushes = 0;
}

static coll_args_t send_args(const void *buf, size_t count, int peer)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_SEND,
			     .sendbuf = buf,
			     .count = count,
			     .dtype = COLL_INT8,
			     .root = peer,
			     .tag = 1};
}

/* A lone send, over a transport with the slots send_more and flush or without. */
static void test_single(void (*slots)(struct plugin *plugin), const char *what)
{
	struct rig *rig = rig_new(slots);
	coll_args_t args = send_args("x", 1, 1);

	begin();
	is_int(fake_issue(rig->lane, &args, 0), 0, "%s: a send is issued", what);
	queue_issued(rig->lane);
	is_int(rig->fake.sends, 1, "%s: the transport gets one message", what);
	is_int(kept_most, 0, "%s: by the slot send, so it never keeps back the message", what);
	is_int(flushes, 0, "%s: without a flush", what);
	fake_complete(rig, 0, COLL_SUCCESS);
	queue_issued(rig->lane);
	ok(rig->lane->queue.head == NULL, "%s: the operation is complete", what);
	rig_free(rig);
}

static void test_group(void)
{
	struct rig *rig = rig_new(keeping_transport);
	coll_args_t args = send_args("x", 1, 1);

	begin();
	for (int i = 0; i < GROUP; i++)
		if (fake_issue(rig->lane, &args, 7))
			bail_out("%s", error_text());
	op_release(rig->lane, 7);
	queue_issued(rig->lane);
	is_int(rig->fake.sends, GROUP, "the transport gets the messages of a group");
	is_int(kept_most, GROUP - 1, "and may keep back all but the last");
	is_int(flushes, 1, "until the only flush");
	is_int(kept, 0, "which is before the call returns");
	rig_free(rig);
}

/* A message is issued, then in the same group an allgather that copies many bytes on this rank. */
static void test_long(void)
{
	static char in[COUNT], out[FAKE_RANKS * COUNT];
	struct rig *rig = rig_new(keeping_transport);
	coll_args_t small = send_args("x", 1, 1), large = send_args(in, COUNT, 0);

	begin();
	in[0] = 1;
	watched = out;
	seen = -1;
	large.kind = COLL_KIND_ALLGATHER;
	large.tag = 0;
	large.recvbuf = out;
	if (fake_issue(rig->lane, &small, 7) || fake_issue(rig->lane, &large, 7))
		bail_out("%s", error_text());
	op_release(rig->lane, 7);
	queue_issued(rig->lane);
	watched = NULL;
	is_int(out[0], 1, "the allgather has copied its input");
	is_int(seen, 0, "after the message before it has left");
	comm_fail(rig->lane, 0, COLL_ERR_ABORTED, "the end of the test");
	rig_free(rig);
}

/* A control message leaves although nobody flushes. */
static void test_control(void)
{
	struct rig *rig = rig_new(keeping_transport);

	begin();
	context_send_control(rig->context, 1, tag_control(rig->lane->context_id), 1, 0, "x");
	is_int(rig->fake.sends, 1, "a control message is sent");
	is_int(kept_most, 0, "and never kept back");
	fake_complete(rig, 0, COLL_SUCCESS);
	rig_free(rig);
}

int main(void)
{
	test_single(keeping_transport, "with send_more and flush");
	test_single(fake_transport, "a transport of ABI 1.3");
	test_group();
	test_long();
	test_control();
	return done_testing();
}
