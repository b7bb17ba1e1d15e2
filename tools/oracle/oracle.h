/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle.h - collective calls and their expected results, computed without the library.
 *
 * Four parts, each built on the part before it:
 *
 *   numbers   formats of numbers, and the reduction of one element (format.c)
 *   data      the inputs of all ranks, and the result of their reduction (data.c)
 *   calls     one rank's part in a collective: buffers, arguments, every byte afterwards (call.c)
 *   cases     series of calls: a table, and random calls from a seed (cases.c)
 *
 * Each rank computes the inputs of all ranks, so a rank verifies its own result without a message.
 */
#ifndef TOOLS_ORACLE_H
#define TOOLS_ORACLE_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ numbers -- */

enum { ORACLE_ELEM_MAX = 16 };

/* A number is represented by its code: the bits of the element, zero-extended. */
struct oracle_format {
	int32_t dtype;
	int size, is_signed;
	/*
	 * Floats: number of mantissa bits (0: the type is an integer) and the bias of the exponent.
	 */
	int mantissa, bias;
	/*
	 * Floats: codes of the largest finite number, of the result of an overflow, of infinity (e4m3 has none: of the
	 * largest number), and of NaN.
	 */
	uint64_t max, over, inf, nan;
};

extern const struct oracle_format oracle_formats[];
extern const int oracle_format_count;
extern const int32_t oracle_ops[];
extern const int oracle_op_count;

/*
 * The types of one number, as in oracle_formats, then the types of two numbers: complex numbers, and pairs of a value and
 * an index.
 */
extern const int32_t oracle_dtypes[];
extern const int oracle_dtype_count;

/* Returns the format of a type's numbers, of two numbers the first's format. */
const struct oracle_format *oracle_format(int32_t dtype);
/* Return how many numbers of one size an element has (an opaque type: bytes), and the format of number k of an array. */
int oracle_parts(int32_t dtype);
const struct oracle_format *oracle_part(int32_t dtype, size_t k);
/* Returns the bytes of an element. */
size_t oracle_size(int32_t dtype);
int oracle_is_complex(int32_t dtype);
/* Is the type a pair of a value and an index? */
int oracle_is_pair(int32_t dtype);
/* Does the type have the operation? */
int oracle_op_fits(int32_t op, int32_t dtype);
/* Returns the operation; for a sum, product, maximum or minimum of bools the logical operation that it is. */
int32_t oracle_op_of(int32_t op, int32_t dtype);
/* Is the operation COLL_LAND, COLL_LOR or COLL_LXOR? */
int oracle_op_is_logical(int32_t op);
/* Does the collective, if it reduces, have the operation? */
int oracle_kind_has(int32_t kind, int32_t op);

/* Loads and stores element i of an array.  Machines are little-endian. */
uint64_t oracle_load(const struct oracle_format *f, const void *array, size_t i);
void oracle_store(const struct oracle_format *f, void *array, size_t i, uint64_t code);

uint64_t oracle_sign(const struct oracle_format *f);
/* Returns a mask of all bits of an element. */
uint64_t oracle_mask(const struct oracle_format *f);
/* Returns the value of a float's code. */
double oracle_value(const struct oracle_format *f, uint64_t code);
/* Returns the code nearest to a value, ties to even; for integers, the whole part of the value modulo the width. */
uint64_t oracle_code(const struct oracle_format *f, double x);
int oracle_is_nan(const struct oracle_format *f, uint64_t code);

/* Computes x op y, not rounded to a type: SUM, PROD, MAX or MIN. */
double oracle_fold(int32_t op, double x, double y);
/*
 * Computes a op b, rounded once; COLL_AVG: a / n.  It is independent of the library's kernels: it computes in double, and
 * rounds by division and rint instead of arithmetic on bits.
 */
uint64_t oracle_reduce(const struct oracle_format *f, int32_t op, uint64_t a, uint64_t b, int n);
/* Computes dst[i] = left[i] op right[i]. */
void oracle_reduce_all(const struct oracle_format *f, int32_t op, void *dst, const void *left,
		       const void *right, size_t count, int n);

