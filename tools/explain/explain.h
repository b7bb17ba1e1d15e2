/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explain.h - the parts of `coll explain`.
 *
 * Of dumps, the files that the option `dump` has ranks write: rank sets (set.c), the reader (dump.c), the dumps of each
 * communicator beside each other (group.c), messages and waits between two ranks (messages.c), the causes and the verdict
 * (cause.c), the page (page.c) and the JSON document (document.c).
 *
 * Of schedules: the rounds of the schedules of all ranks (schedule.c), as text (rounds.c), as a picture (picture.c), as GOAL
 * (goal.c).
 *
 * explain.c is the command line.
 */
#ifndef TOOLS_EXPLAIN_H
#define TOOLS_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tool_command;
extern const struct tool_command tool_explain;

/* ------------------------------------------------------------ set.c: sets of ranks -- */

struct explain_span {
	int32_t first, last;
};

/* Spans in ascending order that do not touch.  Initialise with zeros. */
struct explain_set {
	struct explain_span *span;
	int n, cap;
};

/* Adds ranks first to last; `first` is not before any rank of the set. */
void explain_set_add(struct explain_set *set, int32_t first, int32_t last);
/* Adds a rank anywhere. */
void explain_set_insert(struct explain_set *set, int32_t rank);
int explain_set_has(const struct explain_set *set, int32_t rank);
int64_t explain_set_count(const struct explain_set *set);
/* Adds to *out the ranks from 0 to nranks - 1 that are not in the set. */
void explain_set_invert(const struct explain_set *set, int32_t nranks, struct explain_set *out);
/* Adds to the empty set *out the ranks of `set` that are not in `other`. */
void explain_set_subtract(const struct explain_set *set, const struct explain_set *other,
			  struct explain_set *out);
/* Writes "rank 5", or "ranks 0-41, 43-127"; a long list ends with "and 12 others". */
const char *explain_set_text(const struct explain_set *set, char *text, size_t size);
void explain_set_free(struct explain_set *set);

/* ------------------------------------------------------------- dump.c: the reader -- */

enum explain_state { STATE_QUEUED, STATE_RUNNING, STATE_SUBMITTED, STATE_DONE, STATE_FAILED };

/* Values of a number that a line does not have. */
enum { EXPLAIN_NO_PEER = INT32_MIN, EXPLAIN_ANY = -1, EXPLAIN_NONE = -2 };

/*
 * One line: an operation, or a message outside the order of the operations, which has no number.  Equal texts are one string
 * of struct explain, so that their addresses are equal.
 */
struct explain_op {
	uint64_t number;     /* 0: a message */
	uint64_t collective; /* its number among the collectives; 0: none, or not known */
	uint64_t count, bytes;
	int64_t issued_ms, started_ms, ended_ms; /* since 1970; 0: not yet */
	int64_t redop, tag;                      /* or EXPLAIN_NONE, EXPLAIN_ANY */
	const char *kind, *dtype, *algorithm, *what;
	int32_t peer; /* root or peer, EXPLAIN_ANY or EXPLAIN_NO_PEER */
	uint8_t state, is_collective;
};

/* What `coll dump` has found of the process of a rank. */
enum explain_process { PROCESS_UNKNOWN, PROCESS_STOPPED, PROCESS_ENDED };

/* What one rank has written of one communicator. */
struct explain_dump {
	const char *file;
	int line; /* of the head */
	uint64_t job;
	const char *comm, *host, *backend;
	int32_t rank, nranks, world_rank;
	int64_t pid;
	int64_t written_ms; /* 0: not known */
	int code;           /* the failure's; 0: the communicator has not failed */
	const char *text, *staged, *connections; /* the failure's sentence; "" */
	enum explain_process process;
	struct explain_op *op; /* in the order of the lines */
	int nops, cap_ops;
	int again;     /* number of this rank's file of the same communicator and backend, from 0 */
	int name_tail; /* the n of "-n.txt" in the file's name, or 1 */
};

struct explain {
	struct explain_dump *dump;
	int ndumps, cap_dumps;
	char **note; /* sentences about files and lines that are not as expected */
	int nnotes, cap_notes;
	uint64_t notes;              /* number of the notes, also of notes that are not kept */
	struct explain_text *bucket; /* the strings */
	size_t buckets, texts;
	int files; /* that were read */
};

enum { EXPLAIN_NOTES_MAX = 20, EXPLAIN_FILE_MAX = 16 << 20, EXPLAIN_OPS_MAX = 1 << 16 };

__attribute__((format(printf, 2, 3))) void explain_note(struct explain *e, const char *fmt, ...);
/* Returns the string of the struct that is equal to these bytes. */
const char *explain_text(struct explain *e, const char *bytes, size_t n);
/* Reads the dumps in a text.  `name` is the file's. */
void explain_read(struct explain *e, const char *name, const char *text, size_t n);
/* Reads a file, or the dumps in a directory.  What cannot be read becomes a note. */
void explain_read_path(struct explain *e, const char *path);
void explain_free(struct explain *e);

/* ------------------------------------------------- group.c: one communicator -- */

struct explain_rank {
	const struct explain_dump *dump;
	uint64_t made, done; /* number of the newest collective, and of the newest that is done */
	const struct explain_op
		*waits;  /* the oldest operation that is not done, else such a receive */
	int64_t last_ms; /* the newest call; 0: not known */
	int64_t gap_ms;  /* from the end of what came before to the newest call; -1: not known */
	int32_t rank;
	int open;        /* operations that are not done */
	uint8_t counted; /* made is known */
	uint8_t late;    /* it came to its newest collective when others had long waited there */
};

/* Ranks that have made the same call. */
struct explain_side {
	const struct explain_op *op;
	struct explain_set ranks;
};

