/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_many.c - all GPUs of the machine in one process: makes all communicators at once, and drives
 * them by one thread in groups, then by a thread each.
 */
#include <pthread.h>
#include <stdio.h>
#include "gpu.h"

enum { MANY_BYTES = 1 << 16 };

/* One device, as a rank of gpu.c; its faults go into the current check. */
struct many {
	coll_comm_t comm;
	int32_t *send, *recv;
	int32_t rank, nranks, got;
	coll_result_t code;
};

static void many_fill(struct many *m, int32_t value)
{
	int32_t zero = 0;

	gpu_use(m->rank);
	gpu_copy(m->send, &value, sizeof(value));
	gpu_copy(m->recv, &zero, sizeof(zero));
}

static void many_check(struct many *m, int n, int32_t want, const char *what)
{
	for (int r = 0; r < n; r++) {
		gpu_use(m[r].rank);
		gpu_copy(&m[r].got, m[r].recv, sizeof(m[r].got));
		if (m[r].got != want)
			gpu_fail("%s: rank %d has %d, not %d", what, r, m[r].got, want);
	}
}

static void many_group(struct many *m, int n)
{
	for (int r = 0; r < n; r++)
		many_fill(&m[r], r + 1);
	gpu_did(coll_group_start(), "coll_group_start");
	for (int r = 0; r < n; r++)
		gpu_did(coll_allreduce(m[r].send, m[r].recv, 1, COLL_INT32, COLL_SUM, m[r].comm,
				       NULL),
			"coll_allreduce");
	gpu_did(coll_group_end(), "coll_group_end");
	for (int r = 0; r < n; r++)
		gpu_did(coll_sync(m[r].comm), "coll_sync");
	many_check(m, n, n * (n + 1) / 2, "one thread for all");
	gpu_report("%d devices of one process, one thread, a group", n);
}

static void *many_run(void *arg)
{
	struct many *m = arg;

	many_fill(m, m->rank + 1);
	m->code = coll_allreduce(m->send, m->recv, 1, COLL_INT32, COLL_MAX, m->comm, NULL);
	if (!m->code)
		m->code = coll_barrier(m->comm);
	return NULL;
}

static void many_threads(struct many *m, int n)
{
	pthread_t threads[GPU_RANKS];

	for (int r = 0; r < n; r++)
		pthread_create(&threads[r], NULL, many_run, &m[r]);
	for (int r = 0; r < n; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < n; r++)
		if (m[r].code)
			gpu_fail("rank %d: code %d", r, m[r].code);
	many_check(m, n, n, "a thread for each");
	gpu_report("%d devices of one process, a thread for each", n);
}

/* One thread splits for all ranks, then sums over the halves. */
static void many_split(struct many *m, int n)
{
	coll_comm_t halves[GPU_RANKS] = {NULL};

	for (int r = 0; r < n; r++)
		many_fill(&m[r], 1);
	gpu_did(coll_group_start(), "coll_group_start");
	for (int r = 0; r < n; r++)
		gpu_did(coll_comm_split(m[r].comm, r < n / 2, 0, &halves[r], NULL),
			"coll_comm_split");
	gpu_did(coll_group_end(), "coll_group_end with splits");
	gpu_did(coll_group_start(), "coll_group_start");
	for (int r = 0; r < n; r++)
		gpu_did(coll_allreduce(m[r].send, m[r].recv, 1, COLL_INT32, COLL_SUM, halves[r],
				       NULL),
			"coll_allreduce");
	gpu_did(coll_group_end(), "coll_group_end");
	for (int r = 0; r < n; r++)
		gpu_did(coll_sync(halves[r]), "coll_sync");
	many_check(m, n / 2, n / 2, "the lower half");
	many_check(m + n / 2, n - n / 2, n - n / 2, "the upper half");
	for (int r = 0; r < n; r++)
		gpu_did(coll_comm_destroy(halves[r]), "coll_comm_destroy");
	gpu_report("%d devices of one process, split by one thread", n);
}

void gpu_many(struct gpu *g)
{
	int n = g->devices < GPU_RANKS ? g->devices : GPU_RANKS, device;
	coll_comm_t comms[GPU_RANKS];
	struct many m[GPU_RANKS] = {0};

	if (g->nranks > 1 || !g->native || n < 2) {
		gpu_skip("all devices in one process", "%s",
			 n < 2 ? "one device" : "not for this run");
		return;
	}
	if (gpu_did(coll_comm_init_all(comms, n, NULL, NULL), "coll_comm_init_all")) {
		for (int r = 0; r < n; r++) {
			m[r] = (struct many){.comm = comms[r], .rank = r, .nranks = n};
			gpu_use(r);
			m[r].send = gpu_alloc(MANY_BYTES, 0);
			m[r].recv = gpu_alloc(MANY_BYTES, 0);
			if (!m[r].send || !m[r].recv)
				gpu_fail("no memory on device %d", r);
			gpu_did(coll_comm_device(comms[r], &device), "coll_comm_device");
			if (device != r)
				gpu_fail("rank %d has device %d", r, device);
		}
		gpu_report("a communicator for each of %d devices", n);
		many_group(m, n);
		many_threads(m, n);
		many_split(m, n);
		for (int r = 0; r < n; r++) {
			gpu_did(coll_comm_destroy(comms[r]), "coll_comm_destroy");
			gpu_use(r);
			gpu_free(m[r].send);
			gpu_free(m[r].recv);
		}
	}
	gpu_use(g->device);
	gpu_report("all devices in one process");
}
