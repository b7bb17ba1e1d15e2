/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - descriptions of calls that the library itself makes. */
#include "engine.h"
#include "comm/call.h"
#include "comm/span.h"

struct call call_of_library(const struct lane *lane, const coll_args_t *args)
{
	struct call call = {.args = *args, .redop.dtype = args->dtype};

	if (kind_is_valid(args->kind)) {
		call.kind = kind_at(args->kind);
		call.elements[COLL_BUFFER_SEND] = span_elements(lane, args, 0);
		call.elements[COLL_BUFFER_RECV] = span_elements(lane, args, 1);
	} else {
		call.engine = ENGINE_AWAIT;
	}
	return call;
}
