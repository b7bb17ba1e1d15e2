/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * small_calls.c - makes 8-byte calls of two ranks in one thread, over tcp's shared memory, for small_calls.t, which counts
 * their instructions.  A group is one call: GROUPED allreduces.
 *
 *   small_calls OPERATION CALLS
 */
#include <coll/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, WARM = 100, GROUPED = 100 };

static coll_comm_t comms[RANKS];
static double in[RANKS][RANKS], out[RANKS][RANKS], grouped[RANKS][GROUPED - 1];

static void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "small_calls: %s: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}

static int allreduce(int r)
{
	return coll_allreduce(in[r], out[r], 1, COLL_FLOAT64, COLL_SUM, comms[r], NULL);
}

static int broadcast(int r)
{
	return coll_broadcast(in[r], out[r], 1, COLL_FLOAT64, 0, comms[r], NULL);
}

static int reduce(int r)
{
	return coll_reduce(in[r], out[r], 1, COLL_FLOAT64, COLL_SUM, 0, comms[r], NULL);
}

static int allgather(int r)
{
	return coll_allgather(in[r], out[r], 1, COLL_FLOAT64, comms[r], NULL);
}

static int reduce_scatter(int r)
{
	return coll_reduce_scatter(in[r], out[r], 1, COLL_FLOAT64, COLL_SUM, comms[r], NULL);
}

static int alltoall(int r)
{
	return coll_alltoall(in[r], out[r], 1, COLL_FLOAT64, comms[r], NULL);
}

static int message(int r)
{
	return r ? coll_recv(out[r], 1, COLL_FLOAT64, 0, 0, comms[r], NULL)
		 : coll_send(in[r], 1, COLL_FLOAT64, 1, 0, comms[r], NULL);
}

static int group(int r)
{
	check(coll_group_start(), "coll_group_start");
	for (int i = 0; i < GROUPED - 1; i++)
		check(coll_allreduce(in[r], &grouped[r][i], 1, COLL_FLOAT64, COLL_SUM, comms[r],
				     NULL),
		      "coll_allreduce");
	check(allreduce(r), "coll_allreduce");
	return coll_group_end();
}

/* The message comes after its receive.  The second rank waits for both requests. */
static int request(int r)
{
	static coll_request_t requests[RANKS];

	check(r ? coll_isend(in[r], 1, COLL_FLOAT64, 0, 0, comms[r], &requests[r])
		: coll_irecv(out[r], 1, COLL_FLOAT64, 1, 0, comms[r], &requests[r]),
	      "coll_isend or coll_irecv");
	for (int i = 0; r && i < RANKS; i++) {
		check(coll_wait(requests[i]), "coll_wait");
		check(coll_request_free(requests[i]), "coll_request_free");
	}
	return COLL_SUCCESS;
}

/* result: of out[rank][0], if in[0] is {i, 2} and in[1] is {1, 3}, without i, of which it has one or none. */
static const struct operation {
	const char *name;
	int (*call)(int rank);
	double result[RANKS];
	int has_i[RANKS];
} operations[] = {
	{"allreduce", allreduce, {1, 1}, {1, 1}},
	{"broadcast", broadcast, {0, 0}, {1, 1}},
	{"reduce", reduce, {1, 0}, {1, 0}},
	{"allgather", allgather, {0, 0}, {1, 1}},
	{"reduce_scatter", reduce_scatter, {1, 5}, {1, 0}},
	{"alltoall", alltoall, {0, 2}, {1, 0}},
	{"message", message, {0, 0}, {0, 1}},
	{"group", group, {1, 1}, {1, 1}},
	{"request", request, {1, 0}, {0, 0}},
};

/* watching.sh counts what it calls. */
__attribute__((noinline)) static void calls(const struct operation *op, int n)
{
	in[0][1] = 2;
	in[1][0] = 1;
	in[1][1] = 3;
	for (int i = 0; i < n; i++) {
		in[0][0] = i;
		for (int r = 0; r < RANKS; r++)
			check(op->call(r), op->name);
		for (int r = 0; r < RANKS; r++)
			check(coll_sync(comms[r]), "coll_sync");
		for (int r = 0; r < RANKS; r++)
			if (out[r][0] != op->result[r] + (op->has_i[r] ? i : 0))
				check(COLL_ERR_INTERNAL, "a wrong result");
	}
}

static const struct operation *find(const char *name)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (!strcmp(operations[i].name, name))
			return &operations[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct operation *op = argc == 3 ? find(argv[1]) : NULL;
	int n = argc == 3 ? atoi(argv[2]) : 0;

	if (!op || n < 1) {
		fprintf(stderr, "usage: small_calls OPERATION CALLS\n");
		return 2;
	}
	check(coll_comm_init_all(comms, RANKS, NULL, NULL), "coll_comm_init_all");
	calls(op, WARM); /* the ranks agree on their shared memory */
	calls(op, n);
	for (int r = 0; r < RANKS; r++)
		check(coll_comm_destroy(comms[r]), "coll_comm_destroy");
	return 0;
}
