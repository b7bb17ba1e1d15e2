/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_noopen.c - leaves a mandatory function NULL. */
#include "stub.h"

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "noopen",
	.version = "1.0",
	.description = "has no open",
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.close = stub_close,
};
