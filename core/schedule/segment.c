/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c - blocks and their segments, ranks in a tree and on a ring, folding. */
#include "schedule/segment.h"
#include "base/kind.h"

struct blocks blocks_of(size_t count, const size_t *counts, const size_t *displs)
{
	return (struct blocks){.each = count, .counts = counts, .displs = displs};
}

struct blocks blocks_cut(const struct sched *s, size_t total)
{
	const size_t n = (size_t)s->nranks;

	return (struct blocks){.each = total / n, .longer = total % n};
}

size_t blocks_longest(const struct sched *s, const struct blocks *b)
{
	size_t longest = 0;

	if (!b->counts)
		return blocks_len(s, b, 0);
	for (int r = 0; r < s->nranks; r++)
		if (b->counts[r] > longest)
			longest = b->counts[r];
	return longest * s->elem;
}

uint64_t blocks_others(const size_t *counts, size_t count, int nranks, int but)
{
	uint64_t sum = 0;

	for (int r = 0; r < nranks; r++)
		if (r != but)
			sum += counts ? counts[r] : count;
	return sum;
}

int segment_count(const struct sched *s, int kind, size_t len)
{
	if (!kind_at(kind)->own_counts)
		return sched_segments(s, len);
	return len < s->segment ? 1 : (int)(len / s->segment + 1);
}

void segment_send(struct sched *s, int kind, int peer, struct slice src, size_t len, int after)
{
	const int n = segment_count(s, kind, len);

	for (int g = 0; g < n; g++)
		sched_send(s, peer, sched_slice(src.buf, src.off + sched_segment_off(s, len, g)),
			   sched_segment_len(s, len, g), after);
}

void segment_recv(struct sched *s, int kind, int peer, struct slice dst, size_t len, int after)
{
	const int n = segment_count(s, kind, len);

	for (int g = 0; g < n; g++)
		sched_recv(s, peer, sched_slice(dst.buf, dst.off + sched_segment_off(s, len, g)),
			   sched_segment_len(s, len, g), after);
}

int tree_reach(const struct sched *s, int distance)
{
	int reach = 1;

	while (reach < s->nranks && !(distance & reach))
		reach *= 2;
	return reach;
}

int tree_distance(const struct sched *s, int root)
{
	return ring_rank(s, -root);
}

int tree_rank(const struct sched *s, int root, int distance)
{
	return (root + distance) % s->nranks;
}

int tree_size(const struct sched *s, int distance)
{
	int reach = tree_reach(s, distance), rest = s->nranks - distance;

	return reach < rest ? reach : rest;
}

struct fold fold_of(int rank, int nranks)
{
	struct fold f = {.power = 1, .lender = -1};

	while (f.power <= nranks / 2)
		f.power *= 2;
	f.extra = nranks - f.power;
	if (rank >= 2 * f.extra) {
		f.rank = rank - f.extra;
	} else if (rank % 2) {
		f.rank = rank / 2;
		f.lender = rank - 1;
	} else {
		f.rank = -1;
	}
	return f;
}

int fold_real_rank(const struct fold *f, int rank)
{
	return rank < f->extra ? 2 * rank + 1 : rank + f->extra;
}

void fold_lend(struct sched *s, size_t len, size_t result)
{
	int sent = sched_send(s, s->rank + 1, sched_slice(SCHED_SEND, 0), len, -1);

	sched_recv(s, s->rank + 1, sched_slice(SCHED_RECV, 0), result, sent);
}

int fold_borrow(struct sched *s, const struct fold *f, struct slice dst, size_t len)
{
	return sched_recv_reduce(s, f->lender, dst, sched_slice(SCHED_SEND, 0), 1, len, -1);
}

uint64_t hops(int distance)
{
	return (uint64_t)__builtin_popcount((unsigned int)distance);
}

uint64_t rounds(int nranks)
{
	uint64_t n = 0;

	for (int distance = 1; distance < nranks; distance *= 2)
		n++;
	return n;
}
