/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - an MPI program that uses libcoll, for mpi.t: program MODE.  It opens the MPI library that COLL_MPI_LIBRARY
 * names, so that it needs no MPI to be built.
 *
 *   before LEVEL   initialises MPI with that thread level, makes a communicator, and uses both
 *   part           as before; the communicator has the ranks but the first, in reverse order
 *   after          makes a communicator, which initialises MPI, and then uses both
 *   late           finalises MPI and then makes a communicator
 */
#include <coll/coll.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "before") && argc > 2)
		program_before(argv[2]);
	else if (!strcmp(mode, "part"))
		program_part();
	else if (!strcmp(mode, "after"))
		program_after();
	else if (!strcmp(mode, "late"))
		program_late();
	else
		return fprintf(stderr, "usage: program before LEVEL|part|after|late\n"), 2;
	return 0;
}
