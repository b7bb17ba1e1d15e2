/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unordered.h - finds receives and messages outside the order of the operations by source and tag.  A program may have
 * thousands of receives open, and all messages of one communicator have the same header tag.
 *
 * A receive names a source or any, and a tag or any.  So a receive has one key, and a message has four keys: its source
 * or any, with its tag or any.  The entries of one key form a ring in the order in which they were added.
 */
#ifndef CORE_TRANSPORT_UNORDERED_H
#define CORE_TRANSPORT_UNORDERED_H

#include <coll/backend.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of the class of a key. */
enum { UNORDERED_ANY_SOURCE = 1, UNORDERED_ANY_TAG = 2, UNORDERED_CLASSES = 4 };

enum { UNORDERED_SLOTS_BITS = 4 };

struct unordered_key {
	uint64_t tag;  /* of the header */
	uint64_t user; /* the program's tag, or MATCH_ANY_TAG */
	int32_t peer;  /* rank on the context, or COLL_ANY_SOURCE */
};

struct unordered_entry {
	struct unordered_entry *next, *prev; /* the ring of its key */
	struct unordered_entry *after,
		**at; /* the first of its key: the chain of the slot; else at is NULL */
	struct unordered_key key;
	uint64_t order; /* number among all entries that were ever added */
	void *of;       /* the receive or the message */
};

/* All zero: empty. */
struct unordered_index {
	struct unordered_entry **slots; /* NULL: `few` */
	struct unordered_entry *few[1 << UNORDERED_SLOTS_BITS];
	unsigned bits;                        /* of the number of slots; 0: UNORDERED_SLOTS_BITS */
	uint64_t keys;                        /* different keys */
	uint64_t in_class[UNORDERED_CLASSES]; /* entries */
	uint64_t order;                       /* of the next entry */
	uint64_t looked;                      /* entries that searches have looked at */
};

/* The key under which a message is found by receives of a class. */
struct unordered_key unordered_key_of(uint32_t peer, const coll_header_t *header, int class);
/* Adds an entry behind the earlier entries of its key.  Without memory for more slots the index works, but slowly. */
void unordered_add(struct unordered_index *index, struct unordered_entry *entry,
		   const struct unordered_key *key, void *of);
void unordered_remove(struct unordered_index *index, struct unordered_entry *entry);
/* The oldest entry of a key, or NULL. */
struct unordered_entry *unordered_find(struct unordered_index *index,
				       const struct unordered_key *key);
/* The oldest entry of all keys under which a message is found, or NULL. */
struct unordered_entry *unordered_find_any(struct unordered_index *index, uint32_t peer,
					   const coll_header_t *header);
/* Frees the slots; the entries are the caller's. */
void unordered_free(struct unordered_index *index);

#endif
