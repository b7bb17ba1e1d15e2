/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_test.c - coll_mem_alloc and coll_mem_free: arguments, alignment, memory that outlives its communicator, memory
 * that is freed twice or that coll_mem_alloc has not returned, and a forked child.
 */
#include "../lib/ranks.h"

enum { BYTES = 300000, ODD = 12345 };

static int frees_not(struct rank *r, void *ptr, const char *what)
{
	return rank_is(r, coll_mem_free(ptr), COLL_ERR_INVALID_ARGUMENT, what) &&
	       rank_says(r, "coll_mem_free: ", what);
}

static void run_arguments(struct rank *r)
{
	void *ptr = r, *other = NULL;
	char own[64];

	rank_is(r, coll_mem_alloc(r->comm, BYTES, NULL), COLL_ERR_INVALID_ARGUMENT,
		"no place for the address");
	rank_did(r, coll_mem_alloc(r->comm, 0, &ptr), "no bytes");
	if (ptr)
		rank_fail(r, "no bytes have an address");
	rank_did(r, coll_mem_free(NULL), "coll_mem_free of NULL");
	ptr = r;
	rank_is(r, coll_mem_alloc(NULL, BYTES, &ptr), COLL_ERR_INVALID_ARGUMENT, "no communicator");
	if (ptr)
		rank_fail(r, "a failure leaves an address");
	rank_is(r, coll_mem_alloc(r->comm, SIZE_MAX, &ptr), COLL_ERR_INVALID_ARGUMENT,
		"more than memory can have");
	rank_is(r, coll_mem_alloc(r->comm, (size_t)1 << 60, &ptr), COLL_ERR_NO_MEMORY,
		"more than there is");
	if (!rank_did(r, coll_mem_alloc(r->comm, ODD, &ptr), "coll_mem_alloc") ||
	    !rank_did(r, coll_mem_alloc(r->comm, BYTES, &other), "coll_mem_alloc"))
		return;
	if ((uintptr_t)ptr % 64 || (uintptr_t)other % 64)
		rank_fail(r, "an address is not aligned to 64 bytes");
	memset(ptr, 1, ODD);
	memset(other, 2, BYTES);
	frees_not(r, own, "memory of the program");
	frees_not(r, (char *)ptr + 64, "the middle of the memory");
	rank_did(r, coll_mem_free(ptr), "coll_mem_free");
	frees_not(r, ptr, "memory that is freed already");
	rank_is(r, ((char *)other)[BYTES - 1], 2, "the last byte of other memory");
	rank_did(r, coll_mem_free(other), "coll_mem_free");
}

/* The memory serves other communicators, and outlives the one that it was allocated with. */
static void run_outlives(struct rank *r)
{
	coll_comm_t other;
	int64_t *x = NULL;
	const size_t n = BYTES / sizeof(*x);

	if (!rank_did(r, coll_comm_dup(r->comm, &other), "coll_comm_dup") ||
	    !rank_did(r, coll_mem_alloc(other, BYTES, (void **)&x), "coll_mem_alloc") ||
	    !rank_did(r, coll_comm_destroy(other), "coll_comm_destroy"))
		return;
	for (int turn = 0; turn < 4; turn++) {
		for (size_t i = 0; i < n; i++)
			x[i] = r->rank + turn;
		if (!rank_did(r, coll_allreduce(x, x, n, COLL_INT64, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r, coll_sync(r->comm), "coll_sync"))
			return;
		rank_is(r, x[n - 1], r->nranks * (r->nranks - 1) / 2 + r->nranks * turn, "the sum");
	}
	if (!rank_did(r, coll_barrier(r->comm), "coll_barrier") ||
	    !rank_did(r, coll_sync(r->comm), "coll_sync"))
		return;
	rank_did(r, coll_mem_free(x), "coll_mem_free");
}

/* A child has memory of its own: it frees nothing of its parent's, and the parent's bytes stay. */
static void run_fork(struct rank *r)
{
	int64_t *x = NULL;
	int status = 0;
	pid_t child;

	if (!rank_did(r, coll_mem_alloc(r->comm, BYTES, (void **)&x), "coll_mem_alloc"))
		return;
	x[0] = 7;
	child = fork();
	if (child == 0) {
		coll_mem_free(x);
		_exit(coll_mem_free(&status) == COLL_ERR_INVALID_ARGUMENT ? 0 : 1);
	}
	if (!ranks_reap(child, ranks_now() + 60, &status) || status)
		rank_fail(r, "the child ended with status %#x", (unsigned)status);
	rank_is(r, x[0], 7, "the parent's memory");
	rank_did(r, coll_mem_free(x), "coll_mem_free");
}

static void over(const char *backend, int processes, int nranks)
{
	struct ranks_job job = {.backend = backend, .nranks = nranks, .processes = processes};

	job.fn = run_arguments;
	ranks_ok(&job, "%s: arguments of coll_mem_alloc and coll_mem_free", backend);
	job.fn = run_outlives;
	ranks_ok(&job, "%s: memory serves every communicator", backend);
	job.fn = run_fork;
	if (processes)
		ranks_ok(&job, "%s: a forked child", backend);
}

int main(void)
{
	ranks_plugins(".libs", NULL);
	ranks_over_backends(over, 3);
	return done_testing();
}
