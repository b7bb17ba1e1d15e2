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
#include "lib/grow.h"
#include "oracle/oracle.h"

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

/* Displacements of the v-forms; a list of buffers is a v-form with equal counts. */
enum { PROVE_CONTIGUOUS = 0, PROVE_GAPS = 1, PROVE_LIST = 2, PROVE_DISPLACEMENTS = 3 };

/* The buffers that are staged: none, all, or by the rank both, one or none. */
enum { PROVE_UNSTAGED = 0, PROVE_STAGED = 1, PROVE_STAGED_MIXED = 2, PROVE_STAGINGS = 3 };

/*
 * Averages, as in coll_schedule_args_t: of integers, whose sums are divided at the end; of floats, whose inputs are scaled.
 */
enum { PROVE_NO_AVERAGE = 0, PROVE_FINISHED = 1, PROVE_SCALED = 2, PROVE_AVERAGES = 3 };

/* Kinds of steps beside COLL_STEP_*: copies of dst from a staged buffer to its staging memory, and back. */
enum { PROVE_COPY_IN = 64, PROVE_COPY_OUT = 65 };

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
	/* v-forms: the form of counts, and of displacements */
	int vector, displs;
	int staged; /* PROVE_UNSTAGED, ... */
	/* The algorithm on these ranks: its messages, its volume in counts, and into how many blocks it cuts a whole. */
	uint64_t messages, volume;
	int shares;
};

/* Bytes [at, at + len) of a rank's memory: inputs, or output that the operation must produce. */
struct prove_span {
	uint64_t at, len;
	uint64_t index; /* offset of the input bytes in the send buffer */
	/* the rank whose input the bytes are, or PROVE_REDUCED: the reduction over prove_spec_inputs ranks */
	int32_t symbol;
};

enum { PROVE_REDUCED = -1 };

/* A stretch of memory with one history; it ends where the next run begins. */
struct prove_run {
	uint64_t at;
	uint64_t index;  /* offset of the input bytes */
	int32_t node;    /* number of the expression in this memory, or PROVE_UNSET, PROVE_BAD */
	int32_t writer;  /* the step that wrote this memory last, or -1 */
	int32_t readers; /* list of the steps that have read this memory since */
};

enum { PROVE_UNSET = -1, PROVE_BAD = -2 }; /* PROVE_BAD: the fault is already reported */

/*
 * One rank.  Its buffers, its scratch memory and its staging memory lie in one address space, so that
 * overlapping buffers share runs.
 */
struct prove_rank {
	int rank;
	int algorithm;
	int in_place;
	int staged; /* bit 1 << buffer: the steps use staging memory in place of the buffer */
	coll_schedule_t schedule;
	coll_step_t *step;
	int nsteps, cap_steps;
	int first;        /* number of the rank's first step among the steps of all ranks */
	uint64_t user[2]; /* the send and the receive buffer of the call */
	uint64_t base[3], size[3]; /* the buffers of the steps */
	uint64_t end;              /* end of all memory */
	uint64_t staging, staging_size;
	struct stage *stage; /* set if the rank has staged buffers */
	int32_t *after;      /* the steps that the rank's steps wait for */
	int cap_after;
	struct prove_span *in, *out; /* by address */
	int ins, cap_ins, outs, cap_outs;
	struct prove_run *run; /* the last run only marks the end of memory */
	int runs, cap_runs;
	/* number of sends in flight; heads of two lists (prove_bounded) */
	int used, waiting, blocked;
};

/* The state of one step.  Steps are numbered over all ranks. */
struct prove_event {
	const coll_step_t *step;
	int32_t owner; /* index of the step's rank */
	int32_t mate;  /* the matching send or receive, or -1 */
	int32_t left;  /* number of steps that the step still waits for */
	int32_t later; /* list of steps that wait for this step */
	int32_t state;
	int32_t started, done; /* time of the event; 0: never */
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
		canonical_scaled; /* reproducible mode's grouping of inputs, and of scaled inputs */
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
	int nranks, count, segment, form, average, displs, staged;
	uint32_t claims; /* flags that the table claims wrongly, or lacks */
	/*
	 * Plants the bug and describes its place with bug_planted.  Returns 0 if the schedule has no place for the bug.
	 */
	int (*plant)(struct prove *p);
};

