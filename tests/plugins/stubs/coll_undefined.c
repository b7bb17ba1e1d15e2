/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_undefined.c - calls a function that exists nowhere. */
#include "stub.h"

extern int32_t does_not_exist_anywhere(void);

static int32_t undefined_probe(const coll_host_t *host, coll_error_t *err)
{
	(void)host;
	(void)err;
	return does_not_exist_anywhere();
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "undefined",
	.version = "1.0",
	.description = "its probe would crash",
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.probe = undefined_probe,
	.open = stub_open,
	.close = stub_close,
};
