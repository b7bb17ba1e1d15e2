/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sched.h - a schedule: the steps of one rank in one operation, as data.
 *
 * Algorithms (algo_*.c) only append steps and name the earlier step that each step waits for.  Slices
 * name memory, never pointers, so an engine can run a schedule, `coll prove` can check it symbolically,
 * and a program can draw it.  No function here returns an error: the first error (lack of memory) stays
 * in sched->error, and further calls do nothing.
 */
#ifndef CORE_SCHEDULE_SCHED_H
#define CORE_SCHEDULE_SCHED_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

/* The buffer of a slice.  In place, SEND and RECV overlap as coll.h allows. */
enum {
	SCHED_SEND = COLL_BUFFER_SEND,
	SCHED_RECV = COLL_BUFFER_RECV,
	SCHED_SCRATCH = COLL_BUFFER_SCRATCH
};

/* The most bytes of all blocks of a buffer: no memory is longer, and every offset fits into a slice. */
#define SCHED_BYTES_MAX (UINT64_C(1) << 60)

/* A place in a buffer, in one word: a schedule of many ranks has hundreds of thousands of steps with three slices each. */
struct slice {
	uint64_t buf : 2;
	uint64_t off : 62; /* bytes */
};

enum {
	STEP_SEND = COLL_STEP_SEND,               /* src to peer */
	STEP_RECV = COLL_STEP_RECV,               /* from peer to dst */
	STEP_RECV_REDUCE = COLL_STEP_RECV_REDUCE, /* dst = src op incoming, or incoming op src */
	STEP_REDUCE = COLL_STEP_REDUCE,           /* dst = src op other */
	STEP_COPY = COLL_STEP_COPY,               /* dst = src */
	STEP_FINISH = COLL_STEP_FINISH,           /* divides the reduced elements at dst */
	/* stage.c appends these for staged device buffers, an algorithm never does. */
	STEP_COPY_IN = 64, /* from the device buffer to its staging memory */
	STEP_COPY_OUT = 65 /* from staging memory to the device buffer */
};

struct step {
	int16_t kind;
	int8_t swapped; /* 1: the incoming operand is the left one (STEP_REDUCE: other) */
	int8_t unscaled; /* 1: the message is an input that the receiver scales, see sched_unscaled */
	int32_t peer;    /* rank in the communicator */
	/* Number of the message among all messages to this peer, or from it, in the operation: see sched_complete. */
	uint32_t msg;
	uint32_t earlier;  /* number of steps that this step waits for */
	int32_t edge;      /* first edge to a step that waits for this step, or -1 */
	int32_t last_edge; /* last such edge: released steps start in the order of the edges */
	struct slice dst, src, other;
	size_t len; /* bytes */
};

static inline int sched_is_recv(const struct step *step)
{
	return step->kind == STEP_RECV || step->kind == STEP_RECV_REDUCE;
}

struct sched_edge {
	int32_t later; /* step */
	int32_t next;  /* edge, or -1 */
};

/* A phase of a schedule: the ranks that take part, and their memory.  See sched_enter. */
struct sched_part {
	int rank, nranks;        /* this rank's number in the group, and the group's size */
	const int *ranks;        /* rank of the group -> rank of the communicator; NULL: the same */
	int after;               /* every step of the phase waits for this step, or -1 */
	struct slice send, recv; /* where the phase's SCHED_SEND and SCHED_RECV begin */
	int first; /* the first step of the phase, which sched_enter sets; -1 outside phases */
};

struct sched {
	int rank, nranks; /* within a phase: of its group */
	size_t elem; /* bytes of an element; all lengths are multiples, except of raw messages */
	/* Builders cut longer pieces into segments of so many bytes, at least an element; SIZE_MAX: none. */
	size_t segment;
	size_t scratch; /* bytes of scratch memory; see sched_scratch */
	int finish; /* 1: the reduction has a last step (average of integers), see sched_finish */
	int scale;  /* 1: steps scale the inputs (average of floats), see sched_complete */
	int error;  /* COLL_SUCCESS, or the first error while building */
	int nsteps, nedges;
	struct step *step;
	struct sched_edge *edge;
	int cap_steps, cap_edges;
	struct sched_part part;
};

