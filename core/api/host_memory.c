/* SPDX-License-Identifier: BSD-3-Clause */
/* host_memory.c - which calls of a communicator with a host lane go there. */
#include "api/host_memory.h"
#include "base/error.h"
#include "base/kind.h"
#include "comm/lane.h"

/*
 * The kind of memory at a pointer that the call may use.  An empty part may be at the end of a device's memory,
 * which the driver does not know as such.
 */
static uint32_t host_memory_kind(const struct lane *lane, const void *ptr, size_t elements)
{
	int device;
	uint32_t kind = context_memory_kind(lane->context, ptr, &device);

	if (kind == COLL_MEM_HOST && !elements)
		kind = context_memory_kind(lane->context, (const char *)ptr - 1, &device);
	return kind;
}

/*
 * The kinds of memory of the buffers that this rank uses.  If it uses none, the pointers that it has passed tell, since
 * other ranks may have elements.  Returns 0 if nothing tells.
 */
static uint32_t host_memory_kinds(const struct lane *lane, const struct call *call)
{
	const coll_args_t *a = &call->args;
	const struct kind *k = call->kind;
	const int root = lane->comm->rank == a->root;
	/* Not of a list, which has one count for all ranks. */
	const int counts_differ = kind_at(a->kind)->is_v && k == kind_at(a->kind);
	const size_t sends = call->elements[COLL_BUFFER_SEND],
		     recvs = call->elements[COLL_BUFFER_RECV];
	uint32_t kinds = 0;

	if (!a->count && !counts_differ && !kind_at(a->kind)->is_p2p)
		return 0;
	if (k->send != KIND_NONE && (root || !k->send_root) && a->sendbuf && (sends || !recvs))
		kinds |= host_memory_kind(lane, a->sendbuf, sends);
	if (k->recv != KIND_NONE && (root || !k->recv_root) && a->recvbuf && (recvs || !sends) &&
	    (a->recvbuf != a->sendbuf || !kinds))
		kinds |= host_memory_kind(lane, a->recvbuf, recvs);
	return kinds;
}

/* Is it a receive from any source?  Its sender, on a device, would not know that host has it. */
static int host_memory_is_any_source(const struct call *call)
{
	return call->args.kind == COLL_KIND_RECV && call->args.root == COLL_ANY_SOURCE;
}

int host_memory_takes(struct lane *lane, const struct call *call, int code)
{
	uint32_t kinds;

	if (!lane_host(lane) || (code && code != COLL_ERR_UNSUPPORTED))
		return HOST_MEMORY_NO;
	/* Most calls on device memory: the addresses are known. */
	if (!code && call->elements[COLL_BUFFER_SEND] && call->elements[COLL_BUFFER_RECV] &&
	    lane->engine[ENGINE_NATIVE]->takes(lane, call))
		return HOST_MEMORY_NO;
	kinds = host_memory_kinds(lane, call);
	if (!kinds)
		return code ? HOST_MEMORY_TAKES : HOST_MEMORY_NO;
	if (kinds == COLL_MEM_HOST)
		return code || !(kinds & lane->context->memory) ? HOST_MEMORY_TAKES
								: HOST_MEMORY_NO;
	return code && lane->context->fallback && !host_memory_is_any_source(call)
		       ? HOST_MEMORY_STAGES
		       : HOST_MEMORY_NO;
}

int host_memory_hint(const struct lane *lane, const struct call *call, int code, int may_stage)
{
	if (code != COLL_ERR_UNSUPPORTED || !lane_host(lane))
		return code;
	if (host_memory_is_any_source(call))
		return error_set(code, "%s; or pass host memory, here and to the send",
				 error_text());
	return error_set(code, "%s; or pass host memory, on all ranks%s", error_text(),
			 lane->context->fallback || !may_stage
				 ? ""
				 : ", or set COLL_ENABLE_GPU_FALLBACK=1 (option "
				   "enable_gpu_fallback) to have device memory copied through host "
				   "memory, which is slow");
}

int host_memory_refuse(const coll_args_t *args, const char *where)
{
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s: device memory that is copied through host memory (option "
		"enable_gpu_fallback) has no order among the calls of the backend %s, or pass "
		"host memory, on all ranks",
		kind_name(args->kind), where);
}
