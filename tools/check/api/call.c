/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - one collective call on one rank: makes its buffers, calls, and verifies every byte. */
#include <string.h>
#include "check/api/api.h"

/* The buffers of a call lie in the kit's memory unless the rank wants them in the library's.  Returns 0 after a failure. */
static int call_place(struct api_call *call, int i)
{
	struct api_rank *r = call->r;
	const size_t bytes = call->o.bytes[i] ? call->o.bytes[i] : 1;
	coll_result_t code;

	call->place[i] = call->area[i];
	if (!r->library)
		return 1;
	code = coll_mem_alloc(r->comm, bytes, &call->place[i]);
	if (code != COLL_ERR_UNSUPPORTED)
		return api_did(r, code, "coll_mem_alloc");
	check_skip(r->c, "%.400s", coll_get_last_error(NULL));
	return 0;
}

static int call_copy(struct api_call *call, void *const *to, void *const *from)
{
	struct api_rank *r = call->r;

	for (int i = 0; i < ORACLE_AREAS && r->library; i++)
		if (r->memory == MEMORY_HOST)
			memcpy(to[i], from[i], call->o.bytes[i]);
		else if (memory_copy(r->device, to[i], from[i], call->o.bytes[i]))
			return api_fail(r, "the kit cannot copy: %s", memory_error());
	return 1;
}

int api_call_make(struct api_call *call, struct api_rank *r, const struct oracle_case *c)
{
	struct oracle_case like = *c;

	*call = (struct api_call){.r = r};
	/* A vendor's engine may divide before it adds. */
	like.near = api_may_lack(r);
	if (oracle_call_begin(&call->o, &like, r->rank, r->nranks))
		return api_fail(r, "the kit has no memory");
	for (int i = 0; i < ORACLE_AREAS; i++) {
		call->area[i] = api_memory(r, call->o.bytes[i]);
		if (!call->area[i] || !call_place(call, i))
			return 0;
	}
	oracle_call_place(&call->o, call->place[ORACLE_SEND], call->place[ORACLE_RECV]);
	return 1;
}

void api_call_fill(struct api_call *call)
{
	for (int i = 0; i < ORACLE_AREAS; i++)
		oracle_call_fill(&call->o, i, call->area[i]);
	call_copy(call, call->place, call->area);
}

int api_call_verify(struct api_call *call)
{
	char text[ORACLE_TEXT];

	if (!call_copy(call, call->area, call->place))
		return 0;
	for (int i = 0; i < ORACLE_AREAS; i++)
		if (!oracle_call_check(&call->o, i, call->area[i], text))
			return api_fail(call->r, "%s", text);
	atomic_fetch_add(&call->r->c->shared->calls, call->r->rank == 0);
	return 1;
}

void api_call_free(struct api_call *call)
{
	for (int i = 0; i < ORACLE_AREAS; i++) {
		if (call->r->library)
			api_did(call->r, coll_mem_free(call->place[i]), "coll_mem_free");
		memory_free(call->r->memory, call->r->device, call->area[i]);
	}
	oracle_call_end(&call->o);
	*call = (struct api_call){0};
}

static int call_do(struct api_rank *r, struct api_call *call)
{
	coll_result_t code;

	api_call_fill(call);
	code = oracle_call_issue(&call->o, r->comm, NULL);
	code = code ? code : coll_sync(r->comm);
	if (r->tolerant && code == COLL_ERR_UNSUPPORTED)
		return api_pass_over(r, code);
	return api_did(r, code, coll_kind_name(call->o.c.kind)) && api_call_verify(call);
}

int api_call_run(struct api_rank *r, const struct oracle_case *c)
{
	struct api_call call;
	int good;

	check_slot(r->c, r->slot, coll_kind_name(c->kind));
	good = api_call_make(&call, r, c) && call_do(r, &call);
	api_call_free(&call);
	check_slot(r->c, r->slot, NULL);
	return good;
}
