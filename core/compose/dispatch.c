/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c - chooses between the backend's own function and an algorithm over its transport. */
#include "compose/dispatch.h"
#include "base/error.h"
#include "comm/comm.h"
#include "compose/composed.h"
#include "native/native_slot.h"

int dispatch_check(const struct comm *comm, int kind)
{
	const coll_backend_t *b = &comm->context->plugin->backend;

	if (b->transport || native_slot_of_kind(comm, kind))
		return COLL_SUCCESS;
	if (native_has_kind(comm, kind))
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: with 'reproducible = yes' the library reduces by itself, but backend "
			"'%s' has no transport for that; choose another with COLL_BACKEND",
			kind_name(kind), b->name);
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: backend '%s' has neither this operation nor a transport; choose "
			 "another backend with COLL_BACKEND",
			 kind_name(kind), b->name);
}

/* The algorithm is chosen even if the backend has a function: the function may decline the call, and signatures have it. */
int dispatch_choose(const struct comm *comm, struct call *call)
{
	const int native = comm_native(comm) != NULL;
	int code = native ? native_takes_call(comm, call) : COLL_SUCCESS;

	if (code)
		return code;
	call->slot = native ? native_slot(comm, call) : NULL;
	call->engine = call->slot ? ENGINE_NATIVE : ENGINE_COMPOSED;
	return composed_choose(comm, call);
}
