/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - an MPI program that uses libcoll, for mpi.t: program MODE.  It opens the MPI library that COLL_MPI_LIBRARY
 * names, so that it needs no MPI to be built.
 *
 *   before LEVEL   initialises MPI with that thread level, makes a communicator, and uses both
 *   part           as before; the communicator has the ranks but the first, in reverse order
 *   after          makes a communicator, which initialises MPI, and then uses both
 *   late           finalises MPI and then makes a communicator
 *   some           only the first two ranks make a communicator
 *   leave          rank 0 gives up an all-reduce that rank 1 never joins, and ends; rank 1 ends 40 s later
 *   fork           a child of each rank makes a communicator
 *   place          odd ranks are in place, even ranks are not
 *   holes          an all-to-all in which rank 0 has one buffer for both and sends nothing
 *   die            the last rank kills itself amid all-reduces; the others say what they got, and go on without it
 */
#include <coll/coll.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mpi_abi.h"

/* The plugin has no use for it. */
int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm);

static void *program_library;

/* Finds a function of MPI. */
#define CALL(name) ((__typeof__(name) *)program_find(#name))

static void *program_find(const char *name)
{
	void *symbol = dlsym(program_library, name);

	if (symbol)
		return symbol;
	fprintf(stderr, "program: %s\n", dlerror());
	exit(1);
}

static void program_open(void)
{
	const char *path = getenv("COLL_MPI_LIBRARY");

	program_library = dlopen(path ? path : "libmpi_abi.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (program_library)
		return;
	fprintf(stderr, "program: %s\n", dlerror());
	exit(1);
}

static void program_must(int code)
{
	if (!code)
		return;
	fprintf(stderr, "%s\n", coll_get_last_error(NULL));
	exit(1);
}

/* Adds 1 over all ranks by libcoll, while the program uses MPI itself.  Prints both sums. */
static void program_add(coll_comm_t comm)
{
	int32_t sum = 1, count;
	int size;

	program_must(coll_comm_count(comm, &count));
	program_must(coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL));
	program_must(coll_sync(comm));
	CALL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
	printf("%d of %d, MPI has %d\n", (int)sum, (int)count, size);
	fflush(stdout);
}

static int program_level(const char *name)
{
	return !strcmp(name, "single")       ? MPI_THREAD_SINGLE
	       : !strcmp(name, "serialized") ? MPI_THREAD_SERIALIZED
					     : MPI_THREAD_MULTIPLE;
}

static void program_start(const char *level)
{
	int provided;

	program_open();
	CALL(MPI_Init_thread)(NULL, NULL, program_level(level), &provided);
}

static void program_before(const char *level)
{
	coll_comm_t comm;

	program_start(level);
	program_must(coll_comm_init_env(&comm, NULL));
	program_add(comm);
	program_must(coll_comm_destroy(comm));
	CALL(MPI_Finalize)();
}

static void program_part(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_comm_t comm;
	int rank, size;

	program_start("multiple");
	CALL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
	CALL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
	if (rank == size - 1)
		program_must(coll_get_unique_id(id, sizeof(id)));
	CALL(MPI_Bcast)(id, sizeof(id), MPI_BYTE, size - 1, MPI_COMM_WORLD);
	if (rank > 0) {
		program_must(coll_comm_init_rank(&comm, size - 1, id, size - 1 - rank, NULL));
		program_add(comm);
		program_must(coll_comm_destroy(comm));
	}
	CALL(MPI_Finalize)();
}

static void program_after(void)
{
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_open();
	program_add(comm);
	program_must(coll_comm_destroy(comm));
}

static void program_late(void)
{
	coll_comm_t comm;

	program_start("multiple");
	CALL(MPI_Finalize)();
	program_must(coll_comm_init_env(&comm, NULL));
}

/* The first two ranks meet at COLL_ROOT. */
static void program_some(void)
{
	const char *rank = getenv("PMI_RANK");
	coll_comm_t comm;

	if (!rank || atoi(rank) > 1)
		return;
	setenv("COLL_RANK", rank, 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	program_must(coll_comm_init_env(&comm, NULL));
	program_add(comm);
	program_must(coll_comm_destroy(comm));
}

static void program_leave(void)
{
	int32_t sum = 1, rank;
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	if (rank) {
		sleep(40);
		return;
	}
	if (!coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL) && !coll_sync(comm))
		fprintf(stderr, "program: the all-reduce of one rank has ended\n");
}

