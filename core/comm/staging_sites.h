/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_sites.h - which operations of a communicator were copied through host memory, and from which places of the program:
 * each place has one warning, later operations are counted.
 */
#ifndef CORE_COMM_STAGING_SITES_H
#define CORE_COMM_STAGING_SITES_H

#include "comm/comm.h"

/* Counts a staged operation.  Returns 1 if it is the first of its kind from its place. */
int staging_count_one(struct lane *lane, int kind, const void *site);
/* Warns of such a first operation, which copies so many bytes from and to the device. */
void staging_log(const struct lane *lane, int kind, const void *site, size_t from, size_t to);
/* Counts a message of coll_isend or coll_irecv that is staged, and warns of the first of each place in the program. */
void staging_warn_message(struct lane *lane, int kind, const void *site, size_t bytes);
/* Writes "160 allreduce, 2 send", the staged operations of the communicator; "": there were none. */
void staging_count(const struct lane *lane, char *text, size_t size);
/* The communicator is freed. */
void staging_free_sites(struct lane *lane);
/* Sets the place for which the thread calls from now on; NULL: the callers of the library are the places. */
void staging_set_site(const void *site);
/* Returns the place of a call: the place that the thread has set, else the caller of the library. */
const void *staging_site(const void *caller);

#endif