/* Makes the schedule empty.  `s` is zeroed memory or a used schedule, whose memory is kept. */
void sched_reset(struct sched *s, int rank, int nranks, size_t elem, size_t segment);
void sched_free(struct sched *s);

static inline struct slice sched_slice(uint32_t buf, size_t off)
{
	return (struct slice){.buf = buf & 3, .off = off};
}

/*
 * Each function appends a step that may run once step `after` is complete (-1: at once), and returns the step's number.  The
 * k-th send to a peer pairs with the k-th receive from this rank that the peer appends.
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
/* Appends the last step of a reduction and returns it; returns `after` if the operation has none. */
int sched_finish(struct sched *s, struct slice dst, size_t len, int after);
/*
 * Skips the scaled copy for this step: the sender sends its unscaled input, and the receiver, a receive that reduces,
 * scales both operands.  Both ranks must mark their step.  Within a phase (sched_enter) the call does nothing.
 */
void sched_unscaled(struct sched *s, int step);
/*
 * Completes the schedule of an algorithm.  It is called once, when all steps have been appended, and numbers the messages.
 *
 * With s->scale every input is scaled exactly once, by the step that first reads it: a step that copies or reduces scales
 * the elements that it reads from SCHED_SEND, and at most one operand of a reduction lies there.  A message cannot be
 * scaled on its way.  So this function makes each send from SCHED_SEND wait for a scaled copy in scratch memory and send
 * the copy.
 */
void sched_complete(struct sched *s);
/* Does a step scale the elements that it reads at `src`? */
int sched_scales(const struct sched *s, struct slice src);
/*
 * Appends a STEP_COPY_IN or STEP_COPY_OUT of len bytes at offset `off` of the operation's staging memory.  part: the device
 * buffer for which these bytes stand.
 */
int sched_staging_copy(struct sched *s, int kind, uint32_t part, size_t off, size_t len);
/* Makes `step` wait for `earlier` too.  Does nothing if either is -1. */
void sched_after(struct sched *s, int step, int earlier);

/*
 * Phases let one builder call another, for some of the ranks and on other memory.  Between enter and leave s->rank and
 * s->nranks come from `part`, and peers are ranks of its group.  Slices of SCHED_SEND and SCHED_RECV begin at
 * part->send and part->recv (slices of the outer phase).  Steps appended with after == -1 wait for part->after.  The
 * array part->ranks must last until sched_leave.  *outer keeps the outer phase, which sched_leave restores.
 * sched_leave returns a step that completes after all steps since sched_enter, for the next phase to wait for.  A rank
 * outside the group calls neither function.
 */
void sched_enter(struct sched *s, const struct sched_part *part, struct sched_part *outer);
int sched_leave(struct sched *s, const struct sched_part *outer);
/* Reserves scratch memory, aligned to 64 bytes, for the schedule.  Returns where it begins. */
size_t sched_scratch(struct sched *s, size_t bytes);
/* Returns a step that is complete when all steps from number `first` on are, or -1 if there are none. */
int sched_join(struct sched *s, int first);

/*
 * Cut len bytes into segments: return the number of segments (at least 1), the beginning and the length of the i-th.
 * Segments past the end are empty.
 */
static inline int sched_segments(const struct sched *s, size_t len)
{
	return len <= s->segment ? 1 : (int)(len / s->segment + (len % s->segment != 0));
}

static inline size_t sched_segment_off(const struct sched *s, size_t len, int i)
{
	size_t off = (size_t)i * s->segment;

	return off < len ? off : len;
}

static inline size_t sched_segment_len(const struct sched *s, size_t len, int i)
{
	size_t rest = len - sched_segment_off(s, len, i);

	return rest < s->segment ? rest : s->segment;
}

#endif
