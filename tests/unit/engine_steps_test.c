/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_steps_test.c - the engine that runs schedules, linked with the layers up to exec alone,
 * over a transport that the test plays: long lists of steps, sends that fail or stay under way,
 * messages that come early, in pieces or wrong, operations cancelled in each state.
 */
#include "fake_backend.h"
#include "exec/control.h"
#include "comm/life.h"
#include "transport/traffic.h"

enum { ELEM = sizeof(int32_t) };

static coll_args_t reduction(const void *in, void *out, uint64_t count)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_ALLREDUCE,
			     .dtype = COLL_INT32,
			     .op = COLL_SUM,
			     .sendbuf = in,
			     .recvbuf = out,
			     .count = count};
}

static struct slice at(uint32_t buf, int element)
{
	return sched_slice(buf, (size_t)element * ELEM);
}

static uint64_t tag_of(const struct rig *rig, const struct op *op, uint32_t msg)
{
	return tag_collective(rig->lane, op->seq, msg);
}

/* -------------------------------------------------------------------- long lists of steps -- */

/*
 * Many sends are ready at once, and few may be under way: each send starts once, in order, as
 * others complete. first_done: the order in which the test completes them.
 */
static void test_many_sends(int first_done)
{
	enum { SENDS = 300 };
	static int32_t in[SENDS], out[SENDS];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, SENDS);
	int most = 0, wrong = 0, done = 0;

	for (int i = 0; i < SENDS; i++)
		sched_send(&op->sched, 1 + i % 3, at(SCHED_SEND, i), ELEM, -1);
	fake_enqueue(op);
	queue_progress(rig->lane);
	while (done < SENDS && done < rig->fake.sends) {
		int under_way = rig->fake.sends - done;

		most = under_way > most ? under_way : most;
		if (first_done) {
			fake_complete(rig, done++, COLL_SUCCESS);
		} else { /* all sends under way, the last first */
			for (int k = rig->fake.sends - 1; k >= done; k--)
				fake_complete(rig, k, COLL_SUCCESS);
			done = rig->fake.sends;
		}
		queue_progress(rig->lane);
	}
	is_int(rig->fake.sends, SENDS, "%d sends, completed %s", SENDS,
	       first_done ? "one by one" : "in bulk");
	is_int(most, 64, "no more than 64 are under way");
	for (int i = 0; i < rig->fake.sends; i++)
		wrong += rig->fake.send[i] == NULL;
	is_int((int64_t)rig->lane->finished, 1, "the operation is done");
	is_int(wrong, 0, "no send is cancelled");
	rig_free(rig);
}

/* A poll does not walk the sends that wait until others are complete; a receive behind them is posted. */
static void test_waiting_sends(void)
{
	enum { SENDS = 300 };
	static int32_t in[SENDS], out[SENDS];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, SENDS);
	int head, i;

	for (i = 0; i < SENDS; i++)
		sched_send(&op->sched, 1, at(SCHED_SEND, i), ELEM, -1);
	i = sched_recv(&op->sched, 1, at(SCHED_RECV, 0), ELEM, -1);
	fake_enqueue(op);
	queue_progress(rig->lane);
	head = op->ready_sends_head;
	is_int(op->run[i].u.recv.state, RECV_POSTED, "a receive does not wait for room for sends");
	queue_progress(rig->lane);
	is_int(op->ready_sends_head, head, "a poll leaves %d waiting sends alone",
	       op->ready_sends_count);
	rig_free(rig);
}

/* A binomial tree sends to the largest subtree first: the steps that a step releases keep their order. */
static void test_order_of_released(void)
{
	enum { SENDS = 4 };
	static int32_t in[SENDS], out[SENDS];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, SENDS);
	int first = sched_send(&op->sched, 1, at(SCHED_SEND, 0), ELEM, -1);

	for (int i = 1; i < SENDS; i++)
		sched_send(&op->sched, i, at(SCHED_SEND, i), ELEM, first);
	fake_enqueue(op);
	queue_progress(rig->lane);
	is_int(rig->fake.sends, 1, "the others wait for the first send");
	fake_complete(rig, 0, COLL_SUCCESS);
	queue_progress(rig->lane);
	is_int(rig->fake.sends, SENDS, "then they start");
	for (int i = 1; i < rig->fake.sends; i++)
		is_int((const int32_t *)rig->fake.send[i]->buf - in, i, "in their order: %d", i);
	rig_free(rig);
}

