/* SPDX-License-Identifier: BSD-3-Clause */
/* case.h - one call of a collective on device memory, directly or by a persistent request. */
#ifndef TESTS_NCCL_CASE_H
#define TESTS_NCCL_CASE_H

#include "harness.h"

enum { CASE_COUNT = 30 };

/*
 * In addition to the operations of coll.h: sums of scaled inputs, with the factor in host or device
 * memory.
 */
enum { CASE_SCALED_HOST = ORACLE_SCALED, CASE_SCALED_DEVICE };

struct nccl_case {
	struct rank *r;
	int kind, dtype, op, root, in_place, persistent, unaligned, list;
	size_t count;
};

/* Runs one case: makes the buffers, calls, and verifies them. */
int case_holds(struct nccl_case c);

#endif
