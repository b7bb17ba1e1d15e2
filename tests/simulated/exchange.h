/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.h - ranks of the simulated backend in one process, which open one after the other, rank 0 first. */
#ifndef TESTS_SIMULATED_EXCHANGE_H
#define TESTS_SIMULATED_EXCHANGE_H

#include "../lib/transport_harness.h"

static uint64_t exchange_number; /* that rank 0 gave in its exchange */

static int32_t exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			int64_t timeout_ms, coll_error_t *err)
{
	(void)timeout_ms;
	(void)err;
	if (host->rank == 0)
		memcpy(&exchange_number, in, sizeof(exchange_number));
	memset(out, 0, len * host->nranks);
	memcpy(out, &exchange_number, sizeof(exchange_number));
	return COLL_SUCCESS;
}

/* Makes the hosts of n ranks; none is open. */
static void exchange_hosts(struct harness *ranks, uint32_t n, const coll_backend_t *backend)
{
	static struct harness_job job; /* the hosts refer to it */

	job = (struct harness_job){.backend = backend, .nranks = n};
	for (uint32_t r = 0; r < n; r++) {
		harness_host_init(&ranks[r], &job, r);
		ranks[r].host.exchange = exchange;
	}
}

#endif
