/* SPDX-License-Identifier: BSD-3-Clause */
/* companion_calls.c - each call, and the table of those that do not fit. */
#include "companion_calls.h"

int sum(struct rank *r, int64_t *there, size_t count)
{
	return coll_allreduce(there, there, count, COLL_INT64, COLL_SUM, r->comm, NULL);
}

static int other_count(struct rank *r, int64_t *there, int odd)
{
	return sum(r, there, odd ? 40 : 20);
}

int other_kind(struct rank *r, int64_t *there, int odd)
{
	return odd ? coll_reduce(there, there, 20, COLL_INT64, COLL_SUM, 0, r->comm, NULL)
		   : sum(r, there, 20);
}

static int other_root(struct rank *r, int64_t *there, int odd)
{
	return coll_broadcast(there, there, 20, COLL_INT64, odd, r->comm, NULL);
}

static int other_op(struct rank *r, int64_t *there, int odd)
{
	return coll_allreduce(there, there, 20, COLL_INT64, odd ? COLL_MAX : COLL_SUM, r->comm,
			      NULL);
}

static int other_type(struct rank *r, int64_t *there, int odd)
{
	return coll_allreduce(there, there, 20, odd ? COLL_UINT64 : COLL_INT64, COLL_SUM, r->comm,
			      NULL);
}

static int broadcast(struct rank *r, int64_t *there)
{
	return coll_broadcast(there, there, 30, COLL_INT64, 0, r->comm, NULL);
}

static int other_order(struct rank *r, int64_t *there, int odd)
{
	const int code = odd ? broadcast(r, there) : sum(r, there, 20);

	return code ? code : odd ? sum(r, there, 20) : broadcast(r, there);
}

/* The odd rank leaves a sum out, and goes on with the broadcast. */
static int one_fewer(struct rank *r, int64_t *there, int odd)
{
	const int code = odd ? COLL_SUCCESS : sum(r, there, 20);

	return code ? code : broadcast(r, there);
}

/* In a group the library queues the calls. */
static int other_in_group(struct rank *r, int64_t *there, int odd)
{
	int code = coll_group_start();

	if (!code)
		code = sum(r, there, odd ? 40 : 20);
	return coll_group_end() || code;
}

const struct differing_call differing_calls[DIFFERING_CALLS] = {
	{other_count,
	 "another count",
	 {"allreduce of 20 int64 (sum)", "allreduce of 40 int64 (sum)"}},
	{other_kind,
	 "another collective",
	 {"allreduce of 20 int64 (sum)", "reduce of 20 int64 (sum) with root 0"}},
	{other_root,
	 "another root",
	 {"broadcast of 20 int64 with root 0", "broadcast of 20 int64 with root 1"}},
	{other_op,
	 "another operation",
	 {"allreduce of 20 int64 (sum)", "allreduce of 20 int64 (max)"}},
	{other_type,
	 "another type",
	 {"allreduce of 20 int64 (sum)", "allreduce of 20 uint64 (sum)"}},
	{other_order,
	 "another order",
	 {"allreduce of 20 int64 (sum)", "broadcast of 30 int64 with root 0"}},
	{one_fewer,
	 "a call left out",
	 {"allreduce of 20 int64 (sum)", "broadcast of 30 int64 with root 0"}},
	{other_in_group,
	 "another count in a group",
	 {"allreduce of 20 int64 (sum)", "allreduce of 40 int64 (sum)"}},
};

/* The last rank has no elements, and names a type of its own. */
static int no_elements(struct rank *r, int64_t *there)
{
	const int last = r->rank == r->nranks - 1;
	size_t counts[RANKS_MAX] = {0};

	for (int n = 0; !last && n < r->nranks - 1; n++)
		counts[n] = 2;
	return coll_alltoallv(there, counts, NULL, there + 16, counts, NULL,
			      last ? COLL_FLOAT32 : COLL_INT64, r->comm, NULL);
}

int one_call(struct rank *r, int64_t *there, int i)
{
	const int peer = r->rank ^ 1;
	size_t counts[RANKS_MAX];
	int code;

	for (int n = 0; n < r->nranks; n++)
		counts[n] = 1 + (size_t)((i + n) % 3);
	switch (i % 8) {
	case 0: return coll_broadcast(there, there, 3, COLL_INT64, i % r->nranks, r->comm, NULL);
	case 1:
		return coll_allgatherv(there, counts[r->rank], there + 8, counts, NULL, COLL_INT64,
				       r->comm, NULL);
	case 2: return coll_reduce(there, there, 2, COLL_INT64, COLL_MAX, 1, r->comm, NULL);
	case 3:
		if (peer >= r->nranks)
			return COLL_SUCCESS;
		return r->rank < peer ? coll_send(there, 2, COLL_INT64, peer, 0, r->comm, NULL)
				      : coll_recv(there, 2, COLL_INT64, peer, 0, r->comm, NULL);
	case 4:
		code = coll_group_start();
		if (!code)
			code = sum(r, there, 4);
		if (!code)
			code = sum(r, there + 8, 4);
		return coll_group_end() || code;
	case 5: return i % 40 == 5 ? coll_barrier(r->comm) : sum(r, there, 1);
	case 6: return no_elements(r, there);
	default: return sum(r, there, 1 + (size_t)i % 4);
	}
}
