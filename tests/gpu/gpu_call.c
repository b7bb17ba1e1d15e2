/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_call.c - one collective on device memory, whose result the oracle checks. */
#include "gpu.h"

static void call_wait(const struct gpu *g, const struct gpu_call *call)
{
	if (call->stream)
		gpu_must(cuda_driver.cuStreamSynchronize(call->stream), "cuStreamSynchronize");
	else
		gpu_did(coll_sync(g->comm), "coll_sync");
}

/* The areas begin where the rank's device memory begins. */
static char *call_area(const struct gpu *g, int area)
{
	return area == ORACLE_SEND ? g->send : g->recv;
}

static coll_result_t call_do(const struct gpu *g, const struct gpu_call *call,
			     struct oracle_call *o)
{
	char text[ORACLE_TEXT];
	coll_result_t code;

	for (int i = 0; i < ORACLE_AREAS; i++) {
		oracle_call_fill(o, i, g->host);
		gpu_copy(call_area(g, i), g->host, o->bytes[i]);
	}
	oracle_call_place(o, g->send, g->recv);
	if (call->c.op == ORACLE_SCALED)
		o->args.op = call->made;
	code = oracle_issue(&o->args, g->comm, call->stream);
	if (code)
		return code;
	call_wait(g, call);
	for (int i = 0; i < ORACLE_AREAS; i++) {
		gpu_copy(g->host, call_area(g, i), o->bytes[i]);
		if (!oracle_call_check(o, i, g->host, text))
			gpu_fail("%s", text);
	}
	return COLL_SUCCESS;
}

coll_result_t gpu_try(const struct gpu *g, const struct gpu_call *call)
{
	struct oracle_call o;
	coll_result_t code = COLL_SUCCESS;

	if (oracle_call_begin(&o, &call->c, g->rank, g->nranks))
		gpu_fail("no memory");
	else if (o.bytes[ORACLE_SEND] > GPU_ARENA || o.bytes[ORACLE_RECV] > GPU_ARENA)
		gpu_fail("%s of %zu elements: GPU_ARENA is too small", coll_kind_name(call->c.kind),
			 call->c.count);
	else
		code = call_do(g, call, &o);
	oracle_call_end(&o);
	return code;
}

void gpu_call(const struct gpu *g, const struct gpu_call *call)
{
	coll_result_t code = gpu_try(g, call);

	if (code)
		gpu_fail("%s of %zu %s: %d, %s", coll_kind_name(call->c.kind), call->c.count,
			 coll_dtype_name(call->c.dtype), code, coll_get_last_error(NULL));
}
