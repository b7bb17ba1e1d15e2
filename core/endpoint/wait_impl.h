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
 * Called after a yield of `took` microseconds that has let another thread run for long.  Have the ranks of this host had the
 * processors of this rank alone in such yields lately?  Returns 1 also while that is not known; then waits.crowd_looks is set.
 * look: what crowd_begin has returned, or 0.
 */
int crowd_is_ours(struct context *context, uint32_t look, int64_t took, int64_t now);
/* Called before a yield while waits.crowd_looks is set.  Never returns 0. */
uint32_t crowd_begin(struct context *context);

#endif
