/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_halving.c - recursive halving: in each of log2(n) rounds a rank gives its partner the half
 * of its data that the partner sums, and adds the received half to the half that it keeps (Thakur,
 * Rabenseifner and Gropp, 2005).
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

struct halving {
	struct fold fold;
	struct slice data, sum; /* where this rank's data lie, and where the sums go */
	int ready;              /* the step that completes the data, or -1 */
};

struct span {
	size_t off, len; /* bytes within the data */
};

static void halving_begin(struct sched *s, struct halving *h, struct slice sum, size_t len)
{
	h->ready = h->fold.lender < 0 ? -1 : fold_borrow(s, &h->fold, sum, len);
	h->data = h->fold.lender < 0 ? sched_slice(SCHED_SEND, 0) : sum;
	h->sum = sum;
}

/* Appends a round whose sum goes to `sum`.  The lower rank's data stay on the left.  Returns the step that sends. */
static int halving_round_to(struct sched *s, struct halving *h, int distance, struct span give,
			    struct span keep, struct slice sum)
{
	int upper = (h->fold.rank & distance) != 0;
	int partner = fold_real_rank(&h->fold, h->fold.rank ^ distance);
	struct slice given = sched_slice(h->data.buf, h->data.off + give.off);
	struct slice kept = sched_slice(h->data.buf, h->data.off + keep.off);
	int sent = sched_send(s, partner, given, give.len, h->ready);

	h->ready = sched_recv_reduce(s, partner, sum, kept, upper, keep.len, h->ready);
	h->data = h->sum;
	return sent;
}

static int halving_round(struct sched *s, struct halving *h, int distance, struct span give,
			 struct span keep)
{
	return halving_round_to(s, h, distance, give, keep,
				sched_slice(h->sum.buf, h->sum.off + keep.off));
}

/* --------------------------------------------------------------------- Rabenseifner -- */

/* Returns the span of pieces first .. first + n - 1 of `power` near-equal pieces. */
static struct span halving_pieces(const struct sched *s, const struct fold *f, size_t count,
				  int first, int n)
{
	size_t p = (size_t)f->power, a = (size_t)first, b = (size_t)(first + n);
	size_t begin = count / p * a + count % p * a / p;
	size_t end = count / p * b + count % p * b / p;

	return (struct span){begin * s->elem, (end - begin) * s->elem};
}

/*
 * Appends the first half: the rounds of sums.  Near ranks come first, so that every sum is of neighbours, in rank order.
 * Returns the piece that this rank has in the end.  sent[] becomes the steps that sent the other pieces away.
 */
static int halving_sum(struct sched *s, struct halving *h, size_t count, int *sent)
{
	int piece = 0;

	for (int distance = 1; distance < h->fold.power; distance *= 2) {
		int n = h->fold.power / 2 / distance;
		struct span lower = halving_pieces(s, &h->fold, count, piece, n);
		struct span upper = halving_pieces(s, &h->fold, count, piece + n, n);

		if (h->fold.rank & distance) {
			*sent++ = halving_round(s, h, distance, lower, upper);
			piece += n;
		} else {
			*sent++ = halving_round(s, h, distance, upper, lower);
		}
	}
	return piece;
}

/*
 * Appends the second half: the rounds backwards.  Each piece that was sent away, the last by sent[-1], comes back as a sum.
 */
static void halving_spread(struct sched *s, const struct halving *h, size_t count, int piece,
			   const int *sent)
{
	int ready = h->ready, before = -1, returned;

	for (int n = 1; n < h->fold.power; n *= 2) {
		struct span own = halving_pieces(s, &h->fold, count, piece, n);
		struct span other = halving_pieces(s, &h->fold, count, piece ^ n, n);
		int distance = h->fold.power / 2 / n;
		int partner = fold_real_rank(&h->fold, h->fold.rank ^ distance);
		int out = sched_send(s, partner, sched_slice(SCHED_RECV, own.off), own.len, ready);

		sched_after(s, out, before); /* and so after all steps that precede it */
		before = out;
		ready = sched_recv(s, partner, sched_slice(SCHED_RECV, other.off), other.len,
				   *--sent);
		piece &= ~n;
	}
	if (h->fold.lender < 0)
		return;
	returned =
		sched_send(s, h->fold.lender, sched_slice(SCHED_RECV, 0), count * s->elem, ready);
	sched_after(s, returned, before);
}

