/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_badoption.c - declares an option whose default is not of its type. */
#include "stub.h"

static const coll_option_t badoption_options[] = {
	{.key = "lanes", .fallback = "many", .min = 1, .max = 8, .type = COLL_OPTION_INT},
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "badoption",
	.version = "1.0",
	.description = "a wrong default",
	.priority = 60,
	.memory = COLL_MEM_HOST,
	.options = badoption_options,
	.option_count = 1,
	.option_size = sizeof(coll_option_t),
	.transport = &stub_transport,
	.open = stub_open,
	.close = stub_close,
};