/* Verifies by their addresses that each element was sent once, to the right rank. */
static void test_ring_of_ready_steps(void)
{
	enum { SENDS = 100, LATER = 150 };
	static int32_t in[SENDS + LATER], out[SENDS + LATER];
	static int count[SENDS + LATER];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, SENDS + LATER);
	int wrong = 0;

	/*
	 * Steps become ready while others are ready: the list wraps around its array more than
	 * once.
	 */
	for (int i = 0; i < SENDS; i++)
		sched_send(&op->sched, 1 + i % 3, at(SCHED_SEND, i), ELEM, -1);
	for (int i = 0; i < LATER; i++)
		sched_send(&op->sched, 1 + (SENDS + i) % 3, at(SCHED_SEND, SENDS + i), ELEM,
			   i * 2 / 3);
	fake_enqueue(op);
	memset(count, 0, sizeof(count));
	queue_progress(rig->lane);
	for (int k = 0; k < rig->fake.sends; k++) {
		long i = (const int32_t *)rig->fake.send[k]->buf - in;

		if (i < 0 || i >= SENDS + LATER) {
			wrong++;
			continue;
		}
		count[i]++;
		wrong += rig->fake.send[k]->peer != (uint32_t)(1 + i % 3);
		wrong += i >= SENDS && !count[(i - SENDS) * 2 / 3];
		fake_complete(rig, k, COLL_SUCCESS);
		queue_progress(rig->lane);
	}
	for (int i = 0; i < SENDS + LATER; i++)
		wrong += count[i] != 1;
	is_int(wrong, 0, "each of %d sends is made once, after the one it waits for",
	       SENDS + LATER);
	is_int((int64_t)rig->lane->finished, 1, "and the operation is done");
	rig_free(rig);
}

/* A step starts when the last of the steps that it waits for is complete, whatever their order. */
static void test_dependencies(int last)
{
	int32_t in[4] = {0}, out[4] = {0};
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);
	int after[3];

	for (int i = 0; i < 3; i++)
		after[i] = sched_send(&op->sched, i + 1, at(SCHED_SEND, i), ELEM, -1);
	sched_send(&op->sched, 1, at(SCHED_SEND, 3), ELEM, after[0]);
	sched_after(&op->sched, 3, after[1]);
	sched_after(&op->sched, 3, after[2]);
	fake_enqueue(op);
	queue_progress(rig->lane);
	for (int i = 0; i < 3; i++)
		if (i != last) {
			fake_complete(rig, i, COLL_SUCCESS);
			queue_progress(rig->lane);
		}
	is_int(rig->fake.sends, 3, "send %d is not complete: the fourth waits", last);
	fake_complete(rig, last, COLL_SUCCESS);
	queue_progress(rig->lane);
	is_int(rig->fake.sends, 4, "then it goes");
	fake_complete(rig, 3, COLL_SUCCESS);
	queue_progress(rig->lane);
	is_int((int64_t)rig->lane->finished, 1, "and the operation is done");
	rig_free(rig);
}

