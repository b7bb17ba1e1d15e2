/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_call.c - which calls UCC does, and their translation.
 *
 * Calls that only move data move bytes, so every type goes, and ranks without elements may name another type.  UCC
 * reduces elements by C's own arithmetic.
 */
#include "ucc.h"
#include "base/tables.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- types -- */

/* The bytes of an element. */
static size_t call_size(int32_t dtype)
{
#define CALL_SIZE(number, name, bytes, ...) [number] = bytes,
	static const uint8_t sizes[] = {DTYPES(CALL_SIZE)};
#undef CALL_SIZE

	return sizes[dtype];
}

enum { CALL_NO_TYPE = -1, CALL_NO_OP = -1 };

/* UCC's type for a reduction; CALL_NO_TYPE: UCC does not reduce it, or not as coll.h says. */
static int call_type(int32_t dtype)
{
	switch (dtype) {
	case COLL_INT8: return UCC_DT_INT8;
	case COLL_UINT8:
	case COLL_BOOL: return UCC_DT_UINT8;
	case COLL_INT16: return UCC_DT_INT16;
	case COLL_UINT16: return UCC_DT_UINT16;
	case COLL_INT32: return UCC_DT_INT32;
	case COLL_UINT32: return UCC_DT_UINT32;
	case COLL_INT64: return UCC_DT_INT64;
	case COLL_UINT64: return UCC_DT_UINT64;
	case COLL_FLOAT32: return UCC_DT_FLOAT32;
	case COLL_FLOAT64: return UCC_DT_FLOAT64;
	case COLL_COMPLEX64: return UCC_DT_FLOAT32_COMPLEX;
	case COLL_COMPLEX128: return UCC_DT_FLOAT64_COMPLEX;
	default: return CALL_NO_TYPE;
	}
}

static int call_op(int32_t op)
{
	switch (op) {
	case COLL_SUM: return UCC_OP_SUM;
	case COLL_PROD: return UCC_OP_PROD;
	case COLL_MAX: return UCC_OP_MAX;
	case COLL_MIN: return UCC_OP_MIN;
	case COLL_AVG: return UCC_OP_AVG;
	case COLL_BAND: return UCC_OP_BAND;
	case COLL_BOR: return UCC_OP_BOR;
	case COLL_BXOR: return UCC_OP_BXOR;
	case COLL_LAND: return UCC_OP_LAND;
	case COLL_LOR: return UCC_OP_LOR;
	default: return CALL_NO_OP;
	}
}

static int call_is_float(int32_t dtype)
{
	return dtype == COLL_FLOAT32 || dtype == COLL_FLOAT64;
}

static int call_is_complex(int32_t dtype)
{
	return dtype == COLL_COMPLEX64 || dtype == COLL_COMPLEX128;
}

static int call_reduces(int32_t kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV;
}

/* Does UCC combine elements of the type by the operation as coll.h says? */
static int call_combines(int32_t kind, int32_t dtype, int32_t op)
{
	if (call_type(dtype) == CALL_NO_TYPE || call_op(op) == CALL_NO_OP)
		return 0;
	if (call_is_complex(dtype))
		return op == COLL_SUM;
	if (op == COLL_AVG)
		return call_is_float(dtype) &&
		       (kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE);
	return 1;
}

int32_t ucc_takes(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	if (!call_reduces(args->kind) || call_combines(args->kind, args->dtype, args->op))
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_UNSUPPORTED,
			  "UCC does not reduce this type by this operation as coll.h says");
}

/* ----------------------------------------------------------------------- buffers -- */

static void *op_memory(struct ucc_op *op, size_t bytes)
{
	int i = 0;

	while (op->memory[i])
		i++;
	return op->memory[i] = malloc(bytes ? bytes : 1);
}

/* UCC reads a copy of the buffer, made when the operation begins. */
static int op_copy_in(struct ucc_op *op, void **buf, size_t bytes)
{
	void *copy = op_memory(op, bytes);

	op->before = (struct ucc_copy){copy, *buf, bytes};
	*buf = copy;
	return copy != NULL;
}

/* UCC writes to memory that is copied to the buffer when the operation is complete. */
static int op_copy_out(struct ucc_op *op, void **buf, size_t bytes)
{
	void *copy = op_memory(op, bytes);

	op->after = (struct ucc_copy){*buf, copy, bytes};
	*buf = copy;
	return copy != NULL;
}

