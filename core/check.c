/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - the arguments of operations: everything wrong with them is found here, before anything
 * moves, and said in a sentence that names the argument. */
#include "engine.h"
#include "error.h"
#include "reduce.h"

#include <stdio.h>

/* How many times `count` elements a buffer holds: none, one, one per rank; everywhere or at root.
 */
enum { NONE, ONE, EACH };

/* Only in prints: no operation of its own. */
enum { KIND_SPLIT = COLL_KIND_RECV + 1 };

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
	[COLL_KIND_ALLGATHERV] = {"allgatherv", NONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTERV] = {"reduce_scatterv", NONE, NONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALLV] = {"alltoallv", NONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_GATHERV] = {"gatherv", NONE, NONE, 0, 0, 1, 0},
	[COLL_KIND_SCATTERV] = {"scatterv", NONE, NONE, 0, 0, 1, 0},
	[COLL_KIND_BARRIER] = {"barrier", NONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_SEND] = {"send", ONE, NONE, 0, 0, 0, 0},
	[COLL_KIND_RECV] = {"recv", NONE, ONE, 0, 0, 0, 0},
};

static int check_is_kind(int kind)
{
	return kind >= COLL_KIND_ALLREDUCE && kind <= COLL_KIND_RECV;
}

const char *check_kind_name(int kind)
{
	return check_is_kind(kind) ? check_kinds[kind].name : "?";
}

int check_reduces(int kind)
{
	return check_is_kind(kind) && check_kinds[kind].reduces;
}

static int check_is_p2p(int kind)
{
	return kind == COLL_KIND_SEND || kind == COLL_KIND_RECV;
}

static int check_types(const struct kind *k, const coll_args_t *a)
{
	if (a->kind == COLL_KIND_BARRIER)
		return COLL_SUCCESS;
	if (!coll_dtype_size(a->dtype))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: dtype %d is not a data type",
				 k->name, a->dtype);
	if (k->reduces && !reduce_supports(a->dtype, a->op))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d (%s) is not an operation on %s", k->name, a->op,
				 coll_op_name(a->op), coll_dtype_name(a->dtype));
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

/* Bytes of a buffer on this rank, or SIZE_MAX if they do not fit into memory. */
static size_t check_bytes(const struct comm *comm, const coll_args_t *a, int factor, int root_only)
{
	size_t elem = coll_dtype_size(a->dtype);
	size_t times = factor == EACH ? (size_t)comm->nranks : 1;

	if (factor == NONE || (root_only && comm->rank != a->root))
		return 0;
	if (a->count > PTRDIFF_MAX / elem / times)
		return SIZE_MAX;
	return a->count * elem * times;
}

/* Is the overlap of the buffers one of the in-place forms? */
static int check_in_place(const struct comm *comm, const coll_args_t *a, int times_send,
			  int times_recv)
{
	size_t part = a->count * coll_dtype_size(a->dtype) * (size_t)comm->rank;
	const char *send = a->sendbuf, *recv = a->recvbuf;

	if (times_send == ONE && times_recv == ONE)
		return send == recv;
	if (times_send == ONE)
		return send == recv + part;
	if (times_recv == ONE)
		return recv == send + part;
	return 0;
}

static int check_buffers(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	size_t send = check_bytes(comm, a, k->send, k->send_root);
	size_t recv = check_bytes(comm, a, k->recv, k->recv_root);
	uintptr_t s = (uintptr_t)a->sendbuf, r = (uintptr_t)a->recvbuf;

	if (send == SIZE_MAX || recv == SIZE_MAX)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: count %llu of %s does not fit into memory", k->name,
				 (unsigned long long)a->count, coll_dtype_name(a->dtype));
	if (send && !s)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: sendbuf is NULL, count is %llu",
				 k->name, (unsigned long long)a->count);
	if (recv && !r)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: recvbuf is NULL, count is %llu",
				 k->name, (unsigned long long)a->count);
	if (send && recv && s < r + recv && r < s + send &&
	    !check_in_place(comm, a, k->send, k->recv))
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: sendbuf and recvbuf overlap, but not in the way that asks for an "
			"operation in place",
			k->name);
	return COLL_SUCCESS;
}

static int check_stream(const struct kind *k, const struct comm *comm, const coll_args_t *a)
{
	const coll_backend_t *b = &comm->link->plugin->backend;

	if (!a->stream || (b->native && b->native->event_record))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "%s: backend '%s' has no device streams; pass NULL as stream", k->name,
			 b->name);
}

int check_args(const struct comm *comm, const coll_args_t *a)
{
	const struct kind *k;
	int code;

	if (!check_is_kind(a->kind))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "kind %d is not a kind of operation",
				 a->kind);
	k = &check_kinds[a->kind];
	code = check_types(k, a);
	if (!code)
		code = check_root(k, comm, a);
	if (!code)
		code = check_stream(k, comm, a);
	if (!code && a->kind != COLL_KIND_BARRIER)
		code = check_buffers(k, comm, a);
	return code;
}

struct print print_of(const coll_args_t *a)
{
	int p2p = check_is_p2p(a->kind);
	uint64_t kind = (uint64_t)(p2p ? COLL_KIND_SEND : a->kind);
	uint64_t op = check_reduces(a->kind) ? (uint64_t)(a->op & 0xffff) : 0;
	uint64_t root = check_kinds[a->kind].has_root ? (uint64_t)(uint32_t)a->root : 0;
	uint64_t dtype = a->kind == COLL_KIND_BARRIER ? 0 : (uint64_t)(a->dtype & 0xff);

	if (a->flags & OP_OF_SPLIT)
		kind = KIND_SPLIT;

	return (struct print){{kind | dtype << 8 | op << 16 | root << 32, a->count}};
}

void print_describe(const struct print *print, char *text, size_t size)
{
	int kind = (int)(print->meta[0] & 0xff);
	int dtype = (int)(print->meta[0] >> 8 & 0xff);
	int op = (int)(print->meta[0] >> 16 & 0xffff);
	int root = (int)(print->meta[0] >> 32);
	char reduction[48] = "", from[32] = "";

	if (kind == COLL_KIND_BARRIER || !check_is_kind(kind)) {
		snprintf(text, size, "%s",
			 kind == KIND_SPLIT ? "comm_split" : check_kind_name(kind));
		return;
	}
	if (check_kinds[kind].reduces)
		snprintf(reduction, sizeof(reduction), " (%s)", coll_op_name(op));
	if (check_kinds[kind].has_root)
		snprintf(from, sizeof(from), " with root %d", root);
	snprintf(text, size, "%s of %llu %s%s%s", check_kind_name(kind),
		 (unsigned long long)print->meta[1], coll_dtype_name(dtype), reduction, from);
}
