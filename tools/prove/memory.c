/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - the symbolic memory of a rank as runs.  A run is a stretch of consecutive bytes of one
 * expression, which one step wrote last and the same steps have read since.
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
		tool_grow(pieces->piece, &pieces->cap, pieces->n + 1, sizeof(*pieces->piece));
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
	r->run = tool_grow(r->run, &r->cap_runs, r->runs + more, sizeof(*r->run));
	memmove(r->run + i + more, r->run + i, (size_t)(r->runs - i) * sizeof(*r->run));
	r->runs += more;
}

/* Finds a run as prove_memory_find, where it is often one of the next after run i. */
static int memory_find_next(const struct prove_rank *r, uint64_t at, int i)
{
	enum { NEAR = 4 };

	for (int k = i; k < i + NEAR && k + 1 < r->runs; k++)
		if (r->run[k + 1].at > at)
			return k;
	return prove_memory_find(r, at);
}

/* Makes a run begin exactly at `at`, which run i holds.  Returns the index of the run. */
static int memory_split_run(struct prove_rank *r, uint64_t at, int i)
{
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

/* Returns the index of the run that begins exactly at `at`; splits a run if there is none. */
static int memory_split(struct prove_rank *r, uint64_t at)
{
	return memory_split_run(r, at, prove_memory_find(r, at));
}

/* Does the same for the end of bytes that begin with run i. */
static int memory_split_end(struct prove_rank *r, uint64_t at, int i)
{
	return memory_split_run(r, at, memory_find_next(r, at, i));
}

void prove_memory_begin(struct prove_rank *r)
{
	struct prove_run unset = {.node = PROVE_UNSET, .writer = -1, .readers = -1};

	r->run = tool_grow(r->run, &r->cap_runs, 4, sizeof(*r->run));
	r->runs = 2;
	r->run[0] = r->run[1] = unset;
	r->run[1].at = r->end + 1;
	for (int k = 0; k < r->ins; k++) {
		int i = memory_split(r, r->in[k].at);

		memory_split_end(r, r->in[k].at + r->in[k].len, i);
		r->run[i].node = r->in[k].symbol;
		r->run[i].index = r->in[k].index;
	}
}

/* ------------------------------------------------------------------- races -- */

/* Returns the name of the memory in which an address lies, and its beginning. */
static const char *memory_name(const struct prove_rank *r, uint64_t at, uint64_t *begin)
{
	*begin = r->staging;
	if (at >= *begin)
		return "staging memory";
	*begin = r->base[COLL_BUFFER_SCRATCH];
	if (at >= *begin)
		return "scratch memory";
	*begin = r->user[COLL_BUFFER_RECV];
	if (at >= *begin && at < *begin + r->size[COLL_BUFFER_RECV])
		return "receive buffer";
	*begin = r->user[COLL_BUFFER_SEND];
	return "send buffer";
}

static void memory_race(struct prove *p, int earlier, int step, const char *did, const char *does,
			uint64_t at)
{
	char text[128];
	uint64_t begin;
	const char *name = memory_name(&p->rank[p->event[step].owner], at, &begin);

	prove_step_text(p, earlier, text, sizeof(text));
	prove_fail_step(p, PROVE_RACE, step,
			"%s byte %llu of the %s, which %s %s: neither is certain to be complete "
			"before the other begins",
			does, (unsigned long long)(at - begin), name, text, did);
}

/* Has a race been found?  Further races cost long searches, and tell nothing new. */
static int memory_has_race(const struct prove *p)
{
	return (p->failed & 1u << PROVE_RACE) != 0;
}

static void memory_after_writer(struct prove *p, int step, const struct prove_run *run,
				const char *does)
{
	if (memory_has_race(p))
		return;
	if (run->writer < 0 || run->writer == step || prove_before(p, run->writer, step))
		return;
	memory_race(p, run->writer, step, "writes", does, run->at);
}

static void memory_after_readers(struct prove *p, int step, const struct prove_run *run)
{
	for (int k = run->readers; k >= 0 && !memory_has_race(p); k = p->reader[k].next)
		if (p->reader[k].to != step && !prove_before(p, p->reader[k].to, step))
			memory_race(p, p->reader[k].to, step, "reads", "writes", run->at);
}

/* ---------------------------------------------------------------- accesses -- */

/* Adds a reader to a run.  Lists grow at their head only, so the two halves of a run can share their list. */
static void memory_add_reader(struct prove *p, int step, struct prove_run *run)
{
	p->reader = tool_grow(p->reader, &p->cap_readers, p->nreaders + 1, sizeof(*p->reader));
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
	memory_split_end(r, at + len, i);
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
	end = memory_split_end(r, at + in->len, i);
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
