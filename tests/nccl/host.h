/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - what the tests of host memory on communicators of a backend without a transport share. */
#ifndef TESTS_NCCL_HOST_H
#define TESTS_NCCL_HOST_H

#include "harness.h"

/* Is the sum of `x`, on the host, equal to `want`, and that of 10 x on the device to 10 want? */
int both_sum(struct rank *r, coll_comm_t comm, int64_t x, int64_t want, const char *what);

/* The sum of 1 to n. */
int64_t sum_to(int64_t n);

/* A test on ranks as processes and as threads. */
struct host_job {
	void (*fn)(struct rank *r);
	const char *name;
	int least; /* ranks */
};

/* Runs the jobs, which end with an empty one, with 1 to 4 ranks; the program has not used CUDA yet. */
void host_run(const struct host_job *jobs);

#endif