/* Receive and add, multiply nothing, copy, reduce, send on: the values sent must be right. */
static void test_local_steps(void)
{
	int32_t in[2] = {5, 7}, out[2] = {0}, incoming[2] = {100, 200};
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 2);
	struct sched *s = &op->sched;
	size_t scratch = sched_scratch(s, sizeof(in));
	int got = sched_recv_reduce(s, 2, sched_slice(SCHED_SCRATCH, scratch), at(SCHED_SEND, 0), 0,
				    sizeof(in), -1);
	int copied = sched_copy(s, at(SCHED_RECV, 0), sched_slice(SCHED_SCRATCH, scratch),
				sizeof(in), got);
	int summed = sched_reduce(s, at(SCHED_RECV, 0), at(SCHED_RECV, 0), at(SCHED_SEND, 0),
				  sizeof(in), copied);

	sched_send(s, 3, at(SCHED_RECV, 0), sizeof(in), summed);
	fake_enqueue(op);
	queue_progress(rig->lane);
	is_int(rig->fake.sends, 0, "nothing is sent before the message has come");
	fake_message(rig, 2, tag_of(rig, op, 0), op->call.signature, incoming, sizeof(incoming));
	context_progress(rig->context);
	is_int(rig->fake.sends, 1, "the sum is sent on");
	ok(rig->fake.sends && rig->fake.send[0]->peer == 3 && out[0] == 110 && out[1] == 214,
	   "to the right rank, with the right values");
	fake_complete(rig, 0, COLL_SUCCESS);
	context_progress(rig->context);
	is_int((int64_t)rig->lane->finished, 1, "the operation is done");
	rig_free(rig);
}

/* Many local steps and few sends: the sends start first, and all local steps run. */
static void test_many_local_steps(void)
{
	enum { STEPS = 200 };
	static int32_t in[STEPS], out[STEPS];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, STEPS);
	int wrong = 0;

	for (int i = 0; i < STEPS; i++) {
		in[i] = i + 1;
		out[i] = 0;
		sched_copy(&op->sched, at(SCHED_RECV, i), at(SCHED_SEND, i), ELEM, -1);
		if (i % 20 == 0)
			sched_send(&op->sched, 1, at(SCHED_SEND, i), ELEM, -1);
	}
	fake_enqueue(op);
	queue_progress(rig->lane);
	for (int i = 0; i < STEPS; i++)
		wrong += out[i] != i + 1;
	is_int(wrong, 0, "%d local steps run at once", STEPS);
	is_int(rig->fake.sends, STEPS / 20, "beside the sends");
	for (int k = 0; k < rig->fake.sends; k++)
		fake_complete(rig, k, COLL_SUCCESS);
	queue_progress(rig->lane);
	is_int((int64_t)rig->lane->finished, 1, "the operation is done");
	rig_free(rig);
}

/* ------------------------------------------------------------------------- early messages -- */

static void test_early(int pieces)
{
	int32_t in[4] = {1, 2, 3, 4}, out[4] = {0}, incoming[4] = {10, 20, 30, 40};
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);
	coll_sink_t sink;

	sched_recv_reduce(&op->sched, 1, at(SCHED_RECV, 0), at(SCHED_SEND, 0), 0, sizeof(in), -1);
	sink = fake_begin(rig, 1, tag_collective(rig->lane, 0, 0), op->call.signature, sizeof(in));
	memcpy(sink.buf, incoming, sizeof(in));
	if (!pieces)
		fake_end(rig, sink, COLL_SUCCESS);
	fake_enqueue(op);
	context_progress(rig->context);
	if (pieces) {
		is_int((int64_t)rig->lane->finished, 0,
		       "half a message came early: it is waited for");
		fake_end(rig, sink, COLL_SUCCESS);
		context_progress(rig->context);
	}
	is_int((int64_t)rig->lane->finished, 1, "an early message %s the operation",
	       pieces ? "that ends late completes" : "completes");
	ok(out[0] == 11 && out[3] == 44, "with the right sum");
	rig_free(rig);
}

/* ------------------------------------------------------------------------------- failures -- */

static struct rig *sending(struct op **op, int sends)
{
	static int32_t in[100], out[100];
	struct rig *rig = rig_new(fake_transport);

	*op = fake_empty_op(rig->lane, in, out, 100);
	for (int i = 0; i < sends; i++)
		sched_send(&(*op)->sched, 1 + i % 3, at(SCHED_SEND, i), ELEM, -1);
	sched_recv(&(*op)->sched, 2, at(SCHED_RECV, 0), ELEM, -1);
	return rig;
}