/* Hashes two numbers into one. */
uint64_t oracle_mix(uint64_t a, uint64_t b);

/* --------------------------------------------------------------------- data -- */

/* Kinds of inputs. */
enum oracle_inputs {
	ORACLE_EXACT, /* the reduction is exact in any order */
	/* exact in any order; for MIN and MAX of floats also NaN, infinities and both zeros */
	ORACLE_SPECIAL,
	ORACLE_ROUGH /* floats with full mantissas: each order of a sum gives other bits */
};

/* Operations in addition to those of coll.h. */
enum {
	ORACLE_MOVE = -1,   /* no reduction: elements are any bits */
	ORACLE_SCALED = 256 /* the sum of each rank's input times oracle_scale() */
};

struct oracle_data {
	int32_t dtype, op, nranks;
	enum oracle_inputs inputs;
	/*
	 * 1: averages, and the sums and products of ORACLE_ROUGH, need only be near: a vendor's engine may multiply the
	 * inputs by 1 / nranks, and may add in any order.
	 */
	int near;
	/* The number of ranks whose inputs the result combines, from rank 0 on; 0: all. */
	int32_t first_ranks;
	uint64_t seed; /* another seed gives other data for the same call */
};

/* Return number i of a rank's input, and number i of the result.  Elements of two numbers have two. */
uint64_t oracle_input(const struct oracle_data *d, int32_t rank, size_t i);
/* For ORACLE_ROUGH the result has the order of reproducible mode (coll-order(7)). */
uint64_t oracle_result(const struct oracle_data *d, size_t i);
/* Returns the factor of a rank's input under ORACLE_SCALED. */
double oracle_scale(const struct oracle_format *f, int32_t rank);

/*
 * Write rows of elements 0 to n - 1.  Longer buffers repeat a row: with a prime n, data at a wrong offset differ, unless
 * the offset is wrong by a multiple of n.
 */
void oracle_input_row(const struct oracle_data *d, int32_t rank, size_t n, void *row);
void oracle_result_row(const struct oracle_data *d, size_t n, void *row);
/* Writes elements first, first + 1, ... of the endless repetition of a row of n. */
void oracle_tile(void *dst, const void *row, size_t n, size_t elem, size_t first, size_t count);
/*
 * Returns how many elements of got[0 .. count) differ from elements first, first + 1, ... of the repeated result row. *at
 * is the index of the first difference; at may be NULL.
 */
size_t oracle_wrong(const struct oracle_data *d, const void *got, const void *row, size_t n,
		    size_t first, size_t count, size_t *at);

/* -------------------------------------------------------------------- calls -- */

/* The collectives that move data.  The first ORACLE_SLOTS have a function in a backend's native group. */
enum { ORACLE_KINDS = 15, ORACLE_SLOTS = 13 };
extern const int32_t oracle_kinds[ORACLE_KINDS];

enum { ORACLE_RANKS = 16, ORACLE_GUARD = 64, ORACLE_GAP = 3, ORACLE_TEXT = 300 };

enum oracle_place { ORACLE_APART, ORACLE_IN_PLACE, ORACLE_ODD_IN_PLACE /* on odd ranks */ };

/* One collective call.  All ranks have the same description. */
struct oracle_case {
	int32_t kind, dtype, op, root;
	int32_t own_op; /* not 0: the program's operation that does to an opaque type's bytes as op does */
	int place;   /* an enum oracle_place */
	int gaps;    /* v-forms and lists: blocks out of order and with gaps; 0: no displacements */
	int list;    /* 1: the form with a list of buffers (oracle_has_list) */
	int aligned; /* 1: buffers begin at whole elements; 0: at any byte */
	size_t count; /* v-forms: the approximate count of each rank */
	enum oracle_inputs inputs;
	int near;
	uint64_t seed;
};

