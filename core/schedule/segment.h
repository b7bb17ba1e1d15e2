/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h - what several builders share: a buffer's blocks, places in a binomial tree, a ring,
 * ranks folded to a power of two.
 */
#ifndef CORE_SCHEDULE_SEGMENT_H
#define CORE_SCHEDULE_SEGMENT_H

#include "schedule/sched.h"

/*
 * A buffer divided among the ranks: by counts and displacements (none: blocks follow one another), or
 * else into near-equal blocks.
 */
struct blocks {
	size_t total; /* elements of all, if there are no counts */
	const size_t *counts, *displs;
};

/* Blocks of `count` elements each, unless there are counts. */
struct blocks blocks_of(const struct sched *s, size_t count, const size_t *counts,
			const size_t *displs);
/* In bytes. */
size_t blocks_off(const struct sched *s, const struct blocks *b, int i);
size_t blocks_len(const struct sched *s, const struct blocks *b, int i);
/* Elements of all blocks but one, for formulas. */
uint64_t blocks_others(const size_t *counts, size_t count, int nranks, int but);

/*
 * A block from one rank to another as messages of a segment each: how many, and appending them.  Where
 * only the two know how long it is (alltoallv, gatherv, scatterv) the last is shorter than a segment,
 * so that one of those that follow from different lengths does not fit.
 */
int cut_pieces(const struct sched *s, int kind, size_t len);
void cut_send(struct sched *s, int kind, int peer, struct slice src, size_t len, int after);
void cut_recv(struct sched *s, int kind, int peer, struct slice dst, size_t len, int after);

/*
 * Binomial tree: distances count from the root.  A rank's reach is the lowest set bit of its
 * distance, for the root a power of two >= nranks: its parent is at distance - reach, its children
 * are at distance + 1, + 2, + 4 ... below reach, and its subtree is the next `reach` ranks or as
 * many of them as there are.
 */
int tree_reach(const struct sched *s, int distance);
int tree_distance(const struct sched *s, int root);
int tree_rank(const struct sched *s, int root, int distance);
/* Ranks in the subtree at `distance`. */
int tree_size(const struct sched *s, int distance);

/* The rank `distance` places further round the ring; negative: back. */
int ring_rank(const struct sched *s, int distance);
/*
 * Once step `after` is done every block goes once round the ring, into the receive buffer; block
 * `mine` is this rank's and lies at `own`; the previous rank's is mine - 1.
 */
void ring_pass(struct sched *s, const struct blocks *b, int mine, struct slice own, int after);

/*
 * The first part of Bruck, Ho, Kipnis, Upfal and Weathersby's allgather (1997): the blocks of `len`
 * bytes of all ranks gather in scratch from `held` on, counted from this rank's own.  Returns a step
 * after which they are there and no longer needed.
 */
int bruck_collect(struct sched *s, size_t held, size_t len);

/*
 * Rounds over doubling distances want a power of two.  If n is none, the first 2 * extra ranks pair
 * up: the even ones lend their data to their odd neighbours and get the result at the end.  The
 * order of the ranks is kept (Thakur, Rabenseifner and Gropp, 2005).
 */
struct fold {
	int power; /* greatest power of two <= n */
	int extra; /* n - power */
	int rank;  /* among those who take part in the rounds, or -1 */
};

int fold_power(int nranks);
struct fold fold_of(const struct sched *s);
int fold_real_rank(const struct fold *f, int rank);
/* For a rank that takes no part appends all there is to do: lends len bytes, gets `result`. */
int fold_sits_out(struct sched *s, const struct fold *f, size_t len, size_t result);
/* Adds the neighbour's data to the send buffer's, at dst.  -1: there is no such neighbour. */
int fold_take(struct sched *s, const struct fold *f, struct slice dst, size_t len);
/* Gives the neighbour its result.  -1 as above. */
int fold_return(struct sched *s, const struct fold *f, struct slice src, size_t len, int after);

/* Set bits: how often a block for a rank so far away is handed on over distances 1, 2, 4 ... */
uint64_t hops(int distance);
/* Rounds until distances 1, 2, 4 ... have reached nranks: log2, rounded up. */
uint64_t rounds(int nranks);

#endif
