/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c - one rank's part in a collective call: its buffers with guards around them, its
 * arguments, and the expected value of every byte afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/tables.h"
#include "oracle/oracle.h"

enum { CALL_PERIOD = 257, CALL_GUARD_BYTE = 0xa5, CALL_EMPTY_BYTE = 0x5a, CALL_WINDOW = 4096 };

#define CALL_KIND(number, name, send, recv, traits, list) [number] = {send, recv, traits},
static const struct call_kind {
	int send, recv, traits;
} call_kinds[] = {KINDS(CALL_KIND)};

int oracle_reduces(int32_t kind)
{
	return (call_kinds[kind].traits & KIND_REDUCES) != 0;
}

int oracle_scans(int32_t kind)
{
	return kind == COLL_KIND_SCAN || kind == COLL_KIND_EXSCAN;
}

int oracle_kind_has(int32_t kind, int32_t op)
{
	return !oracle_scans(kind) || op != COLL_AVG;
}

int oracle_rooted(int32_t kind)
{
	return (call_kinds[kind].traits & (KIND_ROOT_SENDS | KIND_ROOT_RECEIVES)) != 0;
}

int oracle_varies(int32_t kind)
{
	return (call_kinds[kind].traits & (KIND_SENDCOUNTS | KIND_RECVCOUNTS)) != 0;
}

int oracle_has_list(int32_t kind)
{
	const struct call_kind *k = &call_kinds[kind];

	return (k->send == KIND_EACH || k->recv == KIND_EACH) && !oracle_varies(kind);
}

static int call_alltoall(int32_t kind)
{
	return call_kinds[kind].send == KIND_EACH && call_kinds[kind].recv == KIND_EACH;
}

/* Does the buffer have one block for each destination? */
static int call_scatters(int32_t kind)
{
	return call_kinds[kind].send == KIND_EACH && call_kinds[kind].recv == KIND_ONE;
}

/* ------------------------------------------------------------------- layout -- */

/*
 * Returns the number of elements that rank `from` sends to rank `to`.  In place the number must be the same in both
 * directions.
 */
static size_t call_block(const struct oracle_case *c, int32_t from, int32_t to)
{
	int32_t form = call_scatters(c->kind) ? to : from;

	if (!oracle_varies(c->kind))
		return c->count;
	if (c->kind == COLL_KIND_ALLTOALLV)
		form = c->place == ORACLE_APART ? from + 2 * to : from + to;
	switch (form % 4) {
	case 0: return c->count;
	case 1: return 0;
	case 2: return 3 * c->count;
	default: return c->count > 0;
	}
}

/* Finds the blocks that a rank sends, or the blocks that it receives.  With gaps the last rank's block comes first. */
static void call_blocks(const struct oracle_call *call, int32_t rank, int receives,
			struct oracle_blocks *b)
{
	size_t gap = call->c.gaps ? ORACLE_GAP : 0;

	b->len = gap;
	for (int32_t k = 0; k < call->nranks; k++) {
		int32_t i = gap ? call->nranks - 1 - k : k;

		b->count[i] =
			receives ? call_block(&call->c, i, rank) : call_block(&call->c, rank, i);
		b->displ[i] = b->len;
		b->len += b->count[i] + gap;
	}
}

/* Makes a buffer of one block. */
static void call_single(struct oracle_blocks *b, size_t count)
{
	*b = (struct oracle_blocks){.len = count};
}

static void call_part(struct oracle_call *call, size_t at, size_t count, int32_t row, size_t first)
{
	call->part[call->parts++] = (struct oracle_part){at, count, first, row};
}

/* Plans an alltoall: the received data of rank i come from this rank's block in rank i's send buffer. */
static void call_plan_alltoall(struct oracle_call *call)
{
	struct oracle_blocks theirs;

	for (int32_t i = 0; i < call->nranks; i++) {
		call_blocks(call, i, 0, &theirs);
		call_part(call, call->recv.displ[i], call->recv.count[i], i,
			  theirs.displ[call->rank]);
	}
}

