/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - jobs on ranks of both sorts. */
#include "host.h"

int both_sum(struct rank *r, coll_comm_t comm, int64_t x, int64_t want, const char *what)
{
	return sums_to(r, comm, x, want, what) &&
	       nccl_sums(r, comm, r->rank % NCCL_DEVICES, 10 * x, 10 * want, what);
}

int64_t sum_to(int64_t n)
{
	return n * (n + 1) / 2;
}

void host_run(const struct host_job *jobs)
{
	for (int i = 0; i < 8; i++) {
		const int nranks = 1 + i % 4, processes = i < 4;

		if (i == 4)
			nccl_hold_devices();
		for (const struct host_job *job = jobs; job->fn; job++)
			if (nranks >= job->least)
				nccl_ok(&(struct nccl_job){nranks, processes,
							   processes ? INIT_EXCHANGE : INIT_ALL,
							   job->fn, NULL},
					"%s", job->name);
	}
	nccl_drop_devices();
}
