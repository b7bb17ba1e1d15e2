/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - applies the steps to the ranks' symbolic memory, and compares the outputs with their
 * specification.
 */
#include "prove/prove.h"

/* ------------------------------------------------------------------ places -- */

static const char *const data_buffers[] = {"send buffer", "receive buffer", "scratch memory"};

/* Do the bytes of a staged buffer lie in the staging memory? */
static int data_is_staged(const struct prove_rank *r, uint64_t at, uint64_t len)
{
	return at >= r->staging && at - r->staging <= r->staging_size &&
	       len <= r->staging_size - (at - r->staging);
}

/* Returns the address of len bytes of a buffer.  Reports a range outside of the buffer and returns -1. */
static int64_t data_address(struct prove *p, int step, uint32_t buffer, uint64_t off, uint64_t len)
{
	const struct prove_rank *r = &p->rank[p->event[step].owner];

	if (!len)
		return 0;
	if (buffer > COLL_BUFFER_SCRATCH || off > r->size[buffer] || len > r->size[buffer] - off) {
		prove_fail_step(
			p, PROVE_RESULT, step,
			"touches %llu bytes at %llu of the %s, which has %llu",
			(unsigned long long)len, (unsigned long long)off,
			buffer > COLL_BUFFER_SCRATCH ? "unknown buffer" : data_buffers[buffer],
			buffer > COLL_BUFFER_SCRATCH ? 0ull : (unsigned long long)r->size[buffer]);
		return -1;
	}
	if (r->staged & 1 << buffer && !data_is_staged(r, r->base[buffer] + off, len)) {
		prove_fail_step(p, PROVE_RESULT, step,
				"touches %llu bytes at %llu of the %s, for which there is no "
				"staging memory",
				(unsigned long long)len, (unsigned long long)off,
				data_buffers[buffer]);
		return -1;
	}
	return (int64_t)(r->base[buffer] + off);
}

