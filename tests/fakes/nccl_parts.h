/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_parts.h - declarations that the files of the stand-in for NCCL share.
 *
 *   nccl_call.c        environment, planned faults, counters, last error
 *   nccl_rendezvous.c  shared memory under the unique id's name, byte rings, doorbells
 *   nccl_reduce.c      arithmetic
 *   nccl_comm.c        live and dead communicators, threads inside calls, shared data, results
 *   nccl_init.c        init
 *   nccl_child.c       split and shrink
 *   nccl_end.c         finalize, destroy, abort
 *   nccl_group.c       groups, blocking and non-blocking
 *   nccl_kernel.c      work on streams
 *   nccl_coll.c        the operations themselves
 *   nccl_ops.c         the entry functions of the operations
 *   nccl_own.c         reductions that the user creates, registered and other memory
 */
#ifndef TESTS_FAKES_NCCL_PARTS_H
#define TESTS_FAKES_NCCL_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "nccl.h"

enum { RENDEZVOUS_RANKS = 16, RENDEZVOUS_NAME = 40 };
enum { CHANNEL_COLL = 0, CHANNEL_P2P = 1, CHANNELS = 2 };

/* ------------------------------------------------------------------ nccl_call.c -- */

int call_version(void);
long call_env(const char *name, long fallback);
/* Counts a call of fn; returns the result with which it must fail, or 0. */
int call_count(const char *fn);
/* Returns the result with which the n-th launch of this process must fail, or 0. */
int call_async_fault(void);
/* Records the text for ncclGetLastError and returns code. */
__attribute__((format(printf, 2, 3))) int call_fail(int code, const char *fmt, ...);
/* Ends the program, because the caller's misuse would crash NCCL. */
__attribute__((noreturn, format(printf, 1, 2))) void call_misuse(const char *fmt, ...);
/* Sleeps for a random time, at most STANDIN_NCCL_DELAY_US. */
void call_delay(void);

/* ------------------------------------------------------------------ nccl_rendezvous.c -- */

/* Flags that end a wait; NULL: none. */
struct halt {
	atomic_int *flag[4];
};

int halt_asked(const struct halt *halt);

struct rendezvous; /* this rank's view of a rendezvous of ranks */

/* Joins the rendezvous of that name and waits for the other ranks. */
int rendezvous_join(const char *name, int nranks, int rank, const struct halt *halt,
		    struct rendezvous **out);
void rendezvous_leave(struct rendezvous *rendezvous);
/* An allgather of n bytes, at most 64, from each rank. */
int rendezvous_gather(struct rendezvous *rendezvous, const void *mine, void *all, size_t n,
		      const struct halt *halt);
/*
 * Writes as many bytes as fit to a peer, or reads the bytes from a peer; returns the number of
 * bytes.
 */
size_t rendezvous_put(struct rendezvous *rendezvous, int channel, int peer, const void *data,
		      size_t n);
size_t rendezvous_take(struct rendezvous *rendezvous, int channel, int peer, void *buf, size_t n);
/*
 * First use of a connection, by an algorithm of collectives or by pairs: announces this rank's end, and checks
 * whether the peer has announced its own.
 */
enum { CONNECT_TREE = 1, CONNECT_RING = 2, CONNECT_PAIR = 4 };
void rendezvous_announce(struct rendezvous *rendezvous, int channel, int from, int to, unsigned as);
int rendezvous_connected(struct rendezvous *rendezvous, int channel, int from, int to, unsigned as);
/* Sleeps for up to 2 ms, unless a peer has rung this rank's bell since the caller read it. */
uint32_t rendezvous_bell(struct rendezvous *rendezvous);
void rendezvous_sleep(struct rendezvous *rendezvous, uint32_t bell);

/* ---------------------------------------------------------------- nccl_reduce.c -- */

/* A reduction for the kernel. */
struct redop {
	int op;                /* 0 to 4: sum prod max min avg; 5: sum of scalar * x */
	int on_device;         /* the kernel reads the scalar when the operation runs */
	const void *pointer;   /* there */
	unsigned char bits[8]; /* value of the scalar */
};
enum { OP_SUM, OP_PROD, OP_MAX, OP_MIN, OP_AVG, OP_PREMUL };

size_t reduce_size(int dtype);
/* dst[i] = op's scalar * src[i] */
void reduce_scale(void *dst, const unsigned char *src, size_t count, int dtype,
		  const struct redop *op);
/* dst[i] = src[0][i] op src[1][i] ... op src[n-1][i]; dst may be one of the sources. */
void reduce_block(void *dst, unsigned char *const src[], int n, size_t count, int dtype,
		  const struct redop *op);

/* ------------------------------------------------------------------ nccl_comm.c -- */

enum {
	KIND_ALLREDUCE,
	KIND_BROADCAST,
	KIND_REDUCE,
	KIND_ALLGATHER,
	KIND_REDUCE_SCATTER,
	KIND_ALLTOALL,
	KIND_GATHER,
	KIND_SCATTER,
	KIND_SEND,
	KIND_RECV
};

