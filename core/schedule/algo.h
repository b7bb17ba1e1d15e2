/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo.h - the algorithms.  Each algorithm has a builder and a formula, both in one file.  The builder
 * appends the steps of one rank to a schedule and knows sched.h only.  The formula gives the numbers of
 * messages and bytes, as the literature has them.  ALGO_TABLE has a row for each algorithm.  No other
 * code knows an algorithm by name: choose_algorithm (algorithm/selection.h) picks a row, and `coll prove` proves every row.
 *
 * Promises of every builder, which the prover checks:
 *   - every rank gets the same bits from a reduction: one rank combines an element and spreads the
 *     result, or all ranks combine it in exactly the same way, left and right included (scan and
 *     exscan give each rank a result of its own);
 *   - no deadlock if a send completes only once its receive has been posted;
 *   - no step reads or writes memory that a step not ordered with it may write;
 *   - the send buffer is never written;
 *   - in place, as coll.h allows it, the results are the same.
 */
#ifndef CORE_SCHEDULE_ALGO_H
#define CORE_SCHEDULE_ALGO_H

#include "schedule/nodes.h"
#include "schedule/sched.h"

#include <coll/coll.h>

/*
 * The collective to build, with the arguments of this rank's call.  Counts are the collective's, in
 * elements of s->elem bytes.  Arrays have s->nranks entries.  Counts that are not NULL have
 * displacements: the caller fills in the displacements that the user left out.
 */
struct work {
	int kind; /* COLL_KIND_* */
	int root; /* the root, or the peer of a send or recv */
	size_t count;
	int in_place;             /* the buffers overlap as coll.h allows for this kind */
	const size_t *sendcounts; /* set for scatterv on the root, and for alltoallv */
	/* May be set for reduce_scatterv too; if it is NULL, the blocks follow one another. */
	const size_t *senddispls;
	const size_t *
		recvcounts; /* set for allgatherv, reduce_scatterv and alltoallv, and for gatherv on the root */
	const size_t *recvdispls;  /* reduce_scatterv: algo_build sets them to the send buffer's */
	const struct nodes *nodes; /* set for algorithms with COLL_ALGORITHM_NODES */
};

/* An algorithm's cost: sums over all ranks, for messages that are not cut into segments. */
struct cost {
	uint64_t messages, bytes;
};

/*
 * A cost formula.  For gatherv and scatterv `w` is root's.  For alltoallv w->sendcounts holds the rows of all ranks, nranks
 * * nranks counts.
 */
typedef void (*algo_cost_fn)(const struct work *w, int nranks, size_t elem, struct cost *cost);
/* A builder.  s->nranks is above 1, except for send and recv. */
typedef void (*algo_build_fn)(struct sched *s, const struct work *w);

struct algo {
	int kind;
	const char *name; /* [a-z_]*, unique within its kind */
	algo_build_fn build;
	algo_cost_fn cost;
	uint32_t flags; /* COLL_ALGORITHM_* of coll.h */
	const char *description;
};

