/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_short.c - its struct is shorter than that of the first release. */
#include "stub.h"

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = 40,
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "short",
	.version = "1.0",
	.description = "lacks most of its struct",
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.open = stub_open,
	.close = stub_close,
};
