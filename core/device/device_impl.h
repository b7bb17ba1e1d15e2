/* SPDX-License-Identifier: BSD-3-Clause */
/* device_impl.h - what device.c and copy_stream.c share. */
#ifndef CORE_DEVICE_DEVICE_IMPL_H
#define CORE_DEVICE_DEVICE_IMPL_H

#include "device/driver.h"

#include <stddef.h>
#include <stdint.h>

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
