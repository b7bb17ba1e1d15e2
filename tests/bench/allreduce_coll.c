/* SPDX-License-Identifier: BSD-3-Clause */
/* allreduce_coll.c - times f32 allreduce of this library, out of place.  coll run -n 2 ... */
#include <coll/coll.h>
#include "bench.h"

static void check(coll_result_t result)
{
	if (result == COLL_SUCCESS)
		return;
	fprintf(stderr, "allreduce_coll: %s\n", coll_get_last_error(NULL));
	exit(1);
}

int main(void)
{
	coll_comm_t comm;
	int32_t rank, nranks;
	float *in, *out;
	double times[BENCH_MOST];

	check(coll_comm_init_env(&comm, NULL));
	check(coll_comm_user_rank(comm, &rank));
	check(coll_comm_count(comm, &nranks));
	in = bench_buffer(rank);
	out = bench_buffer(rank);
	for (size_t bytes = BENCH_MIN; bytes <= BENCH_MAX; bytes *= 2) {
		int n = bench_iterations(bytes);
		size_t count = bytes / sizeof(*in);

		for (int i = -BENCH_WARM; i < n; i++) {
			double begun, took;

			check(coll_barrier(comm));
			begun = bench_now();
			check(coll_allreduce(in, out, count, COLL_FLOAT32, COLL_SUM, comm, NULL));
			check(coll_sync(comm));
			took = bench_now() - begun;
			check(coll_allreduce(&took, &took, 1, COLL_FLOAT64, COLL_MAX, comm, NULL));
			check(coll_sync(comm));
			if (i >= 0)
				times[i] = took;
		}
		bench_check(out, count, (float)(nranks * (nranks + 1) / 2));
		bench_print(rank, bytes, times, n);
	}
	free(in);
	free(out);
	check(coll_comm_destroy(comm));
	return 0;
}
