/* SPDX-License-Identifier: BSD-3-Clause */
/* scratch_test.c - large scratch memory is shared by a communicator's calls, and small calls keep their schedules. */
#include "fake_backend.h"

#include "compose/composed.h"

enum { TEST_LARGE = 2 * SCRATCH_MIDDLE };

static int test_allocs; /* blocks that exist */
static void *(*test_alloc_before)(const coll_host_t *host, uint64_t bytes);

static void *test_alloc(const coll_host_t *host, uint64_t bytes)
{
	test_allocs++;
	return test_alloc_before(host, bytes);
}

static void test_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	test_allocs -= ptr != NULL;
	free(ptr);
}

static struct rig *test_rig(void)
{
	struct rig *rig = rig_new(fake_transport);

	test_alloc_before = rig->context->host.alloc;
	rig->context->host.alloc = test_alloc;
	rig->context->host.free = test_free;
	return rig;
}

static void test_one_block(void)
{
	struct rig *rig = test_rig();
	struct scratch one = {0}, other = {0};
	void *at;

	scratch_reserve(rig->lane, &one, TEST_LARGE);
	at = one.at;
	scratch_rest(rig->lane, &one);
	ok(!one.at && !one.size, "an operation that has finished has no large block");
	scratch_reserve(rig->lane, &other, TEST_LARGE / 2);
	ok(other.at == at && other.size == TEST_LARGE, "another operation takes the block");
	scratch_reserve(rig->lane, &other, TEST_LARGE);
	ok(other.at == at && test_allocs == 1, "and need not ask again for what it has");
	scratch_rest(rig->lane, &other);
	scratch_reserve(rig->lane, &one, 2 * TEST_LARGE);
	ok(one.size == 2 * TEST_LARGE && test_allocs == 1, "a larger block takes its place");
	scratch_free(rig->lane, &one);
	is_int(test_allocs, 0, "no block is left");
	rig_free(rig);
}

static void test_several_blocks(void)
{
	enum { BLOCKS = SCRATCH_SPARES + 2 };
	struct rig *rig = test_rig();
	struct scratch block[BLOCKS] = {{0}};

	for (int i = 0; i < BLOCKS; i++)
		scratch_reserve(rig->lane, &block[i], (size_t)(i + 1) * TEST_LARGE);
	is_int(test_allocs, BLOCKS, "operations that run together have a block each");
	for (int i = 0; i < BLOCKS; i++)
		scratch_rest(rig->lane, &block[i]);
	is_int(test_allocs, SCRATCH_SPARES, "when they have finished some blocks are kept");
	scratch_reserve(rig->lane, &block[0], 4 * TEST_LARGE);
	ok(block[0].size == 4 * TEST_LARGE, "an operation takes the smallest that is enough");
	scratch_rest(rig->lane, &block[0]);
	scratch_reserve(rig->lane, &block[0], (size_t)BLOCKS * TEST_LARGE);
	ok(block[0].size == (size_t)BLOCKS * TEST_LARGE && test_allocs == SCRATCH_SPARES,
	   "the largest were kept");
	scratch_free(rig->lane, &block[0]);
	rig_free(rig);
	is_int(test_allocs, 0, "the communicator frees its blocks");
}

/* The operations of a group run at the same time; those of the next group take their blocks. */
static void test_middle_blocks(void)
{
	enum { BLOCKS = SCRATCH_KEPT / SCRATCH_MIDDLE + 2, BYTES = SCRATCH_MIDDLE - 100 };
	struct rig *rig = test_rig();
	struct scratch block[BLOCKS] = {{0}}, one = {0};

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			scratch_reserve(rig->lane, &block[i], BYTES);
			memset(block[i].at, i, BYTES);
		}
		is_int(test_allocs, BLOCKS, "each operation of a group has a block");
		for (int i = 0; i < BLOCKS; i++)
			scratch_rest(rig->lane, &block[i]);
		is_int(test_allocs, SCRATCH_KEPT / SCRATCH_MIDDLE,
		       "as many as are allowed are kept");
	}
	scratch_reserve(rig->lane, &one, SCRATCH_SMALL + 1);
	ok(one.size == SCRATCH_MIDDLE && test_allocs == SCRATCH_KEPT / SCRATCH_MIDDLE,
	   "an operation that needs less takes one of them");
	scratch_rest(rig->lane, &one);
	rig_free(rig);
	is_int(test_allocs, 0, "the communicator frees its middle blocks");
	rig = test_rig();
	for (size_t bytes = SCRATCH_SMALL + 1; bytes <= SCRATCH_MIDDLE; bytes += 4097) {
		scratch_reserve(rig->lane, &one, bytes);
		if (one.size < bytes || one.size >= 2 * bytes)
			break;
		memset(one.at, 1, one.size);
		scratch_free(rig->lane, &one);
	}
	ok(!one.at,
	   "a block has at least the bytes that it is asked for, and less than twice as many");
	rig_free(rig);
}

