/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * undisturbed.c - a job for readers.t: its ranks check the result of each call.
 *
 *   undisturbed FILE            a rank of a job, which goes on until the file exists
 *   undisturbed FILE threads    three ranks, threads of this process
 *   undisturbed ROUNDS          a rank that goes on for so many rounds
 *
 * The ranks sum whole numbers, send messages around the ring, and make a communicator now and then, so that parts of the page come
 * and go.  Rank 0 prints how many rounds were right.
 */
#include <coll/coll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 64, DUP_EVERY = 16, PATIENCE_S = 600 };

static const char *file;
static int rounds;

static void check(int32_t rank, coll_result_t code, const char *what)
{
	if (code == COLL_SUCCESS)
		return;
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, coll_get_last_error(NULL));
	exit(1);
}

/* Is it time to end? */
static int over(int round)
{
	return rounds ? round >= rounds : access(file, F_OK) == 0;
}

/* The sum over all ranks; its last number says for how many of them it is time to end. */
static int sum(coll_comm_t comm, int32_t rank, int32_t size, int round)
{
	int32_t x[COUNT], y[COUNT];

	for (int i = 0; i < COUNT; i++)
		x[i] = rank + i + round;
	x[COUNT - 1] = over(round);
	check(rank, coll_allreduce(x, y, COUNT, COLL_INT32, COLL_SUM, comm, NULL), "allreduce");
	check(rank, coll_sync(comm), "sync");
	for (int i = 0; i < COUNT - 1; i++)
		if (y[i] != size * (i + round) + size * (size - 1) / 2) {
			fprintf(stderr, "rank %d, round %d: element %d is %d\n", rank, round, i,
				y[i]);
			exit(1);
		}
	return y[COUNT - 1] != 0;
}

static void around(coll_comm_t comm, int32_t rank, int32_t size, int round)
{
	const int32_t to = (rank + 1) % size, from = (rank + size - 1) % size;
	coll_request_t request[2];
	int32_t got = -1, own = rank + round;

	check(rank, coll_irecv(&got, 1, COLL_INT32, from, 3, comm, &request[0]), "irecv");
	check(rank, coll_isend(&own, 1, COLL_INT32, to, 3, comm, &request[1]), "isend");
	for (int i = 0; i < 2; i++)
		check(rank, coll_wait(request[i]), "wait");
	if (got != from + round) {
		fprintf(stderr, "rank %d, round %d: got %d\n", rank, round, got);
		exit(1);
	}
}

static void *run_rank(void *arg)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	const time_t end = time(NULL) + PATIENCE_S;
	coll_comm_t comm = arg, dup;
	int32_t rank = -1, size = 0;
	int round = 0;

	check(-1, coll_comm_user_rank(comm, &rank), "user_rank");
	check(rank, coll_comm_count(comm, &size), "count");
	while (!sum(comm, rank, size, round++)) {
		around(comm, rank, size, round);
		if (round % DUP_EVERY == 0) {
			check(rank, coll_comm_dup(comm, &dup), "dup");
			(void)sum(dup, rank, size, round);
			check(rank, coll_comm_destroy(dup), "destroy");
		}
		if (time(NULL) > end)
			exit(2);
		nanosleep(&nap, NULL);
	}
	check(rank, coll_comm_destroy(comm), "destroy");
	if (rank == 0)
		printf("%d rounds were right\n", round);
	return NULL;
}

static void run_threads(void)
{
	coll_comm_t comms[RANKS];
	pthread_t thread[RANKS];

	check(-1, coll_comm_init_all(comms, RANKS, NULL, NULL), "init_all");
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&thread[r], NULL, run_rank, comms[r]))
			exit(1);
	for (int r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
}

int main(int argc, char **argv)
{
	coll_comm_t comm;

	if (argc < 2)
		return 2;
	file = argv[1];
	rounds = atoi(file);
	if (argc > 2) {
		run_threads();
		return 0;
	}
	check(-1, coll_comm_init_env(&comm, NULL), "init_env");
	run_rank(comm);
	return 0;
}
