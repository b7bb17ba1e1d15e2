/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lists.c - the collectives with a list of buffers, one for each rank, in the place of one buffer.
 *
 * The v-form of the same kind serves them: its buffer begins at the lowest address of the list, and its displacements
 * lead to the other blocks.  So every algorithm and every backend serves a list without a copy.
 */
#include "api/check.h"
#include "api/group.h"
#include "api/calls.h"
#include "api/overlap.h"
#include "base/error.h"
#include "device/device.h"
#include "comm/op.h"

#include <stdio.h>
#include <stdlib.h>

/* A buffer of the call. */
struct list_item {
	uintptr_t at;
	const char *name; /* of the argument */
	int index;        /* place in the list; -1: the argument is no list */
	int written;
};

struct list_call {
	struct lane *lane;
	const char *what; /* "allgather_list" */
	coll_args_t args;
	const void *const *sends; /* NULL: this rank uses no such list */
	void *const *recvs;
	size_t elem;
	size_t *counts, *senddispls, *recvdispls; /* nranks entries each, in one piece of memory */
	struct list_item *item;                   /* 2 nranks entries */
	int items;
	int grouped; /* its operations are in a group of its own, which is still open */
};

/* ----------------------------------------------------------------------- the check -- */

static void list_name(const struct list_item *item, char *text, size_t size)
{
	if (item->index < 0)
		snprintf(text, size, "%s", item->name);
	else
		snprintf(text, size, "%s[%d]", item->name, item->index);
}

static int list_add(struct list_call *l, const void *buffer, const char *name, int index,
		    int written)
{
	struct list_item item = {(uintptr_t)buffer, name, index, written};
	char text[40];

	list_name(&item, text, sizeof(text));
	if (!buffer)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s is NULL, count is %zu", l->what,
				 text, (size_t)l->args.count);
	l->item[l->items++] = item;
	return COLL_SUCCESS;
}

/* The buffer that is no list.  In place it is one of the list, which the call then writes too. */
static int list_add_single(struct list_call *l)
{
	struct list_item *own = &l->item[l->lane->comm->rank];
	const int writes = l->sends != NULL;
	const void *buffer = writes ? l->args.recvbuf : l->args.sendbuf;

	if ((uintptr_t)buffer != own->at)
		return list_add(l, buffer, writes ? "recvbuf" : "sendbuf", -1, writes);
	own->written = 1;
	return COLL_SUCCESS;
}

static int list_collect(struct list_call *l)
{
	int code = COLL_SUCCESS;

	for (int r = 0; l->sends && r < l->lane->comm->nranks && !code; r++)
		code = list_add(l, l->sends[r], "sendbufs", r, 0);
	for (int r = 0; l->recvs && r < l->lane->comm->nranks && !code; r++)
		code = list_add(l, l->recvs[r], "recvbufs", r, 1);
	return code || (l->sends && l->recvs) ? code : list_add_single(l);
}

static int list_compare(const void *a, const void *b)
{
	const struct list_item *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* All buffers have the same length, so a buffer that overlaps any other buffer overlaps its neighbour in address order. */
static int list_check_overlap(struct list_call *l)
{
	char one[40], other[40];

	qsort(l->item, (size_t)l->items, sizeof(*l->item), list_compare);
	for (int i = 0; i + 1 < l->items; i++) {
		const struct list_item *a = &l->item[i], *b = a + 1;

		if (b->at - a->at >= l->args.count * l->elem || !(a->written || b->written))
			continue;
		list_name(a, one, sizeof(one));
		list_name(b, other, sizeof(other));
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: %s and %s overlap, and the operation writes there: give each "
				 "a buffer of its own%s",
				 l->what, one, other,
				 l->sends && l->recvs
					 ? ""
					 : "; in place the single buffer is that of this rank in "
					   "the list");
	}
	return COLL_SUCCESS;
}

