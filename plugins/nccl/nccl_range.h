/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_range.h - marks each call as an NVTX range for profilers, if the build found NVTX's headers in the CUDA
 * toolkit.
 */
#ifndef PLUGINS_NCCL_RANGE_H
#define PLUGINS_NCCL_RANGE_H

#include <stdint.h>

#ifdef NCCL_NVTX
#include "base/tables.h"
#include <nvtx3/nvToolsExt.h>

static inline const char *nccl_range_name(int32_t kind)
{
#define NCCL_RANGE_NAME(number, name, ...) [number] = "coll_" #name,
	static const char *const names[] = {KINDS(NCCL_RANGE_NAME)};

	return names[kind];
}

/* Without this call the first ranges of two threads would race to initialize NVTX. */
static inline void nccl_range_open(void)
{
	nvtxInitialize(NULL);
}

static inline void nccl_range_begin(int32_t kind)
{
	nvtxRangePushA(nccl_range_name(kind));
}

static inline void nccl_range_end(void)
{
	nvtxRangePop();
}
#else
static inline void nccl_range_open(void)
{
}

static inline void nccl_range_begin(int32_t kind)
{
	(void)kind;
}

static inline void nccl_range_end(void)
{
}
#endif
#endif
