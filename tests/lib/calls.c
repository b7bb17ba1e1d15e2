/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c - a rank's buffers for a call of the oracle, the call, and the comparison. */
#include "calls.h"

void *calls_memory(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p)
		bail_out("no memory for %zu bytes", bytes);
	return p;
}

int calls_try(void *user, const struct oracle_case *c)
{
	struct rank *r = user;
	struct oracle_call call;
	char text[ORACLE_TEXT];
	void *area[ORACLE_AREAS];
	int good = 1;

	if (oracle_call_begin(&call, c, r->rank, r->nranks))
		bail_out("no memory");
	for (int i = 0; i < ORACLE_AREAS; i++) {
		area[i] = calls_memory(call.bytes[i]);
		oracle_call_fill(&call, i, area[i]);
	}
	oracle_call_place(&call, area[ORACLE_SEND], area[ORACLE_RECV]);
	good = rank_did(r, oracle_call_issue(&call, r->comm, NULL), coll_kind_name(c->kind)) &&
	       rank_did(r, coll_sync(r->comm), coll_kind_name(c->kind));
	for (int i = 0; i < ORACLE_AREAS; i++) {
		good = good &&
		       (oracle_call_check(&call, i, area[i], text) || rank_fail(r, "%s", text));
		free(area[i]);
	}
	oracle_call_end(&call);
	return good;
}
