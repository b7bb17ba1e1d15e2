/* SPDX-License-Identifier: BSD-3-Clause */
/* allreduce_mpi.c - the same loop as allreduce_coll.c over MPI. */
#include <mpi.h>
#include "bench.h"

static void sum(const float *in, float *out, size_t count)
{
	MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double slowest(double took)
{
	MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return took;
}

int main(int argc, char **argv)
{
	struct bench_program program = {.allreduce = sum, .slowest = slowest};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &program.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &program.nranks);
	bench_all(&program);
	MPI_Finalize();
	return 0;
}
