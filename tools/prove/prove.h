/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prove.h - what the parts of `coll prove` share: a case, the schedules of its ranks, their
 * symbolic memory, and what was found wrong.
 */
#ifndef TOOLS_PROVE_H
#define TOOLS_PROVE_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

struct tool_command;
extern const struct tool_command tool_prove;

/* What is proven; bits of prove.failed. */
enum prove_check {
	PROVE_RESULT = 0, /* each output is made of the right inputs, and nothing else is written */
	PROVE_ORDER = 1,  /* same bits everywhere; order and grouping as the table claims */
	PROVE_DEADLOCK = 2, /* every step completes though a send waits for its receive */
	PROVE_RACE = 3,     /* no access is unordered with a write of the same bytes */
	PROVE_MESSAGES = 4, /* sends and receives fit, number and volume equal the formula */
	PROVE_CHECKS = 5
};

/* Which ranks use the buffers in place. */
enum { PROVE_OUT_OF_PLACE = 0, PROVE_IN_PLACE = 1, PROVE_MIXED = 2 };

/* The counts of the v-forms. */
enum { PROVE_EQUAL = 0, PROVE_RAGGED = 1, PROVE_ZEROS = 2, PROVE_ONE = 3, PROVE_VECTORS = 4 };

enum { PROVE_TEXT_MAX = 1024 };

struct prove_case {
	int algorithm; /* index in the table */
	const coll_algorithm_info_t *info;
	uint32_t flags; /* claims to be proven: those of the table */
	int nranks;
	int root; /* SEND, RECV: who sends */
	int peer; /* SEND, RECV: who receives */
	uint64_t count, elem, segment;
	int form, average;
	int layout;       /* of ranks on nodes, from 1 on; 0: all differ */
	int vector, gaps; /* v-forms: which counts; are displacements permuted, with gaps? */
};

/* Bytes [at, at + len) of a rank's memory that the operation must produce. */
struct prove_extent {
	uint64_t at, len;
	uint64_t index; /* which bytes of the inputs: offset in the send buffer */
	int32_t symbol; /* whose, or PROVE_REDUCED: of all ranks together */
};

enum { PROVE_REDUCED = -1 };

/* A stretch of memory with one history; ends where the next begins. */
struct prove_run {
	uint64_t at;
	uint64_t index;  /* which bytes of the inputs */
	int32_t node;    /* what it holds: an expression, or PROVE_UNSET ... */
	int32_t writer;  /* the step that wrote it last, or -1 */
	int32_t readers; /* list of those that have read it since */
};

enum { PROVE_UNSET = -1, PROVE_BAD = -2 }; /* PROVE_BAD: was reported already */

/* One rank.  Its three buffers lie in one address space, so that aliasing is simply there. */
struct prove_rank {
	int rank;
	int algorithm;
	int in_place;
	coll_schedule_t schedule;
	coll_step_t *step;
	int nsteps, cap_steps;
	int first; /* number of its first step among those of all ranks */
	uint64_t base[3], size[3];
	struct prove_extent *out; /* by address */
	int outs, cap_outs;
	struct prove_run *run; /* the last one is only an end */
	int runs, cap_runs;
	int used, waiting, blocked; /* sends in flight; lists: see prove_bounded */
};

