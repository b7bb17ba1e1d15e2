/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_coll.c - the operations, run on a stream's thread: plain exchanges over the byte rings of
 * the rendezvous, with reductions in the order of ranks, so that all ranks get the same bits.  The
 * operations access memory through standin_touch only; an operation on memory of no device fails as
 * a kernel would.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "nccl_parts.h"

enum { COLL_CHUNK = 16384, COLL_SPINS = 50 };

/* A transfer of bytes to (out) or from a peer. */
struct move {
	int channel, peer, out;
	unsigned char *at;
	size_t left;
};

/* A reduction proceeds chunk by chunk: holds the peers' parts of a chunk, in the order of ranks. */
struct pot {
	unsigned char *parts[RENDEZVOUS_RANKS];
	unsigned char *memory;
};

/* ------------------------------------------------------------------------- moves -- */

static size_t move_some(nccl_comm_t comm, struct move *move)
{
	size_t n;

	if (move->out)
		n = rendezvous_put(comm->rendezvous, move->channel, move->peer, move->at,
				   move->left);
	else
		n = rendezvous_take(comm->rendezvous, move->channel, move->peer, move->at,
				    move->left);
	move->at += n;
	move->left -= n;
	return n;
}

/*
 * Advances all transfers as far as possible; transfers with the same peer and direction stay in
 * order.
 */
static int moves_step(nccl_comm_t comm, struct move *moves, int n, int *left)
{
	unsigned busy[2] = {0, 0};
	int i, moved = 0;

	*left = 0;
	for (i = 0; i < n; i++) {
		struct move *move = &moves[i];

		if (!move->left || busy[move->out] & 1u << move->peer)
			continue;
		moved |= move_some(comm, move) > 0;
		if (move->left) {
			busy[move->out] |= 1u << move->peer;
			*left = 1;
		}
	}
	return moved;
}

/* Returns 0, or 1 if the communicator was aborted before all transfers were done. */
static int moves_run(nccl_comm_t comm, struct move *moves, int n)
{
	struct halt halt;
	uint32_t bell;
	int left = 1, idle = 0;

	comm_halt(comm, &halt);
	while (left) {
		bell = rendezvous_bell(comm->rendezvous);
		if (moves_step(comm, moves, n, &left))
			idle = 0;
		else if (halt_asked(&halt))
			return 1;
		else if (left && ++idle < COLL_SPINS)
			sched_yield();
		else if (left)
			rendezvous_sleep(comm->rendezvous, bell);
	}
	return 0;
}

/* Appends a transfer to moves[n] if it has bytes. */
static int move_add(struct move *moves, int n, int channel, int peer, int out, unsigned char *at,
		    size_t left)
{
	if (left)
		moves[n++] = (struct move){channel, peer, out, at, left};
	return n;
}

/* --------------------------------------------------------------------- reductions -- */

