/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h - the parts of `coll perf`: options and order of work (perf.c), the collectives
 * (kind.c), their memory (memory.c), one measurement (run.c), what is printed (report.c).
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <coll/coll.h>
#include "lib/json.h"
#include "lib/memory.h"

struct tool_command;
extern const struct tool_command tool_perf;

/* How far an amount of data at the API differs from what each link must carry. */
enum perf_factor { PERF_FACTOR_ONE, PERF_FACTOR_PART, PERF_FACTOR_TWICE };

struct perf_case;

struct perf_kind {
	const char *name;
	int reduces;    /* takes an operation */
	int rooted;     /* takes a root */
	int in_place;   /* has an in-place form */
	int send_parts; /* sendbuf holds count elements for each rank, or only count */
	int recv_parts;
	int no_data; /* barrier */
	enum perf_factor factor;
	coll_result_t (*call)(const struct perf_case *c, const void *send, void *recv);
};

/* The collectives, ended by a NULL name. */
extern const struct perf_kind perf_kinds[];
const struct perf_kind *perf_find_kind(const char *name);
/* Bus bandwidth over algorithm bandwidth. */
double perf_bus_factor(const struct perf_kind *kind, int nranks);

/* One row: what each rank calls. */
struct perf_case {
	const struct perf_kind *kind;
	coll_comm_t comm;
	int32_t rank, nranks, root;
	coll_dtype_t dtype;
	coll_op_t op;
	size_t count; /* the call's count argument */
	size_t size;  /* bytes of the larger buffer */
};

enum { PERF_KINDS_MAX = 16, PERF_DTYPES_MAX = 16, PERF_OPS_MAX = 8, PERF_RANKS_MAX = 1024 };

enum perf_format { PERF_TABLE, PERF_JSON, PERF_CSV };

/* Beside the kinds of memory: host memory if the backend takes it, else a device's. */
enum { PERF_MEMORY_ANY = -1 };

struct perf_options {
	const struct perf_kind *kind; /* NULL: all */
	coll_dtype_t dtype[PERF_DTYPES_MAX];
	int dtypes;
	coll_op_t op[PERF_OPS_MAX];
	int ops;
	uint64_t *size;
	size_t sizes;
	int iters, warmup, root, check;
	int in_process; /* ranks as threads of this process; 0: from the environment */
	int several;    /* "all" was asked for somewhere: what is unsupported is passed over */
	int memory;     /* an enum memory_kind, or PERF_MEMORY_ANY */
	int issue;      /* also tell how long a call takes to return */
	enum perf_format format;
};

/* --------------------------------------------------------- memory.c -- */

enum { PERF_SHARE_MAX = 128 };

struct perf_buffers {
	enum memory_kind kind;
	int device;
	char *send, *recv;
	char *staging; /* host memory as long as one of them; NULL if the host may touch these */
	char *share;   /* PERF_SHARE_MAX bytes of the same kind; NULL if host memory will do */
};

const char *perf_memory_name(int kind);
/* Which of its host's ranks this process is, as its launcher says; 0 if none does. */
int perf_local_rank(void);
/* How many devices ranks are spread over; 0: none is needed.  -1 after a message. */
int perf_devices(const struct perf_options *options, int *devices);
/* 0, or -1 after a message.  Always followed by perf_buffers_close. */
int perf_buffers_open(struct perf_buffers *buffers, const struct perf_options *options,
		      coll_comm_t comm, uint64_t bytes);
void perf_buffers_close(struct perf_buffers *buffers);
/* Between the buffers and host memory; ends the program if that fails. */
void perf_copy(const struct perf_buffers *buffers, void *dst, const void *src, size_t n);

/* ------------------------------------------------------------ run.c -- */

struct perf_times {
	double mean, min, median; /* microseconds for one call, each that of the slowest rank */
	double issue; /* median of the nanoseconds until it returns, before it is done */
};

struct perf_row {
	struct perf_times times[2]; /* out of place, in place */
	int64_t wrong[2];           /* on all ranks; -1: not checked */
	int in_place;               /* is there a second one? */
};

/* Sets count and size for about `bytes` in the larger buffer. */
void perf_set_size(struct perf_case *c, uint64_t bytes);
/* COLL_SUCCESS, or what a call returned; coll_get_last_error then has the sentence. */
coll_result_t perf_run_row(const struct perf_case *c, const struct perf_options *options,
			   const struct perf_buffers *buffers, struct perf_row *row);

/* --------------------------------------------------------- report.c -- */

/* Only rank 0 prints; the others' reports do nothing. */
struct perf_report {
	enum perf_format format;
	int quiet, progress, issue;
	struct json json;
	const struct perf_kind *kind; /* whose table heading was printed */
	char skipped[512];            /* the sentence printed last */
	double bus_sum;
	int bus_count;
	int64_t wrong;
};

void perf_report_begin(struct perf_report *report, const struct perf_options *options,
		       const struct perf_case *c, int memory);
void perf_report_progress(const struct perf_report *report, const struct perf_case *c);
void perf_report_row(struct perf_report *report, const struct perf_case *c,
		     const struct perf_row *row);
/* What the backend does not do. */
void perf_report_skipped(struct perf_report *report, const char *message);
/* error: the sentence that ended the run, or NULL. */
void perf_report_end(struct perf_report *report, const char *error);

#endif
