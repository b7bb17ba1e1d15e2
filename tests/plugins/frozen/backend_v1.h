/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend_v1.h - what plugins of the minors of backend ABI 1 were built against: backend.h and what it needs of
 * coll.h, without the manual.  FROZEN_MINOR chooses the minor (backend_v1_*.h).  A landed minor is frozen: no line
 * of it ever changes, whatever becomes of those headers, and this file includes neither.  A new minor appends lines
 * under its own #if.  tests/abi/abi.t holds each minor to its table.
 */
#ifndef TESTS_FROZEN_BACKEND_V1_H
#define TESTS_FROZEN_BACKEND_V1_H

#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------- from coll.h -- */

typedef int32_t coll_result_t;
enum {
	COLL_SUCCESS = 0,
	COLL_ERR_DEVICE = 1,
	COLL_ERR_SYSTEM = 2,
	COLL_ERR_INTERNAL = 3,
	COLL_ERR_INVALID_ARGUMENT = 4,
	COLL_ERR_INVALID_USAGE = 5,
	COLL_ERR_REMOTE = 6,
	COLL_IN_PROGRESS = 7,
	COLL_ERR_TIMEOUT = 8,
	COLL_ERR_UNSUPPORTED = 16,
	COLL_ERR_NO_MEMORY = 17,
	COLL_ERR_CONFIG = 18,
	COLL_ERR_NOT_FOUND = 19,
	COLL_ERR_PLUGIN = 20,
	COLL_ERR_ABI = 21,
	COLL_ERR_MISMATCH = 22,
	COLL_ERR_PEER_LOST = 23,
	COLL_ERR_ABORTED = 24,
	COLL_ERR_VERSION = 25,
	COLL_ERR_PERMISSION = 26
};

typedef int32_t coll_dtype_t;
enum {
	COLL_INT8 = 0,
	COLL_UINT8 = 1,
	COLL_INT32 = 2,
	COLL_UINT32 = 3,
	COLL_INT64 = 4,
	COLL_UINT64 = 5,
	COLL_FLOAT16 = 6,
	COLL_FLOAT32 = 7,
	COLL_FLOAT64 = 8,
	COLL_BFLOAT16 = 9,
	COLL_FLOAT8E4M3 = 10,
	COLL_FLOAT8E5M2 = 11,
	COLL_INT16 = 32,
	COLL_UINT16 = 33
};
#if FROZEN_MINOR >= 4
enum {
	COLL_DTYPE_NONE = -1,
	COLL_BOOL = 34,
	COLL_COMPLEX64 = 35,
	COLL_COMPLEX128 = 36,
	COLL_FLOAT32_INT32 = 37,
	COLL_FLOAT64_INT32 = 38,
	COLL_INT32_INT32 = 39,
	COLL_INT64_INT32 = 40
};
#endif

typedef int32_t coll_op_t;
enum {
	COLL_SUM = 0,
	COLL_PROD = 1,
	COLL_MAX = 2,
	COLL_MIN = 3,
	COLL_AVG = 4,
	COLL_BAND = 32,
	COLL_BOR = 33,
	COLL_BXOR = 34
};
#if FROZEN_MINOR >= 4
enum {
	COLL_OP_NONE = -1,
	COLL_LAND = 35,
	COLL_LOR = 36,
	COLL_LXOR = 37,
	COLL_MINLOC = 38,
	COLL_MAXLOC = 39
};
#endif

typedef void *coll_stream_t;

enum {
	COLL_KIND_ALLREDUCE = 1,
	COLL_KIND_BROADCAST = 2,
	COLL_KIND_REDUCE = 3,
	COLL_KIND_ALLGATHER = 4,
	COLL_KIND_REDUCE_SCATTER = 5,
	COLL_KIND_ALLTOALL = 6,
	COLL_KIND_GATHER = 7,
	COLL_KIND_SCATTER = 8,
	COLL_KIND_ALLGATHERV = 9,
	COLL_KIND_REDUCE_SCATTERV = 10,
	COLL_KIND_ALLTOALLV = 11,
	COLL_KIND_GATHERV = 12,
	COLL_KIND_SCATTERV = 13,
	COLL_KIND_BARRIER = 14,
	COLL_KIND_SEND = 15,
	COLL_KIND_RECV = 16
};

typedef struct coll_args {
	uint64_t size;
	int32_t kind;
	int32_t dtype;
	int32_t op;
	int32_t root;
	uint32_t tag;
	uint32_t flags;
	const void *sendbuf;
	void *recvbuf;
	uint64_t count;
	const size_t *sendcounts;
	const size_t *senddispls;
	const size_t *recvcounts;
	const size_t *recvdispls;
	coll_stream_t stream;
	const void *scalar;
} coll_args_t;

