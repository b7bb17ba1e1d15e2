/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_harness.h - memory of CUDA devices in tests, by a stand-in for the driver (fakes/cuda.c).
 * A host access to its device memory crashes.
 */
#ifndef TESTS_DEVICE_HARNESS_H
#define TESTS_DEVICE_HARNESS_H

#include "../../tools/oracle/oracle.h"
#include "../fakes/cuda.h"
#include "log_capture.h"
#include "ranks.h"

#include <fcntl.h>

enum { COUNT = 700, BYTES = 65536, NRANKS = 5 };

/* The kinds of memory of a call's buffers. */
enum { ON_DEVICE, SEND_ON_DEVICE, RECV_ON_DEVICE, MANAGED, WHERES };
extern const char *const where_names[WHERES];

/* -------------------------------------------------------------------- the device -- */

/* Makes a context current for a moment, because threads that call the library have none. */
void context_begin(int device);

/* Ends what context_begin() began. */
void context_end(int device);

/* Allocates memory of a device, plain or managed.  Ends the test without memory. */
void *device_new(int device, size_t bytes, int managed);

void device_free(int device, void *ptr);

/* Copies between any two memories. */
void device_move(int device, void *dst, const void *src, size_t n);

/* Puts a kernel of the program on a stream of the device: fn(arg), which returns a result of the driver. */
void device_launch(int device, void *stream, int (*fn)(void *), void *arg);

/* Returns the arguments of the sum of one int64 over the ranks, in place. */
coll_args_t sum_args(void *x, coll_stream_t stream);

/* --------------------------------------------------------------------- places -- */

/*
 * The place of a buffer: the number of a device, plus PLACE_MANAGED for managed memory, or the
 * host.
 */
enum { PLACE_HOST = -1, PLACE_MANAGED = 16 };

/* Allocates at least a byte at a place. */
void *place_new(int at, size_t bytes);

void place_free(int at, void *ptr);

/* Copies bytes of the host to a buffer, wherever the buffer is. */
void place_set(int at, void *ptr, const void *bytes, size_t n);

/* Copies the bytes of a buffer to the host. */
void place_get(int at, void *bytes, const void *ptr, size_t n);

/* ---------------------------------------------------------------------- the calls -- */

/* A rank's part in a call that the oracle checks, with its two buffers in places of their own. */
struct device_call {
	struct rank *r;
	struct oracle_call o;
	int at[ORACLE_AREAS];
	void *area[ORACLE_AREAS];
};

/* Makes the buffers of a call. */
void device_call_begin(struct device_call *c, struct rank *r, const struct oracle_case *like,
		       const int *at);

void device_call_end(struct device_call *c);

/* Fills all buffers with other data than before. */
void device_call_fill(struct device_call *c);

/* Does the rank have the results?  `what` is for the text of a fault. */
int device_call_check(const struct device_call *c, const char *what);

/* Fills the buffers, calls, waits and verifies. */
int device_call_once(struct device_call *c, const char *what);

/* Fills, calls, waits and verifies several times, by one persistent request. */
int device_call_request(struct device_call *c, int times, const char *what);

/*
 * Makes the buffers of a call, starts it several times by a persistent request, and verifies the
 * results.
 */
int device_call_try(struct rank *r, const struct oracle_case *like, const int *at, int times,
		    const char *what);

/* ---------------------------------------------------------------- series of calls -- */

/*
 * The places of the buffers, and the calls: collectives that reduce, collectives that move data,
 * messages.
 */
struct plan {
	int where, reductions, moves, point;
};

/* Starts a collective three times with both buffers in the places of `where`. */
int try_call(struct rank *r, int kind, int in_place, int where);

/* Makes the calls of r->user, a struct plan. */
void every_call(struct rank *r);

/* ------------------------------------------------------------------- refusals -- */

/* Does the call fail with an error text that contains these words? */
int refused(struct rank *r, int code, const char *words);

#define OPT_IN                                                                                     \
	": choose another backend with COLL_BACKEND, or set COLL_ENABLE_GPU_FALLBACK=1 (option "   \
	"enable_gpu_fallback) to have it copied through host memory, which is slow"

/* ---------------------------------------------------------- beginning and ending -- */

/* Names the plugins of the tests, and a short timeout. */
void device_begin(void);

/* The application uses CUDA and retains its devices all the time. */
void device_init(void);

/* Checks that the library holds neither pinned memory nor a device any more. */
void device_end(void);

#endif
