/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redop.h - the operation of a reduction: built-in, made at run time by the application, or a
 * pre-multiplied sum.
 */
#ifndef CORE_REDUCE_REDOP_H
#define CORE_REDUCE_REDOP_H

#include "reduce/reduce.h"

#include <coll/coll.h>

/* The first value that is not a built-in operation. */
enum { REDOP_FIRST = 256 };
/* The number of the first operation of the application that is valid on every communicator. */
enum { REDOP_EVERYWHERE = 1 << 20 };

/*
 * The division of an average.  An average of integers divides the sum in place (redop_divide).  An average of floats divides
 * each input by the number of ranks before the input is added, so that no sum overflows: redop_divide makes a divided copy
 * of an input, redop_apply_divided adds an input to a sum (dst[i] = input[i] / n + sum[i]), and redop_apply_pair adds two
 * inputs.
 */
enum redop_division { REDOP_NO_DIVISION, REDOP_DIVIDES_INPUTS, REDOP_DIVIDES_RESULT };

struct redop {
	int32_t dtype;
	int32_t op;       /* the built-in operation; not used if fn is set */
	reduce_fn kernel; /* the kernel of `op`; NULL: not looked up, or fn is set */
	size_t elem;      /* bytes of an element, if kernel is set */
	enum redop_division division;
	coll_user_op_fn fn; /* the application's function, or NULL */
	void *user;
	uint32_t number;    /* counts the application's operations on the communicator, from 1 */
	int ordered;        /* 1: does not commute, so operands must come in rank order */
	int premul_sum;     /* 1: inputs are multiplied by the scalar first */
	int made;           /* 1: a backend's own functions know it by the number `native` */
	int32_t native;     /* the operation's number for a backend's own functions */
	const void *scalar; /* address, read when the operation begins; NULL: see `value` */
	uint8_t value[16];
};

/* The operations that an application has made on one communicator.  All zero: none. */
struct redop_table {
	struct redop **made; /* NULL: destroyed */
	int n, capacity;
	int first_free;   /* no entry before this index is free */
	uint32_t numbers; /* functions of the application ever added */
};

/*
 * Copies the operation `op` for that type, built-in or from the table (NULL: none), to *redop.  If there is none, returns
 * COLL_ERR_INVALID_ARGUMENT with a message that begins with `what`.
 */
int redop_find(const struct redop_table *table, const char *what, int dtype, int op,
	       struct redop *redop);
/* Copies *redop into the table.  Returns its number, or -1 if memory or numbers have run out. */
int redop_add(struct redop_table *table, const struct redop *redop);
/* Returns the operation of that number in the table, which may be NULL, or NULL. */
struct redop *redop_made(const struct redop_table *table, int op);
/* Removes the operation of that number.  Calls under way have copies of it. */
void redop_remove(struct redop_table *table, int op);
/* Frees the table, which is on the heap, with its operations.  Accepts NULL. */
void redop_table_free(struct redop_table *table);

/* Adds as redop_add an operation that is valid on every communicator. */
int redop_add_everywhere(const struct redop *redop);
/* Removes such an operation.  Returns 0 if no operation has the number. */
int redop_remove_everywhere(int op);

/* Computes dst[i] = left[i] op right[i], as reduce(). */
void redop_apply(const struct redop *redop, void *dst, const void *left, const void *right,
		 size_t count);
/* The operation is an average: see redop_division. */
void redop_divide(const struct redop *redop, void *dst, const void *src, size_t count, int n);
void redop_apply_divided(const struct redop *redop, void *dst, const void *input, const void *sum,
			 size_t count, int n);
void redop_apply_pair(const struct redop *redop, void *dst, const void *a, const void *b,
		      size_t count, int n);
/* Computes dst[i] = scalar * src[i]. */
void redop_scale(const struct redop *redop, void *dst, const void *src, size_t count);

#endif
