/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_abi.h - the types and constants of PMIx's library that pmix.c uses, as libpmix.so.2 has had them since
 * PMIx 3 (pmix_common.h, pmix.h).  tests/unit/pmix_abi.t compares them with an installed header.
 */
#ifndef CORE_MEET_PMIX_ABI_H
#define CORE_MEET_PMIX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	PMIX_ABI_SUCCESS = 0,
	PMIX_ABI_BOOL = 1, /* data types */
	PMIX_ABI_STRING = 3,
	PMIX_ABI_UINT16 = 13,
	PMIX_ABI_UINT32 = 14,
	PMIX_ABI_GLOBAL = 3, /* a scope: all processes of the job */
	PMIX_ABI_NSPACE_SIZE = 256,
	PMIX_ABI_KEY_SIZE = 512
};
#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)
#define PMIX_ABI_JOB_SIZE      "pmix.job.size"
#define PMIX_ABI_LOCAL_SIZE    "pmix.local.size"
#define PMIX_ABI_LOCAL_RANK    "pmix.lrank"
#define PMIX_ABI_COLLECT_DATA  "pmix.collect"

struct pmix_abi_proc {
	char nspace[PMIX_ABI_NSPACE_SIZE];
	uint32_t rank;
};

struct pmix_abi_value {
	uint16_t type;
	union {
		_Bool flag;
		char *string;
		uint16_t uint16;
		uint32_t uint32;
		uint64_t largest[4]; /* at least as large as PMIx's union */
	} data;
};

struct pmix_abi_info {
	char key[PMIX_ABI_KEY_SIZE];
	uint32_t flags;
	struct pmix_abi_value value;
};

typedef void (*pmix_abi_op_fn)(int status, void *user);
typedef void (*pmix_abi_value_fn)(int status, struct pmix_abi_value *value, void *user);

struct pmix_abi_functions {
	int (*PMIx_Init)(struct pmix_abi_proc *self, struct pmix_abi_info *info, size_t ninfo);
	int (*PMIx_Finalize)(const struct pmix_abi_info *info, size_t ninfo);
	int (*PMIx_Put)(uint8_t scope, const char *key, struct pmix_abi_value *value);
	int (*PMIx_Commit)(void);
	int (*PMIx_Fence_nb)(const struct pmix_abi_proc *procs, size_t nprocs,
			     const struct pmix_abi_info *info, size_t ninfo, pmix_abi_op_fn done,
			     void *user);
	int (*PMIx_Get)(const struct pmix_abi_proc *proc, const char *key,
			const struct pmix_abi_info *info, size_t ninfo,
			struct pmix_abi_value **value);
	int (*PMIx_Get_nb)(const struct pmix_abi_proc *proc, const char *key,
			   const struct pmix_abi_info *info, size_t ninfo, pmix_abi_value_fn answer,
			   void *user);
	const char *(*PMIx_Error_string)(int status);
};

#endif
