/* SPDX-License-Identifier: BSD-3-Clause */
/* store_test.c - the memory of unexpected messages: large blocks are used again, within bounds. */
#include "../lib/tap.h"

#include "transport/store.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20, BLOCKS = 20 };

static void test_again(void)
{
	struct store store = {0};
	char *first = store_take(&store, LARGE), *second = store_take(&store, LARGE), *other;

	ok(first && second && first != second, "two blocks");
	store_give(&store, first, LARGE);
	is_int((int)store.kept, LARGE, "one is kept");
	other = store_take(&store, LARGE + 1);
	ok(other != first, "a message that is one byte longer does not get it");
	memset(other, 1, LARGE + 1);
	store_give(&store, other, LARGE + 1);
	ok(store_take(&store, LARGE) == first, "one of its length does");
	ok(store_take(&store, LARGE + STORE_STEP - 1) == other,
	   "the other is taken by a length up to its own");
	is_int((int)store.kept, 0, "nothing is kept");
	ok(!store.first, "and nothing is there");
	store_give(&store, first, LARGE);
	store_give(&store, second, LARGE);
	store_give(&store, other, LARGE + 1);
	store_free(&store);
	is_int((int)store.kept, 0, "all is freed");
}

static void test_bounds(void)
{
	struct store store = {0};
	void *block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		block[i] = store_take(&store, LARGE);
	for (int i = 0; i < BLOCKS; i++)
		store_give(&store, block[i], LARGE);
	is_int((int)store.kept, STORE_MOST, "%d MiB of %d are kept", STORE_MOST >> 20, BLOCKS);
	ok(store_take(&store, LARGE) == block[BLOCKS - 1], "the last one is the first to be taken");
	free(block[BLOCKS - 1]);
	store_give(&store, store_take(&store, 2 * STORE_MOST), 2 * STORE_MOST);
	is_int((int)store.kept, STORE_MOST - LARGE, "a block above the bound is not kept");
	store_give(&store, store_take(&store, 100), 100);
	is_int((int)store.kept, STORE_MOST - LARGE, "nor is a small one");
	ok(!store_take(&store, SIZE_MAX - 8), "a length that no memory has");
	store_free(&store);
}

int main(void)
{
	test_again();
	if (getenv("TEST_SANITIZE") && *getenv("TEST_SANITIZE"))
		skip(6, "sanitizers end a program that asks for too much memory");
	else
		test_bounds();
	return done_testing();
}
