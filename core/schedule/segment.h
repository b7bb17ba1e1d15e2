/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h - helpers of the builders: the blocks of a buffer and their segments, ranks in a binomial tree and on a ring,
 * ranks folded to a power of two.
 */
#ifndef CORE_SCHEDULE_SEGMENT_H
#define CORE_SCHEDULE_SEGMENT_H

#include "schedule/sched.h"

/*
 * A buffer divided among the ranks: by counts and displacements or, if counts is NULL, into blocks of `each` elements, of which
 * the first `longer` have one element more.
 */
struct blocks {
	size_t each, longer;
	const size_t *counts, *displs;
};

/* Returns blocks of `count` elements each, or of `counts` elements if `counts` is not NULL. */
struct blocks blocks_of(size_t count, const size_t *counts, const size_t *displs);
/* Cuts `total` elements into near-equal blocks. */
struct blocks blocks_cut(const struct sched *s, size_t total);
/* Returns the length of the longest block, in bytes. */
size_t blocks_longest(const struct sched *s, const struct blocks *b);

/* Return the offset and the length of block i, in bytes. */
static inline size_t blocks_off(const struct sched *s, const struct blocks *b, int i)
{
	const size_t n = (size_t)i;

	return s->elem * (b->counts ? b->displs[n] : n * b->each + (n < b->longer ? n : b->longer));
}

static inline size_t blocks_len(const struct sched *s, const struct blocks *b, int i)
{
	const size_t n = (size_t)i;

	return s->elem * (b->counts ? b->counts[n] : b->each + (n < b->longer));
}

/* Returns the elements of all blocks except block `but`, for cost formulas. */
uint64_t blocks_others(const size_t *counts, size_t count, int nranks, int but);

/*
 * A block travels between two ranks as one message for each segment: the functions return the number of messages, and
 * append the steps.  In alltoallv, gatherv and scatterv only these two ranks know the block's length.  There the last
 * message is always shorter than a segment, so that two ranks with different lengths find at least one message that does
 * not fit.
 */
int segment_count(const struct sched *s, int kind, size_t len);
void segment_send(struct sched *s, int kind, int peer, struct slice src, size_t len, int after);
void segment_recv(struct sched *s, int kind, int peer, struct slice dst, size_t len, int after);

/*
 * Binomial tree: distances count from the root.  A rank's reach is the lowest set bit of its
 * distance, for the root a power of two >= nranks: its parent is at distance - reach, and its
 * children are at distance + 1, + 2, + 4 ... below reach.  Its subtree is the next `reach` ranks,
 * or fewer at the end.
 */
int tree_reach(const struct sched *s, int distance);
int tree_distance(const struct sched *s, int root);
int tree_rank(const struct sched *s, int root, int distance);
/* Returns the number of ranks in the subtree at `distance`. */
int tree_size(const struct sched *s, int distance);

/* Returns the rank that is `distance` further round the ring, at most one round; negative: back. */
static inline int ring_rank(const struct sched *s, int distance)
{
	const int rank = s->rank + distance;

	return rank < 0 ? rank + s->nranks : rank < s->nranks ? rank : rank - s->nranks;
}
/*
 * Appends an allgather: after step `after` every block travels once round the ring, into the receive buffer.  Block `mine`
 * belongs to this rank and lies at `own`; the block of the previous rank is mine - 1.
 */
void ring_pass(struct sched *s, const struct blocks *b, int mine, struct slice own, int after);

/*
 * Appends the first part of the allgather of Bruck, Ho, Kipnis, Upfal and Weathersby (1997): gathers
 * the blocks of `len` bytes of all ranks in scratch memory from offset `at` on, this rank's block
 * first.  Returns a step after which all blocks are there and no pending send reads them.
 */
int bruck_collect(struct sched *s, size_t at, size_t len);

/*
 * Rounds over doubling distances want a power of two.  If n is no power of two, the first 2 * extra
 * ranks pair up: the even ranks lend their data to their odd neighbours and get the result at the
 * end.  This keeps the order of the ranks (Thakur, Rabenseifner and Gropp, 2005).
 */
struct fold {
	int power;  /* greatest power of two <= n */
	int extra;  /* n - power */
	int rank;   /* this rank's number among the ranks of the rounds; -1: it lends its data */
	int lender; /* the neighbour that lends this rank its data, or -1 */
};

struct fold fold_of(int rank, int nranks);
int fold_real_rank(const struct fold *f, int rank);
/* Appends the steps of a rank that takes no part in the rounds: it lends len bytes and receives `result` bytes. */
void fold_lend(struct sched *s, size_t len, size_t result);
/* Adds the data of the lender to the send buffer's, at dst.  Returns the step. */
int fold_borrow(struct sched *s, const struct fold *f, struct slice dst, size_t len);

/* Returns the set bits of a distance: the messages that carry a block so far over distances 1, 2, 4 ... */
uint64_t hops(int distance);
/* Returns the rounds over distances 1, 2, 4 ... below nranks: log2, rounded up. */
uint64_t rounds(int nranks);

#endif
