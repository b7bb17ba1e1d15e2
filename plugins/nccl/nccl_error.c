/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_error.c - sentences, log lines and short waits. */
#include "nccl.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { NCCL_YIELDS = 64, NCCL_NAP_US = 20, NCCL_NAP_MOST_US = 1000 };

void nccl_log(const coll_host_t *host, int32_t level, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	host->log(host, level, text);
}

int32_t nccl_error(coll_error_t *err, int32_t code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return code;
}

/* ncclResult_t 1 to 6 are coll.h's numbers. */
static int32_t nccl_code(int result)
{
	return result >= NCCL_UNHANDLED_CUDA_ERROR && result <= NCCL_REMOTE_ERROR
		       ? result
		       : COLL_ERR_INTERNAL;
}

int32_t nccl_refused(coll_error_t *err, int result, const char *what, nccl_comm_t comm)
{
	const char *words = nccl_lib.ncclGetErrorString(result);
	const char *last = nccl_lib.ncclGetLastError(comm);

	return nccl_error(err, nccl_code(result), "%s: NCCL says %s%s%s (NCCL_DEBUG=WARN has more)",
			  what, words ? words : "that it failed", last && last[0] ? ": " : "",
			  last ? last : "");
}

int32_t nccl_cuda_refused(coll_error_t *err, int result, const char *what)
{
	const char *name = NULL, *text = NULL;

	if (nccl_cuda.cuGetErrorName(result, &name) || !name)
		name = "unknown to this driver";
	if (nccl_cuda.cuGetErrorString(result, &text) || !text)
		text = "error";
	return nccl_error(err, COLL_ERR_DEVICE, "%s: the CUDA driver says %s (%d, %s)", what, text,
			  result, name);
}

int64_t nccl_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nccl_nap(unsigned round)
{
	unsigned us = round < NCCL_YIELDS ? 0 : (round - NCCL_YIELDS + 1) * NCCL_NAP_US;
	struct timespec t = {.tv_nsec =
				     1000 * (long)(us < NCCL_NAP_MOST_US ? us : NCCL_NAP_MOST_US)};

	if (us)
		nanosleep(&t, NULL);
	else
		sched_yield();
}
