/* SPDX-License-Identifier: BSD-3-Clause */
/* redop.c - applies built-in and user-defined operations to arrays. */
#include "reduce/redop.h"
#include "base/array.h"
#include "base/dtype.h"
#include "base/error.h"
#include "reduce/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* User functions get copies of the data in pieces of this many bytes, with this alignment. */
enum { REDOP_PIECE = 8192, REDOP_ALIGN = 16 };

/*
 * A user's function overwrites its right operand and may expect aligned arrays.  The operands here may
 * lie in a receive buffer and begin at any address, so the function works on copies.
 */
static void redop_user(const struct redop *redop, char *dst, const char *left, const char *right,
		       size_t count)
{
	_Alignas(REDOP_ALIGN) char a[REDOP_PIECE], b[REDOP_PIECE];
	size_t elem = coll_dtype_size(redop->dtype);
	size_t most = REDOP_PIECE / elem;

	while (count) {
		size_t n = count < most ? count : most;

		memcpy(a, left, n * elem);
		memcpy(b, right, n * elem);
		redop->fn(redop->user, a, b, n, redop->dtype);
		memcpy(dst, b, n * elem);
		dst += n * elem;
		left += n * elem;
		right += n * elem;
		count -= n;
	}
}

void redop_apply(const struct redop *redop, void *dst, const void *left, const void *right,
		 size_t count)
{
	if (redop->kernel)
		reduce_run(redop->kernel, dst, left, right, count * redop->elem, 1);
	else if (redop->fn)
		redop_user(redop, dst, left, right, count);
	else
		reduce(dst, left, right, count, redop->dtype, redop->op);
}

void redop_divide(const struct redop *redop, void *dst, const void *src, size_t count, int n)
{
	reduce_run(reduce_kernel(redop->dtype, COLL_AVG), dst, src, src, count * redop->elem, n);
}

void redop_apply_divided(const struct redop *redop, void *dst, const void *input, const void *sum,
			 size_t count, int n)
{
	reduce_scaled(dst, input, sum, count * redop->elem, redop->dtype, REDUCE_SCALED_SUM, n);
}

void redop_apply_pair(const struct redop *redop, void *dst, const void *a, const void *b,
		      size_t count, int n)
{
	reduce_scaled(dst, a, b, count * redop->elem, redop->dtype, REDUCE_SCALED_PAIR, n);
}

void redop_scale(const struct redop *redop, void *dst, const void *src, size_t count)
{
	_Alignas(REDOP_ALIGN) char factor[REDOP_PIECE];
	size_t elem = coll_dtype_size(redop->dtype), most = REDOP_PIECE / elem;
	const void *scalar = redop->scalar ? redop->scalar : redop->value;

	for (size_t i = 0; i < most && i < count; i++)
		memcpy(factor + i * elem, scalar, elem);
	for (size_t at = 0; at < count; at += most)
		reduce((char *)dst + at * elem, factor, (const char *)src + at * elem,
		       count - at < most ? count - at : most, redop->dtype, COLL_PROD);
}

/* -------------------------------------------------------------- made at run time -- */

enum { REDOP_MOST = 1 << 16 }; /* most operations made at run time */

struct redop *redop_made(const struct redop_table *table, int op)
{
	if (!table || op < REDOP_FIRST || op - REDOP_FIRST >= table->n)
		return NULL;
	return table->made[op - REDOP_FIRST];
}

static int redop_find_everywhere(const char *what, int op, struct redop *redop);

/*
 * Returns the logical operation that a sum, product, maximum or minimum of bools is; a backend's own functions know the
 * logical operation only.
 */
static int redop_of_bool(int op)
{
	switch (op) {
	case COLL_SUM:
	case COLL_MAX: return COLL_LOR;
	case COLL_PROD:
	case COLL_MIN: return COLL_LAND;
	default: return op;
	}
}

/* Makes the operation, whose kernel divides, a sum that divides its inputs or its result. */
static void redop_average(struct redop *redop)
{
	redop->kernel = reduce_kernel(redop->dtype, COLL_SUM);
	redop->division = reduce_lookup_scaled(&reduce_generic, redop->dtype, REDUCE_SCALED_SUM)
				  ? REDOP_DIVIDES_INPUTS
				  : REDOP_DIVIDES_RESULT;
}

/* Returns the reason why a type lacks an operation, for the end of a message. */
static const char *redop_why_not(int dtype, int op)
{
	switch (dtype_family(dtype)) {
	case DTYPE_COMPLEX:
		return op == COLL_MIN || op == COLL_MAX
			       ? ": complex numbers have no order"
			       : ": complex numbers have sum, prod and avg";
	case DTYPE_PAIR: return ": pairs of a value and an index have minloc and maxloc";
	case DTYPE_OPAQUE:
		return ": opaque elements need a function of the application, see "
		       "coll_red_op_create_user";
	default: return "";
	}
}