static int call_is_aligned(const void *ptr, size_t size)
{
	return (uintptr_t)ptr % (size < 8 ? size : 8) == 0;
}

/* One call on its way to UCC. */
struct call {
	struct ucc_op *op;
	const coll_args_t *args;
	uint32_t rank, nranks;
	int is_root;
	size_t size;   /* bytes of the caller's element */
	size_t factor; /* elements of UCC's type in one of the caller's */
	int type;      /* ucc_datatype_t */
	uint64_t *sendcounts, *senddispls, *recvcounts, *recvdispls; /* NULL: no v-form */
};

static ucc_coll_buffer_info_t call_info(const struct call *c, const void *buf, uint64_t blocks)
{
	return (ucc_coll_buffer_info_t){.buffer = (void *)(uintptr_t)buf,
					.count = blocks * c->args->count * c->factor,
					.datatype = (ucc_datatype_t)c->type,
					.mem_type = UCC_MEMORY_TYPE_HOST};
}

static ucc_coll_buffer_info_v_t call_info_v(const struct call *c, const void *buf, uint64_t *counts,
					    uint64_t *displs)
{
	return (ucc_coll_buffer_info_v_t){.buffer = (void *)(uintptr_t)buf,
					  .counts = counts,
					  .displacements = displs,
					  .datatype = (ucc_datatype_t)c->type,
					  .mem_type = UCC_MEMORY_TYPE_HOST};
}

static const char *call_at(const struct call *c, const void *buf, uint64_t elements)
{
	return (const char *)buf + elements * c->size;
}

static void call_in_place(const struct call *c)
{
	c->op->args.flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
}

/* -------------------------------------------------------------------- reductions -- */

/* The bytes that this rank's buffers of a reduction have. */
static size_t call_send_bytes(const struct call *c)
{
	const coll_args_t *a = c->args;
	size_t all = 0;

	if (a->kind == COLL_KIND_REDUCE_SCATTER)
		return a->count * c->size * c->nranks;
	if (a->kind != COLL_KIND_REDUCE_SCATTERV)
		return a->count * c->size;
	for (uint32_t r = 0; r < c->nranks; r++)
		all += a->recvcounts[r];
	return all * c->size;
}

static size_t call_recv_bytes(const struct call *c)
{
	const coll_args_t *a = c->args;

	return (a->kind == COLL_KIND_REDUCE_SCATTERV ? a->recvcounts[c->rank] : a->count) * c->size;
}

/* UCC's loops want aligned elements, and a scatter in place puts its result elsewhere than coll.h. */
static int call_reduce(struct call *c)
{
	const coll_args_t *a = c->args;
	ucc_coll_args_t *u = &c->op->args;
	const int scatters =
		a->kind == COLL_KIND_REDUCE_SCATTER || a->kind == COLL_KIND_REDUCE_SCATTERV;
	const int receives = a->kind != COLL_KIND_REDUCE || c->is_root;
	void *send = (void *)(uintptr_t)a->sendbuf, *recv = receives ? a->recvbuf : NULL;
	const size_t in = call_send_bytes(c), out = call_recv_bytes(c);
	int in_place = !scatters && receives && send == recv, fits = 1;

	if (!call_is_aligned(send, c->size))
		fits = op_copy_in(c->op, &send, in);
	if (receives &&
	    (!call_is_aligned(recv, c->size) ||
	     (scatters && (char *)recv < (char *)send + in && (char *)send < (char *)recv + out)))
		fits &= op_copy_out(c->op, &recv, out);
	if (!fits)
		return 0;
	if (in_place && send == recv)
		call_in_place(c);
	u->op = call_op(a->op);
	u->src.info = call_info(c, send, 1);
	u->src.info.count = in / c->size;
	if (a->kind == COLL_KIND_REDUCE_SCATTERV)
		u->dst.info_v = call_info_v(c, recv, c->recvcounts, c->recvdispls);
	else
		u->dst.info = call_info(c, recv, 1);
	return 1;
}

/* ------------------------------------------------------------------------ arrays -- */

/* Copies counts and displacements in UCC's elements; without displacements the blocks follow one another. */
static void call_copy_arrays(const struct call *c, const size_t *counts, const size_t *displs,
			     uint64_t *out)
{
	uint64_t at = 0;

	for (uint32_t r = 0; r < c->nranks; r++) {
		out[r] = counts[r] * c->factor;
		out[c->nranks + r] = displs ? displs[r] * c->factor : at;
		at += out[r];
	}
}