/* Returns the index of the output span that holds address `at`, or of the first span after it. */
static int data_span(const struct prove_rank *r, uint64_t at)
{
	int low = 0, high = r->outs;

	while (low < high) {
		int middle = (low + high) / 2;

		if (r->out[middle].at + r->out[middle].len <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Are all bytes of [at, at + len) output bytes? */
static int data_is_output(const struct prove_rank *r, uint64_t at, uint64_t len)
{
	uint64_t end = at + len;

	for (int i = data_span(r, at); at < end; i++) {
		if (i >= r->outs || r->out[i].at > at)
			return 0;
		at = r->out[i].at + r->out[i].len;
	}
	return 1;
}

/*
 * Returns the address that a step writes.  A step may write to scratch memory and to output bytes.  The staging memory of
 * the receive buffer may hold anything, since its copies out are steps themselves.
 */
static int64_t data_target(struct prove *p, int step, const coll_step_t *s)
{
	const struct prove_rank *r = &p->rank[p->event[step].owner];
	int64_t at = data_address(p, step, s->dst_buffer, s->dst, s->bytes);

	if (at < 0 || !s->bytes || s->dst_buffer == COLL_BUFFER_SCRATCH)
		return at;
	if (r->staged & 1 << COLL_BUFFER_RECV && s->dst_buffer == COLL_BUFFER_RECV)
		return at;
	if (data_is_output(r, (uint64_t)at, s->bytes))
		return at;
	prove_fail_step(p, PROVE_RESULT, step,
			"writes to byte %llu of the %s, where no output lies",
			(unsigned long long)s->dst, data_buffers[s->dst_buffer]);
	return -1;
}

/* Reports an overlap: source and destination of a step may be equal, but must not overlap otherwise. */
static void data_overlap(struct prove *p, int step, int64_t dst, int64_t src, uint64_t len)
{
	uint64_t distance = (uint64_t)(dst < src ? src - dst : dst - src);

	if (distance && distance < len)
		prove_fail_step(p, PROVE_RACE, step, "reads and writes bytes that overlap in part");
}

/* ------------------------------------------------------------------- steps -- */

/* Computes sum = a op b, combining bytes of the same index. */
static void data_combine(struct prove *p, int step, const struct prove_pieces *a,
			 const struct prove_pieces *b)
{
	uint64_t at = 0;

	p->sum.n = 0;
	p->sum.len = a->len;
	for (int i = 0, k = 0; at < a->len;) {
		const struct prove_piece *x = &a->piece[i], *y = &b->piece[k];
		uint64_t x_end = i + 1 < a->n ? x[1].off : a->len;
		uint64_t y_end = k + 1 < b->n ? y[1].off : b->len;
		uint64_t index = x->index + (at - x->off);
		int32_t node = PROVE_BAD;

		if (x->node >= 0 && y->node >= 0)
			node = prove_expr_pair(&p->expr, x->node, y->node);
		if (node >= 0 && index != y->index + (at - y->off)) {
			prove_fail_step(p, PROVE_RESULT, step,
					"combines byte %llu of an input with byte %llu of another",
					(unsigned long long)index,
					(unsigned long long)(y->index + (at - y->off)));
			node = PROVE_BAD;
		}
		prove_pieces_add(&p->sum, at, index, node);
		at = x_end < y_end ? x_end : y_end;
		i += at == x_end;
		k += at == y_end;
	}
	if (a->len % p->c->elem)
		prove_fail_step(p, PROVE_RESULT, step, "combines a part of an element");
}

/*
 * Does a step scale the elements that it reads from this buffer?  In an average of floats a step that copies or reduces scales
 * the elements of the send buffer.
 */
static int data_scales(const struct prove *p, uint32_t buffer)
{
	return p->c->average == PROVE_SCALED && buffer == COLL_BUFFER_SEND;
}

static void data_divide(struct prove *p, struct prove_pieces *pieces)
{
	for (int i = 0; i < pieces->n; i++)
		if (pieces->piece[i].node >= 0)
			pieces->piece[i].node = prove_expr_divide(&p->expr, pieces->piece[i].node);
}

/* Reads an operand, or the source of a copy.  Scales an input that must be scaled. */
static void data_read(struct prove *p, int step, int64_t at, uint32_t buffer, uint64_t len,
		      struct prove_pieces *out)
{
	prove_memory_read(p, step, (uint64_t)at, len, out);
	if (data_scales(p, buffer))
		data_divide(p, out);
}

static void data_copy(struct prove *p, int step, const coll_step_t *s)
{
	int64_t dst, src;

	if (!s->bytes)
		return;
	dst = data_target(p, step, s);
	src = data_address(p, step, s->src_buffer, s->src, s->bytes);
	/* A copy onto itself touches no memory, unless it scales. */
	if (dst < 0 || src < 0 || (dst == src && !data_scales(p, s->src_buffer)))
		return;
	data_overlap(p, step, dst, src, s->bytes);
	data_read(p, step, src, s->src_buffer, s->bytes, &p->a);
	prove_memory_write(p, step, (uint64_t)dst, &p->a);
}

static void data_reduce(struct prove *p, int step, const coll_step_t *s)
{
	int64_t dst = data_target(p, step, s);
	int64_t a = data_address(p, step, s->src_buffer, s->src, s->bytes);
	int64_t b = data_address(p, step, s->other_buffer, s->other, s->bytes);

	if (dst < 0 || a < 0 || b < 0)
		return;
	data_overlap(p, step, dst, a, s->bytes);
	data_overlap(p, step, dst, b, s->bytes);
	if (data_scales(p, s->src_buffer) && data_scales(p, s->other_buffer))
		prove_fail_step(p, PROVE_RESULT, step,
				"scales both operands, where a step can scale one");
	data_read(p, step, a, s->src_buffer, s->bytes, &p->a);
	data_read(p, step, b, s->other_buffer, s->bytes, &p->b);
	data_combine(p, step, &p->a, &p->b);
	prove_memory_write(p, step, (uint64_t)dst, &p->sum);
}

/* Copies between staging memory and the buffer for which it stands. */
static void data_stage(struct prove *p, int step, const coll_step_t *s)
{
	const struct prove_rank *r = &p->rank[p->event[step].owner];
	uint64_t own = r->staging + s->dst;
	uint64_t user = prove_staged_at(r, (int)s->dst_buffer, s->dst);

	if (!data_is_staged(r, own, s->bytes) || user >= r->staging ||
	    s->bytes > r->staging - user) {
		prove_fail_step(p, PROVE_RESULT, step,
				"copies from or to memory that is not there");
	} else if (s->kind == PROVE_COPY_IN) {
		prove_memory_read(p, step, user, s->bytes, &p->a);
		prove_memory_write(p, step, own, &p->a);
	} else if (!data_is_output(r, user, s->bytes)) {
		prove_fail_step(p, PROVE_RESULT, step,
				"copies to byte %llu of the %s, where no output lies",
				(unsigned long long)(user - r->user[s->dst_buffer]),
				data_buffers[s->dst_buffer]);
	} else {
		prove_memory_read(p, step, own, s->bytes, &p->a);
		prove_memory_write(p, step, user, &p->a);
	}
}

static void data_finish(struct prove *p, int step, const coll_step_t *s)
{
	int64_t dst = data_target(p, step, s);

	if (dst < 0)
		return;
	prove_memory_read(p, step, (uint64_t)dst, s->bytes, &p->a);
	data_divide(p, &p->a);
	prove_memory_write(p, step, (uint64_t)dst, &p->a);
}

/* Moves the data of a message when its receive completes. */
static void data_receive(struct prove *p, int step, const coll_step_t *s)
{
	int mate = p->event[step].mate;
	const coll_step_t *send = prove_step(p, mate);
	int64_t src = data_address(p, mate, send->src_buffer, send->src, send->bytes);
	int64_t dst = data_target(p, step, s), own = dst;

	if (s->kind == COLL_STEP_RECV_REDUCE)
		own = data_address(p, step, s->src_buffer, s->src, s->bytes);
	if (src < 0 || dst < 0 || own < 0)
		return;
	prove_memory_read(p, mate, (uint64_t)src, send->bytes, &p->b);
	if (s->kind == COLL_STEP_RECV) {
		prove_memory_write(p, step, (uint64_t)dst, &p->b);
		return;
	}
	data_overlap(p, step, dst, own, s->bytes);
	data_read(p, step, own, s->src_buffer, s->bytes, &p->a);
	if (s->unscaled && p->c->average == PROVE_SCALED)
		data_divide(p, &p->b);
	data_combine(p, step, s->swapped ? &p->b : &p->a, s->swapped ? &p->a : &p->b);
	prove_memory_write(p, step, (uint64_t)dst, &p->sum);
}

static void data_step(struct prove *p, int step)
{
	const coll_step_t *s = prove_step(p, step);

	switch (s->kind) {
	case COLL_STEP_SEND: break; /* the receive reads the memory */
	case COLL_STEP_RECV:
	case COLL_STEP_RECV_REDUCE: data_receive(p, step, s); break;
	case COLL_STEP_REDUCE: data_reduce(p, step, s); break;
	case COLL_STEP_COPY: data_copy(p, step, s); break;
	case COLL_STEP_FINISH: data_finish(p, step, s); break;
	case PROVE_COPY_IN:
	case PROVE_COPY_OUT: data_stage(p, step, s); break;
	default: prove_fail_step(p, PROVE_RESULT, step, "is of no known kind"); break;
	}
}

/* ----------------------------------------------------------------- outputs -- */

static void data_wrong(struct prove *p, const struct prove_rank *r, uint64_t at,
		       const struct prove_span *want, uint64_t index, const struct prove_run *run)
{
	unsigned long long byte = at - r->user[COLL_BUFFER_RECV];
	char have[256] = "the old content";

	if (run->node == PROVE_BAD)
		return;
	if (run->node >= 0)
		prove_expr_text(&p->expr, run->node, have, sizeof(have));
	if (want->symbol == PROVE_REDUCED)
		prove_fail(
			p, PROVE_RESULT,
			"rank %d, output byte %llu: expected byte %llu of all ranks combined, got "
			"byte %llu of %s",
			r->rank, byte, (unsigned long long)index,
			(unsigned long long)(run->index + (at - run->at)), have);
	else
		prove_fail(p, PROVE_RESULT,
			   "rank %d, output byte %llu: expected byte %llu of rank %d's input, got "
			   "byte "
			   "%llu of %s",
			   r->rank, byte, (unsigned long long)index, want->symbol,
			   (unsigned long long)(run->index + (at - run->at)), have);
}

/* Checks that an allreduce gives every rank the expression that rank 0 has at the same index. */
static void data_same(struct prove *p, const struct prove_rank *r, uint64_t at, uint64_t end,
		      const struct prove_run *run)
{
	const struct prove_rank *zero = &p->rank[0];
	uint64_t shift = zero->user[COLL_BUFFER_RECV] - r->user[COLL_BUFFER_RECV];

	for (int i = prove_memory_find(zero, at + shift); zero->run[i].at < end + shift; i++) {
		char have[160], other[160];

		if (zero->run[i].node == run->node || zero->run[i].node < 0)
			continue;
		prove_expr_text(&p->expr, run->node, have, sizeof(have));
		prove_expr_text(&p->expr, zero->run[i].node, other, sizeof(other));
		prove_fail(p, PROVE_ORDER,
			   "rank %d, output byte %llu: rank 0 has %s, this rank has %s: other bits",
			   r->rank, (unsigned long long)(at - r->user[COLL_BUFFER_RECV]), other,
			   have);
		return;
	}
}

static void data_check(struct prove *p, int actor, const struct prove_span *out)
{
	const struct prove_rank *r = &p->rank[actor];
	uint64_t end = out->at + out->len, at = out->at;

	for (int i = prove_memory_find(r, at); at < end; i++) {
		const struct prove_run *run = &r->run[i];
		uint64_t index = out->index + (at - out->at);
		uint64_t until = run[1].at < end ? run[1].at : end;

		if (run->node < 0 || run->index + (at - run->at) != index ||
		    (out->symbol >= 0 && run->node != out->symbol))
			data_wrong(p, r, at, out, index, run);
		else if (out->symbol < 0 && prove_expr_check(p, actor, index, run->node) &&
			 p->c->info->kind == COLL_KIND_ALLREDUCE && actor)
			data_same(p, r, at, until, run);
		at = until;
	}
	p->totals.elements += out->len / p->c->elem;
}

void prove_data(struct prove *p)
{
	prove_expr_begin(&p->expr, p->nactors);
	p->nreaders = 0;
	for (int i = 0; i < p->nactors; i++)
		prove_memory_begin(&p->rank[i]);
	for (int k = 0; k < p->ordered; k++)
		data_step(p, p->order[k]);
	for (int i = 0; i < p->nactors; i++)
		for (int k = 0; k < p->rank[i].outs; k++)
			data_check(p, i, &p->rank[i].out[k]);
}
