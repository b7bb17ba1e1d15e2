/* SPDX-License-Identifier: BSD-3-Clause */
/* set.c - sets of numbers of ranks. */
#include <stdio.h>
#include "prove/prove.h"

int prove_set_has(const struct prove_set *set, int nranks)
{
	return (int)(set->bit[nranks / 64] >> nranks % 64 & 1);
}

void prove_set_add(struct prove_set *set, int nranks)
{
	set->bit[nranks / 64] |= (uint64_t)1 << nranks % 64;
}

void prove_set_text(const struct prove_set *set, char *text, size_t size)
{
	size_t n = 0;

	snprintf(text, size, "none");
	for (int first = 1, last; first <= PROVE_RANKS_MAX && n < size; first = last + 1) {
		last = first;
		if (!prove_set_has(set, first))
			continue;
		while (last < PROVE_RANKS_MAX && prove_set_has(set, last + 1))
			last++;
		n += (size_t)snprintf(text + n, size - n, last > first ? "%s%d-%d" : "%s%d",
				      n ? ", " : "", first, last);
	}
}
