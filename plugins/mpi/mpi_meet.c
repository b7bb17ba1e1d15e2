/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_meet.c - finds the ranks of an endpoint in MPI_COMM_WORLD and makes their communicator.  The ranks may be a part of
 * MPI_COMM_WORLD, in any order.
 *
 * A rank that waits in MPI waits without a limit.  So the ranks first compare, over the core's exchange, everything that
 * could leave one of them alone there.
 */
#include "mpi_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank knows before MPI is initialised. */
struct meet_before {
	char version[MPI_VERSION_TEXT];
	char job[MPI_JOB_TEXT];
	int32_t rank; /* by the launcher's variables; -1: unknown */
	int32_t reserved;
};

/* What a rank knows of itself in MPI_COMM_WORLD. */
struct meet_world {
	int32_t rank, size;
	int32_t native; /* 1: the rank lets MPI's own collectives serve */
	int32_t reserved;
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

static int32_t meet_compare(const coll_host_t *host, const struct meet_before *all,
			    coll_error_t *err)
{
	for (uint32_t r = 1; r < host->nranks; r++)
		if (strcmp(all[r].version, all[0].version) != 0)
			return error_fill(err, COLL_ERR_UNSUPPORTED,
					  "rank 0 uses %s and rank %u uses %s: all ranks need the "
					  "same MPI library (option mpi.library)",
					  all[0].version, r, all[r].version);
		else if (strcmp(all[r].job, all[0].job) != 0)
			return error_fill(err, COLL_ERR_UNSUPPORTED,
					  "ranks 0 and %u belong to two MPI jobs, '%s' and '%s': "
					  "start all ranks with one mpiexec",
					  r, all[0].job, all[r].job);
	for (uint32_t r = 1; r < host->nranks; r++)
		for (uint32_t s = 0; s < r; s++)
			if (all[r].rank >= 0 && all[r].rank == all[s].rank)
				return error_fill(
					err, COLL_ERR_UNSUPPORTED,
					"ranks %u and %u both have the number %d from the "
					"launcher of MPI: they are threads of one process, "
					"or belong to two MPI jobs; start each rank as a "
					"process of one mpiexec",
					s, r, (int)all[r].rank);
	return COLL_SUCCESS;
}

static int32_t meet_before_mpi(const coll_host_t *host, coll_error_t *err)
{
	struct meet_before own = {.reserved = 0}, *all = calloc(host->nranks, sizeof(*all));
	int32_t code = mpi_library_open(host, err);

	if (!code)
		code = mpi_life_check(err);
	if (!code && !all)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	memcpy(own.version, mpi.version, sizeof(own.version));
	own.rank = mpi_launcher_rank(own.job);
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

static int32_t meet_in_world(struct mpi_endpoint *ep, int *ranks, coll_error_t *err)
{
	const coll_host_t *host = ep->host;
	struct meet_world own = {.rank = -1}, *all = calloc(host->nranks, sizeof(*all));
	int rank = -1, size = 0;
	int32_t code = mpi_life_begin(host, err);

	if (!code && !all)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	if (!code && mpi_enter()) {
		mpi.comm_rank(MPI_COMM_WORLD, &rank);
		mpi.comm_size(MPI_COMM_WORLD, &size);
		mpi_leave();
	}
	own = (struct meet_world){.rank = rank,
				  .size = size,
				  .native = strcmp(host->option_string(host, "native"), "no") != 0};
	code = meet_exchange(host, code, &own, all, sizeof(own), err);
	if (!code)
		code = meet_check_world(host, all, err);
	ep->native = 1;
	for (uint32_t r = 0; !code && r < host->nranks; r++) {
		ranks[r] = all[r].rank;
		ep->native &= all[r].native;
	}
	free(all);
	return code;
}

/* Two communicators that a process makes at the same time in two threads have different tags. */
static int meet_tag(const coll_host_t *host)
{
	return (host->key[0] | host->key[1] << 8) & 0x7fff;
}

static int32_t meet_make(struct mpi_endpoint *ep, const int *ranks, coll_error_t *err)
{
	MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
	int result;

	if (!mpi_enter())
		return mpi_life_check(err);
	result = mpi.comm_group(MPI_COMM_WORLD, &world);
	if (!result)
		result = mpi.group_incl(world, (int)ep->nranks, ranks, &group);
	if (!result)
		result =
			mpi.comm_create_group(MPI_COMM_WORLD, group, meet_tag(ep->host), &ep->comm);
	if (!result)
		result = mpi.comm_set_errhandler(ep->comm, MPI_ERRORS_RETURN);
	if (group != MPI_GROUP_NULL)
		mpi.group_free(&group);
	if (world != MPI_GROUP_NULL)
		mpi.group_free(&world);
	mpi_leave();
	return result ? mpi_refused(err, result, "MPI_Comm_create_group") : COLL_SUCCESS;
}

int32_t mpi_meet(struct mpi_endpoint *ep, coll_error_t *err)
{
	int *ranks = calloc(ep->nranks, sizeof(*ranks));
	int32_t code = meet_before_mpi(ep->host, err);

	if (!code && !ranks)
		code = kit_exchange_fail(
			ep->host, error_fill(err, COLL_ERR_NO_MEMORY, "no memory for ranks"), err);
	else if (!code)
		code = meet_in_world(ep, ranks, err);
	if (!code)
		code = meet_make(ep, ranks, err);
	free(ranks);
	return code;
}
