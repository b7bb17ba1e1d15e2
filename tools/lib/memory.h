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
	MEMORY_CUDA,   /* device memory, which the host reaches by memory_copy only */
	MEMORY_MANAGED /* managed memory of a device, which the host may read and write */
};

/* Returns the number of devices.  0: the process can use none, and memory_error() says why. */
int memory_devices(void);
/* Returns the error text of this thread's last failed call; never NULL. */
const char *memory_error(void);

/* Allocates memory.  bytes may be 0.  Returns NULL on failure. */
void *memory_new(enum memory_kind kind, int device, size_t bytes);
void memory_free(enum memory_kind kind, int device, void *ptr);
/* Copies between any kinds of memory that `device` can access.  The copy is complete on return.  Returns 0 or -1. */
int memory_copy(int device, void *dst, const void *src, size_t n);

/* Returns the current context; NULL without a driver or a current context. */
void *memory_context(void);
/* Makes the device's context current until memory_leave.  Returns 0 or -1. */
int memory_enter(int device);
void memory_leave(void);

/* Makes a stream that does not wait for the default stream; NULL on failure. */
void *memory_stream_new(int device);
void memory_stream_free(int device, void *stream);
/* Each function queues its work on the stream and does not wait.  Returns 0 or -1. */
int memory_stream_fill(int device, void *stream, void *dst, uint32_t word, size_t count);
int memory_stream_copy(int device, void *stream, void *dst, const void *src, size_t n);
/* Has a thread of the driver call fn, which must not call the driver. */
int memory_stream_call(int device, void *stream, void (*fn)(void *arg), void *arg);
/* Blocks until all work queued on the stream is complete. */
int memory_stream_wait(int device, void *stream);

#endif
