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
	const uint64_t size = kind_reduces(signature_kind(meta)) ? meta[1] >> SIGNATURE_COUNT_BITS
								 : meta[0] >> 16 & 0xffff;

	if (dtype == MATCH_NO_TYPE >> 8)
		return COLL_DTYPE_NONE;
	return dtype == SIGNATURE_OPAQUE ? coll_dtype_opaque(size) : dtype;
}

/* The count of a signature that has one. */
static uint64_t signature_count_of(const uint64_t *meta)
{
	const int reduces = kind_reduces(signature_kind(meta));

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

static uint64_t signature_count(const struct lane *lane, const coll_args_t *a)
{
	if (!kind_is_v(a->kind))
		return a->count;
	return kind_at(a->kind)->own_counts
		       ? 0
		       : signature_hash_counts(a->recvcounts, lane->comm->nranks);
}

static uint64_t signature_redop(const struct call *call)
{
	if (!kind_reduces(call->args.kind))
		return 0;
	if (call->redop.fn)
		return SIGNATURE_USER | (call->redop.ordered ? SIGNATURE_ORDERED : 0) |
		       (call->redop.number & SIGNATURE_USER_NUMBER);
	return call->redop.premul_sum ? SIGNATURE_PRE_MUL_SUM : (uint64_t)call->redop.op;
}

/* The bits of the type in meta[0]; for a reduction with an opaque type also the bits in *count. */
static uint64_t signature_type(const struct call *call, uint64_t *count)
{
	const coll_args_t *a = &call->args;

	if (a->kind == COLL_KIND_BARRIER || (kind_is_p2p(a->kind) && a->count == 0))
		return 0;
	if (kind_is_v(a->kind) && !call->elements[COLL_BUFFER_SEND] &&
	    !call->elements[COLL_BUFFER_RECV])
		return MATCH_NO_TYPE;
	if (!kind_reduces(a->kind) || !dtype_is_opaque(a->dtype))
		return signature_dtype_bits(a->dtype);
	*count &= (UINT64_C(1) << SIGNATURE_COUNT_BITS) - 1;
	*count |= (uint64_t)coll_dtype_size(a->dtype) << SIGNATURE_COUNT_BITS;
	return SIGNATURE_OPAQUE << 8;
}

struct signature signature_of(const struct lane *lane, const struct call *call)
{
	const coll_args_t *a = &call->args;
	int p2p = kind_is_p2p(a->kind);
	uint64_t kind = (uint64_t)(p2p ? COLL_KIND_SEND : a->kind);
	uint64_t algorithm = p2p ? 0 : (uint64_t)(call->algorithm + 1);
	uint64_t root = kind_has_root(a->kind) ? (uint64_t)a->root & SIGNATURE_ROOT_MASK : 0;
	uint64_t count = signature_count(lane, a), dtype = signature_type(call, &count);

	if (a->flags & CALL_OF_SPLIT)
		kind = KIND_SPLIT;
	return (struct signature){
		{kind | dtype | signature_redop(call) << 16 | algorithm << 32 | root << 40, count}};
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
	if (kind_is_p2p(kind) && !signature->meta[1]) {
		snprintf(text, size, "%s of 0 elements", kind_name(kind));
		return;
	}
	if (kind_reduces(kind))
		signature_redop_name(op, reduction, sizeof(reduction));
	if (kind_has_root(kind))
		snprintf(from, sizeof(from), " with root %s",
			 comm_rank_name(lane, root, &name) + strlen("rank "));
	if (!kind_is_v(kind))
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

	if (!kind_is_p2p(a->kind)) {
		signature_describe(lane, &call->signature, text, size);
		return;
	}
	snprintf(text, size, "%s of %zu %s %s %s with tag %u", call->kind->name, a->count,
		 coll_dtype_name(a->dtype), way, comm_rank_name(lane, a->root, &name), a->tag);
}
