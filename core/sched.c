/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.c - building schedules: appending steps and the order between them. */
#include "sched.h"

#include <coll/coll.h>
#include <stdlib.h>
#include <string.h>

void sched_reset(struct sched *s, int rank, int nranks, size_t elem, size_t segment)
{
	uint32_t *counters = s->messages;

	if (!counters || s->nranks != nranks) {
		free(counters);
		counters = calloc(2 * (size_t)nranks, sizeof(*counters));
	} else {
		/* Only the peers that were used: a schedule has few of many ranks. */
		for (int i = 0; i < s->nsteps; i++)
			if (s->step[i].peer >= 0)
				memset(&counters[2 * s->step[i].peer], 0, 2 * sizeof(*counters));
	}
	s->messages = counters;
	s->rank = rank;
	s->nranks = nranks;
	s->elem = elem;
	s->segment = segment - segment % elem;
	s->scratch = 0;
	s->error = counters ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
	s->finish = 0;
	s->nsteps = 0;
	s->nedges = 0;
}

void sched_free(struct sched *s)
{
	free(s->step);
	free(s->edge);
	free(s->messages);
	memset(s, 0, sizeof(*s));
}

struct slice sched_slice(uint32_t buf, size_t off)
{
	return (struct slice){.buf = buf, .off = off};
}

static void *sched_grow(struct sched *s, void *array, int n, int *cap, size_t size)
{
	int want = *cap ? *cap * 2 : 16;
	void *bigger;

	if (n < *cap)
		return array;
	bigger = realloc(array, (size_t)want * size);
	if (!bigger) {
		s->error = COLL_ERR_NO_MEMORY;
		return array;
	}
	*cap = want;
	return bigger;
}

void sched_after(struct sched *s, int step, int earlier)
{
	struct sched_edge *e;

	if (s->error || step < 0 || earlier < 0)
		return;
	s->edge = sched_grow(s, s->edge, s->nedges, &s->cap_edges, sizeof(*s->edge));
	if (s->error)
		return;
	e = &s->edge[s->nedges];
	e->later = step;
	e->next = s->step[earlier].edge;
	s->step[earlier].edge = s->nedges++;
	s->step[step].earlier++;
}

static int sched_add(struct sched *s, struct step step, int after)
{
	if (s->error)
		return -1;
	s->step = sched_grow(s, s->step, s->nsteps, &s->cap_steps, sizeof(*s->step));
	if (s->error)
		return -1;
	step.edge = -1;
	s->step[s->nsteps++] = step;
	sched_after(s, s->nsteps - 1, after);
	return s->nsteps - 1;
}

/* The number of the next message to (way 0) or from (way 1) peer. */
static uint32_t sched_next_message(struct sched *s, int peer, int way)
{
	return s->messages && peer >= 0 ? s->messages[2 * peer + way]++ : 0;
}

int sched_send(struct sched *s, int peer, struct slice src, size_t len, int after)
{
	struct step step = {.kind = STEP_SEND, .peer = peer, .src = src, .len = len};

	step.msg = sched_next_message(s, peer, 0);
	return sched_add(s, step, after);
}

int sched_recv(struct sched *s, int peer, struct slice dst, size_t len, int after)
{
	struct step step = {.kind = STEP_RECV, .peer = peer, .dst = dst, .len = len};

	step.msg = sched_next_message(s, peer, 1);
	return sched_add(s, step, after);
}

int sched_recv_reduce(struct sched *s, int peer, struct slice dst, struct slice own, int swapped,
		      size_t len, int after)
{
	struct step step = {.kind = STEP_RECV_REDUCE, .peer = peer, .dst = dst, .src = own};

	step.len = len;
	step.swapped = swapped;
	step.msg = sched_next_message(s, peer, 1);
	return sched_add(s, step, after);
}

int sched_reduce(struct sched *s, struct slice dst, struct slice a, struct slice b, size_t len,
		 int after)
{
	struct step step = {.kind = STEP_REDUCE, .peer = -1, .dst = dst, .src = a, .other = b};

	step.len = len;
	return sched_add(s, step, after);
}

int sched_copy(struct sched *s, struct slice dst, struct slice src, size_t len, int after)
{
	struct step step = {.kind = STEP_COPY, .peer = -1, .dst = dst, .src = src, .len = len};

	return sched_add(s, step, after);
}

int sched_finish(struct sched *s, struct slice dst, size_t len, int after)
{
	struct step step = {.kind = STEP_FINISH, .peer = -1, .dst = dst, .len = len};

	return s->finish ? sched_add(s, step, after) : after;
}

int sched_segments(const struct sched *s, size_t len)
{
	return len ? (int)((len + s->segment - 1) / s->segment) : 1;
}

size_t sched_segment_off(const struct sched *s, size_t len, int i)
{
	size_t off = (size_t)i * s->segment;

	return off < len ? off : len;
}

size_t sched_segment_len(const struct sched *s, size_t len, int i)
{
	size_t rest = len - sched_segment_off(s, len, i);

	return rest < s->segment ? rest : s->segment;
}

size_t sched_block_off(const struct sched *s, size_t count, int b)
{
	size_t n = (size_t)s->nranks;
	size_t longer = count % n; /* the first blocks hold one element more */

	return ((size_t)b * (count / n) + ((size_t)b < longer ? (size_t)b : longer)) * s->elem;
}

size_t sched_block_len(const struct sched *s, size_t count, int b)
{
	return sched_block_off(s, count, b + 1) - sched_block_off(s, count, b);
}
