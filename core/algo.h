/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo.h - the algorithms: each a function that appends the steps of one rank to a schedule.
 *
 * Counts are the collective's own, in elements of s->elem bytes.  Block b of an allgather or
 * reduce_scatter buffer begins at b * count elements.  Every rank gets the same bits from a
 * reduction: each element is combined once and spread, or combined with the lower ranks on the left
 * on both sides.
 */
#ifndef CORE_ALGO_H
#define CORE_ALGO_H

#include "sched.h"

/* algo_ring.c: everyone talks to its neighbours; best for long messages. */
void ring_allreduce(struct sched *s, size_t count);
void ring_allgather(struct sched *s, size_t count);
void ring_reduce_scatter(struct sched *s, size_t count);

/* algo_double.c: distance doubles every round; best for short messages. */
void double_allreduce(struct sched *s, size_t count);
void dissemination_barrier(struct sched *s);

/* algo_tree.c: binomial trees. */
void tree_broadcast(struct sched *s, size_t count, int root);
void tree_reduce(struct sched *s, size_t count, int root);

/* algo_direct.c: one message, or none. */
void direct_send(struct sched *s, size_t count, int peer);
void direct_recv(struct sched *s, size_t count, int peer);
/* One rank alone: the result is its input. */
void direct_self(struct sched *s, size_t count, int reduces);

#endif
