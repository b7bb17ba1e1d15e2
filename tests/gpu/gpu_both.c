/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_both.c - calls on host memory and on device memory of one communicator. */
#include <string.h>
#include "gpu.h"

enum { BOTH_CALLS = 60, BOTH_COUNT = 1 << 15 };

/* The value of element `at` of a rank in call number `call`. */
static int32_t both_value(int32_t rank, int call, int at)
{
	return (rank + 1) * 1000 + call * 10 + at % 7;
}

static void both_compare(const struct gpu *g, const int32_t *got, int call, const char *what)
{
	int32_t want;

	for (int i = 0; i < BOTH_COUNT; i += 1023) {
		want = 0;
		for (int32_t r = 0; r < g->nranks; r++)
			want += both_value(r, call, i);
		if (got[i] != want) {
			gpu_fail("%s %d: element %d is %d, not %d", what, call, i, got[i], want);
			return;
		}
	}
}

/* A sum of all ranks' values on host memory beside one on device memory; every rank makes the calls in one order. */
static void both_sum(const struct gpu *g, int32_t *mine, int call)
{
	int32_t *sum = mine + BOTH_COUNT;
	const size_t bytes = BOTH_COUNT * sizeof(*mine);

	for (int i = 0; i < BOTH_COUNT; i++)
		mine[i] = both_value(g->rank, call, i);
	gpu_copy(g->send, mine, bytes);
	memset(sum, 0, bytes);
	gpu_copy(g->recv, sum, bytes);
	for (int turn = 0; turn < 2; turn++)
		if (turn == call % 2)
			gpu_did(coll_allreduce(mine, sum, BOTH_COUNT, COLL_INT32, COLL_SUM, g->comm,
					       NULL),
				"on host memory");
		else
			gpu_did(coll_allreduce(g->send, g->recv, BOTH_COUNT, COLL_INT32, COLL_SUM,
					       g->comm, NULL),
				"on device memory");
	gpu_did(coll_sync(g->comm), "coll_sync");
	both_compare(g, sum, call, "on host memory");
	gpu_copy(sum, g->recv, bytes);
	both_compare(g, sum, call, "on device memory");
}

/* A device call behind a host call: the communicator waits for its own event. */
static void both_event(const struct gpu *g, int32_t *mine, int call)
{
	int32_t *sum = mine + BOTH_COUNT;
	coll_event_t event;

	for (int i = 0; i < BOTH_COUNT; i++)
		mine[i] = both_value(g->rank, call, i);
	gpu_copy(g->send, mine, BOTH_COUNT * sizeof(*mine));
	if (!gpu_did(coll_event_create(g->comm, &event), "coll_event_create"))
		return;
	gpu_did(coll_allreduce(mine, sum, BOTH_COUNT, COLL_INT32, COLL_SUM, g->comm, NULL),
		"on host memory");
	gpu_did(coll_event_record(event, g->comm), "coll_event_record");
	gpu_did(coll_stream_wait_event(g->comm, g->stream, event), "coll_stream_wait_event");
	gpu_did(coll_allreduce(g->send, g->recv, BOTH_COUNT, COLL_INT32, COLL_SUM, g->comm,
			       g->stream),
		"on device memory");
	gpu_did(coll_event_synchronize(event), "coll_event_synchronize");
	both_compare(g, sum, call, "on host memory");
	gpu_did(coll_sync(g->comm), "coll_sync");
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
	gpu_copy(sum, g->recv, BOTH_COUNT * sizeof(*mine));
	both_compare(g, sum, call, "on device memory");
	gpu_did(coll_event_destroy(event), "coll_event_destroy");
}

/* Each rank sends host memory to the next, while a sum on device memory is under way. */
static void both_message(const struct gpu *g, int32_t *mine, int call)
{
	const int32_t next = (g->rank + 1) % g->nranks,
		      last = (g->rank + g->nranks - 1) % g->nranks;
	int32_t *got = mine + BOTH_COUNT;

	for (int i = 0; i < BOTH_COUNT; i++)
		mine[i] = both_value(g->rank, call, i);
	gpu_sum_begin(g, g->comm, NULL);
	gpu_did(coll_group_start(), "coll_group_start");
	gpu_did(coll_send(mine, BOTH_COUNT, COLL_INT32, next, call, g->comm, NULL), "coll_send");
	gpu_did(coll_recv(got, BOTH_COUNT, COLL_INT32, last, call, g->comm, NULL), "coll_recv");
	gpu_did(coll_group_end(), "coll_group_end");
	gpu_did(coll_sync(g->comm), "coll_sync");
	for (int i = 0; i < BOTH_COUNT; i += 1023)
		if (got[i] != both_value(last, call, i))
			gpu_fail("message %d: element %d is %d", call, i, got[i]);
	gpu_sum_end(g, gpu_total(g), "the sum beside a message");
}

void gpu_both(struct gpu *g)
{
	int32_t *mine = (int32_t *)(void *)g->host;

	for (int i = 0; i < BOTH_CALLS; i++)
		both_sum(g, mine, i);
	gpu_report("sums on host memory beside sums on device memory");
	for (int i = 0; i < BOTH_CALLS; i++)
		both_event(g, mine, i);
	gpu_report("a call on device memory behind one on host memory");
	for (int i = 0; i < BOTH_CALLS; i++)
		both_message(g, mine, i);
	gpu_report("messages of host memory beside sums on device memory");
}
