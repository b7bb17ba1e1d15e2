/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_unable.c - cannot be used on this machine; its error text says why. */
#include "stub.h"

#include <stdlib.h>
#include <string.h>

static int32_t unable_probe(const coll_host_t *host, coll_error_t *err)
{
	(void)host;
	setenv("STUB_UNABLE_PROBED", "1", 1);
	strcpy(err->text, "libfabulous.so.3: cannot open shared object file");
	return COLL_ERR_DEVICE;
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "unable",
	.version = "1.0",
	.description = "needs what is not here",
	.priority = 90,
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.probe = unable_probe,
	.open = stub_open,
	.close = stub_close,
};
