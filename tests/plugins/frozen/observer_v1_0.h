/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observer_v1_0.h - what an observer of observer ABI 1.0 was built against: observer.h without the manual, on the frozen
 * backend.h of then.  No line of it ever changes, whatever becomes of observer.h.  tests/abi/abi.t holds it to its table.
 */
#ifndef TESTS_FROZEN_OBSERVER_V1_0_H
#define TESTS_FROZEN_OBSERVER_V1_0_H

#include "backend_v1_5.h"

#define COLL_OBSERVER_EXPORT    COLL_BACKEND_EXPORT
#define COLL_OBSERVER_ABI_MAJOR 1
#define COLL_OBSERVER_ABI_MINOR 0
#define COLL_OBSERVER_SYMBOL    "coll_observer_v1"
enum {
	COLL_OBSERVE_NOTHING = 0,
	COLL_OBSERVE_COMM = 1,
	COLL_OBSERVE_CALL = 2,
	COLL_OBSERVE_STEP = 4,
	COLL_OBSERVE_COPY = 8,
	COLL_OBSERVE_MESSAGE = 16,
	COLL_OBSERVE_WAIT = 32,
	COLL_OBSERVE_FAILURE = 64
};
enum {
	COLL_OBSERVED_NEVER = -1,
	COLL_OBSERVED_ISSUED = 0,
	COLL_OBSERVED_BEGIN = 1,
	COLL_OBSERVED_END = 2
};
typedef struct coll_observed {
	uint64_t size;
	uint32_t what;
	int32_t phase;
	int64_t time_ns;
	uint64_t comm;
	const char *comm_id;
	int32_t rank, nranks;
	int32_t world_rank;
	int32_t kind;
	uint64_t number;
	uint64_t collective;
	int32_t dtype, op;
	int32_t peer;
	int32_t tag;
	uint64_t count;
	uint64_t bytes;
	const char *algorithm;
	uint32_t send_memory, recv_memory;
	uint64_t stream;
	int32_t code;
	int32_t step;
	int32_t index;
	int32_t lane;
	const char *text;
	const int32_t *world_ranks;
	const char *host;
	const char *backend;
	uint64_t job;
	uint64_t parent;
	int64_t issued_ns, begin_ns;
} coll_observed_t;
typedef struct coll_observer_host {
	uint64_t size;
	uint32_t abi_minor;
	int32_t rank, nranks;
	int32_t reserved;
	const char *host_name;
	const char *backend;
	const char *(*option)(const struct coll_observer_host *host, const char *key);
	void (*log)(const struct coll_observer_host *host, int32_t level, const char *text);
	coll_result_t (*expand)(const struct coll_observer_host *host, const char *pattern,
				char *out, uint64_t out_size, coll_error_t *err);
	int64_t (*option_int)(const struct coll_observer_host *host, const char *key);
	const char *(*kind_name)(int32_t kind);
	const char *(*dtype_name)(int32_t dtype);
	const char *(*op_name)(int32_t op);
	const char *(*error_text)(int32_t code);
} coll_observer_host_t;
typedef struct coll_observer {
	uint64_t size;
	uint32_t abi_minor;
	uint32_t wants;
	const char *name;
	const char *version;
	const char *description;
	const coll_option_t *options;
	uint32_t option_count, option_size;
	coll_result_t (*open)(const coll_observer_host_t *host, void **state, coll_error_t *err);
	void (*event)(void *state, const coll_observed_t *event);
	void (*close)(void *state);
} coll_observer_t;

#endif
