/* SPDX-License-Identifier: BSD-3-Clause */
/* overlap.c - finds operations of one group that would write to each other's buffers: option check_buffers. */
#include "api/overlap.h"
#include "base/array.h"
#include "base/error.h"
#include "comm/comm.h"

#include <stdlib.h>

/* A block of a buffer. */
struct range {
	uintptr_t begin, end;
	int receives; /* the operation writes to it */
	int kind;
	unsigned operation; /* counts the operations of the group from 1 on */
};

static _Thread_local struct {
	struct range *item;
	int n, cap;
	unsigned operations;
} overlap;

void overlap_forget(void)
{
	free(overlap.item);
	overlap.item = NULL;
	overlap.n = overlap.cap = 0;
	overlap.operations = 0;
}

static int overlap_add(const coll_args_t *a, int receives, size_t first, size_t count)
{
	const size_t elem = coll_dtype_size(a->dtype);
	const char *buf = receives ? a->recvbuf : a->sendbuf;
	struct range *item;

	if (count == 0)
		return COLL_SUCCESS;
	item = array_grow(overlap.item, overlap.n, &overlap.cap, sizeof(*item));
	if (!item)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to compare the buffers of a group");
	overlap.item = item;
	overlap.item[overlap.n++] = (struct range){.begin = (uintptr_t)(buf + first * elem),
						   .end = (uintptr_t)(buf + (first + count) * elem),
						   .receives = receives,
						   .kind = a->kind,
						   .operation = overlap.operations};
	return COLL_SUCCESS;
}

/*
 * The blocks of a v-form may have gaps, which belong to nobody.  The counts of reduce_scatterv count its send
 * buffer, whose blocks have gaps in a list only.
 */
static int overlap_add_buffer(const struct lane *lane, const struct call *call, int receives)
{
	const coll_args_t *a = &call->args;
	const int reduces = a->kind == COLL_KIND_REDUCE_SCATTERV;
	const size_t *counts = receives ^ reduces ? a->recvcounts : a->sendcounts;
	const size_t *displs = receives ? a->recvdispls : a->senddispls;
	const size_t elements = call->elements[receives ? COLL_BUFFER_RECV : COLL_BUFFER_SEND];
	int code = COLL_SUCCESS;

	if (elements == 0 || !counts || !displs)
		return overlap_add(a, receives, 0, elements);
	for (int r = 0; r < lane->comm->nranks && !code; r++)
		code = overlap_add(a, receives, displs[r], counts[r]);
	return code;
}

static const char *overlap_word(const struct range *range)
{
	return range->receives ? "receive" : "send";
}

/* Compares the ranges from `first` on with the ranges before. */
static int overlap_compare(int first)
{
	for (int i = first; i < overlap.n; i++)
		for (int j = 0; j < first; j++) {
			const struct range *a = &overlap.item[i], *b = &overlap.item[j];

			if (a->begin >= b->end || b->begin >= a->end ||
			    !(a->receives || b->receives))
				continue;
			return error_set(
				COLL_ERR_INVALID_USAGE,
				"%s, operation %u of the group: its %s buffer overlaps the %s "
				"buffer of operation %u, %s: the operations of a group run at the "
				"same time, so give them buffers of their own",
				kind_name(a->kind), a->operation, overlap_word(a), overlap_word(b),
				b->operation, kind_name(b->kind));
		}
	return COLL_SUCCESS;
}

/* The root of a broadcast in place only reads. */
static int overlap_receives(const struct lane *lane, const coll_args_t *a)
{
	return a->kind != COLL_KIND_BROADCAST || lane->comm->rank != a->root ||
	       a->sendbuf != a->recvbuf;
}

int overlap_check(const struct lane *lane, const struct call *call)
{
	const int first = overlap.n;
	int code;

	if (!lane->context->check_buffers)
		return COLL_SUCCESS;
	overlap.operations++;
	code = overlap_add_buffer(lane, call, 0);
	if (!code && overlap_receives(lane, &call->args))
		code = overlap_add_buffer(lane, call, 1);
	if (!code)
		code = overlap_compare(first);
	if (code)
		overlap.n = first;
	return code;
}
