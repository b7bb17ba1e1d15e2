/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * two_level_test.c - the allreduce of several nodes with data: nodes of equal and of unequal size, nodes
 * whose ranks lie next to each other and nodes whose ranks alternate, and lengths on both sides of 64 KiB,
 * from where on the leaders of the nodes exchange halves, and of 32 KiB a leader, from where on they use a
 * ring.  The oracle checks every byte.
 */
#include "../lib/calls.h"

enum { LONG = 64 << 10, BLOCK = 32 << 10 };

/* Element counts of a type of `size` bytes, around the lengths from which the leaders go another way. */
static int try_lengths(struct rank *r, struct oracle_case *c, size_t size)
{
	const int node_size = *(const int *)r->user;
	const size_t leaders = (size_t)((r->nranks - 1) / node_size + 1);
	const size_t at = LONG / size, ring = leaders * BLOCK / size;
	const size_t counts[] = {1, 1000, at - 1, at, at + 1, ring - 1, ring, 3 * at + 5};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (c->place = ORACLE_APART; c->place <= ORACLE_ODD_IN_PLACE; c->place++) {
			c->count = counts[i];
			c->seed++;
			if (!calls_try(r, c))
				return 0;
		}
	return 1;
}

static void try_calls(struct rank *r)
{
	static const struct {
		int32_t dtype, op;
		size_t size;
	} types[] = {{COLL_INT8, COLL_SUM, 1},
		     {COLL_FLOAT32, COLL_SUM, 4},
		     {COLL_FLOAT32, COLL_AVG, 4},
		     {COLL_INT64, COLL_MAX, 8}};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct oracle_case c = {
			.kind = COLL_KIND_ALLREDUCE, .dtype = types[i].dtype, .op = types[i].op};

		if (!try_lengths(r, &c, types[i].size))
			return;
	}
}

/*
 * The ranks of the new communicator come from each node in turn: with nodes of 2, ranks 0, 2, 4, 1, 3, 5.
 * r->user is the size of a node.
 */
static void try_alternating(struct rank *r)
{
	const int size = *(const int *)r->user;
	struct rank part = *r;
	int32_t rank;

	part.comm = NULL;
	if (!rank_did(r,
		      coll_comm_split(r->comm, 0, r->rank % size * r->nranks + r->rank, &part.comm,
				      NULL),
		      "split") ||
	    !rank_did(r, coll_comm_user_rank(part.comm, &rank), "user_rank"))
		return;
	part.rank = rank;
	try_calls(&part);
	rank_did(r, coll_comm_destroy(part.comm), "destroy");
}

static void test_nodes(int nranks, int size, const char *segment)
{
	struct ranks_job job = {
		.backend = "simulated", .nranks = nranks, .fn = try_calls, .user = &size};
	char text[16];

	snprintf(text, sizeof(text), "%d", size);
	setenv("COLL_NODE_SIZE", text, 1);
	setenv("COLL_SEGMENT", segment, 1);
	ranks_ok(&job, "nodes of %d, segments of %s", size, segment);
	job.fn = try_alternating;
	ranks_ok(&job, "nodes of %d that alternate, segments of %s", size, segment);
}

int main(void)
{
	static const struct {
		int nranks, size;
	} nodes[] = {{3, 2}, {4, 2}, {5, 2}, {6, 2}, {8, 2}, {5, 4}, {7, 3}, {9, 3}, {16, 4}};

	setenv("COLL_ALLREDUCE_ALGORITHM", "two_level", 1);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		test_nodes(nodes[i].nranks, nodes[i].size, i % 2 ? "1M" : "4K");
	return done_testing();
}
