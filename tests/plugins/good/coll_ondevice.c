/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_ondevice.c - a backend with native collectives, for one rank, that takes CUDA memory only.
 * Built a second time (coll_either) it also has a transport and takes host memory; built a third
 * time (coll_gpu) it can be chosen by priority, and its probe initialises CUDA.
 */
#include <coll/backend.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(ONDEVICE_GPU)
#define ONDEVICE_NAME      "gpu"
#define ONDEVICE_PRIORITY  100
#define ONDEVICE_FLAGS     0
#define ONDEVICE_MEMORY    COLL_MEM_CUDA
#define ONDEVICE_TRANSPORT NULL
#define ONDEVICE_PROBE     ondevice_probe
#elif defined(ONDEVICE_EITHER)
#define ONDEVICE_NAME      "either"
#define ONDEVICE_PRIORITY  1
#define ONDEVICE_FLAGS     COLL_BACKEND_BY_NAME
#define ONDEVICE_PROBE     NULL
#define ONDEVICE_MEMORY    (COLL_MEM_HOST | COLL_MEM_CUDA)
#define ONDEVICE_TRANSPORT &ondevice_transport
#else
#define ONDEVICE_NAME      "ondevice"
#define ONDEVICE_PRIORITY  1
#define ONDEVICE_FLAGS     COLL_BACKEND_BY_NAME
#define ONDEVICE_PROBE     NULL
#define ONDEVICE_MEMORY    COLL_MEM_CUDA
#define ONDEVICE_TRANSPORT NULL
#endif

/* The device that the endpoint uses if the host says "the current one". */
enum { ONDEVICE_CURRENT = 1 };

/* Registration of this many bytes fails. */
enum { ONDEVICE_ODD = 13 };

struct ondevice {
	const coll_host_t *host;
	unsigned registered; /* number of registered pieces of memory */
};

/* Supports float32 only, and needs the memory of the call itself. */
static int32_t ondevice_allreduce(void *ep, const coll_args_t *args, coll_error_t *err)
{
	const coll_host_t *host = ((struct ondevice *)ep)->host;
	int32_t device;

	if (args->dtype != COLL_FLOAT32) {
		snprintf(err->text, sizeof(err->text), "float32 only");
		return err->code = COLL_ERR_UNSUPPORTED;
	}
	if (host->memory_kind(host, args->sendbuf, &device) != COLL_MEM_CUDA) {
		snprintf(err->text, sizeof(err->text), "sendbuf is not on the device");
		return err->code = COLL_ERR_INTERNAL;
	}
	return host->copy(host, args->recvbuf, args->sendbuf, args->count * 4, err);
}

static int32_t ondevice_barrier(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)args;
	(void)err;
	return COLL_SUCCESS;
}

static int32_t ondevice_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

/* A handle encodes the kind of memory, in hundreds, and the number of registered pieces. */
static int32_t ondevice_register(void *ep, void *ptr, uint64_t bytes, uint32_t memory,
				 void **handle, coll_error_t *err)
{
	struct ondevice *on = ep;

	(void)ptr;
	if (bytes == ONDEVICE_ODD) {
		snprintf(err->text, sizeof(err->text),
			 "%u bytes of memory of kind %u cannot be registered beside %u pieces",
			 (unsigned)bytes, (unsigned)memory, on->registered);
		return err->code = COLL_ERR_DEVICE;
	}
	on->registered++;
	*handle = (void *)(uintptr_t)(100 * memory + on->registered);
	return COLL_SUCCESS;
}

static void ondevice_deregister(void *ep, void *handle)
{
	if ((uintptr_t)handle / 100 == COLL_MEM_CUDA)
		((struct ondevice *)ep)->registered--;
}

static int32_t ondevice_device(void *ep)
{
	const coll_host_t *host = ((struct ondevice *)ep)->host;

	return host->device < 0 ? ONDEVICE_CURRENT : host->device;
}

#ifdef ONDEVICE_GPU
static int32_t ondevice_probe(const coll_host_t *host, coll_error_t *err)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
	int (*init)(unsigned flags) = NULL;

	(void)host;
	symbol = driver ? dlsym(driver, "cuInit") : NULL;
	memcpy(&init, &symbol, sizeof(init));
	if (init && !init(0))
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "no CUDA");
	return err->code = COLL_ERR_PLUGIN;
}
#endif

static int32_t ondevice_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct ondevice *ep = malloc(sizeof(*ep));

	*out = ep;
	if (!ep)
		return err->code = COLL_ERR_NO_MEMORY;
	*ep = (struct ondevice){.host = host};
	return COLL_SUCCESS;
}

static void ondevice_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

#ifdef ONDEVICE_EITHER
/* With one rank there is no peer to send to. */
static int32_t ondevice_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	(void)ep;
	(void)err;
	send->status = COLL_ERR_UNSUPPORTED;
	return COLL_SUCCESS;
}

static int32_t ondevice_progress(void *ep)
{
	(void)ep;
	return 0;
}

static const coll_transport_t ondevice_transport = {
	.size = sizeof(coll_transport_t),
	.send = ondevice_send,
	.progress = ondevice_progress,
};
#endif

static const coll_native_t ondevice_native = {
	.size = sizeof(coll_native_t),
	.allreduce = ondevice_allreduce,
	.barrier = ondevice_barrier,
	.query = ondevice_query,
	.mem_register = ondevice_register,
	.mem_deregister = ondevice_deregister,
	.device = ondevice_device,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = ONDEVICE_FLAGS,
	.name = ONDEVICE_NAME,
	.version = "1.0",
	.description = "collectives of its own on CUDA memory, for one rank",
	.priority = ONDEVICE_PRIORITY,
	.memory = ONDEVICE_MEMORY,
	.transport = ONDEVICE_TRANSPORT,
	.native = &ondevice_native,
	.probe = ONDEVICE_PROBE,
	.open = ondevice_open,
	.close = ondevice_close,
};
