/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives_v_test.c - the collectives that only move data, with equal counts and with a count
 * for each pair of ranks: every algorithm, every root, with and without gaps between blocks, in
 * place and out of place, on 1 to 9 ranks.  After each call the test compares all memory, so that a
 * write beside the blocks shows.
 */
#include "../lib/calls.h"

#include <ctype.h>

enum { NRANKS_MAX = 9 };

/* ------------------------------------------------------------------------- sweeps -- */

static const int32_t kinds[] = {
	COLL_KIND_BROADCAST, COLL_KIND_ALLGATHER, COLL_KIND_ALLTOALL,
	COLL_KIND_GATHER,    COLL_KIND_SCATTER,   COLL_KIND_ALLGATHERV,
	COLL_KIND_ALLTOALLV, COLL_KIND_GATHERV,   COLL_KIND_SCATTERV,
};

static int try_call(void *user, const struct oracle_case *like)
{
	static const int32_t dtypes[] = {COLL_INT8, COLL_FLOAT16, COLL_INT32, COLL_FLOAT64};
	struct oracle_case c = *like;

	c.dtype = dtypes[(c.count + (size_t)c.root) % 4];
	return calls_try(user, &c);
}

static void sweep(struct rank *r)
{
	static const size_t counts[] = {0, 1, 3, 250, 3000};
	const int32_t *kind = r->user;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		const struct oracle_case c = {.kind = *kind, .count = counts[i]};

		if (!oracle_places(&c, r->nranks, try_call, r))
			return;
	}
}

/* "COLL_ALLGATHERV_ALGORITHM" */
static void name_option(char option[64], int32_t kind)
{
	snprintf(option, 64, "COLL_%s_ALGORITHM", coll_kind_name(kind));
	for (; *option; option++)
		*option = (char)toupper((unsigned char)*option);
}

/* Every algorithm of the kind. */
static void test_kind(const char *backend, int processes, int nranks, const int32_t *kind)
{
	struct ranks_job job = {backend, nranks, processes, sweep, (void *)(uintptr_t)kind};
	coll_algorithm_info_t a = {.size = sizeof(a)};
	char option[64];
	int tried = 0;

	name_option(option, *kind);
	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (coll_algorithm(i, &a) || a.kind != *kind)
			continue;
		setenv(option, a.name, 1);
		ranks_ok(&job, "%s by %s", coll_kind_name(*kind), a.name);
		tried++;
	}
	unsetenv(option);
	if (!tried)
		ok(0, "%s has an algorithm", coll_kind_name(*kind));
}

static void test_backend(const char *backend, int processes, int nranks)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		test_kind(backend, processes, nranks, &kinds[k]);
}

int main(void)
{
	setenv("COLL_SEGMENT", "4K", 1);
	ranks_over_backends(test_backend, ranks_small() ? 5 : NRANKS_MAX);
	return done_testing();
}
