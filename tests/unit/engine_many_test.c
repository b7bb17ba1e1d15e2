/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_many_test.c - operations of more messages between two ranks than a tag can number, and a rank that
 * is thousands of operations behind: every element gets where it belongs, and four times as many messages
 * take about four times as long.
 */
#include "fake_backend.h"

#include <time.h>

enum {
	ELEM = sizeof(int32_t),
	FEW = 1 << 18,
	MANY = (1 << TAG_MSG_BITS) + 4096,
	BEHIND = TAG_SEQ_APART - 4, /* operations, without the barrier of the library's own */
	TIMES = 12,                 /* as long at most; a quadratic cost would be 16 */
	TRIALS = 3                  /* on a busy machine one comparison may fail */
};

static int32_t in[MANY], out[MANY];

/* Seconds of processor time. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t tag_of(const struct rig *rig, int msg)
{
	return tag_collective(rig->lane, rig->lane->seq, 0) | ((uint32_t)msg & TAG_MSG_MASK);
}

/* The sends of one operation; returns the number of those that are wrong. */
static int send_all(struct rig *rig, int n)
{
	struct op *op = fake_empty_op(rig->lane, in, out, (uint64_t)n);
	const uint64_t tag = tag_of(rig, 0);
	int wrong = 0, done = 0, before = -1;

	for (int i = 0; i < n; i++)
		sched_send(&op->sched, 1, sched_slice(SCHED_SEND, (size_t)i * ELEM), ELEM, -1);
	fake_enqueue(op);
	while (done > before) {
		before = done;
		queue_progress(rig->lane);
		for (int k = 0; k < rig->fake.sends; k++, done++) {
			const coll_send_t *send = rig->fake.send[k];

			wrong += send->buf != &in[done];
			wrong += send->header.tag != (tag | ((uint32_t)done & TAG_MSG_MASK));
			fake_complete(rig, k, COLL_SUCCESS);
		}
		rig->fake.sends = 0;
	}
	return wrong + (done != n);
}

static void arrive_all(struct rig *rig, struct signature signature, uint64_t tag, int n)
{
	for (int i = 0; i < n; i++)
		fake_message(rig, 1, tag | ((uint32_t)i & TAG_MSG_MASK), signature, &in[i], ELEM);
}

/* The receives of one operation, posted before or after the messages arrive. */
static int receive_all(struct rig *rig, int n, int unexpected)
{
	struct op *op = fake_empty_op(rig->lane, in, out, (uint64_t)n);
	const struct signature signature = op->call.signature;
	const uint64_t tag = tag_of(rig, 0);
	int wrong = 0;

	memset(out, 0, (size_t)n * ELEM);
	for (int i = 0; i < n; i++)
		sched_recv(&op->sched, 1, sched_slice(SCHED_RECV, (size_t)i * ELEM), ELEM, -1);
	if (unexpected)
		arrive_all(rig, signature, tag, n);
	fake_enqueue(op);
	queue_progress(rig->lane);
	if (!unexpected)
		arrive_all(rig, signature, tag, n);
	queue_progress(rig->lane);
	for (int i = 0; i < n; i++)
		wrong += out[i] != in[i];
	return wrong;
}

/* n operations of one receive each, of which the first begins when the messages of all have come. */
static int catch_up(struct rig *rig, int n)
{
	int wrong = 0;

	memset(out, 0, (size_t)n * ELEM);
	for (int i = 0; i < n; i++) {
		struct op *op = fake_empty_op(rig->lane, &in[i], &out[i], 1);

		for (int k = 0; i == 0 && k < n; k++)
			fake_message(rig, 1, tag_collective(rig->lane, (uint32_t)k, 0),
				     op->call.signature, &in[k], ELEM);
		sched_recv(&op->sched, 1, sched_slice(SCHED_RECV, 0), ELEM, -1);
		fake_enqueue(op);
		queue_progress(rig->lane);
		wrong += out[i] != in[i];
	}
	return wrong;
}

enum { SENDS, EXPECTED, UNEXPECTED, OPERATIONS, WAYS };
static const char *const way_names[WAYS] = {
	"sends of one operation", "expected receives of one operation",
	"unexpected receives of one operation", "operations behind"};

static int run_way(struct rig *rig, int way, int n)
{
	if (way == SENDS)
		return send_all(rig, n);
	return way == OPERATIONS ? catch_up(rig, n) : receive_all(rig, n, way == UNEXPECTED);
}

static double run(int way, int n, int *wrong)
{
	struct rig *rig = rig_new(fake_transport);
	double begun = now(), took;

	*wrong += run_way(rig, way, n);
	took = now() - begun;
	*wrong += rig->lane->finished != (way == OPERATIONS ? (uint64_t)n : 1);
	rig_free(rig);
	return took;
}

int main(void)
{
	for (int i = 0; i < MANY; i++)
		in[i] = i + 1;
	for (int way = 0; way < WAYS; way++) {
		int most = way == OPERATIONS ? BEHIND : MANY,
		    least = way == OPERATIONS ? BEHIND / 4 : FEW;
		double few = 0, many = 1;
		int wrong = 0;

		for (int trial = 0; trial < TRIALS && many > TIMES * few; trial++) {
			few = run(way, least, &wrong);
			many = run(way, most, &wrong);
		}
		is_int(wrong, 0, "%d %s", most, way_names[way]);
		diag("%d: %.3f s, %d: %.3f s, ratio %.1f", least, few, most, many, many / few);
		ok(many <= TIMES * few, "%s: no more than %d times as long as %d", way_names[way],
		   TIMES, least);
	}
	return done_testing();
}
