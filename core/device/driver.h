/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - what device.c and copy_stream.c share: the driver's functions and words for its errors. */
#ifndef CORE_DEVICE_DRIVER_H
#define CORE_DEVICE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* CUresult, as far as it matters here. */
enum {
	CUDA_OK = 0,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_DEINITIALIZED = 4,
	CUDA_STUB_LIBRARY = 34,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_NOT_READY = 600
};

/* CUdeviceptr; CUcontext, CUstream and CUevent are pointers, CUdevice and CUresult ints. */
typedef unsigned long long device_ptr;

struct device_driver {
	int (*pointer_attributes)(unsigned n, const int *names, void **values, device_ptr ptr);
	int (*error_name)(int result, const char **name);
	int (*error_string)(int result, const char **text);
	int (*context_current)(void **context);
	int (*context_push)(void *context);
	int (*context_pop)(void **context);
	int (*device_get)(int *device, int ordinal);
	int (*primary_retain)(void **context, int device);
	int (*primary_release)(int device);
	int (*copy)(device_ptr dst, device_ptr src, size_t n, void *stream);
	int (*stream_wait)(void *stream);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*event_create)(void **event, unsigned flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_destroy)(void *event);
	int (*host_alloc)(void **ptr, size_t bytes, unsigned flags);
	int (*host_free)(void *ptr);
};

/* Not changed any more once device_open has returned. */
extern struct device_driver device_driver;

/* What the driver knows of an address. */
struct device_place {
	void *context; /* NULL where memory belongs to none, or is not the driver's */
	unsigned type, managed;
	int ordinal;
};

/* An address that is not the driver's is no error: then all values are 0.  A CUresult. */
int device_look(const void *ptr, struct device_place *place);
/*
 * The context of memory of a device, or where it belongs to none the primary one of its device, which
 * is then held: *primary is the device, to be released, or -1.  A CUresult.
 */
int device_context(const void *near, void **context, int *primary);
/* "an illegal memory access was encountered (700, CUDA_ERROR_ILLEGAL_ADDRESS)" */
void device_words(int result, char *text, size_t size);
/* COLL_ERR_DEVICE, with a sentence. */
int device_copy_failed(void *dst, const void *src, size_t n, int result);

#endif
