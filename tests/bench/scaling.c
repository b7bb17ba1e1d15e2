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

enum { WARM = 4, FEW = 250, MANY = 1000, RANKS = 3, PARTS = 4, CALLBACKS = 4 };

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

static void wait_all(int n, coll_request_t *requests)
{
	for (int i = 0; i < n; i++) {
		MUST(coll_wait(requests[i]));
		MUST(coll_request_free(requests[i]));
	}
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

/* Long messages of one group, for which the program asks before anybody receives them. */
static void messages_that_wait(int n)
{
	static char from[20000], to[sizeof(from)];
	coll_request_t last;
	int32_t done;

	MUST(coll_group_start());
	for (int i = 0; i < n; i++)
		MUST(coll_send(from, sizeof(from), COLL_INT8, 1, 0, comms[0], NULL));
	MUST(coll_group_end());
	MUST(coll_get_request(comms[0], &last));
	for (int i = 0; i < n; i++)
		MUST(coll_test(last, &done));
	for (int i = 0; i < n; i++)
		MUST(coll_recv(to, sizeof(to), COLL_INT8, 0, 0, comms[1], NULL));
	for (int r = 1; r >= 0; r--)
		MUST(coll_sync(comms[r]));
	MUST(coll_request_free(last));
}

/* A rank leaves while the others have a group of messages. */
static void operations_beside_one_that_left(int n)
{
	coll_comm_t dups[RANKS];
	coll_request_t requests[RANKS];

	for (int r = 0; r < RANKS; r++)
		MUST(coll_comm_idup(comms[r], &dups[r], NULL, &requests[r]));
	wait_all(RANKS, requests);
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

/* A message that its receiver does not await yet, and an allreduce, on each of many communicators. */
static void communicators(int n)
{
	static coll_comm_t dups[MANY][RANKS];
	static coll_request_t made[RANKS], sent[MANY];
	coll_request_t received;
	coll_status_t status;
	int32_t found;

	n /= PARTS;
	for (int i = 0; i < n; i++) {
		for (int r = 0; r < RANKS; r++)
			MUST(coll_comm_idup(comms[r], &dups[i][r], NULL, &made[r]));
		wait_all(RANKS, made);
	}
	for (int i = 0; i < n; i++) {
		MUST(coll_isend(&in[0][i], 1, COLL_INT32, 1, 0, dups[i][0], &sent[i]));
		MUST(coll_iprobe(0, 0, dups[i][1], &found, &status));
	}
	for (int i = 0; i < n; i++) {
		MUST(coll_irecv(&out[1][i], 1, COLL_INT32, 0, 0, dups[i][1], &received));
		wait_all(1, &received);
	}
	wait_all(n, sent);
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < n; i++)
			MUST(coll_allreduce(&in[r][i], &out[r][i], 1, COLL_INT32, COLL_SUM,
					    dups[i][r], NULL));
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RANKS; r++)
			MUST(coll_sync(dups[i][r]));
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RANKS; r++)
			MUST(coll_comm_destroy(dups[i][r]));
}

static void count(void *user, coll_result_t result)
{
	*(int *)user += result == COLL_SUCCESS;
}

/* Several functions for each request. */
static void callbacks(int n)
{
	static coll_request_t requests[MANY];
	int called = 0;

	for (int i = 0; i < n; i++) {
		allreduce(0, i);
		MUST(coll_get_request(comms[0], &requests[i]));
	}
	for (int k = 0; k < CALLBACKS; k++)
		for (int i = 0; i < n; i++)
			MUST(coll_request_set_callback(requests[i], count, &called));
	for (int r = 1; r < RANKS; r++)
		for (int i = 0; i < n; i++)
			allreduce(r, i);
	sync_all();
	if (called != CALLBACKS * n)
		check(COLL_ERR_INTERNAL, "functions were not called");
	for (int i = 0; i < n; i++)
		MUST(coll_request_free(requests[i]));
}

/* Calls on many communicators in one group. */
static void communicators_of_a_group(int n)
{
	static coll_comm_t dups[MANY][RANKS];
	static coll_request_t made[MANY][RANKS];

	n /= PARTS;
	MUST(coll_group_start());
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RANKS; r++)
			MUST(coll_comm_idup(comms[r], &dups[i][r], NULL, &made[i][r]));
	MUST(coll_group_end());
	for (int i = 0; i < n; i++)
		wait_all(RANKS, made[i]);
	MUST(coll_group_start());
	for (int i = 0; i < n; i++)
		for (int k = 0; k < MANY; k += MANY / 4)
			for (int r = 0; r < RANKS; r++)
				MUST(coll_allreduce(&in[r][k], &out[r][k], 1, COLL_INT32, COLL_SUM,
						    dups[i][r], NULL));
	MUST(coll_group_end());
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RANKS; r++)
			MUST(coll_comm_destroy(dups[i][r]));
}

static void registrations(int n)
{
	static void *handles[MANY];

	for (int i = 0; i < n; i++)
		MUST(coll_comm_register(comms[0], &in[0][i], sizeof(in[0][i]), &handles[i]));
	for (int i = 0; i < n; i++)
		MUST(coll_comm_deregister(comms[0], handles[i]));
}

static void reductions(int n)
{
	static coll_op_t ops[MANY];
	const int32_t two = 2;

	for (int i = 0; i < n; i++)
		MUST(coll_red_op_create_pre_mul_sum(&ops[i], &two, COLL_INT32,
						    COLL_SCALAR_HOST_IMMEDIATE, comms[0]));
	for (int i = 0; i < n; i++)
		MUST(coll_red_op_destroy(ops[i], comms[0]));
}

/* --------------------------------------------------------------------------- running -- */

#define THINGS(X)                                                                                  \
	X(operations)                                                                              \
	X(groups)                                                                                  \
	X(messages_that_wait)                                                                      \
	X(operations_beside_one_that_left)                                                         \
	X(communicators)                                                                           \
	X(communicators_of_a_group)                                                                \
	X(callbacks)                                                                               \
	X(registrations)                                                                           \
	X(reductions)

/* Functions of their own, so that a profile tells their costs apart. */
#define FUNCTIONS(name)                                                                            \
	static __attribute__((noinline, noclone)) void few_##name(void)                            \
	{                                                                                          \
		name(FEW);                                                                         \
	}                                                                                          \
	static __attribute__((noinline, noclone)) void many_##name(void)                           \
	{                                                                                          \
		name(MANY);                                                                        \
	}
THINGS(FUNCTIONS)

#define ROW(name) {#name, few_##name, many_##name},
static const struct thing {
	const char *name;
	void (*few)(void), (*many)(void);
} things[] = {THINGS(ROW)};

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