static void program_fork(void)
{
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_open();
	program_add(comm);
	if (!fork()) {
		setenv("COLL_ROOT", "127.0.0.1:1", 1);
		program_must(coll_comm_init_env(&comm, NULL));
		exit(0);
	}
	wait(NULL);
	program_must(coll_comm_destroy(comm));
}

static void program_expect(const char *what, int32_t got, int32_t wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "program: %s gives %d instead of %d\n", what, (int)got, (int)wanted);
	exit(1);
}

static void program_place(void)
{
	int32_t rank, count, sum, all[8] = {0};
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	for (int i = 0; i < 8; i++) {
		int32_t one = rank + 1;
		int place = rank % 2;

		sum = one;
		all[rank] = one;
		program_must(coll_allreduce(place ? &sum : &one, &sum, 1, COLL_INT32, COLL_SUM,
					    comm, NULL));
		program_must(
			coll_allgather(place ? &all[rank] : &one, all, 1, COLL_INT32, comm, NULL));
		program_must(coll_sync(comm));
		program_expect("an all-reduce", sum, count * (count + 1) / 2);
		for (int r = 0; r < count; r++)
			program_expect("an all-gather", all[r], r + 1);
	}
	program_must(coll_comm_destroy(comm));
}

/* Each rank but rank 0 sends its number to each rank; the parts are two elements apart. */
static void program_holes(void)
{
	int32_t rank, count, data[16], own[16];
	size_t sends[8], receives[8], at[8];
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	for (int r = 0; r < count; r++) {
		sends[r] = rank > 0;
		receives[r] = r > 0;
		at[r] = 2 * (size_t)r;
		own[2 * r] = rank;
		data[2 * r] = data[2 * r + 1] = -1;
	}
	program_must(coll_alltoallv(rank ? own : data, sends, at, data, receives, at, COLL_INT32,
				    comm, NULL));
	program_must(coll_sync(comm));
	for (int r = 0; r < count; r++) {
		program_expect("an all-to-all", data[2 * r], r ? r : -1);
		program_expect("a hole", data[2 * r + 1], -1);
	}
	program_must(coll_comm_destroy(comm));
}

static double program_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* All-reduces until the last rank has died. */
static void program_until_death(coll_comm_t comm, int last)
{
	double begin = program_seconds();
	int32_t sum = 1;
	int code = 0;

	for (int i = 0; !code; i++) {
		if (i == 20 && last)
			raise(SIGKILL);
		if (i == 20)
			begin = program_seconds();
		code = coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL);
		if (!code)
			code = coll_sync(comm);
	}
	fprintf(stderr, "program: %.1f s: %s\n", program_seconds() - begin,
		coll_get_last_error(NULL));
	if (code != COLL_ERR_PEER_LOST)
		exit(1);
}

static void program_die(void)
{
	int32_t rank, count, sum = 1, lost = -1, nlost = 0;
	coll_comm_t comm, rest;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	program_until_death(comm, rank == count - 1);
	program_must(coll_comm_get_failed(comm, &lost, 1, &nlost));
	if (nlost != 1)
		fprintf(stderr, "program: %d ranks are lost\n", (int)nlost);
	program_must(coll_comm_shrink(comm, &lost, 1, &rest, NULL, 0));
	program_must(coll_comm_count(rest, &count));
	program_must(coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, rest, NULL));
	program_must(coll_sync(rest));
	printf("rank %d lost, %d of %d go on\n", (int)lost, (int)sum, (int)count);
	program_must(coll_comm_destroy(rest));
	program_must(coll_comm_destroy(comm));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		void (*run)(void);
	} modes[] = {
		{"part", program_part},   {"after", program_after}, {"late", program_late},
		{"some", program_some},   {"leave", program_leave}, {"fork", program_fork},
		{"place", program_place}, {"holes", program_holes}, {"die", program_die},
	};
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "before") && argc > 2)
		return program_before(argv[2]), 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(mode, modes[i].mode))
			return modes[i].run(), 0;
	return fprintf(stderr, "usage: program before LEVEL|part|after|late|...\n"), 2;
}
