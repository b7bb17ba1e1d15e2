/* SPDX-License-Identifier: BSD-3-Clause */
/* span.h - the parts of the buffers that an operation uses on this rank, and operations in place. */
#ifndef CORE_COMM_SPAN_H
#define CORE_COMM_SPAN_H

#include <coll/backend.h>
#include <stddef.h>

struct lane;

/*
 * Elements from the beginning of a buffer to the end of its last block.  displs NULL: the blocks follow
 * one another.  SIZE_MAX: the sum does not fit.
 */
size_t span_of_blocks(const size_t *counts, const size_t *displs, int n);
/* Elements of the send or the receive buffer that this rank uses.  SIZE_MAX: the sum does not fit. */
size_t span_elements(const struct lane *lane, const coll_args_t *args, int receives);
/* Does the call ask for an operation in place: do its buffers overlap as coll.h allows? */
int span_is_in_place(const struct lane *lane, const coll_args_t *args);

#endif
