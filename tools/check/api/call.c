/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c - one collective call on one rank: its buffers with guards around them, its
 * arguments, and what must be in every byte afterwards.
 */
#include <stdlib.h>
#include <string.h>
#include "check/api/api.h"

enum { CALL_GUARD_BYTE = 0xa5, CALL_EMPTY_BYTE = 0x5a, CALL_GAP = 3 };

int api_reduces(int32_t kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV;
}

int api_rooted(int32_t kind)
{
	return kind == COLL_KIND_BROADCAST || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_GATHER || kind == COLL_KIND_SCATTER || kind == COLL_KIND_GATHERV ||
	       kind == COLL_KIND_SCATTERV;
}

int api_varies(int32_t kind)
{
	return kind >= COLL_KIND_ALLGATHERV && kind <= COLL_KIND_SCATTERV;
}

/* ------------------------------------------------------------------- layout -- */

/*
 * Counts and displacements of all ranks' parts; `turn` makes other counts of the same call.
 * Returns the length in elements.
 */
static size_t call_layout(const struct api_call *call, int32_t turn, size_t *counts, size_t *displs)
{
	int32_t n = call->r->nranks, i, k;
	size_t at = 0;

	for (k = 0; k < n; k++) {
		i = call->c.gaps ? n - 1 - k : k;
		counts[i] = call->c.count;
		if (api_varies(call->c.kind))
			counts[i] = (i + turn) % 3 == 1 ? 0 : call->c.count + (size_t)(i + turn);
		at += call->c.gaps ? CALL_GAP : 0;
		displs[i] = at;
		at += counts[i];
	}
	return at + (call->c.gaps ? CALL_GAP : 0);
}

static void call_part(struct api_call *call, size_t at, size_t count, int32_t row, size_t first)
{
	call->part[call->parts++] = (struct api_part){at, count, first, row};
}

/* Rank i's part of the received data comes from its place in rank i's send buffer. */
static void call_parts_alltoall(struct api_call *call)
{
	size_t counts[CHECK_RANKS], displs[CHECK_RANKS];
	int32_t rank = call->r->rank;

	for (int32_t i = 0; i < call->r->nranks; i++) {
		call_layout(call, api_varies(call->c.kind) ? i : 0, counts, displs);
		call_part(call, call->displs[i], call->counts[i], i, displs[rank]);
	}
}

static void call_parts_gathered(struct api_call *call)
{
	for (int32_t i = 0; i < call->r->nranks; i++)
		call_part(call, call->displs[i], call->counts[i], i, 0);
}

/* The lengths of the buffers, and what recvbuf will hold. */
static void call_plan(struct api_call *call)
{
	int32_t kind = call->c.kind, rank = call->r->rank, root = call->c.root;
	int alltoall = kind == COLL_KIND_ALLTOALL || kind == COLL_KIND_ALLTOALLV;
	size_t all = call_layout(call, alltoall ? rank : 0, call->counts, call->displs);
	size_t count = call->counts[rank], at = call->displs[rank];

	call->send_len = call->recv_len = count;
	switch (kind) {
	case COLL_KIND_ALLREDUCE: call_part(call, 0, count, -1, 0); break;
	case COLL_KIND_BROADCAST: call_part(call, 0, count, root, 0); break;
	case COLL_KIND_REDUCE:
		if (rank == root)
			call_part(call, 0, count, -1, 0);
		break;
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_REDUCE_SCATTERV:
		call->send_len = all;
		call->own = at;
		call_part(call, 0, count, -1, at);
		break;
	case COLL_KIND_ALLTOALL:
	case COLL_KIND_ALLTOALLV:
		call->send_len = call->recv_len = all;
		call_parts_alltoall(call);
		break;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV:
		call->send_len = rank == root ? all : 0;
		call->own = rank == root ? at : 0;
		call_part(call, 0, count, root, at);
		break;
	default: /* gather, allgather and their v-forms */
		if (api_rooted(kind) && rank != root) {
			call->recv_len = 0;
			break;
		}
		call->recv_len = all;
		call->own = at;
		call_parts_gathered(call);
	}
}