/* ------------------------------------------------------- from backend.h -- */

#if defined(__GNUC__)
#define COLL_BACKEND_EXPORT __attribute__((visibility("default")))
#else
#define COLL_BACKEND_EXPORT
#endif
#define COLL_BACKEND_ABI_MAJOR 1
#define COLL_BACKEND_ABI_MINOR FROZEN_MINOR
#define COLL_BACKEND_SYMBOL    "coll_backend_v1"
typedef struct coll_error {
	uint32_t size;
	int32_t code;
	char text[504];
} coll_error_t;
enum { COLL_MEM_HOST = 1, COLL_MEM_CUDA = 2, COLL_MEM_CUDA_MANAGED = 4 };
enum {
	COLL_LOG_ERROR = 0,
	COLL_LOG_WARN = 1,
	COLL_LOG_INFO = 2,
	COLL_LOG_DEBUG = 3,
	COLL_LOG_TRACE = 4
};
#if FROZEN_MINOR >= 4
enum { COLL_LOG_NONE = -1, COLL_OPTION_NONE = -1 };
#endif
enum {
	COLL_OPTION_STRING = 0,
	COLL_OPTION_INT = 1,
	COLL_OPTION_BOOL = 2,
	COLL_OPTION_BYTES = 3,
	COLL_OPTION_DURATION = 4
};
typedef struct coll_option {
	const char *key;
	const char *fallback;
	const char *unit;
	const char *help;
	int64_t min, max;
	int32_t type;
	int32_t reserved;
} coll_option_t;
typedef struct coll_header {
	uint64_t tag;
	uint64_t meta[2];
	uint64_t len;
} coll_header_t;
typedef struct coll_send {
	coll_header_t header;
	const void *buf;
	uint32_t peer;
	int32_t status;
	uint64_t plugin[6];
	uint32_t memory;
	uint32_t reserved;
} coll_send_t;
typedef struct coll_sink {
	uint64_t cookie;
	void *buf;
	uint32_t memory;
	uint32_t reserved;
} coll_sink_t;
#if FROZEN_MINOR >= 4
enum {
	COLL_SHARES_PROCESS = 1,
	COLL_SHARES_HOST = 2,
	COLL_SHARES_NETWORK = 4,
	COLL_SHARES_PIDS = 8,
	COLL_SHARES_FILES = 16,
	COLL_SHARES_IPC = 32,
	COLL_SHARES_PROCESSORS = 64
};
#endif
typedef struct coll_host coll_host_t;
struct coll_host {
	uint64_t size;
	uint32_t abi_minor;
	uint32_t rank;
	uint32_t nranks;
	int32_t device;
	int64_t timeout_ms;
	uint8_t key[16];
	void *core;
	void (*log)(const coll_host_t *host, int32_t level, const char *text);
	const char *(*option_string)(const coll_host_t *host, const char *key);
	int64_t (*option_int)(const coll_host_t *host, const char *key);
	int32_t (*exchange)(const coll_host_t *host, const void *in, void *out, uint64_t len,
			    int64_t timeout_ms, coll_error_t *err);
	void (*mac)(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16]);
	int32_t (*aborted)(const coll_host_t *host);
	void *(*alloc)(const coll_host_t *host, uint64_t bytes);
	void (*free)(const coll_host_t *host, void *ptr, uint64_t bytes);
	int32_t (*arrive)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			  coll_sink_t *sink);
	void (*data)(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n);
	void (*arrived)(const coll_host_t *host, uint64_t cookie, int32_t status);
	void (*peer_lost)(const coll_host_t *host, uint32_t peer, const char *text);
	uint32_t (*memory_kind)(const coll_host_t *host, const void *ptr, int32_t *device);
	int32_t (*copy)(const coll_host_t *host, void *dst, const void *src, uint64_t n,
			coll_error_t *err);
	int32_t (*reduce)(const coll_host_t *host, void *dst, const void *left, const void *right,
			  uint64_t count, int32_t dtype, int32_t op);
#if FROZEN_MINOR >= 3
	int32_t (*exchange_fail)(const coll_host_t *host, int32_t code, const char *text,
				 int64_t timeout_ms);
#endif
#if FROZEN_MINOR >= 4
	uint32_t key_is_secret;
	uint32_t reserved;
	const uint8_t *shares;
	int32_t (*posted)(const coll_host_t *host, uint32_t peer, const coll_header_t *header);
	int32_t (*message)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   const void *bytes);
