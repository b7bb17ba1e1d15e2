/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - the arguments of operations.  The check finds every fault before anything moves, and its
 * message names the argument.
 */
#include "api/check.h"
#include "base/error.h"
#include "base/kind.h"
#include "comm/comm.h"
#include "comm/span.h"
#include "comm/plan.h"

static int check_types(const struct lane *lane, struct call *call)
{
	const coll_args_t *a = &call->args;
	int code;

	if (a->kind == COLL_KIND_BARRIER)
		return COLL_SUCCESS;
	if (!coll_dtype_size(a->dtype))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: dtype %d is not a data type",
				 call->kind->name, a->dtype);
	if (call->kind->is_scan && a->op == COLL_AVG)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: op %d (avg) is not an operation on a part of the ranks; use sum, "
			"and divide by the number of ranks that it adds up",
			call->kind->name, a->op);
	if (!call->kind->reduces)
		return COLL_SUCCESS;
	code = lane->client->find_redop(lane->comm->redops, call->kind->name, a->dtype, a->op,
					&call->redop);
	if (lane->index == LANE_HOST &&
	    call->redop.premul_sum) /* the native lane's backend has made it */
		call->redop.made = 0;
	return code;
}

static int check_root(const struct kind *k, const struct lane *lane, const coll_args_t *a)
{
	const char *what = k->is_p2p ? "peer" : "root";
	int any = a->kind == COLL_KIND_RECV && a->root == COLL_ANY_SOURCE;

	if (any || (a->root >= 0 && a->root < lane->comm->nranks))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s is %d, but ranks go from 0 to %d",
			 k->name, what, a->root, lane->comm->nranks - 1);
}

/*
 * Finds the i-th block of a buffer, in elements from its beginning.  Without displacements the buffer is one block.
 * Returns 0 if there is no such block.
 */
static int check_block(const struct lane *lane, const coll_args_t *a, int receives, size_t all,
		       int i, size_t *at, size_t *count)
{
	const size_t *displs = receives ? a->recvdispls : a->senddispls;
	const struct kind *k = kind_at(a->kind);
	const int each = receives ? k->recv : k->send;

	if (a->kind == COLL_KIND_REDUCE_SCATTERV || each != KIND_EACH || !k->is_v || !displs) {
		*at = 0;
		*count = all;
		return i == 0;
	}
	if (i == lane->comm->nranks)
		return 0;
	*at = displs[i];
	*count = receives ? a->recvcounts[i] : a->sendcounts[i];
	return 1;
}

/*
 * Does a block of one buffer overlap a block of the other buffer?  The whole buffers overlap, perhaps only in the gaps
 * of a v-form.
 */
static int check_overlap(const struct lane *lane, const coll_args_t *a, size_t send, size_t recv)
{
	const size_t elem = coll_dtype_size(a->dtype);
	const uintptr_t s = (uintptr_t)a->sendbuf, r = (uintptr_t)a->recvbuf;
	size_t from, sent, to, received;

	for (int i = 0; check_block(lane, a, 0, send, i, &from, &sent); i++)
		for (int k = 0; sent && check_block(lane, a, 1, recv, k, &to, &received); k++)
			if (received && s + from * elem < r + (to + received) * elem &&
			    r + to * elem < s + (from + sent) * elem)
				return 1;
	return 0;
}

/* Checks the buffers and notes how many elements the call uses. */
static int check_buffers(const struct lane *lane, struct call *call)
{
	const struct kind *k = call->kind;
	const coll_args_t *a = &call->args;
	size_t elem = coll_dtype_size(a->dtype);
	size_t all = a->count * (size_t)lane->comm->nranks;
	size_t send = call->list & 1 << COLL_BUFFER_SEND ? all : span_elements(lane, a, 0);
	size_t recv = call->list & 1 << COLL_BUFFER_RECV ? all : span_elements(lane, a, 1);
	uintptr_t s = (uintptr_t)a->sendbuf, r = (uintptr_t)a->recvbuf;

	if ((send > PTRDIFF_MAX / elem || recv > PTRDIFF_MAX / elem) && k->is_v)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: the span of counts and displacements of %s does not fit into memory",
			k->name, coll_dtype_name(a->dtype));
	if (send > PTRDIFF_MAX / elem || recv > PTRDIFF_MAX / elem)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: count %llu of %s does not fit into memory", k->name,
				 (unsigned long long)a->count, coll_dtype_name(a->dtype));
	if (send && !s)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: sendbuf is NULL, count is %zu",
				 k->name, send);
	if (recv && !r)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: recvbuf is NULL, count is %zu",
				 k->name, recv);
	if (send && recv && !call->list && s < r + recv * elem && r < s + send * elem &&
	    !span_is_in_place(lane, a) && check_overlap(lane, a, send, recv))
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: sendbuf and recvbuf overlap, but not in the way that asks for an "
			"operation in place",
			k->name);
	call->elements[COLL_BUFFER_SEND] = send;
	call->elements[COLL_BUFFER_RECV] = recv;
	return COLL_SUCCESS;
}

