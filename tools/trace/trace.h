/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - the parts of `coll trace`: the command line (trace.c), one file (file.c), what is known of a rank and the things
 * that begin and end (rank.c), the clocks of several hosts (align.c), all files in the order of time (source.c), and what
 * the commands make of them (merge.c, report.c, report_print.c, export.c) and write (out.c).
 *
 * The files are read as streams: the memory does not depend on their size.
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lib/json_read.h"

struct tool_command;
extern const struct tool_command tool_trace;

enum {
	TRACE_RANKS_MOST = 1 << 20,
	TRACE_CLOCKS_MOST = 1024,      /* hosts whose clocks are aligned */
	TRACE_EVENT_MOST = 16 << 20,   /* bytes of the longest event */
	TRACE_UNDER_WAY_MOST = 1 << 20 /* collectives that are not seen on all ranks yet */
};

/* ----------------------------------------------------------------------- file.c -- */

/* A file that is read event by event. */
struct trace_file {
	const char *path;
	FILE *in;
	char *text; /* the part of the file from `offset` on */
	size_t used, room, at;
	uint64_t offset;
	int is_open;   /* 1: the array has begun */
	int truncated; /* 1: the file ends amid an event or without the end of its array */
	int merged;    /* 1: `coll trace merge` wrote it, so its times are aligned */

	/* The current event. */
	const char *event;
	size_t event_size;
	struct json_value *json;
	char ph;
	int32_t pid, tid;
	int64_t ts_ns; /* of the file's clock; INT64_MIN: it has none */
};

/* Returns 0, or -1 after printing an error. */
int trace_file_open(struct trace_file *file, const char *path);
/* Reads the next event.  Returns 1, 0 at the end, or -1 after printing an error. */
int trace_file_next(struct trace_file *file);
/* Begins again. */
int trace_file_rewind(struct trace_file *file);
void trace_file_close(struct trace_file *file);
/* Returns the number of a member, or the default if there is none within 32 bits. */
int32_t trace_int(const struct json_value *json, const char *key, int32_t otherwise);

/* ----------------------------------------------------------------------- rank.c -- */

enum trace_what { TRACE_OTHER, TRACE_CALL, TRACE_STEP, TRACE_COPY, TRACE_WAIT, TRACE_MESSAGE };

/* A thing that begins and ends on a rank. */
struct trace_slice {
	enum trace_what what;
	int32_t pid, tid;
	int64_t begin_ns, end_ns;  /* aligned; end 0: it has not ended */
	int32_t kind;              /* of a CALL or MESSAGE: COLL_KIND_* */
	int32_t comm_rank, nranks; /* of the rank in the communicator */
	uint64_t comm;             /* the same on all ranks */
	uint64_t key; /* of a collective: the same on all ranks, of no other collective; else 0 */
	uint64_t number, collective, count, bytes;
	uint64_t flow; /* of a STEP: the number of its message, or 0 */
	int sends;     /* of a STEP: 1: it sends the message, 0: it receives it */
	int32_t peer, tag, code;
	char name[40], algorithm[32], dtype[16], op[16], comm_name[40];
};

struct trace_comm {
	uint64_t local, hash;
	int32_t rank, nranks;
	char name[40];
	int32_t *world; /* for each rank of the communicator its rank in the job; or NULL */
};

/* What is known of a rank. */
struct trace_rank {
	int32_t pid, nranks;
	int known; /* 1: its clocks are read */
	char clock[128], host[80], job[20];
	int64_t mono_begin, wall_begin; /* both clocks at one moment */
	uint64_t lost, left_out;
	int ended; /* 1: the file has its end: the process was not killed */
	struct trace_comm *comm;
	int comms;
	struct trace_slice *row; /* by tid: what stands on it */
	int32_t rows;
	char *failure; /* the sentence of the first failure of one of its communicators; NULL: none has failed yet */
	int64_t failed_ns; /* aligned */
	int32_t failure_code;
};

/* What an event does to a slice.  BREAKS: the file has no END, since it was lost or the file ended before. */
enum trace_phase { TRACE_BEGINS = 1, TRACE_ENDS = 2, TRACE_BREAKS = 3 };

