/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_call.c - describes an operation for NCCL, by types, reductions and buffers, and calls the function for it. */
#include "nccl.h"
#include "base/tables.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- types -- */

enum { NCCL_UINT8 = COLL_UINT8, NCCL_MAX = COLL_MAX, NCCL_MIN = COLL_MIN };

/* The types and operations of coll.h, by number. */
#define NCCL_TYPE(number, name, bytes, since, family, ...) [number] = {bytes, family, #name},
static const struct {
	uint8_t size, family;
	const char *name;
} nccl_types[] = {DTYPES(NCCL_TYPE)};

#define NCCL_OP(number, name, since, family) [number] = {family, #name},
static const struct {
	uint8_t family;
	const char *name;
} nccl_ops[] = {OPS(NCCL_OP)};

int nccl_reduces(int32_t kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV;
}

static int nccl_knows_type(const struct nccl *n, int32_t dtype)
{
	if (nccl_is_float8(dtype))
		return n->fp8;
	return dtype >= COLL_INT8 && dtype <= COLL_BFLOAT16;
}

/* NCCL sums and averages the two parts of complex numbers. */
static int nccl_is_of_parts(int32_t dtype, int32_t op)
{
	return nccl_types[dtype].family == DTYPE_COMPLEX && (op == COLL_SUM || op == COLL_AVG);
}

static int nccl_op_family(int32_t op)
{
	const int n = sizeof(nccl_ops) / sizeof(nccl_ops[0]);

	return op >= 0 && op < n ? nccl_ops[op].family : OP_UNKNOWN;
}

int nccl_lacks_op(int32_t op)
{
	const int family = nccl_op_family(op);

	return family != OP_ARITHMETIC && family != OP_UNKNOWN;
}

static const char *nccl_lacked_ops(int32_t op)
{
	switch (nccl_op_family(op)) {
	case OP_BITWISE: return "bitwise reductions";
	case OP_LOGICAL: return "logical reductions but land and lor of bool";
	case OP_LOCATION: return "reductions of pairs";
	default: return "such operation";
	}
}

int32_t nccl_check_reduction(const struct nccl *n, int32_t dtype, int32_t op, coll_error_t *err)
{
	char version[32];

	if ((dtype == COLL_BOOL && (op == COLL_LAND || op == COLL_LOR)) ||
	    nccl_is_of_parts(dtype, op))
		return COLL_SUCCESS;
	if (nccl_lacks_op(op))
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"NCCL has no %s (%s): use another operation, or another backend with "
			"COLL_BACKEND",
			nccl_lacked_ops(op), nccl_ops[op].name);
	if (nccl_knows_type(n, dtype))
		return COLL_SUCCESS;
	nccl_version_text(nccl_lib.version, version, sizeof(version));
	return error_fill(err, COLL_ERR_UNSUPPORTED,
			  "NCCL %s does not reduce %s%s: use another type, or another backend with "
			  "COLL_BACKEND",
			  version,
			  nccl_types[dtype].family == DTYPE_COMPLEX
				  ? "complex numbers but by sum and avg"
				  : nccl_types[dtype].name,
			  nccl_is_float8(dtype) ? " here (2.24 is the first that does, on devices "
						  "of compute capability 9)"
						: "");
}

int32_t nccl_takes(void *ep, const coll_args_t *args, coll_error_t *err)
{
	if (args->kind == COLL_KIND_RECV && args->root == COLL_ANY_SOURCE)
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "NCCL cannot receive from any source (COLL_ANY_SOURCE): name a "
				  "rank, or use "
				  "another backend with COLL_BACKEND");
	return nccl_reduces(args->kind) ? nccl_check_reduction(ep, args->dtype, args->op, err)
					: COLL_SUCCESS;
}

/*
 * Of bytes, the least is true if all are, and the greatest if any is.  The average of one rank is its input: NCCL would
 * multiply it, and has no such kernel for float8 (src/device/onerank.cu, 2.28 and 2.30).
 */
static int nccl_choose_op(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	if (a->dtype == COLL_BOOL)
		return a->op == COLL_LAND ? NCCL_MIN : NCCL_MAX;
	return a->op == COLL_AVG && c->nranks == 1 ? COLL_SUM : a->op;
}

/* An operation that only moves data moves types that NCCL lacks as bytes. */
static void nccl_choose_type(struct nccl_call *c)
{
	const int32_t dtype = c->args->dtype;

	c->size = nccl_types[dtype].size;
	c->type = nccl_knows_type(c->n, dtype) ? dtype : NCCL_UINT8;
	c->factor = nccl_knows_type(c->n, dtype) ? 1 : c->size;
	if (nccl_reduces(c->args->kind) && nccl_is_of_parts(dtype, c->args->op)) {
		c->type = dtype == COLL_COMPLEX64 ? COLL_FLOAT32 : COLL_FLOAT64;
		c->factor = 2;
	}
	c->op = nccl_choose_op(c);
}

void nccl_call_init(struct nccl_call *c, struct nccl *n, const coll_args_t *args)
{
	*c = (struct nccl_call){
		.n = n,
		.comm = n->comm,
		.rank = n->rank,
		.nranks = n->nranks,
		.args = args,
		.send = args->sendbuf,
		.recv = args->recvbuf,
		.stream = args->stream ? args->stream : n->stream,
		.barrier_scratch = (void *)(uintptr_t)n->barrier_scratch,
	};
	nccl_choose_type(c);
}

/* ------------------------------------------------------------------------- calls -- */

static int nccl_call_alltoall(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	if (a->kind == COLL_KIND_ALLTOALL && nccl_lib.ncclAlltoAll)
		return nccl_lib.ncclAlltoAll(c->send, a->recvbuf, a->count * c->factor, c->type,
					     c->comm, c->stream);
	return nccl_alltoall_grouped_p2p(c);
}

