/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario.h - calls that the ranks of a communicator make together to check coll.h, written once for `coll check` over
 * one plugin, tests/api on host memory and tests/gpu on device memory.
 *
 * Such a program is the frame of the scenario.  It starts the ranks and makes their communicator, and each rank calls
 * the scenario with a struct scenario_rank.  The frame decides in which memory the buffers lie and what becomes of a
 * fault.  A scenario ends at its first fault.  The other ranks may then wait for this rank until their timeout.
 */
#ifndef TOOLS_SCENARIO_H
#define TOOLS_SCENARIO_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

enum { SCENARIO_RANKS = 16 }; /* most ranks of a scenario */

struct scenario_frame;

/* One rank in one scenario. */
struct scenario_rank {
	coll_comm_t comm;
	int32_t rank, nranks;
	size_t longest; /* bytes of the longest message for which the frame has time */
	const struct scenario_frame *frame;
	void *user; /* the frame's own rank */
};

/* The four functions of a frame for a scenario. */
struct scenario_frame {
	/* Returns memory that the backend takes, and that lasts until the scenario ends.  Never NULL. */
	void *(*buffer)(struct scenario_rank *r, size_t bytes);
	/* Copies between such memory and memory of the host, both ways. */
	void (*copy)(void *to, const void *from, size_t bytes);
	/* Did the call succeed?  If not, records the fault. */
	int (*did)(struct scenario_rank *r, coll_result_t code, const char *what);
	/* Records the fault if it is the first, and returns 0. */
	int (*fail)(struct scenario_rank *r, const char *text);
};

typedef void (*scenario_fn)(struct scenario_rank *r);

/* ------------------------------------------------------- messages in order (message.c) -- */

/* Each rank sends to the right and receives from the left in a group, from no byte to r->longest. */
void scenario_ring(struct scenario_rank *r);
/* Sends without a group: the lower rank of each pair sends first. */
void scenario_ping_pong(struct scenario_rank *r);
void scenario_self(struct scenario_rank *r);
/* Every rank sends a number to every rank in one group, together with a collective. */
void scenario_all_pairs(struct scenario_rank *r);
/* Every rank sends to every rank in one group: 200,003 bytes, or r->longest if that is less. */
void scenario_all_pairs_long(struct scenario_rank *r);
/* Tags choose the message, in another order than the sends'.  Messages of one tag stay in order. */
void scenario_tags(struct scenario_rank *r);
/* Messages of one tag stay in order, whatever their size. */
void scenario_order(struct scenario_rank *r);
/* Rank 0 receives from any source.  Each sender's messages stay in order. */
void scenario_any_source(struct scenario_rank *r);

/* ------------------------------------------- messages outside the order (outside.c) -- */

/* Every rank posts its receive first, and sends at once or after a collective. */
void scenario_outside(struct scenario_rank *r);
/*
 * Rank 0 takes messages of any source, tag and length: it probes for half of the messages, and receives the rest at once.
 */
void scenario_any(struct scenario_rank *r);

/* ------------------------------------------------------------- requests (request.c) -- */

/* Test and wait tell when an operation is complete, also once it is. */
void scenario_requests(struct scenario_rank *r);
/* Rank 0 prepares a barrier with a value in each field that a barrier does not use; the other ranks call it. */
void scenario_barrier_fields(struct scenario_rank *r);

/* ----------------------------------------------------------------- events (event.c) -- */

/* An event is complete after the work before it. */
void scenario_events(struct scenario_rank *r);

/* ---------------------------------------------------- derived communicators (comm.c) -- */

/* Splits odd from even ranks, in reverse order. */
void scenario_split(struct scenario_rank *r);
/* A rank without a colour gets no communicator: the even ranks, the first, the last. */
void scenario_split_no_colour(struct scenario_rank *r);
/* Operations on a communicator and its duplicate do not meet, in whichever order each rank issues them. */
void scenario_dup(struct scenario_rank *r);
/* A duplicate of a duplicate works after the communicator that it was made from has ended. */
void scenario_dup_of_dup(struct scenario_rank *r);
/* One group has operations on two communicators; the ranks issue them in different orders. */
void scenario_two_comms(struct scenario_rank *r);

/* ------------------------------------------- for scenarios, and for frames (scenario.c) -- */

void *scenario_buffer(struct scenario_rank *r, size_t bytes);
int scenario_did(struct scenario_rank *r, coll_result_t code, const char *what);
__attribute__((format(printf, 2, 3))) int scenario_fail(struct scenario_rank *r, const char *fmt,
							...);
int scenario_sync(struct scenario_rank *r);
/* Ends the group and waits. */
int scenario_group_sync(struct scenario_rank *r);

/* Writes a number to a buffer, or reads it. */
void scenario_set(struct scenario_rank *r, void *there, int32_t value);
int32_t scenario_get(struct scenario_rank *r, const void *there);
/* Issues an allreduce, in place, of the number in a buffer. */
int scenario_sum(struct scenario_rank *r, coll_comm_t comm, int32_t *there);

/* Write `count` bytes of a message from a rank, from byte `first` on, or compare them. */
void scenario_bytes_set(struct scenario_rank *r, void *there, int32_t rank, size_t first,
			size_t count);
int scenario_bytes_are(struct scenario_rank *r, const void *there, int32_t rank, size_t first,
		       size_t count);
/* Mark bytes as not received, or tell whether they still are. */
void scenario_bytes_mark(struct scenario_rank *r, void *there, size_t count);
int scenario_bytes_marked(struct scenario_rank *r, const void *there, size_t count);

/* Is the sum of the ranks' powers of two right on r->comm? */
int scenario_works(struct scenario_rank *r);
/* Has `comm` this rank and size, and does it work?  Destroys it. */
int scenario_expect(struct scenario_rank *r, coll_comm_t comm, int32_t nranks, int32_t rank);

#endif
