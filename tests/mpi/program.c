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
 *   apart RANK     that rank makes a communicator with a rank of another job, and the others use MPI for a minute
 *   leave          rank 0 gives up an all-reduce that rank 1 never joins, and ends; rank 1 ends 40 s later
 *   leave-dup      the same on a dup, which MPI's collectives serve
 *   leave-busy     rank 0 ends amid an all-reduce on a dup that rank 1 never joins; rank 1 ends 40 s later
 *   late-dup       rank 0 has left the barrier of a dup, after 1 s, before rank 1 comes there
 *   fork           a child of each rank makes a communicator
 *   place          odd ranks are in place, even ranks are not
 *   holes          an all-to-all in which rank 0 has one buffer for both and sends nothing
 *   split          MPI's collectives on a dup, on a split with a rank without a colour, and on splits of that
 *   serial         a dup below MPI_THREAD_MULTIPLE: without MPI's collectives
 *   compose        a split that does not block, and a shrink: without MPI's collectives
 *   splits         2,400 dups, eight at a time
 *   many           2,400 dups at the same time, for which MPI has too few communicators
 *   die            each rank forks a child that ends; then the last rank kills itself amid all-reduces; the others say what they
 *                  got, and go on without it
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

/* The two ranks meet at COLL_ROOT. */
static void program_apart(const char *joins)
{
	const char *rank = getenv("PMI_RANK");
	coll_comm_t comm;

	program_start("multiple"); /* waits for all ranks of the job */
	if (!rank || strcmp(rank, joins) != 0) {
		sleep(60);
		return;
	}
	setenv("COLL_RANK", rank, 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	program_must(coll_comm_init_env(&comm, NULL));
}

static void program_expect(const char *what, int32_t got, int32_t wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "program: %s gives %d instead of %d\n", what, (int)got, (int)wanted);
	exit(1);
}

/* An all-reduce that the other rank never joins. */
static void program_begin_alone(coll_comm_t comm)
{
	static int32_t sum = 1;
	int32_t rank;

	program_must(coll_comm_user_rank(comm, &rank));
	if (rank)
		sleep(40);
	else
		program_must(coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL));
}

static void program_give_up(coll_comm_t comm)
{
	int32_t rank;

	program_begin_alone(comm);
	program_must(coll_comm_user_rank(comm, &rank));
	if (rank)
		return;
	program_expect("the all-reduce of one rank", coll_sync(comm), COLL_ERR_TIMEOUT);
	printf("given up\n");
	fflush(stdout);
}

static void program_leave(void)
{
	coll_comm_t comm;

	program_must(coll_comm_init_env(&comm, NULL));
	program_give_up(comm);
}

/* A dup that MPI's collectives serve. */
static coll_comm_t program_twin(void)
{
	coll_comm_t comm, twin;
	void *handle;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_dup(comm, &twin));
	program_must(coll_comm_native_handle(twin, &handle));
	return twin;
}

static void program_leave_dup(void)
{
	coll_comm_t twin = program_twin();

	program_give_up(twin);
	coll_comm_destroy(twin);
}

static void program_leave_busy(void)
{
	program_begin_alone(program_twin());
	printf("begun\n");
	fflush(stdout);
}

static void program_late_dup(void)
{
	coll_comm_t comm, twin;
	int32_t rank;
	int code;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	if (!rank)
		program_must(coll_comm_set_timeout(comm, 1000));
	code = coll_comm_dup(comm, &twin);
	printf("rank %d: %s\n", (int)rank, coll_error_string(code));
	fflush(stdout);
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

/* The longest time from a death to its report, in seconds: on a busy host far above the usual 0.1 s. */
enum { PROGRAM_HEARS_S = 20 };

static double program_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* All-reduces until the last rank has died, of which the others must hear within seconds. */
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
	if (code != COLL_ERR_PEER_LOST || program_seconds() - begin > PROGRAM_HEARS_S)
		exit(1);
}

static void program_die(void)
{
	int32_t rank, count, sum = 1, lost = -1, nlost = 0;
	coll_comm_t comm, rest;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	if (!fork()) /* the child shares the parent's descriptors */
		_exit(0);
	wait(NULL);
	program_until_death(comm, rank == count - 1);
	program_must(coll_comm_get_failed(comm, &lost, 1, &nlost));
	if (nlost != 1)
		fprintf(stderr, "program: %d ranks are lost\n", (int)nlost);
	program_must(coll_comm_shrink(comm, &lost, 1, &rest, NULL, 0));
	program_must(coll_comm_count(rest, &count));
	program_must(coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, rest, NULL));
	program_must(coll_sync(rest));
	program_must(coll_comm_destroy(rest));
	program_must(coll_comm_destroy(comm));
	printf("rank %d lost, %d of %d go on\n", (int)lost, (int)sum, (int)count);
}

/* Do MPI's collectives serve the communicator, which has ranks `first` to `last` of the job? */
static void program_check(coll_comm_t comm, int native, int32_t first, int32_t last, int32_t mine)
{
	const int32_t count = last - first + 1;
	int32_t scan = 0, exscan = -5, sum = 0;
	void *handle = NULL;

	program_expect("the engine's object", coll_comm_native_handle(comm, &handle),
		       native ? COLL_SUCCESS : COLL_ERR_UNSUPPORTED);
	program_must(coll_allreduce(&mine, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL));
	program_must(coll_scan(&mine, &scan, 1, COLL_INT32, COLL_SUM, comm, NULL));
	program_must(coll_exscan(&mine, &exscan, 1, COLL_INT32, COLL_SUM, comm, NULL));
	program_must(coll_sync(comm));
	program_expect("an all-reduce", sum, (first + last) * count / 2);
	program_expect("a scan", scan, (first + mine) * (mine - first + 1) / 2);
	program_expect("an exscan", exscan, mine == first ? -5 : scan - mine);
}

