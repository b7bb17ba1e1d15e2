/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - the arguments of operations: everything wrong with them is found here, before anything
 * moves, and said in a sentence that names the argument. */
#include "engine.h"
#include "error.h"

/* How many times `count` elements a buffer holds: none, one, one per rank; everywhere or at root.
 */
enum { NONE, ONE, EACH };

static const struct kind {
	const char *name;
	int send, recv;           /* NONE, ONE, EACH */
	int send_root, recv_root; /* used on root only */
	int has_root, reduces;
} check_kinds[] = {
	[COLL_KIND_ALLREDUCE] = {"allreduce", ONE, ONE, 0, 0, 0, 1},
	[COLL_KIND_BROADCAST] = {"broadcast", ONE, ONE, 1, 0, 1, 0},
	[COLL_KIND_REDUCE] = {"reduce", ONE, ONE, 0, 1, 1, 1},
	[COLL_KIND_ALLGATHER] = {"allgather", ONE, EACH, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTER] = {"reduce_scatter", EACH, ONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALL] = {"alltoall", EACH, EACH, 0, 0, 0, 0},
	[COLL_KIND_GATHER] = {"gather", ONE, EACH, 0, 1, 1, 0},
	[COLL_KIND_SCATTER] = {"scatter", EACH, ONE, 1, 0, 1, 0},
	[COLL_KIND_ALLGATHERV] = {"allgatherv", ONE, EACH, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTERV] = {"reduce_scatterv", EACH, ONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALLV] = {"alltoallv", EACH, EACH, 0, 0, 0, 0},
	[COLL_KIND_GATHERV] = {"gatherv", ONE, EACH, 0, 1, 1, 0},
	[COLL_KIND_SCATTERV] = {"scatterv", EACH, ONE, 1, 0, 1, 0},
	[COLL_KIND_BARRIER] = {"barrier", NONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_SEND] = {"send", ONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_RECV] = {"recv", NONE, ONE, 0, 0, 0, 0},
};

int check_is_kind(int kind)
{
	return kind >= COLL_KIND_ALLREDUCE && kind <= COLL_KIND_RECV;
}

const char *check_kind_name(int kind)
{
	return coll_kind_name(kind);
}

const char *coll_kind_name(int32_t kind)
{
	return check_is_kind(kind) ? check_kinds[kind].name : "?";
}

int check_has_root(int kind)
{
	return check_is_kind(kind) && check_kinds[kind].has_root;
}

int check_reduces(int kind)
{
	return check_is_kind(kind) && check_kinds[kind].reduces;
}

static int check_is_v(int kind)
{
	return kind >= COLL_KIND_ALLGATHERV && kind <= COLL_KIND_SCATTERV;
}

static int check_is_p2p(int kind)
{
	return kind == COLL_KIND_SEND || kind == COLL_KIND_RECV;
}

static int check_types(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	struct redop redop;

	if (a->kind == COLL_KIND_BARRIER)
		return COLL_SUCCESS;
	if (!coll_dtype_size(a->dtype))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: dtype %d is not a data type",
				 k->name, a->dtype);
	if (k->reduces)
		return redop_find(comm, k->name, a->dtype, a->op, &redop);
	return COLL_SUCCESS;
}

static int check_root(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	const char *what = check_is_p2p(a->kind) ? "peer" : "root";
	int any = a->kind == COLL_KIND_RECV && a->root == COLL_ANY_SOURCE;

	if (!k->has_root && !check_is_p2p(a->kind))
		return COLL_SUCCESS;
	if (any || (a->root >= 0 && a->root < comm->nranks))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s is %d, but ranks go from 0 to %d",
			 k->name, what, a->root, comm->nranks - 1);
}

/* Elements of all blocks, from the buffer's beginning to the end of the last; SIZE_MAX: too many. */
static size_t check_extent(const size_t *counts, const size_t *displs, int n)
{
	size_t end = 0, at = 0;

	for (int r = 0; r < n; r++) {
		if (displs)
			at = displs[r];
		if (counts[r] > PTRDIFF_MAX || at > PTRDIFF_MAX)
			return SIZE_MAX;
		if (counts[r] && at + counts[r] > end)
			end = at + counts[r];
		at += counts[r];
	}
	return end;
}

/* SIZE_MAX if there are too many to count. */
size_t check_elements(const struct comm *comm, const coll_args_t *a, int receives)
{
	const struct kind *k = &check_kinds[a->kind];
	int times = receives ? k->recv : k->send;
	int root_only = receives ? k->recv_root : k->send_root;
	const size_t *counts = receives ? a->recvcounts : a->sendcounts;

	if (times == NONE || (root_only && comm->rank != a->root))
		return 0;
	if (a->kind == COLL_KIND_REDUCE_SCATTERV)
		return receives ? a->recvcounts[comm->rank]
				: check_extent(a->recvcounts, NULL, comm->nranks);
	if (times == EACH && check_is_v(a->kind))
		return check_extent(counts, receives ? a->recvdispls : a->senddispls, comm->nranks);
	if (times == EACH)
		return a->count > PTRDIFF_MAX / (size_t)comm->nranks
			       ? SIZE_MAX
			       : a->count * (size_t)comm->nranks;
	return a->count;
}

/* Where the block of rank `block` begins, in elements. */
static size_t check_displ(const size_t *counts, const size_t *displs, int block)
{
	size_t at = 0;

	if (displs)
		return displs[block];
	for (int r = 0; r < block; r++)
		at += counts[r];
	return at;
}

