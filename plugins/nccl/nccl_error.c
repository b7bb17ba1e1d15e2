/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_error.c - the errors of the CUDA driver and of an abort, and the pause between two polls. */
#include "nccl.h"

#include <sched.h>

enum { NCCL_YIELDS = 64, NCCL_SLEEP_US = 20, NCCL_SLEEP_MAX_US = 1000 };

int32_t nccl_cuda_refused(coll_error_t *err, int result, const char *what)
{
	const char *name = NULL, *text = NULL;

	if (cuda_driver.cuGetErrorName(result, &name) || !name)
		name = "unknown to this driver";
	if (cuda_driver.cuGetErrorString(result, &text) || !text)
		text = "error";
	return error_fill(err, COLL_ERR_DEVICE, "%s: the CUDA driver says %s (%d, %s)", what, text,
			  result, name);
}

int32_t nccl_aborted(coll_error_t *err)
{
	return error_fill(err, COLL_ERR_ABORTED, "the communicator was aborted");
}

int nccl_backoff(unsigned *round, int64_t deadline)
{
	const unsigned i = (*round)++;
	const unsigned us = i < NCCL_YIELDS ? 0 : (i - NCCL_YIELDS + 1) * NCCL_SLEEP_US;

	if (clock_now_ms() >= deadline)
		return 0;
	if (us)
		clock_nap(us < NCCL_SLEEP_MAX_US ? us : NCCL_SLEEP_MAX_US);
	else
		sched_yield();
	return 1;
}
