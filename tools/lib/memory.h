/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - buffers for backends that take memory of CUDA devices, and streams, by the driver's
 * own API.  The first function that needs the driver opens it.
 *
 * A call with another kind than MEMORY_HOST initialises CUDA in this process, so a child forked
 * afterwards cannot use CUDA.  The first use of a device retains its primary context until the
 * process ends.  Every function restores the thread's current context.  Any thread may call them.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum memory_kind {
	MEMORY_HOST,
	MEMORY_CUDA,   /* device memory; the host must use memory_copy */
	MEMORY_MANAGED /* managed memory of a device; the host may touch it */
};

/* Number of devices.  0: none can be used, and memory_error() says why. */
int memory_devices(void);
/* The error text of this thread's last failed call; never NULL. */
const char *memory_error(void);

/* Returns NULL on failure.  bytes may be 0. */
void *memory_new(enum memory_kind kind, int device, size_t bytes);
void memory_free(enum memory_kind kind, int device, void *ptr);
/*
 * Copies between any kinds of memory that `device` can access; complete on return.  Returns 0 or
 * -1.
 */
int memory_copy(int device, void *dst, const void *src, size_t n);

/* The current context; NULL if there is no driver or no current context. */
void *memory_context(void);
/* Makes the device's context current until memory_leave.  Returns 0 or -1. */
int memory_enter(int device);
void memory_leave(void);

/* A stream that does not wait for the default stream; NULL on failure. */
void *memory_stream_new(int device);
void memory_stream_free(int device, void *stream);
/* Each function queues its work on the stream and does not wait.  Returns 0 or -1. */
int memory_stream_fill(int device, void *stream, void *dst, uint32_t word, size_t count);
int memory_stream_copy(int device, void *stream, void *dst, const void *src, size_t n);
/* A thread of the driver calls fn; fn must not call the driver. */
int memory_stream_call(int device, void *stream, void (*fn)(void *arg), void *arg);
/* Blocks until all work queued on the stream is complete. */
int memory_stream_wait(int device, void *stream);

#endif