/* The library stages a list as a whole, and a backend takes it as a whole. */
static int list_check_memory(const struct list_call *l, const void *const *list, const char *name)
{
	uint32_t first = 0, kind;
	int first_device = -1, device = -1;
	char one[64], other[64];

	for (int r = 0; list && l->lane->context->devices && r < l->lane->comm->nranks; r++) {
		kind = device_kind(list[r], &device);
		if (!kind)
			return COLL_ERR_DEVICE;
		if (!r) {
			first = kind;
			first_device = device;
		}
		if (kind == first && (kind != COLL_MEM_CUDA || device == first_device))
			continue;
		device_describe(first, first_device, one, sizeof(one));
		device_describe(kind, device, other, sizeof(other));
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: %s[0] is %s, but %s[%d] is %s: pass a list whose buffers lie "
				 "in the same memory",
				 l->what, name, one, name, r, other);
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ as a v-form -- */

/* Finds the lowest buffer of a list, and the displacements from there. */
static int list_measure(const struct list_call *l, const void *const *list, const char *name,
			size_t *displs, const void **lowest)
{
	int low = 0;

	for (int r = 1; r < l->lane->comm->nranks; r++)
		low = (uintptr_t)list[r] < (uintptr_t)list[low] ? r : low;
	for (int r = 0; r < l->lane->comm->nranks; r++) {
		const size_t bytes = (uintptr_t)list[r] - (uintptr_t)list[low];

		displs[r] = bytes / l->elem;
		if (bytes % l->elem)
			return error_set(
				COLL_ERR_INVALID_ARGUMENT,
				"%s: %s[%d] and %s[%d] are %zu bytes apart, no multiple of the %zu "
				"bytes of %s: align the buffers of a list alike",
				l->what, name, low, name, r, bytes, l->elem,
				coll_dtype_name(l->args.dtype));
	}
	*lowest = list[low];
	return COLL_SUCCESS;
}

static int list_check(struct list_call *l)
{
	const size_t most = PTRDIFF_MAX / l->elem / (size_t)l->lane->comm->nranks;
	const void *const *recvs = (const void *const *)l->recvs;
	int code = COLL_SUCCESS;

	if (l->args.count > most)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: count %llu of %s does not fit into memory", l->what,
				 (unsigned long long)l->args.count, coll_dtype_name(l->args.dtype));
	code = list_collect(l);
	if (!code)
		code = list_check_overlap(l);
	if (!code)
		code = list_check_memory(l, l->sends, "sendbufs");
	if (!code)
		code = list_check_memory(l, recvs, "recvbufs");
	if (!code && l->sends)
		code = list_measure(l, l->sends, "sendbufs", l->senddispls, &l->args.sendbuf);
	if (!code && l->recvs) {
		const void *lowest = NULL;

		code = list_measure(l, recvs, "recvbufs", l->recvdispls, &lowest);
		l->args.recvbuf = (void *)(uintptr_t)lowest;
	}
	return code;
}

static int list_alloc(struct list_call *l)
{
	const size_t n = (size_t)l->lane->comm->nranks;

	l->item = malloc(2 * n * sizeof(*l->item) + 3 * n * sizeof(*l->counts));
	if (!l->item)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", l->what);
	l->counts = (size_t *)(l->item + 2 * n);
	l->senddispls = l->counts + n;
	l->recvdispls = l->senddispls + n;
	for (size_t r = 0; r < n; r++) {
		l->counts[r] = l->args.count;
		l->senddispls[r] = l->recvdispls[r] = 0;
	}
	l->args.sendcounts = l->args.recvcounts = l->counts;
	l->args.senddispls = l->senddispls;
	l->args.recvdispls = l->recvdispls;
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- issuing -- */

/* Makes a reduce to each rank; an error leaves none. */
static int list_make_reduces(const struct list_call *l, const void *site, struct op **first)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_REDUCE};
	struct op **last = first, *op;
	struct call call;
	int code = COLL_SUCCESS;

	args.dtype = l->args.dtype;
	args.op = l->args.op;
	args.count = l->args.count;
	args.stream = l->args.stream;
	for (*first = NULL; args.root < l->lane->comm->nranks; args.root++) {
		args.sendbuf = args.count ? l->sends[args.root] : NULL;
		args.recvbuf = args.root == l->lane->comm->rank ? l->args.recvbuf : NULL;
		code = check_call(l->lane, &args, &call);
		if (!code)
			code = op_make(l->lane, &call, last);
		if (code)
			break;
		(*last)->site = site;
		(*last)->next = NULL;
		last = &(*last)->next;
	}
	while (code && (op = *first)) {
		*first = op->next;
		op_retire(op);
	}
	return code;
}

/* Issues the reduces as a group.  For the option check_buffers all reduces are one operation, the call. */
static int list_issue_reduces(struct list_call *l, const struct call *call, struct op *first)
{
	int code;

	l->grouped = !coll_group_start();
	code = group_join(l->lane);
	if (!code)
		code = overlap_check(l->lane, call);
	for (struct op *op = first, *next; op; op = next) {
		next = op->next;
		if (code)
			op_retire(op);
		else
			op_enqueue(op, group_current());
	}
	return code;
}

/*
 * A backend without a transport takes reduce_scatterv only of parts that follow one another, so a list becomes one
 * reduce for each part.  All reduces are made before the first is issued, since the call fails as a whole.
 */
