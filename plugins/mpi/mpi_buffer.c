/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_buffer.c - the buffers of a collective, and the plugin's copies of them.
 *
 * In a copy the parts of a v-form follow one another.  Where MPI uses the program's buffer, they lie as the program says.
 */
#include "mpi_plugin.h"

#include "base/tables.h"

#include <stdlib.h>
#include <string.h>

/* What each kind sends and receives, from the table of kinds. */
static const struct buffer_kind {
	uint8_t send, recv; /* KIND_* */
	uint8_t traits;
} buffer_kinds[] = {
#define BUFFER_KIND(number, name, sends, receives, traits, ...)                                    \
	[number] = {sends, receives, traits},
	KINDS(BUFFER_KIND)};

/* Does MPI get a copy of both buffers? */
static int buffer_is_copied(const struct mpi_endpoint *ep, const coll_args_t *args)
{
	return !ep->direct || (args->kind == COLL_KIND_ALLTOALLV && args->sendbuf == args->recvbuf);
}

static void buffer_fill(struct mpi_buffer *buffer, const size_t *counts, const size_t *displs,
			const struct mpi_endpoint *ep, const coll_args_t *args, size_t unit)
{
	const size_t size = mpi_size_of(args->dtype);
	const int packed = buffer_is_copied(ep, args) || !displs;

	for (uint32_t r = 0; r < ep->nranks; r++) {
		buffer->counts[r] = (MPI_Count)(counts[r] * unit);
		buffer->at[r] = displs ? displs[r] * size : buffer->bytes;
		buffer->displs[r] =
			(MPI_Aint)((packed ? buffer->bytes : buffer->at[r]) / (size / unit));
		buffer->bytes += counts[r] * size;
	}
}

/* Points the buffer's arrays into the memory at `at`.  Returns the first byte behind them. */
static uint8_t *buffer_place(struct mpi_buffer *buffer, uint8_t *at, uint32_t nranks)
{
	buffer->counts = (MPI_Count *)(void *)at;
	buffer->displs = (MPI_Aint *)(void *)(buffer->counts + nranks);
	buffer->at = (size_t *)(void *)(buffer->displs + nranks);
	return (uint8_t *)(buffer->at + nranks);
}

static int buffer_vectors(struct mpi_call *call, const struct mpi_endpoint *ep, size_t unit)
{
	const coll_args_t *args = &call->args;
	const size_t each = sizeof(MPI_Count) + sizeof(MPI_Aint) + sizeof(size_t);
	uint8_t *at = malloc(2 * ep->nranks * each);

	if (!at)
		return -1;
	call->arrays = at;
	if (args->sendcounts) {
		at = buffer_place(&call->send, at, ep->nranks);
		buffer_fill(&call->send, args->sendcounts, args->senddispls, ep, args, unit);
	}
	if (args->recvcounts) {
		buffer_place(&call->recv, at, ep->nranks);
		buffer_fill(&call->recv, args->recvcounts, args->recvdispls, ep, args, unit);
	}
	return 0;
}

/* A buffer without counts: one block, or one for each rank. */
static void buffer_blocks(struct mpi_buffer *buffer, int blocks, const struct mpi_endpoint *ep,
			  size_t bytes)
{
	if (!buffer->counts)
		buffer->bytes = blocks == KIND_EACH  ? bytes * ep->nranks
				: blocks == KIND_ONE ? bytes
						     : 0;
}

int mpi_buffers(struct mpi_call *call, const struct mpi_endpoint *ep)
{
	const coll_args_t *args = &call->args;
	const struct buffer_kind *kind = &buffer_kinds[args->kind];
	const int root = args->root == (int32_t)ep->rank;
	const size_t size = args->kind == COLL_KIND_BARRIER ? 0 : mpi_size_of(args->dtype);
	const int vector = (kind->traits & (KIND_SENDCOUNTS | KIND_RECVCOUNTS)) != 0;

	if (vector && buffer_vectors(call, ep, kind->traits & KIND_REDUCES ? 1 : size))
		return -1;
	buffer_blocks(&call->send, kind->send, ep, args->count * size);
	buffer_blocks(&call->recv, kind->recv, ep, args->count * size);
	if (args->kind == COLL_KIND_ALLGATHERV)
		call->send.bytes = args->recvcounts[ep->rank] * size;
	if (args->kind == COLL_KIND_REDUCE_SCATTERV) {
		call->send.bytes = call->recv.bytes;
		call->recv.bytes = args->recvcounts[ep->rank] * size;
	}
	if (kind->traits & KIND_ROOT_SENDS && !root)
		call->send.bytes = 0;
	if (kind->traits & KIND_ROOT_RECEIVES && !root)
		call->recv.bytes = 0;
	return 0;
}

