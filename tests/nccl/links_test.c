/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_test.c - calls without elements, for which NCCL connects nobody: the next call, which has elements, must not wait
 * inside NCCL in the calling thread, where neither a timeout nor an abort would end it.
 *
 *   links_test [FOLDERS]   FOLDERS: those of the stand-ins, relative to fakes
 */
#include "companion.h"

enum {
	LATE = 5 /* seconds for which rank 1 stays away: above those that a call takes which does not wait */
};

static _Atomic int *called; /* rank 0's call has returned */

/* Elements at each rank: none, or one; in the v-forms none from rank 0 to rank 1, or from rank 1 to rank 0. */
static int gather(struct rank *r, int64_t *there, size_t count)
{
	return coll_gather(there, there + 1, count, COLL_INT64, 1, r->comm, NULL);
}

static int scatter(struct rank *r, int64_t *there, size_t count)
{
	return coll_scatter(there, there + 2, count, COLL_INT64, 1, r->comm, NULL);
}

static int alltoall(struct rank *r, int64_t *there, size_t count)
{
	return coll_alltoall(there, there + 2, count, COLL_INT64, r->comm, NULL);
}

static int gatherv(struct rank *r, int64_t *there, size_t count)
{
	const size_t counts[] = {count, 1}, displs[] = {0, 1};

	return coll_gatherv(there, counts[r->rank], there + 2, counts, displs, COLL_INT64, 1,
			    r->comm, NULL);
}

static int scatterv(struct rank *r, int64_t *there, size_t count)
{
	const size_t counts[] = {count, 1}, displs[] = {0, 1};

	return coll_scatterv(there, counts, displs, there + 2, counts[r->rank], COLL_INT64, 1,
			     r->comm, NULL);
}

/* Rank 0 sends to rank 1, and gets nothing. */
static int alltoallv(struct rank *r, int64_t *there, size_t count)
{
	const size_t from_0[] = {1, 1}, from_1[] = {count, 1}, to_0[] = {1, count}, to_1[] = {1, 1};
	const size_t displs[] = {0, 1};

	return coll_alltoallv(there, r->rank ? from_1 : from_0, displs, there + 2,
			      r->rank ? to_1 : to_0, displs, COLL_INT64, r->comm, NULL);
}

static const struct {
	int (*call)(struct rank *r, int64_t *there, size_t count);
	const char *name;
} calls[] = {
	{gather, "gather"},   {scatter, "scatter"},   {alltoall, "alltoall"},
	{gatherv, "gatherv"}, {scatterv, "scatterv"}, {alltoallv, "alltoallv"},
};

static void job(struct rank *r)
{
	const int kind = *(int *)r->user;
	const int64_t values[4] = {1, 2, 3, 4};
	int64_t *there = nccl_new(r->rank, values, 4);
	const double begin = ranks_now();

	rank_did(r, calls[kind].call(r, there, 0), "a call without elements");
	rank_did(r, coll_sync(r->comm), "its sync");
	if (r->rank == 1)
		for (double end = ranks_now() + LATE; !atomic_load(called) && ranks_now() < end;)
			ranks_sleep(0.001);
	rank_did(r, calls[kind].call(r, there, 1), "a call with elements");
	if (r->rank == 0 && ranks_now() - begin > LATE - 1)
		rank_fail(r, "the call has waited for rank 1 inside NCCL");
	if (r->rank == 0)
		atomic_store(called, 1);
	rank_did(r, coll_sync(r->comm), "its sync");
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	nccl_begin(argv, argc > 1 ? argv[1] : ".libs");
	called = ranks_memory(sizeof(*called));
	for (int i = 0; i < (int)(sizeof(calls) / sizeof(calls[0])); i++) {
		atomic_store(called, 0);
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, job, &i},
			"%s without elements, and with them", calls[i].name);
	}
	return done_testing();
}
