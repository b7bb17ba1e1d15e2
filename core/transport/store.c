/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - keeps the memory of unexpected messages for the next messages. */
#include "transport/store.h"

#include <stdint.h>
#include <stdlib.h>

/* The beginning of a block that is kept. */
struct stored {
	struct stored *next;
	size_t size;
};

static size_t store_size(size_t bytes)
{
	return bytes < STORE_STEP || bytes > SIZE_MAX - STORE_STEP
		       ? bytes
		       : (bytes + STORE_STEP - 1) / STORE_STEP * STORE_STEP;
}

static void store_unlink(struct store *store, struct stored **at)
{
	store->kept -= (*at)->size;
	*at = (*at)->next;
}

void *store_take(struct store *store, size_t bytes)
{
	const size_t size = store_size(bytes);

	for (struct stored **at = &store->first; size >= STORE_STEP && *at; at = &(*at)->next) {
		struct stored *block = *at;

		if (block->size != size)
			continue;
		store_unlink(store, at);
		return block;
	}
	return malloc(size);
}

/* Frees the block that was given back first. */
static void store_drop_last(struct store *store)
{
	struct stored **at = &store->first, *last;

	while ((*at)->next)
		at = &(*at)->next;
	last = *at;
	store_unlink(store, at);
	free(last);
}

void store_give(struct store *store, void *block, size_t bytes)
{
	struct stored *kept = block;
	const size_t size = store_size(bytes);

	if (size < STORE_STEP || size > STORE_MOST) {
		free(block);
		return;
	}
	*kept = (struct stored){store->first, size};
	store->first = kept;
	store->kept += size;
	while (store->kept > STORE_MOST)
		store_drop_last(store);
}

void store_free(struct store *store)
{
	while (store->first)
		store_drop_last(store);
}
