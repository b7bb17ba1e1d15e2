/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_parts.h - what the files of the stand-in for NCCL share.
 *
 *   nccl_call.c    environment, planned faults, counters, last error
 *   nccl_rendezvous.c    ranks meet: shared memory under the unique id's name, byte rings, doorbells
 *   nccl_reduce.c  arithmetic
 *   nccl_comm.c    live and dead communicators, who is inside, what they share, results
 *   nccl_init.c    init
 *   nccl_child.c   split and shrink
 *   nccl_end.c     finalize, destroy, abort
 *   nccl_group.c   groups, blocking and not
 *   nccl_kernel.c  what runs on streams
 *   nccl_coll.c    the operations themselves
 *   nccl_ops.c     their entries
 *   nccl_own.c     reductions, registered and other memory of the user's own
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
/* Counts a call of fn; the result it is to fail with, or 0. */
int call_count(const char *fn);
/* What the n-th launch of this process is to fail with, or 0. */
int call_async_fault(void);
/* Notes the text for ncclGetLastError and returns code. */
__attribute__((format(printf, 2, 3))) int call_fail(int code, const char *fmt, ...);
/* The caller has done what crashes NCCL. */
__attribute__((noreturn, format(printf, 1, 2))) void call_misuse(const char *fmt, ...);
/* Sleeps a random while, at most STANDIN_NCCL_DELAY_US. */
void call_delay(void);

/* ------------------------------------------------------------------ nccl_rendezvous.c -- */

/* Flags that end a wait; NULL: none. */
struct halt {
	atomic_int *flag[4];
};

int halt_asked(const struct halt *halt);

struct rendezvous; /* this rank's view of a meeting of ranks */

/* Comes to the meeting of that name and waits for the others. */
int rendezvous_join(const char *name, int nranks, int rank, const struct halt *halt,
		    struct rendezvous **out);
void rendezvous_leave(struct rendezvous *rendezvous);
/* Everyone gets everyone's n bytes, at most 64 each. */
int rendezvous_gather(struct rendezvous *rendezvous, const void *mine, void *all, size_t n,
		      const struct halt *halt);
/* Moves what fits to, or what is there from, a peer; the number of bytes. */
size_t rendezvous_put(struct rendezvous *rendezvous, int channel, int peer, const void *data,
		      size_t n);
size_t rendezvous_take(struct rendezvous *rendezvous, int channel, int peer, void *buf, size_t n);
/* First use of a connection: announce it, and see whether the peer has announced its end. */
void rendezvous_announce(struct rendezvous *rendezvous, int channel, int from, int to);
int rendezvous_connected(struct rendezvous *rendezvous, int channel, int from, int to);
/* Sleeps for up to 2 ms, unless something has happened to this rank since bell was read. */
uint32_t rendezvous_bell(struct rendezvous *rendezvous);
void rendezvous_sleep(struct rendezvous *rendezvous, uint32_t bell);

/* ---------------------------------------------------------------- nccl_reduce.c -- */

/* A reduction as the kernel sees it. */
struct redop {
	int op;                /* 0 to 4: sum prod max min avg; 5: sum of scalar * x */
	int on_device;         /* the scalar is read when the operation runs */
	const void *pointer;   /* there */
	unsigned char bits[8]; /* the scalar itself */
};
enum { OP_SUM, OP_PROD, OP_MAX, OP_MIN, OP_AVG, OP_PREMUL };

size_t reduce_size(int dtype);
/* dst[i] = op's scalar * src[i] */
void reduce_scale(void *dst, const unsigned char *src, size_t count, int dtype,
		  const struct redop *op);
/* dst[i] = src[0][i] op src[1][i] ... op src[n-1][i]; dst may be one of them. */
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

/* One operation, as called and as run. */
struct op {
	struct op *next;
	int kind, dtype, root; /* root: or peer */
	const void *send;
	void *recv;
	size_t count, bytes; /* bytes: of count elements */
	struct redop redop;
	void *stream;
};

/* What a communicator and those split from it with splitShare have together. */
struct share {
	atomic_int refs, abort;
	pthread_mutex_t lock;
	pthread_cond_t next_served;
	uint64_t next, serving; /* launches run in this order, on whatever streams */
	int running;
};

