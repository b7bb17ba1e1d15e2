/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.c - copies to and from a device as steps of a schedule.
 *
 * Algorithms know nothing of devices: their steps read and write staging memory, which stands in for
 * the buffers.  The ranges that the steps read and write determine the copies:
 *
 *   in bytes that a step reads before any step has written them.  Every step that reads them waits for
 *         the copy.  The copies are in the order in which the schedule needs them.
 *   out bytes of the receive buffer that a step writes.  The copy waits for the last step that
 *         writes them.
 *
 * No other byte is copied: no gap between blocks, and no byte that stays as it is in place.  Steps may run
 * in the order in which they were appended.  A step that overwrites bytes waits for the steps that read
 * them, on this rank or through other ranks.  So a copy out waits for the copy in of the same bytes
 * without an edge of its own, also where the buffers of a scaled reduction overlap.
 */
#include "schedule/stage.h"

#include <stdlib.h>

enum { STAGE_ALIGN = 64 };

/* A maximal interval of staging memory that every step reads or writes entirely or not at all. */
struct stage_cell {
	size_t begin;
	int first_read, first_write,
		last_write; /* steps, or -1; last_write counts writes to the receive buffer only */
	int in, out;        /* the steps that copy the interval, or -1 */
};

/* A copy of consecutive cells. */
struct stage_copy {
	int first; /* the step that first needs the copy */
	int part;
	size_t cell, ncells, len;
};

struct stage_work {
	const struct stage *stage;
	struct sched *s;
	int nsteps; /* steps of the algorithm */
	size_t most;
	size_t *cuts;
	size_t ncuts;
	struct stage_cell *cell; /* one cell less than there are cuts */
	struct stage_copy *copy;
	size_t ncopies;
};

/* An interval of staging memory that a step reads or writes. */
struct stage_range {
	size_t begin, end;
	int buf, writes;
};

/* The most ranges that a step reads and writes. */
enum { STAGE_RANGES = 3 };

/* ---------------------------------------------------------------------- placing -- */

/* Returns the buffer whose list `buf` belongs to: buf itself, or in place the other buffer, or -1: there is no list. */
static int stage_list(const struct stage *stage, int buf)
{
	const int other = buf == SCHED_SEND ? SCHED_RECV : SCHED_SEND;

	return stage->list & 1 << buf                        ? buf
	       : stage->in_place && stage->list & 1 << other ? other
							     : -1;
}

uintptr_t stage_user_at(const struct stage *stage, int part, size_t off)
{
	const int list = stage_list(stage, part);
	const size_t block = stage->block;

	if (list < 0)
		return stage->user[part] + off;
	off -= stage->at[list];
	return stage->address[list] + stage->displs[list][off / block] * stage->elem + off % block;
}

/* Finds the span of each buffer that the staging memory holds.  Returns 1 if both buffers share one span, as in place. */
static int stage_spans(const struct stage *stage, struct stage_span span[2])
{
	int both;

	for (int buf = SCHED_SEND; buf <= SCHED_RECV; buf++)
		span[buf] = stage->staged & 1 << buf ? stage->span[buf] : (struct stage_span){0, 0};
	both = stage->in_place && span[0].end && span[1].end;
	if (both && stage->list) {
		span[0] = span[1] = span[stage->list & 1 << SCHED_RECV ? 1 : 0];
	} else if (both) {
		span[0].begin = span[0].begin < span[1].begin ? span[0].begin : span[1].begin;
		span[0].end = span[0].end > span[1].end ? span[0].end : span[1].end;
		span[1] = span[0];
	}
	return both;
}