/* ROW(kind, name, builder, formula, flags, description).  Order: as `coll info` shows them. */
#define ALGO_TABLE(ROW)                                                                            \
	ROW(COLL_KIND_ALLREDUCE, "ring", ring_allreduce, ring_allreduce_cost, 0,                   \
	    "reduce-scatter and allgather round a ring; most bandwidth")                           \
	ROW(COLL_KIND_ALLREDUCE, "recursive_doubling", double_allreduce, double_allreduce_cost,    \
	    COLL_ALGORITHM_ORDERED, "all data exchanged over doubling distances; least latency")   \
	ROW(COLL_KIND_ALLREDUCE, "rabenseifner", halving_allreduce, halving_allreduce_cost,        \
	    COLL_ALGORITHM_ORDERED, "halves exchanged, then doubled; few messages and bytes")      \
	ROW(COLL_KIND_ALLREDUCE, "two_level", level_allreduce, level_allreduce_cost,               \
	    COLL_ALGORITHM_NODES, "within nodes, among their leaders, within nodes")               \
	ROW(COLL_KIND_ALLREDUCE, "gather_reduce", canonical_gather_allreduce,                      \
	    canonical_gather_allreduce_cost, COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,    \
	    "all data to all ranks; reproducible, short messages")                                 \
	ROW(COLL_KIND_ALLREDUCE, "scatter_reduce", canonical_scatter_allreduce,                    \
	    canonical_scatter_allreduce_cost, COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,   \
	    "all data of a block to its rank, the sums round a ring; reproducible")                \
	ROW(COLL_KIND_ALLREDUCE, "linear", linear_allreduce, linear_allreduce_cost,                \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "straight to rank 0 and back; ranks that share processors; reproducible")              \
	ROW(COLL_KIND_BROADCAST, "binomial", tree_broadcast, tree_broadcast_cost, 0,               \
	    "down a binomial tree")                                                                \
	ROW(COLL_KIND_BROADCAST, "linear", linear_broadcast, linear_broadcast_cost, 0,             \
	    "straight from root; few ranks, or few processors")                                    \
	ROW(COLL_KIND_BROADCAST, "scatter_allgather", scatter_allgather_broadcast,                 \
	    scatter_allgather_broadcast_cost, 0,                                                   \
	    "blocks down a binomial tree, then round a ring; long messages")                       \
	ROW(COLL_KIND_BROADCAST, "chain", chain_broadcast, chain_broadcast_cost, 0,                \
	    "segments down a chain; longest messages")                                             \
	ROW(COLL_KIND_REDUCE, "binomial", tree_reduce, tree_reduce_cost, 0,                        \
	    "up a binomial tree that begins at root")                                              \
	ROW(COLL_KIND_REDUCE, "linear", linear_reduce, linear_reduce_cost,                         \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "straight to root; few ranks or processors, short messages; reproducible")             \
	ROW(COLL_KIND_REDUCE, "binomial_ordered", tree_reduce_ordered, tree_reduce_ordered_cost,   \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "up a binomial tree to rank 0 and on to root; reproducible")                           \
	ROW(COLL_KIND_REDUCE, "scatter_gather", ring_reduce, ring_reduce_cost, 0,                  \
	    "blocks round a ring, growing, then to root; long messages")                           \
	ROW(COLL_KIND_ALLGATHER, "ring", ring_allgather, ring_allgather_cost, 0,                   \
	    "every block once round a ring")                                                       \
	ROW(COLL_KIND_ALLGATHER, "recursive_doubling", double_allgather, double_allgather_cost,    \
	    COLL_ALGORITHM_POWER_OF_TWO, "all blocks exchanged over doubling distances")           \
	ROW(COLL_KIND_ALLGATHER, "bruck", bruck_allgather, bruck_allgather_cost, 0,                \
	    "over doubling distances, any number of ranks; least latency")                         \
	ROW(COLL_KIND_ALLGATHER, "linear", linear_allgather, linear_allgather_cost, 0,             \
	    "straight to rank 0 and back; ranks that share processors, short messages")            \
	ROW(COLL_KIND_ALLGATHER, "pairwise", pairwise_allgather, pairwise_allgather_cost, 0,       \
	    "every block straight to every rank; few ranks")                                       \
	ROW(COLL_KIND_ALLGATHERV, "ring", ring_allgather, ring_allgather_cost, 0,                  \
	    "every block once round a ring")                                                       \
	ROW(COLL_KIND_ALLGATHERV, "pairwise", pairwise_allgather, pairwise_allgather_cost, 0,      \
	    "every block straight to every rank")                                                  \
	ROW(COLL_KIND_REDUCE_SCATTER, "ring", ring_reduce_scatter, ring_reduce_scatter_cost, 0,    \
	    "every block once round a ring, growing")                                              \
	ROW(COLL_KIND_REDUCE_SCATTER, "recursive_halving", halving_reduce_scatter,                 \
	    halving_reduce_scatter_cost, 0, "halves exchanged over halving distances; short ones") \
	ROW(COLL_KIND_REDUCE_SCATTER, "pairwise", canonical_reduce_scatter,                        \
	    canonical_reduce_scatter_cost, COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,      \
	    "every block straight to its rank; reproducible")                                      \
	ROW(COLL_KIND_REDUCE_SCATTER, "linear", linear_reduce_scatter, linear_reduce_scatter_cost, \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "straight to rank 0 and back; ranks that share processors; reproducible")              \
	ROW(COLL_KIND_REDUCE_SCATTERV, "ring", ring_reduce_scatter, ring_reduce_scatter_cost, 0,   \
	    "every block once round a ring, growing")                                              \
	ROW(COLL_KIND_REDUCE_SCATTERV, "pairwise", canonical_reduce_scatter,                       \
	    canonical_reduce_scatter_cost, COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,      \
	    "every block straight to its rank; reproducible")                                      \
	ROW(COLL_KIND_ALLTOALL, "pairwise", pairwise_alltoall, pairwise_alltoall_cost, 0,          \
	    "every block by itself; least volume")                                                 \
	ROW(COLL_KIND_ALLTOALL, "bruck", bruck_alltoall, bruck_alltoall_cost, 0,                   \
	    "blocks handed on together over doubling distances; least latency")                    \
	ROW(COLL_KIND_ALLTOALLV, "pairwise", pairwise_alltoall, pairwise_alltoall_cost, 0,         \
	    "every block by itself")                                                               \
	ROW(COLL_KIND_GATHER, "binomial", tree_gather, tree_gather_cost, 0,                        \
	    "collected up a binomial tree; least latency")                                         \
	ROW(COLL_KIND_GATHER, "linear", linear_gather, linear_gather_cost, 0,                      \
	    "every block straight to root; least volume")                                          \
	ROW(COLL_KIND_GATHERV, "linear", linear_gather, linear_gather_cost, 0,                     \
	    "every block straight to root")                                                        \
	ROW(COLL_KIND_SCATTER, "binomial", tree_scatter, tree_scatter_cost, 0,                     \
	    "handed down a binomial tree; least latency")                                          \
	ROW(COLL_KIND_SCATTER, "linear", linear_scatter, linear_scatter_cost, 0,                   \
	    "every block straight from root; least volume")                                        \
	ROW(COLL_KIND_SCATTERV, "linear", linear_scatter, linear_scatter_cost, 0,                  \
	    "every block straight from root")                                                      \
	ROW(COLL_KIND_BARRIER, "dissemination", dissemination_barrier, dissemination_barrier_cost, \
	    0, "empty messages over doubling distances")                                           \
	ROW(COLL_KIND_BARRIER, "linear", linear_barrier, linear_barrier_cost, 0,                   \
	    "straight to rank 0 and back; ranks that share processors")                            \
	ROW(COLL_KIND_SCAN, "doubling", doubling_scan, doubling_scan_cost,                         \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "sums of blocks exchanged over doubling distances; least latency, reproducible")       \
	ROW(COLL_KIND_SCAN, "chain", chain_scan, chain_scan_cost, COLL_ALGORITHM_ORDERED,          \
	    "segments from rank to rank; long messages")                                           \
	ROW(COLL_KIND_EXSCAN, "doubling", doubling_exscan, doubling_scan_cost,                     \
	    COLL_ALGORITHM_ORDERED | COLL_ALGORITHM_CANONICAL,                                     \
	    "sums of blocks exchanged over doubling distances; least latency, reproducible")       \
	ROW(COLL_KIND_EXSCAN, "chain", chain_exscan, chain_scan_cost, COLL_ALGORITHM_ORDERED,      \
	    "segments from rank to rank; long messages")                                           \
	ROW(COLL_KIND_SEND, "direct", direct_send, direct_send_cost, 0,                            \
	    "one message; in pieces where it may be staged")                                       \
	ROW(COLL_KIND_RECV, "direct", direct_recv, direct_recv_cost, 0,                            \
	    "one message; in pieces where it may be staged")

