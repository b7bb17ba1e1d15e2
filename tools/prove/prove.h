/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prove.h - data that the parts of `coll prove` share: a case, the schedules of its ranks, their
 * symbolic memory, and the faults found.
 */
#ifndef TOOLS_PROVE_H
#define TOOLS_PROVE_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

struct tool_command;
extern const struct tool_command tool_prove;

/* The five checks; also bit numbers in prove.failed. */
enum prove_check {
	/* each output consists of the right inputs, and no step writes anywhere else */
	PROVE_RESULT = 0,
	PROVE_ORDER = 1,    /* the same bits on all ranks; order and grouping as the table claims */
	PROVE_DEADLOCK = 2, /* every step completes even if each send waits for its receive */
	PROVE_RACE = 3,     /* every access is ordered with every write of the same bytes */
	PROVE_MESSAGES = 4, /* sends match receives; their number and volume equal the formula */
	PROVE_CHECKS = 5
};

/* The ranks that use their buffers in place. */
enum { PROVE_OUT_OF_PLACE = 0, PROVE_IN_PLACE = 1, PROVE_MIXED = 2 };

/* The forms of counts of the v-forms. */
enum { PROVE_EQUAL = 0, PROVE_RAGGED = 1, PROVE_ZEROS = 2, PROVE_ONE = 3, PROVE_VECTORS = 4 };

/*
 * Averages, as in coll_schedule_args_t: of integers, whose sums are finished; of floats, whose inputs are
 * scaled.
 */
enum { PROVE_NO_AVERAGE = 0, PROVE_FINISHED = 1, PROVE_SCALED = 2, PROVE_AVERAGES = 3 };

enum { PROVE_TEXT_MAX = 1024 };

struct prove_case {
	int algorithm; /* index in the table of algorithms */
	const coll_algorithm_info_t *info;
	uint32_t flags; /* the claims to prove, taken from the table */
	int nranks;
	int root; /* SEND, RECV: who sends */
	int peer; /* SEND, RECV: who receives */
	uint64_t count, elem, segment;
	int form;
	int average;   /* PROVE_NO_AVERAGE, ... */
	int layout;    /* layout of ranks on nodes, from 1 on; 0: each rank on a node of its own */
	int node_size; /* consecutive ranks of a node; 0: as layout says */
	/* v-forms: the form of counts; 1 if displacements are permuted, with gaps */
	int vector, gaps;
};

/* Output bytes [at, at + len) of a rank's memory that the operation must produce. */
struct prove_extent {
	uint64_t at, len;
	uint64_t index; /* offset of the input bytes in the send buffer */
	/* the rank whose input this is, or PROVE_REDUCED: the reduction over prove_spec_inputs ranks */
	int32_t symbol;
};

enum { PROVE_REDUCED = -1 };

/* A stretch of memory with one history; it ends where the next run begins. */
struct prove_run {
	uint64_t at;
	uint64_t index;  /* offset of the input bytes */
	int32_t node;    /* number of the expression in this memory, or PROVE_UNSET, PROVE_BAD */
	int32_t writer;  /* the step that wrote this memory last, or -1 */
	int32_t readers; /* list of the steps that have read this memory since then */
};

enum { PROVE_UNSET = -1, PROVE_BAD = -2 }; /* PROVE_BAD: the fault is already reported */

/* One rank.  Its three buffers lie in one address space, so that overlapping buffers share runs. */
struct prove_rank {
	int rank;
	int algorithm;
	int in_place;
	coll_schedule_t schedule;
	coll_step_t *step;
	int nsteps, cap_steps;
	int first; /* number of the rank's first step among the steps of all ranks */
	uint64_t base[3], size[3];
	struct prove_extent *out; /* by address */
	int outs, cap_outs;
	struct prove_run *run; /* the last run only marks the end of memory */
	int runs, cap_runs;
	/* number of sends in flight; heads of two lists: see prove_bounded */
	int used, waiting, blocked;
};

/* The state of one step; steps are numbered through over all ranks. */
struct prove_event {
	const coll_step_t *step;
	int32_t owner; /* index of the step's rank */
	int32_t mate;  /* the matching send or receive, or -1 */
	int32_t left;  /* number of steps that this step still waits for */
	int32_t later; /* list of steps that wait for this step */
	int32_t state;
	int32_t started, done; /* when; 0: never */
	int32_t next;          /* next step in a list of prove_bounded */
	uint32_t seen;         /* number of the last search that visited this step */
};