/* A group's end that goes on in a thread of its own; see nccl_group.c. */
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
	struct nccl_comm *next; /* of the living, or of the dead */
	const char *ended;      /* the function that ended it */
	/* Guarded by the registry's lock. */
	pthread_t inside;
	int depth;
	const char *inside_of;
	int aborting; /* or being destroyed */

	int rank, nranks, device;
	void *context;
	int retained; /* the context is this communicator's to release */
	int blocking, split_share;
	int split_count, shrink_count;
	int finalized, revoked;
	char name[RENDEZVOUS_NAME]; /* of its meeting */
	struct rendezvous *rendezvous;
	struct share *share;
	struct share *parent; /* whose abort ends the making of this one too */
	atomic_int result;    /* as ncclCommGetAsyncError gives it */
	atomic_int failed;    /* what was found later, by a launch that ran */
	atomic_int kernels;   /* launched and not over */
	struct user_op *user_ops;
	int user_op_next;
	struct registration *registrations;

	/* The group that it is in, of one thread. */
	struct nccl_comm *group_next;
	int grouped;
	pthread_t group_thread;
	struct op *colls, *p2ps;
	struct launch *launch; /* of its last group's end, until somebody has taken it in */
};

/* A new communicator of this thread's current context, among the living. */
int comm_new(nccl_comm_t *out, const nccl_config_t *config, const struct nccl_comm *parent);
void comm_free(nccl_comm_t comm, const char *fn);
/* Every entry for comm is between these two; NULL is NCCL_INVALID_ARGUMENT. */
int comm_enter(nccl_comm_t comm, const char *fn);
void comm_leave(nccl_comm_t comm);
/* Nobody may come after this. */
void comm_leave_ending(nccl_comm_t comm);
/* The same where everything is to end at once; waits until blocked calls have left. */
void comm_enter_abort(nccl_comm_t comm, const char *fn, int ends);
/* NCCL's condition for nearly every call: what came before is settled. */
int comm_ready(nccl_comm_t comm, const char *fn);
void comm_must_be_complete(nccl_comm_t comm, const char *fn);
int comm_async(nccl_comm_t comm);
void comm_set(nccl_comm_t comm, int result);
void comm_halt(const struct nccl_comm *comm, struct halt *halt);
int config_read(struct nccl_comm *comm, const nccl_config_t *config);
struct share *share_new(void);
void share_unref(struct share *share);

/* ------------------------------------------------------------------ nccl_init.c -- */

/* Meets the ranks under comm's name and looks whether they can be together. */
int init_rendezvous(nccl_comm_t comm, const struct halt *halt);
/* halt with what ends the making of comm. */
struct halt init_halt(nccl_comm_t comm, const struct halt *halt);

/* ----------------------------------------------------------------- nccl_group.c -- */

/* Something besides operations that a group does when it ends. */
struct job {
	struct job *next;
	int (*run)(struct job *job, const struct halt *halt);
	void (*done)(struct job *job); /* afterwards, run or not; frees job */
	nccl_comm_t comm;              /* whose state says how it goes */
	int destroys;
	int result;
	const struct halt *halt;
};

int group_start(void);
int group_end(const char *fn);
/* Notes an error for the end of the group that is open. */
int group_note(int code);
int group_add_job(struct job *job);
int group_add_op(nccl_comm_t comm, const struct op *op);
/* Waits for comm's launch to be over; stop: asks it to end. */
void group_join(nccl_comm_t comm, int stop);

/* ---------------------------------------------------------------- nccl_kernel.c -- */

/* Enqueues comm's operations on their streams and takes them over. */
int kernel_launch(nccl_comm_t comm);
/* Waits until nothing of comm is on streams. */
void kernel_drain(nccl_comm_t comm);
void ops_free(struct op *ops);

/* ------------------------------------------------------------------ nccl_coll.c -- */

/* Runs a collective, or all pairs of a launch at once: a CUresult. */
int coll_run(nccl_comm_t comm, const struct op *op);
int pairs_run(nccl_comm_t comm, const struct op *ops);

#endif