#define ALGO_DECLARE(kind, name, builder, formula, flags, text)                                    \
	void builder(struct sched *s, const struct work *w);                                       \
	void formula(const struct work *w, int nranks, size_t elem, struct cost *c);
ALGO_TABLE(ALGO_DECLARE)
#undef ALGO_DECLARE

/*
 * Goes up when an algorithm exchanges other messages than before under the same name, so that ranks of two builds find out
 * (algorithm/selection.c).
 */
enum { ALGO_GENERATION = 1 };

/* Return the number of rows, and the i-th row or NULL. */
int algo_count(void);
const struct algo *algo_at(int i);
/* Returns the index of the row with that name and kind, or -1. */
int algo_find(int kind, const char *name);
/* Can nranks ranks on nnodes nodes use the algorithm? */
int algo_fits(const struct algo *algo, int nranks, int nnodes);
/*
 * Appends this rank's steps to the empty schedule, whose `finish` and `scale` are set.  For a single rank it appends a
 * copy.
 */
void algo_build(const struct algo *algo, struct sched *s, const struct work *w);
/*
 * Appends a phase that builds `w` on the memory of `part`, for its one or more ranks.  Returns a step that completes after
 * the phase.
 */
int algo_phase(struct sched *s, const struct sched_part *part, algo_build_fn build,
	       const struct work *w);

#endif