#endif
};
typedef struct coll_transport {
	uint64_t size;
	int32_t (*send)(void *ep, coll_send_t *send, coll_error_t *err);
	int32_t (*progress)(void *ep);
	void (*cancel)(void *ep, coll_send_t *send);
	void (*drop)(void *ep, uint64_t cookie);
	int32_t (*wait_fd)(void *ep);
	int32_t (*arm)(void *ep);
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);
	void (*forked)(void *ep);
#if FROZEN_MINOR >= 1
	uint32_t (*memory)(void *ep);
#endif
#if FROZEN_MINOR >= 4
	int32_t (*send_more)(void *ep, coll_send_t *send, coll_error_t *err);
	void (*flush)(void *ep);
#endif
#if FROZEN_MINOR >= 5
	void (*describe)(void *ep, char *buf, uint64_t size);
#endif
#if FROZEN_MINOR >= 6
	int32_t (*mem_alloc)(void *ep, uint64_t bytes, void **ptr, coll_error_t *err);
	void (*mem_free)(void *ptr);
#endif
} coll_transport_t;
typedef struct coll_native {
	uint64_t size;
	int32_t (*allreduce)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*broadcast)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*allgather)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce_scatter)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*alltoall)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*gather)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*scatter)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*allgatherv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce_scatterv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*alltoallv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*gatherv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*scatterv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*barrier)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*send)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*recv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*group_begin)(void *ep, coll_error_t *err);
	int32_t (*group_end)(void *ep, coll_error_t *err);
	int32_t (*query)(void *ep, coll_error_t *err);
	int32_t (*sync)(void *ep, int64_t timeout_ms, coll_error_t *err);
	int32_t (*async_error)(void *ep, coll_error_t *err);
	void (*abort)(void *ep);
	int32_t (*split)(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			 void **newep, coll_error_t *err);
	int32_t (*shrink)(void *ep, const int32_t *exclude, int32_t n, const coll_host_t *newhost,
			  void **newep, coll_error_t *err);
	int32_t (*event_create)(void *ep, void **event, coll_error_t *err);
	void (*event_destroy)(void *ep, void *event);
	int32_t (*event_record)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_wait)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_query)(void *ep, void *event, coll_error_t *err);
	int32_t (*event_synchronize)(void *ep, void *event, int64_t timeout_ms, coll_error_t *err);
	int32_t (*op_create_pre_mul_sum)(void *ep, int32_t *op, const void *scalar, int32_t dtype,
					 int32_t residence, coll_error_t *err);
	int32_t (*op_destroy)(void *ep, int32_t op, coll_error_t *err);
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);
	void *(*handle)(void *ep);
#if FROZEN_MINOR >= 2
	int32_t (*device)(void *ep);
	int32_t (*takes)(void *ep, const coll_args_t *args, coll_error_t *err);
#endif
#if FROZEN_MINOR >= 4
	int32_t (*take_place)(void *ep, coll_stream_t stream, coll_error_t *err);
#endif
#if FROZEN_MINOR >= 5
	int32_t (*scan)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*exscan)(void *ep, const coll_args_t *args, coll_error_t *err);
#endif
#if FROZEN_MINOR >= 6
	int32_t (*mem_alloc)(void *ep, uint64_t bytes, void **ptr, coll_error_t *err);
	void (*mem_free)(void *ptr);
#endif
} coll_native_t;
enum { COLL_BACKEND_IN_PROCESS = 1, COLL_BACKEND_BY_NAME = 2 };
#if FROZEN_MINOR >= 4
enum { COLL_ARGS_IN_PLACE = 1 << 16, COLL_BACKEND_POLL = 4, COLL_BACKEND_CLOSE_TOGETHER = 8 };
#endif
#if FROZEN_MINOR >= 5
enum { COLL_BACKEND_NATIVE_SPLIT = 16 };
#endif
typedef struct coll_backend {
	uint64_t size;
	uint32_t abi_minor;
	uint32_t flags;
	const char *name;
	const char *version;
	const char *description;
	int32_t priority;
	uint32_t memory;
	const coll_option_t *options;
	uint32_t option_count;
	uint32_t option_size;
	const coll_transport_t *transport;
	const coll_native_t *native;
	int32_t (*probe)(const coll_host_t *host, coll_error_t *err);
	int32_t (*open)(const coll_host_t *host, void **ep, coll_error_t *err);
	void (*close)(void *ep, int64_t timeout_ms);
	int32_t (*open_all)(const coll_host_t *const *hosts, uint32_t n, void **eps,
			    coll_error_t *err);
	int32_t (*info)(const coll_host_t *host, char *buf, uint64_t size);
#if FROZEN_MINOR >= 4
	int32_t host_priority;
	uint32_t reserved;
	void (*finish)(void);
#endif
} coll_backend_t;
extern COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1;

#endif
