/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle.h - collective calls and the results that they must have, worked out without the library.
 *
 * Four parts, each built on the one before:
 *
 *   numbers   formats of numbers, and the reduction of one element (format.c)
 *   data      the inputs of all ranks, and the result of their reduction (data.c)
 *   calls     one rank's part in a collective: buffers, arguments, every byte afterwards (call.c)
 *   cases     which calls to make: a table, and random calls from a seed (cases.c)
 *
 * All ranks compute all inputs, so no rank needs a message from another to judge its own result.
 */
#ifndef TOOLS_ORACLE_H
#define TOOLS_ORACLE_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ numbers -- */

enum { ORACLE_FORMATS = 14, ORACLE_OPS = 8, ORACLE_ELEM_MAX = 8 };

/* A number is its code: the bits of the element, zero-extended. */
struct oracle_format {
	int32_t dtype;
	int size, is_signed;
	/* Floats: bits of the mantissa (0: an integer) and the bias of the exponent. */
	int mantissa, bias;
	/* Floats: codes of the largest finite number, what is above it, the last that is not NaN, NaN. */
	uint64_t max, over, inf, nan;
};

extern const struct oracle_format oracle_formats[ORACLE_FORMATS];
extern const int32_t oracle_ops[ORACLE_OPS];

const struct oracle_format *oracle_format(int32_t dtype);
/* Is the operation defined for the type? */
int oracle_op_fits(int32_t op, int32_t dtype);

/* Element i of an array.  Machines are little-endian. */
uint64_t oracle_load(const struct oracle_format *f, const void *array, size_t i);
void oracle_store(const struct oracle_format *f, void *array, size_t i, uint64_t code);

uint64_t oracle_sign(const struct oracle_format *f);
/* All bits of an element. */
uint64_t oracle_mask(const struct oracle_format *f);
/* Of floats. */
double oracle_value(const struct oracle_format *f, uint64_t code);
/* The nearest code, ties to even; of integers, the value's whole part modulo the width. */
uint64_t oracle_code(const struct oracle_format *f, double x);
int oracle_is_nan(const struct oracle_format *f, uint64_t code);

/* x op y, not rounded to a type: SUM, PROD, MAX or MIN. */
double oracle_fold(int32_t op, double x, double y);
/*
 * a op b, rounded once.  COLL_AVG: a / n.  By other means than the library's kernels: values in double,
 * rounding by division and rint, no arithmetic on bits.
 */
uint64_t oracle_reduce(const struct oracle_format *f, int32_t op, uint64_t a, uint64_t b, int n);
/* dst[i] = left[i] op right[i] */
void oracle_reduce_all(const struct oracle_format *f, int32_t op, void *dst, const void *left,
		       const void *right, size_t count, int n);

/* Any number from two. */
uint64_t oracle_mix(uint64_t a, uint64_t b);

/* --------------------------------------------------------------------- data -- */

/* Which inputs. */
enum oracle_inputs {
	ORACLE_EXACT,   /* the reduction is exact in whatever order it is done */
	ORACLE_SPECIAL, /* the same, but MIN and MAX of floats have NaN, infinities, both zeros */
	ORACLE_ROUGH    /* floats with all bits of the mantissa: each order gives other bits */
};

/* Beside the operations of coll.h. */
enum {
	ORACLE_MOVE = -1,   /* no reduction: elements are any bits */
	ORACLE_SCALED = 256 /* a sum of inputs that each rank multiplies by oracle_scale() first */
};

struct oracle_data {
	int32_t dtype, op, nranks;
	enum oracle_inputs inputs;
	/*
	 * Averages, and the sums and products of ORACLE_ROUGH, need only be near: an engine may divide
	 * the inputs instead of the sum, and may add in any order.
	 */
	int near;
	uint64_t seed; /* other data for the same call */
};

/* Element i of what a rank puts in, and of what all ranks' elements come to. */
uint64_t oracle_input(const struct oracle_data *d, int32_t rank, size_t i);
/* ORACLE_ROUGH: combined in the order of reproducible mode (coll.h, Reproducible). */
uint64_t oracle_result(const struct oracle_data *d, size_t i);
/* What a rank multiplies by under ORACLE_SCALED. */
double oracle_scale(const struct oracle_format *f, int32_t rank);

/*
 * Rows of elements 0 to n - 1.  Longer buffers repeat a row: a prime n shows data in a wrong place, unless
 * the place is off by a multiple of n.
 */
