/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - groups: many tensors, several communicators, one thread for all ranks. */
#include "check/api/api.h"
#include <stdlib.h>

enum { GROUP_TENSORS = 40 };

static struct oracle_case group_tensor(const struct api_rank *r, int i)
{
	static const int32_t kinds[] = {COLL_KIND_ALLREDUCE, COLL_KIND_BROADCAST,
					COLL_KIND_ALLREDUCE, COLL_KIND_ALLGATHER,
					COLL_KIND_REDUCE,    COLL_KIND_REDUCE_SCATTER,
					COLL_KIND_ALLTOALL,  COLL_KIND_GATHERV};

	int32_t kind = kinds[i % 8], dtype = oracle_formats[i % oracle_format_count].dtype;

	/* Not every vendor's engine sums the short types. */
	if (oracle_reduces(kind) &&
	    (!oracle_op_fits(COLL_SUM, dtype) || (api_may_lack(r) && coll_dtype_size(dtype) < 4)))
		dtype = COLL_INT32;
	return (struct oracle_case){.kind = kind,
				    .dtype = dtype,
				    .op = COLL_SUM,
				    .root = i % r->nranks,
				    .place = i / 8 % 2,
				    .count = (size_t)(i * i * 13 % 3001)};
}

/* Makes many tensors, issues them as one group, waits, and verifies all results. */
static int group_batch(struct api_rank *r, struct api_call *call, int n)
{
	int made = 0, good = 1;

	while (made < n && good) {
		struct oracle_case c = group_tensor(r, made);

		good = api_call_make(&call[made], r, &c);
		if (good)
			api_call_fill(&call[made]);
		made++;
	}
	good = good && api_did(r, coll_group_start(), "coll_group_start");
	for (int i = 0; i < made && good; i++) {
		/* A group within a group changes nothing: the outermost end issues the calls. */
		if (i % 5 == 0)
			coll_group_start();
		good = api_did(r, oracle_issue(&call[i].o.args, r->comm, NULL),
			       coll_kind_name(call[i].o.c.kind));
		if (i % 5 == 0)
			coll_group_end();
	}
	good = api_did(r, coll_group_end(), "coll_group_end") && good;
	/* Calls issued before a refused call of the same group still run. */
	good = api_did(r, coll_sync(r->comm), "coll_sync") && good;
	for (int i = 0; i < made; i++) {
		good = good && api_call_verify(&call[i]);
		api_call_free(&call[i]);
	}
	return good;
}

static void group_tensors(struct api_rank *r)
{
	struct api_call *call = calloc(GROUP_TENSORS, sizeof(*call));

	if (call && group_batch(r, call, 1))
		group_batch(r, call, GROUP_TENSORS);
	free(call);
}

/* ------------------------------------------------------- one thread, all ranks -- */

static int group_drive(struct api_rank *r, const coll_comm_t *comms, int32_t n, int32_t salt)
{
	int32_t *x[CHECK_RANKS], sum = 0, device;
	int good;

	for (int32_t i = 0; i < n; i++) {
		api_did(r, coll_comm_device(comms[i], &device), "coll_comm_device");
		x[i] = api_buffer_of(r, device < 0 ? i : device, sizeof(*x[i]));
		sum += *x[i] = salt + i;
	}
	good = api_did(r, coll_group_start(), "coll_group_start");
	for (int32_t i = 0; i < n && good; i++)
		good = api_did(r,
			       coll_allreduce(x[i], x[i], 1, COLL_INT32, COLL_SUM, comms[i], NULL),
			       "coll_allreduce");
	good = api_did(r, coll_group_end(), "coll_group_end") && good;
	/* The thread may wait for the ranks in any order. */
	for (int32_t i = n - 1; i >= 0 && good; i--)
		good = api_did(r, coll_sync(comms[i]), "coll_sync");
	for (int32_t i = 0; i < n && good; i++)
		if (*x[i] != sum)
			good = api_fail(r, "communicator %d got %d, not %d", i, *x[i], sum);
	return good;
}

/* One thread splits even from odd ranks, all in one group. */
static int group_split(struct api_rank *r, const coll_comm_t *comms)
{
	coll_comm_t half[CHECK_RANKS] = {NULL}, even[CHECK_RANKS] = {NULL};
	int32_t n = r->nranks, evens = 0;
	int good = api_did(r, coll_group_start(), "coll_group_start");

	for (int32_t i = 0; i < n && good; i++)
		good = api_did(r, coll_comm_split(comms[i], i % 2, i, &half[i], NULL),
			       "coll_comm_split in a group");
	good = api_did(r, coll_group_end(), "coll_group_end") && good;
	for (int32_t i = 0; i < n; i += 2)
		even[evens++] = half[i];
	good = good && group_drive(r, even, evens, 5);
	for (int32_t i = 0; i < n; i++)
		if (half[i])
			good = api_did(r, coll_comm_destroy(half[i]), "coll_comm_destroy") && good;
	return good;
}

static int group_with_all(struct api_rank *r, int (*fn)(struct api_rank *, const coll_comm_t *))
{
	coll_comm_t comms[CHECK_RANKS];
	int good;

	if (r->rank)
		return 1;
	if (!api_join_all(r, comms))
		return 0;
	good = fn(r, comms);
	for (int32_t i = 0; i < r->nranks; i++)
		good = api_did(r, coll_comm_destroy(comms[i]), "coll_comm_destroy") && good;
	return good;
}

static int group_drive_often(struct api_rank *r, const coll_comm_t *comms)
{
	int good = 1;

	for (int round = 0; round < 30 && good; round++)
		good = group_drive(r, comms, r->nranks, round);
	return good;
}

static void group_one_thread(struct api_rank *r)
{
	group_with_all(r, group_drive_often);
}

static void group_one_thread_split(struct api_rank *r)
{
	group_with_all(r, group_split);
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan group_tensors_plan = {.rank = group_tensors};
static const struct api_plan group_two_comms_plan = {.scenario = scenario_two_comms};
static const struct api_plan group_one_thread_plan = {.rank = group_one_thread,
						      .flags = API_NO_COMM};
static const struct api_plan group_one_thread_split_plan = {.rank = group_one_thread_split,
							    .flags = API_NO_COMM};

const struct check check_api_group[] = {
	{"group-tensors", "many tensors of any size and type form one batch",
	 "coll.h, coll_group_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &group_tensors_plan},
	{"group-two-comms", "one group holds operations of two communicators",
	 "coll.h, coll_group_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &group_two_comms_plan},
	{"group-one-thread", "one thread drives all ranks of its process",
	 "coll.h, coll_comm_init_all", CHECK_API, .ways = CHECK_THREADS, .run = api_run,
	 .plan = &group_one_thread_plan},
	{"group-one-thread-split", "one thread splits all ranks of its process in one group",
	 "coll.h, coll_comm_split", CHECK_API, .ways = CHECK_THREADS, .run = api_run,
	 .plan = &group_one_thread_split_plan},
	{.name = NULL},
};