static void test_refused_send(void)
{
	struct op *op;
	struct rig *rig = sending(&op, 3);

	rig->fake.refuse = COLL_ERR_SYSTEM;
	fake_enqueue(op);
	context_progress(rig->context);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_SYSTEM, "a refused send fails the communicator");
	is_str(comm_failure(rig->lane), "rank 0 cannot send to rank 1: the fake says 2",
	       "with the plugin's words");
	rig_free(rig);
}

static void test_failed_send(int why)
{
	static const char *const texts[] = {
		"rank 2 was lost: a message failed", "rank 2 was lost: the cable is cut",
		"rank 2 destroyed its communicator before rank 0 could send to it"};
	struct op *op;
	struct rig *rig = sending(&op, 3);

	fake_enqueue(op);
	queue_progress(rig->lane);
	if (why == 1)
		rig->context->host.peer_lost(&rig->context->host, 2, "the cable is cut");
	if (why == 2)
		rig->lane->peer_state[2] = PEER_LEFT;
	fake_complete(rig, 0, COLL_SUCCESS);
	fake_complete(rig, 1, COLL_ERR_PEER_LOST);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_PEER_LOST, "a failed send fails the communicator");
	is_str(comm_failure(rig->lane), texts[why], "and the receiver is named");
	is_int(rig->fake.cancels, 1, "the send that is under way is cancelled, no other");
	rig_free(rig);
}

static void test_failed_receive(void)
{
	struct op *op;
	struct rig *rig = sending(&op, 0);
	coll_sink_t sink;

	fake_enqueue(op);
	queue_progress(rig->lane);
	sink = fake_begin(rig, 2, tag_of(rig, op, 0), op->call.signature, ELEM);
	fake_end(rig, sink, COLL_ERR_PEER_LOST);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_PEER_LOST, "a failed receive fails the communicator");
	is_str(comm_failure(rig->lane), "rank 2 was lost: a message failed",
	       "and the sender is named");
	is_int(rig->fake.sends, FAKE_RANKS - 1, "the other ranks are told");
	for (int k = 0; k < rig->fake.sends; k++)
		fake_complete(rig, k, COLL_SUCCESS);
	rig_free(rig);
}

/* ------------------------------------------------------------------------------ giving up -- */

/* Cancels an operation with a step in each state. */
static void test_cancel(void)
{
	static int32_t in[100], out[100];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 100), *queued;
	const coll_args_t args = reduction(in, out, 1);
	coll_sink_t filling, early;
	int first;

	first = sched_send(&op->sched, 1, at(SCHED_SEND, 0), ELEM, -1); /* under way */
	sched_send(&op->sched, 2, at(SCHED_SEND, 1), ELEM, -1);         /* complete */
	sched_send(&op->sched, 3, at(SCHED_SEND, 2), ELEM, first);      /* not ready */
	sched_recv(&op->sched, 1, at(SCHED_RECV, 0), ELEM, -1);         /* posted */
	sched_recv(&op->sched, 2, at(SCHED_RECV, 1), ELEM, -1);         /* the send is under way */
	sched_recv(&op->sched, 3, at(SCHED_RECV, 2), ELEM, -1);         /* began early */
	early = fake_begin(rig, 3, tag_collective(rig->lane, 0, 0), op->call.signature, ELEM);
	fake_enqueue(op);
	if (fake_op(rig->lane, &args, &queued))
		bail_out("cannot make an operation");
	fake_enqueue(queued);
	queue_progress(rig->lane);
	fake_complete(rig, 1, COLL_SUCCESS);
	filling = fake_begin(rig, 2, tag_of(rig, op, 0), op->call.signature, ELEM);
	queue_progress(rig->lane);
	memset(out, 0, sizeof(out));
	comm_fail(rig->lane, 1, COLL_ERR_ABORTED, "given up");
	is_int(rig->fake.cancels, 1, "the send under way is cancelled");
	ok(rig->fake.drops == 1 && rig->fake.dropped == filling.cookie,
	   "the receive on its way is dropped");
	is_int(rig->fake.closes, 0, "the endpoint stays open");
	ok(op->state == OP_DONE && queued->state == OP_DONE, "all operations are over");
	memcpy(early.buf, "abcd", ELEM);
	fake_end(rig, early, COLL_SUCCESS);
	fake_message(rig, 1, tag_of(rig, op, 0), op->call.signature, in, ELEM);
	ok(!match_next_done(&traffic_of(rig->context)->match) && !out[2],
	   "no receive is left behind");
	queue_progress(rig->lane);
	is_int((int64_t)rig->lane->finished, 0, "nothing is done afterwards");
	ok(fake_woken(rig), "who sleeps is woken");
	rig_free(rig);
}

