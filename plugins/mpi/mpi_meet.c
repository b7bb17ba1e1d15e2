/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_meet.c - finds the ranks of an endpoint in MPI_COMM_WORLD and makes their communicator.  The ranks may be a part of
 * MPI_COMM_WORLD, in any order.
 *
 * A rank that waits in MPI waits without a limit.  So the ranks first compare, over the core's exchange, everything that
 * could leave one of them alone there.
 */
#include "mpi_plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int meet_is_taken; /* 1: an endpoint has `meets` set */

/* What a rank knows before MPI is initialised. */
struct meet_before {
	char version[MPI_VERSION_TEXT];
	struct mpi_launcher launcher;
	int32_t starts; /* 1: the rank has to initialise MPI */
	int32_t reserved;
};

/* A rank's option `native`. */
enum { MEET_NO = 0, MEET_DIRECT = 1, MEET_COPIES = 2 };

/* What a rank knows of itself in MPI_COMM_WORLD. */
struct meet_world {
	int32_t rank, size;
	int32_t native; /* MEET_* */
	int32_t cuda;   /* 1: MPI takes memory of CUDA devices */
	int32_t pid;
	int32_t serial; /* 1: MPI is initialised below MPI_THREAD_MULTIPLE */
};

/* Exchanges `size` bytes of each rank.  A rank with a `code` that is not 0 fails all ranks. */
static int32_t meet_exchange(const coll_host_t *host, int32_t code, const void *own, void *all,
			     size_t size, coll_error_t *err)
{
	if (code)
		return kit_exchange_fail(host, code, err);
	return host->exchange(host, own, all, size, host->timeout_ms, err);
}

/* ------------------------------------------------------------------- before MPI -- */

/* MPI_Init waits for all ranks of the job, also for those that are no ranks of the endpoint. */
static int32_t meet_compare_size(const coll_host_t *host, const struct meet_before *all,
				 coll_error_t *err)
{
	for (uint32_t r = 0; r < host->nranks; r++)
		if (all[r].starts && all[r].launcher.size > (int32_t)host->nranks)
			return error_fill(err, COLL_ERR_UNSUPPORTED,
					  "the launcher of MPI has started %d ranks, and this "
					  "communicator has %u: let all ranks make the first "
					  "communicator, or initialise MPI before",
					  (int)all[r].launcher.size, host->nranks);
	return COLL_SUCCESS;
}

static int32_t meet_compare(const coll_host_t *host, const struct meet_before *all,
			    coll_error_t *err)
{
	for (uint32_t r = 1; r < host->nranks; r++)
		if (strcmp(all[r].version, all[0].version) != 0)
			return error_fill(err, COLL_ERR_UNSUPPORTED,
					  "rank 0 uses %s and rank %u uses %s: all ranks need the "
					  "same MPI library (option mpi.library)",
					  all[0].version, r, all[r].version);
		else if (strcmp(all[r].launcher.job, all[0].launcher.job) != 0)
			return error_fill(err, COLL_ERR_UNSUPPORTED,
					  "ranks 0 and %u belong to two MPI jobs, '%s' and '%s': "
					  "start all ranks with one mpiexec",
					  r, all[0].launcher.job, all[r].launcher.job);
	for (uint32_t r = 1; r < host->nranks; r++)
		for (uint32_t s = 0; s < r; s++)
			if (all[r].launcher.rank >= 0 &&
			    all[r].launcher.rank == all[s].launcher.rank)
				return error_fill(
					err, COLL_ERR_UNSUPPORTED,
					"ranks %u and %u both have the number %d from the "
					"launcher of MPI: they are threads of one process, "
					"or belong to two MPI jobs; start each rank as a "
					"process of one mpiexec",
					s, r, (int)all[r].launcher.rank);
	return meet_compare_size(host, all, err);
}

/* `code` is an error of this rank before; then all ranks fail. */
static int32_t meet_before_mpi(const coll_host_t *host, int32_t code, coll_error_t *err)
{
	struct meet_before own = {.reserved = 0}, *all = calloc(host->nranks, sizeof(*all));

	if (!code)
		code = mpi_library_open(host, err);
	if (!code)
		code = mpi_life_check(err);
	if (!code && !all)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	if (!code)
		own.starts = !mpi_is_initialized();
	memcpy(own.version, mpi.version, sizeof(own.version));
	mpi_launcher(&own.launcher);
	code = meet_exchange(host, code, &own, all, sizeof(own), err);
	if (!code)
		code = meet_compare(host, all, err);
	free(all);
	return code;
}

/* ------------------------------------------------------------------- in the world -- */

static int32_t meet_check_world(const coll_host_t *host, const struct meet_world *all,
				coll_error_t *err)
{
	for (uint32_t r = 0; r < host->nranks; r++)
		if (all[r].size < (int32_t)host->nranks)
			return error_fill(
				err, COLL_ERR_UNSUPPORTED,
				"%s gives rank %u a job of %d ranks, but there are %u: the "
				"launcher that started it is not the mpiexec of this MPI",
				mpi.version, r, (int)all[r].size, host->nranks);
	for (uint32_t r = 1; r < host->nranks; r++)
		for (uint32_t s = 0; s < r; s++)
			if (all[r].rank == all[s].rank || all[r].size != all[s].size)
				return error_fill(
					err, COLL_ERR_UNSUPPORTED,
					"ranks %u and %u are rank %d of %d and rank %d of %d "
					"of MPI_COMM_WORLD: they are threads of one process, "
					"or belong to two MPI jobs",
					s, r, (int)all[s].rank, (int)all[s].size, (int)all[r].rank,
					(int)all[r].size);
	return COLL_SUCCESS;
}

