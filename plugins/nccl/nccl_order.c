/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_order.c - the order of operations with work that is not NCCL's, across streams.
 *
 * The stream of an earlier operation may be the caller's, who may have destroyed it.  So no event is recorded there
 * later: a fence, an operation of this rank alone, has its place among NCCL's operations instead.
 */
#include "nccl.h"

/* Sends a byte from this rank to itself. */
static int32_t nccl_fence(struct nccl *n, void *stream, coll_error_t *err)
{
	void *byte = (void *)(uintptr_t)n->barrier_scratch, *to = (char *)byte + 1;
	int32_t code = nccl_enqueue_begin(n, err);
	int result, end;

	if (code)
		return code;
	result = nccl_lib.ncclGroupStart();
	if (!nccl_failed(result)) {
		result = nccl_lib.ncclSend(byte, 1, COLL_UINT8, (int)n->rank, n->comm, stream);
		if (!nccl_failed(result))
			result =
				nccl_lib.ncclRecv(to, 1, COLL_UINT8, (int)n->rank, n->comm, stream);
		end = nccl_lib.ncclGroupEnd();
		result = nccl_failed(result) ? result : end;
	}
	nccl_enqueue_end(n);
	n->last_stream = stream;
	n->last_unknown = 0;
	return nccl_record_result(n, result, "a send to this rank", err);
}

/* Copies of results on the own stream get their place when another stream comes. */
static int32_t nccl_order_copies(struct nccl *n, const void *stream, coll_error_t *err)
{
	if (!n->copied || stream == n->stream)
		return COLL_SUCCESS;
	n->copied = 0;
	return nccl_fence(n, n->stream, err);
}

int32_t nccl_order_after(struct nccl *n, void *stream, coll_error_t *err)
{
	int32_t code = nccl_order_copies(n, stream, err);
	const int known = !n->last_unknown;

	if (code || !n->last_stream)
		return code;
	/* The handle of the per-thread default stream names another stream in each thread. */
	if (known && n->last_stream == stream && stream != CUDA_PER_THREAD_STREAM)
		return COLL_SUCCESS;
	/* The own stream cannot be captured: a graph has no part in its order. */
	if (known && n->last_stream == n->stream && !nccl_is_captured(stream))
		return nccl_stream_dependency(n, n->stream, stream, err);
	return nccl_fence(n, stream, err);
}

int32_t nccl_order_before(struct nccl *n, void *stream, coll_error_t *err)
{
	if (stream != n->stream)
		return nccl_fence(n, stream, err);
	n->copied = 1;
	return COLL_SUCCESS;
}

/* Does the call give this rank work that has a place on the device?  Without elements NCCL does nothing. */
static int nccl_is_work(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	return a->kind == COLL_KIND_BARRIER || (a->count && !a->sendcounts && !a->recvcounts);
}

int32_t nccl_order_call(struct nccl *n, const struct nccl_call *c, coll_error_t *err)
{
	int32_t code = nccl_order_copies(n, c->stream, err);

	/* A group begins later, in an order of its own. */
	n->last_unknown = nccl_group_open() || !nccl_is_work(c);
	n->last_stream = c->stream;
	return code;
}

int32_t nccl_take_place(void *ep, coll_stream_t stream, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	code = nccl_fence(n, stream ? stream : n->stream, err);
	nccl_end(n, pushed);
	return code;
}
