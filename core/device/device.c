/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - kinds of memory, contexts and copies, by the CUDA driver. */
#include "device/device.h"
#include "device/device_impl.h"
#include "base/copy.h"
#include "base/error.h"
#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Values of CUpointer_attribute and of CUmemorytype. */
enum {
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_IS_MANAGED = 8,
	ATTRIBUTE_DEVICE_ORDINAL = 9
};
enum { TYPE_UNKNOWN = 0, TYPE_HOST = 1 };

/* The state of the process; device_once makes its last change. */
static pthread_once_t device_once = PTHREAD_ONCE_INIT;
static int device_found;
static const char *device_lacks;    /* a function that the driver lacks, or NULL */
static _Atomic int device_holds;    /* operations hold streams of the program */
static _Atomic int device_was_idle; /* the last result of device_in_use */
static _Atomic int
	device_is_stub; /* to be told by the next device_open, when the log's level is known */

/* ------------------------------------------------------------------- opening -- */

static void device_load(void)
{
	const char *why;

	switch (driver_open(DRIVER_CORE, &why)) {
	case DRIVER_FOUND: device_found = 1; break;
	case DRIVER_ABSENT:
		log_debug("no CUDA driver, all memory counts as host memory: %s", why);
		break;
	case DRIVER_INCOMPLETE:
		device_lacks = why;
		/* With one of these, CUDA memory is at least refused. */
		device_found = cuda_driver.cuPointerGetAttributes || cuda_driver.cuCtxGetCurrent;
		log_warn("the CUDA driver (libcuda.so.1) has no '%s': it is too old, and %s", why,
			 device_found ? "CUDA memory is refused"
				      : "all memory counts as host memory");
	}
}

/* The toolkit has a libcuda.so.1 for the linker: all its functions return this error. */
static void device_name_stub(void)
{
	Dl_info where = {.dli_fname = NULL};
	void *symbol;

	memcpy(&symbol, &cuda_driver.cuCtxGetCurrent, sizeof(symbol));
	dladdr(symbol, &where);
	log_info("%s is not a CUDA driver but the CUDA toolkit's stub, which only serves to link "
		 "programs: all memory counts as host memory",
		 where.dli_fname ? where.dli_fname : "libcuda.so.1");
}

const char *device_missing(void)
{
	return device_lacks;
}

int device_open(void)
{
	pthread_once(&device_once, device_load);
	if (atomic_load(&device_is_stub) && atomic_exchange(&device_is_stub, 0))
		device_name_stub();
	return device_found;
}

/* ------------------------------------------------------------------ pointers -- */

int device_look(const void *ptr, struct device_place *place)
{
	const int names[] = {ATTRIBUTE_CONTEXT, ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_IS_MANAGED,
			     ATTRIBUTE_DEVICE_ORDINAL};
	void *values[] = {&place->context, &place->type, &place->managed, &place->ordinal};
	int result;

	*place = (struct device_place){.ordinal = -1};
	if (!cuda_driver.cuPointerGetAttributes)
		return device_in_use() ? CUDA_NOT_SUPPORTED : CUDA_OK;
	result = cuda_driver.cuPointerGetAttributes(4, names, values, (uintptr_t)ptr);
	if (result || place->type == TYPE_UNKNOWN)
		*place = (struct device_place){.ordinal = -1};
	return result;
}

/* Can this process have no device memory at all? */
static int device_absent(int result)
{
	return result == CUDA_NOT_INITIALIZED || result == CUDA_DEINITIALIZED ||
	       result == CUDA_STUB_LIBRARY || result == CUDA_NO_DEVICE ||
	       result == CUDA_INVALID_CONTEXT;
}

int device_in_use(void)
{
	struct device_place place;
	void *context = NULL;
	int result;

	if (!device_open())
		return 0;
	result = cuda_driver.cuCtxGetCurrent ? cuda_driver.cuCtxGetCurrent(&context)
					     : device_look(&place, &place);
	if (device_absent(result)) {
		if (!atomic_exchange(&device_was_idle, 1))
			atomic_store(&device_is_stub, result == CUDA_STUB_LIBRARY);
		return 0;
	}
	return context || !atomic_load(&device_was_idle);
}

void device_words(int result, char *text, size_t size)
{
	const char *name = NULL, *words = NULL;

	if (!cuda_driver.cuGetErrorName || cuda_driver.cuGetErrorName(result, &name) || !name)
		name = "unknown to this driver";
	if (!cuda_driver.cuGetErrorString || cuda_driver.cuGetErrorString(result, &words) || !words)
		words = "error";
	snprintf(text, size, "%s (%d, %s)", words, result, name);
}

static uint32_t device_kind_of(const struct device_place *place)
{
	if (place->managed)
		return COLL_MEM_CUDA_MANAGED;
	return place->type == TYPE_UNKNOWN || place->type == TYPE_HOST ? COLL_MEM_HOST
								       : COLL_MEM_CUDA;
}

uint32_t device_kind(const void *ptr, int *device)
{
	struct device_place place;
	int result = device_look(ptr, &place);
	uint32_t kind = device_kind_of(&place);
	char words[256];

	*device = kind == COLL_MEM_HOST ? -1 : place.ordinal;
	if (device_lacks && (kind != COLL_MEM_HOST || result == CUDA_NOT_SUPPORTED)) {
		error_set(COLL_ERR_UNSUPPORTED,
			  "%p %s CUDA memory, which needs a driver with '%s': the installed one "
			  "(libcuda.so.1) is too old",
			  ptr, kind != COLL_MEM_HOST ? "is" : "may be", device_lacks);
		return 0;
	}
	if (!result || device_absent(result))
		return kind;
	device_words(result, words, sizeof(words));
	error_set(
		COLL_ERR_DEVICE,
		"the CUDA driver cannot say what memory is at %p: %s; look for an earlier failure "
		"on the device",
		ptr, words);
	return 0;
}

