/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - calls and records in words, for messages, for the files of the option `dump`, and for tools that read pages. */
#ifndef CORE_PAGE_WORDS_H
#define CORE_PAGE_WORDS_H

#include "page/record.h"

#include <coll/coll.h>
#include <stddef.h>

/* How a text names the ranks of a communicator. */
struct rank_words {
	/* Writes "rank 1", "rank 1 (world rank 3)", or of COLL_ANY_SOURCE "any rank".  Accepts any number. */
	void (*name)(const void *user, int rank, char *text, size_t size);
	const void *user;
};

/*
 * The parts of a signature (comm/signature.c has the layout).  Values of the operation beyond the built-in ones:
 * pre-multiplied sums may differ from rank to rank; the application's own operations have their number on the communicator
 * in the lower bits.
 */
enum {
	SIGNATURE_PRE_MUL_SUM = 256,
	SIGNATURE_USER = 1 << 15,
	SIGNATURE_ORDERED = 1 << 14,
	SIGNATURE_USER_NUMBER = SIGNATURE_ORDERED - 1,
	SIGNATURE_OPAQUE = 0xff,
	SIGNATURE_NO_TYPE = 0xfe,
	SIGNATURE_COUNT_BITS = 48
};

/* The kind in a signature's meta[0]: COLL_KIND_* or KIND_SPLIT. */
static inline int signature_kind(const uint64_t *meta)
{
	return (int)(meta[0] & 0xff);
}
/* The index of the algorithm in a signature's meta[0] (schedule/algo.h, coll_algorithm), or -1: none. */
static inline int words_algorithm(const uint64_t *meta)
{
	return (int)(meta[0] >> 32 & 0xff) - 1;
}
/* The type in a signature's meta[0] and meta[1]. */
coll_dtype_t signature_dtype(const uint64_t *meta);
/* The name of such a kind, or of KIND_AWAIT. */
const char *signature_kind_name(int kind);

/* Writes "allreduce of 10 float32 (sum)", from a signature. */
void words_signature(const struct rank_words *ranks, const uint64_t meta[2], char *text,
		     size_t size);
/* Writes the same of an operation, or "recv of 4 int32 from rank 2 with tag 7". */
void words_operation(const struct rank_words *ranks, const struct record *op, char *text,
		     size_t size);
/* Writes "coll_irecv of 4 int32 from rank 1 with tag 7", of a message outside the order of the operations. */
void words_message(const struct rank_words *ranks, const struct record *message, char *text,
		   size_t size);

#endif
