/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random_test.c - 2,000 random calls over the ucc backend and its companion: every kind, type, operation, root and
 * place, counts with zeros and odd sizes, buffers at any byte.  The oracle compares every byte.
 *
 * TEST_SEED=N makes the calls from the one that a failure named "seed N".
 */
#include "../lib/calls.h"

enum { CALLS = 2000, MOST = 1 << 14 };

static void random_calls(struct rank *r)
{
	const char *first = getenv("TEST_SEED");
	const uint64_t from = first ? strtoull(first, NULL, 10) : 0;
	struct oracle_case c;

	for (uint64_t seed = from; seed < CALLS; seed++) {
		oracle_random(&c, seed, r->nranks, MOST);
		c.near = 1; /* UCC adds in an order of its own */
		if (c.inputs == ORACLE_SPECIAL)
			c.inputs = ORACLE_EXACT; /* UCC's MIN and MAX may lose a NaN */
		if (!calls_try(r, &c)) {
			rank_fail(r, "seed %llu", (unsigned long long)seed);
			return;
		}
	}
}

int main(void)
{
	ranks_plugins(".libs", NULL);
	if (!ranks_can("ucc"))
		return done_testing();
	for (int n = 1; n <= 4; n++) {
		const struct ranks_job job = {
			.backend = "ucc", .nranks = n, .processes = 1, .fn = random_calls};

		ranks_ok(&job, "%d random calls: %d ranks", CALLS, n);
	}
	return done_testing();
}