/* ----------------------------------------------------------------------- copies -- */

/* Are the program's parts apart? */
static int buffer_is_apart(const struct mpi_call *call, const struct mpi_buffer *buffer)
{
	return buffer->counts && call->args.kind != COLL_KIND_REDUCE_SCATTERV;
}

/* Of a buffer that MPI may reach on a device the kind of memory is unknown here. */
int mpi_copy_part(const struct mpi_endpoint *ep, void *to, const void *from, size_t bytes)
{
	return bytes ? mpi_move(ep, to, from, bytes, ep->cuda ? COLL_MEM_CUDA : COLL_MEM_HOST) : 0;
}

/*
 * malloc takes a block of SPARE_LEAST bytes and more from the system anew, page by page, which takes longer than the copies.
 * So the endpoint keeps the memory of its largest copy, up to SPARE_MOST bytes.
 */
enum { SPARE_LEAST = 128 << 10, SPARE_MOST = 128 << 20 };

static uint8_t *copy_new(struct mpi_endpoint *ep, struct mpi_call *call, size_t bytes)
{
	uint8_t *copy = ep->spare_copy;

	if (bytes < SPARE_LEAST || bytes > ep->spare_copy_bytes) {
		call->copy_bytes = bytes;
		return malloc(bytes);
	}
	call->copy_bytes = ep->spare_copy_bytes;
	ep->spare_copy = NULL;
	ep->spare_copy_bytes = 0;
	return copy;
}

void mpi_copy_free(struct mpi_endpoint *ep, struct mpi_call *call)
{
	uint8_t *unneeded = call->copy;

	if (call->copy_bytes >= SPARE_LEAST && call->copy_bytes <= SPARE_MOST &&
	    call->copy_bytes > ep->spare_copy_bytes) {
		unneeded = ep->spare_copy;
		ep->spare_copy = call->copy;
		ep->spare_copy_bytes = call->copy_bytes;
	}
	free(unneeded);
}

int mpi_copy_in(struct mpi_endpoint *ep, struct mpi_call *call, const void **send, void **recv)
{
	const size_t cache_line = 64;
	const struct mpi_buffer *from = &call->send;
	const size_t behind = (from->bytes + cache_line) / cache_line * cache_line;
	size_t at = 0;
	int failed = 0;

	if (!call->copy)
		call->copy = copy_new(ep, call, behind + call->recv.bytes + 1);
	if (!call->copy)
		return -1;
	for (uint32_t r = 0; buffer_is_apart(call, from) && at < from->bytes; r++) {
		failed |= mpi_copy_part(ep, call->copy + at, (const uint8_t *)*send + from->at[r],
					(size_t)from->counts[r]);
		at += (size_t)from->counts[r];
	}
	failed |= mpi_copy_part(ep, call->copy, *send, at < from->bytes ? from->bytes : 0);
	call->result = *recv;
	call->result_at = behind;
	call->result_bytes = call->recv.bytes;
	*send = call->copy;
	*recv = call->copy + behind;
	return failed;
}

int mpi_copy_out(const struct mpi_endpoint *ep, const struct mpi_call *call)
{
	const struct mpi_buffer *to = &call->recv;
	const uint8_t *from = call->copy + call->result_at;
	size_t at = 0;
	int failed = 0;

	for (uint32_t r = 0; buffer_is_apart(call, to) && at < to->bytes; r++) {
		failed |= mpi_copy_part(ep, (uint8_t *)call->result + to->at[r], from + at,
					(size_t)to->counts[r]);
		at += (size_t)to->counts[r];
	}
	return failed | mpi_copy_part(ep, call->result, from,
				      at < call->result_bytes ? call->result_bytes : 0);
}
