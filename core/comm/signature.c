/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signature.c - signatures and their texts.
 *
 * meta[0]: kind (bits 0-7), data type (8-15), operation (16-31), index of the algorithm plus one
 * (32-39), root (40-63); meta[1]: count, or for v-forms whose counts all ranks know a hash of the counts.
 * All opaque types have one number in these bits.  The bytes of their elements stand in the place of the
 * operation; in a reduction, which has one, in bits 48-63 of meta[1].  A rank without elements in a v-form has
 * MATCH_NO_TYPE.
 */
#include "comm/signature.h"
#include "transport/match.h"
#include "base/dtype.h"
#include "comm/call.h"
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

enum { SIGNATURE_ROOT_MASK = 0xffffff };

uint64_t signature_dtype_bits(coll_dtype_t dtype)
{
	if (dtype_is_opaque(dtype))
		return (uint64_t)SIGNATURE_OPAQUE << 8 | (uint64_t)coll_dtype_size(dtype) << 16;
	return (uint64_t)(dtype & 0xff) << 8;
}

static uint64_t signature_hash_counts(const size_t *counts, int n)
{
	uint64_t hash = SIGNATURE_HASH_BEGIN;

	for (int r = 0; r < n; r++)
		hash = signature_hash(hash, counts[r]);
	return hash;
}

/* The count of a v-form: a hash of the counts that all ranks know, or 0. */
static uint64_t signature_counts(const struct lane *lane, const struct call *call)
{
	return kind_at(call->args.kind)->own_counts
		       ? 0
		       : signature_hash_counts(call->args.recvcounts, lane->comm->nranks);
}

static uint64_t signature_redop(const struct redop *redop)
{
	if (redop->fn)
		return SIGNATURE_USER | (redop->ordered ? SIGNATURE_ORDERED : 0) |
		       (redop->number & SIGNATURE_USER_NUMBER);
	return redop->premul_sum ? SIGNATURE_PRE_MUL_SUM : (uint64_t)redop->op;
}

/* The bits of the type in meta[0]; for a reduction with an opaque type also the bits in *count. */
static uint64_t signature_type(const struct kind *k, const struct call *call, uint64_t *count)
{
	const coll_args_t *a = &call->args;

	if (a->kind == COLL_KIND_BARRIER || (k->is_p2p && a->count == 0))
		return 0;
	if (k->is_v && !call->elements[COLL_BUFFER_SEND] && !call->elements[COLL_BUFFER_RECV])
		return MATCH_NO_TYPE;
	if (!k->reduces || !dtype_is_opaque(a->dtype))
		return signature_dtype_bits(a->dtype);
	*count &= (UINT64_C(1) << SIGNATURE_COUNT_BITS) - 1;
	*count |= (uint64_t)coll_dtype_size(a->dtype) << SIGNATURE_COUNT_BITS;
	return SIGNATURE_OPAQUE << 8;
}

struct signature signature_of(const struct lane *lane, const struct call *call)
{
	const coll_args_t *a = &call->args;
	const struct kind *k = kind_at(a->kind);
	uint64_t kind = a->flags & CALL_OF_SPLIT ? KIND_SPLIT
			: k->is_p2p              ? COLL_KIND_SEND
						 : (uint64_t)a->kind;
	uint64_t algorithm = k->is_p2p ? 0 : (uint64_t)(call->algorithm + 1);
	uint64_t root = k->has_root ? (uint64_t)a->root & SIGNATURE_ROOT_MASK : 0;
	uint64_t redop = k->reduces ? signature_redop(&call->redop) : 0;
	uint64_t count = k->is_v ? signature_counts(lane, call) : a->count;
	uint64_t dtype = signature_type(k, call, &count);

	return (struct signature){
		{kind | dtype | redop << 16 | algorithm << 32 | root << 40, count}};
}

static void signature_rank(const void *lane, int rank, char *text, size_t size)
{
	struct rank_name name;

	snprintf(text, size, "%s", comm_rank_name(lane, rank, &name));
}

struct rank_words signature_ranks(const struct lane *lane)
{
	return (struct rank_words){.name = signature_rank, .user = lane};
}

void signature_describe(const struct lane *lane, const struct signature *signature, char *text,
			size_t size)
{
	const struct rank_words ranks = signature_ranks(lane);

	words_signature(&ranks, signature->meta, text, size);
}

void call_describe(const struct lane *lane, const struct call *call, char *text, size_t size)
{
	const coll_args_t *a = &call->args;
	const struct rank_words ranks = signature_ranks(lane);
	const struct record record = {.meta = {COLL_KIND_SEND | signature_dtype_bits(a->dtype)},
				      .count = a->count,
				      .seq_or_tag = a->tag,
				      .peer = a->root,
				      .kind = a->kind};

	if (kind_at(a->kind)->is_p2p)
		words_operation(&ranks, &record, text, size);
	else
		words_signature(&ranks, call->signature.meta, text, size);
}
