/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_lock.h - a reduction function that keeps its thread in the library, and with it a lock, until the test lets it go. */
#ifndef TESTS_KEPT_LOCK_H
#define TESTS_KEPT_LOCK_H

#include "ranks.h"

extern int kept_exits;          /* the thread ends in the function */
extern _Atomic int kept_inside; /* a thread is in the function */
extern _Atomic int kept_goes;   /* the function may return */

void kept_begin(void);

/* user: NULL, or the function does not return for a while. */
void kept_reduce(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype);

#endif
