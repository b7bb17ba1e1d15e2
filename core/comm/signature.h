/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signature.h - the identity of an operation in the headers of its messages: equal on every rank that
 * takes part, so that ranks which call different operations find out.
 */
#ifndef CORE_COMM_SIGNATURE_H
#define CORE_COMM_SIGNATURE_H

#include "page/words.h"

#include <coll/coll.h>

struct call;
struct lane;

struct signature {
	uint64_t meta[2];
};

/* The bits of the algorithm in meta[0]. */
#define SIGNATURE_ALGORITHM ((uint64_t)0xff << 32)

/* The signature of a call whose algorithm is known. */
struct signature signature_of(const struct lane *lane, const struct call *call);
/* The bits of a type in meta[0] of a call that does not reduce. */
uint64_t signature_dtype_bits(coll_dtype_t dtype);
/* How texts name the ranks of a lane. */
struct rank_words signature_ranks(const struct lane *lane);
/* Writes "allreduce of 10 float32 (sum)". */
void signature_describe(const struct lane *lane, const struct signature *signature, char *text,
			size_t size);
/* The index of the algorithm in a signature (schedule/algo.h), or -1: none. */
static inline int signature_algorithm(const struct signature *signature)
{
	return words_algorithm(signature->meta);
}

/* Fowler, Noll and Vo's FNV-1a over 64-bit words: the hash with one more word. */
#define SIGNATURE_HASH_BEGIN 0xcbf29ce484222325u
static inline uint64_t signature_hash(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * 0x100000001b3u;
}

#endif
