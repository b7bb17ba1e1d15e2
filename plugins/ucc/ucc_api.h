/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_api.h - the parts of UCC's interface that the plugin uses, with UCC's own names and numbers, as they are since
 * UCC 1.3.  tests/ucc compares them with the real header, if that is installed.
 *
 * UCC reads only the members of a struct whose bits are in its mask.  It copies ucc_coll_args_t as a whole, with the
 * members that later versions have appended: `later` has space for them.
 */
#ifndef UCC_API_H
#define UCC_API_H

#include <stddef.h>
#include <stdint.h>

/* The version of the interface: ucc_init_version gets it. */
enum { UCC_API_MAJOR = 1, UCC_API_MINOR = 3 };

/* ------------------------------------------------------------------------ results -- */

/* ucc_status_t; errors are negative. */
enum {
	UCC_OK = 0,
	UCC_INPROGRESS = 1,
	UCC_ERR_NOT_SUPPORTED = -1,
	UCC_ERR_NOT_IMPLEMENTED = -2,
	UCC_ERR_INVALID_PARAM = -3,
	UCC_ERR_NO_MEMORY = -4,
	UCC_ERR_NO_RESOURCE = -5,
	UCC_ERR_NO_MESSAGE = -6,
	UCC_ERR_TIMED_OUT = -8
};
typedef int ucc_status_t;

/* --------------------------------------------------------------- library, context -- */

typedef struct ucc_lib_info *ucc_lib_h;
typedef struct ucc_lib_config *ucc_lib_config_h;
typedef struct ucc_context *ucc_context_h;
typedef struct ucc_context_config *ucc_context_config_h;
typedef struct ucc_team *ucc_team_h;

enum { UCC_LIB_PARAM_FIELD_THREAD_MODE = 1 << 0 };
enum { UCC_THREAD_SINGLE = 0, UCC_THREAD_MULTIPLE = 2 };

typedef struct ucc_lib_params {
	uint64_t mask;
	int thread_mode;
	uint64_t coll_types;
	uint64_t reduction_types;
	int sync_type;
} ucc_lib_params_t;

/* An allgather of the program's, for the time before the ranks are connected. */
typedef struct ucc_oob_coll {
	ucc_status_t (*allgather)(void *src, void *recv, size_t size, void *info, void **request);
	ucc_status_t (*req_test)(void *request);
	ucc_status_t (*req_free)(void *request);
	void *coll_info;
	uint32_t n_oob_eps;
	uint32_t oob_ep;
} ucc_oob_coll_t;

typedef struct ucc_mem_map_params {
	void *segments;
	uint64_t n_segments;
} ucc_mem_map_params_t;

enum { UCC_CONTEXT_PARAM_FIELD_TYPE = 1 << 0, UCC_CONTEXT_PARAM_FIELD_OOB = 1 << 2 };
enum { UCC_CONTEXT_EXCLUSIVE = 0, UCC_CONTEXT_SHARED = 1 };

typedef struct ucc_context_params {
	uint64_t mask;
	int type;
	int sync_type;
	ucc_oob_coll_t oob;
	uint64_t ctx_id;
	ucc_mem_map_params_t mem_params;
} ucc_context_params_t;

/* --------------------------------------------------------------------------- team -- */

enum {
	UCC_TEAM_PARAM_FIELD_EP = 1 << 2,
	UCC_TEAM_PARAM_FIELD_EP_RANGE = 1 << 4,
	UCC_TEAM_PARAM_FIELD_OOB = 1 << 7
};
enum { UCC_COLLECTIVE_EP_RANGE_CONTIG = 0 };

/* The beginning of ucc_team_params_t, to the last member that the plugin sets. */
typedef struct ucc_team_params {
	uint64_t mask;
	uint64_t flags;
	int ordering;
	uint64_t outstanding_colls;
	uint64_t ep;
	uint64_t *ep_list;
	int ep_range;
	uint64_t team_size;
	int sync_type;
	ucc_oob_coll_t oob;
	uint64_t later[32];
} ucc_team_params_t;

/* -------------------------------------------------------------------- collectives -- */

