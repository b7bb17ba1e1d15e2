/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_range.h - marks each call as an NVTX range for profilers, if the build found NVTX's headers in the CUDA
 * toolkit.
 */
#ifndef PLUGINS_NCCL_RANGE_H
#define PLUGINS_NCCL_RANGE_H

#include <stdint.h>

#ifdef NCCL_NVTX
#include <coll/backend.h>
#include <nvtx3/nvToolsExt.h>

static inline const char *nccl_range_name(int32_t kind)
{
	static const char *const names[] = {
		[COLL_KIND_ALLREDUCE] = "coll_allreduce",
		[COLL_KIND_BROADCAST] = "coll_broadcast",
		[COLL_KIND_REDUCE] = "coll_reduce",
		[COLL_KIND_ALLGATHER] = "coll_allgather",
		[COLL_KIND_REDUCE_SCATTER] = "coll_reduce_scatter",
		[COLL_KIND_ALLTOALL] = "coll_alltoall",
		[COLL_KIND_GATHER] = "coll_gather",
		[COLL_KIND_SCATTER] = "coll_scatter",
		[COLL_KIND_ALLGATHERV] = "coll_allgatherv",
		[COLL_KIND_REDUCE_SCATTERV] = "coll_reduce_scatterv",
		[COLL_KIND_ALLTOALLV] = "coll_alltoallv",
		[COLL_KIND_GATHERV] = "coll_gatherv",
		[COLL_KIND_SCATTERV] = "coll_scatterv",
		[COLL_KIND_BARRIER] = "coll_barrier",
		[COLL_KIND_SEND] = "coll_send",
		[COLL_KIND_RECV] = "coll_recv",
	};

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