static void blunt_transport(struct plugin *plugin)
{
	fake_transport(plugin);
	plugin->transport.cancel = NULL;
	plugin->transport.drop = NULL;
}

/*
 * A complete send does not belong to the transport any more, even if the core has not looked yet.
 */
static void test_cancel_complete(void)
{
	struct op *op;
	struct rig *rig = sending(&op, 2);

	fake_enqueue(op);
	queue_progress(rig->lane);
	fake_complete(rig, 0, COLL_SUCCESS);
	comm_fail(rig->lane, 1, COLL_ERR_ABORTED, "given up");
	ok(rig->fake.cancels == 1 && rig->fake.send[0], "only the incomplete send is cancelled");
	rig_free(rig);
}

/* Without cancel and drop the core closes the endpoint, and every communicator on it fails. */
static void test_cancel_by_closing(int receives)
{
	static int32_t in[4], out[4];
	struct rig *rig = rig_new(blunt_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);
	struct lane *second;

	if (comm_new(&second, rig->context, 9, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator");
	if (receives)
		sched_recv(&op->sched, 1, at(SCHED_RECV, 0), ELEM, -1);
	else
		sched_send(&op->sched, 1, at(SCHED_SEND, 0), ELEM, -1);
	fake_enqueue(op);
	queue_progress(rig->lane);
	if (receives)
		fake_begin(rig, 1, tag_of(rig, op, 0), op->call.signature, ELEM);
	comm_fail(rig->lane, 1, COLL_ERR_ABORTED, "given up");
	is_int(rig->fake.closes, 1, "a %s that cannot be cancelled closes the endpoint",
	       receives ? "receive" : "send");
	is_int(second->error, COLL_ERR_ABORTED, "the other communicator fails too");
	has_str(comm_failure(second), "the endpoint of backend 'fake' had to be closed",
		"and says why");
	rig_free_comm(rig, second);
	rig_free(rig);
}

/* The core cancels posted receives and complete sends without the transport. */
static void test_cancel_quietly(void)
{
	static int32_t in[4], out[4];
	struct rig *rig = rig_new(blunt_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);

	sched_recv(&op->sched, 1, at(SCHED_RECV, 0), ELEM, -1);
	fake_enqueue(op);
	queue_progress(rig->lane);
	queue_cancel(rig->lane);
	is_int(rig->fake.closes, 0, "a posted receive is given up without closing the endpoint");
	fake_message(rig, 1, tag_of(rig, op, 0), op->call.signature, in, ELEM);
	ok(!match_next_done(&traffic_of(rig->context)->match), "and gets no message");
	rig->lane->error = COLL_ERR_ABORTED;
	rig_free(rig);
}

/* ----------------------------------------------------------------------------- mismatches -- */

static struct signature another_count(const struct op *op)
{
	return (struct signature){{op->call.signature.meta[0], op->call.signature.meta[1] + 1}};
}

/* The peer's different call comes before, while, or after this rank makes its own. */
static void test_mismatch(int when)
{
	static const char *const times[] = {"early", "in time", "late"};
	static int32_t in[4], out[4];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);
	uint64_t tag = tag_collective(rig->lane, 0, 0);

	if (when < 2)
		sched_recv(&op->sched, 1, at(SCHED_RECV, 0), ELEM, -1);
	if (when == 0)
		fake_message(rig, 1, tag, another_count(op), in, ELEM);
	fake_enqueue(op);
	queue_progress(rig->lane);
	if (when)
		fake_message(rig, 1, tag, another_count(op), in, ELEM);
	context_progress(rig->context);
	is_int(rig->lane->error, COLL_ERR_MISMATCH, "a message of another call comes %s",
	       times[when]);
	has_str(comm_failure(rig->lane),
		"rank 1 called allreduce of 5 int32 (sum) as collective number 1, but rank 0 "
		"called "
		"allreduce of 4 int32 (sum)",
		"and both calls are named");
	rig_free(rig);
}

/*
 * Far ahead, or with many operations under way, a number may mean another collective: then no
 * mismatch is reported.
 */
static void test_ambiguous(void)
{
	static int32_t in[4], out[4];
	struct rig *rig = rig_new(fake_transport);
	struct op *op = fake_empty_op(rig->lane, in, out, 4);
	coll_header_t header = {.tag = tag_collective(rig->lane, 0, 0), .len = ELEM};

	header.meta[0] = op->call.signature.meta[0];
	header.meta[1] = op->call.signature.meta[1] + 1;
	fake_enqueue(op);
	rig->lane->issued += TAG_SEQ_APART;
	is_int(comm_traffic_client.check_unexpected(rig->context, 1, &header), 0,
	       "with so much under way the message is kept");
	is_int(rig->lane->pending.code, 0, "and nothing is said against it");
	fake_message(rig, 1, tag_collective(rig->lane, 1, 0), another_count(op), in, ELEM);
	rig->lane->seq++;
	fake_log_call(rig->lane, &op->call.signature);
	is_int(rig->lane->pending.code, 0, "nor when this rank issues a collective of that number");
	rig->lane->issued -= TAG_SEQ_APART;
	fake_log_call(rig->lane, &op->call.signature);
	is_int(rig->lane->pending.code, COLL_ERR_MISMATCH, "with less under way it is a mismatch");
	rig->lane->pending.code = 0;
	is_int(comm_traffic_client.check_unexpected(rig->context, 1, &header), 1,
	       "and so is the first one");
	rig_free(rig);
}

/* The core remembers the last collectives, and does not compare older ones. */
static void test_history(void)
{
	static int32_t in[4], out[4];
	struct rig *rig = rig_new(fake_transport);
	coll_header_t header = {.len = ELEM};
	struct op *op = fake_empty_op(rig->lane, in, out, 4);

	header.meta[0] = op->call.signature.meta[0];
	header.meta[1] = op->call.signature.meta[1] + 1;
	fake_enqueue(op);
	queue_progress(rig->lane);
	for (int i = 1; i < LOG_CALLS; i++) {
		rig->lane->seq++;
		fake_log_call(rig->lane, &op->call.signature);
	}
	header.tag = tag_collective(rig->lane, 0, 0);
	is_int(comm_traffic_client.check_unexpected(rig->context, 1, &header), 1,
	       "a message of the %dth collective ago is compared", LOG_CALLS);
	rig->lane->pending.code = 0;
	rig->lane->seq++;
	fake_log_call(rig->lane, &op->call.signature);
	is_int(comm_traffic_client.check_unexpected(rig->context, 1, &header), 0,
	       "an older one is not");
	header.tag = tag_collective(rig->lane, rig->lane->seq, 0);
	is_int(comm_traffic_client.check_unexpected(rig->context, 1, &header), 0,
	       "nor one of a later collective");
	rig_free(rig);
}

int main(void)
{
	test_many_sends(1);
	test_many_sends(0);
	test_waiting_sends();
	test_order_of_released();
	test_ring_of_ready_steps();
	for (int last = 0; last < 3; last++)
		test_dependencies(last);
	test_local_steps();
	test_many_local_steps();
	test_early(0);
	test_early(1);
	test_refused_send();
	for (int why = 0; why < 3; why++)
		test_failed_send(why);
	test_failed_receive();
	test_cancel();
	test_cancel_complete();
	test_cancel_by_closing(0);
	test_cancel_by_closing(1);
	test_cancel_quietly();
	for (int when = 0; when < 3; when++)
		test_mismatch(when);
	test_ambiguous();
	test_history();
	return done_testing();
}
