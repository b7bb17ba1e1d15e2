/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * small_calls.c - makes 8-byte allreduces of two ranks in one thread, over tcp's shared memory, for small_calls.t, which
 * counts their instructions.
 *
 *   small_calls CALLS
 */
#include <coll/coll.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, WARM = 100 };

static coll_comm_t comms[RANKS];
static double in[RANKS], out[RANKS];

static void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "small_calls: %s: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}

static void calls(int n)
{
	for (int i = 0; i < n; i++) {
		in[0] = i;
		in[1] = 1;
		for (int r = 0; r < RANKS; r++)
			check(coll_allreduce(&in[r], &out[r], 1, COLL_FLOAT64, COLL_SUM, comms[r],
					     NULL),
			      "coll_allreduce");
		for (int r = 0; r < RANKS; r++)
			check(coll_sync(comms[r]), "coll_sync");
		for (int r = 0; r < RANKS; r++)
			if (out[r] != i + 1)
				check(COLL_ERR_INTERNAL, "a wrong sum");
	}
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;

	if (n < 1) {
		fprintf(stderr, "usage: small_calls CALLS\n");
		return 2;
	}
	check(coll_comm_init_all(comms, RANKS, NULL, NULL), "coll_comm_init_all");
	calls(WARM); /* the ranks agree on their shared memory */
	calls(n);
	for (int r = 0; r < RANKS; r++)
		check(coll_comm_destroy(comms[r]), "coll_comm_destroy");
	return 0;
}
