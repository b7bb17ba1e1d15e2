/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - tests on GPUs: what the themes share.
 *
 * Every rank is a process of its own (run.sh starts them with `coll run`) and says what it found, a
 * line for each check; run.sh puts the ranks' lines together.
 *
 *   ok|NAME             not ok|NAME|WHAT            skip|NAME|REASON
 *   note|TEXT           fact|NAME|VALUE             row|TABLE|CELL|...          end
 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include <coll/coll.h>
#include "../../tools/oracle/oracle.h"
#include "gpu_driver.h"

enum { GPU_RANKS = 16, GPU_ARENA = 16 << 20 };

struct gpu {
	coll_comm_t comm;
	int32_t rank, nranks;
	int32_t device, devices; /* the rank's own, and how many there are */
	const char *backend;
	int native;           /* the backend works on device streams */
	int small;            /* save time */
	coll_stream_t stream; /* one of the program's own */
	char *send, *recv;    /* device memory, GPU_ARENA bytes each */
	char *host;           /* as much host memory */
};

/* ----------------------------------------------------------------- saying it -- */

/* Remembers the first thing that went wrong in the check under way.  Returns 0. */
__attribute__((format(printf, 1, 2))) int gpu_fail(const char *fmt, ...);
/* Did a call succeed?  If not, the check has failed. */
int gpu_did(coll_result_t code, const char *what);
/* Did a call give this code?  With `piece` its text holds that. */
int gpu_refused(coll_result_t code, coll_result_t want, const char *piece, const char *what);
/* Ends the check under way, which was named by fmt. */
__attribute__((format(printf, 1, 2))) void gpu_report(const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void gpu_skip(const char *name, const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void gpu_say(const char *fmt, ...);

/*
 * An allreduce of the ranks' numbers, each its rank in the whole job plus one, in device memory: made
 * without waiting, or compared, or both.
 */
int gpu_sum_begin(const struct gpu *g, coll_comm_t comm, coll_stream_t stream);
int gpu_sum_end(const struct gpu *g, int32_t want, const char *what);
int gpu_sums(const struct gpu *g, coll_comm_t comm, int32_t want, const char *what);
/* What all ranks' numbers add up to. */
int32_t gpu_total(const struct gpu *g);

/* ------------------------------------------------------------ one call, verified -- */

/* A collective that the oracle judges, on a stream. */
struct gpu_call {
	struct oracle_case c;
	coll_op_t made; /* for c.op ORACLE_SCALED: the operation that the rank made */
	coll_stream_t stream;
};

/*
 * Fills buffers, makes the call, waits for it and compares every byte with what it must be.  Returns what
 * the call returned; where that is not COLL_SUCCESS it is for the caller to judge.
 */
coll_result_t gpu_try(const struct gpu *g, const struct gpu_call *call);
/* The same, and a call that is refused has failed. */
void gpu_call(const struct gpu *g, const struct gpu_call *call);

/* -------------------------------------------------------------------- themes -- */

void gpu_move(struct gpu *g);
void gpu_reduce(struct gpu *g);
void gpu_group(struct gpu *g);
void gpu_event(struct gpu *g);
void gpu_derive(struct gpu *g);
void gpu_fault(struct gpu *g);
void gpu_death(struct gpu *g);
void gpu_many(struct gpu *g);
void gpu_speed(struct gpu *g);

#endif
