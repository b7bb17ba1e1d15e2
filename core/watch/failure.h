/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h - the sentences for calls that do not fit, which fail the communicator soon (lane_set_pending).  The lock is
 * held in all functions.
 */
#ifndef CORE_WATCH_FAILURE_H
#define CORE_WATCH_FAILURE_H

#include "comm/comm.h"
#include "comm/signature.h"

struct recv;

/* Fails the communicator soon: collective `seq` of that rank, by its signature, differs from this rank's. */
void comm_report_call(struct lane *lane, int rank, uint32_t seq, const uint64_t *theirs,
		      const uint64_t *ours);
/* The first `number` calls of the rank and of this rank differ, and nobody knows any more which calls. */
void comm_report_unnamed(struct lane *lane, int rank, uint32_t number);
/*
 * The caller has made collective `number`, and the leaver has destroyed its communicator without it.  call: its signature, or
 * NULL if it is not known.
 */
void comm_report_missing(struct lane *lane, int caller, int leaver, uint32_t number,
			 const struct signature *call);
/* theirs: the signature in a message of `rank`; ours: the signature that this rank's recv expected. */
void comm_report_message(struct lane *lane, int rank, uint64_t tag, const uint64_t *theirs,
			 const uint64_t *ours);
/* The calls agree, but the counts of the v-form do not. */
void comm_report_lengths(struct lane *lane, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header);

#endif