static void call_plan_scatter(struct oracle_call *call)
{
	int32_t rank = call->rank, root = call->c.root;
	int reduces = oracle_reduces(call->c.kind);
	struct oracle_blocks from;

	call_blocks(call, reduces ? rank : root, 0, &from);
	call_single(&call->recv, from.count[rank]);
	call_part(call, 0, from.count[rank], reduces ? -1 : root, from.displ[rank]);
	if (!reduces && rank != root)
		return call_single(&call->send, 0);
	call->send = from;
	call->own = from.displ[rank];
}

static void call_plan_gather(struct oracle_call *call)
{
	call_single(&call->send, call_block(&call->c, call->rank, 0));
	if (oracle_rooted(call->c.kind) && call->rank != call->c.root)
		return call_single(&call->recv, 0);
	call->own = call->recv.displ[call->rank];
	for (int32_t i = 0; i < call->nranks; i++)
		call_part(call, call->recv.displ[i], call->recv.count[i], i, 0);
}

/* Plans a scan: the result combines the ranks up to this rank, an exscan's the ranks before it. */
static void call_plan_scan(struct oracle_call *call)
{
	const int32_t ranks = call->rank + (call->c.kind == COLL_KIND_SCAN);

	call_single(&call->send, call->c.count);
	call_single(&call->recv, ranks ? call->c.count : 0);
	call->data.first_ranks = ranks;
	if (ranks)
		call_part(call, 0, call->c.count, -1, 0);
}

/* Determines the lengths of the buffers and the expected parts of the receive buffer. */
static void call_plan(struct oracle_call *call)
{
	int32_t kind = call->c.kind, on_root = call->rank == call->c.root;
	size_t count = call->c.count;

	call_blocks(call, call->rank, 0, &call->send);
	call_blocks(call, call->rank, 1, &call->recv);
	if (call_alltoall(kind))
		return call_plan_alltoall(call);
	if (call_scatters(kind))
		return call_plan_scatter(call);
	if (oracle_scans(kind))
		return call_plan_scan(call);
	if (kind != COLL_KIND_ALLREDUCE && kind != COLL_KIND_REDUCE && kind != COLL_KIND_BROADCAST)
		return call_plan_gather(call);
	call_single(&call->send, count);
	call_single(&call->recv, count);
	if (kind != COLL_KIND_REDUCE || on_root)
		call_part(call, 0, count, kind == COLL_KIND_BROADCAST ? call->c.root : -1, 0);
}

static void call_arguments(struct oracle_call *call)
{
	int32_t kind = call->c.kind, on_root = call->rank == call->c.root;
	coll_args_t *a = &call->args;

	*a = (coll_args_t){.size = sizeof(*a),
			   .kind = kind,
			   .dtype = call->c.dtype,
			   .op = !oracle_reduces(kind) ? 0
				 : call->c.own_op      ? call->c.own_op
						       : call->c.op,
			   .root = oracle_rooted(kind) ? call->c.root : 0,
			   .count = call->c.count};
	if (!oracle_varies(kind))
		return;
	a->count = kind == COLL_KIND_SCATTERV ? call->recv.len : call->send.len;
	if (kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_REDUCE_SCATTERV)
		a->count = 0;
	if (kind == COLL_KIND_ALLTOALLV || (kind == COLL_KIND_SCATTERV && on_root)) {
		a->sendcounts = call->send.count;
		a->senddispls = call->c.gaps ? call->send.displ : NULL;
	}
	if (kind == COLL_KIND_REDUCE_SCATTERV)
		a->recvcounts = call->send.count;
	else if (kind != COLL_KIND_SCATTERV && (kind != COLL_KIND_GATHERV || on_root)) {
		a->recvcounts = call->recv.count;
		a->recvdispls = call->c.gaps ? call->recv.displ : NULL;
	}
}

/* ------------------------------------------------------------------ buffers -- */

/* Does this rank have a single buffer?  It does in place, if the rank both sends and receives. */
static int call_shared(const struct oracle_call *call)
{
	return call->c.place == ORACLE_IN_PLACE && call->send.len && call->recv.len;
}