/* An allreduce of `count` elements, as it is after it has run. */
static void test_run(struct rig *rig, int32_t *x, uint64_t count, size_t scratch)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = x,
				  .recvbuf = x,
				  .count = count};
	struct op *op = plan_again(rig->lane, &args);

	if (!op && fake_op(rig->lane, &args, &op))
		bail_out("cannot make an operation: %s", error_text());
	op->stage = PLAN_BUILT;
	scratch_reserve(rig->lane, &op->scratch, scratch);
	op_retire(op);
}

static int test_is_kept(struct rig *rig, int32_t *x, uint64_t count)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = x,
				  .recvbuf = x,
				  .count = count};
	struct op *op = plan_again(rig->lane, &args);
	int kept = op && op->stage == PLAN_BUILT;

	if (op)
		op_retire(op);
	return kept;
}

static void test_small_calls(void)
{
	struct rig *rig = test_rig();
	int32_t x[8];

	test_run(rig, x, 8, TEST_LARGE);
	test_run(rig, x, 1, 64);
	test_run(rig, x, 2, 64);
	test_run(rig, x, 3, 64);
	ok(test_is_kept(rig, x, 1) && test_is_kept(rig, x, 2) && test_is_kept(rig, x, 3),
	   "after a call with large scratch memory all small calls keep their schedules");
	ok(test_is_kept(rig, x, 8), "and so does the large one");
	rig_free(rig);
	is_int(test_allocs, 0, "nothing is left");
}

/* Starts the operation and counts the receives into its scratch memory; *wrong: those that lead elsewhere. */
static int test_receives(struct op *op, int *wrong)
{
	const char *at;
	int receives = 0;

	if (steps_reserve(op) || scratch_reserve(op->lane, &op->scratch, op->scratch_bytes))
		bail_out("no memory");
	at = op->scratch.at;
	if (op->stage < PLAN_PLACED)
		steps_prepare(op);
	for (int i = 0; i < op->sched.nsteps; i++) {
		const struct step *step = &op->sched.step[i];

		if (!sched_is_recv(step) || step->dst.buf != SCHED_SCRATCH)
			continue;
		receives++;
		*wrong += op->run[i].u.recv.dst != at + step->dst.off;
	}
	return receives;
}

/* Between two runs another operation may have taken the block. */
static void test_other_block(void)
{
	struct rig *rig = test_rig();
	int32_t *in = calloc(FAKE_RANKS, TEST_LARGE), *out = calloc(1, TEST_LARGE);
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_REDUCE_SCATTER,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = TEST_LARGE / sizeof(*out)};
	struct scratch other = {0};
	struct op *op;
	int wrong = 0;

	if (!in || !out || fake_op(rig->lane, &args, &op) || composed_build(op))
		bail_out("cannot make an operation: %s", error_text());
	ok(test_receives(op, &wrong) > 0 && !wrong, "an operation receives into its block");
	op_retire(op);
	scratch_reserve(rig->lane, &other, op->scratch_bytes);
	if (plan_again(rig->lane, &args) != op)
		bail_out("the operation is not kept");
	ok(test_receives(op, &wrong) > 0 && !wrong, "the next time into another one");
	scratch_free(rig->lane, &other);
	op_retire(op);
	rig_free(rig);
	is_int(test_allocs, 0, "neither is left");
	free(in);
	free(out);
}

int main(void)
{
	test_one_block();
	test_several_blocks();
	test_middle_blocks();
	test_small_calls();
	test_other_block();
	return done_testing();
}