enum {
	UCC_COLL_TYPE_ALLGATHER = 1 << 0,
	UCC_COLL_TYPE_ALLGATHERV = 1 << 1,
	UCC_COLL_TYPE_ALLREDUCE = 1 << 2,
	UCC_COLL_TYPE_ALLTOALL = 1 << 3,
	UCC_COLL_TYPE_ALLTOALLV = 1 << 4,
	UCC_COLL_TYPE_BARRIER = 1 << 5,
	UCC_COLL_TYPE_BCAST = 1 << 6,
	UCC_COLL_TYPE_GATHER = 1 << 9,
	UCC_COLL_TYPE_GATHERV = 1 << 10,
	UCC_COLL_TYPE_REDUCE = 1 << 11,
	UCC_COLL_TYPE_REDUCE_SCATTER = 1 << 12,
	UCC_COLL_TYPE_REDUCE_SCATTERV = 1 << 13,
	UCC_COLL_TYPE_SCATTER = 1 << 14,
	UCC_COLL_TYPE_SCATTERV = 1 << 15
};

enum { UCC_MEMORY_TYPE_HOST = 0 };

typedef uint64_t ucc_datatype_t;

/* UCC_PREDEFINED_DT(number) */
enum {
	UCC_DT_INT8 = 0 << 3,
	UCC_DT_INT16 = 1 << 3,
	UCC_DT_INT32 = 2 << 3,
	UCC_DT_INT64 = 3 << 3,
	UCC_DT_UINT8 = 5 << 3,
	UCC_DT_UINT16 = 6 << 3,
	UCC_DT_UINT32 = 7 << 3,
	UCC_DT_UINT64 = 8 << 3,
	UCC_DT_FLOAT32 = 11 << 3,
	UCC_DT_FLOAT64 = 12 << 3,
	UCC_DT_FLOAT32_COMPLEX = 15 << 3,
	UCC_DT_FLOAT64_COMPLEX = 16 << 3
};

/* ucc_reduction_op_t */
enum {
	UCC_OP_SUM,
	UCC_OP_PROD,
	UCC_OP_MAX,
	UCC_OP_MIN,
	UCC_OP_LAND,
	UCC_OP_LOR,
	UCC_OP_LXOR,
	UCC_OP_BAND,
	UCC_OP_BOR,
	UCC_OP_BXOR,
	UCC_OP_MAXLOC,
	UCC_OP_MINLOC,
	UCC_OP_AVG
};

typedef struct ucc_coll_buffer_info {
	void *buffer;
	uint64_t count;
	ucc_datatype_t datatype;
	int mem_type;
} ucc_coll_buffer_info_t;

typedef struct ucc_coll_buffer_info_v {
	void *buffer;
	uint64_t *counts;
	uint64_t *displacements;
	ucc_datatype_t datatype;
	int mem_type;
} ucc_coll_buffer_info_v_t;

enum { UCC_COLL_ARGS_FIELD_FLAGS = 1 << 0 };
enum {
	UCC_COLL_ARGS_FLAG_IN_PLACE = 1 << 0,
	UCC_COLL_ARGS_FLAG_COUNT_64BIT = 1 << 2,
	UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT = 1 << 3
};

typedef struct ucc_coll_args {
	uint64_t mask;
	int coll_type;
	union {
		ucc_coll_buffer_info_t info;
		ucc_coll_buffer_info_v_t info_v;
	} src, dst;
	int op;
	uint64_t flags;
	uint64_t root;
	int error_type;
	uint16_t tag;
	void *global_work_buffer;
	struct {
		void (*cb)(void *data, ucc_status_t status);
		void *data;
	} cb;
	double timeout;
	struct {
		uint64_t start;
		int64_t stride;
		uint64_t size;
	} active_set;
	uint64_t later[32]; /* 1.4: src_memh and dst_memh */
} ucc_coll_args_t;

/* The program reads the status after each ucc_context_progress. */
typedef struct ucc_coll_req {
	volatile ucc_status_t status;
} ucc_coll_req_t, *ucc_coll_req_h;

#endif
