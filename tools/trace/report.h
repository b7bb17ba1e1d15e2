/* SPDX-License-Identifier: BSD-3-Clause */
/* report.h - what `coll trace report` counts (report.c) and prints (report_print.c). */
#ifndef TOOLS_TRACE_REPORT_H
#define TOOLS_TRACE_REPORT_H

#include "trace/trace.h"

/* Durations are counted in 32 buckets an octave, so that a percentile is right within 2 %. */
enum {
	REPORT_SUB = 32,
	REPORT_BUCKETS = 64 * REPORT_SUB,
	REPORT_TABLE = 1 << 16,
	REPORT_UNDONE = 10
};

/* The calls of one kind whose sizes have the same power of 2 above them. */
struct report_row {
	enum trace_what what;
	int32_t kind;
	int size_class; /* log2 of the greatest size; -1: no bytes */
	uint64_t count, failed;
	double bytes;   /* of the larger buffer of a rank, of all calls */
	double bus;     /* these bytes times the factor of the bus */
	double busy_ns; /* from the last rank's begin to the last rank's end */
	double wait_ns; /* of all ranks, from their begin to the last rank's */
	uint32_t bucket[REPORT_BUCKETS];
	double *late_ns; /* of each rank: the time that the others waited for it */
};

/* A collective that some ranks have begun. */
struct report_call {
	uint64_t key;
	struct report_call *next;
	int32_t kind, nranks, expected, begun, ended, first_pid, last_pid, code;
	int64_t first_begin, last_begin, last_end;
	double later_ns; /* the sum of the begins after the first */
	uint64_t number, bytes, bytes_of_all;
	uint64_t comm;
	uint64_t begun_by, ended_by; /* bits of the ranks below 64 */
	int is_over;                 /* a rank has ended it without an error */
	char comm_name[40];
};

struct report_rank {
	int64_t last_ns, comm_ns, waited_ns;
	int calls, waits; /* that are under way */
	double late_ns;   /* the time that others waited for this rank */
	uint64_t late;    /* collectives that it was the last to begin */
};

struct report {
	struct trace_source *source;
	struct report_row *row;
	int rows;
	struct report_call **table; /* REPORT_TABLE lists, by hash */
	int under_way;
	uint64_t dropped;         /* collectives that the table had no room for */
	struct report_rank *rank; /* as source->rank */
	int ranks;
	struct report_call *slow; /* the slowest, longest first */
	int slows, slowest;
	double wait_ns, comm_ns, waited_ns;
	uint64_t collectives;
};

/* Returns the duration in nanoseconds below which that share of the row's calls lies. */
double report_percentile(const struct report_row *row, double share);
/* Returns the rank (an index) for which the others waited longest; -1: nobody waited. */
int report_latest(const struct report *report, const struct report_row *row);
void report_print(const struct report *report);
void report_print_json(const struct report *report);

#endif
