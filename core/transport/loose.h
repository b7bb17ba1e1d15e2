/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loose.h - finds receives and messages outside the order of the operations by source and tag.  A program may have
 * thousands of receives open, and all messages of one communicator have the same header tag.
 *
 * A receive names a source or any, and a tag or any.  So it has one key, and a message is found under four: its
 * source or any, with its tag or any.  The places of one key form a ring in the order in which they were added.
 */
#ifndef CORE_TRANSPORT_LOOSE_H
#define CORE_TRANSPORT_LOOSE_H

#include <coll/backend.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of the class of a key. */
enum { LOOSE_ANY_SOURCE = 1, LOOSE_ANY_TAG = 2, LOOSE_CLASSES = 4 };

enum { LOOSE_SLOTS_BITS = 4 };

struct loose_key {
	uint64_t tag;  /* of the header */
	uint64_t user; /* the program's tag, or MATCH_ANY_TAG */
	int32_t peer;  /* rank on the context, or COLL_ANY_SOURCE */
};

struct loose_place {
	struct loose_place *next, *prev; /* the ring of its key */
	struct loose_place *after,
		**at; /* the first of its key: the chain of the slot; else at is NULL */
	struct loose_key key;
	uint64_t order; /* number among all places that were ever added */
	void *of;       /* the receive or the message */
};

/* All zero: empty. */
struct loose_index {
	struct loose_place **slots; /* NULL: `few` */
	struct loose_place *few[1 << LOOSE_SLOTS_BITS];
	unsigned bits;                    /* of the number of slots; 0: LOOSE_SLOTS_BITS */
	uint64_t keys;                    /* different keys */
	uint64_t in_class[LOOSE_CLASSES]; /* places */
	uint64_t order;                   /* of the next place */
	uint64_t looked;                  /* places that searches have looked at */
};

/* The key under which a message is found by receives of a class. */
struct loose_key loose_key_of(uint32_t peer, const coll_header_t *header, int class);
/* Adds a place behind the earlier places of its key.  Without memory for more slots the index works, but slowly. */
void loose_add(struct loose_index *index, struct loose_place *place, const struct loose_key *key,
	       void *of);
void loose_remove(struct loose_index *index, struct loose_place *place);
/* The oldest place of a key, or NULL. */
struct loose_place *loose_find(struct loose_index *index, const struct loose_key *key);
/* The oldest place of all keys under which a message is found, or NULL. */
struct loose_place *loose_find_any(struct loose_index *index, uint32_t peer,
				   const coll_header_t *header);
/* Frees the slots; the places are the caller's. */
void loose_free(struct loose_index *index);

#endif
