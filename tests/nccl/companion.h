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
void wait_until(const _Atomic int *count, int n);

/* The calling rank has come; waits until n ranks have, at most SOON. */
void meet(_Atomic int *count, int n);

/* Destroys the rank's communicator, if it has one, within SOON. */
void destroy(struct rank *r);

/* No rank destroys its communicator before n of them have seen their errors. */
void end_together(struct rank *r, _Atomic int *done, int n);

/* A call on host or device memory, and its wait. */
int call_on(struct rank *r, int on_host);

/* Asks for the communicator's error until there is one, and syncs: a call may have ended before the others tell. */
int sync_when_told(struct rank *r);

/* Issues allreduces in place until one fails, and returns its code. */
int call_until_failure(struct rank *r, coll_comm_t comm);

/* Orders two times, for qsort. */
int compare_times(const void *a, const void *b);

/* Is the median of n times, in seconds, below QUICK_MS? */
void is_quick(double *took, size_t n, const char *name);

#endif
