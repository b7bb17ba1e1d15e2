/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_grouped_p2p.c - makes operations that NCCL lacks (some only before 2.28) of several calls in a group. */
#include "nccl.h"

/* ------------------------------------------------------------------------- parts -- */

static const void *nccl_from(const struct nccl_call *c, const void *base, size_t element)
{
	return (const char *)base + element * c->size;
}

static void *nccl_to(const struct nccl_call *c, size_t element)
{
	return (char *)c->args->recvbuf + element * c->size;
}

static int nccl_send_part(const struct nccl_call *c, const void *from, size_t count, uint32_t peer)
{
	if (!count)
		return NCCL_SUCCESS;
	return nccl_lib.ncclSend(from, count * c->factor, c->type, (int)peer, c->comm, c->stream);
}

static int nccl_recv_part(const struct nccl_call *c, void *to, size_t count, uint32_t peer)
{
	if (!count)
		return NCCL_SUCCESS;
	return nccl_lib.ncclRecv(to, count * c->factor, c->type, (int)peer, c->comm, c->stream);
}

/* Copies the part that stays on this rank, by a send and a receive; in place nothing is copied. */
static int nccl_copy_own_part(const struct nccl_call *c, const void *from, void *to, size_t count)
{
	int result = NCCL_SUCCESS;

	if (from != to)
		result = nccl_send_part(c, from, count, c->rank);
	if (!result && from != to)
		result = nccl_recv_part(c, to, count, c->rank);
	return result;
}

/* Ends a group.  The first failure stays. */
static int nccl_grouped_p2p_end(int result)
{
	int end = nccl_lib.ncclGroupEnd();

	return nccl_failed(result) ? result : end;
}

/* The first element of the part of rank r.  Without displacements the parts follow one another. */
static size_t nccl_part_at(const coll_args_t *a, const size_t *counts, const size_t *displs,
			   uint32_t r)
{
	size_t at = 0;

	if (!counts)
		return r * a->count;
	if (displs)
		return displs[r];
	for (uint32_t i = 0; i < r; i++)
		at += counts[i];
	return at;
}

/* --------------------------------------------------- with equal counts or as v-forms -- */

int nccl_gather_grouped_p2p(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	uint32_t root = (uint32_t)a->root;
	int result = nccl_lib.ncclGroupStart();

	if (c->rank != root && !nccl_failed(result))
		result = nccl_send_part(c, a->sendbuf, a->count, root);
	for (uint32_t r = 0; c->rank == root && r < c->nranks && !nccl_failed(result); r++) {
		void *to = nccl_to(c, nccl_part_at(a, a->recvcounts, a->recvdispls, r));
		size_t count = nccl_part_count(a, a->recvcounts, r);

		result = r == root ? nccl_copy_own_part(c, a->sendbuf, to, count)
				   : nccl_recv_part(c, to, count, r);
	}
	return nccl_grouped_p2p_end(result);
}

int nccl_scatter_grouped_p2p(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	uint32_t root = (uint32_t)a->root;
	int result = nccl_lib.ncclGroupStart();

	if (c->rank != root && !nccl_failed(result))
		result = nccl_recv_part(c, a->recvbuf, a->count, root);
	for (uint32_t r = 0; c->rank == root && r < c->nranks && !nccl_failed(result); r++) {
		size_t at = nccl_part_at(a, a->sendcounts, a->senddispls, r);
		const void *from = nccl_from(c, a->sendbuf, at);
		size_t count = nccl_part_count(a, a->sendcounts, r);

		result = r == root ? nccl_copy_own_part(c, from, a->recvbuf, count)
				   : nccl_send_part(c, from, count, r);
	}
	return nccl_grouped_p2p_end(result);
}

int nccl_alltoall_grouped_p2p(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	int result = nccl_lib.ncclGroupStart();

	for (uint32_t r = 0; r < c->nranks && !nccl_failed(result); r++) {
		size_t from = nccl_part_at(a, a->sendcounts, a->senddispls, r);
		size_t to = nccl_part_at(a, a->recvcounts, a->recvdispls, r);

		result = nccl_send_part(c, nccl_from(c, c->send, from),
					nccl_part_count(a, a->sendcounts, r), r);
		if (!nccl_failed(result))
			result = nccl_recv_part(c, nccl_to(c, to),
						nccl_part_count(a, a->recvcounts, r), r);
	}
	return nccl_grouped_p2p_end(result);
}

size_t nccl_alltoall_span(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	size_t last = 0, count, end;

	for (uint32_t r = 0; r < c->nranks; r++) {
		count = nccl_part_count(a, a->sendcounts, r);
		end = nccl_part_at(a, a->sendcounts, a->senddispls, r) + count;
		last = end > last && count ? end : last;
	}
	return last * c->size;
}

/* ----------------------------------------------------------------- v-forms only -- */

int nccl_allgatherv_grouped_p2p(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	int result = nccl_lib.ncclGroupStart();

	for (uint32_t r = 0; r < c->nranks && !nccl_failed(result); r++) {
		void *to = nccl_to(c, nccl_part_at(a, a->recvcounts, a->recvdispls, r));

		if (a->recvcounts[r])
			result = nccl_lib.ncclBroadcast(r == c->rank ? a->sendbuf : to, to,
							a->recvcounts[r] * c->factor, c->type,
							(int)r, c->comm, c->stream);
	}
	return nccl_grouped_p2p_end(result);
}

int nccl_reduce_scatterv_grouped_p2p(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	int result = nccl_lib.ncclGroupStart();
	size_t at = 0;

	for (uint32_t r = 0; r < c->nranks && !nccl_failed(result); r++) {
		if (a->recvcounts[r])
			result = nccl_lib.ncclReduce(nccl_from(c, c->send, at),
						     r == c->rank ? c->recv : NULL,
						     a->recvcounts[r] * c->factor, c->type, c->op,
						     (int)r, c->comm, c->stream);
		at += a->recvcounts[r];
	}
	return nccl_grouped_p2p_end(result);
}