static void call_sizes(struct oracle_call *call)
{
	size_t around = 2 * ORACLE_GUARD + call->shift;
	size_t send = call->send.len * call->elem, recv = call->recv.len * call->elem;

	call->bytes[ORACLE_SEND] = call_shared(call) ? 0 : around + send;
	call->bytes[ORACLE_RECV] = around + (call_shared(call) && send > recv ? send : recv);
}

/*
 * Computes one period of each row that this rank needs: its own input and the rows that it
 * receives.
 */
static int call_rows(struct oracle_call *call)
{
	size_t row = CALL_PERIOD * call->elem, longest = call->send.len, n;
	int needed[ORACLE_RANKS + 1] = {0};

	needed[call->rank] = 1;
	for (int i = 0; i < call->parts; i++) {
		const struct oracle_part *p = &call->part[i];

		needed[p->row < 0 ? call->nranks : p->row] = 1;
		longest = p->first + p->count > longest ? p->first + p->count : longest;
	}
	n = longest < CALL_PERIOD ? longest : CALL_PERIOD;
	call->rows = malloc(row * (size_t)(call->nranks + 1));
	for (int32_t r = 0; call->rows && r < call->nranks; r++)
		if (needed[r])
			oracle_input_row(&call->data, r, n, call->rows + (size_t)r * row);
	if (call->rows && needed[call->nranks])
		oracle_result_row(&call->data, n, call->rows + (size_t)call->nranks * row);
	return call->rows ? 0 : -1;
}

static const unsigned char *call_row(const struct oracle_call *call, int32_t row)
{
	return call->rows + (size_t)(row < 0 ? call->nranks : row) * CALL_PERIOD * call->elem;
}

/* Returns the seed.  It is the same on all ranks, wherever their buffers lie, and differs between calls. */
static uint64_t call_seed(const struct oracle_case *c)
{
	return oracle_mix(oracle_mix(c->seed, (uint64_t)c->kind << 8 | (uint64_t)c->root),
			  c->count);
}

int oracle_call_begin(struct oracle_call *call, const struct oracle_case *c, int32_t rank,
		      int32_t nranks)
{
	memset(call, 0, sizeof(*call));
	call->c = *c;
	call->rank = rank;
	call->nranks = nranks;
	call->elem = oracle_size(c->dtype);
	call->shift = (c->count + (size_t)rank) % 4 * (c->aligned ? call->elem : 1);
	call->c.gaps =
		c->gaps &&
		(c->list || (oracle_varies(c->kind) && c->kind != COLL_KIND_REDUCE_SCATTERV));
	if (c->list && call_alltoall(c->kind))
		call->c.place = ORACLE_APART;
	call->data = (struct oracle_data){.dtype = c->dtype,
					  .op = oracle_reduces(c->kind) ? c->op : ORACLE_MOVE,
					  .nranks = nranks,
					  .inputs = c->inputs,
					  .near = c->near,
					  .seed = call_seed(c)};
	call_plan(call);
	/* Each rank chooses by itself whether it is in place, but the counts are the same on all ranks. */
	if (call->c.place == ORACLE_ODD_IN_PLACE)
		call->c.place = rank % 2 ? ORACLE_IN_PLACE : ORACLE_APART;
	call_arguments(call);
	call_sizes(call);
	return call_rows(call);
}

int oracle_call_again(struct oracle_call *call)
{
	oracle_call_end(call);
	call->data.seed++;
	return call_rows(call);
}

void oracle_call_end(struct oracle_call *call)
{
	free(call->rows);
	call->rows = NULL;
}

/*
 * Replaces the pointers of unused buffers: a buffer that only the root uses may be any pointer on the other ranks, NULL
 * included, and so may the receive buffer of rank 0 in an exscan.
 */
static void call_hide_unused(struct oracle_call *call)
{
	int32_t kind = call->c.kind;

	if (kind == COLL_KIND_EXSCAN && !call->rank && call->c.count % 2)
		call->args.recvbuf = NULL;
	if (!oracle_rooted(kind) || call->rank == call->c.root || call_shared(call) ||
	    (call->c.count + (size_t)call->rank) % 2)
		return;
	if (kind == COLL_KIND_SCATTER || kind == COLL_KIND_SCATTERV || kind == COLL_KIND_BROADCAST)
		call->args.sendbuf = NULL;
	else
		call->args.recvbuf = NULL;
}