void halving_allreduce(struct sched *s, const struct work *w)
{
	struct halving h = {.fold = fold_of(s->rank, s->nranks)};
	size_t len = w->count * s->elem;
	int sent[8 * sizeof(int)], piece;
	struct span own;

	if (h.fold.rank < 0) {
		fold_lend(s, len, len);
		return;
	}
	halving_begin(s, &h, sched_slice(SCHED_RECV, 0), len);
	piece = halving_sum(s, &h, w->count, sent);
	own = halving_pieces(s, &h.fold, w->count, piece, 1);
	h.ready = sched_finish(s, sched_slice(SCHED_RECV, own.off), own.len, h.ready);
	halving_spread(s, &h, w->count, piece, sent + rounds(h.fold.power));
}

/*
 * In each half the ranks of the rounds together send all data power - 1 times: half of the data of all
 * ranks, then a quarter of the data twice, and so on.  n - power ranks lend their data and get the
 * result.
 */
void halving_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	int power = fold_of(0, nranks).power;

	c->messages = 2 * ((uint64_t)power * rounds(power) + (uint64_t)(nranks - power));
	c->bytes = 2 * (uint64_t)(nranks - 1) * w->count * elem;
}

/* ---------------------------------------------------------------- reduce and scatter -- */

/* Returns the span of the blocks of n ranks of the rounds, and of the neighbours that lent them data. */
static struct span halving_blocks(const struct fold *f, size_t len, int first, int n)
{
	int last = first + n;
	int begin = first < f->extra ? 2 * first : first + f->extra;
	int end = last < f->extra ? 2 * last : last + f->extra;

	return (struct span){(size_t)begin * len, (size_t)(end - begin) * len};
}

/*
 * Appends the rounds.  Far ranks come first, so that block r ends at rank r.  The last sum goes to `last`, unless that is
 * NULL.  Returns the span that this rank has in the end.
 */
static struct span halving_collect(struct sched *s, struct halving *h, size_t len,
				   const struct slice *last)
{
	int first = 0;

	for (int n = h->fold.power / 2; n; n /= 2) {
		struct span lower = halving_blocks(&h->fold, len, first, n);
		struct span upper = halving_blocks(&h->fold, len, first + n, n);
		int up = (h->fold.rank & n) != 0;
		struct span give = up ? lower : upper, keep = up ? upper : lower;

		if (n == 1 && last)
			halving_round_to(s, h, n, give, keep, *last);
		else
			halving_round(s, h, n, give, keep);
		first += up ? n : 0;
	}
	return halving_blocks(&h->fold, len, first, 1);
}

/* For a power of two ranks: the last round sums this rank's block alone, in its receive buffer. */
static void halving_scatter_all(struct sched *s, struct halving *h, size_t len)
{
	const struct slice result = sched_slice(SCHED_RECV, 0);

	halving_begin(s, h,
		      sched_slice(SCHED_SCRATCH, h->fold.power > 2
							 ? sched_scratch(s, (size_t)s->nranks * len)
							 : 0),
		      (size_t)s->nranks * len);
	halving_collect(s, h, len, &result);
	sched_finish(s, result, len, h->ready);
}

void halving_reduce_scatter(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem, all = (size_t)s->nranks * len;
	struct halving h = {.fold = fold_of(s->rank, s->nranks)};
	struct slice sum;
	struct span own;

	if (!h.fold.extra && h.fold.power > 1) {
		halving_scatter_all(s, &h, len);
		return;
	}
	if (h.fold.rank < 0) {
		fold_lend(s, all, len);
		return;
	}
	sum = sched_slice(SCHED_SCRATCH, sched_scratch(s, all));
	halving_begin(s, &h, sum, all);
	own = halving_collect(s, &h, len, NULL);
	sum.off += own.off;
	h.ready = sched_finish(s, sum, own.len, h.ready);
	if (h.fold.lender >= 0)
		sched_send(s, h.fold.lender, sum, len, h.ready);
	sum.off +=
		own.len - len; /* the second of two blocks, if the first block is the neighbour's */
	sched_copy(s, sched_slice(SCHED_RECV, 0), sum, len, h.ready);
}

/* The cost of the first half of the allreduce; then each rank outside the rounds gets its block back. */
void halving_reduce_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks, power = (uint64_t)fold_of(0, nranks).power;

	c->messages = power * rounds((int)power) + 2 * (n - power);
	c->bytes = ((n - 1) * n + n - power) * w->count * elem;
}
