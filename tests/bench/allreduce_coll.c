/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allreduce_coll.c - times f32 allreduce of this library, out of place, over the backend that the
 * environment names.  coll run -n 2 ...
 */
#include <coll/coll.h>
#include "bench.h"

static coll_comm_t comm;

static void check(coll_result_t result)
{
	if (result == COLL_SUCCESS)
		return;
	fprintf(stderr, "allreduce_coll: %s\n", coll_get_last_error(NULL));
	exit(1);
}

static void sum(const float *in, float *out, size_t count)
{
	check(coll_allreduce(in, out, count, COLL_FLOAT32, COLL_SUM, comm, NULL));
	check(coll_sync(comm));
}

static double slowest(double took)
{
	check(coll_allreduce(&took, &took, 1, COLL_FLOAT64, COLL_MAX, comm, NULL));
	check(coll_sync(comm));
	return took;
}

int main(void)
{
	struct bench_program program = {.allreduce = sum, .slowest = slowest};
	int32_t rank, nranks;

	check(coll_comm_init_env(&comm, NULL));
	check(coll_comm_user_rank(comm, &rank));
	check(coll_comm_count(comm, &nranks));
	program.rank = rank;
	program.nranks = nranks;
	bench_all(&program);
	check(coll_comm_destroy(comm));
	return 0;
}