/* A builder that is wrong in few cases.  The cases of the proof must contain such a case. */
struct prove_builder {
	const char *name;
	const char *kind, *algorithm;
	const char *fault; /* a description */
	int check;
	int level;    /* the shortest proof that must find the fault */
	int from, to; /* the numbers of ranks to try */
	int (*is_wrong)(const struct prove_case *c);
	/* The fault: in the arguments of the builder, or in its steps.  The unused function is NULL. */
	void (*args)(const struct prove *p, int actor, coll_schedule_args_t *args);
	void (*steps)(struct prove *p);
};

struct prove_totals {
	uint64_t cases, elements, messages, steps;
	uint64_t longest; /* the largest count of a case, in bytes */
	int sends;        /* least number of sends in flight with which all steps complete */
};

struct prove {
	const struct prove_case *c;
	const struct prove_mutant *mutant;
	const struct prove_builder *builder;
	struct prove_case wrong; /* the last case with a fault */
	char planted[PROVE_TEXT_MAX];
	/* for SEND the algorithm that receives, for RECV the algorithm that sends */
	int mate_algorithm;
	/* arguments of the case */
	int32_t *nodes;
	size_t *sendcounts, *senddispls, *recvcounts, *recvdispls; /* nranks rows of each */
	size_t *joined; /* displacements of a staged list, whose blocks follow one another */
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
	int32_t *order, *stack; /* steps in the order of completion; steps to visit */
	int ordered, clock, depth;
	uint32_t search;
	int32_t **mutant_arrays; /* arrays that mutants have allocated */
	int nmutant_arrays, cap_mutant_arrays;
	struct prove_expr expr;
	struct prove_pieces a, b, sum;
	struct prove_link *reader;
	int nreaders, cap_readers;
	struct prove_totals totals;
	/* faults: bits of failed checks, and the first message of each check */
	unsigned failed;
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/* Returns the step with a number. */
static inline const coll_step_t *prove_step(const struct prove *p, int step)
{
	return p->event[step].step;
}

/* Does the step receive a message? */
static inline int prove_is_recv(const coll_step_t *s)
{
	return s->kind == COLL_STEP_RECV || s->kind == COLL_STEP_RECV_REDUCE;
}

/* Does the step send or receive a message? */
static inline int prove_is_message(const coll_step_t *s)
{
	return s->kind == COLL_STEP_SEND || prove_is_recv(s);
}

extern const char *const prove_check_names[PROVE_CHECKS];

/* prove.c: does the name, COLLECTIVE or COLLECTIVE/ALGORITHM, stand for the algorithm?  NULL stands for all. */
int prove_wanted(const coll_algorithm_info_t *info, const char *name);
/* The counts of a plan, ascending. */
extern const uint64_t prove_counts[];
extern const int prove_ncounts;
/* Returns the algorithm at the other end of a send or receive, or -1 for other kinds. */
int prove_partner(int kind);

/* util.c: messages. */
__attribute__((format(printf, 3, 4))) void prove_fail(struct prove *p, int check, const char *fmt,
						      ...);
/* Reports as prove_fail, with rank and step before the message. */
__attribute__((format(printf, 4, 5))) void prove_fail_step(struct prove *p, int check, int step,
							   const char *fmt, ...);
void prove_case_text(const struct prove_case *c, char *text, size_t size);
void prove_step_text(const struct prove *p, int step, char *text, size_t size);
void prove_free(struct prove *p);

/* spec.c: the meaning of each collective. */
int prove_kind_pairs(int kind);  /* SEND and RECV */
int prove_kind_matrix(int kind); /* a block from each rank to each */
int prove_kind_forms(int kind);
/* Returns the number of ranks whose inputs a reduction on that rank combines, from rank 0 on. */
int prove_spec_inputs(const struct prove *p, int actor);
/* Sets the buffers of a rank, their addresses, and the expected output. */
void prove_spec_rank(struct prove *p, int actor);
void prove_spec_args(const struct prove *p, int actor, coll_schedule_args_t *args);
/* counts.c: fill the arrays of the case. */
void prove_spec_counts(struct prove *p);
void prove_spec_nodes(struct prove *p);

/* build.c: the schedules of all ranks, and their messages (check 5).  Faults go to prove_fail. */
void prove_reserve(struct prove *p, int nranks);
int prove_build(struct prove *p);
/* Computes the messages and bytes of all ranks by the formula, as if no message were cut. */
void prove_formula(struct prove *p, const struct prove_case *c, uint64_t *messages,
		   uint64_t *bytes);
/* Returns 0 if every message has a send and a receive that fit. */
int prove_match(struct prove *p);
void prove_unbuild(struct prove *p);

/* staged.c: adds the copies of a rank with staged buffers to its steps, and its staging memory. */
void prove_stage(struct prove *p, int actor);
/* Returns the address for which the byte at offset `off` of the staging memory stands. */
uint64_t prove_staged_at(const struct prove_rank *r, int part, uint64_t off);
void prove_unstage(struct prove_rank *r);
/* For a wrong builder: takes the blocks of a staged list for one block. */
void prove_forget_lists(struct prove_rank *r);

/* pieces.c: checks the order of the messages of SEND and RECV in pieces, which have one tag (check 5). */
void prove_pieces(struct prove *p);

/* run.c: runs the steps as far as they go (check 3). */
int prove_run(struct prove *p);
/*
 * Finds the least number of sends in flight on each rank, of 1, 4 and 64, with which all steps
 * complete.
 */
void prove_bounded(struct prove *p);

/* data.c: applies the steps to memory (checks 1 and 2). */
void prove_data(struct prove *p);

/* barrier.c: checks that every rank waits for all others (check 1). */
void prove_barrier(struct prove *p);

/* memory.c */
void prove_memory_begin(struct prove_rank *r);
/* Records that a step reads or writes len bytes at an address of its rank (check 4). */
void prove_memory_read(struct prove *p, int step, uint64_t at, uint64_t len,
		       struct prove_pieces *out);
void prove_memory_write(struct prove *p, int step, uint64_t at, const struct prove_pieces *in);
/* Returns the index of the run that holds address `at`. */
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
 * Verifies that an expression has every rank once (a scan: every rank up to its own), in the claimed order and grouping;
 * that an average of integers is divided once, at the end; that an average of floats scales every input once, before the
 * input is added; that no other part is divided.  Returns 0 after a fault, which goes to prove_fail.
 */
int prove_expr_check(struct prove *p, int actor, uint64_t index, int32_t node);

/* ------------------------------------------------------------------- the cases -- */

/* The properties in which the cases of an algorithm differ. */
enum prove_property {
	PROVE_ROOT, /* or the pair of ranks */
	PROVE_COUNT,
	PROVE_PLACE,
	PROVE_PIECES,
	PROVE_AVERAGE,
	PROVE_NODES,
	PROVE_VECTOR,
	PROVE_DISPLS,
	PROVE_ELEM,
	PROVE_STAGING,
	PROVE_PROPERTIES
};

/*
 * Values of PROVE_PIECES: about the number of pieces of a block.  PROVE_MANY and PROVE_MOST occur only where a sweep asks
 * for them.
 */
enum { PROVE_WHOLE = 0, PROVE_FEW = 1, PROVE_SOME = 2, PROVE_MANY = 3, PROVE_MOST = 4 };
enum { PROVE_MANY_PIECES = 40, PROVE_MOST_PIECES = 140 };

/* The shortest, the usual and the longest proof. */
enum prove_level { PROVE_QUICK, PROVE_USUAL, PROVE_LONG, PROVE_LEVELS };

/* A sweep visits every combination of some properties, and draws the other properties at random. */
enum prove_sweep {
	PROVE_SWEEP_ALL,    /* every combination, except of elements and staging */
	PROVE_SWEEP_PAIRS,  /* every root with every count and place */
	PROVE_SWEEP_ROOTS,  /* every root */
	PROVE_SWEEP_COUNTS, /* every count with every layout of nodes */
	PROVE_SWEEP_PIECES, /* PROVE_MANY_PIECES */
	PROVE_SWEEP_MOST,   /* PROVE_MOST_PIECES */
	PROVE_SWEEP_STAGED, /* staged buffers */
	PROVE_SWEEP_MORE,   /* further cases */
	PROVE_SWEEPS
};

enum { PROVE_RANKS_MAX = 1024 };

/* A set of numbers of ranks. */
struct prove_set {
	uint64_t bit[PROVE_RANKS_MAX / 64 + 1];
};

struct prove_plan {
	enum prove_level level;
	uint64_t seed;
	const uint64_t *counts; /* ascending */
	int ncounts;
	struct prove_set ranks;
	struct prove_set
		sample; /* numbers of ranks that have PROVE_SWEEP_PAIRS although it takes long */
};

/* case.c: one case, and the values of its properties. */
void prove_one(struct prove *p, const struct prove_case *c);
/* Sets the number of values of each property, for an algorithm on some ranks. */
void prove_case_sizes(const struct prove_plan *plan, const coll_algorithm_info_t *info, int nranks,
		      uint64_t size[PROVE_PROPERTIES]);
/* Finds `messages` and `shares` of a case whose other members are set. */
void prove_case_shares(struct prove *p, struct prove_case *c);
/* Fills in a case, whose algorithm and ranks are set, with the values.  Returns 0 if the algorithm does not support it. */
int prove_case_fill(struct prove *p, struct prove_case *c, const struct prove_plan *plan,
		    const uint64_t value[PROVE_PROPERTIES]);

/* set.c */
int prove_set_has(const struct prove_set *set, int nranks);
void prove_set_add(struct prove_set *set, int nranks);
/* Writes the set as text: "1-64, 96"; "none". */
void prove_set_text(const struct prove_set *set, char *text, size_t size);

/* plan.c: sets the numbers of ranks of a plan whose level and seed are set.  last 0: the numbers of the level. */
void prove_plan_ranks(struct prove_plan *plan, int first, int last);
/* Does the plan have the sweep for an algorithm on so many ranks?  cost: about the number of its steps. */
int prove_plan_has(const struct prove_plan *plan, enum prove_sweep sweep, int nranks,
		   uint64_t cost);
/* Returns the i-th number that a seed draws. */
uint64_t prove_draw(uint64_t seed, uint64_t i);
/* Returns the cost after which the sweep PROVE_SWEEP_MORE ends. */
uint64_t prove_plan_more(const struct prove_plan *plan, int nranks);

/*
 * sweep.c: proves the cases of an algorithm on some ranks up to the first fault.  Returns bits 1 << sweep of complete
 * sweeps.
 */
unsigned prove_sweeps(struct prove *p, const struct prove_plan *plan, int algorithm,
		      const coll_algorithm_info_t *info, int nranks);

/* One algorithm of the table, and its results. */
struct prove_row {
	coll_algorithm_info_t info;
	int wanted;
	struct prove_set ranks; /* numbers of ranks with a case */
	struct prove_set swept[PROVE_SWEEPS];
	int failed_ranks;
	struct prove_totals totals;
	unsigned failed; /* failed checks with the fewest ranks that failed */
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

/* table.c: prints the rows.  Returns the number of unproven algorithms, or -1 if none was tried. */
int prove_table(const struct prove_plan *plan, const struct prove_row *row, int rows, int json);

/* tried.c: prints which cases were tried. */
extern const char *const prove_sweep_names[PROVE_SWEEPS];
void prove_tried(const struct prove_plan *plan, const struct prove_row *row, int rows);

/* bugs.c: the array ends with a NULL name.  The entry without a check changes nothing and must pass. */
extern const struct prove_mutant prove_mutants[];

/* builders.c: the array ends with a NULL name. */
extern const struct prove_builder prove_builders[];

/* mutant.c: tries the mutant or wrong builder of that name, or all if name is NULL.  Returns the exit status. */
int prove_try_mutants(const char *name, int json);

#endif
