/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c - chooses between the backend's own function and an algorithm over its transport. */
#include "compose/dispatch.h"
#include "base/error.h"
#include "comm/comm.h"
#include "compose/composed.h"
#include "native/native_slot.h"

int dispatch_check(const struct lane *lane, int kind)
{
	const coll_backend_t *b = &lane->context->plugin->backend;

	if (b->transport || native_slot_of_kind(lane, kind))
		return COLL_SUCCESS;
	if (native_has_kind(lane, kind))
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
int dispatch_choose(const struct lane *lane, struct call *call)
{
	const int native = lane->engine[ENGINE_NATIVE] != NULL;
	int code = native ? native_takes_call(lane, call) : COLL_SUCCESS;

	if (code)
		return code;
	call->slot = native ? native_slot(lane, call) : NULL;
	call->engine = call->slot ? ENGINE_NATIVE : ENGINE_COMPOSED;
	return composed_choose(lane, call);
}