static void call_arguments(struct api_call *call)
{
	int32_t kind = call->c.kind, on_root = call->r->rank == call->c.root;
	size_t *displs = call->c.gaps ? call->displs : NULL;
	coll_args_t *a = &call->args;

	*a = (coll_args_t){.size = sizeof(*a),
			   .kind = kind,
			   .dtype = call->c.dtype,
			   .op = api_reduces(kind) ? call->c.op : 0,
			   .root = api_rooted(kind) ? call->c.root : 0,
			   .sendbuf = call->send,
			   .recvbuf = call->recv,
			   .count = call->counts[call->r->rank]};
	if (!api_varies(kind))
		return;
	if (kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_REDUCE_SCATTERV)
		a->count = 0;
	if (kind == COLL_KIND_ALLTOALLV || (kind == COLL_KIND_SCATTERV && on_root)) {
		a->sendcounts = call->counts;
		a->senddispls = displs;
	}
	if (kind == COLL_KIND_SCATTERV || (kind == COLL_KIND_GATHERV && !on_root))
		return;
	a->recvcounts = call->counts;
	a->recvdispls = displs;
}

/* ------------------------------------------------------------------ buffers -- */

static unsigned char *call_memory(struct api_call *call, size_t bytes)
{
	unsigned char *mem = api_memory(call->r, bytes + 2 * API_GUARD + call->shift);

	if (!mem)
		return NULL;
	memset(mem, CALL_GUARD_BYTE, API_GUARD + call->shift);
	memset(mem + API_GUARD + call->shift + bytes, CALL_GUARD_BYTE, API_GUARD);
	return mem;
}

/* In place there is one buffer, on a rank that uses both. */
static int call_shared(const struct api_call *call)
{
	return call->c.in_place && call->send_len && call->recv_len;
}

static int call_buffers(struct api_call *call)
{
	size_t send = call->send_len * call->elem, recv = call->recv_len * call->elem;
	size_t own = call->own * call->elem;

	if (call_shared(call)) {
		call->recv_mem = call_memory(call, send > recv ? send : recv);
		if (!call->recv_mem)
			return 0;
		call->send = call->recv = call->recv_mem + API_GUARD + call->shift;
		call->send += send < recv ? own : 0;
		call->recv += send < recv ? 0 : own;
		return 1;
	}
	call->send_mem = call_memory(call, send);
	call->recv_mem = call_memory(call, recv);
	if (!call->send_mem || !call->recv_mem)
		return 0;
	call->send = call->send_mem + API_GUARD + call->shift;
	call->recv = call->recv_mem + API_GUARD + call->shift;
	return 1;
}

/* A buffer that is used on root only may be anything elsewhere, NULL among them. */
static void call_hide_unused(struct api_call *call)
{
	int32_t kind = call->c.kind;

	if (!api_rooted(kind) || call->r->rank == call->c.root)
		return;
	if (kind == COLL_KIND_SCATTER || kind == COLL_KIND_SCATTERV)
		call->args.sendbuf = NULL;
	if (kind == COLL_KIND_GATHER || kind == COLL_KIND_GATHERV)
		call->args.recvbuf = NULL;
	if (kind == COLL_KIND_BROADCAST && !call->c.in_place)
		call->args.sendbuf = NULL;
	if (kind == COLL_KIND_REDUCE && !call->c.in_place)
		call->args.recvbuf = NULL;
}

int api_call_make(struct api_call *call, struct api_rank *r, const struct api_case *c)
{
	int32_t op = api_reduces(c->kind) ? c->op : API_MOVE;

	memset(call, 0, sizeof(*call));
	call->r = r;
	call->c = *c;
	call->c.gaps = c->gaps && api_varies(c->kind) && c->kind != COLL_KIND_REDUCE_SCATTERV;
	/* Each rank may do as it likes, and any alignment works. */
	call->c.in_place = c->in_place == API_ODD_RANKS ? r->rank % 2 : c->in_place;
	call->shift = (c->count + (size_t)r->rank) % 4;
	call->elem = coll_dtype_size(c->dtype);
	call_plan(call);
	call->table = malloc(sizeof(*call->table));
	if (!call->table)
		return api_fail(r, "the kit has no memory");
	if (!call_buffers(call))
		return 0;
	/* Of the rows no more is needed than the longest buffer of any rank. */
	api_table_make(call->table, c->dtype, op, r->nranks,
		       (c->count + CHECK_RANKS * 2 + CALL_GAP) * (size_t)(r->nranks + 1));
	call_arguments(call);
	call_hide_unused(call);
	return 1;
}

