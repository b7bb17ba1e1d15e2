/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redop.h - what a reduction applies: one of the built-in operations, one made at run time by the
 * application, or a sum whose inputs are multiplied first.
 */
#ifndef CORE_REDOP_H
#define CORE_REDOP_H

#include <coll/coll.h>

struct redop {
	int32_t dtype;
	int32_t op;         /* built-in one; not used if fn is set */
	coll_user_op_fn fn; /* the application's, or NULL */
	void *user;
	int ordered;        /* does not commute: operands must come in rank order */
	int scaled;         /* inputs are multiplied by the scalar first */
	int made;           /* the backend has made its own */
	int32_t native;     /* its number there */
	const void *scalar; /* read when the operation begins; NULL: it is in `value` */
	uint8_t value[8];
};

/* dst[i] = left[i] op right[i]; as reduce(). */
void redop_apply(const struct redop *redop, void *dst, const void *left, const void *right,
		 size_t count);
/* The last step over nranks inputs, in place. */
void redop_finish(const struct redop *redop, void *dst, size_t count, int nranks);
/* dst[i] = scalar * src[i]. */
void redop_scale(const struct redop *redop, void *dst, const void *src, size_t count);

#endif
