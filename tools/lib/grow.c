/* SPDX-License-Identifier: BSD-3-Clause */
/* grow.c - arrays that grow. */
#include <stdio.h>
#include <stdlib.h>
#include "lib/grow.h"

static void grow_fail(size_t bytes)
{
	fprintf(stderr, "coll: no memory for %zu bytes\n", bytes);
	exit(1);
}

void *tool_grow(void *array, int *cap, int want, size_t size)
{
	int more = *cap ? *cap : 16;
	void *bigger;

	if (want <= *cap)
		return array;
	while (more < want)
		more *= 2;
	bigger = realloc(array, (size_t)more * size);
	if (bigger == NULL)
		grow_fail((size_t)more * size);
	*cap = more;
	return bigger;
}

void *tool_array(size_t n, size_t size)
{
	void *array = calloc(n ? n : 1, size);

	if (array == NULL)
		grow_fail(n * size);
	return array;
}
