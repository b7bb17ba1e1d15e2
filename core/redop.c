/* SPDX-License-Identifier: BSD-3-Clause */
/* redop.c - applies built-in and user-defined operations to arrays. */
#include "redop.h"
#include "reduce.h"

#include <string.h>

/* Pieces in which user functions see data that must be moved first. */
enum { REDOP_PIECE = 8192, REDOP_ALIGN = 16 };

/*
 * A user's function overwrites its right operand and may expect aligned arrays, while ours may be
 * in a receive buffer or begin anywhere: it works on copies.
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
	if (redop->fn)
		redop_user(redop, dst, left, right, count);
	else
		reduce(dst, left, right, count, redop->dtype, redop->op);
}

void redop_finish(const struct redop *redop, void *dst, size_t count, int nranks)
{
	if (!redop->fn)
		reduce_finish(dst, count, redop->dtype, redop->op, nranks);
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
