/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_driver.h - what the tests on GPUs use of the CUDA driver, which is opened at run time: no
 * toolkit is needed to build them.  Names and numbers are those of the document "CUDA Driver API".
 */
#ifndef TESTS_GPU_DRIVER_H
#define TESTS_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum { GPU_NOT_READY = 600, GPU_STREAM_NON_BLOCKING = 1 };

/* Functions of libcuda.so.1.  All return a CUresult, 0 is success; a CUdeviceptr is a number. */
struct gpu_driver {
	int (*init)(unsigned flags);
	int (*version)(int *version);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int size, int device);
	int (*context_retain)(void **context, int device);
	int (*context_get)(void **context);
	int (*context_set)(void *context);
	int (*alloc)(unsigned long long *ptr, size_t bytes);
	int (*alloc_managed)(unsigned long long *ptr, size_t bytes, unsigned flags);
	int (*free)(unsigned long long ptr);
	int (*copy)(unsigned long long dst, unsigned long long src, size_t n, void *stream);
	int (*fill)(unsigned long long dst, unsigned char value, size_t n, void *stream);
	int (*fill_words)(unsigned long long dst, unsigned value, size_t n, void *stream);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_query)(void *stream);
	int (*stream_synchronize)(void *stream);
	int (*launch_host)(void *stream, void (*fn)(void *arg), void *arg);
	int (*error_name)(int code, const char **name);
	int standin; /* it is the stand-in of tests/fakes */
};

extern struct gpu_driver gpu_driver;

/* Opens the driver.  Returns the number of devices, or 0 with the reason in why[0..size). */
int gpu_driver_open(char *why, size_t size);
/* Makes the device's primary context current in this thread. */
void gpu_use(int ordinal);
/* Ends the program if a call of the driver failed. */
void gpu_must(int code, const char *what);

/* Memory of the current device; managed: that hosts reach too.  NULL if there is not so much. */
void *gpu_alloc(size_t bytes, int managed);
void gpu_free(void *ptr);
void *gpu_stream(void);
/* Between any memory; blocks until it is done. */
void gpu_copy(void *dst, const void *src, size_t n);

/*
 * A gate keeps everything that comes after it on a stream from beginning until it is opened, or 20 s
 * have passed.
 */
struct gpu_gate {
	_Atomic int open;
	_Atomic int passed;
};
void gpu_gate_close(struct gpu_gate *gate, void *stream);
void gpu_gate_open(struct gpu_gate *gate);

double gpu_now(void);
void gpu_sleep(double seconds);

#endif