/*
 * Takes an event of the rank at an aligned time.  Returns a TRACE_* phase and the slice; 0: the event is of no slice; -1
 * without memory.  The slice is valid until the next call.
 */
int trace_rank_take(struct trace_rank *rank, const struct trace_file *file, int64_t shift_ns,
		    const struct trace_slice **slice);
/* The rank in the job of a rank of the slice's communicator; the rank itself if it is not known. */
int32_t trace_rank_world(const struct trace_rank *rank, const struct trace_slice *slice,
			 int32_t comm_rank);
void trace_rank_free(struct trace_rank *rank);

/* --------------------------------------------------------------------- source.c -- */

enum trace_method { TRACE_SAME_CLOCK, TRACE_BY_MESSAGES, TRACE_BY_WALL_CLOCK };

/* How the clock of a host is shifted, to be that of the lowest rank's host. */
struct trace_clock {
	char name[128], host[80];
	int32_t rank; /* a rank there */
	enum trace_method method;
	int64_t shift_ns; /* added to the times of the host */
	int64_t bound_ns; /* the error is at most so long; -1: not known */
	int drifts; /* 1: the messages contradict each other, so that the error may be longer */
	int64_t mono_begin, wall_begin;
	uint64_t samples; /* messages and collectives that the shift rests on */
};

/* All files, in the order of time. */
struct trace_source {
	struct trace_file *file;
	int files;
	int32_t *file_pid; /* of each file that is not merged: its rank */
	int *clock_of;     /* of each file: its clock */
	struct trace_clock *clock;
	int clocks;
	struct trace_rank *rank; /* sorted by pid; found in the first events of the files */
	int ranks;
	int *heap; /* files that have an event, the earliest first */
	int heaped;
	int merged;
	int64_t first_ns, last_ns; /* of the events so far */
};

/* Opens the files and reads what they say of their ranks.  Returns 0, or -1 after printing an error. */
int trace_source_open(struct trace_source *source, char **paths, int n);
/* Goes to the next event of all.  Returns its file; NULL at the end, or with *failed after printing an error. */
struct trace_file *trace_source_next(struct trace_source *source, int *failed);
/* As trace_source_next, up to the next slice.  Returns its TRACE_* phase, 0 at the end, -1 after an error. */
int trace_source_slice(struct trace_source *source, const struct trace_slice **slice);
int trace_source_rewind(struct trace_source *source);
struct trace_rank *trace_source_rank(const struct trace_source *source, int32_t pid);
/* Nanoseconds to add to the times of the file. */
int64_t trace_source_shift(const struct trace_source *source, const struct trace_file *file);
void trace_source_close(struct trace_source *source);

/* ---------------------------------------------------------------------- align.c -- */

/* Finds the shifts of the source's clocks; reads the files once if there are several clocks. */
int trace_align(struct trace_source *source);

/* ------------------------------------------------------------ merge.c, report.c -- */

int trace_merge(struct trace_source *source, FILE *out);
int trace_report(struct trace_source *source, int as_json, int slowest);

/* ----------------------------------------------------------------------- out.c -- */

/* Opens a file to write; "-" is standard output.  Returns NULL after printing an error, also if the file is one that is read. */
FILE *trace_out_open(const struct trace_source *source, const char *path);
/*
 * code: 0, or what went wrong while the file was written, which is printed already.  Removes a file that is not whole.
 * Returns 0, or -1 after printing an error.
 */
int trace_out_close(FILE *out, const char *path, int code);

/* -------------------------------------------------------------------- export.c -- */

/* Writes GOAL text. */
int trace_export_goal(struct trace_source *source, FILE *out);
/* Writes a file a rank, PREFIX.RANK.json. */
int trace_export_chakra(struct trace_source *source, const char *prefix);

/* Prints "coll trace: ..." on stderr.  Returns -1. */
__attribute__((format(printf, 1, 2))) int trace_error(const char *fmt, ...);
uint64_t trace_mix(uint64_t hash, uint64_t value);

#endif
