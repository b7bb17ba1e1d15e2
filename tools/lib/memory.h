/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - buffers for backends that take memory of CUDA devices, and streams, by the driver's own
 * API, which is looked for and opened the first time it is needed.
 *
 * Whoever calls one of these with another kind than MEMORY_HOST initialises CUDA in this process: a
 * child that is forked afterwards cannot use it.  A device's primary context, once needed, is held
 * until the process ends.  The thread's current context is afterwards what it was.  Any thread.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum memory_kind {
	MEMORY_HOST,
	MEMORY_CUDA,   /* not for the host to touch: memory_copy */
	MEMORY_MANAGED /* of a device, and the host may touch it */
};

/* Number of devices.  0: none can be used, memory_error() says why. */
int memory_devices(void);
/* What went wrong in this thread's last call that failed; never NULL. */
const char *memory_error(void);

/* NULL on failure.  bytes may be 0. */
void *memory_new(enum memory_kind kind, int device, size_t bytes);
void memory_free(enum memory_kind kind, int device, void *ptr);
/* Between any kinds of memory that `device` reaches; is done on return.  0 or -1. */
int memory_copy(int device, void *dst, const void *src, size_t n);

/* NULL where there is no driver, or none is current. */
void *memory_context(void);
/* Makes the device's context current until memory_leave.  0 or -1. */
int memory_enter(int device);
void memory_leave(void);

/* A stream that does not wait for the default stream; NULL on failure. */
void *memory_stream_new(int device);
void memory_stream_free(int device, void *stream);
/* Each is queued and does not wait.  0 or -1. */
int memory_stream_fill(int device, void *stream, void *dst, uint32_t word, size_t count);
int memory_stream_copy(int device, void *stream, void *dst, const void *src, size_t n);
/* fn is called by a thread of the driver and must not call it. */
int memory_stream_call(int device, void *stream, void (*fn)(void *arg), void *arg);
/* Blocks until all that was queued is done. */
int memory_stream_wait(int device, void *stream);

#endif