/* Does a call of the kind take an operation, a root, counts? */
int oracle_reduces(int32_t kind);
int oracle_scans(int32_t kind); /* does it combine the ranks before this rank, not all? */
int oracle_rooted(int32_t kind);
int oracle_varies(int32_t kind);
/* Has the kind a form with lists of buffers?  Alltoall's has no form in place. */
int oracle_has_list(int32_t kind);

/* The blocks of a buffer, one block for each rank, in elements. */
struct oracle_blocks {
	size_t count[ORACLE_RANKS], displ[ORACLE_RANKS], len;
};

/*
 * An expected part of the receive buffer: at element `at`, the elements of a row from `first` on.
 */
struct oracle_part {
	size_t at, count, first;
	int32_t row; /* the rank whose input the row is, or -1: the result */
};

/* The memory areas that a rank needs: both, or ORACLE_RECV alone if in place. */
enum { ORACLE_SEND, ORACLE_RECV, ORACLE_AREAS };

/* One rank's part in a call. */
struct oracle_call {
	struct oracle_case c;
	struct oracle_data data;
	int32_t rank, nranks;
	coll_args_t args;
	size_t bytes[ORACLE_AREAS]; /* sizes of the areas, guards included; 0: unused */
	size_t shift;               /* offset of the buffer behind the guard */
	size_t elem;
	struct oracle_blocks send, recv;
	/* in place: offset of the smaller buffer within the larger buffer, in elements */
	size_t own;
	struct oracle_part part[ORACLE_RANKS];
	int parts;
	unsigned char *rows; /* one period of each input and of the result */
};

/*
 * Begins a call.  Returns 0, or -1 without memory.  The caller must call oracle_call_end afterwards, and must not move the
 * struct until then.
 */
int oracle_call_begin(struct oracle_call *call, const struct oracle_case *c, int32_t rank,
		      int32_t nranks);
/*
 * Chooses other data for the same call, so that the result of an earlier start is wrong for the next start.  Returns 0 or
 * -1.
 */
int oracle_call_again(struct oracle_call *call);
/*
 * Sets the arguments for areas of bytes[area] bytes, in any memory.  A caller that created an
 * operation sets args.op itself.
 */
void oracle_call_place(struct oracle_call *call, void *send_area, void *recv_area);
/* Fills an area, bytes[area] bytes, as each start of the call requires. */
void oracle_call_fill(const struct oracle_call *call, int area, void *bytes);
/*
 * Has every byte of an area its expected value after the call, guards, gaps and send buffers
 * included?  If not, text describes the call and the fault.
 */
int oracle_call_check(const struct oracle_call *call, int area, const void *bytes,
		      char text[ORACLE_TEXT]);
void oracle_call_end(struct oracle_call *call);

/* Calls the function of coll.h that belongs to args->kind (issue.c). */
coll_result_t oracle_issue(const coll_args_t *args, coll_comm_t comm, coll_stream_t stream);
/* Calls the function for a call whose areas are set, which may be the form with lists. */
coll_result_t oracle_call_issue(const struct oracle_call *call, coll_comm_t comm,
				coll_stream_t stream);

/* -------------------------------------------------------------------- cases -- */

/* Makes one call; returns 0 to end the series. */
typedef int (*oracle_try_fn)(void *user, const struct oracle_case *c);

/* Each series returns 0 if a call returned 0.  `like` gives the properties that the series does not vary. */

/* Tries every type with every operation; root, place and gaps alternate. */
int oracle_types(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);
/* Tries every root, place and form of counts. */
int oracle_places(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);
/* Tries the table of a kind: oracle_types, and oracle_places with counts from 0 to several pieces of 4 KiB. */
int oracle_table(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user);

/*
 * Makes a random call beyond the table; only the arguments determine it.  No buffer is longer than about `most` elements.
 */
void oracle_random(struct oracle_case *c, uint64_t seed, int32_t nranks, size_t most);

#endif