static int pot_new(struct pot *pot, int n)
{
	int r;

	pot->memory = malloc((size_t)n * COLL_CHUNK);
	if (!pot->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (r = 0; r < n; r++)
		pot->parts[r] = pot->memory + (size_t)r * COLL_CHUNK;
	return CUDA_SUCCESS;
}

static int coll_scalar(const struct op *op, struct redop *redop)
{
	const void *at;

	*redop = op->redop;
	if (!redop->on_device)
		return CUDA_SUCCESS;
	at = standin_touch(redop->pointer, reduce_size(op->dtype));
	if (!at)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	memcpy(redop->bits, at, reduce_size(op->dtype));
	return CUDA_SUCCESS;
}

/* Multiplies a rank's own input by its scalar, before the sum. */
static unsigned char *coll_scaled(const unsigned char *from, size_t count, int dtype,
				  struct redop *redop)
{
	unsigned char *scaled = malloc(count * reduce_size(dtype) + 1);

	if (scaled)
		reduce_scale(scaled, from, count, dtype, redop);
	redop->op = OP_SUM;
	return scaled;
}

/*
 * Allreduce, reduce and reduce-scatter: each rank that has a result gets all ranks' parts of each
 * chunk.  to is the address of the own result; NULL on a rank without result.
 */
static int coll_reduce(nccl_comm_t comm, const struct op *op, unsigned char *from,
		       unsigned char *to)
{
	size_t size = reduce_size(op->dtype), at, n, most = COLL_CHUNK / size;
	int scatter = op->kind == KIND_REDUCE_SCATTER, r, moves, halted = 0;
	struct move list[2 * RENDEZVOUS_RANKS];
	unsigned char *src[RENDEZVOUS_RANKS], *part, *scaled = NULL;
	struct redop redop;
	struct pot pot;

	if (coll_scalar(op, &redop))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (pot_new(&pot, comm->nranks))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (redop.op == OP_PREMUL) {
		n = op->count * (scatter ? (size_t)comm->nranks : 1);
		from = scaled = coll_scaled(from, n, op->dtype, &redop);
	}
	if (!from) {
		free(pot.memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (at = 0; at < op->count && !halted; at += n) {
		n = op->count - at < most ? op->count - at : most;
		for (r = moves = 0; r < comm->nranks; r++) {
			part = from + (at + (scatter ? (size_t)r * op->count : 0)) * size;
			src[r] = r == comm->rank ? part : pot.parts[r];
			if (r != comm->rank && (op->kind != KIND_REDUCE || r == op->root))
				moves = move_add(list, moves, CHANNEL_COLL, r, 1, part, n * size);
			if (r != comm->rank && to)
				moves = move_add(list, moves, CHANNEL_COLL, r, 0, src[r], n * size);
		}
		halted = moves_run(comm, list, moves);
		if (to && !halted)
			reduce_block(to + at * size, src, comm->nranks, n, op->dtype, &redop);
	}
	free(scaled);
	free(pot.memory);
	return CUDA_SUCCESS;
}

static int coll_broadcast(nccl_comm_t comm, const struct op *op, unsigned char *from,
			  unsigned char *to)
{
	struct move list[RENDEZVOUS_RANKS];
	int r, n = 0;

	if (comm->rank != op->root) {
		n = move_add(list, 0, CHANNEL_COLL, op->root, 0, to, op->bytes);
	} else {
		for (r = 0; r < comm->nranks; r++)
			if (r != comm->rank)
				n = move_add(list, n, CHANNEL_COLL, r, 1, from, op->bytes);
		memmove(to, from, op->bytes);
	}
	(void)moves_run(comm, list, n);
	return CUDA_SUCCESS;
}

static int coll_allgather(nccl_comm_t comm, const struct op *op, unsigned char *from,
			  unsigned char *to)
{
	struct move list[2 * RENDEZVOUS_RANKS];
	int r, n = 0;

	memmove(to + (size_t)comm->rank * op->bytes, from, op->bytes);
	for (r = 0; r < comm->nranks; r++) {
		if (r == comm->rank)
			continue;
		n = move_add(list, n, CHANNEL_COLL, r, 1, from, op->bytes);
		n = move_add(list, n, CHANNEL_COLL, r, 0, to + (size_t)r * op->bytes, op->bytes);
	}
	(void)moves_run(comm, list, n);
	return CUDA_SUCCESS;
}

/* Reductions load and store whole elements; other operations move bytes. */
static int coll_reduces(const struct op *op)
{
	return op->kind != KIND_BROADCAST && op->kind != KIND_ALLGATHER;
}

int coll_run(nccl_comm_t comm, const struct op *op)
{
	size_t n = (size_t)comm->nranks;
	size_t in = op->kind == KIND_REDUCE_SCATTER ? n * op->bytes : op->bytes;
	size_t out = op->kind == KIND_ALLGATHER ? n * op->bytes : op->bytes;
	int at_root = comm->rank == op->root;
	int sends = op->kind != KIND_BROADCAST || at_root;
	int has = op->kind != KIND_REDUCE || at_root;
	unsigned char *from = sends ? standin_touch(op->send, in) : NULL;
	unsigned char *to = has ? standin_touch(op->recv, out) : NULL;

	if ((sends && !from) || (has && !to))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (coll_reduces(op) && ((uintptr_t)from | (uintptr_t)to) % reduce_size(op->dtype))
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	switch (op->kind) {
	case KIND_BROADCAST: return coll_broadcast(comm, op, from, to);
	case KIND_ALLGATHER: return coll_allgather(comm, op, from, to);
	default: return coll_reduce(comm, op, from, to);
	}
}

/* ------------------------------------------------------------------------- pairs -- */

/* The k-th send to the own rank matches the k-th receive. */
static int pairs_self(nccl_comm_t comm, const struct op *ops)
{
	const struct op *send, *recv = ops;
	size_t n;
	void *from, *to;

	for (send = ops; send; send = send->next) {
		if (send->kind != KIND_SEND || send->root != comm->rank)
			continue;
		while (recv->kind != KIND_RECV || recv->root != comm->rank)
			recv = recv->next;
		n = send->bytes < recv->bytes ? send->bytes : recv->bytes;
		from = n ? standin_touch(send->send, n) : NULL;
		to = n ? standin_touch(recv->recv, n) : NULL;
		if (n && (!from || !to))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (n)
			memmove(to, from, n);
		recv = recv->next;
	}
	return CUDA_SUCCESS;
}

int pairs_run(nccl_comm_t comm, const struct op *ops)
{
	const struct op *op;
	struct move *moves;
	unsigned char *at;
	int n = 0, sends, code = CUDA_SUCCESS;

	for (op = ops; op; op = op->next)
		n++;
	moves = calloc((size_t)n, sizeof(*moves));
	if (!moves)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (op = ops, n = 0; op && !code; op = op->next) {
		if (op->root == comm->rank || !op->bytes)
			continue;
		sends = op->kind == KIND_SEND;
		at = standin_touch(sends ? op->send : op->recv, op->bytes);
		if (!at)
			code = CUDA_ERROR_ILLEGAL_ADDRESS;
		else
			n = move_add(moves, n, CHANNEL_P2P, op->root, sends, at, op->bytes);
	}
	if (!code)
		code = pairs_self(comm, ops);
	if (!code)
		(void)moves_run(comm, moves, n);
	free(moves);
	return code;
}
