/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - the symbolic memory of a rank as runs.  A run is a stretch of consecutive bytes of one
 * expression, last written by one step and since then read by the same steps.
 *
 * Accesses come in the order in which the steps completed.  Each access must be ordered after the
 * last write of its bytes, and a write also after the reads since then.  By induction all accesses
 * to the same bytes are then ordered.
 */
#include <string.h>
#include "prove/prove.h"

void prove_pieces_add(struct prove_pieces *pieces, uint64_t off, uint64_t index, int32_t node)
{
	if (pieces->n) {
		const struct prove_piece *last = &pieces->piece[pieces->n - 1];

		if (last->node == node && index - last->index == off - last->off)
			return;
	}
	pieces->piece =
		prove_grow(pieces->piece, &pieces->cap, pieces->n + 1, sizeof(*pieces->piece));
	pieces->piece[pieces->n++] = (struct prove_piece){off, index, node};
}

int prove_memory_find(const struct prove_rank *r, uint64_t at)
{
	int low = 0, high = r->runs - 1;

	while (high - low > 1) {
		int middle = (low + high) / 2;

		if (r->run[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Makes space for `more` runs before run i. */
static void memory_open(struct prove_rank *r, int i, int more)
{
	r->run = prove_grow(r->run, &r->cap_runs, r->runs + more, sizeof(*r->run));
	memmove(r->run + i + more, r->run + i, (size_t)(r->runs - i) * sizeof(*r->run));
	r->runs += more;
}

/* Index of the run that begins exactly at `at`; splits a run if there is none. */
static int memory_split(struct prove_rank *r, uint64_t at)
{
	int i = prove_memory_find(r, at);

	if (r->run[i + 1].at == at)
		return i + 1;
	if (r->run[i].at == at)
		return i;
	memory_open(r, i + 1, 1);
	r->run[i + 1] = r->run[i];
	r->run[i + 1].at = at;
	r->run[i + 1].index += at - r->run[i].at;
	return i + 1;
}

void prove_memory_begin(struct prove *p, struct prove_rank *r)
{
	uint64_t send = r->base[COLL_BUFFER_SEND], size = r->size[COLL_BUFFER_SEND];
	uint64_t end = r->base[COLL_BUFFER_SCRATCH] + r->size[COLL_BUFFER_SCRATCH] + 1;
	struct prove_run unset = {.node = PROVE_UNSET, .writer = -1, .readers = -1};
	int actor = (int)(r - p->rank), i;

	r->run = prove_grow(r->run, &r->cap_runs, 4, sizeof(*r->run));
	r->runs = 2;
	r->run[0] = r->run[1] = unset;
	r->run[1].at = end;
	if (!size)
		return;
	i = memory_split(r, send);
	memory_split(r, send + size);
	r->run[i].node = actor;
	r->run[i].index = 0;
}

/* ------------------------------------------------------------------- races -- */

static void memory_race(struct prove *p, int earlier, int step, const char *did, const char *does,
			uint64_t at)
{
	const struct prove_rank *r = &p->rank[p->event[step].owner];
	static const char *const names[] = {"send buffer", "receive buffer", "scratch memory"};
	char text[128];
	int buffer = COLL_BUFFER_SCRATCH;

	while (buffer > 0 && (at < r->base[buffer] || at >= r->base[buffer] + r->size[buffer]))
		buffer--;
	prove_step_text(p, earlier, text, sizeof(text));
	prove_fail_step(p, PROVE_RACE, step,
			"%s byte %llu of the %s, which %s %s: neither is certain to be complete "
			"before the other begins",
			does, (unsigned long long)(at - r->base[buffer]), names[buffer], text, did);
}

static void memory_after_writer(struct prove *p, int step, const struct prove_run *run,
				const char *does)
{
	if (run->writer < 0 || run->writer == step || prove_before(p, run->writer, step))
		return;
	memory_race(p, run->writer, step, "writes", does, run->at);
}

static void memory_after_readers(struct prove *p, int step, const struct prove_run *run)
{
	for (int k = run->readers; k >= 0; k = p->reader[k].next)
		if (p->reader[k].to != step && !prove_before(p, p->reader[k].to, step)) {
			memory_race(p, p->reader[k].to, step, "reads", "writes", run->at);
			return;
		}
}

/* ---------------------------------------------------------------- accesses -- */

/* Lists only grow at their head, so the two halves of a run can share their list. */
static void memory_add_reader(struct prove *p, int step, struct prove_run *run)
{
	p->reader = prove_grow(p->reader, &p->cap_readers, p->nreaders + 1, sizeof(*p->reader));
	p->reader[p->nreaders] = (struct prove_link){step, run->readers};
	run->readers = p->nreaders++;
}

void prove_memory_read(struct prove *p, int step, uint64_t at, uint64_t len,
		       struct prove_pieces *out)
{
	struct prove_rank *r = &p->rank[p->event[step].owner];
	int i;

	out->n = 0;
	out->len = len;
	if (!len)
		return;
	i = memory_split(r, at);
	memory_split(r, at + len);
	for (; r->run[i].at < at + len; i++) {
		struct prove_run *run = &r->run[i];

		if (run->node == PROVE_UNSET)
			prove_fail_step(p, PROVE_RESULT, step,
					"reads memory that no step has written");
		memory_after_writer(p, step, run, "reads");
		memory_add_reader(p, step, run);
		prove_pieces_add(out, run->at - at, run->index, run->node);
	}
}

void prove_memory_write(struct prove *p, int step, uint64_t at, const struct prove_pieces *in)
{
	struct prove_rank *r = &p->rank[p->event[step].owner];
	int i, end;

	if (!in->len)
		return;
	i = memory_split(r, at);
	end = memory_split(r, at + in->len);
	for (int k = i; k < end; k++) {
		memory_after_writer(p, step, &r->run[k], "writes");
		memory_after_readers(p, step, &r->run[k]);
	}
	if (end - i < in->n) {
		memory_open(r, end, in->n - (end - i));
	} else if (end - i > in->n) {
		memmove(r->run + i + in->n, r->run + end,
			(size_t)(r->runs - end) * sizeof(*r->run));
		r->runs -= end - i - in->n;
	}
	for (int k = 0; k < in->n; k++)
		r->run[i + k] = (struct prove_run){at + in->piece[k].off, in->piece[k].index,
						   in->piece[k].node, step, -1};
}