static int nccl_call_rooted(const struct nccl_call *c, nccl_root_fn own,
			    int (*grouped)(const struct nccl_call *c))
{
	const coll_args_t *a = c->args;

	return own ? own(a->sendbuf, a->recvbuf, a->count * c->factor, c->type, a->root, c->comm,
			 c->stream)
		   : grouped(c);
}

int nccl_run_call(const struct nccl_call *c, const char **what)
{
	const struct nccl_lib *lib = &nccl_lib;
	const coll_args_t *a = c->args;
	const nccl_comm_t comm = c->comm;
	void *byte = c->barrier_scratch;
	const size_t count = a->count * c->factor;

	switch (a->kind) {
	case COLL_KIND_ALLREDUCE: return nccl_run_allreduce(c, what);
	case COLL_KIND_BROADCAST:
		*what = "ncclBroadcast";
		return lib->ncclBroadcast(a->sendbuf, a->recvbuf, count, c->type, a->root, comm,
					  c->stream);
	case COLL_KIND_REDUCE:
		*what = "ncclReduce";
		return lib->ncclReduce(c->send, c->recv, count, c->type, c->op, a->root, comm,
				       c->stream);
	case COLL_KIND_ALLGATHER:
		*what = "ncclAllGather";
		return lib->ncclAllGather(a->sendbuf, a->recvbuf, count, c->type, comm, c->stream);
	case COLL_KIND_REDUCE_SCATTER:
		*what = "ncclReduceScatter";
		return lib->ncclReduceScatter(c->send, c->recv, count, c->type, c->op, comm,
					      c->stream);
	case COLL_KIND_GATHER:
		*what = "gather";
		return nccl_call_rooted(c, lib->ncclGather, nccl_gather_grouped_p2p);
	case COLL_KIND_SCATTER:
		*what = "scatter";
		return nccl_call_rooted(c, lib->ncclScatter, nccl_scatter_grouped_p2p);
	case COLL_KIND_ALLTOALL:
	case COLL_KIND_ALLTOALLV: *what = "alltoall"; return nccl_call_alltoall(c);
	case COLL_KIND_ALLGATHERV: *what = "allgatherv"; return nccl_allgatherv_grouped_p2p(c);
	case COLL_KIND_REDUCE_SCATTERV:
		*what = "reduce_scatterv";
		return nccl_reduce_scatterv_grouped_p2p(c);
	case COLL_KIND_GATHERV: *what = "gatherv"; return nccl_gather_grouped_p2p(c);
	case COLL_KIND_SCATTERV: *what = "scatterv"; return nccl_scatter_grouped_p2p(c);
	case COLL_KIND_BARRIER:
		*what = "barrier";
		return lib->ncclAllReduce(byte, byte, 1, NCCL_UINT8, COLL_SUM, comm, c->stream);
	case COLL_KIND_SEND:
		*what = "ncclSend";
		return lib->ncclSend(a->sendbuf, count, c->type, a->root, comm, c->stream);
	case COLL_KIND_RECV:
		*what = "ncclRecv";
		return lib->ncclRecv(a->recvbuf, count, c->type, a->root, comm, c->stream);
	default: *what = "an operation of unknown kind"; return NCCL_INVALID_ARGUMENT;
	}
}

int nccl_run_group(const struct nccl_call *calls, const char **what)
{
	int result = nccl_lib.ncclGroupStart(), end;

	*what = "ncclGroupStart";
	if (nccl_failed(result))
		return result;
	for (const struct nccl_call *c = calls; c && !nccl_failed(result); c = c->next)
		result = nccl_run_call(c, what);
	end = nccl_lib.ncclGroupEnd();
	if (nccl_failed(result))
		return result;
	*what = "ncclGroupEnd";
	return end;
}

int nccl_run_calls(struct nccl_job *job)
{
	return job->calls->next ? nccl_run_group(job->calls, &job->what)
				: nccl_run_call(job->calls, &job->what);
}

/* ----------------------------------------------------------------- copies of calls -- */

/* A call with its args and their arrays of counts. */
struct nccl_copy {
	struct nccl_call call;
	coll_args_t args;
	size_t arrays[];
};

static const size_t *nccl_copy_array(const size_t *from, uint32_t n, size_t **at)
{
	const size_t *to = *at;

	if (!from)
		return NULL;
	memcpy(*at, from, n * sizeof(*from));
	*at += n;
	return to;
}

struct nccl_call *nccl_call_copy(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	size_t n = (!!a->sendcounts + !!a->senddispls + !!a->recvcounts + !!a->recvdispls) *
		   (size_t)c->nranks;
	struct nccl_copy *copy = calloc(1, sizeof(*copy) + n * sizeof(size_t));
	size_t *at;

	if (!copy)
		return NULL;
	copy->call = *c;
	copy->call.next = NULL;
	memcpy(&copy->args, a, a->size < sizeof(*a) ? a->size : sizeof(*a));
	copy->call.args = &copy->args;
	at = copy->arrays;
	copy->args.sendcounts = nccl_copy_array(a->sendcounts, c->nranks, &at);
	copy->args.senddispls = nccl_copy_array(a->senddispls, c->nranks, &at);
	copy->args.recvcounts = nccl_copy_array(a->recvcounts, c->nranks, &at);
	copy->args.recvdispls = nccl_copy_array(a->recvdispls, c->nranks, &at);
	return &copy->call;
}

void nccl_calls_free(struct nccl_call *calls)
{
	struct nccl_call *next;

	for (; calls; calls = next) {
		next = calls->next;
		free(calls);
	}
}
