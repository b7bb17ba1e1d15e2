/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * again_test.c - calls that differ from the last one by their buffers, by more, or that come in another way: each has its own
 * result, although the plugin makes the first kind without a new look at it.
 */
#include "harness.h"

enum { BUFFERS = 8, ROUNDS = 40 };

/* Device memory of a rank: the i-th value is 10 * i + rank. */
struct buffers {
	int64_t *in, *out;
	void *stream;
};

static void one(struct rank *r, const struct buffers *b, int i, coll_op_t op, void *stream)
{
	rank_did(r, coll_allreduce(b->in + i, b->out + i, 1, COLL_INT64, op, r->comm, stream),
		 "an allreduce");
}

static void is(struct rank *r, const int64_t *there, int64_t want, const char *what)
{
	const int64_t got = nccl_value(r->rank, there);

	if (got != want)
		rank_fail(r, "%s: %lld, expected %lld", what, (long long)got, (long long)want);
}

static void other_buffers(struct rank *r, const struct buffers *b)
{
	for (int i = 0; i < ROUNDS; i++)
		one(r, b, i % BUFFERS, COLL_SUM, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < BUFFERS; i++)
		is(r, b->out + i, 20 * i + 1, "a sum");
}

/* Neither the operation nor the stream of the last call is the next one's. */
static void other_calls(struct rank *r, const struct buffers *b)
{
	for (int i = 0; i < BUFFERS; i++)
		one(r, b, i, i % 2 ? COLL_MAX : COLL_SUM, i % 3 ? b->stream : NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_stream_do(r->rank, b->stream, cuStreamSynchronize))
		rank_fail(r, "the stream of the program has failed");
	for (int i = 0; i < BUFFERS; i++)
		is(r, b->out + i, i % 2 ? 10 * i + 1 : 20 * i + 1, "a sum or a maximum");
}

/* NCCL cannot reduce there: the high half of a value is in the next one's low half. */
static void unaligned(struct rank *r, const struct buffers *b)
{
	const int64_t halves[] = {(int64_t)(5 + r->rank) << 32, 0};
	char *in = (char *)nccl_new(r->rank, halves, 2) + 4, *out = (char *)(b->out + 2) + 4;

	one(r, b, 0, COLL_SUM, NULL);
	rank_did(r, coll_allreduce(in, out, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "unaligned");
	one(r, b, 1, COLL_SUM, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	is(r, (const int64_t *)(const void *)out, 11, "an unaligned sum");
	is(r, b->out, 1, "the sum before it");
	is(r, b->out + 1, 21, "the sum after it");
}

static void grouped(struct rank *r, const struct buffers *b)
{
	one(r, b, 0, COLL_SUM, NULL);
	rank_did(r, coll_group_start(), "a group");
	one(r, b, 3, COLL_SUM, NULL);
	one(r, b, 4, COLL_SUM, NULL);
	rank_did(r, coll_group_end(), "its end");
	one(r, b, 5, COLL_SUM, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 3; i < 6; i++)
		is(r, b->out + i, 20 * i + 1, "a sum in a group or after it");
}

static void job(struct rank *r)
{
	int64_t values[BUFFERS] = {0}, zeros[BUFFERS] = {0};
	struct buffers b = {.stream = nccl_stream(r->rank)};

	for (int i = 0; i < BUFFERS; i++)
		values[i] = 10 * i + r->rank;
	b.in = nccl_new(r->rank, values, BUFFERS);
	b.out = nccl_new(r->rank, zeros, BUFFERS);
	other_buffers(r, &b);
	other_calls(r, &b);
	unaligned(r, &b);
	grouped(r, &b);
	other_buffers(r, &b);
}

int main(int argc, char **argv)
{
	const struct nccl_job threads = {.nranks = 2, .init = INIT_ALL, .fn = job};
	const struct nccl_job processes = {.nranks = 2, .processes = 1, .init = INIT_ID, .fn = job};

	(void)argc;
	nccl_begin(argv, ".libs");
	nccl_ok(&processes,
		"processes"); /* before this process uses the driver, which does not outlive a fork */
	nccl_hold_devices();
	nccl_ok(&threads, "threads");
	return done_testing();
}
