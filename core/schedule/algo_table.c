/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_table.c - the table of algorithms, the schedule of a single rank, and phases. */
#include "schedule/algo.h"

#include <stdlib.h>
#include <string.h>

#define ALGO_ENTRY(kind, name, build, cost, flags, text) {kind, name, build, cost, flags, text},
static const struct algo algo_rows[] = {ALGO_TABLE(ALGO_ENTRY)};
#undef ALGO_ENTRY

enum { ALGO_ROWS = sizeof(algo_rows) / sizeof(algo_rows[0]) };

int algo_count(void)
{
	return ALGO_ROWS;
}

const struct algo *algo_at(int i)
{
	return i >= 0 && i < ALGO_ROWS ? &algo_rows[i] : NULL;
}

int algo_find(int kind, const char *name)
{
	for (int i = 0; i < ALGO_ROWS; i++)
		if (algo_rows[i].kind == kind && !strcmp(algo_rows[i].name, name))
			return i;
	return -1;
}

int algo_fits(const struct algo *algo, int nranks, int nnodes)
{
	if (algo->flags & COLL_ALGORITHM_POWER_OF_TWO && (nranks & (nranks - 1)))
		return 0;
	return !(algo->flags & COLL_ALGORITHM_NODES) || (nnodes > 1 && nnodes < nranks);
}

/* Appends the steps of a communicator of one rank: the result is its input. */
static void algo_alone(struct sched *s, const struct work *w)
{
	size_t send = w->senddispls ? w->senddispls[0] : 0;
	size_t recv = w->recvdispls ? w->recvdispls[0] : 0;
	size_t count = w->sendcounts   ? w->sendcounts[0]
		       : w->recvcounts ? w->recvcounts[0]
				       : w->count;
	struct slice dst = sched_slice(SCHED_RECV, recv * s->elem);
	int copied =
		sched_copy(s, dst, sched_slice(SCHED_SEND, send * s->elem), count * s->elem, -1);

	sched_finish(s, dst, count * s->elem, copied);
}

/* Returns where the blocks begin, or NULL without memory.  Sums the counts up once, not once for each block. */
static size_t *algo_displs(const size_t *counts, int nranks)
{
	size_t *displs = calloc((size_t)nranks, sizeof(*displs));

	for (int r = 1; displs && r < nranks; r++)
		displs[r] = displs[r - 1] + counts[r - 1];
	return displs;
}

/* Appends the steps of a reduce_scatterv.  Its blocks lie in the send buffer. */
static void algo_reduce_scatterv(const struct algo *algo, struct sched *s, const struct work *w)
{
	struct work own = *w;
	size_t *displs = w->senddispls ? NULL : algo_displs(w->recvcounts, s->nranks);

	own.recvdispls = w->senddispls ? w->senddispls : displs;
	if (own.recvdispls)
		algo->build(s, &own);
	else
		s->error = COLL_ERR_NO_MEMORY;
	free(displs);
}

void algo_build(const struct algo *algo, struct sched *s, const struct work *w)
{
	if (s->nranks > 1 && w->kind == COLL_KIND_REDUCE_SCATTERV)
		algo_reduce_scatterv(algo, s, w);
	else if (s->nranks > 1 || w->kind == COLL_KIND_SEND || w->kind == COLL_KIND_RECV)
		algo->build(s, w);
	else if (w->kind != COLL_KIND_BARRIER && w->kind != COLL_KIND_EXSCAN)
		algo_alone(s, w);
	sched_complete(s);
}

int algo_phase(struct sched *s, const struct sched_part *part, algo_build_fn build,
	       const struct work *w)
{
	struct sched_part outer;

	if (part->nranks == 1)
		return part->after;
	sched_enter(s, part, &outer);
	build(s, w);
	return sched_leave(s, &outer);
}