static void call_wide(const struct call *c)
{
	c->op->args.flags |=
		UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT;
}

static int call_arrays(struct call *c)
{
	const coll_args_t *a = c->args;
	const size_t n = c->nranks;
	const int sends = a->sendcounts && (a->kind != COLL_KIND_SCATTERV || c->is_root);
	const int recvs = a->recvcounts && (a->kind != COLL_KIND_GATHERV || c->is_root);
	uint64_t *arrays;

	if (!sends && !recvs)
		return 1;
	arrays = op_memory(c->op, 4 * n * sizeof(*arrays));
	if (!arrays)
		return 0;
	if (sends) {
		c->sendcounts = arrays;
		c->senddispls = arrays + n;
		call_copy_arrays(c, a->sendcounts, a->senddispls, arrays);
	}
	if (recvs) {
		c->recvcounts = arrays + 2 * n;
		c->recvdispls = arrays + 3 * n;
		call_copy_arrays(c, a->recvcounts, a->recvdispls, arrays + 2 * n);
	}
	call_wide(c);
	return 1;
}

/* The arrays of a scatter with equal blocks. */
static int call_equal_blocks(struct call *c)
{
	const size_t n = c->nranks, block = c->args->count * c->factor;
	uint64_t *arrays = op_memory(c->op, 2 * n * sizeof(*arrays));

	if (!arrays)
		return 0;
	for (size_t r = 0; r < n; r++) {
		arrays[r] = block;
		arrays[n + r] = r * block;
	}
	c->sendcounts = arrays;
	c->senddispls = arrays + n;
	call_wide(c);
	return 1;
}

/* -------------------------------------------------------------------------- moves -- */

/* The root's data are first copied to where UCC broadcasts. */
static int call_broadcast(struct call *c)
{
	const coll_args_t *a = c->args;

	if (c->is_root && a->sendbuf != a->recvbuf)
		c->op->before = (struct ucc_copy){a->recvbuf, a->sendbuf, a->count * c->size};
	c->op->args.src.info = call_info(c, a->recvbuf, 1);
	return 1;
}

static int call_allgather(struct call *c)
{
	const coll_args_t *a = c->args;
	const int v = c->recvcounts != NULL;
	const uint64_t at = v ? c->recvdispls[c->rank] / c->size : c->rank * a->count;

	if (a->sendbuf == call_at(c, a->recvbuf, at))
		call_in_place(c);
	c->op->args.src.info = call_info(c, a->sendbuf, 1);
	if (v)
		c->op->args.dst.info_v = call_info_v(c, a->recvbuf, c->recvcounts, c->recvdispls);
	else
		c->op->args.dst.info = call_info(c, a->recvbuf, c->nranks);
	return 1;
}

static int call_gather(struct call *c)
{
	if (c->is_root)
		return call_allgather(c);
	c->op->args.src.info = call_info(c, c->args->sendbuf, 1);
	return 1;
}

/* UCC has the v-form only. */
static int call_scatter(struct call *c)
{
	const coll_args_t *a = c->args;

	c->op->args.dst.info = call_info(c, a->recvbuf, 1);
	if (!c->is_root)
		return 1;
	if (!c->sendcounts && !call_equal_blocks(c))
		return 0;
	if (a->recvbuf == call_at(c, a->sendbuf, c->senddispls[c->rank] / c->size))
		call_in_place(c);
	c->op->args.src.info_v = call_info_v(c, a->sendbuf, c->sendcounts, c->senddispls);
	return 1;
}

/* UCC has no alltoall in place: it sends from a copy. */
static int call_alltoall(struct call *c)
{
	const coll_args_t *a = c->args;
	const int v = c->sendcounts != NULL;
	void *send = (void *)(uintptr_t)a->sendbuf;
	size_t bytes = v ? 0 : a->count * c->size * c->nranks;

	for (uint32_t r = 0; v && r < c->nranks; r++)
		if (c->senddispls[r] + c->sendcounts[r] > bytes)
			bytes = c->senddispls[r] + c->sendcounts[r];
	if (send == a->recvbuf && bytes && !op_copy_in(c->op, &send, bytes))
		return 0;
	if (v) {
		c->op->args.src.info_v = call_info_v(c, send, c->sendcounts, c->senddispls);
		c->op->args.dst.info_v = call_info_v(c, a->recvbuf, c->recvcounts, c->recvdispls);
	} else {
		c->op->args.src.info = call_info(c, send, c->nranks);
		c->op->args.dst.info = call_info(c, a->recvbuf, c->nranks);
	}
	return 1;
}

