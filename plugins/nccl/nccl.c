/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl.c - the nccl backend: whole collectives on the memory and the streams of CUDA devices. */
#include "nccl.h"
#include "base/tables.h"

#include <stdio.h>

static int32_t nccl_probe(const coll_host_t *host, coll_error_t *err)
{
	return nccl_library_open(host, err);
}

static int32_t nccl_info(const coll_host_t *host, char *buf, uint64_t size)
{
	coll_error_t err = {.size = sizeof(err)};
	char version[32], name[128] = "?";
	int driver = 0, count = 0, device;
	int32_t code = nccl_library_open(host, &err);

	if (code) {
		snprintf(buf, size, "%s", err.text);
		return code;
	}
	nccl_version_text(nccl_lib.version, version, sizeof(version));
	cuda_driver.cuDriverGetVersion(&driver);
	cuda_driver.cuDeviceGetCount(&count);
	if (!cuda_driver.cuDeviceGet(&device, 0))
		cuda_driver.cuDeviceGetName(name, sizeof(name), device);
	snprintf(buf, size, "NCCL %s (%s), driver for CUDA %d.%d, %d device%s (%s)", version,
		 nccl_lib.path, driver / 1000, driver % 1000 / 10, count, count == 1 ? "" : "s",
		 name);
	return COLL_SUCCESS;
}

/* -------------------------------------------------------------------- operations -- */

/* As many as NCCL lacks, and more. */
#define NCCL_PLUS_ONE(...) +1
enum { NCCL_CLASHES = 0 OPS(NCCL_PLUS_ONE) };

static int32_t nccl_op_create(void *ep, int32_t *op, const void *scalar, int32_t dtype,
			      int32_t residence, coll_error_t *err)
{
	struct nccl *n = ep;
	int clash[NCCL_CLASHES], clashes = 0, pushed, result;
	int32_t code = nccl_check_reduction(n, dtype, COLL_PROD, err);

	if (!code && n->nranks == 1 && nccl_is_float8(dtype))
		code = error_fill(err, COLL_ERR_UNSUPPORTED,
				  "NCCL does not multiply float8 on one rank: use another type, or "
				  "another backend with COLL_BACKEND");
	if (!code)
		code = nccl_begin(n, &pushed, err);
	if (code)
		return code;
	/* NCCL may return a number that an operation of coll.h has: keeps such numbers until NCCL returns another number. */
	do {
		if (clashes)
			clash[clashes - 1] = *op;
		result = nccl_lib.ncclRedOpCreatePreMulSum(op, (void *)(uintptr_t)scalar, dtype,
							   residence, n->comm);
		code = nccl_record_result(n, result, "ncclRedOpCreatePreMulSum", err);
	} while (!code && nccl_lacks_op(*op) && ++clashes);
	while (clashes)
		nccl_lib.ncclRedOpDestroy(clash[--clashes], n->comm);
	nccl_end(n, pushed);
	return code;
}

static int32_t nccl_op_destroy(void *ep, int32_t op, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed, result;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	result = nccl_lib.ncclRedOpDestroy(op, n->comm);
	code = nccl_record_result(n, result, "ncclRedOpDestroy", err);
	nccl_end(n, pushed);
	return code;
}

/* ------------------------------------------------------------------------ memory -- */

static int32_t nccl_mem_register(void *ep, void *ptr, uint64_t bytes, uint32_t memory,
				 void **handle, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed, result;
	int32_t code;

	*handle = NULL;
	if (!nccl_lib.ncclCommRegister || memory != COLL_MEM_CUDA)
		return COLL_SUCCESS; /* registration only saves time, so it may do nothing */
	code = nccl_begin(n, &pushed, err);
	if (code)
		return code;
	result = nccl_lib.ncclCommRegister(n->comm, ptr, bytes, handle);
	code = nccl_record_result(n, result, "ncclCommRegister", err);
	nccl_end(n, pushed);
	return code;
}

