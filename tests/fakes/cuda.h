/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h - the part of the CUDA driver's interface that the stand-in has, with the names and numbers of
 * the document "CUDA Driver API".  CUresult, CUdevice and all enums are ints here, all handles are
 * pointers.
 *
 * Environment variables inject faults; each call reads its own variable:
 *
 *   STANDIN_CUDA_INIT=100      cuInit fails with this CUresult: no device (3, 803, 804, ...).  34:
 *                              the toolkit's stub, where all fails and results have no names
 *   STANDIN_CUDA_VERSION=11040 the version that cuDriverGetVersion returns (13000)
 *   STANDIN_CUDA_DEVICES=4     devices that cuInit finds (2; at most 16; 0 is CUresult 100)
 *   STANDIN_CUDA_DELAY_US=500  duration of each piece of work on a stream (0 to 200, at random,
 *                              and shorter while a thread waits for it)
 *   STANDIN_CUDA_COPY=700@5    copies from the sixth on fail with CUresult 700, which waits for
 *                              the stream return; the context stays usable
 *   STANDIN_CUDA_WORK=700@5    the sixth piece of work on streams fails, and with it its context:
 *                              all calls that need the context return 700 from then on
 *   STANDIN_CUDA_STREAM=2@5    cuStreamCreate fails from the sixth call on
 *   STANDIN_CUDA_EVENT=2@5     cuEventCreate fails from the sixth call on
 *   STANDIN_CUDA_LOOK=700      cuPointerGetAttribute and cuPointerGetAttributes fail
 *   STANDIN_CUDA_PIN=2         cuMemHostAlloc fails
 *   STANDIN_CUDA_WAIT=801      cuStreamWaitValue32 and cuStreamWriteValue32 fail
 *   STANDIN_CUDA_POOL=1        cuMemAlloc's memory has no context, as that of pools and of VMM
 *   STANDIN_CUDA_FREE=wait     cuMemFree and cuMemFreeHost wait for all work of the context, as the
 *                              real ones do, and so does the end of a communicator of the stand-in
 *                              for NCCL; without it they never wait.  locked: moreover no other
 *                              thread starts a copy or makes memory or events meanwhile, as with
 *                              the driver 580 on an H100
 *   STANDIN_CUDA_ROOM=16       pieces of work that a stream takes (no limit); then the calling
 *                              thread waits, as with the real driver, which takes 1,024
 */
#ifndef TESTS_FAKES_CUDA_H
#define TESTS_FAKES_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long CUdeviceptr;

/* CUresult */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_MISALIGNED_ADDRESS = 716,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_UNKNOWN = 999
};

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

/* CUpointer_attribute */
enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13
};

/* CUdevice_attribute */
enum {
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
	CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
	CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
	CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
	CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89
};

enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };
enum {
	CU_MEMHOSTALLOC_PORTABLE = 1,
	CU_MEMHOSTALLOC_DEVICEMAP = 2,
	CU_MEMHOSTALLOC_WRITECOMBINED = 4
};
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum {
	CU_STREAM_WAIT_VALUE_GEQ = 0, /* (int32_t)(word - value) >= 0 */
	CU_STREAM_WAIT_VALUE_EQ = 1,
	CU_STREAM_WAIT_VALUE_AND = 2,
	CU_STREAM_WAIT_VALUE_NOR = 3
};
enum { CU_STREAM_WRITE_VALUE_DEFAULT = 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1 };
enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};
enum {
	CU_EVENT_DEFAULT = 0,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_EVENT_INTERPROCESS = 4
};

#define CU_STREAM_LEGACY     ((void *)1)
#define CU_STREAM_PER_THREAD ((void *)2)
#define STANDIN_API          __attribute__((visibility("default")))

/* The process and its devices. */
STANDIN_API int cuInit(unsigned flags);
STANDIN_API int cuDriverGetVersion(int *version);
STANDIN_API int cuGetErrorName(int result, const char **name);
STANDIN_API int cuGetErrorString(int result, const char **text);
STANDIN_API int cuDeviceGetCount(int *count);
STANDIN_API int cuDeviceGet(int *device, int ordinal);
STANDIN_API int cuDeviceGetName(char *name, int size, int device);
STANDIN_API int cuDeviceGetAttribute(int *value, int attribute, int device);

/* Contexts. */
STANDIN_API int cuCtxGetCurrent(void **context);
STANDIN_API int cuCtxSetCurrent(void *context);
STANDIN_API int cuCtxPushCurrent_v2(void *context);
STANDIN_API int cuCtxPopCurrent_v2(void **context);
STANDIN_API int cuCtxGetDevice(int *device);
STANDIN_API int cuCtxSynchronize(void);
STANDIN_API int cuDevicePrimaryCtxRetain(void **context, int device);
STANDIN_API int cuDevicePrimaryCtxRelease_v2(int device);
STANDIN_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);

