/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * harness.h - the nccl backend over stand-ins for NCCL and the CUDA driver (fakes/): ranks are
 * threads or processes, each on a device of its own, and their communicator is made in every
 * possible way.
 */
#ifndef TESTS_NCCL_HARNESS_H
#define TESTS_NCCL_HARNESS_H

#include "../lib/device_harness.h"

enum { NCCL_DEVICES = 4, NCCL_SLOT = 1 << 16, NCCL_ENDS_S = 30 };

/* How a job makes its communicators; INIT_NONE: the job's function does so itself. */
enum { INIT_ALL, INIT_ID, INIT_EXCHANGE, INIT_NONE };

struct nccl_job {
	int nranks, processes, init;
	void (*fn)(struct rank *rank);
	void *user; /* for processes: memory from ranks_memory if the ranks write results to it */
};

/* ---------------------------------------------------------------------- beginning -- */

/*
 * The loader reads LD_LIBRARY_PATH only when a program starts, so the program executes itself again
 * with the stand-ins' directories in it: `folders`, separated by ':', relative to fakes.
 */
void nccl_find_stand_ins(char **argv, const char *folders);

/* Does so, and names the plugins and long timeouts. */
void nccl_begin(char **argv, const char *folders);

/* The application uses CUDA and retains its devices all the time. */
void nccl_hold_devices(void);

/* Undoes nccl_hold_devices(). */
void nccl_drop_devices(void);

/* The configuration of a rank: backend nccl, on the rank's device. */
void nccl_config(coll_config_t *config, int rank);

/* ------------------------------------------------------------------ rendezvous -- */

/* Memory that the ranks share, as threads or processes. */
struct nccl_rendezvous {
	struct ranks_shared shared;
	_Atomic int arrived;
	char slots[2][RANKS_MAX][NCCL_SLOT];
};

struct nccl_member {
	struct nccl_rendezvous *rendezvous;
	int rank, nranks, round;
};

/* ------------------------------------------------------------------- ranks -- */

struct nccl_rank {
	const struct nccl_job *job;
	struct nccl_member member;
	struct rank rank;
	pthread_t id;
};

/* A rank's part in a rendezvous that the job's function starts. */
struct nccl_member *nccl_member(struct rank *r);

/* Makes a communicator of all ranks of the job; config: NULL for that of nccl_config. */
int nccl_init(struct rank *r, coll_comm_t *comm, const coll_config_t *config);

/* Makes the rank's communicator, runs the job's function and destroys it: for a test that starts its own processes. */
void nccl_one(struct nccl_rank *one);

/* Makes one check: the job's function found no fault on any rank. */
__attribute__((format(printf, 2, 3))) int nccl_ok(const struct nccl_job *job, const char *fmt, ...);

/* ------------------------------------------------------------ values on a device -- */

/* Device memory with one or more int64 in it. */
int64_t *nccl_new(int device, const int64_t *values, int n);

/* The first int64 there. */
int64_t nccl_value(int device, const int64_t *there);

/* Is the sum of `x` over the communicator, with buffers on `device`, equal to `want`? */
int nccl_sums(struct rank *r, coll_comm_t comm, int device, int64_t x, int64_t want,
	      const char *what);

/* Makes the communicator of the job, over which ranks 0, 1, ... sum 1, 2, ... */
int nccl_works(struct rank *r);

/* Did the call fail with this code and a text with these words? */
int nccl_fails(struct rank *r, coll_result_t code, coll_result_t want, const char *words,
	       const char *what);

/* ----------------------------------------------------------------- streams, gates -- */

/* Work on a stream that does not end before the test opens its gate. */
struct nccl_gate {
	_Atomic int open, reached;
};

/* Puts the gate on a stream. */
void nccl_gate(struct nccl_gate *gate, int device, void *stream);

void nccl_open(struct nccl_gate *gate);

/* A new stream of the device, not ordered with its default stream. */
void *nccl_stream(int device);

/* Returns 0 or the driver's code for a whole stream. */
int nccl_stream_do(int device, void *stream, int (*call)(void *stream));

/* Looks up a function of the NCCL that the plugin has opened. */
void *nccl_symbol(const char *name);

/* Number of calls of one of NCCL's functions; -1: this NCCL has no such function. */
long nccl_calls(const char *function);

/* Number of NCCL's communicators. */
int nccl_comms(void);

/* The same, once they have ended, or after NCCL_ENDS_S: on a busy machine an abort of NCCL may go on for a moment. */
int nccl_comms_left(void);

#endif