static void nccl_mem_deregister(void *ep, void *handle)
{
	struct nccl *n = ep;
	int pushed;

	if (!handle || nccl_begin(n, &pushed, NULL))
		return;
	nccl_record_result(n, nccl_lib.ncclCommDeregister(n->comm, handle), "ncclCommDeregister",
			   NULL);
	nccl_end(n, pushed);
}

static int32_t nccl_mem_alloc(void *ep, uint64_t bytes, void **ptr, coll_error_t *err)
{
	const struct nccl *n = ep;
	int pushed, result;
	int32_t code;

	if (!nccl_lib.ncclMemAlloc || !nccl_lib.ncclMemFree)
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "NCCL allocates memory since 2.19: install a newer NCCL, or use "
				  "memory of the CUDA driver");
	code = nccl_enter(n->context, &pushed, err);
	if (code)
		return code;
	result = nccl_lib.ncclMemAlloc(ptr, bytes);
	nccl_leave(pushed);
	return result ? nccl_refused(err, result, "ncclMemAlloc", n->comm) : COLL_SUCCESS;
}

static void nccl_mem_free(void *ptr)
{
	nccl_lib.ncclMemFree(ptr);
}

static int32_t nccl_device(void *ep)
{
	const struct nccl *n = ep;

	return n->device;
}

static void *nccl_handle(void *ep)
{
	struct nccl *n = ep;

	return n->comm;
}

/* ------------------------------------------------------------------------ backend -- */

static const coll_option_t nccl_options[] = {
	{.key = "blocking",
	 .fallback = "no",
	 .unit = "",
	 .help = "yes: no threads, but calls wait for peers as long as NCCL does",
	 .type = COLL_OPTION_BOOL},
	{.key = "library",
	 .fallback = "libnccl.so.2",
	 .unit = "",
	 .help = "NCCL's library: a path, or a name for the loader to find",
	 .type = COLL_OPTION_STRING},
};

static const coll_native_t nccl_native = {
	.size = sizeof(coll_native_t),
	.allreduce = nccl_call,
	.broadcast = nccl_call,
	.reduce = nccl_call,
	.allgather = nccl_call,
	.reduce_scatter = nccl_call,
	.alltoall = nccl_call,
	.gather = nccl_call,
	.scatter = nccl_call,
	.allgatherv = nccl_call,
	.reduce_scatterv = nccl_call,
	.alltoallv = nccl_call,
	.gatherv = nccl_call,
	.scatterv = nccl_call,
	.barrier = nccl_call,
	.send = nccl_call,
	.recv = nccl_call,
	.group_begin = nccl_group_begin,
	.group_end = nccl_group_end,
	.query = nccl_query,
	.sync = nccl_sync,
	.async_error = nccl_async_error,
	.abort = nccl_abort,
	.split = nccl_split,
	.shrink = nccl_shrink,
	.event_create = nccl_event_create,
	.event_destroy = nccl_event_destroy,
	.event_record = nccl_event_record,
	.event_wait = nccl_event_wait,
	.event_query = nccl_event_query,
	.event_synchronize = nccl_event_synchronize,
	.op_create_pre_mul_sum = nccl_op_create,
	.op_destroy = nccl_op_destroy,
	.mem_register = nccl_mem_register,
	.mem_deregister = nccl_mem_deregister,
	.handle = nccl_handle,
	.device = nccl_device,
	.takes = nccl_takes,
	.take_place = nccl_take_place,
	.mem_alloc = nccl_mem_alloc,
	.mem_free = nccl_mem_free,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "nccl",
	.version = "1.0",
	.description = "NCCL's own collectives on the memory and streams of CUDA devices",
	.priority = 100,
	.memory = COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED,
	.options = nccl_options,
	.option_count = sizeof(nccl_options) / sizeof(nccl_options[0]),
	.option_size = sizeof(coll_option_t),
	.native = &nccl_native,
	.probe = nccl_probe,
	.open = nccl_open,
	.close = nccl_close,
	.open_all = nccl_open_all,
	.info = nccl_info,
};
