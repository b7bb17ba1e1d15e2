/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * four_rank.c - a rank of a job for four.t.  After five collectives rank 1 does what the first argument says, while the
 * others call the sixth; all ranks stay until FILE exists.
 *
 *   four_rank FAULT FILE host|device|threads
 *
 * late     makes its call when FILE exists; until then the test may stop or kill it
 * wrong    calls broadcast
 *
 * device: calls on memory of a CUDA device.  threads: three ranks that are threads of this process.
 */
#include "../examples/device.h"

#include <coll/coll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { BEFORE = 5, COUNT = 4, RANKS = 3, PATIENCE_S = 120 };

static const char *fault, *file;
static int on_device;

static void await_file(void)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	for (int i = 0; access(file, F_OK) && i < PATIENCE_S * 100; i++)
		nanosleep(&nap, NULL);
}

static int add(coll_comm_t comm, float *x)
{
	const int code = coll_allreduce(x, x, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL);

	return code ? code : coll_sync(comm);
}

/* Rank 1's part.  Returns an error of its own call. */
static int go_wrong(coll_comm_t comm, float *x)
{
	int code;

	if (strcmp(fault, "wrong") != 0) {
		await_file();
		return add(comm, x);
	}
	code = coll_broadcast(x, x, COUNT, COLL_FLOAT32, 0, comm, NULL);
	return code ? code : coll_sync(comm);
}

static int calls(coll_comm_t comm, int rank, float *x)
{
	int code = 0;

	for (int i = 0; i < BEFORE && !code; i++)
		code = add(comm, x);
	if (!code)
		code = rank == 1 ? go_wrong(comm, x) : add(comm, x);
	return code;
}

static void *run_rank(void *arg)
{
	coll_comm_t comm = *(coll_comm_t *)arg;
	float host[COUNT] = {1}, *x = host;
	int32_t rank = -1;
	int code = coll_comm_user_rank(comm, &rank);

	if (on_device) {
		x = device_alloc(sizeof(host));
		device_copy(x, host, sizeof(host));
	}
	code = code ? code : calls(comm, rank, x);
	if (code)
		fprintf(stderr, "rank %d: %s\n", (int)rank, coll_get_last_error(comm));
	await_file();
	coll_comm_destroy(comm);
	if (on_device)
		device_free(x);
	return NULL;
}

static int run_threads(void)
{
	coll_comm_t comm[RANKS];
	pthread_t thread[RANKS];

	if (coll_comm_init_all(comm, RANKS, NULL, NULL))
		return fprintf(stderr, "%s\n", coll_get_last_error(NULL)), 1;
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&thread[r], NULL, run_rank, &comm[r]))
			return fprintf(stderr, "no thread\n"), 1;
	for (int r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("COLL_RANK");
	coll_comm_t comm;

	if (argc != 4)
		return 2;
	fault = argv[1];
	file = argv[2];
	on_device = strcmp(argv[3], "device") == 0;
	signal(SIGTERM, SIG_IGN); /* the launcher ends the job when one rank has died */
	if (strcmp(argv[3], "threads") == 0)
		return run_threads();
	/* The backend nccl wants a device in use when the communicator is made. */
	if (on_device) {
		device_open();
		device_use(rank ? atoi(rank) : 0);
	}
	if (coll_comm_init_env(&comm, NULL))
		return fprintf(stderr, "%s\n", coll_get_last_error(NULL)), 1;
	run_rank(&comm);
	return 0;
}