static int list_issue_native(struct list_call *l, const void *site)
{
	struct op *reduces = NULL;
	struct call call;
	int code = comm_error(l->lane), to_host;

	if (code)
		return code;
	l->args.sendcounts = l->args.recvdispls = NULL; /* reduce_scatterv has none */
	code = check_call(l->lane, &l->args, &call);
	to_host = host_memory_takes(l->lane, &call, code);
	if (!code && !to_host) {
		code = list_make_reduces(l, site, &reduces);
		to_host = code ? host_memory_takes(l->lane, &call, code) : HOST_MEMORY_NO;
	}
	if (to_host)
		return call_issue_on_host(l->lane, &l->args, to_host, site, NULL);
	return code ? host_memory_hint(l->lane, &call, code, !group_current())
		    : list_issue_reduces(l, &call, reduces);
}

/* Which lists does this rank use? */
static int list_choose(struct list_call *l, const void *const *sends, void *const *recvs)
{
	const struct kind *k = kind_list_at(l->args.kind);
	const int root = l->lane->comm->rank == l->args.root;

	l->what = k->name;
	l->sends = k->send == KIND_EACH && (root || !k->send_root) ? sends : NULL;
	l->recvs = k->recv == KIND_EACH && (root || !k->recv_root) ? recvs : NULL;
	if (k->send == KIND_EACH && (root || !k->send_root) && !sends)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: sendbufs is NULL", k->name);
	if (k->recv == KIND_EACH && (root || !k->recv_root) && !recvs)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: recvbufs is NULL", k->name);
	return COLL_SUCCESS;
}

static int list_issue(struct list_call *l, const void *site)
{
	int code = list_alloc(l);

	/* The common check refuses a wrong type. */
	if (!code && l->elem && l->args.count && (l->sends || l->recvs))
		code = list_check(l);
	if (code)
		return code;
	if (l->args.kind == COLL_KIND_REDUCE_SCATTERV && l->lane->native)
		return list_issue_native(l, site);
	return call_issue(l->lane, &l->args, site, NULL);
}

static coll_result_t list_call(coll_comm_t handle, const char *name, const coll_args_t *args,
			       const void *const *sends, void *const *recvs, const void *site)
{
	struct list_call l = {.lane = comm_enter(handle, name), .args = *args};
	int code, end;

	if (!l.lane)
		return error_code();
	l.args.size = sizeof(l.args);
	l.args.flags = CALL_OF_LIST;
	l.elem = coll_dtype_size(args->dtype);
	code = list_choose(&l, sends, recvs);
	if (!code)
		code = list_issue(&l, site);
	free(l.item);
	comm_leave(l.lane);
	if (!l.grouped)
		return code;
	end = coll_group_end();
	return code ? code : end;
}

/* -------------------------------------------------------------- the public functions -- */

coll_result_t coll_allgather_list(const void *sendbuf, void *const *recvbufs, size_t count,
				  coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.kind = COLL_KIND_ALLGATHERV, .dtype = dtype};

	args.sendbuf = sendbuf;
	args.count = count;
	args.stream = stream;
	return list_call(comm, "coll_allgather_list", &args, NULL, recvbufs,
			 __builtin_return_address(0));
}

coll_result_t coll_reduce_scatter_list(const void *const *sendbufs, void *recvbuf, size_t count,
				       coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				       coll_stream_t stream)
{
	coll_args_t args = {.kind = COLL_KIND_REDUCE_SCATTERV, .dtype = dtype, .op = op};

	args.recvbuf = recvbuf;
	args.count = count;
	args.stream = stream;
	return list_call(comm, "coll_reduce_scatter_list", &args, sendbufs, NULL,
			 __builtin_return_address(0));
}

coll_result_t coll_alltoall_list(const void *const *sendbufs, void *const *recvbufs, size_t count,
				 coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.kind = COLL_KIND_ALLTOALLV, .dtype = dtype};

	args.count = count;
	args.stream = stream;
	return list_call(comm, "coll_alltoall_list", &args, sendbufs, recvbufs,
			 __builtin_return_address(0));
}

coll_result_t coll_gather_list(const void *sendbuf, void *const *recvbufs, size_t count,
			       coll_dtype_t dtype, int32_t root, coll_comm_t comm,
			       coll_stream_t stream)
{
	coll_args_t args = {.kind = COLL_KIND_GATHERV, .dtype = dtype, .root = root};

	args.sendbuf = sendbuf;
	args.count = count;
	args.stream = stream;
	return list_call(comm, "coll_gather_list", &args, NULL, recvbufs,
			 __builtin_return_address(0));
}

coll_result_t coll_scatter_list(const void *const *sendbufs, void *recvbuf, size_t count,
				coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				coll_stream_t stream)
{
	coll_args_t args = {.kind = COLL_KIND_SCATTERV, .dtype = dtype, .root = root};

	args.recvbuf = recvbuf;
	args.count = count;
	args.stream = stream;
	return list_call(comm, "coll_scatter_list", &args, sendbufs, NULL,
			 __builtin_return_address(0));
}