/* The place within the larger buffer that belongs to this rank, in bytes. */
static size_t check_own_part(const struct comm *comm, const coll_args_t *a)
{
	size_t elem = coll_dtype_size(a->dtype);

	switch (a->kind) {
	case COLL_KIND_ALLGATHERV:
	case COLL_KIND_GATHERV: return check_displ(a->recvcounts, a->recvdispls, comm->rank) * elem;
	case COLL_KIND_SCATTERV:
		return check_displ(a->sendcounts, a->senddispls, comm->rank) * elem;
	case COLL_KIND_REDUCE_SCATTERV: return check_displ(a->recvcounts, NULL, comm->rank) * elem;
	default: return a->count * elem * (size_t)comm->rank;
	}
}

/* Does every block of an alltoallv come in where the block for the same rank goes out? */
static int check_same_blocks(const struct comm *comm, const coll_args_t *a)
{
	size_t out = 0, in = 0;

	for (int r = 0; r < comm->nranks; r++) {
		if (a->sendcounts[r] != a->recvcounts[r] ||
		    (a->senddispls ? a->senddispls[r] : out) !=
			    (a->recvdispls ? a->recvdispls[r] : in))
			return 0;
		out += a->sendcounts[r];
		in += a->recvcounts[r];
	}
	return 1;
}

/* Is the overlap of the buffers one of the in-place forms? */
static int check_overlap_allowed(const struct comm *comm, const coll_args_t *a)
{
	const struct kind *k = &check_kinds[a->kind];
	const char *send = a->sendbuf, *recv = a->recvbuf;

	if (a->kind == COLL_KIND_ALLTOALLV)
		return send == recv && check_same_blocks(comm, a);
	if (k->send == k->recv)
		return send == recv;
	if (k->recv == EACH)
		return send == recv + check_own_part(comm, a);
	return recv == send + check_own_part(comm, a);
}

int check_in_place(const struct comm *comm, const coll_args_t *a)
{
	const struct kind *k = check_is_kind(a->kind) ? &check_kinds[a->kind] : &check_kinds[0];
	int used = comm->rank == a->root || !(k->send_root || k->recv_root);

	return k->send != NONE && k->recv != NONE && used && a->sendbuf &&
	       check_overlap_allowed(comm, a);
}

static int check_buffers(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	size_t elem = coll_dtype_size(a->dtype);
	size_t send = check_elements(comm, a, 0);
	size_t recv = check_elements(comm, a, 1);
	uintptr_t s = (uintptr_t)a->sendbuf, r = (uintptr_t)a->recvbuf;

	if ((send > PTRDIFF_MAX / elem || recv > PTRDIFF_MAX / elem) && check_is_v(a->kind))
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
	if (send && recv && s < r + recv * elem && r < s + send * elem &&
	    !check_overlap_allowed(comm, a))
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: sendbuf and recvbuf overlap, but not in the way that asks for an "
			"operation in place",
			k->name);
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

/* What a rank sends to itself it also receives. */
static int check_own_counts(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	int scatters = a->kind == COLL_KIND_SCATTERV;
	const size_t *each = scatters ? a->sendcounts : a->recvcounts;
	size_t own = a->count;

	if (a->kind == COLL_KIND_REDUCE_SCATTERV || (k->has_root && comm->rank != a->root))
		return COLL_SUCCESS;
	if (a->kind == COLL_KIND_ALLTOALLV)
		own = a->sendcounts[comm->rank];
	if (own == each[comm->rank])
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "%s: this rank's own part is %zu elements by %s, but %zu by %scounts[%d]",
			 k->name, own,
			 scatters                         ? "recvcount"
			 : a->kind == COLL_KIND_ALLTOALLV ? "sendcounts"
							  : "sendcount",
			 each[comm->rank], scatters ? "send" : "recv", comm->rank);
}

/* Counts and displacements of the v-forms, displacements filled in where the user gave none. */
static int check_arrays(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	int root = comm->rank == a->root;
	int sends = a->kind == COLL_KIND_ALLTOALLV || (a->kind == COLL_KIND_SCATTERV && root);
	int recvs = a->kind != COLL_KIND_SCATTERV && (a->kind != COLL_KIND_GATHERV || root);
	int one, other;

	if (!check_is_v(a->kind))
		return COLL_SUCCESS;
	if ((sends && !a->sendcounts) || (recvs && !a->recvcounts))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %scounts is NULL", k->name,
				 sends && !a->sendcounts ? "send" : "recv");
	if (recvs && a->recvdispls &&
	    check_extent(a->recvcounts, a->recvdispls, comm->nranks) != SIZE_MAX &&
	    check_blocks_overlap(a->recvcounts, a->recvdispls, comm->nranks, &one, &other))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: the blocks of ranks %d and %d overlap in recvbuf: see "
				 "recvcounts and displs",
				 k->name, one, other);
	return check_own_counts(k, comm, a);
}

static int check_stream(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	const coll_backend_t *b = &comm->link->plugin->backend;

	if (!a->stream || (b->native && b->native->event_record && !b->transport))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "%s: backend '%s' has no device streams; pass NULL as stream", k->name,
			 b->name);
}

int check_call(const struct comm *comm, const coll_args_t *a)
{
	const struct kind *k = &check_kinds[a->kind];
	int code = check_stream(k, comm, a);

	return code || a->kind == COLL_KIND_BARRIER ? code : check_buffers(k, comm, a);
}

int check_args(const struct comm *comm, const coll_args_t *a)
{
	const struct kind *k;
	int code;

	if (!check_is_kind(a->kind))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "kind %d is not a kind of operation",
				 a->kind);
	k = &check_kinds[a->kind];
	code = check_types(k, comm, a);
	if (!code)
		code = check_root(k, comm, a);
	if (!code)
		code = check_stream(k, comm, a);
	if (!code)
		code = check_arrays(k, comm, a);
	if (!code && a->kind != COLL_KIND_BARRIER)
		code = check_buffers(k, comm, a);
	return code;
}