void oracle_call_place(struct oracle_call *call, void *send_area, void *recv_area)
{
	size_t own = call->own * call->elem, begin = ORACLE_GUARD + call->shift;
	unsigned char *send = send_area, *recv = (unsigned char *)recv_area + begin;

	if (call_shared(call)) {
		send = recv + (call->send.len < call->recv.len ? own : 0);
		recv += call->send.len < call->recv.len ? 0 : own;
	} else {
		send += begin;
	}
	call->args.sendbuf = send;
	call->args.recvbuf = recv;
	call_hide_unused(call);
}

/* --------------------------------------------------------- before and after -- */

/* Bytes [at, at + len) of an area.  Functions that write to the window drop bytes outside of it. */
struct call_window {
	unsigned char *bytes;
	size_t at, len;
};

/* Clips [*at, *at + *len) to the window.  *skipped becomes the number of bytes clipped off at the beginning. */
static unsigned char *call_clip(const struct call_window *w, size_t at, size_t *len,
				size_t *skipped)
{
	size_t begin = at < w->at ? w->at : at, end = at + *len;

	end = end < w->at + w->len ? end : w->at + w->len;
	*len = begin < end ? end - begin : 0;
	*skipped = begin - at;
	return w->bytes + (begin - w->at);
}

static void call_put_byte(const struct call_window *w, size_t at, size_t len, int byte)
{
	size_t skipped;
	unsigned char *to = call_clip(w, at, &len, &skipped);

	if (len)
		memset(to, byte, len);
}

static void call_put_bytes(const struct call_window *w, size_t at, size_t len,
			   const unsigned char *from)
{
	size_t skipped;
	unsigned char *to = call_clip(w, at, &len, &skipped);

	if (len)
		memcpy(to, from + skipped, len);
}

/* Writes elements first, first + 1, ... of a repeated row. */
static void call_put_row(const struct call_window *w, size_t at, size_t count,
			 const struct oracle_call *call, int32_t row, size_t first)
{
	size_t len = count * call->elem, skipped;
	unsigned char *to = call_clip(w, at, &len, &skipped);

	if (len)
		oracle_tile(to, call_row(call, row), CALL_PERIOD * call->elem, 1,
			    first * call->elem + skipped, len);
}

/* Writes the bytes that the area must hold before the call. */
static void call_put_before(const struct call_window *w, const struct oracle_call *call, int area)
{
	size_t begin = ORACLE_GUARD + call->shift, len = call->bytes[area] - begin - ORACLE_GUARD;

	call_put_byte(w, 0, begin, CALL_GUARD_BYTE);
	call_put_byte(w, begin, len, CALL_EMPTY_BYTE);
	call_put_byte(w, begin + len, ORACLE_GUARD, CALL_GUARD_BYTE);
	if (area == ORACLE_RECV && !call_shared(call))
		return;
	if (area == ORACLE_RECV && call->send.len < call->recv.len)
		begin += call->own * call->elem;
	call_put_row(w, begin, call->send.len, call, call->rank, 0);
}

void oracle_call_fill(const struct oracle_call *call, int area, void *bytes)
{
	const struct call_window all = {bytes, 0, call->bytes[area]};

	if (call->bytes[area])
		call_put_before(&all, call, area);
}

/* Returns the offset of the received data in their area. */
static size_t call_received(const struct oracle_call *call)
{
	size_t own = call_shared(call) && call->send.len >= call->recv.len ? call->own : 0;

	return ORACLE_GUARD + call->shift + own * call->elem;
}

/*
 * Returns the number of elements from the beginning of a part whose values are near enough, though not equal bit for bit.
 */
static size_t call_right(const struct oracle_call *call, const struct oracle_part *p,
			 const unsigned char *got)
{
	size_t right = p->count;

	oracle_wrong(&call->data, got + call_received(call) + p->at * call->elem,
		     call_row(call, p->row), CALL_PERIOD, p->first, p->count, &right);
	return right;
}

