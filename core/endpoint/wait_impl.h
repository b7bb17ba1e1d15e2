/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_impl.h - what the files of a wait share. */
#ifndef CORE_ENDPOINT_WAIT_IMPL_H
#define CORE_ENDPOINT_WAIT_IMPL_H

#include "endpoint/context.h"

/* Drives contexts beside `context`, except contexts that another thread has locked.  Returns 1 if anything moved. */
int wait_sweep(struct context *context);

/*
 * Calls look for each of these contexts, which is locked meanwhile, until look returns 0.  Returns the last result, or 0 if
 * the list of contexts is not free.
 */
int wait_each(struct context *context, int (*look)(struct context *other, void *user), void *user);

/*
 * Called when another thread has kept the processor for long.  Have the ranks of this host had the processors of this rank alone
 * lately?  Returns 1 also while that is not known.
 */
int crowd_is_ours(struct context *context, int64_t now);

#endif
