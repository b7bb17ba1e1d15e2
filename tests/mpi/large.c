/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * large.c - more than 2^31 elements of int8 in one call, on the ranks of a launcher: a message from rank 0 to rank 1, a
 * broadcast, an all-reduce, an all-gather and a reduce-scatter.  Each rank has one buffer of 2 GiB; the backend may have as
 * much again for each of its copies.
 */
#include "../lib/calls.h"

enum { LARGE_ROW = 4093, LARGE_MORE = 12345 };

static const size_t large_count = ((size_t)1 << 31) + LARGE_MORE;

/* A rank, its buffer, the inputs of all ranks, and this rank's share of the buffer. */
struct large {
	struct rank r;
	struct oracle_data data;
	char *buffer, *own;
	size_t part, at;
};

/* Fills elements of the buffer with the input of this rank. */
static void large_fill(const struct large *l, size_t at, size_t count)
{
	unsigned char row[LARGE_ROW];

	oracle_input_row(&l->data, l->r.rank, LARGE_ROW, row);
	oracle_tile(l->buffer + at, row, LARGE_ROW, 1, 0, count);
}

/* Compares elements of the buffer with those from `first` on of a rank's input, or of the result for rank -1. */
static int large_compare(struct large *l, size_t at, size_t count, int rank, size_t first)
{
	unsigned char row[LARGE_ROW];
	size_t wrong;

	if (rank < 0)
		oracle_result_row(&l->data, LARGE_ROW, row);
	else
		oracle_input_row(&l->data, rank, LARGE_ROW, row);
	return !oracle_wrong(&l->data, l->buffer + at, row, LARGE_ROW, first, count, &wrong) ||
	       rank_fail(&l->r, "element %zu is wrong", at + wrong);
}

static int large_did(struct large *l, coll_result_t code)
{
	return rank_did(&l->r, code, "the call") &&
	       rank_did(&l->r, coll_sync(l->r.comm), "the wait");
}

static int large_message(struct large *l)
{
	coll_result_t code = COLL_SUCCESS;

	large_fill(l, 0, large_count);
	if (l->r.rank == 0)
		code = coll_send(l->buffer, large_count, COLL_INT8, 1, 0, l->r.comm, NULL);
	else if (l->r.rank == 1)
		code = coll_recv(l->buffer, large_count, COLL_INT8, 0, 0, l->r.comm, NULL);
	return large_did(l, code) && (l->r.rank != 1 || large_compare(l, 0, large_count, 0, 0));
}

static int large_broadcast(struct large *l)
{
	large_fill(l, 0, large_count);
	return large_did(l, coll_broadcast(l->buffer, l->buffer, large_count, COLL_INT8, 1,
					   l->r.comm, NULL)) &&
	       large_compare(l, 0, large_count, 1, 0);
}

static int large_allreduce(struct large *l)
{
	large_fill(l, 0, large_count);
	return large_did(l, coll_allreduce(l->buffer, l->buffer, large_count, COLL_INT8, COLL_SUM,
					   l->r.comm, NULL)) &&
	       large_compare(l, 0, large_count, -1, 0);
}

/* The parts of all ranks together have more than 2^31 elements. */
static int large_allgather(struct large *l)
{
	int good;

	large_fill(l, l->at, l->part);
	good = large_did(l, coll_allgather(l->own, l->buffer, l->part, COLL_INT8, l->r.comm, NULL));
	for (int r = 0; good && r < l->r.nranks; r++)
		good = large_compare(l, l->part * (size_t)r, l->part, r, 0);
	return good;
}

static int large_reduce_scatter(struct large *l)
{
	large_fill(l, 0, large_count);
	return large_did(l, coll_reduce_scatter(l->buffer, l->own, l->part, COLL_INT8, COLL_SUM,
						l->r.comm, NULL)) &&
	       large_compare(l, l->at, l->part, -1, l->at);
}

static void large_calls(struct large *l)
{
	static const struct {
		const char *what;
		int (*call)(struct large *l);
	} calls[] = {
		{"a message", large_message},
		{"a broadcast", large_broadcast},
		{"an all-reduce", large_allreduce},
		{"an all-gather", large_allgather},
		{"a reduce-scatter", large_reduce_scatter},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!calls[i].call(l)) {
			fprintf(stderr, "large: %s, rank %d: %s\n", calls[i].what, l->r.rank,
				l->r.failure);
			coll_comm_abort(l->r.comm);
			exit(1);
		}
}

int main(void)
{
	char failure[RANKS_TEXT] = "";
	struct large l = {.r = {.failure = failure}};
	struct rank *r = &l.r;

	if (coll_comm_init_env(&r->comm, NULL) || coll_comm_user_rank(r->comm, &r->rank) ||
	    coll_comm_count(r->comm, &r->nranks))
		return fprintf(stderr, "large: %s\n", coll_get_last_error(NULL)), 1;
	l.data = (struct oracle_data){COLL_INT8, COLL_SUM, r->nranks, .near = 0};
	l.buffer = calls_memory(large_count);
	l.part = large_count / (size_t)r->nranks;
	l.at = l.part * (size_t)r->rank;
	l.own = l.buffer + l.at;
	large_calls(&l);
	free(l.buffer);
	return coll_comm_destroy(r->comm);
}
