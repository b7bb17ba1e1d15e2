/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - memory of CUDA devices, by the driver's API, which the library opens at run time.  A process
 * that has not initialised CUDA itself has host memory only: no function here initialises CUDA or makes a
 * context.  Any thread may call the functions.
 */
#ifndef CORE_DEVICE_DEVICE_H
#define CORE_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* Opens the driver at the first call; returns 1 if there is a driver. */
int device_open(void);

/*
 * Does the application use CUDA, that is, has it initialised the driver?  Plugins may initialise the
 * driver too, in probe or open, so the first call must come before any plugin's function.  If the driver
 * was not ready then, only a context that is current to the calling thread proves use by the application.
 */
int device_in_use(void);

/* The functions below may be called only if there is a driver. */

/*
 * Returns the kind of memory at ptr, one COLL_MEM_* bit, and in *device the ordinal of its device, or -1.  Returns 0
 * with an error text if the driver fails.
 */
uint32_t device_kind(const void *ptr, int *device);
/*
 * Copies n bytes between memory of any kinds and waits until the copy is complete.  COLL_ERR_DEVICE if
 * the driver fails.  The thread keeps its current context.
 */
int device_copy(void *dst, const void *src, size_t n);
/* Frees pinned memory; after a second, while other work keeps the device busy, that goes on in the background. */
void device_unpin(void *ptr);
/* "CUDA memory of device 0" */
void device_describe(uint32_t kind, int device, char *text, size_t size);

#endif