/*
 * Writes the bytes that the area must hold after the call.  Copies from `got` the results that are
 * near enough, and the bytes that an in-place reduce_scatter leaves beside its result.
 */
static void call_put_after(const struct call_window *w, const struct oracle_call *call, int area,
			   const unsigned char *got, size_t right)
{
	size_t begin = ORACLE_GUARD + call->shift, at;

	call_put_before(w, call, area);
	if (area == ORACLE_SEND)
		return;
	if (call_shared(call) && oracle_reduces(call->c.kind) && call_scatters(call->c.kind))
		call_put_bytes(w, begin, call->send.len * call->elem, got + begin);
	for (int i = 0; i < call->parts; i++) {
		const struct oracle_part *p = &call->part[i];

		at = call_received(call) + p->at * call->elem;
		call_put_row(w, at, p->count, call, p->row, p->first);
		if (p->row < 0)
			call_put_bytes(w, at, right * call->elem, got + at);
	}
}

/* Describes the fault that byte `at` of an area shows, and sets *at to the byte's offset in the buffer. */
static const char *call_fault(const struct oracle_call *call, int area, size_t *at)
{
	size_t begin = ORACLE_GUARD + call->shift, end = call->bytes[area] - ORACLE_GUARD;
	size_t received = call_received(call);

	if (*at < begin || *at >= end) {
		*at = *at < begin ? *at : *at - end;
		return "a byte beside the buffer was written";
	}
	*at -= area == ORACLE_SEND ? begin : received;
	if (area == ORACLE_SEND)
		return "the send buffer was written";
	return call->parts ? "wrong data in the receive buffer"
			   : "the buffer of a rank that receives nothing was written";
}

static void call_say(const struct oracle_call *call, int area, size_t at, char text[ORACLE_TEXT])
{
	static const char *const places[] = {"out of place", "in place", "in place on odd ranks"};
	const struct oracle_case *c = &call->c;
	const char *fault = call_fault(call, area, &at);

	snprintf(text, ORACLE_TEXT,
		 "%s%s of %zu %s, op %s, root %d, %s%s: %s, at byte %zu (seed %llu)",
		 coll_kind_name(c->kind), c->list ? "_list" : "", c->count,
		 coll_dtype_name(c->dtype),
		 !oracle_reduces(c->kind) ? "none"
		 : c->op == ORACLE_SCALED ? "scaled sum"
					  : coll_op_name(c->op),
		 c->root, places[c->place], c->gaps ? ", with gaps" : "", fault, at,
		 (unsigned long long)c->seed);
}

/* Does the window hold the expected bytes?  If not, *at is the first wrong byte. */
static int call_window_good(const struct oracle_call *call, int area, const unsigned char *got,
			    size_t right, size_t *at)
{
	size_t left = call->bytes[area] - *at;
	unsigned char wanted[CALL_WINDOW];
	const struct call_window w = {wanted, *at, left < CALL_WINDOW ? left : CALL_WINDOW};

	call_put_after(&w, call, area, got, right);
	if (!memcmp(got + *at, wanted, w.len))
		return 1;
	while (got[*at] == wanted[*at - w.at])
		++*at;
	return 0;
}

int oracle_call_check(const struct oracle_call *call, int area, const void *bytes,
		      char text[ORACLE_TEXT])
{
	/* At most one part is a result of a reduction. */
	int checked = area == ORACLE_SEND || !call->parts || call->part[0].row >= 0;
	size_t right = 0, at, wrong;

	for (at = 0; at < call->bytes[area]; at += CALL_WINDOW) {
		wrong = at;
		if (call_window_good(call, area, bytes, right, &wrong))
			continue;
		if (!checked) {
			right = call_right(call, &call->part[0], bytes);
			checked = 1;
			wrong = at;
			if (call_window_good(call, area, bytes, right, &wrong))
				continue;
		}
		call_say(call, area, wrong, text);
		return 0;
	}
	return 1;
}
