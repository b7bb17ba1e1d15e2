/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sched.h - a schedule: what one rank does in one operation, as data.
 *
 * Algorithms (algo_*.c) only append steps and say which earlier step each waits for.  Memory is
 * named by slices, never by pointers, so the same schedule can be run by the engine, checked
 * symbolically or drawn.  Nothing here fails visibly: the first error (lack of memory) sticks in
 * sched->error and further calls do nothing.
 */
#ifndef CORE_SCHED_H
#define CORE_SCHED_H

#include <stddef.h>
#include <stdint.h>

/* What a slice lies in.  In place, SEND and RECV overlap as coll.h allows. */
enum { SCHED_SEND = 0, SCHED_RECV = 1, SCHED_SCRATCH = 2 };

struct slice {
	uint32_t buf;
	size_t off; /* bytes */
};

enum {
	STEP_SEND,        /* src to peer */
	STEP_RECV,        /* from peer to dst */
	STEP_RECV_REDUCE, /* dst = src op incoming, or incoming op src */
	STEP_REDUCE,      /* dst = src op other */
	STEP_COPY,        /* dst = src */
	STEP_FINISH       /* last step of the reduction at dst (average: divide) */
};

struct step {
	int32_t kind;
	int32_t peer;     /* rank in the communicator */
	uint32_t msg;     /* the how-many-th message to (or from) that peer in this operation */
	uint32_t earlier; /* number of steps this one waits for */
	int32_t edge;     /* first edge to a step that waits for this one, or -1 */
	int32_t swapped; /* reductions: the left operand is the incoming one (STEP_REDUCE: other) */
	struct slice dst, src, other;
	size_t len; /* bytes */
};

struct sched_edge {
	int32_t later; /* step */
	int32_t next;  /* edge, or -1 */
};

struct sched {
	int rank, nranks;
	size_t elem;    /* bytes of an element; all lengths are multiples, except of raw messages */
	size_t segment; /* longer pieces are to be cut into segments of this many bytes */
	size_t scratch; /* bytes of scratch memory wanted */
	int finish; /* the operation has a last step (average): else sched_finish adds nothing */
	int error;  /* COLL_SUCCESS or what went wrong while building */
	int nsteps, nedges;
	struct step *step;
	struct sched_edge *edge;
	int cap_steps, cap_edges;
	uint32_t *messages; /* counters: to peer p at [2p], from p at [2p + 1] */
};

/* Makes an empty schedule; `s` is zeroed memory or was used before (its memory is kept). */
void sched_reset(struct sched *s, int rank, int nranks, size_t elem, size_t segment);
void sched_free(struct sched *s);

struct slice sched_slice(uint32_t buf, size_t off);

/*
 * Each appends a step that may run once step `after` is complete (-1: at once) and returns its
 * number.  The k-th send to a peer pairs with the k-th receive from here that the peer appends.
 */
int sched_send(struct sched *s, int peer, struct slice src, size_t len, int after);
int sched_recv(struct sched *s, int peer, struct slice dst, size_t len, int after);
/* dst = own op incoming; swapped: incoming op own.  dst may be own. */
int sched_recv_reduce(struct sched *s, int peer, struct slice dst, struct slice own, int swapped,
		      size_t len, int after);
/* dst = a op b.  dst may be a or b. */
int sched_reduce(struct sched *s, struct slice dst, struct slice a, struct slice b, size_t len,
		 int after);
int sched_copy(struct sched *s, struct slice dst, struct slice src, size_t len, int after);
/* Returns `after` itself if the operation has no last step. */
int sched_finish(struct sched *s, struct slice dst, size_t len, int after);
/* `step` waits for `earlier` too; -1 for either: nothing. */
void sched_after(struct sched *s, int step, int earlier);

/*
 * Cutting len bytes into segments: how many (at least 1), where the i-th begins, how long it is.
 * Segments past the end are empty.
 */
int sched_segments(const struct sched *s, size_t len);
size_t sched_segment_off(const struct sched *s, size_t len, int i);
size_t sched_segment_len(const struct sched *s, size_t len, int i);
/* Cutting `count` elements into nranks near-equal blocks: where block b begins, in bytes. */
size_t sched_block_off(const struct sched *s, size_t count, int b);
size_t sched_block_len(const struct sched *s, size_t count, int b);

#endif
