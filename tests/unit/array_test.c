/* SPDX-License-Identifier: BSD-3-Clause */
/* array_test.c - arrays that grow: base/array.h. */
#include "base/array.h"

#include <limits.h>
#include <stdlib.h>

#include "../lib/tap.h"

enum { ITEMS = 100 };

int main(void)
{
	int capacity = 0, grown = 0, before = 0, wrong = 0;
	int *array = NULL;

	for (int n = 0; n < ITEMS; n++) {
		before = capacity;
		array = array_grow(array, n, &capacity, sizeof(*array));
		if (!array)
			bail_out("no memory");
		grown += capacity != before;
		array[n] = n;
	}
	ok(capacity >= ITEMS, "the array has room for its items");
	is_int(grown, 4, "which it got by doubling: 16, 32, 64, 128");
	for (int n = 0; n < ITEMS; n++)
		wrong += array[n] != n;
	is_int(wrong, 0, "the items move with it");
	before = capacity;
	ok(array_grow(array, ITEMS, &capacity, sizeof(*array)) == array && capacity == before,
	   "an array with room stays");
	capacity = INT_MAX / 2 + 1;
	ok(!array_grow(array, capacity, &capacity, sizeof(*array)) && capacity == INT_MAX / 2 + 1,
	   "a capacity that no int can double: refused");
	free(array);
	return done_testing();
}
