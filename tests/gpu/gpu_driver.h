/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_driver.h - memory, streams and gates for the tests on GPUs.  The tests open the CUDA driver
 * at run time, so building them needs no toolkit.
 */
#ifndef TESTS_GPU_DRIVER_H
#define TESTS_GPU_DRIVER_H

#include "device/driver.h"

#include <stddef.h>
#include <stdint.h>

extern int gpu_is_standin; /* the driver is the stand-in of tests/fakes */

/* Opens the driver.  Returns the number of devices, or 0 with the reason in why[0..size). */
int gpu_driver_open(char *why, size_t size);
/* Fills the pointer to a function *function with a function of the driver; 0: the driver lacks it. */
int gpu_symbol(const char *name, void *function);
/* Makes the device's primary context current in this thread. */
void gpu_use(int ordinal);
/* Ends the program if a call of the driver failed. */
void gpu_must(int code, const char *what);

/*
 * Allocates memory on the current device; managed: memory that hosts can access too.  NULL if there
 * is not enough.
 */
void *gpu_alloc(size_t bytes, int managed);
void gpu_free(void *ptr);
void *gpu_stream(void);
/* Copies between any kinds of memory; blocks until the copy is complete. */
void gpu_copy(void *dst, const void *src, size_t n);

/* A gate blocks all later work on its stream until the test opens it, or 20 s have passed. */
struct gpu_gate {
	_Atomic int open;
	_Atomic int passed;
};
void gpu_gate_close(struct gpu_gate *gate, void *stream);
void gpu_gate_open(struct gpu_gate *gate);

double gpu_now(void);
void gpu_sleep(double seconds);

#endif