void device_describe(uint32_t kind, int device, char *text, size_t size)
{
	if (kind == COLL_MEM_HOST)
		snprintf(text, size, "host memory");
	else
		snprintf(text, size, "CUDA %smemory of device %d",
			 kind == COLL_MEM_CUDA_MANAGED ? "managed " : "", device);
}

/* ------------------------------------------------------------------ contexts -- */

int device_push(struct device_pushed *pushed, void *context)
{
	const int result = cuda_driver.cuCtxPushCurrent(context);

	*pushed = (struct device_pushed){.mode = CUDA_CAPTURE_RELAXED};
	if (!result && cuda_driver.cuThreadExchangeStreamCaptureMode)
		pushed->relaxed = !cuda_driver.cuThreadExchangeStreamCaptureMode(&pushed->mode);
	return result;
}

void device_pop(const struct device_pushed *pushed)
{
	int mode = pushed->mode;
	void *context;

	if (pushed->relaxed)
		cuda_driver.cuThreadExchangeStreamCaptureMode(&mode);
	cuda_driver.cuCtxPopCurrent(&context);
}

int device_context(const void *near, void **context, int *primary)
{
	struct device_place place;
	int result = device_look(near, &place), device;

	*primary = -1;
	if (result || place.type == TYPE_UNKNOWN)
		return result ? result : CUDA_INVALID_CONTEXT;
	*context = place.context;
	if (*context)
		return CUDA_OK;
	result = cuda_driver.cuDeviceGet(&device, place.ordinal);
	if (!result)
		result = cuda_driver.cuDevicePrimaryCtxRetain(context, device);
	*primary = result ? -1 : device;
	return result;
}

int device_enter(struct device_guard *guard, const void *ptr)
{
	void *context = NULL;
	int result = cuda_driver.cuCtxGetCurrent(&context);

	guard->primary = -1;
	if (!result && !context)
		result = device_context(ptr, &context, &guard->primary);
	if (!result)
		result = device_push(&guard->pushed, context);
	if (result && guard->primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(guard->primary);
	return result;
}

void device_leave(const struct device_guard *guard)
{
	device_pop(&guard->pushed);
	if (guard->primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(guard->primary);
}

/* ---------------------------------------------------------------------- copies -- */

int device_copy_failed(void *dst, const void *src, size_t n, int result)
{
	char words[256], from[64] = "memory", to[64] = "memory";
	struct device_place place;

	device_words(result, words, sizeof(words));
	if (!device_look(src, &place))
		device_describe(device_kind_of(&place), place.ordinal, from, sizeof(from));
	if (!device_look(dst, &place))
		device_describe(device_kind_of(&place), place.ordinal, to, sizeof(to));
	return error_set(COLL_ERR_DEVICE,
			 "cannot copy %zu bytes from %s to %s: %s; is all of it still allocated, "
			 "and did earlier work on the device succeed?",
			 n, from, to, words);
}

/*
 * A stream for one copy.  The calling thread's own stream costs nothing, but it waits for the device's default
 * stream, which the copy's operation may hold.
 */
static int device_copy_stream(void **stream)
{
	*stream = CUDA_PER_THREAD_STREAM;
	if (!atomic_load_explicit(&device_holds, memory_order_relaxed))
		return CUDA_OK;
	return cuda_driver.cuStreamCreate(stream, CUDA_STREAM_NON_BLOCKING);
}

void device_expect_held(void)
{
	atomic_store(&device_holds, 1);
}

static int device_copy_now(void *dst, const void *src, size_t n)
{
	void *stream;
	int result = device_copy_stream(&stream);

	if (result)
		return result;
	result = cuda_driver.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, n, stream);
	if (!result)
		result = cuda_driver.cuStreamSynchronize(stream);
	if (stream != CUDA_PER_THREAD_STREAM)
		cuda_driver.cuStreamDestroy(stream);
	return result;
}

/*
 * Is the address certainly host memory?  *result: the error of the driver if it does not know the
 * address.
 */
static int device_is_host(const void *ptr, int *result)
{
	struct device_place place;

	*result = device_look(ptr, &place);
	if (device_absent(*result))
		*result = CUDA_OK;
	return !*result && device_kind_of(&place) == COLL_MEM_HOST;
}

int device_copy(void *dst, const void *src, size_t n)
{
	struct device_guard guard;
	const void *theirs = dst;
	int result = CUDA_OK;

	if (n && device_is_host(dst, &result)) {
		theirs = src;
		if (device_is_host(src, &result)) {
			copy_payload(dst, src, n);
			return COLL_SUCCESS;
		}
	}
	if (n && !result)
		result = device_enter(&guard, theirs);
	if (n && !result) {
		result = device_copy_now(dst, src, n);
		device_leave(&guard);
	}
	return result ? device_copy_failed(dst, src, n, result) : COLL_SUCCESS;
}

void device_unpin_now(void *ptr)
{
	struct device_guard guard;

	/* The application may have destroyed the context, and the memory with it. */
	if (device_enter(&guard, ptr))
		return;
	cuda_driver.cuMemFreeHost(ptr);
	device_leave(&guard);
}