/* Do two blocks of the receive buffer overlap?  *a and *b become their ranks. */
static int check_blocks_overlap(const size_t *counts, const size_t *displs, int n, int *a, int *b)
{
	int last = -1, ordered = 1;

	for (int r = 0; r < n && ordered; r++) {
		if (!counts[r])
			continue;
		ordered = last < 0 || displs[r] >= displs[last] + counts[last];
		last = r;
	}
	for (*a = 0; !ordered && *a < n; ++*a)
		for (*b = *a + 1; *b < n; ++*b)
			if (counts[*a] && counts[*b] && displs[*a] < displs[*b] + counts[*b] &&
			    displs[*b] < displs[*a] + counts[*a])
				return 1;
	return 0;
}

/* A rank must receive from itself as much as it sends to itself. */
static int check_own_counts(const struct kind *k, const struct lane *lane, const coll_args_t *a)
{
	int scatters = a->kind == COLL_KIND_SCATTERV;
	const size_t *each = scatters ? a->sendcounts : a->recvcounts;
	size_t own = a->count;

	if (a->kind == COLL_KIND_REDUCE_SCATTERV || (k->has_root && lane->comm->rank != a->root))
		return COLL_SUCCESS;
	if (a->kind == COLL_KIND_ALLTOALLV)
		own = a->sendcounts[lane->comm->rank];
	if (own == each[lane->comm->rank])
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "%s: this rank's own part is %zu elements by %s, but %zu by %scounts[%d]",
			 k->name, own,
			 scatters                         ? "recvcount"
			 : a->kind == COLL_KIND_ALLTOALLV ? "sendcounts"
							  : "sendcount",
			 each[lane->comm->rank], scatters ? "send" : "recv", lane->comm->rank);
}

/* Counts and displacements of the v-forms, displacements filled in where the user gave none. */
static int check_arrays(const struct kind *k, const struct lane *lane, const coll_args_t *a)
{
	const int sends = kind_gives_sendcounts(k, lane->comm->rank == a->root);
	const int recvs = kind_gives_recvcounts(k, lane->comm->rank == a->root);
	int one, other;

	if ((sends && !a->sendcounts) || (recvs && !a->recvcounts))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %scounts is NULL", k->name,
				 sends && !a->sendcounts ? "send" : "recv");
	if (recvs && a->recvdispls &&
	    span_of_blocks(a->recvcounts, a->recvdispls, lane->comm->nranks) != SIZE_MAX &&
	    check_blocks_overlap(a->recvcounts, a->recvdispls, lane->comm->nranks, &one, &other))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: the blocks of ranks %d and %d overlap in recvbuf: see "
				 "recvcounts and displs",
				 k->name, one, other);
	return check_own_counts(k, lane, a);
}

/* Can the call have a stream of the program? */
static int check_stream(const struct kind *k, const struct lane *lane)
{
	const coll_backend_t *b = &lane->context->plugin->backend;

	if (b->native && b->native->event_record && !b->transport)
		return COLL_SUCCESS;
	if (!b->transport)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: backend '%s' has no device streams; pass NULL as stream",
				 k->name, b->name);
	return lane->context->devices ? COLL_SUCCESS
				      : error_set(COLL_ERR_INVALID_ARGUMENT,
						  "%s: stream is not NULL, but this process has no "
						  "CUDA driver; pass "
						  "NULL as stream",
						  k->name);
}

/* The buffers of this rank that are lists. */
static int check_lists(const struct kind *k, const struct lane *lane, const coll_args_t *a)
{
	const int send = k->send == KIND_EACH && !(k->send_root && lane->comm->rank != a->root);
	const int recv = k->recv == KIND_EACH && !(k->recv_root && lane->comm->rank != a->root);

	return send << COLL_BUFFER_SEND | recv << COLL_BUFFER_RECV;
}

int check_call(const struct lane *lane, const coll_args_t *a, struct call *call)
{
	const int is_list = a->flags & CALL_OF_LIST;
	const struct call *alike;
	const struct kind *k = is_list ? kind_list_at(a->kind) : kind_at(a->kind);
	int code = COLL_SUCCESS;

	*call = (struct call){.args = *a, .kind = k, .redop.dtype = a->dtype};
	if (is_list)
		call->list = check_lists(k, lane, a);
	call->args.flags &= ~(uint32_t)CALL_OF_LIST;
	alike = plan_alike(lane, a);
	if (alike) {
		call->redop = alike->redop;
		call->slot = alike->slot;
	} else {
		code = lane->client->supports(lane, a->kind);
		if (!code)
			code = check_types(lane, call);
		if (!code && (k->has_root || k->is_p2p))
			code = check_root(k, lane, a);
	}
	if (!code && a->stream)
		code = check_stream(k, lane);
	if (!code && k->is_v && !is_list)
		code = check_arrays(k, lane, a);
	return code || a->kind == COLL_KIND_BARRIER ? code : check_buffers(lane, call);
}
