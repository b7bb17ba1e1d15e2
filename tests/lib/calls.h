/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h - a rank makes a collective call in host memory, and the oracle checks the result. */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include "../../tools/oracle/oracle.h"
#include "ranks.h"

/* Allocates at least a byte on the heap.  Ends the test without memory. */
void *calls_memory(size_t bytes);

/* Makes the call, waits for it, and verifies every byte.  An oracle_try_fn; user is the rank. */
int calls_try(void *user, const struct oracle_case *c);

#endif