/* In place the buffers keep their offset to each other. */
void stage_layout(struct stage *stage)
{
	struct stage_span span[2];
	int both = stage_spans(stage, span);
	size_t size = span[0].end - span[0].begin;
	size_t gap = both ? 0 : (size + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;

	stage->need = both ? size : gap + span[1].end - span[1].begin;
	for (int buf = SCHED_SEND; buf <= SCHED_RECV; buf++) {
		size_t begin = buf ? gap : 0;

		stage->near[buf] = span[buf].begin;
		stage->user[buf] = span[buf].begin - begin;
		stage->at[buf] = begin + stage->address[buf] - span[buf].begin;
		if (both && stage_list(stage, buf) >= 0)
			stage->at[buf] =
				stage->list & 1 << buf ? 0 : (size_t)stage->rank * stage->block;
	}
}

/* ------------------------------------------------------------ ranges of the steps -- */

static int stage_add(const struct stage *stage, struct stage_range *range, int n, struct slice at,
		     size_t len, int writes)
{
	size_t begin = stage->at[at.buf == SCHED_RECV] + at.off;

	if (!len || at.buf == SCHED_SCRATCH || !(stage->staged & 1 << at.buf))
		return n;
	range[n] = (struct stage_range){begin, begin + len, (int)at.buf, writes};
	return n + 1;
}

/* Lists the ranges of a step, first the ranges that it reads.  Returns their number. */
static int stage_ranges(const struct stage_work *w, int i, struct stage_range *range)
{
	const struct stage *stage = w->stage;
	const struct step *step = &w->s->step[i];
	size_t len = step->len;
	int n = 0;

	switch (step->kind) {
	case STEP_SEND: return stage_add(stage, range, n, step->src, len, 0);
	case STEP_RECV: break;
	case STEP_FINISH: n = stage_add(stage, range, n, step->dst, len, 0); break;
	case STEP_REDUCE: n = stage_add(stage, range, n, step->other, len, 0); /* fall through */
	default: n = stage_add(stage, range, n, step->src, len, 0); break;
	}
	n = stage_add(stage, range, n, step->dst, len, 1);
	/* A copy in place does nothing, unless it scales. */
	if (step->kind == STEP_COPY && n == 2 && range[0].begin == range[1].begin &&
	    !sched_scales(w->s, step->src))
		return 0;
	return n;
}

/* ----------------------------------------------------------------------- cells -- */

static int stage_compare_cuts(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * Lists the begins and ends of all ranges, and cuts between them so that no cell is longer than a copy.
 */
static size_t stage_all_cuts(const struct stage_work *w, size_t *cuts)
{
	struct stage_range range[STAGE_RANGES];
	size_t n = 0;

	for (int i = 0; i < w->nsteps; i++)
		for (int k = stage_ranges(w, i, range) - 1; k >= 0; k--)
			for (size_t at = range[k].begin;; at += w->most) {
				int last = range[k].end - at <= w->most;

				if (cuts)
					cuts[n] = at;
				n++;
				if (!last)
					continue;
				if (cuts)
					cuts[n] = range[k].end;
				n++;
				break;
			}
	return n;
}

static int stage_cut(struct stage_work *w)
{
	size_t n = stage_all_cuts(w, NULL), unique = 0;

	w->cuts = malloc((n + 1) * sizeof(*w->cuts));
	w->cell = malloc((n + 1) * sizeof(*w->cell));
	w->copy = malloc((n + 1) * sizeof(*w->copy));
	if (!w->cuts || !w->cell || !w->copy)
		return COLL_ERR_NO_MEMORY;
	stage_all_cuts(w, w->cuts);
	qsort(w->cuts, n, sizeof(*w->cuts), stage_compare_cuts);
	for (size_t i = 0; i < n; i++)
		if (!unique || w->cuts[i] != w->cuts[unique - 1])
			w->cuts[unique++] = w->cuts[i];
	w->ncuts = unique;
	for (size_t i = 0; i < unique; i++)
		w->cell[i] = (struct stage_cell){w->cuts[i], -1, -1, -1, -1, -1};
	return COLL_SUCCESS;
}

/* Returns the cell that begins at a cut. */
static struct stage_cell *stage_find(const struct stage_work *w, size_t begin)
{
	const size_t *cut = bsearch(&begin, w->cuts, w->ncuts, sizeof(begin), stage_compare_cuts);

	return &w->cell[cut - w->cuts];
}

static void stage_mark(struct stage_work *w, int i)
{
	struct stage_range range[STAGE_RANGES];
	int n = stage_ranges(w, i, range);

	for (int k = 0; k < n; k++)
		for (struct stage_cell *c = stage_find(w, range[k].begin); c->begin < range[k].end;
		     c++) {
			int *first = range[k].writes ? &c->first_write : &c->first_read;

			*first = *first < 0 ? i : *first;
			if (range[k].writes && range[k].buf == SCHED_RECV)
				c->last_write = i;
		}
}

/* ---------------------------------------------------------------------- copies -- */

/* Does a step read the bytes of before the operation? */
static int stage_reads_input(const struct stage_cell *c)
{
	return c->first_read >= 0 && (c->first_write < 0 || c->first_read <= c->first_write);
}

static int stage_is_copied(const struct stage_cell *c, int kind)
{
	return kind == STEP_COPY_IN ? stage_reads_input(c) : c->last_write >= 0;
}

/* Returns the buffer to which an offset in the staging memory belongs; in place both are the same. */
static int stage_part(const struct stage *stage, size_t begin)
{
	return begin >= stage->near[SCHED_RECV] - stage->user[SCHED_RECV] ? SCHED_RECV : SCHED_SEND;
}

/* Does a cell continue a copy?  The blocks of a list follow one another in staging memory only. */
static int stage_continues(const struct stage_work *w, const struct stage_copy *last,
			   const struct stage_cell *c, int part)
{
	const size_t begin = w->cell[last->cell].begin;

	return last->len + c[1].begin - c->begin <= w->most && last->part == part &&
	       stage_user_at(w->stage, part, c->begin) ==
		       stage_user_at(w->stage, part, begin) + last->len;
}

/* Joins consecutive cells to copies of at most w->most bytes. */
static void stage_join(struct stage_work *w, int kind)
{
	struct stage_copy *last = NULL;

	w->ncopies = 0;
	for (size_t k = 0; k + 1 < w->ncuts; k++) {
		const struct stage_cell *c = &w->cell[k];
		size_t len = c[1].begin - c->begin;
		int part = stage_part(w->stage, c->begin);

		if (!stage_is_copied(c, kind)) {
			last = NULL;
			continue;
		}
		if (!last || !stage_continues(w, last, c, part)) {
			last = &w->copy[w->ncopies++];
			*last = (struct stage_copy){INT32_MAX, part, k, 0, 0};
		}
		if (c->first_read < last->first)
			last->first = c->first_read;
		last->ncells++;
		last->len += len;
	}
}

static int stage_compare_copies(const void *a, const void *b)
{
	const struct stage_copy *x = a, *y = b;

	return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
				    : (x->cell > y->cell) - (x->cell < y->cell);
}

/* Appends the copies of a kind; copies in are sorted by the first step that needs them. */
static void stage_append(struct stage_work *w, int kind)
{
	stage_join(w, kind);
	if (kind == STEP_COPY_IN)
		qsort(w->copy, w->ncopies, sizeof(*w->copy), stage_compare_copies);
	for (size_t i = 0; i < w->ncopies; i++) {
		const struct stage_copy *copy = &w->copy[i];
		struct stage_cell *c = &w->cell[copy->cell];
		int step =
			sched_staging_copy(w->s, kind, (uint32_t)copy->part, c->begin, copy->len);

		for (size_t k = 0; k < copy->ncells; k++)
			*(kind == STEP_COPY_IN ? &c[k].in : &c[k].out) = step;
	}
}

/* ------------------------------------------------------------------------ order -- */

/*
 * Makes a step wait for the copies in of its ranges.  The caller goes from the last step to the first, since the engine
 * takes edges last to first and the first step must become ready first.
 */
static void stage_wait_in(struct stage_work *w, int i)
{
	struct stage_range range[STAGE_RANGES];
	int n = stage_ranges(w, i, range), last = -1;

	for (int k = 0; k < n && !range[k].writes; k++)
		for (const struct stage_cell *c = stage_find(w, range[k].begin);
		     c->begin < range[k].end; c++) {
			if (c->in < 0 || c->in == last ||
			    (c->first_write >= 0 && c->first_write < i))
				continue;
			last = c->in;
			sched_after(w->s, i, last);
		}
}

static void stage_wait_out(struct stage_work *w)
{
	for (size_t k = 0; k + 1 < w->ncuts; k++) {
		const struct stage_cell *c = &w->cell[k];

		if (c->out >= 0 && (!k || c[-1].out != c->out || c[-1].last_write != c->last_write))
			sched_after(w->s, c->out, c->last_write);
	}
}

/*
 * Splits a copy from the send buffer to the receive buffer on which no step depends, like the copy of a rank's own block.
 * So its beginning is copied out while its end is copied in.
 */
static void stage_split(struct stage_work *w, int i)
{
	struct step whole = w->s->step[i];
	size_t most = w->most;

	if (whole.kind != STEP_COPY || whole.src.buf != SCHED_SEND || whole.dst.buf != SCHED_RECV ||
	    whole.earlier || whole.edge >= 0 || whole.len <= most || w->stage->in_place)
		return;
	w->s->step[i].len = most;
	for (size_t off = most; off < whole.len; off += most)
		sched_copy(w->s, sched_slice(SCHED_RECV, whole.dst.off + off),
			   sched_slice(SCHED_SEND, whole.src.off + off),
			   whole.len - off < most ? whole.len - off : most, -1);
}

static void stage_order(struct stage_work *w)
{
	for (int i = w->nsteps - 1; i >= 0; i--)
		stage_wait_in(w, i);
	stage_wait_out(w);
}

void stage_schedule(struct sched *s, const struct stage *stage, size_t longest)
{
	struct stage_work w = {.stage = stage, .s = s, .nsteps = s->nsteps};

	w.most = s->segment < longest ? s->segment : longest;
	for (int i = 0; i < w.nsteps; i++)
		stage_split(&w, i);
	w.nsteps = s->nsteps;
	if (!s->error && stage_cut(&w)) {
		s->error = COLL_ERR_NO_MEMORY;
	} else if (!s->error) {
		for (int i = 0; i < w.nsteps; i++)
			stage_mark(&w, i);
		stage_append(&w, STEP_COPY_IN);
		stage_append(&w, STEP_COPY_OUT);
		stage_order(&w);
	}
	free(w.cuts);
	free(w.cell);
	free(w.copy);
}