/* --------------------------------------------------------------------- operations -- */

static const struct call_kind {
	int type; /* ucc_coll_type_t */
	int (*fill)(struct call *c);
} call_kinds[] = {
	[COLL_KIND_ALLREDUCE] = {UCC_COLL_TYPE_ALLREDUCE, call_reduce},
	[COLL_KIND_REDUCE] = {UCC_COLL_TYPE_REDUCE, call_reduce},
	[COLL_KIND_REDUCE_SCATTER] = {UCC_COLL_TYPE_REDUCE_SCATTER, call_reduce},
	[COLL_KIND_REDUCE_SCATTERV] = {UCC_COLL_TYPE_REDUCE_SCATTERV, call_reduce},
	[COLL_KIND_BROADCAST] = {UCC_COLL_TYPE_BCAST, call_broadcast},
	[COLL_KIND_ALLGATHER] = {UCC_COLL_TYPE_ALLGATHER, call_allgather},
	[COLL_KIND_ALLGATHERV] = {UCC_COLL_TYPE_ALLGATHERV, call_allgather},
	[COLL_KIND_GATHER] = {UCC_COLL_TYPE_GATHER, call_gather},
	[COLL_KIND_GATHERV] = {UCC_COLL_TYPE_GATHERV, call_gather},
	[COLL_KIND_SCATTER] = {UCC_COLL_TYPE_SCATTERV, call_scatter},
	[COLL_KIND_SCATTERV] = {UCC_COLL_TYPE_SCATTERV, call_scatter},
	[COLL_KIND_ALLTOALL] = {UCC_COLL_TYPE_ALLTOALL, call_alltoall},
	[COLL_KIND_ALLTOALLV] = {UCC_COLL_TYPE_ALLTOALLV, call_alltoall},
	[COLL_KIND_BARRIER] = {UCC_COLL_TYPE_BARRIER, NULL},
};

static struct ucc_call_key call_key(const coll_args_t *args)
{
	return (struct ucc_call_key){.send = args->sendbuf,
				     .recv = args->recvbuf,
				     .count = args->count,
				     .kind = args->kind,
				     .dtype = args->dtype,
				     .op = args->op,
				     .root = args->root};
}

static int call_is_again(const struct ucc_call_key *a, const coll_args_t *b)
{
	return a->kind == b->kind && a->send == b->sendbuf && a->recv == b->recvbuf &&
	       a->count == b->count && a->dtype == b->dtype && a->op == b->op &&
	       a->root == b->root && !b->sendcounts && !b->recvcounts;
}

static int op_translate(struct ucc_op *op, const struct ucc *u, const coll_args_t *args)
{
	const struct call_kind *kind = &call_kinds[args->kind];
	struct call c = {.op = op,
			 .args = args,
			 .rank = u->rank,
			 .nranks = u->nranks,
			 .is_root = (uint32_t)args->root == u->rank};

	op->args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
	op->args.coll_type = kind->type;
	op->args.root = (uint64_t)args->root;
	if (!kind->fill)
		return 1;
	c.size = call_size(args->dtype);
	c.factor = call_reduces(args->kind) ? 1 : c.size;
	c.type = call_reduces(args->kind) ? call_type(args->dtype) : UCC_DT_INT8;
	return call_arrays(&c) && kind->fill(&c);
}

int32_t ucc_op_fill(struct ucc_op *op, const struct ucc *u, const coll_args_t *args,
		    coll_error_t *err)
{
	if (op->args.mask && call_is_again(&op->key, args))
		return COLL_SUCCESS;
	memset(op, 0, sizeof(*op));
	op->key = call_key(args);
	return op_translate(op, u, args)
		       ? COLL_SUCCESS
		       : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an operation");
}

void ucc_op_clear(struct ucc_op *op)
{
	const int had_memory = op->memory[0] != NULL;

	op->req = NULL;
	op->next = NULL;
	for (size_t i = 0; had_memory && i < sizeof(op->memory) / sizeof(op->memory[0]); i++)
		free(op->memory[i]);
	if (had_memory)
		memset(op, 0, sizeof(*op));
}