void api_call_fill(struct api_call *call)
{
	if (!call_shared(call) || call->send_len < call->recv_len)
		memset(call->recv, CALL_EMPTY_BYTE, call->recv_len * call->elem);
	api_tile(call->send, call->table->in[call->r->rank], call->elem, 0, call->send_len);
}

void api_call_free(struct api_call *call)
{
	free(call->table);
	memory_free(call->r->memory, call->r->device, call->send_mem);
	memory_free(call->r->memory, call->r->device, call->recv_mem);
	*call = (struct api_call){0};
}

/* ------------------------------------------------------------- verification -- */

static int call_wrong(const struct api_call *call, const char *what, size_t at)
{
	const struct api_case *c = &call->c;

	return api_fail(call->r, "%s of %zu %s, op %s, root %d, %s%s: %s, at byte %zu",
			coll_kind_name(c->kind), c->count, coll_dtype_name(c->dtype),
			api_reduces(c->kind) ? coll_op_name(c->op) : "none", c->root,
			c->in_place ? "in place" : "out of place", c->gaps ? ", with gaps" : "",
			what, at);
}

static int call_same(const struct api_call *call, const unsigned char *got,
		     const unsigned char *wanted, size_t bytes, const char *what)
{
	size_t i = 0;

	if (!bytes || !memcmp(got, wanted, bytes))
		return 1;
	while (got[i] == wanted[i])
		i++;
	return call_wrong(call, what, i);
}

static int call_guarded(const struct api_call *call, const unsigned char *mem, size_t bytes)
{
	const unsigned char *after = mem + API_GUARD + call->shift + bytes;

	for (size_t i = 0; i < API_GUARD; i++)
		if (mem[i] != CALL_GUARD_BYTE || after[i] != CALL_GUARD_BYTE)
			return call_wrong(call, "a byte beside the buffer was written", i);
	return 1;
}

/* What recvbuf must hold, gaps included; wanted has room for send or recv, the longer. */
static int call_verify_recv(const struct api_call *call, unsigned char *wanted)
{
	const struct api_table *table = call->table;
	const unsigned char *row = table->in[call->r->rank];
	size_t elem = call->elem;

	memset(wanted, CALL_EMPTY_BYTE, call->recv_len * elem);
	if (call_shared(call) && call->send_len >= call->recv_len)
		api_tile(wanted, row, elem, call->own, call->recv_len);
	for (int i = 0; i < call->parts; i++) {
		const struct api_part *p = &call->part[i];

		api_tile(wanted + p->at * elem, p->row < 0 ? table->out : table->in[p->row], elem,
			 p->first, p->count);
	}
	return call_same(call, call->recv, wanted, call->recv_len * elem,
			 call->parts ? "wrong data in the receive buffer"
				     : "the buffer of a rank that receives nothing was written");
}

static int call_verify_send(const struct api_call *call, unsigned char *wanted)
{
	api_tile(wanted, call->table->in[call->r->rank], call->elem, 0, call->send_len);
	return call_same(call, call->send, wanted, call->send_len * call->elem,
			 "the send buffer was written");
}

int api_call_verify(struct api_call *call)
{
	size_t send = call->send_len * call->elem, recv = call->recv_len * call->elem;
	unsigned char *wanted = malloc((send > recv ? send : recv) + 1);
	int good;

	if (!wanted)
		return api_fail(call->r, "the kit has no memory");
	good = call_verify_recv(call, wanted);
	if (call_shared(call))
		good = good && call_guarded(call, call->recv_mem, send > recv ? send : recv);
	else
		good = good && call_verify_send(call, wanted) &&
		       call_guarded(call, call->send_mem, send) &&
		       call_guarded(call, call->recv_mem, recv);
	free(wanted);
	if (good)
		atomic_fetch_add(&call->r->c->shared->calls, call->r->rank == 0);
	return good;
}
