/* SPDX-License-Identifier: BSD-3-Clause */
/* companion.c - ranks that wait for each other, and calls that may fail. */
#include "companion.h"

void wait_until(const _Atomic int *count, int n)
{
	const double deadline = ranks_now() + SOON;

	while (atomic_load(count) < n && ranks_now() < deadline)
		ranks_sleep(0.0001);
}

void meet(_Atomic int *count, int n)
{
	atomic_fetch_add(count, 1);
	wait_until(count, n);
}

void destroy(struct rank *r)
{
	double begin = ranks_now();

	if (r->comm)
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > SOON)
		rank_fail(r, "destroy took %.1f s", ranks_now() - begin);
}

void end_together(struct rank *r, _Atomic int *done, int n)
{
	meet(done, n);
	destroy(r);
}

int call_on(struct rank *r, int on_host)
{
	int64_t x = 1, *there = on_host ? &x : nccl_new(r->rank, &x, 1);
	int code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (!on_host)
		device_free(r->rank, there);
	return code;
}

int sync_when_told(struct rank *r)
{
	const double end = ranks_now() + SOON;
	coll_result_t error = COLL_SUCCESS;

	while (!error && ranks_now() < end)
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	return coll_sync(r->comm);
}

int call_until_failure(struct rank *r, coll_comm_t comm)
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

int compare_times(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void is_quick(double *took, size_t n, const char *name)
{
	qsort(took, n, sizeof(took[0]), compare_times);
	/* A process under a sanitizer ends late. */
	if (!ok(took[n / 2] * 1e3 < QUICK_MS || ranks_sanitized(), "%s", name))
		diag("the median of %zu times: %.1f ms", n, took[n / 2] * 1e3);
}
