/* SPDX-License-Identifier: BSD-3-Clause */
/* grow.c - arrays that grow. */
#include <stdio.h>
#include <stdlib.h>
#include "lib/grow.h"

void *tool_grow(void *array, int *cap, int want, size_t size)
{
	int more = *cap ? *cap : 16;
	void *bigger;

	if (want <= *cap)
		return array;
	while (more < want)
		more *= 2;
	bigger = realloc(array, (size_t)more * size);
	if (bigger == NULL) {
		fprintf(stderr, "coll: no memory for %zu bytes\n", (size_t)more * size);
		exit(1);
	}
	*cap = more;
	return bigger;
}
