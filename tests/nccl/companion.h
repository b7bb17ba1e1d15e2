/* SPDX-License-Identifier: BSD-3-Clause */
/* companion.h - what the tests of the companion of a backend without a transport share. */
#ifndef TESTS_NCCL_COMPANION_H
#define TESTS_NCCL_COMPANION_H

#include "harness.h"

enum {
	SOON = 30,      /* bound for calls that must end: far above the time that they take */
	QUICK_MS = 1000 /* for a busy machine; `timeout` would end the waits after 60 s */
};

/* Waits until the ranks have counted up to n, at most SOON. */
RANKS_UNUSED static void wait_until(const _Atomic int *count, int n)
{
	const double deadline = ranks_now() + SOON;

	while (atomic_load(count) < n && ranks_now() < deadline)
		ranks_sleep(0.0001);
}

/* The calling rank has come; waits until n ranks have, at most SOON. */
RANKS_UNUSED static void meet(_Atomic int *count, int n)
{
	atomic_fetch_add(count, 1);
	wait_until(count, n);
}

RANKS_UNUSED static void destroy(struct rank *r)
{
	double begin = ranks_now();

	if (r->comm)
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > SOON)
		rank_fail(r, "destroy took %.1f s", ranks_now() - begin);
}

/* No rank destroys its communicator before n of them have seen their errors. */
RANKS_UNUSED static void end_together(struct rank *r, _Atomic int *done, int n)
{
	meet(done, n);
	destroy(r);
}

/* A call on host or device memory, and its wait. */
RANKS_UNUSED static int call_on(struct rank *r, int on_host)
{
	int64_t x = 1, *there = on_host ? &x : nccl_new(r->rank, &x, 1);
	int code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (!on_host)
		device_free(r->rank, there);
	return code;
}

/* Asks for the communicator's error until there is one, and syncs: a call may have ended before the others tell. */
RANKS_UNUSED static int sync_when_told(struct rank *r)
{
	const double end = ranks_now() + SOON;
	coll_result_t error = COLL_SUCCESS;

	while (!error && ranks_now() < end)
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	return coll_sync(r->comm);
}

/* Issues allreduces in place until one fails, and returns its code. */
RANKS_UNUSED static int call_until_failure(struct rank *r, coll_comm_t comm)
{
	const double deadline = ranks_now() + SOON;
	int64_t x = 0, *there = nccl_new(r->rank, &x, 1);
	int code = 0;

	while (!code && ranks_now() < deadline) {
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, comm, NULL);
		if (!code)
			code = coll_sync(comm);
	}
	device_free(r->rank, there);
	return code;
}

static int compare_times(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Is the median of n times, in seconds, below QUICK_MS? */
RANKS_UNUSED static void is_quick(double *took, size_t n, const char *name)
{
	qsort(took, n, sizeof(took[0]), compare_times);
	/* A process under a sanitizer ends late. */
	if (!ok(took[n / 2] * 1e3 < QUICK_MS || ranks_sanitized(), "%s", name))
		diag("the median of %zu times: %.1f ms", n, took[n / 2] * 1e3);
}

#endif