/* What happens to one step; numbered through over all ranks. */
struct prove_event {
	const coll_step_t *step;
	int32_t owner; /* index of its rank */
	int32_t mate;  /* the other end of the message, or -1 */
	int32_t left;  /* steps still to wait for */
	int32_t later; /* list of steps that wait for this one */
	int32_t state;
	int32_t started, done; /* when; 0: never */
	int32_t next;          /* in a list of prove_bounded */
	uint32_t seen;         /* by the search of that number */
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

/* leaf: left = right = -1; finished: right = -1; else a pair. */
struct prove_node {
	int32_t left, right;
	uint32_t symbols;
	uint32_t known; /* bits: what has been shown of it */
};

struct prove_expr {
	struct prove_node *node;
	int n, cap;
	int32_t *bucket;
	uint32_t buckets; /* a power of two */
	int nranks;
	int32_t canonical;
	int32_t last_left, last_right, last;
	int32_t *stack;
	uint8_t *seen;
};

struct prove;

/* A bug, and the case whose schedules it is planted in. */
struct prove_mutant {
	const char *name;
	const char *kind, *algorithm;
	int check; /* the one that must catch it */
	int nranks, count, segment, form, average, gaps;
	uint32_t claims; /* flags that the table has in error, or lacks */
	/* Returns 0 if there is no place for it; says with prove_planted where it is. */
	int (*plant)(struct prove *p);
};

struct prove_totals {
	uint64_t cases, elements, messages, steps;
	int sends; /* least number of sends in flight that suffices */
};

struct prove {
	const struct prove_case *c;
	const struct prove_mutant *mutant;
	char planted[PROVE_TEXT_MAX];
	int mate_algorithm; /* for SEND the row that receives, for RECV the one that sends */
	/* the case's arguments */
	int32_t *nodes;
	size_t *sendcounts, *senddispls, *recvcounts, *recvdispls; /* nranks rows each */
	int cap_ranks;
	/* the schedules */
	struct prove_rank *rank;
	int nactors; /* ranks with a schedule: nranks, or the two of SEND and RECV */
	struct prove_event *event;
	int nsteps, cap_steps, cap_order, cap_stack;
	struct prove_link *link;
	int nlinks, cap_links;
	int32_t *pair, *slot; /* messages by pair of ranks */
	int cap_pairs, cap_slots;
	int32_t *order, *stack; /* steps: as completed; still to be looked at */
	int ordered, clock, depth;
	uint32_t search;
	int32_t **mutant_arrays; /* arrays that mutants made */
	int nmutant_arrays, cap_mutant_arrays;
	struct prove_expr expr;
	struct prove_pieces a, b, sum;
	struct prove_link *reader;
	int nreaders, cap_readers;
	struct prove_totals totals;
	/* what was found: bits of failed, the first sentence of each */
	unsigned failed;
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/* A step by its number. */
static inline const coll_step_t *prove_step(const struct prove *p, int step)
{
	return p->event[step].step;
}

extern const char *const prove_check_names[PROVE_CHECKS];

/* util.c: memory (exits when there is none) and words. */
void *prove_grow(void *array, int *cap, int want, size_t size);
__attribute__((format(printf, 3, 4))) void prove_fail(struct prove *p, int check, const char *fmt,
						      ...);
/* The same, beginning with rank and step. */
__attribute__((format(printf, 4, 5))) void prove_fail_step(struct prove *p, int check, int step,
							   const char *fmt, ...);
void prove_case_text(const struct prove_case *c, char *text, size_t size);
void prove_step_text(const struct prove *p, int step, char *text, size_t size);
void prove_free(struct prove *p);

/* spec.c: what the collective means. */
int prove_kind_reduces(int kind);
int prove_kind_rooted(int kind);
int prove_kind_pairs(int kind); /* SEND and RECV */
int prove_kind_vector(int kind);
int prove_kind_forms(int kind);
/* Fill in the case's arrays. */
void prove_spec_counts(struct prove *p);
void prove_spec_nodes(struct prove *p);
/* The buffers of a rank, their place in memory, and what must come out. */
void prove_spec_rank(struct prove *p, int actor);
void prove_spec_args(const struct prove *p, int actor, coll_schedule_args_t *args);

/* build.c: the schedules of all ranks; messages (check 5).  Fails by prove_fail. */
void prove_reserve(struct prove *p, int nranks);
int prove_build(struct prove *p);
/* Returns 0 if every message has two ends that fit. */
int prove_match(struct prove *p);
void prove_unbuild(struct prove *p);

/* run.c: maximal execution (check 3). */
int prove_run(struct prove *p);
/* With how few sends of a rank in flight, of 1, 4 and 64, do all steps still complete? */
void prove_bounded(struct prove *p);

/* data.c: the steps' effect on memory (checks 1 and 2). */
void prove_data(struct prove *p);
void prove_barrier(struct prove *p);

/* memory.c */
void prove_memory_begin(struct prove *p, struct prove_rank *r);
/* Step `step` reads or writes len bytes at an address of its rank (check 4). */
void prove_memory_read(struct prove *p, int step, uint64_t at, uint64_t len,
		       struct prove_pieces *out);
void prove_memory_write(struct prove *p, int step, uint64_t at, const struct prove_pieces *in);
/* The run that holds address `at`. */
int prove_memory_find(const struct prove_rank *r, uint64_t at);
void prove_pieces_add(struct prove_pieces *pieces, uint64_t off, uint64_t index, int32_t node);

/* race.c: is `earlier` complete before `later` begins to touch memory? */
int prove_before(struct prove *p, int earlier, int later);

/* expr.c */
void prove_expr_begin(struct prove_expr *e, int nranks);
void prove_expr_free(struct prove_expr *e);
int32_t prove_expr_pair(struct prove_expr *e, int32_t left, int32_t right);
int32_t prove_expr_finish(struct prove_expr *e, int32_t node);
void prove_expr_text(const struct prove_expr *e, int32_t node, char *text, size_t size);
/* Is it every rank once, in the order and grouping claimed, finished if wanted?  Else it fails. */
int prove_expr_check(struct prove *p, int actor, uint64_t index, int32_t node);

/* case.c: one case, and all cases of a row of the table on so many ranks. */
void prove_one(struct prove *p, const struct prove_case *c);
struct prove_plan {
	int algorithm;
	int nranks;
	const uint64_t *counts;
	int ncounts;
	uint64_t budget; /* about so many steps: beyond that, combinations are sampled */
};
/* Stops at the first failure.  Returns 1 if every combination was proven, 0 if a sample. */
int prove_cases(struct prove *p, const struct prove_plan *plan, const coll_algorithm_info_t *info);

/* One row of the table of algorithms, and what was found. */
struct prove_row {
	coll_algorithm_info_t info;
	int wanted;
	int least, most; /* ranks */
	int sampled;     /* from so many ranks on not every combination was tried; 0: all were */
	int failed_ranks;
	struct prove_totals totals;
	unsigned failed; /* of the smallest number of ranks that failed */
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/* table.c: prints the rows; returns how many are not proven, or -1 if none was tried. */
int prove_table(const struct prove_row *row, int rows, int json);

/* bugs.c: ends with a name of NULL; the one that checks nothing is no bug. */
extern const struct prove_mutant prove_mutants[];

/* mutant.c: only that one, or if name is NULL all bugs.  Returns the exit status. */
int prove_try_mutants(const char *name, int json);

#endif
