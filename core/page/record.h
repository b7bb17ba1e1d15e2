/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what the log of calls (comm/call_log.h) keeps of an operation, in the library and in the pages that tools read. */
#ifndef CORE_PAGE_RECORD_H
#define CORE_PAGE_RECORD_H

#include <stdint.h>

/* A log has so many operations, the last ones. */
enum { LOG_RECORDS = 64 };

/* An operation, or a message outside the order of the operations. */
struct record {
	uint64_t meta[2]; /* its signature; of a message the type only */
	uint64_t count;   /* elements; v-forms: sent by this rank, or received if it sends none */
	/* By context_now; 0: not yet. */
	int64_t issued_us, started_us, ended_us;
	uint32_t seq_or_tag; /* of a collective its number, else the tag */
	int32_t peer;        /* root, or peer of a send or recv */
	int32_t kind;
	union {
		int32_t code; /* of a message that has ended: its result */
		uint32_t
			label; /* of a collective: the program's number for it (coll_args_t.tag), or 0 */
	};
};

#endif