/* Its own option `native` decides. */
static int program_is_native(void)
{
	const char *native = getenv("COLL_MPI_NATIVE");

	return !native || strcmp(native, "no") != 0;
}

static void program_split(void)
{
	const int native = program_is_native();
	coll_comm_t comm, twin, part, again;
	int32_t rank, last, joins;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &last));
	last--;
	joins = rank < last;
	program_must(coll_comm_dup(comm, &twin));
	program_check(twin, native, 0, last, rank);
	program_must(coll_comm_split(twin, joins ? 3 : COLL_SPLIT_NOCOLOR, 0, &part, NULL));
	program_must(coll_comm_destroy(twin));
	if (joins) {
		program_check(part, native, 0, last - 1, rank);
		program_must(coll_comm_split(part, rank == 0, 0, &again, NULL));
		program_check(again, native, rank ? 1 : 0, rank ? last - 1 : 0, rank);
		program_must(coll_comm_destroy(part));
		program_must(coll_comm_destroy(again));
	}
	program_check(comm, 1, 0, last, rank);
	program_must(coll_comm_destroy(comm));
}

static void program_serial(void)
{
	coll_comm_t comm, twin;
	int32_t rank, count;

	program_start("serialized");
	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	program_must(coll_comm_dup(comm, &twin));
	program_check(comm, 1, 0, count - 1, rank);
	program_check(twin, 0, 0, count - 1, rank);
	program_must(coll_comm_destroy(twin));
	program_must(coll_comm_destroy(comm));
	CALL(MPI_Finalize)();
}

static void program_compose(void)
{
	coll_comm_t comm, twin, less;
	coll_request_t request;
	int32_t rank, last;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &last));
	last--;
	program_must(coll_comm_idup(comm, &twin, NULL, &request));
	program_must(coll_wait(request));
	program_must(coll_request_free(request));
	program_check(twin, 0, 0, last, rank);
	program_must(coll_comm_destroy(twin));
	program_must(coll_comm_dup(comm, &twin));
	if (rank < last) {
		program_must(coll_comm_shrink(twin, &last, 1, &less, NULL, 0));
		program_check(less, 0, 0, last - 1, rank);
		program_must(coll_comm_destroy(less));
	}
	program_must(coll_comm_destroy(twin));
	program_must(coll_comm_destroy(comm));
}

/* More than MPI has communicators for at a time, if it gives back those that have ended. */
static void program_splits(void)
{
	enum { ROUNDS = 300, TWINS = 8 };
	coll_comm_t comm, twin[TWINS];
	int32_t sum, count;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_count(comm, &count));
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < TWINS; i++)
			program_must(coll_comm_dup(comm, &twin[i]));
		for (int i = 0; i < TWINS; i++) {
			sum = 1;
			program_must(
				coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, twin[i], NULL));
			program_must(coll_sync(twin[i]));
			program_expect("an all-reduce", sum, count);
			program_must(coll_comm_destroy(twin[i]));
		}
	}
	program_must(coll_comm_destroy(comm));
}

/* The communicators that MPI cannot make compose. */
static void program_many(void)
{
	enum { MANY = 2400 };
	static coll_comm_t twin[MANY];
	int32_t rank, count;
	coll_comm_t comm;
	void *handle;

	program_must(coll_comm_init_env(&comm, NULL));
	program_must(coll_comm_user_rank(comm, &rank));
	program_must(coll_comm_count(comm, &count));
	for (int i = 0; i < MANY; i++)
		program_must(coll_comm_dup(comm, &twin[i]));
	program_check(twin[0], 1, 0, count - 1, rank);
	program_check(twin[MANY - 1],
		      coll_comm_native_handle(twin[MANY - 1], &handle) == COLL_SUCCESS, 0,
		      count - 1, rank);
	for (int i = 0; i < MANY; i++)
		program_must(coll_comm_destroy(twin[i]));
	program_must(coll_comm_destroy(comm));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		void (*run)(void);
	} modes[] = {
		{"part", program_part},
		{"after", program_after},
		{"late", program_late},
		{"some", program_some},
		{"leave", program_leave},
		{"fork", program_fork},
		{"place", program_place},
		{"holes", program_holes},
		{"die", program_die},
		{"split", program_split},
		{"compose", program_compose},
		{"splits", program_splits},
		{"many", program_many},
		{"leave-dup", program_leave_dup},
		{"leave-busy", program_leave_busy},
		{"late-dup", program_late_dup},
		{"serial", program_serial},
	};
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "before") && argc > 2)
		return program_before(argv[2]), 0;
	if (!strcmp(mode, "apart") && argc > 2)
		return program_apart(argv[2]), 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(mode, modes[i].mode))
			return modes[i].run(), 0;
	return fprintf(stderr, "usage: program before LEVEL|part|after|late|...\n"), 2;
}