struct prove_link {
	int32_t to, next;
};

struct prove_piece {
	uint64_t off, index;
	int32_t node;
};

struct prove_pieces {
	struct prove_piece *piece;
	int n, cap;
	uint64_t len;
};

/* A symbol has left = right = -1; a division (of a sum or of an input) has right = -1; any other node is a
 * pair. */
struct prove_node {
	int32_t left, right;
	uint32_t symbols;
	uint32_t known; /* bits: facts already shown about the node */
};

struct prove_expr {
	struct prove_node *node;
	int n, cap;
	int32_t *bucket;
	uint32_t buckets; /* a power of two */
	int nranks;
	int32_t canonical,
		canonical_scaled; /* reproducible mode's grouping of inputs, of scaled inputs */
	int32_t last_left, last_right, last;
	int32_t *stack;
	uint8_t *seen;
};

struct prove;

/* A bug, and the case in whose schedules it is planted. */
struct prove_mutant {
	const char *name;
	const char *kind, *algorithm;
	int check; /* the check that must catch the bug */
	int nranks, count, segment, form, average, gaps;
	uint32_t claims; /* flags that the table claims wrongly, or lacks */
	/*
	 * Plants the bug and describes its place with prove_planted; returns 0 if there is no place
	 * for the bug.
	 */
	int (*plant)(struct prove *p);
};

struct prove_totals {
	uint64_t cases, elements, messages, steps;
	uint64_t longest; /* the largest count of a case, in bytes */
	int sends;        /* least number of sends in flight with which all steps complete */
};

