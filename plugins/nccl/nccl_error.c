/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_error.c - the messages of errors of NCCL and of the driver, and the pause between two polls. */
#include "nccl.h"

#include <sched.h>
#include <stdio.h>

enum { NCCL_YIELDS = 64, NCCL_SLEEP_US = 20, NCCL_SLEEP_MAX_US = 1000 };

/* ncclResult_t 1 to 6 have the same numbers as in coll.h. */
static int32_t nccl_code(int result)
{
	return result >= NCCL_UNHANDLED_CUDA_ERROR && result <= NCCL_REMOTE_ERROR
		       ? result
		       : COLL_ERR_INTERNAL;
}

int32_t nccl_refused(coll_error_t *err, int result, const char *what, nccl_comm_t comm)
{
	const char *text = nccl_lib.ncclGetErrorString(result);
	const char *last = nccl_last_words(comm);

	return error_fill(err, nccl_code(result), "%s: NCCL says %s%s%s (NCCL_DEBUG=WARN has more)",
			  what, text ? text : "that it failed", last[0] ? ": " : "", last);
}

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

void nccl_backoff(unsigned round)
{
	unsigned us = round < NCCL_YIELDS ? 0 : (round - NCCL_YIELDS + 1) * NCCL_SLEEP_US;

	if (us)
		clock_nap(us < NCCL_SLEEP_MAX_US ? us : NCCL_SLEEP_MAX_US);
	else
		sched_yield();
}
