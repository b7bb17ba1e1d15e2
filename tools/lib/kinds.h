/* SPDX-License-Identifier: BSD-3-Clause */
/* kinds.h - what the commands know of the kinds of call: names, and the bandwidth of a bus. */
#ifndef TOOLS_KINDS_H
#define TOOLS_KINDS_H

#include <stdint.h>

/* Returns the kind (COLL_KIND_*) of the name, "allreduce"; 0: there is none. */
int32_t kinds_find(const char *name);
/* Returns the name; "?" for a number that is no kind. */
const char *kinds_name(int32_t kind);
/* Is it a collective of all ranks? */
int kinds_is_collective(int32_t kind);
/* Does each rank of this collective get data of all others?  No: it has a root, or is a scan. */
int kinds_is_mutual(int32_t kind);
/* Does each rank of this collective wait for data of every other rank, whatever the counts are but 0? */
int kinds_is_barrier(int32_t kind);
/* Is there a count for each rank? */
int kinds_is_v(int32_t kind);
/* Is the larger buffer of a rank as long as what all ranks send together (allgatherv, gatherv)? */
int kinds_adds_parts(int32_t kind);
/*
 * Returns the bytes of the larger buffer of a rank, when the call's count argument has `bytes` bytes.  Of v-forms `bytes` is
 * that buffer already.
 */
double kinds_bus_size(int32_t kind, int nranks, double bytes);
/* Returns bus bandwidth divided by algorithm bandwidth, which is kinds_bus_size divided by time. */
double kinds_bus_factor(int32_t kind, int nranks);

#endif
