/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h - memory for unexpected messages.  It keeps the large blocks that were given back last: for a fresh block the
 * kernel makes pages, which takes longer than the copy of the message.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_TRANSPORT_STORE_H
#define CORE_TRANSPORT_STORE_H

#include <stddef.h>

enum {
	STORE_STEP =
		64 << 10, /* smaller blocks are not kept; the size of larger blocks is a multiple */
	STORE_MOST = 8 << 20 /* bytes that are kept */
};

struct stored;

struct store {
	struct stored *first; /* the block that was given back last */
	size_t kept;          /* bytes */
};

/* Memory of that many bytes, or NULL.  free() may take it too. */
void *store_take(struct store *store, size_t bytes);
/* bytes: as in store_take. */
void store_give(struct store *store, void *block, size_t bytes);
void store_free(struct store *store);

#endif
