/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - tests on GPUs: declarations that the themes share.
 *
 * Every rank is a process of its own (run.sh starts them with `coll run`) and prints a line for each
 * check; run.sh combines the ranks' lines.
 *
 *   ok|NAME             not ok|NAME|WHAT            skip|NAME|REASON
 *   note|TEXT           fact|NAME|VALUE             row|TABLE|CELL|...          end
 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include <coll/coll.h>
#include "../../tools/oracle/oracle.h"
#include "../../tools/scenario/scenario.h"
#include "gpu_driver.h"

enum { GPU_RANKS = 16, GPU_ARENA = 16 << 20 };

struct gpu {
	coll_comm_t comm;
	int32_t rank, nranks;
	int32_t device, devices; /* the device of this rank, and the number of devices */
	const char *backend;
	int native;           /* 1: the backend works on device streams */
	int small;            /* save time */
	coll_stream_t stream; /* a stream of the program's own */
	char *send, *recv;    /* device memory, GPU_ARENA bytes each */
	char *host;           /* host memory of the same size */
};

/* ----------------------------------------------------------------- saying it -- */

/* Records the first fault of the current check.  Returns 0. */
__attribute__((format(printf, 1, 2))) int gpu_fail(const char *fmt, ...);
/* Did the call succeed?  If not, the check has failed. */
int gpu_did(coll_result_t code, const char *what);
/* Did the call return this code?  With `piece`: does its error text contain the piece? */
int gpu_refused(coll_result_t code, coll_result_t want, const char *piece, const char *what);
/* Ends the current check, named by fmt. */
__attribute__((format(printf, 1, 2))) void gpu_report(const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void gpu_skip(const char *name, const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void gpu_say(const char *fmt, ...);

/*
 * An allreduce of the ranks' numbers in device memory; each number is the rank in the whole job
 * plus one. The functions issue it without waiting, or compare its result, or both.
 */
int gpu_sum_begin(const struct gpu *g, coll_comm_t comm, coll_stream_t stream);
int gpu_sum_end(const struct gpu *g, int32_t want, const char *what);
int gpu_sums(const struct gpu *g, coll_comm_t comm, int32_t want, const char *what);
/* The sum of all ranks' numbers. */
int32_t gpu_total(const struct gpu *g);

/* ------------------------------------------------------------ one call, verified -- */

/* A collective on a stream, whose result the oracle checks. */
struct gpu_call {
	struct oracle_case c;
	coll_op_t made; /* for c.op ORACLE_SCALED: the operation that the rank created */
	coll_stream_t stream;
};

/*
 * Fills buffers, makes the call, waits for it and compares every byte with its expected value.
 * Returns the code of the call; if that is not COLL_SUCCESS, the caller decides whether it is a
 * fault.
 */
coll_result_t gpu_try(const struct gpu *g, const struct gpu_call *call);
/* The same, but a refused call counts as a fault. */
void gpu_call(const struct gpu *g, const struct gpu_call *call);

/* Runs a scenario on device memory; its faults are those of the current check. */
void gpu_scenario(const struct gpu *g, size_t longest, scenario_fn scenario);

/* -------------------------------------------------------------------- themes -- */

void gpu_move(struct gpu *g);
void gpu_reduce(struct gpu *g);
void gpu_group(struct gpu *g);
void gpu_event(struct gpu *g);
void gpu_streams(struct gpu *g);
void gpu_capture(struct gpu *g);
void gpu_memory(struct gpu *g);
void gpu_derive(struct gpu *g);
void gpu_fault(struct gpu *g);
void gpu_death(struct gpu *g);
void gpu_both(struct gpu *g);
void gpu_differ(struct gpu *g);
void gpu_many(struct gpu *g);
void gpu_speed(struct gpu *g);

#endif
