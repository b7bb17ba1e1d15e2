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
#include "base/dtype.h"
#include "comm/call.h"
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

/*
 * Values of the operation beyond the built-in ones.  Pre-multiplied sums may differ from rank to rank.  The
 * application's own operations have their number on the communicator in the lower bits.
 */
enum {
	SIGNATURE_PRE_MUL_SUM = 256,
	SIGNATURE_USER = 1 << 15,
	SIGNATURE_ORDERED = 1 << 14,
	SIGNATURE_USER_NUMBER = SIGNATURE_ORDERED - 1
};

enum { SIGNATURE_ROOT_MASK = 0xffffff, SIGNATURE_OPAQUE = 0xff, SIGNATURE_COUNT_BITS = 48 };

uint64_t signature_dtype_bits(coll_dtype_t dtype)
{
	if (dtype_is_opaque(dtype))
		return SIGNATURE_OPAQUE << 8 | (uint64_t)coll_dtype_size(dtype) << 16;
	return (uint64_t)(dtype & 0xff) << 8;
}

coll_dtype_t signature_dtype(const uint64_t *meta)
{
	const int dtype = (int)(meta[0] >> 8 & 0xff);
	const uint64_t size = kind_at(signature_kind(meta))->reduces
				      ? meta[1] >> SIGNATURE_COUNT_BITS
				      : meta[0] >> 16 & 0xffff;

	if (dtype == MATCH_NO_TYPE >> 8)
		return COLL_DTYPE_NONE;
	return dtype == SIGNATURE_OPAQUE ? coll_dtype_opaque(size) : dtype;
}

/* The count of a signature that has one. */
static uint64_t signature_count_of(const uint64_t *meta)
{
	const int reduces = kind_at(signature_kind(meta))->reduces;

	if (!reduces || !dtype_is_opaque(signature_dtype(meta)))
		return meta[1];
	return meta[1] & ((UINT64_C(1) << SIGNATURE_COUNT_BITS) - 1);
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

static void signature_redop_name(int op, char *text, size_t size)
{
	if ((op & SIGNATURE_USER) && !(op & SIGNATURE_USER_NUMBER))
		snprintf(text, size,
			 " (an operation of the application for every communicator, %s)",
			 op & SIGNATURE_ORDERED ? "not commutative" : "commutative");
	else if (op & SIGNATURE_USER)
		snprintf(text, size, " (the application's operation number %d, %s)",
			 op & SIGNATURE_USER_NUMBER,
			 op & SIGNATURE_ORDERED ? "not commutative" : "commutative");
	else
		snprintf(text, size, " (%s)",
			 op == SIGNATURE_PRE_MUL_SUM ? "pre-multiplied sum" : coll_op_name(op));
}

const char *signature_kind_name(int kind)
{
	return kind == KIND_SPLIT   ? "comm_split or comm_dup"
	       : kind == KIND_AWAIT ? "the wait for an event"
				    : kind_name(kind);
}

void signature_describe(const struct lane *lane, const struct signature *signature, char *text,
			size_t size)
{
	int kind = signature_kind(signature->meta);
	int op = (int)(signature->meta[0] >> 16 & 0xffff);
	int root = (int)(signature->meta[0] >> 40);
	const coll_dtype_t dtype = signature_dtype(signature->meta);
	char reduction[96] = "", from[64] = "", count[40] = "";
	struct rank_name name;

	if (kind == COLL_KIND_BARRIER || !kind_is_valid(kind)) {
		snprintf(text, size, "%s", signature_kind_name(kind));
		return;
	}
	if (kind_at(kind)->is_p2p && !signature->meta[1]) {
		snprintf(text, size, "%s of 0 elements", kind_name(kind));
		return;
	}
	if (kind_at(kind)->reduces)
		signature_redop_name(op, reduction, sizeof(reduction));
	if (kind_at(kind)->has_root)
		snprintf(from, sizeof(from), " with root %s",
			 comm_rank_name(lane, root, &name) + strlen("rank "));
	if (!kind_at(kind)->is_v)
		snprintf(count, sizeof(count), "%llu ",
			 (unsigned long long)signature_count_of(signature->meta));
	snprintf(text, size, "%s of %s%s%s%s", kind_name(kind), count,
		 dtype == COLL_DTYPE_NONE ? "no elements" : coll_dtype_name(dtype), reduction,
		 from);
}

void call_describe(const struct lane *lane, const struct call *call, char *text, size_t size)
{
	const coll_args_t *a = &call->args;
	const char *way = a->kind == COLL_KIND_RECV ? "from" : "to";
	struct rank_name name;

	if (!kind_at(a->kind)->is_p2p) {
		signature_describe(lane, &call->signature, text, size);
		return;
	}
	snprintf(text, size, "%s of %zu %s %s %s with tag %u", call->kind->name, a->count,
		 coll_dtype_name(a->dtype), way, comm_rank_name(lane, a->root, &name), a->tag);
}