struct prove {
	const struct prove_case *c;
	const struct prove_mutant *mutant;
	char planted[PROVE_TEXT_MAX];
	/* for SEND the algorithm that receives, for RECV the algorithm that sends */
	int mate_algorithm;
	/* arguments of the case */
	int32_t *nodes;
	size_t *sendcounts, *senddispls, *recvcounts, *recvdispls; /* nranks rows of each */
	int cap_ranks;
	/* the schedules */
	struct prove_rank *rank;
	int nactors; /* number of ranks with a schedule: nranks, or 2 for SEND and RECV */
	struct prove_event *event;
	int nsteps, cap_steps, cap_order, cap_stack;
	struct prove_link *link;
	int nlinks, cap_links;
	int32_t *pair, *slot; /* messages by pair of ranks */
	int cap_pairs, cap_slots;
	int32_t *order, *stack; /* steps in the order of completion; steps still to visit */
	int ordered, clock, depth;
	uint32_t search;
	int32_t **mutant_arrays; /* arrays that mutants have allocated */
	int nmutant_arrays, cap_mutant_arrays;
	struct prove_expr expr;
	struct prove_pieces a, b, sum;
	struct prove_link *reader;
	int nreaders, cap_readers;
	struct prove_totals totals;
	/* faults found: bits of failed checks, and the first message of each */
	unsigned failed;
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/* The step with a number. */
static inline const coll_step_t *prove_step(const struct prove *p, int step)
{
	return p->event[step].step;
}

extern const char *const prove_check_names[PROVE_CHECKS];

/* prove.c: does the name, COLLECTIVE or COLLECTIVE/ALGORITHM, stand for the algorithm?  NULL: for all. */
int prove_wanted(const coll_algorithm_info_t *info, const char *name);

/* util.c: memory (exits if there is none) and messages. */
void *prove_grow(void *array, int *cap, int want, size_t size);
__attribute__((format(printf, 3, 4))) void prove_fail(struct prove *p, int check, const char *fmt,
						      ...);
/* The same, with rank and step before the message. */
__attribute__((format(printf, 4, 5))) void prove_fail_step(struct prove *p, int check, int step,
							   const char *fmt, ...);
void prove_case_text(const struct prove_case *c, char *text, size_t size);
void prove_step_text(const struct prove *p, int step, char *text, size_t size);
void prove_free(struct prove *p);

/* spec.c: the meaning of each collective. */
int prove_kind_reduces(int kind);
int prove_kind_scans(int kind); /* SCAN and EXSCAN */
int prove_kind_rooted(int kind);
int prove_kind_pairs(int kind); /* SEND and RECV */
int prove_kind_vector(int kind);
int prove_kind_forms(int kind);
/* A reduction on that rank combines the inputs of so many ranks, from rank 0 on. */
int prove_spec_inputs(const struct prove *p, int actor);
/* Fill the arrays of the case. */
void prove_spec_counts(struct prove *p);
void prove_spec_nodes(struct prove *p);
/* Sets the buffers of a rank, their place in memory, and the expected output. */
void prove_spec_rank(struct prove *p, int actor);
void prove_spec_args(const struct prove *p, int actor, coll_schedule_args_t *args);

/* build.c: the schedules of all ranks, and their messages (check 5).  Faults go to prove_fail. */
void prove_reserve(struct prove *p, int nranks);
int prove_build(struct prove *p);
/* Returns 0 if every message has a send and a receive that fit. */
int prove_match(struct prove *p);
void prove_unbuild(struct prove *p);

/* run.c: maximal execution (check 3). */
int prove_run(struct prove *p);
/*
 * Finds the least number of sends in flight on each rank, of 1, 4 and 64, with which all steps
 * complete.
 */
void prove_bounded(struct prove *p);

/* data.c: the effect of the steps on memory (checks 1 and 2). */
void prove_data(struct prove *p);
void prove_barrier(struct prove *p);

/* memory.c */
void prove_memory_begin(struct prove *p, struct prove_rank *r);
/* Records that a step reads or writes len bytes at an address of its rank (check 4). */
void prove_memory_read(struct prove *p, int step, uint64_t at, uint64_t len,
		       struct prove_pieces *out);
void prove_memory_write(struct prove *p, int step, uint64_t at, const struct prove_pieces *in);
/* Index of the run that holds address `at`. */
int prove_memory_find(const struct prove_rank *r, uint64_t at);
void prove_pieces_add(struct prove_pieces *pieces, uint64_t off, uint64_t index, int32_t node);

/* race.c: is step `earlier` complete before step `later` begins to touch memory? */
int prove_before(struct prove *p, int earlier, int later);

/* expr.c */
void prove_expr_begin(struct prove_expr *e, int nranks);
void prove_expr_free(struct prove_expr *e);
int32_t prove_expr_pair(struct prove_expr *e, int32_t left, int32_t right);
int32_t prove_expr_divide(struct prove_expr *e, int32_t node);
void prove_expr_text(const struct prove_expr *e, int32_t node, char *text, size_t size);
/*
 * Verifies that an expression has every rank once (a scan: every rank up to its own), in the claimed order and grouping; that an average
 * of integers is finished once, at the end; that an average of floats scales every input once, before
 * it is added; that nothing else is divided.  Faults go to prove_fail; the return value is 0 then.
 */
int prove_expr_check(struct prove *p, int actor, uint64_t index, int32_t node);

/* case.c: one case, and all cases of an algorithm with one number of ranks. */
void prove_one(struct prove *p, const struct prove_case *c);
struct prove_plan {
	int algorithm;
	int nranks;
	const uint64_t *counts;
	int ncounts;
	/*
	 * limit on the approximate number of steps; beyond it prove_cases takes a sample of the
	 * combinations
	 */
	uint64_t budget;
};
/* Stops at the first fault.  Returns 1 if every combination was proven, 0 if a sample was. */
int prove_cases(struct prove *p, const struct prove_plan *plan, const coll_algorithm_info_t *info);

/* One algorithm of the table, and its results. */
struct prove_row {
	coll_algorithm_info_t info;
	int wanted;
	int least, most; /* ranks */
	/* smallest number of ranks for which a sample was proven; 0: every combination was */
	int sampled;
	int failed_ranks;
	struct prove_totals totals;
	unsigned failed; /* failed checks for the smallest number of ranks that failed */
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/*
 * table.c: prints the rows; returns the number of algorithms that are not proven, or -1 if none was
 * tried.
 */
int prove_table(const struct prove_row *row, int rows, int json);

/*
 * bugs.c: the array ends with a NULL name; the entry without a check changes nothing and must pass.
 */
extern const struct prove_mutant prove_mutants[];

/* mutant.c: tries the mutant of that name, or all if name is NULL.  Returns the exit status. */
int prove_try_mutants(const char *name, int json);

#endif