void oracle_input_row(const struct oracle_data *d, int32_t rank, size_t n, void *row);
void oracle_result_row(const struct oracle_data *d, size_t n, void *row);
/* Elements first, first + 1, ... of the endless repetition of a row of n. */
void oracle_tile(void *dst, const void *row, size_t n, size_t elem, size_t first, size_t count);
/*
 * How many of got[0 .. count) are not elements first, first + 1, ... of the repeated result row.  *at is
 * the first of them; at may be NULL.
 */
size_t oracle_wrong(const struct oracle_data *d, const void *got, const void *row, size_t n,
		    size_t first, size_t count, size_t *at);

/* -------------------------------------------------------------------- calls -- */

enum { ORACLE_KINDS = 13 };
extern const int32_t oracle_kinds[ORACLE_KINDS]; /* all that have data */

enum { ORACLE_RANKS = 16, ORACLE_GUARD = 64, ORACLE_GAP = 3, ORACLE_TEXT = 300 };

enum oracle_place { ORACLE_APART, ORACLE_IN_PLACE, ORACLE_ODD_IN_PLACE /* on odd ranks */ };

/* One collective call, as all ranks make it. */
struct oracle_case {
	int32_t kind, dtype, op, root;
	int place;    /* an enum oracle_place */
	int gaps;     /* v-forms: blocks out of order and with gaps; 0: no displacements */
	int aligned;  /* buffers begin at whole elements; 0: anywhere */
	size_t count; /* v-forms: about so many for each rank */
	enum oracle_inputs inputs;
	int near;
	uint64_t seed;
};

/* Does the kind take an operation, a root, counts? */
int oracle_reduces(int32_t kind);
int oracle_rooted(int32_t kind);
int oracle_varies(int32_t kind);

/* The blocks of a buffer, one for each rank, in elements. */
struct oracle_blocks {
	size_t count[ORACLE_RANKS], displ[ORACLE_RANKS], len;
};

/* What the receive buffer holds afterwards: elements `first`.. of a row, at `at`. */
struct oracle_part {
	size_t at, count, first;
	int32_t row; /* a rank's input, or -1: the result */
};

/* The memory that a rank needs: two areas, or in place ORACLE_RECV alone. */
enum { ORACLE_SEND, ORACLE_RECV, ORACLE_AREAS };

/* One rank's part in a call. */
struct oracle_call {
	struct oracle_case c;
	struct oracle_data data;
	int32_t rank, nranks;
	coll_args_t args;
	size_t bytes[ORACLE_AREAS]; /* of the areas, guards included; 0: this one is not used */
	size_t shift;               /* where a buffer begins behind the guard */
	size_t elem;
	struct oracle_blocks send, recv;
	size_t own; /* in place: where the smaller buffer begins within the larger one, in elements */
	struct oracle_part part[ORACLE_RANKS];
	int parts;
	unsigned char *rows; /* one period of each input and of the result */
};

/* 0, or -1 without memory.  Always followed by oracle_call_end; until then the call stays where it is. */
int oracle_call_begin(struct oracle_call *call, const struct oracle_case *c, int32_t rank,
		      int32_t nranks);
/* Other data for the same call, so that what an earlier start left is no right result.  0 or -1. */
int oracle_call_again(struct oracle_call *call);
/* Sets the arguments for areas of that many bytes, in any memory.  Who makes an operation sets args.op. */
void oracle_call_place(struct oracle_call *call, void *send_area, void *recv_area);
/* What an area must hold before each start of the call: bytes[area] of it. */
void oracle_call_fill(const struct oracle_call *call, int area, void *bytes);
/*
 * Is every byte of an area as it must be afterwards, guards, gaps and send buffers included?  If not, text
 * says which call it was, and what is wrong.
 */
int oracle_call_check(const struct oracle_call *call, int area, const void *bytes,
		      char text[ORACLE_TEXT]);
void oracle_call_end(struct oracle_call *call);

/* Calls the function of coll.h that belongs to args->kind (issue.c). */
coll_result_t oracle_issue(const coll_args_t *args, coll_comm_t comm, coll_stream_t stream);

/* -------------------------------------------------------------------- cases -- */

/* Makes one call; 0 ends the series. */
typedef int (*oracle_try_fn)(void *user, const struct oracle_case *c);

/* Each returns 0 if a call did.  `like` gives what a series does not vary. */

/* Every type with every operation; root, place and gaps take turns. */
int oracle_types(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);
/* Every root, place and form of counts. */
int oracle_places(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);
/* The table of a kind: oracle_types, and oracle_places with counts from 0 to several pieces of 4 KiB. */
int oracle_table(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);

/* A call beyond the table: all of it follows from the arguments.  No buffer is longer than about `most`. */
void oracle_random(struct oracle_case *c, uint64_t seed, int32_t nranks, size_t most);

#endif