int redop_find(const struct redop_table *table, const char *what, int dtype, int op,
	       struct redop *redop)
{
	const struct redop *made;

	*redop = (struct redop){.dtype = dtype, .op = op, .native = op};
	redop->kernel = op < REDOP_FIRST ? reduce_kernel(dtype, op) : NULL;
	if (redop->kernel) {
		redop->elem = coll_dtype_size(dtype);
		if (dtype == COLL_BOOL)
			redop->native = redop_of_bool(op);
		redop->made = redop->native != op;
		if (op == COLL_AVG)
			redop_average(redop);
		return COLL_SUCCESS;
	}
	if (op < REDOP_FIRST)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d (%s) is not an operation on %s%s", what, op,
				 coll_op_name(op), coll_dtype_name(dtype),
				 redop_why_not(dtype, op));
	if (op >= REDOP_EVERYWHERE)
		return redop_find_everywhere(what, op, redop);
	made = redop_made(table, op);
	if (!made)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d was not made on this communicator, or is destroyed",
				 what, op);
	if (made->premul_sum && made->dtype != dtype)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: op %d was made for %s, not for %s",
				 what, op, coll_dtype_name(made->dtype), coll_dtype_name(dtype));
	*redop = *made;
	redop->dtype = dtype;
	return COLL_SUCCESS;
}

/* Returns the index of a free slot in the table, or -1. */
static int redop_slot(struct redop_table *table)
{
	struct redop **made;

	while (table->first_free < table->n && table->made[table->first_free])
		table->first_free++;
	if (table->first_free < table->n)
		return table->first_free;
	if (table->n == REDOP_MOST)
		return -1;
	made = array_grow(table->made, table->n, &table->capacity, sizeof(struct redop *));
	if (!made)
		return -1;
	table->made = made;
	table->made[table->n] = NULL;
	return table->n++;
}

int redop_add(struct redop_table *table, const struct redop *redop)
{
	struct redop *made = malloc(sizeof(*made));
	int slot = made ? redop_slot(table) : -1;

	if (slot < 0) {
		free(made);
		return -1;
	}
	*made = *redop;
	if (made->fn)
		made->number = ++table->numbers;
	table->made[slot] = made;
	return REDOP_FIRST + slot;
}

void redop_remove(struct redop_table *table, int op)
{
	const int slot = op - REDOP_FIRST;

	free(table->made[slot]);
	table->made[slot] = NULL;
	if (slot < table->first_free)
		table->first_free = slot;
}

void redop_table_free(struct redop_table *table)
{
	if (!table)
		return;
	for (int i = 0; i < table->n; i++)
		free(table->made[i]);
	free(table->made);
	free(table);
}

/* ---------------------------------------------------- valid on every communicator -- */

/* The application's operations that are valid on every communicator.  redop_lock protects the table. */
static struct redop_table redop_everywhere;
static pthread_mutex_t redop_lock = PTHREAD_MUTEX_INITIALIZER;

static struct redop *redop_made_everywhere(int op)
{
	return redop_made(&redop_everywhere, op - REDOP_EVERYWHERE + REDOP_FIRST);
}

int redop_add_everywhere(const struct redop *redop)
{
	int op;

	pthread_mutex_lock(&redop_lock);
	op = redop_add(&redop_everywhere, redop);
	if (op >= 0) {
		op += REDOP_EVERYWHERE - REDOP_FIRST;
		/* Ranks may make these operations in different orders, so the numbers tell nothing. */
		redop_made_everywhere(op)->number = 0;
	}
	pthread_mutex_unlock(&redop_lock);
	return op;
}

int redop_remove_everywhere(int op)
{
	int found;

	pthread_mutex_lock(&redop_lock);
	found = op >= REDOP_EVERYWHERE && redop_made_everywhere(op);
	if (found)
		redop_remove(&redop_everywhere, op - REDOP_EVERYWHERE + REDOP_FIRST);
	pthread_mutex_unlock(&redop_lock);
	return found;
}

static int redop_find_everywhere(const char *what, int op, struct redop *redop)
{
	const int32_t dtype = redop->dtype;
	const struct redop *made;

	pthread_mutex_lock(&redop_lock);
	made = redop_made_everywhere(op);
	if (made) {
		*redop = *made;
		redop->dtype = dtype;
	}
	pthread_mutex_unlock(&redop_lock);
	return made ? COLL_SUCCESS
		    : error_set(COLL_ERR_INVALID_ARGUMENT,
				"%s: op %d is not an operation, or is destroyed", what, op);
}
