/* SPDX-License-Identifier: BSD-3-Clause */
/* span.c - the parts of the buffers that an operation uses on this rank, and operations in place. */
#include "comm/span.h"
#include "base/kind.h"
#include "comm/comm.h"

size_t span_of_blocks(const size_t *counts, const size_t *displs, int n)
{
	size_t end = 0, at = 0;

	for (int r = 0; r < n; r++) {
		if (displs)
			at = displs[r];
		if (counts[r] > PTRDIFF_MAX || at > PTRDIFF_MAX)
			return SIZE_MAX;
		if (counts[r] && at + counts[r] > end)
			end = at + counts[r];
		at += counts[r];
	}
	return end;
}

size_t span_elements(const struct lane *lane, const coll_args_t *a, int receives)
{
	const struct kind *k = kind_at(a->kind);
	int times = receives ? k->recv : k->send;
	int root_only = receives ? k->recv_root : k->send_root;
	const size_t *counts = receives ? a->recvcounts : a->sendcounts;

	if (times == KIND_NONE || (root_only && lane->comm->rank != a->root))
		return 0;
	if (a->kind == COLL_KIND_EXSCAN && receives && !lane->comm->rank)
		return 0; /* no rank comes before it */
	if (a->kind == COLL_KIND_REDUCE_SCATTERV)
		return receives ? a->recvcounts[lane->comm->rank]
				: span_of_blocks(a->recvcounts, NULL, lane->comm->nranks);
	if (times == KIND_EACH && k->is_v)
		return span_of_blocks(counts, receives ? a->recvdispls : a->senddispls,
				      lane->comm->nranks);
	if (times == KIND_EACH)
		return a->count > PTRDIFF_MAX / (size_t)lane->comm->nranks
			       ? SIZE_MAX
			       : a->count * (size_t)lane->comm->nranks;
	return a->count;
}

/* Returns the beginning of the block of rank `block`, in elements. */
static size_t span_displ(const size_t *counts, const size_t *displs, int block)
{
	size_t at = 0;

	if (displs)
		return displs[block];
	for (int r = 0; r < block; r++)
		at += counts[r];
	return at;
}

/* Returns the offset of this rank's part in the larger buffer, in bytes. */
static size_t span_own_part(const struct lane *lane, const coll_args_t *a)
{
	size_t elem = coll_dtype_size(a->dtype);

	switch (a->kind) {
	case COLL_KIND_ALLGATHERV:
	case COLL_KIND_GATHERV:
		return span_displ(a->recvcounts, a->recvdispls, lane->comm->rank) * elem;
	case COLL_KIND_SCATTERV:
		return span_displ(a->sendcounts, a->senddispls, lane->comm->rank) * elem;
	case COLL_KIND_REDUCE_SCATTERV:
		return span_displ(a->recvcounts, a->senddispls, lane->comm->rank) * elem;
	default: return a->count * elem * (size_t)lane->comm->rank;
	}
}

/* Does every block of an alltoallv come in where the block for the same rank goes out? */
static int span_same_blocks(const struct lane *lane, const coll_args_t *a)
{
	size_t out = 0, in = 0;

	for (int r = 0; r < lane->comm->nranks; r++) {
		if (a->sendcounts[r] != a->recvcounts[r] ||
		    (a->senddispls ? a->senddispls[r] : out) !=
			    (a->recvdispls ? a->recvdispls[r] : in))
			return 0;
		out += a->sendcounts[r];
		in += a->recvcounts[r];
	}
	return 1;
}

int span_is_in_place(const struct lane *lane, const coll_args_t *a)
{
	const struct kind *k = kind_at(a->kind);
	const char *send = a->sendbuf, *recv = a->recvbuf;

	if (k->send == KIND_NONE || k->recv == KIND_NONE || !send)
		return 0;
	if ((k->send_root || k->recv_root) && lane->comm->rank != a->root)
		return 0;
	if (a->kind == COLL_KIND_ALLTOALLV)
		return send == recv && span_same_blocks(lane, a);
	if (k->send == k->recv)
		return send == recv;
	if (k->recv == KIND_EACH)
		return send == recv + span_own_part(lane, a);
	return recv == send + span_own_part(lane, a);
}
