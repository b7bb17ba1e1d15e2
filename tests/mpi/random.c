/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.c - random calls on the ranks of a launcher, each compared with the oracle byte by byte: random SEED [CALLS].  Makes
 * 2,000 calls of every kind, type, operation, root and place, with counts from 0 on and buffers at any byte.  Each call comes
 * three times with other data, since an engine may keep something of it.  Each call has a seed of its own, from SEED on, which a
 * failure names: random SEED 1 makes that call alone.
 */
#include "../lib/calls.h"

enum { RANDOM_CALLS = 2000, RANDOM_BYTES = 1 << 18, RANDOM_TIMES = 3 };

static int random_call(struct rank *r, uint64_t seed)
{
	struct oracle_case c;

	oracle_random(&c, seed, r->nranks, RANDOM_BYTES);
	for (uint64_t i = 0; i < RANDOM_TIMES; i++) {
		c.seed = seed + i;
		if (!calls_try(r, &c))
			return 0;
	}
	return 1;
}

static void random_calls(struct rank *r, uint64_t first, uint64_t calls)
{
	for (uint64_t seed = first; seed < first + calls; seed++) {
		if (random_call(r, seed))
			continue;
		fprintf(stderr, "random: rank %d, seed %" PRIu64 ": %s\n", r->rank, seed,
			r->failure);
		coll_comm_abort(r->comm);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
		       calls = argc > 2 ? strtoull(argv[2], NULL, 10) : RANDOM_CALLS;
	char failure[RANKS_TEXT] = "";
	struct rank r = {.failure = failure};
	const char *backend = "";

	if (coll_comm_init_env(&r.comm, NULL) || coll_comm_user_rank(r.comm, &r.rank) ||
	    coll_comm_count(r.comm, &r.nranks) || coll_comm_backend(r.comm, &backend))
		return fprintf(stderr, "random: %s\n", coll_get_last_error(NULL)), 1;
	random_calls(&r, first, calls);
	if (!r.rank)
		printf("%" PRIu64 " calls from seed %" PRIu64 ", %d ranks, backend %s\n", calls,
		       first, r.nranks, backend);
	return coll_comm_destroy(r.comm);
}
