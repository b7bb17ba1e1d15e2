/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_align.c - reductions of buffers that do not begin at a multiple of the element's size. */
#include "nccl.h"

#include <stdlib.h>

enum { NCCL_ALIGN = 16 };

struct nccl_result {
	struct nccl_result *next;
	cuda_ptr_t from, to;
	size_t bytes;
	void *stream;
};

/* Bytes of the send buffer of a reduction. */
static size_t nccl_input_bytes(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	size_t elements = a->kind == COLL_KIND_REDUCE_SCATTER ? a->count * c->nranks : a->count;

	if (a->kind == COLL_KIND_REDUCE_SCATTERV) {
		elements = 0;
		for (uint32_t r = 0; r < c->nranks; r++)
			elements += a->recvcounts[r];
	}
	return elements * c->size;
}

/* Bytes of this rank's result. */
static size_t nccl_result_bytes(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	if (a->kind == COLL_KIND_REDUCE && c->rank != (uint32_t)a->root)
		return 0;
	return c->size * (a->kind == COLL_KIND_REDUCE_SCATTERV ? a->recvcounts[c->rank] : a->count);
}

static int nccl_is_aligned(const struct nccl_call *c, const void *buffer)
{
	return !((uintptr_t)buffer & (c->size - 1));
}

int32_t nccl_align(struct nccl_call *c, coll_error_t *err)
{
	size_t in = nccl_is_aligned(c, c->send) ? 0 : nccl_input_bytes(c);
	size_t out = nccl_is_aligned(c, c->recv) ? 0 : nccl_result_bytes(c);
	size_t out_at = (in + NCCL_ALIGN - 1) / NCCL_ALIGN * NCCL_ALIGN;
	struct nccl_result *copy = NULL;
	cuda_ptr_t memory;
	int32_t code;

	if (!in && !out)
		return COLL_SUCCESS;
	code = nccl_order_after(c->n, c->stream, err);
	if (!code)
		code = nccl_scratch(c->n, out_at + out, c->stream, &memory, err);
	if (!code && out && !(copy = calloc(1, sizeof(*copy))))
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	if (code)
		return code;
	if (in) {
		code = nccl_copy(c->n, memory, (uintptr_t)c->send, in, c->stream, err);
		c->send = (const void *)(uintptr_t)memory;
	}
	if (copy) {
		*copy = (struct nccl_result){.next = c->n->results,
					     .from = memory + out_at,
					     .to = (uintptr_t)c->recv,
					     .bytes = out,
					     .stream = c->stream};
		c->n->results = copy;
		c->recv = (void *)(uintptr_t)copy->from;
	}
	return code;
}

int32_t nccl_copy_results(struct nccl *n, int32_t code, coll_error_t *err)
{
	struct nccl_result *copy;

	while ((copy = n->results)) {
		n->results = copy->next;
		if (!code)
			code = nccl_copy(n, copy->to, copy->from, copy->bytes, copy->stream, err);
		if (!code)
			code = nccl_order_before(n, copy->stream, err);
		free(copy);
	}
	return code;
}
