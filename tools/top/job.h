/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h - jobs, and what their ranks do, from the pages that the ranks keep (page/page.h): of this host, or of a job's hosts. */
#ifndef TOOLS_TOP_JOB_H
#define TOOLS_TOP_JOB_H

#include "page/page_read.h"
#include "top/source.h"

enum job_state {
	JOB_DEAD,     /* the process has ended without leaving the job */
	JOB_STOPPED,  /* by a signal or a debugger */
	JOB_FAILED,   /* a communicator has failed */
	JOB_OBSERVER, /* a thread is in a function of an observer */
	JOB_WAITS,    /* a thread waits in libcoll */
	JOB_POLLS,    /* the program asks again and again whether an operation is done */
	JOB_OUTSIDE /* the program is elsewhere: it computes, sleeps, or waits for something else */
};

/* What a rank does on a communicator. */
struct job_comm {
	const struct page_comm *comm;
	uint64_t collectives; /* that it has called */
	int behind; /* it has called fewer than another rank in struct job, and no rank has called fewer */
	uint64_t most; /* the most that a rank in struct job has called */
	const struct record *open,
		*ended; /* the oldest that has not ended, and the last that has; or NULL */
	uint64_t open_number, ended_number;
	int polls;                 /* the program polls for what is not done */
	int awaits;                /* ranks for which it waits; 0: none, or not known */
	int awaited[PAGE_AWAITED]; /* the first ones, as ranks of the job; -1: not known */
};

struct job_rank {
	const struct page_view *view;
	enum job_state state;
	int comms;
	struct job_comm comm[PAGE_SLOTS];
	const struct job_comm
		*shown; /* what it does now, in one line; NULL: it has no communicator */
	int behind;     /* on one of its communicators */
	double calls_per_s, bytes_per_s; /* -1: not known */
};

struct job {
	uint64_t id;
	int ranks;                 /* whose pages were read */
	int lives;                 /* one of their processes runs */
	const struct fetch *fetch; /* its hosts; NULL: the pages are this host's */
	struct job_rank *rank;
};

struct jobs {
	struct page_list pages;
	struct fetch fetch; /* without hosts: the pages are this host's */
	int count;
	struct job *job;
};

/*
 * Reads all jobs of the source.  before: the jobs as an earlier call read them, for rates, or NULL.  Returns 0, or 1 after a
 * message in the name of `coll COMMAND`.
 */
int jobs_read(const char *command, struct source *source, struct jobs *jobs,
	      const struct jobs *before);
void jobs_free(struct jobs *jobs);

/*
 * Returns the job whose number begins with `name`; NULL: the only job that runs.  Returns NULL after a message that lists
 * the jobs.
 */
const struct job *jobs_find(const char *command, const struct jobs *jobs, const char *name);
/* Removes the pages of jobs of which no process runs. */
void jobs_clean(const struct jobs *jobs);

/* Writes "NAME, rank 1 and 2 more: why" of a host of the job that has not answered.  Returns 0 if the host has answered. */
int job_describe_missing(const struct job *job, int host, char *text, size_t size);
/* A message about each host that has not answered.  Returns 1 if there is one. */
int job_warn_missing(const char *command, const struct job *job);
/* Where the job can be looked at from elsewhere, or NULL. */
const char *job_look_at(const struct job *job);

const char *job_state_name(enum job_state state);
/* The seconds since the time of a record; 0 for times to come, or not known. */
double job_seconds_since(const struct job_rank *rank, int64_t us);
/* Since when the rank does what it does on the communicator, or 0: not known. */
int64_t job_since(const struct job_comm *c);

#endif
