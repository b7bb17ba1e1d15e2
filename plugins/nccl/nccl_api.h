/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_api.h - the declarations of NCCL that the plugin uses.  With them the build needs no header of NCCL's,
 * and one binary serves every version.  The CUDA driver's functions are in device/driver.h.
 *
 * Names, numbers and layouts are those of nccl.h (from 2.18 to 2.30 it only added to the ends of structs and
 * enums) and of the document "CUDA Driver API".  tests/nccl/header_test.c compares them with the real headers,
 * if these are installed.  ncclRedOp_t, ncclDataType_t, ncclResult_t and CUresult are ints, handles are
 * pointers.
 */
#ifndef NCCL_API_H
#define NCCL_API_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------------------- NCCL -- */

/* Versions are 10000 * major + 100 * minor + patch. */
enum {
	NCCL_2_18 = 21800, /* split; the oldest version that the plugin can use */
	NCCL_2_19 = 21900, /* registered buffers */
	NCCL_2_22 = 22200, /* collectives connect ranks at their first use */
	NCCL_2_23 = 22300, /* CUDA's runtime may refuse an init, which leaves a group open */
	NCCL_2_24 = 22400, /* fp8 */
	NCCL_2_27 = 22700, /* shrink */
	NCCL_2_28 = 22800  /* alltoall, gather, scatter; from 22807 on revoke */
};

enum {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7
};

/* ncclDataType_t 0 to 11, ncclRedOp_t 0 to 4 and ncclScalarResidence_t have the same numbers as in coll.h. */
enum { NCCL_NUM_OPS = 5 };

typedef struct nccl_comm *nccl_comm_t;

typedef struct nccl_unique_id {
	char internal[128];
} nccl_unique_id_t;

/*
 * The beginning of ncclConfig_t, unchanged since 2.18.  NCCL reads `size` bytes and uses its defaults for all
 * later members.
 */
typedef struct nccl_config {
	size_t size;
	unsigned magic;   /* NCCL_CONFIG_MAGIC */
	unsigned version; /* the version of the header with this layout: NCCL_2_18 */
	int blocking;     /* 0: calls return NCCL_IN_PROGRESS where they would wait */
	int cga_cluster_size;
	int min_ctas;
	int max_ctas;
	const char *net_name;
	int split_share;   /* 1: a split communicator shares its parent's resources */
	int traffic_class; /* until 2.25 padding, which NCCL did not read */
} nccl_config_t;

enum { NCCL_CONFIG_MAGIC = (int)0xcafebeef, NCCL_UNDEF = INT_MIN };

enum { NCCL_NOCOLOR = -1 };
enum { NCCL_SHRINK_DEFAULT = 0, NCCL_SHRINK_ABORT = 1 };

/* ---------------------------------------------------------------------------- CUDA -- */

enum { CUDA_COMPUTE_CAPABILITY_MAJOR = 75 }; /* a CUdevice_attribute */

#endif