/* A failure, and the ranks that have its sentence. */
struct explain_failure {
	int64_t ms; /* the earliest */
	int code;
	const char *text;
	struct explain_set ranks;
};

enum explain_partner {
	PARTNER_MISSING, /* the peer has made no such call */
	PARTNER_NO_FILE  /* the peer has no file */
};

struct explain_lonely {
	const struct explain_op *op;
	int32_t rank;
	enum explain_partner why;
};

/* Ranks that have made and ended as many calls, and wait in the same call or in messages of one kind. */
struct explain_class {
	const struct explain_rank *first; /* the lowest of these ranks */
	struct explain_set ranks;
	int64_t idle_ms,
		idle_most_ms; /* between the newest call and the writing of the file; -1: not known */
	int64_t wait_ms, wait_most_ms; /* from the start of the wait to the writing; or -1 */
	uint8_t mixed;                 /* their operations have different peers */
};

enum explain_cause {
	CAUSE_DIFFERS,  /* ranks made different calls */
	CAUSE_GONE,     /* other ranks say that a rank was lost, or its process has ended */
	CAUSE_LEFT,     /* a rank destroyed its communicator, for which others wait */
	CAUSE_CYCLE,    /* ranks wait for each other */
	CAUSE_STOPPED,  /* the process of a rank is stopped */
	CAUSE_SILENT,   /* a rank has no file and does not answer */
	CAUSE_BEHIND,   /* a rank has made fewer calls */
	CAUSE_LATE,     /* a rank came to its call when others had given up */
	CAUSE_MISSING,  /* a rank has no file */
	CAUSE_PARTNER,  /* a message has no partner */
	CAUSE_SENTENCE, /* only the failure's sentence tells */
	CAUSE_NONE,     /* no rank waits */
	CAUSES
};

enum { EXPLAIN_VERDICT = 2048 };

struct explain_comm {
	const struct explain_dump *head; /* of its lowest rank */
	struct explain_rank *rank;       /* the ranks with a file, ascending */
	int n;
	int32_t nranks;
	int hosts;  /* of the ranks with a file */
	int failed; /* 1: a rank's communicator had failed */
	struct explain_set present, missing;
	struct explain_set gone; /* no file, and a sentence says that it was lost */
	struct explain_set
		left; /* no file, and a sentence says that it destroyed its communicator */
	struct explain_set
		ended; /* the process had ended, and the communicator had not failed there */
	struct explain_set
		stopped; /* the file says that the process is stopped, or other ranks say so */
	struct explain_set silent; /* no file, and a sentence says that it does not answer */
	uint64_t least, most;      /* of the collectives made */
	struct explain_set behind; /* ranks that have made `least`, if that is less than `most` */
	struct explain_set late;   /* ranks that came late to the newest collective */
	uint64_t differs;          /* number of the first collective that differs; 0: none */
	struct explain_side *side; /* the calls under that number, the rarest first */
	int nsides, cap_sides;
	uint64_t label_differs; /* of the first collective whose labels differ; 0: none */
	struct explain_side *label;
	int nlabels, cap_labels;
	struct explain_lonely *lonely;
	int nlonely, cap_lonely;
	int32_t *cycle; /* ranks, each of which waits for the next, the last for the first */
	int ncycle, cap_cycle;
	struct explain_class *class; /* the fewest collectives first */
	int nclasses, cap_classes;
	struct explain_failure *failure; /* the earliest first */
	int nfailures, cap_failures;
	enum explain_cause cause;
	char verdict[EXPLAIN_VERDICT];
};

struct explain_job {
	struct explain_comm *comm; /* the one with the gravest cause first */
	int n, cap;
};

/* Finds the communicators of all dumps, and fills them in. */
void explain_group(struct explain *e, struct explain_job *job);
/* Returns the rank's entry, or NULL: it has no file. */
const struct explain_rank *explain_rank_at(const struct explain_comm *comm, int32_t rank);
void explain_job_free(struct explain_job *job);

/* ---------------------------------------------- messages.c: between two ranks -- */

int explain_is_send(const struct explain_op *op);
int explain_is_recv(const struct explain_op *op);
/* Sets comm->lonely, and comm->cycle. */
void explain_find_lonely(struct explain_comm *comm);
void explain_find_cycle(struct explain_comm *comm);

/* --------------------------------------- compare.c: the calls and the ranks beside each other -- */

/* Returns how long before the writing of the file a time was, by the rank's own clock; -1: not known. */
int64_t explain_before_file(const struct explain_rank *rank, int64_t ms);
/* Likewise how long the rank has waited in rank->waits. */
int64_t explain_waited(const struct explain_rank *rank);
/* Sets comm->differs and its sides, and comm->label_differs. */
void explain_find_differences(struct explain_comm *comm);
void explain_find_classes(struct explain_comm *comm);

/* -------------------------------------------------- cause.c: what went wrong -- */

/* Fills in all that follows from the ranks. */
void explain_find_causes(struct explain_comm *comm);
/* Adds to an empty set the ranks for which a rank waits, as far as the dumps tell. */
void explain_awaited(const struct explain_comm *comm, const struct explain_rank *rank,
		     struct explain_set *out);
/* Writes "collective number 6, allreduce of 4 float32 (sum)", with the algorithm if it is known. */
const char *explain_op_text(const struct explain_op *op, char *text, size_t size);

/* -------------------------------------------------------- page.c, document.c -- */

void explain_print(const struct explain *e, const struct explain_job *job, FILE *out);
void explain_print_json(const struct explain *e, const struct explain_job *job, FILE *out);
/* The name of a cause for scripts. */
extern const char *const explain_cause_names[CAUSES];
extern const char *const explain_state_names[];

#endif
