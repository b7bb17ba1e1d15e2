/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - calls and records in words: see words.h. */
#include "page/words.h"
#include "base/dtype.h"
#include "base/kind.h"

#include <stdio.h>
#include <string.h>

/* Memory for the name of a rank. */
struct words_rank {
	char text[64];
};

static const char *words_rank(const struct rank_words *ranks, int rank, struct words_rank *name)
{
	ranks->name(ranks->user, rank, name->text, sizeof(name->text));
	return name->text;
}

coll_dtype_t signature_dtype(const uint64_t *meta)
{
	const int dtype = (int)(meta[0] >> 8 & 0xff);
	const uint64_t size = kind_at(signature_kind(meta))->reduces
				      ? meta[1] >> SIGNATURE_COUNT_BITS
				      : meta[0] >> 16 & 0xffff;

	if (dtype == SIGNATURE_NO_TYPE)
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

const char *signature_kind_name(int kind)
{
	return kind == KIND_SPLIT   ? "comm_split or comm_dup"
	       : kind == KIND_AWAIT ? "the wait for an event"
				    : kind_name(kind);
}

static void words_redop(int op, char *text, size_t size)
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

void words_signature(const struct rank_words *ranks, const uint64_t meta[2], char *text,
		     size_t size)
{
	const int kind = signature_kind(meta), root = (int)(meta[0] >> 40);
	const coll_dtype_t dtype = signature_dtype(meta);
	char reduction[96] = "", from[80] = "", count[40] = "";
	struct words_rank name;

	if (kind == COLL_KIND_BARRIER || !kind_is_valid(kind)) {
		snprintf(text, size, "%s", signature_kind_name(kind));
		return;
	}
	if (kind_at(kind)->is_p2p && !meta[1]) {
		snprintf(text, size, "%s of 0 elements", kind_name(kind));
		return;
	}
	if (kind_at(kind)->reduces)
		words_redop((int)(meta[0] >> 16 & 0xffff), reduction, sizeof(reduction));
	if (kind_at(kind)->has_root)
		snprintf(from, sizeof(from), " with root %s",
			 words_rank(ranks, root, &name) + strlen("rank "));
	if (!kind_at(kind)->is_v)
		snprintf(count, sizeof(count), "%llu ",
			 (unsigned long long)signature_count_of(meta));
	snprintf(text, size, "%s of %s%s%s%s", kind_name(kind), count,
		 dtype == COLL_DTYPE_NONE ? "no elements" : coll_dtype_name(dtype), reduction,
		 from);
}

void words_operation(const struct rank_words *ranks, const struct record *op, char *text,
		     size_t size)
{
	struct words_rank name;

	if (kind_at(op->kind)->is_p2p)
		snprintf(text, size, "%s of %llu %s %s %s with tag %u", kind_name(op->kind),
			 (unsigned long long)op->count, coll_dtype_name(signature_dtype(op->meta)),
			 op->kind == COLL_KIND_RECV ? "from" : "to",
			 words_rank(ranks, op->peer, &name), op->seq_or_tag);
	else
		words_signature(ranks, op->meta, text, size);
}

void words_message(const struct rank_words *ranks, const struct record *message, char *text,
		   size_t size)
{
	struct words_rank name;
	const char *peer = words_rank(ranks, message->peer, &name);
	char tag[32] = "any tag";

	if ((int32_t)message->seq_or_tag != COLL_ANY_TAG)
		snprintf(tag, sizeof(tag), "tag %u", message->seq_or_tag);
	if (message->kind == COLL_KIND_NONE)
		snprintf(text, size, "coll_probe of a message from %s with %s", peer, tag);
	else
		snprintf(text, size, "%s of %llu %s %s %s with %s",
			 message->kind == COLL_KIND_SEND ? "coll_isend" : "coll_irecv",
			 (unsigned long long)message->count,
			 coll_dtype_name(signature_dtype(message->meta)),
			 message->kind == COLL_KIND_SEND ? "to" : "from", peer, tag);
}
