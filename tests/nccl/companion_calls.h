/* SPDX-License-Identifier: BSD-3-Clause */
/* companion_calls.h - calls of all ranks that do not fit each other, and calls that do. */
#ifndef TESTS_NCCL_COMPANION_CALLS_H
#define TESTS_NCCL_COMPANION_CALLS_H

#include "companion.h"

enum {
	EVERY = 1024, /* collectives between two comparisons of ranks that do not wait */
	DEVICE_N = 64 /* numbers in each rank's buffer */
};

/* An allreduce of the first `count` numbers. */
int sum(struct rank *r, int64_t *there, size_t count);

/* The calls of the odd rank and of the others, and the words for both in the error of each rank. */
struct differing_call {
	int (*call)(struct rank *r, int64_t *there, int odd);
	const char *name, *words[2];
};

enum { DIFFERING_CALLS = 8 };
extern const struct differing_call differing_calls[DIFFERING_CALLS];

/* The odd rank makes another collective. */
int other_kind(struct rank *r, int64_t *there, int odd);

/* Call number i of a program that is right. */
int one_call(struct rank *r, int64_t *there, int i);

#endif
