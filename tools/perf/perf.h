/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h - the parts of `coll perf`: the command and the sequence of measurements (perf.c), the
 * collectives (kind.c), their memory (memory.c), one measurement (run.c), the output (report.c, svg.c), and what
 * two outputs differ in (compare.c).
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <coll/coll.h>
#include "lib/json.h"
#include "lib/memory.h"
#include "lib/progress.h"

struct tool_command;
extern const struct tool_command tool_perf;

struct perf_case;

struct perf_kind {
	const char *name;
	int32_t number; /* COLL_KIND_*; of sendrecv COLL_KIND_SEND */
	int reduces;    /* 1: takes an operation */
	int rooted;     /* 1: takes a root */
	int in_place;   /* 1: has an in-place form */
	int send_parts; /* 1: sendbuf holds count elements for each rank; 0: count elements */
	int recv_parts;
	int no_data; /* 1: a barrier */
	int scans;   /* the result is of the ranks 1: up to this rank, 2: before it */
	coll_result_t (*call)(const struct perf_case *c, const void *send, void *recv);
};

/* The collectives, ended by a NULL name. */
extern const struct perf_kind perf_kinds[];
const struct perf_kind *perf_find_kind(const char *name);

/* One row of the output: the call that each rank makes. */
struct perf_case {
	const struct perf_kind *kind;
	coll_comm_t comm;
	int32_t rank, nranks, root;
	coll_dtype_t dtype;
	coll_op_t op;
	size_t count; /* the call's count argument */
	size_t size;  /* bytes of the larger buffer */
	int group;    /* calls that are issued together; 1: no group */
	/* For v-forms: the same count for each rank, and where the parts of the ranks begin.  Memory of the worker. */
	size_t *counts, *displs;
};

enum { PERF_KINDS_MAX = 24, PERF_DTYPES_MAX = 24, PERF_OPS_MAX = 16, PERF_RANKS_MAX = 1024 };

enum perf_format { PERF_TABLE, PERF_JSON, PERF_CSV };

/* In addition to enum memory_kind: host memory if the backend takes it, else device memory; and memory of coll_mem_alloc. */
enum { PERF_MEMORY_ANY = -1, PERF_MEMORY_LIBRARY = MEMORY_MANAGED + 1 };

struct perf_options {
	const struct perf_kind *kind; /* NULL: all */
	coll_dtype_t dtype[PERF_DTYPES_MAX];
	int dtypes;
	coll_op_t op[PERF_OPS_MAX];
	int ops;
	uint64_t *size;
	size_t sizes;
	int iters, warmup, root, check;
	int in_process; /* number of ranks as threads of this process; 0: from the environment */
	/* 1: the user asked for "all" collectives, types or operations, so skip unsupported cases */
	int several;
	int memory;      /* an enum memory_kind, or PERF_MEMORY_* */
	int issue;       /* 1: also measure how long a call takes to return */
	int group;       /* calls that are issued together in a group; 1: no group */
	int persistent;  /* 1: start persistent requests, which are made before the timed calls */
	int percentiles; /* 1: also print percentiles of the times */
	const char *svg; /* the file for a chart, or NULL */
	char **compare;  /* two files of --json to compare, or NULL */
	enum perf_format format;
};

/* --------------------------------------------------------- memory.c -- */

enum { PERF_SHARE_MAX = 128 };

struct perf_buffers {
	int memory;            /* as the options have it, but for PERF_MEMORY_ANY */
	enum memory_kind kind; /* where the memory lies */
	int device;
	char *send, *recv;
	/* host memory as long as one buffer; NULL if the host may touch the buffers */
	char *staging;
	/* PERF_SHARE_MAX bytes of the same kind of memory; NULL if host memory suffices */
	char *share;
};

const char *perf_memory_name(int kind);
/* Returns the local rank of this process as its launcher says; 0 if no launcher does. */
int perf_local_rank(void);
/*
 * Finds the number of devices over which the ranks are spread; 0: no device is needed.  Returns -1 after printing an error.
 */
int perf_devices(const struct perf_options *options, int *devices);
/* Allocates the buffers.  Returns 0, or -1 with the reason in text.  The caller must call perf_buffers_close afterwards. */
int perf_buffers_open(struct perf_buffers *buffers, const struct perf_options *options,
		      coll_comm_t comm, uint64_t bytes, char *text, size_t size);
void perf_buffers_close(struct perf_buffers *buffers);
/* Copies between the buffers and host memory; ends the program on failure. */
void perf_copy(const struct perf_buffers *buffers, void *dst, const void *src, size_t n);

/* ------------------------------------------------------------ run.c -- */

struct perf_times {
	/* microseconds of each call, on the slowest rank; the percentiles are of the calls */
	double mean, min, median, p90, p99, max;
	/* median of the nanoseconds until the call returns, before the operation is complete */
	double issue;
};

struct perf_row {
	struct perf_times times[2]; /* out of place, in place */
	int64_t wrong[2];           /* wrong elements on all ranks; -1: not checked */
	int in_place;               /* 1 if the collective has an in-place form */
};

/* Returns the distance between the buffers of two calls of a group, of `bytes` bytes each. */
static inline size_t perf_group_stride(uint64_t bytes)
{
	return (size_t)(bytes + 63) / 64 * 64;
}

/* Sets count and size so that the larger buffer has about `bytes` bytes. */
void perf_set_size(struct perf_case *c, uint64_t bytes);
/* Measures one row.  Returns COLL_SUCCESS, or the code of a failed call; then coll_get_last_error has the message. */
coll_result_t perf_run_row(const struct perf_case *c, const struct perf_options *options,
			   const struct perf_buffers *buffers, struct perf_row *row);

/* ------------------------------------------------------------ svg.c -- */

/* The points of a chart; an empty struct has none. */
struct perf_chart {
	struct perf_point *point;
	size_t points, room;
	int failed; /* 1: memory ran out */
};

struct perf_point {
	const struct perf_kind *kind;
	coll_dtype_t dtype;
	coll_op_t op;
	double size, time, busbw;
};

void perf_chart_add(struct perf_chart *chart, const struct perf_point *point);
/* Writes the chart and frees the points.  Returns 0, or -1 after printing an error. */
int perf_chart_write(struct perf_chart *chart, const char *path, const char *title);

/* -------------------------------------------------------- compare.c -- */

/* Prints how the times of two files of `coll perf --json` differ.  Returns the exit status. */
int perf_compare(const char *before, const char *after);

/* --------------------------------------------------------- report.c -- */

/* Only rank 0 prints a report. */
struct perf_report {
	enum perf_format format;
	int quiet, issue, percentiles;
	const char *svg;
	struct perf_chart chart;
	char title[128];
	struct progress progress;
	struct json json;
	const struct perf_kind *kind; /* the collective whose table heading was printed last */
	char skipped[512];            /* the last message about a skipped case */
	double bus_sum;
	int bus_count;
	int64_t wrong;
};

void perf_report_begin(struct perf_report *report, const struct perf_options *options,
		       const struct perf_case *c, int memory);
void perf_report_progress(struct perf_report *report, const struct perf_case *c);
void perf_report_row(struct perf_report *report, const struct perf_case *c,
		     const struct perf_row *row);
/* Reports a case that the backend does not support. */
void perf_report_skipped(struct perf_report *report, const char *message);
/* Ends the report.  error: the message that ended the run, or NULL.  Returns 0, or -1 if a file could not be written. */
int perf_report_end(struct perf_report *report, const char *error);

#endif
