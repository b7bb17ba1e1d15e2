/* SPDX-License-Identifier: BSD-3-Clause */
/* array.c - heap arrays that grow. */
#include "base/array.h"

#include <limits.h>
#include <stdlib.h>

enum { ARRAY_FIRST = 16 };

void *array_grow(void *array, int n, int *capacity, size_t size)
{
	int wanted = ARRAY_FIRST;
	void *bigger;

	if (n < *capacity)
		return array;
	if (*capacity > INT_MAX / 2)
		return NULL;
	if (*capacity)
		wanted = *capacity * 2;
	bigger = realloc(array, (size_t)wanted * size);
	if (bigger)
		*capacity = wanted;
	return bigger;
}
