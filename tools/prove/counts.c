/* SPDX-License-Identifier: BSD-3-Clause */
/* counts.c - the counts and displacements of a case, and the nodes of its ranks. */
#include <string.h>
#include "prove/prove.h"

/* Returns few or nearly all of `most` elements. */
static size_t counts_uneven(size_t most, int number, int few)
{
	size_t some = (size_t)number % (most + 1);

	return few ? some : most - some;
}

/* In place, does every block come in where the block for the same rank goes out? */
static int counts_are_symmetric(const struct prove_case *c)
{
	return c->form != PROVE_OUT_OF_PLACE;
}

/* Returns the number of elements from rank i to rank j, for the kinds where both matter. */
static size_t counts_between(const struct prove_case *c, int i, int j)
{
	int symmetric = counts_are_symmetric(c);
	size_t most = c->count;

	switch (c->vector) {
	case PROVE_RAGGED:
		return symmetric ? counts_uneven(most, 7 * (i + j) + i * j, (i + j) % 2)
				 : counts_uneven(most, 9 * i + 5 * j + i * j, (i + 2 * j) % 3);
	case PROVE_ZEROS: return (symmetric ? i + j : i + j / 2) % 2 ? most : 0;
	case PROVE_ONE:
		return i + j == c->nranks - 1 && (i == 0 || (symmetric && j == 0)) ? most : 0;
	default: return most;
	}
}

/* Returns the number of elements of rank i. */
static size_t counts_of(const struct prove_case *c, int i)
{
	size_t most = c->count;

	switch (c->vector) {
	case PROVE_RAGGED: return counts_uneven(most, 5 * i + c->nranks, i % 2);
	case PROVE_ZEROS: return i % 2 ? most : 0;
	case PROVE_ONE: return i == c->nranks / 2 ? most : 0;
	default: return most;
	}
}

/*
 * Fills in displacements.  With gaps it permutes the blocks, in one way the blocks that a rank receives and in another the
 * blocks that it sends.
 */
static void counts_displs(const struct prove_case *c, const size_t *counts, size_t *displs,
			  int receives)
{
	int n = c->nranks, gaps = c->displs != PROVE_CONTIGUOUS;
	size_t at = 0;

	for (int k = 0; k < n; k++) {
		int i = !gaps ? k : receives ? (k + n / 2 + 1) % n : (2 * n - 2 - k) % n;

		if (gaps)
			at += (size_t)(k + receives) % 3;
		displs[i] = at;
		at += counts[i];
	}
}

void prove_spec_counts(struct prove *p)
{
	const struct prove_case *c = p->c;
	size_t n = (size_t)c->nranks;
	int matrix = prove_kind_matrix(c->info->kind), rows = matrix ? c->nranks : 1;
	int receives = matrix && !counts_are_symmetric(c);

	for (int r = 0; r < rows; r++) {
		size_t row = n * (size_t)r;

		for (int i = 0; i < c->nranks; i++) {
			p->sendcounts[row + (size_t)i] =
				matrix ? counts_between(c, r, i) : counts_of(c, i);
			p->recvcounts[row + (size_t)i] =
				matrix ? counts_between(c, i, r) : counts_of(c, i);
		}
		counts_displs(c, p->sendcounts + row, p->senddispls + row, 0);
		counts_displs(c, p->recvcounts + row, p->recvdispls + row, receives);
	}
	for (size_t i = 0; i < n; i++)
		p->joined[i] = i * c->count;
}

void prove_spec_nodes(struct prove *p)
{
	static const int32_t uneven[] = {7, 2, 2, 2, 5, 5, 5, 5, 5, 0};
	int last = sizeof(uneven) / sizeof(uneven[0]) - 1;

	for (int r = 0; r < p->c->nranks; r++)
		switch (p->c->node_size ? 0 : p->c->layout) {
		case 0: p->nodes[r] = r / (p->c->node_size ? p->c->node_size : 1); break;
		case 1: p->nodes[r] = r / 2; break;
		case 2: p->nodes[r] = r / 4; break;
		case 3: p->nodes[r] = uneven[r < last ? r : last]; break;
		case 4: p->nodes[r] = r % 2; break;
		default: p->nodes[r] = (r * r + r / 3) % 5; break; /* scattered */
		}
}
