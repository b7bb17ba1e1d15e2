/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_demanding.c - needs a host function of a later minor version, and its error text says so. */
#include "stub.h"

#include <stdio.h>

enum { DEMANDING_MINOR = COLL_BACKEND_ABI_MINOR + 9 };

static int32_t demanding_probe(const coll_host_t *host, coll_error_t *err)
{
	if (host->abi_minor >= DEMANDING_MINOR)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text),
		 "needs a libcoll with backend ABI %d.%d, but this one has %d.%u; install a newer "
		 "libcoll",
		 COLL_BACKEND_ABI_MAJOR, DEMANDING_MINOR, COLL_BACKEND_ABI_MAJOR,
		 (unsigned)host->abi_minor);
	return err->code = COLL_ERR_ABI;
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = DEMANDING_MINOR,
	.name = "demanding",
	.version = "1.0",
	.description = "needs a later libcoll",
	.priority = 90,
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.probe = demanding_probe,
	.open = stub_open,
	.close = stub_close,
};
