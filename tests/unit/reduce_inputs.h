/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_inputs.h - numbers for which reductions are error-prone. */
#ifndef TESTS_REDUCE_INPUTS_H
#define TESTS_REDUCE_INPUTS_H

#include "../../tools/oracle/oracle.h"
#include "../lib/tap.h"

static inline void *inputs_alloc(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		bail_out("no memory for %zu bytes", bytes);
	return p;
}

static inline uint64_t inputs_random(void)
{
	static uint64_t drawn;

	return oracle_mix(1, drawn++);
}

enum { INPUTS_EDGES = 11 };

/* The error-prone magnitudes of a type, by number. */
static inline uint64_t inputs_edge(const struct oracle_format *t, int i)
{
	const uint64_t one = (uint64_t)1 << t->mantissa;
	const uint64_t edges[INPUTS_EDGES] = {0,
					      1,
					      one - 1,
					      one,
					      one + 1,
					      t->max,
					      t->inf,
					      t->inf + 1,
					      t->nan,
					      (uint64_t)t->bias * one,
					      oracle_sign(t) - 1};

	return edges[i];
}

/* Draws any bits, but half of the time from the error-prone values. */
static inline uint64_t inputs_element(const struct oracle_format *t)
{
	uint64_t r = inputs_random(), all = oracle_mask(t);
	uint64_t bits = inputs_random() & all;
	uint64_t one = (uint64_t)1 << t->mantissa;

	if (r & 1)
		return bits;
	if (!t->mantissa)
		return (r & 2 ? 0 : oracle_sign(t)) + (r >> 2) % 5 - 2;
	if (r & 2)
		return (inputs_edge(t, (int)((r >> 3) % INPUTS_EDGES)) |
			(r & 4 ? oracle_sign(t) : 0)) &
		       all;
	/* near one: results that round, cancel and tie */
	return (bits % (one * 2)) + (uint64_t)(t->bias - 1) * one;
}

static inline void inputs_fill(const struct oracle_format *t, void *array, size_t count)
{
	for (size_t i = 0; i < count; i++)
		oracle_store(t, array, i, inputs_element(t));
}

#endif
