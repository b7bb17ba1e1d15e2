/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_mpi.c - MPI: Open MPI or MPICH, whose mpicc compiles this file.
 *
 *   mpirun -n 2 bench_mpi allreduce 8 1024
 *   mpirun -n 2 bench_mpi -i allreduce 8        by MPI_Iallreduce and MPI_Wait, the calls that libcoll makes
 */
#include <mpi.h>
#include "bench.h"

static void ping_pong(struct bench_rank *r, const struct bench_call *c)
{
	for (int turn = 0; r->rank < 2 && turn < 2; turn++)
		if (turn == r->rank)
			MPI_Send(c->in, (int)c->count, MPI_FLOAT, 1 - r->rank, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(c->out, (int)c->count, MPI_FLOAT, 1 - r->rank, 0, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
}

/* MPI's errors end the program. */
static int call(struct bench_rank *r, const struct bench_call *c)
{
	int n = (int)c->count;
	MPI_Comm world = MPI_COMM_WORLD;

	switch (c->op) {
	case BENCH_ALLREDUCE: MPI_Allreduce(c->in, c->out, n, MPI_FLOAT, MPI_SUM, world); break;
	case BENCH_ALLGATHER:
		MPI_Allgather(c->in, n, MPI_FLOAT, c->out, n, MPI_FLOAT, world);
		break;
	case BENCH_BROADCAST:
		if (r->rank == c->root)
			MPI_Bcast((void *)(uintptr_t)c->in, n, MPI_FLOAT, c->root, world);
		else
			MPI_Bcast(c->out, n, MPI_FLOAT, c->root, world);
		break;
	case BENCH_REDUCE_SCATTER:
		MPI_Reduce_scatter_block(c->in, c->out, n, MPI_FLOAT, MPI_SUM, world);
		break;
	case BENCH_ALLTOALL: MPI_Alltoall(c->in, n, MPI_FLOAT, c->out, n, MPI_FLOAT, world); break;
	case BENCH_REDUCE: MPI_Reduce(c->in, c->out, n, MPI_FLOAT, MPI_SUM, c->root, world); break;
	case BENCH_BARRIER: MPI_Barrier(world); break;
	case BENCH_PING_PONG: ping_pong(r, c); break;
	case BENCH_GROUP:
		/* MPI has no groups; one call after the other is its fastest way. */
		for (size_t i = 0; i < BENCH_GROUPED; i++)
			MPI_Allreduce(c->in, c->out + i * c->count, n, MPI_FLOAT, MPI_SUM, world);
		break;
	default: return 0;
	}
	return 1;
}

static int call_nonblocking(struct bench_rank *r, const struct bench_call *c)
{
	MPI_Request request;

	(void)r;
	switch (c->op) {
	case BENCH_ALLREDUCE:
		MPI_Iallreduce(c->in, c->out, (int)c->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
			       &request);
		break;
	case BENCH_BARRIER: MPI_Ibarrier(MPI_COMM_WORLD, &request); break;
	default: return 0;
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return 1;
}

int main(int argc, char **argv)
{
	struct bench_rank r = {.call = call};

	MPI_Init(&argc, &argv);
	if (argc > 1 && !strcmp(argv[1], "-i")) {
		r.call = call_nonblocking;
		argc--;
		argv++;
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &r.nranks);
	r.shared = bench_shared_file();
	bench_rank_run(&r, argc, argv);
	MPI_Finalize();
	return 0;
}
