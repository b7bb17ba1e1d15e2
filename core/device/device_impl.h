/* SPDX-License-Identifier: BSD-3-Clause */
/* device_impl.h - functions and types that the files of this folder share. */
#ifndef CORE_DEVICE_DEVICE_IMPL_H
#define CORE_DEVICE_DEVICE_IMPL_H

#include "device/driver.h"

#include <stddef.h>
#include <stdint.h>

/* The driver's attributes of an address. */
struct device_place {
	void *context; /* NULL: memory without a context, or unknown to the driver */
	unsigned type, managed;
	int ordinal;
};

/* Returns a CUresult.  An address that the driver does not know is no error: then all values are 0. */
int device_look(const void *ptr, struct device_place *place);
/*
 * Returns a CUresult and the context of device memory.  Memory without a context gets the primary context
 * of its device, which is retained: then *primary is the device, for the caller to release; else -1.
 */
int device_context(const void *near, void **context, int *primary);
/* "an illegal memory access was encountered (700, CUDA_ERROR_ILLEGAL_ADDRESS)" */
void device_words(int result, char *text, size_t size);
/*
 * Makes a context current.  Calls that CUDA forbids while some thread captures a stream are allowed to this thread
 * until device_pop: without that, a poll by the library would end the application's capture.
 */
struct device_pushed {
	int relaxed, mode;
};
int device_push(struct device_pushed *pushed, void *context);
void device_pop(const struct device_pushed *pushed);
/* The thread's context, or, if it has none, the context of the memory, else the primary context of its device. */
struct device_guard {
	struct device_pushed pushed;
	int primary; /* the device whose primary context is held, or -1 */
};
/* Makes it current, as device_push. */
int device_enter(struct device_guard *guard, const void *ptr);
void device_leave(const struct device_guard *guard);
/* Frees pinned memory now, which blocks until the device has finished all work of the memory's context. */
void device_unpin_now(void *ptr);
/* A function that the library needs and the driver lacks, or NULL. */
const char *device_missing(void);
/* Streams of the program are held from now on: see device_copy. */
void device_expect_held(void);
/* Both functions return COLL_ERR_DEVICE, with a message. */
int device_copy_failed(void *dst, const void *src, size_t n, int result);
int stream_failed(const char *what, int result);

#endif
