/* SPDX-License-Identifier: BSD-3-Clause */
/* part.c - a library that coll_indirect.so needs; the loader must not take its entry symbol. */
#include "stub.h"

COLL_BACKEND_EXPORT int part_answer(void);
COLL_BACKEND_EXPORT int part_answer(void)
{
	return 42;
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "indirect",
	.version = "1.0",
	.description = "the entry of another file",
	.memory = COLL_MEM_HOST,
	.transport = &stub_transport,
	.open = stub_open,
	.close = stub_close,
};
