/* SPDX-License-Identifier: BSD-3-Clause */
/* allreduce_mpi.c - the same loop as allreduce_coll.c over MPI. */
#include <mpi.h>
#include "bench.h"

int main(int argc, char **argv)
{
	int rank, nranks;
	float *in, *out;
	double times[BENCH_MOST];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	in = bench_buffer(rank);
	out = bench_buffer(rank);
	for (size_t bytes = BENCH_MIN; bytes <= BENCH_MAX; bytes *= 2) {
		int n = bench_iterations(bytes);
		size_t count = bytes / sizeof(*in);

		for (int i = -BENCH_WARM; i < n; i++) {
			double begun, took;

			MPI_Barrier(MPI_COMM_WORLD);
			begun = bench_now();
			MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
			took = bench_now() - begun;
			MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
			if (i >= 0)
				times[i] = took;
		}
		bench_check(out, count, (float)(nranks * (nranks + 1) / 2));
		bench_print(rank, bytes, times, n);
	}
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
