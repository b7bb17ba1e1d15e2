/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scaling.c - makes FEW things of a kind, then MANY of them, with several ranks in one thread, for scaling.t, which counts
 * the instructions of both.
 *
 *   scaling THINGS...     the names are those of the table at the end
 */
#include <coll/coll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 4, FEW = 250, MANY = 1000, RANKS = 3 };

static coll_comm_t comms[RANKS];
static int32_t in[RANKS][MANY], out[RANKS][MANY];

static void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "scaling: %s: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}
#define MUST(call) check(call, #call)

static void sync_all(void)
{
	for (int r = 0; r < RANKS; r++)
		MUST(coll_sync(comms[r]));
}

static void allreduce(int r, int i)
{
	MUST(coll_allreduce(&in[r][i], &out[r][i], 1, COLL_INT32, COLL_SUM, comms[r], NULL));
}

/* ------------------------------------------------------------------------ the things -- */

/* Allreduces of one group. */
static void operations(int n)
{
	MUST(coll_group_start());
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RANKS; r++)
			allreduce(r, i);
	MUST(coll_group_end());
	sync_all();
}

/* Groups that wait for another rank. */
static void groups(int n)
{
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < n; i += 2) {
			MUST(coll_group_start());
			allreduce(r, i);
			allreduce(r, i + 1);
			MUST(coll_group_end());
		}
	sync_all();
}

/* A rank leaves while the others have a group of messages. */
static void operations_beside_one_that_left(int n)
{
	coll_comm_t dups[RANKS];
	coll_request_t requests[RANKS];

	for (int r = 0; r < RANKS; r++)
		MUST(coll_comm_idup(comms[r], &dups[r], NULL, &requests[r]));
	for (int r = 0; r < RANKS; r++) {
		MUST(coll_wait(requests[r]));
		MUST(coll_request_free(requests[r]));
	}
	MUST(coll_comm_destroy(dups[RANKS - 1]));
	MUST(coll_group_start());
	for (int i = 0; i < n; i++) {
		MUST(coll_send(&in[0][i], 1, COLL_INT32, 1, 0, dups[0], NULL));
		MUST(coll_recv(&out[1][i], 1, COLL_INT32, 0, 0, dups[1], NULL));
	}
	MUST(coll_group_end());
	for (int r = 0; r < RANKS - 1; r++)
		MUST(coll_sync(dups[r]));
	for (int r = 0; r < RANKS - 1; r++)
		MUST(coll_comm_destroy(dups[r]));
}

/* --------------------------------------------------------------------------- running -- */

/* Functions of their own, so that a profile tells their costs apart. */
#define THING(name)                                                                                \
	static __attribute__((noinline, noclone)) void few_##name(void)                            \
	{                                                                                          \
		name(FEW);                                                                         \
	}                                                                                          \
	static __attribute__((noinline, noclone)) void many_##name(void)                           \
	{                                                                                          \
		name(MANY);                                                                        \
	}
THING(operations)
THING(groups)
THING(operations_beside_one_that_left)

static const struct thing {
	const char *name;
	void (*few)(void), (*many)(void);
} things[] = {
#define ROW(name)                                                                                  \
	{                                                                                          \
#name, few_##name, many_##name                                                     \
	}
	ROW(operations),
	ROW(groups),
	ROW(operations_beside_one_that_left),
};

static const struct thing *find(const char *name)
{
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
		if (!strcmp(things[i].name, name))
			return &things[i];
	return NULL;
}

int main(int argc, char **argv)
{
	MUST(coll_comm_init_all(comms, RANKS, NULL, NULL));
	operations(WARM); /* the ranks agree on their shared memory */
	for (int i = 1; i < argc; i++) {
		const struct thing *thing = find(argv[i]);

		if (!thing)
			return 2;
		thing->few();
		thing->many();
	}
	for (int r = 0; r < RANKS; r++)
		MUST(coll_comm_destroy(comms[r]));
	return 0;
}