/* Memory. */
STANDIN_API int cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
STANDIN_API int cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned flags);
STANDIN_API int cuMemFree_v2(CUdeviceptr ptr);
STANDIN_API int cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, void *stream);
STANDIN_API int cuMemFreeAsync(CUdeviceptr ptr, void *stream);
STANDIN_API int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags);
STANDIN_API int cuMemFreeHost(void *ptr);
STANDIN_API int cuPointerGetAttribute(void *value, int name, CUdeviceptr ptr);
STANDIN_API int cuPointerGetAttributes(unsigned n, const int *names, void **values,
				       CUdeviceptr ptr);
STANDIN_API int cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n);
STANDIN_API int cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, void *stream);
STANDIN_API int cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, void *stream);
STANDIN_API int cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, void *stream);
STANDIN_API int cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, void *stream);
STANDIN_API int cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, void *stream);

/* Streams and events. */
STANDIN_API int cuStreamCreate(void **stream, unsigned flags);
STANDIN_API int cuStreamDestroy_v2(void *stream);
STANDIN_API int cuStreamQuery(void *stream);
STANDIN_API int cuStreamSynchronize(void *stream);
STANDIN_API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
STANDIN_API int cuStreamGetCtx(void *stream, void **context);
STANDIN_API int cuStreamWaitValue32_v2(void *stream, CUdeviceptr addr, uint32_t value,
				       unsigned flags);
STANDIN_API int cuStreamWriteValue32_v2(void *stream, CUdeviceptr addr, uint32_t value,
					unsigned flags);
STANDIN_API int cuStreamBeginCapture_v2(void *stream, int mode);
STANDIN_API int cuStreamEndCapture(void *stream, void **graph);
STANDIN_API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
STANDIN_API int cuGraphLaunch(void *exec, void *stream);
STANDIN_API int cuGraphExecDestroy(void *exec);
STANDIN_API int cuGraphDestroy(void *graph);
STANDIN_API int cuStreamIsCapturing(void *stream, int *status);
STANDIN_API int cuThreadExchangeStreamCaptureMode(int *mode);
STANDIN_API int cuLaunchHostFunc(void *stream, void (*fn)(void *arg), void *arg);
STANDIN_API int cuEventCreate(void **event, unsigned flags);
STANDIN_API int cuEventRecord(void *event, void *stream);
STANDIN_API int cuEventQuery(void *event);
STANDIN_API int cuEventSynchronize(void *event);
STANDIN_API int cuEventDestroy_v2(void *event);

/*
 * For stand-ins of libraries with kernels.  standin_stream_do runs fn on the stream's own thread,
 * in the stream's order, as a kernel would run; the stream's context must be current.  A result of
 * fn other than 0 breaks the context.  The stream calls fn in every case, so that fn can free arg;
 * but if the context is broken or has ended by then, standin_touch returns NULL.  fn must not call
 * the driver.
 *
 * On a stream that is being captured standin_stream_do fails.  There standin_stream_record adds fn to the graph:
 * each launch of the graph calls it, and the graph's end calls drop, outside streams.
 *
 * standin_touch returns the address at which fn can access device, managed or pinned memory; NULL
 * if ptr[0..n) does not lie within one piece of such memory.  fn may use the address until it
 * returns.
 */
STANDIN_API int standin_stream_do(void *stream, int (*fn)(void *arg), void *arg);
STANDIN_API int standin_stream_record(void *stream, int (*fn)(void *arg), void (*drop)(void *arg),
				      void *arg);
STANDIN_API void *standin_touch(const void *ptr, size_t n);

/*
 * Counters for tests: copies and pieces of work ever queued on streams, pieces of memory ever
 * allocated by cuMemAlloc, live pieces of pinned memory, holders of a context, live streams and
 * events made by cuStreamCreate and cuEventCreate, contexts on the calling thread's stack.
 */
STANDIN_API unsigned long standin_copies(void);
STANDIN_API unsigned long standin_allocations(void);
STANDIN_API unsigned long standin_works(void);
STANDIN_API int standin_pinned(void);
STANDIN_API int standin_held(int device);
STANDIN_API int standin_streams(void);
STANDIN_API int standin_events(void);
STANDIN_API int standin_contexts_pushed(void);

/* Repairs a device's broken context, which no driver can do; tests need it to go on. */
STANDIN_API void standin_heal(int device);

#endif