/*
 * Below MPI_THREAD_MULTIPLE two threads of one rank that wait in MPI_Comm_create_group, one after the other, may wait for
 * threads of another rank that come in the other order.
 */
static int32_t meet_alone(struct mpi_endpoint *ep, coll_error_t *err)
{
	if (!mpi_is_serial())
		return COLL_SUCCESS;
	ep->meets = !atomic_exchange(&meet_is_taken, 1);
	if (ep->meets)
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_UNSUPPORTED,
			  "another thread of this process makes a communicator over MPI: below "
			  "MPI_THREAD_MULTIPLE make one communicator after the other");
}

static int32_t meet_native(const coll_host_t *host)
{
	const char *native = host->option_string(host, "native");

	return !strcmp(native, "no")     ? MEET_NO
	       : !strcmp(native, "copy") ? MEET_COPIES
					 : MEET_DIRECT;
}

static int32_t meet_in_world(struct mpi_endpoint *ep, int *ranks, coll_error_t *err)
{
	const coll_host_t *host = ep->host;
	struct meet_world own = {.rank = -1}, *all = calloc(host->nranks, sizeof(*all));
	int rank = -1, size = 0, cuda = 0;
	int32_t code = mpi_life_begin(host, err);

	if (!code && !all)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	if (!code)
		code = meet_alone(ep, err);
	if (!code && !mpi_enter())
		code = mpi_life_ended(err);
	else if (!code) {
		mpi.comm_rank(MPI_COMM_WORLD, &rank);
		mpi.comm_size(MPI_COMM_WORLD, &size);
		cuda = host->copy && mpi_is_cuda_aware();
		mpi_leave();
	}
	own = (struct meet_world){.rank = rank,
				  .size = size,
				  .pid = getpid(),
				  .cuda = cuda,
				  .serial = mpi_is_serial(),
				  .native = meet_native(host)};
	code = meet_exchange(host, code, &own, all, sizeof(own), err);
	if (!code)
		code = meet_check_world(host, all, err);
	ep->native = 1;
	ep->keeps = MPI_HAS_PERSISTENT && mpi.traits.init_is_local;
	ep->cuda = 1;
	for (uint32_t r = 0; !code && r < host->nranks; r++) {
		ranks[r] = all[r].rank;
		mpi_watch_open(ep, r, all[r].pid);
		ep->native &= all[r].native != MEET_NO;
		ep->serial |= all[r].serial;
		ep->keeps &= all[r].native == MEET_COPIES;
		ep->cuda &= all[r].native == MEET_DIRECT && all[r].cuda;
	}
	free(all);
	return code;
}

/* Two communicators that a process makes at the same time in two threads have different tags. */
static int meet_tag(const coll_host_t *host)
{
	return (host->key[0] | host->key[1] << 8) & 0x7fff;
}

static pthread_mutex_t meet_lock = PTHREAD_MUTEX_INITIALIZER;
static int meet_makers; /* threads in MPI_Comm_create_group */
static MPI_Errhandler meet_handler;

/* MPI's errors become error codes while there is a maker: the program's error handler may end the job. */
static void meet_take_errors(void)
{
	pthread_mutex_lock(&meet_lock);
	if (!meet_makers++) {
		mpi.comm_get_errhandler(MPI_COMM_WORLD, &meet_handler);
		mpi.comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	}
	pthread_mutex_unlock(&meet_lock);
}

static void meet_give_errors(void)
{
	pthread_mutex_lock(&meet_lock);
	if (!--meet_makers) {
		mpi.comm_set_errhandler(MPI_COMM_WORLD, meet_handler);
		mpi.errhandler_free(&meet_handler);
	}
	pthread_mutex_unlock(&meet_lock);
}

/* MPI_Comm_create_group for the ranks of the endpoint. */
static int meet_create(struct mpi_making *m)
{
	MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
	int result;

	meet_take_errors();
	result = mpi.comm_group(MPI_COMM_WORLD, &world);
	if (!result)
		result = mpi.group_incl(world, m->nranks, m->ranks, &group);
	if (!result)
		result = mpi.comm_create_group(MPI_COMM_WORLD, group, m->tag, &m->comm);
	if (group != MPI_GROUP_NULL)
		mpi.group_free(&group);
	if (world != MPI_GROUP_NULL)
		mpi.group_free(&world);
	meet_give_errors();
	return result;
}

/* Makes the communicator of the endpoint.  Takes over the ranks. */
static int32_t meet_make(struct mpi_endpoint *ep, int *ranks, coll_error_t *err)
{
	const coll_host_t *host = ep->host;
	struct mpi_making m = {.what = "MPI_Comm_create_group",
			       .make = meet_create,
			       .ranks = ranks,
			       .nranks = (int)ep->nranks,
			       .tag = meet_tag(host)};
	const int32_t code = mpi_make_comm(&m, host, err);

	ep->comm = m.comm;
	return code || !m.result ? code : mpi_refused(err, m.result, m.what);
}

int32_t mpi_meet(struct mpi_endpoint *ep, coll_error_t *err)
{
	int *ranks = calloc(ep->nranks, sizeof(*ranks));
	int32_t code =
		ranks ? COLL_SUCCESS : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for ranks");

	code = meet_before_mpi(ep->host, code, err);
	if (!code)
		code = meet_in_world(ep, ranks, err);
	if (code)
		free(ranks);
	else
		code = meet_make(ep, ranks, err);
	if (ep->meets)
		atomic_store(&meet_is_taken, 0);
	ep->meets = 0;
	return code;
}
