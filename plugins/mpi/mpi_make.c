/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_make.c - makes communicators of MPI.  MPI_Comm_create_group and MPI_Comm_split wait for the other ranks without a limit
 * of time, and MPI cannot take them back.  So a thread of its own calls them, and the thread that makes the endpoint leaves it
 * behind at its time limit, or when the core knows of a failure.
 *
 * Below MPI_THREAD_MULTIPLE the thread that makes the endpoint calls MPI itself, and so it does without memory or a thread: the
 * other ranks wait for this rank.
 */
#include "mpi_plugin.h"

#include <stdlib.h>

enum { MAKE_LOOK_MS = 5 /* between two looks for a failure */ };

static void make_run(struct bounded *call)
{
	struct mpi_making *m = (void *)call;

	m->over = !mpi_enter();
	if (m->over)
		return;
	m->result = m->make(m);
	if (!m->result && m->comm != MPI_COMM_NULL)
		m->result = mpi.comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
	mpi_leave();
}

static void make_free(struct bounded *call)
{
	struct mpi_making *m = (void *)call;

	free(m->ranks);
	free(m);
}

/* Starts a copy of the call in a thread of its own.  Returns NULL without memory or a thread. */
static struct mpi_making *make_start(const struct mpi_making *like)
{
	struct mpi_making *m = mpi_is_serial() ? NULL : malloc(sizeof(*m));

	if (!m)
		return NULL;
	*m = *like;
	if (!bounded_start(&m->call))
		return m;
	free(m);
	return NULL;
}

static int32_t make_look(const struct mpi_making *m, const coll_host_t *host, int64_t deadline,
			 coll_error_t *err)
{
	if (host->aborted(host))
		return error_fill(err, COLL_ERR_ABORTED,
				  "the communicator has failed while its ranks were in %s",
				  m->what);
	if (clock_remaining(deadline))
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_TIMEOUT,
			  "not all ranks have come to %s within %lld ms: read the messages of the "
			  "other ranks, and start all ranks with one mpiexec",
			  m->what, (long long)host->timeout_ms);
}

/* Waits for the call.  After an error its thread has it, and may stay in MPI until the process ends. */
static int32_t make_await(struct mpi_making *m, const coll_host_t *host, coll_error_t *err)
{
	const int64_t deadline = clock_deadline(host->timeout_ms);
	int32_t code = COLL_SUCCESS;

	while (!code && !bounded_wait(&m->call, clock_deadline(MAKE_LOOK_MS)))
		code = make_look(m, host, deadline, err);
	return bounded_leave(&m->call) ? COLL_SUCCESS : code;
}

int32_t mpi_make_comm(struct mpi_making *m, const coll_host_t *host, coll_error_t *err)
{
	struct mpi_making *apart;
	int32_t code = COLL_SUCCESS;

	m->call = (struct bounded){.run = make_run, .free = make_free};
	m->comm = MPI_COMM_NULL;
	apart = make_start(m);
	if (apart)
		code = make_await(apart, host, err);
	else
		make_run(&m->call);
	if (code) {
		m->left = 1;
		return code;
	}
	if (apart)
		*m = *apart;
	free(apart);
	free(m->ranks);
	return m->over ? mpi_life_ended(err) : COLL_SUCCESS;
}
