/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * campaign.h - data that the parts of the campaign share: the scenes, and the memory in which the ranks of a
 * trial report to the process that started them.
 */
#ifndef TESTS_CAMPAIGN_H
#define TESTS_CAMPAIGN_H

#include "../lib/ranks.h"

enum { NRANKS = 4, SUMS = 1024 /* int32: 4 KiB */ };

/* Times in milliseconds. */
enum { TRIAL_MS = 20000, INIT_TIMEOUT_MS = 4000 };

/* The state of a rank, in this order. */
enum { PHASE_BEGUN, PHASE_MADE, PHASE_LOOPING, PHASE_DONE };

struct report {
	_Atomic int phase;
	_Atomic int rounds; /* completed iterations of the loop */
	coll_result_t code; /* of the call that failed; COLL_SUCCESS: none may fail in this scene */
	double at;          /* time of the return */
	char text[RANKS_TEXT];
	char wrong[RANKS_TEXT]; /* a fault of the rank besides: a wrong sum, a shrink that failed */
};

struct trial {
	struct ranks_shared shared;
	int victim;
	_Atomic int stop; /* strangers: the ranks end their loops */
	double death;
	int64_t init_timeout_ms;
	int32_t second; /* shrink: the rank that the survivors exclude at first */
	struct report report[NRANKS];
};

struct scene {
	const char *name;
	/* A rank's part, from its start to its end.  Returns when its communicator has failed. */
	void (*act)(struct rank *r, struct trial *trial, struct report *report);
	int phase;        /* the victim is killed after every rank has come so far */
	double delay;     /* and up to so many seconds later, by chance */
	int limit_ms;     /* a later error is a miss */
	int may_succeed;  /* a survivor may end without an error */
	int one_leaves;   /* trial->second leaves before the death */
	int may_name_any; /* the error may name a survivor that has ended before */
	int threads;      /* the ranks are threads of one process, and the victim aborts */
};

extern const struct scene campaign_scenes[]; /* ends with a NULL name */

/* Sets code, text and time of a report. */
void campaign_report(struct report *report, coll_result_t code);
/* Makes the communicator; returns 0 if that failed, with the failure reported. */
int campaign_init(struct rank *r, struct trial *trial, struct report *report);
/* Counts a completed iteration of the loop. */
void campaign_looped(struct report *report);
/* 4 KiB allreduces, with their sums compared, until one fails. */
coll_result_t campaign_sums(struct rank *r, coll_comm_t comm, int nranks, struct report *report,
			    const _Atomic int *stop);

/* campaign_lent.c: the parts of a rank in scenes with memory of coll_mem_alloc. */
void campaign_act_lent(struct rank *r, struct trial *trial, struct report *report);
void campaign_act_lent_dup(struct rank *r, struct trial *trial, struct report *report);
void campaign_act_lent_abort(struct rank *r, struct trial *trial, struct report *report);

/* The process of one rank; never returns. */
void campaign_rank(const struct scene *scene, struct trial *trial, const char *plugin, int rank);

/*
 * campaign_strangers.c: a job to whose listening ports n strangers connect, while it starts or while it runs.
 * Prints a row, and a line for every miss; returns the number of misses.
 */
int campaign_strangers(struct trial *trial, const char *backend, const char *plugin, int starting,
		       int n, unsigned seed);

#endif
