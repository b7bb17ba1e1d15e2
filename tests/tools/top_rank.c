/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top_rank.c - a rank of a job for top.t and metrics.t: makes calls, and then does what its first argument says.
 *
 *   late FILE    rank 1 makes its next call when the file exists
 *   recv FILE    the same, and rank 0 waits for a message of rank 1 meanwhile
 *   poll FILE    late, and the others ask by coll_test whether their call is done
 *   some FILE    late, and rank 0 waits for a message of rank 1 in coll_wait_some
 *   messages FILE  ranks 0 and 2 exchange more messages than the log has records, then all are late
 *   behind FILE  rank 1 is late for five further calls, half a second each; all ranks stay until the file exists
 *   many FILE    late, after two calls on each of many communicators
 *   fail FILE    rank 1 never makes it; all ranks stay until the file exists
 *   threads FILE late, with three ranks that are threads of this process
 */
#include <coll/coll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 100, MESSAGES = 80, RANKS = 3, MANY = 30, BEHIND = 5, PATIENCE_S = 120 };

static const char *mode, *file;
static coll_comm_t comms[RANKS];

static void await_file(void)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	for (int i = 0; access(file, F_OK) && i < PATIENCE_S * 100; i++)
		nanosleep(&nap, NULL);
}

static int calls(coll_comm_t comm)
{
	float x = 1, y;
	int code = 0;

	for (int i = 0; i < CALLS && !code; i++) {
		code = coll_allreduce(&x, &y, 1, COLL_FLOAT32, COLL_SUM, comm, NULL);
		code = code ? code : coll_sync(comm);
	}
	return code;
}

/* In the order of the calls, from rank 0 to rank 2. */
static int messages(coll_comm_t comm, int rank)
{
	double x = 1;
	int code = 0;

	for (int i = 0; i < MESSAGES && rank != 1 && !code; i++)
		code = rank ? coll_recv(&x, 1, COLL_FLOAT64, 0, i, comm, NULL)
			    : coll_send(&x, 1, COLL_FLOAT64, 2, i, comm, NULL);
	return code ? code : coll_sync(comm);
}

static int behind(coll_comm_t comm, int rank)
{
	const struct timespec nap = {.tv_nsec = 500000000};
	float x = 1, y;
	int code = 0;

	for (int i = 0; i < BEHIND && !code; i++) {
		if (rank == 1)
			nanosleep(&nap, NULL);
		code = coll_allreduce(&x, &y, 1, COLL_FLOAT32, COLL_SUM, comm, NULL);
		code = code ? code : coll_sync(comm);
	}
	return code;
}

/* The communicators end with the process. */
static int many(coll_comm_t comm)
{
	coll_comm_t dup;
	float x = 1, y;
	int code = 0;

	for (int i = 0; i < MANY && !code; i++) {
		code = coll_comm_dup(comm, &dup);
		code = code ? code : coll_barrier(dup);
		code = code ? code : coll_allreduce(&x, &y, 1, COLL_FLOAT32, COLL_SUM, dup, NULL);
		code = code ? code : coll_sync(dup);
	}
	return code;
}

/* Rank 0 waits for one of two messages. */
static int wait_some(coll_comm_t comm, int rank)
{
	coll_request_t request[2] = {NULL, NULL};
	int32_t x[2] = {1, 2}, index[2], count = 0;
	int code = 0;

	for (int i = 0; i < 2 && !code; i++)
		code = rank ? coll_isend(&x[i], 1, COLL_INT32, 0, i, comm, &request[i])
			    : coll_irecv(&x[i], 1, COLL_INT32, 1, i, comm, &request[i]);
	if (!code && !rank)
		code = coll_wait_some(2, request, -1, index, &count);
	for (int i = 0; i < 2 && !code; i++)
		code = coll_wait(request[i]);
	return code;
}

/* Asks again and again whether the last call is done. */
static int poll_last(coll_comm_t comm)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	coll_request_t request = NULL;
	int32_t done = 0;
	int code = coll_get_request(comm, &request);

	while (!code && !done) {
		code = coll_test(request, &done);
		nanosleep(&nap, NULL);
	}
	if (request)
		coll_request_free(request);
	return code;
}

/* The call for which rank 1 is late. */
static int last_call(coll_comm_t comm, int rank)
{
	double x[4] = {1}, y[4];
	int code = strcmp(mode, "some") == 0 && rank < 2 ? wait_some(comm, rank) : 0;

	if (strcmp(mode, "recv") == 0 && rank < 2) {
		code = rank ? coll_send(x, 4, COLL_FLOAT64, 0, 7, comm, NULL)
			    : coll_recv(x, 4, COLL_FLOAT64, 1, 7, comm, NULL);
		code = code ? code : coll_sync(comm);
	}
	if (!code)
		code = coll_allreduce(x, y, 4, COLL_FLOAT64, COLL_SUM, comm, NULL);
	if (!code && strcmp(mode, "poll") == 0)
		code = poll_last(comm);
	return code ? code : coll_sync(comm);
}

static void *run_rank(void *arg)
{
	coll_comm_t comm = *(coll_comm_t *)arg;
	int32_t rank = -1;
	int code = coll_comm_user_rank(comm, &rank);

	code = code ? code : calls(comm);
	if (!code && strcmp(mode, "messages") == 0)
		code = messages(comm, rank);
	if (!code && strcmp(mode, "behind") == 0)
		code = behind(comm, rank);
	if (!code && strcmp(mode, "many") == 0)
		code = many(comm);
	if (!code && (rank == 1 || strcmp(mode, "messages") == 0 || strcmp(mode, "behind") == 0))
		await_file();
	if (!code && (rank != 1 || strcmp(mode, "fail") != 0))
		code = last_call(comm, rank);
	if (code)
		fprintf(stderr, "rank %d: %s\n", rank, coll_get_last_error(NULL));
	if (strcmp(mode, "fail") == 0)
		await_file();
	coll_comm_destroy(comm);
	return NULL;
}

static int run_threads(void)
{
	pthread_t thread[RANKS];

	if (coll_comm_init_all(comms, RANKS, NULL, NULL))
		return fprintf(stderr, "%s\n", coll_get_last_error(NULL)), 1;
	for (int r = 0; r < RANKS; r++)
		pthread_create(&thread[r], NULL, run_rank, &comms[r]);
	for (int r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	mode = argv[1];
	file = argv[2];
	signal(SIGTERM, SIG_IGN); /* the launcher ends the job when one rank has died */
	if (strcmp(mode, "threads") == 0)
		return run_threads();
	if (coll_comm_init_env(&comms[0], NULL))
		return fprintf(stderr, "%s\n", coll_get_last_error(NULL)), 1;
	run_rank(&comms[0]);
	return 0;
}
