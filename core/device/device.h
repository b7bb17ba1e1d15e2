/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - memory of CUDA devices, by the driver's own API, which is looked for and opened when
 * the program runs.  A process that has not initialised CUDA itself has host memory only: nothing
 * here initialises it or makes a context for it.  Any thread.
 */
#ifndef CORE_DEVICE_DEVICE_H
#define CORE_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* Opens the driver, the first time it is called; 1 if there is one. */
int device_open(void);

/*
 * Does the application use CUDA, that is, has it initialised the driver?  Plugins may do so too, in
 * probe or open: if the driver was not ready at an earlier call, that it now is proves nothing, and
 * only a context that is current to the calling thread does.  Call it before any plugin's function.
 */
int device_in_use(void);

/* The rest may be called only where there is a driver. */

/*
 * Kind of memory at ptr, one COLL_MEM_* bit, and the ordinal of its device, or -1.  0: the driver
 * fails; the error's text says how.
 */
uint32_t device_kind(const void *ptr, int *device);
/*
 * Copies n bytes between memory of any kinds and waits until they are there.  COLL_ERR_DEVICE if
 * the driver fails.  The thread's current context is afterwards what it was before.
 */
int device_copy(void *dst, const void *src, size_t n);
/* Host memory that the device of `near` reaches directly, or NULL if the driver has none. */
void *device_pin(size_t bytes, const void *near);
void device_unpin(void *ptr);
/* "CUDA memory of device 0" */
void device_describe(uint32_t kind, int device, char *text, size_t size);

#endif