/* One operation, with its arguments and its state. */
struct op {
	struct op *next;
	int kind, dtype, root; /* root: the root or the peer */
	const void *send;
	void *recv;
	size_t count, bytes; /* bytes: size of count elements */
	struct redop redop;
	void *stream;
};

/* The data shared by a communicator and the communicators split from it with splitShare. */
struct share {
	atomic_int refs, abort;
	pthread_mutex_t lock;
	pthread_cond_t next_served;
	uint64_t next, serving; /* launches run in this order, on whatever streams */
	int running;
};

/* A group's end that a thread of its own completes; see nccl_group.c. */
struct launch;

struct user_op {
	struct user_op *next;
	int id, dtype;
	struct redop redop;
};

struct registration {
	struct registration *next;
	void *buf;
	size_t size;
	int refs;
};

struct nccl_comm {
	struct nccl_comm *next; /* next communicator in the list of the living or of the dead */
	const char *ended;      /* the function that ended the communicator */
	/* The registry's lock guards these members. */
	pthread_t inside;
	int depth;
	const char *inside_of;
	int aborting; /* destroyed, or being destroyed */

	int rank, nranks, device;
	void *context;
	int retained; /* this communicator must release the context */
	int blocking, split_share;
	int split_count, shrink_count;
	int finalized, revoked;
	char name[RENDEZVOUS_NAME]; /* name of its rendezvous */
	struct rendezvous *rendezvous;
	struct share *share;
	struct share *parent; /* parent whose abort also ends the creation of this communicator */
	atomic_int result;    /* the result of ncclCommGetAsyncError */
	atomic_int failed;    /* error of a launch that has run */
	atomic_int kernels;   /* number of launches under way */
	atomic_int graphs;    /* number of launches in graphs, which hold the communicator */
	struct user_op *user_ops;
	int user_op_next;
	struct registration *registrations;

	/* The group that the communicator is in; a group belongs to one thread. */
	struct nccl_comm *group_next;
	int grouped;
	pthread_t group_thread;
	struct op *colls, *p2ps;
	/* thread of its last group's end, until a call has collected its result */
	struct launch *launch;
};

/* Makes a communicator of this thread's current context and adds it to the living. */
int comm_new(nccl_comm_t *out, const nccl_config_t *config, const struct nccl_comm *parent);
void comm_free(nccl_comm_t comm, const char *fn);
/* Every entry function for comm calls both; NULL is NCCL_INVALID_ARGUMENT. */
int comm_enter(nccl_comm_t comm, const char *fn);
void comm_leave(nccl_comm_t comm);
/* No call may enter the communicator afterwards. */
void comm_leave_ending(nccl_comm_t comm);
/* The same for an abort: waits until blocked calls have left. */
void comm_enter_abort(nccl_comm_t comm, const char *fn, int ends);
/* NCCL's condition for nearly every call: earlier operations are no longer in progress. */
int comm_ready(nccl_comm_t comm, const char *fn);
void comm_must_be_complete(nccl_comm_t comm, const char *fn);
int comm_async(nccl_comm_t comm);
void comm_set(nccl_comm_t comm, int result);
void comm_halt(const struct nccl_comm *comm, struct halt *halt);
int config_read(struct nccl_comm *comm, const nccl_config_t *config);
struct share *share_new(void);
void share_unref(struct share *share);

/* ------------------------------------------------------------------ nccl_init.c -- */

/* Lets the ranks meet under comm's name, and checks whether they can form a communicator. */
int init_rendezvous(nccl_comm_t comm, const struct halt *halt);
/* Fills halt with the flags that end the creation of comm. */
struct halt init_halt(nccl_comm_t comm, const struct halt *halt);

/* ----------------------------------------------------------------- nccl_group.c -- */

/* Work other than operations that a group does at its end. */
struct job {
	struct job *next;
	int (*run)(struct job *job, const struct halt *halt);
	/* called afterwards, whether the job has run or not; frees job */
	void (*done)(struct job *job);
	nccl_comm_t comm; /* communicator whose state shows the job's result */
	int destroys;
	int result;
	const struct halt *halt;
};

int group_start(void);
int group_end(const char *fn);
/* Records an error for the end of the open group. */
int group_note(int code);
int group_add_job(struct job *job);
int group_add_op(nccl_comm_t comm, const struct op *op);
/* Waits for the end of comm's launch; stop: asks it to end. */
void group_join(nccl_comm_t comm, int stop);

/* ---------------------------------------------------------------- nccl_kernel.c -- */

/* Queues comm's operations on their streams and takes the operations over. */
int kernel_launch(nccl_comm_t comm);
/* Waits until no work of comm is on streams, nor in graphs unless it is aborted. */
void kernel_drain(nccl_comm_t comm);
void ops_free(struct op *ops);

/* ------------------------------------------------------------------ nccl_coll.c -- */

/* Runs a collective, or all sends and receives of a launch at once; returns a CUresult. */
int coll_run(nccl_comm_t comm, const struct op *op);
int pairs_run(nccl_comm_t comm, const struct op *ops);

#endif
