/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_index.h - finds the unexpected messages of one call among the messages of all calls.  A rank that runs behind
 * keeps the messages of thousands of calls, and looks for the messages of its next call each time.  The messages
 * of a call form a ring, so a call of many messages is one entry.
 */
#ifndef CORE_TRANSPORT_CALL_INDEX_H
#define CORE_TRANSPORT_CALL_INDEX_H

#include <stdint.h>

struct unexpected;

/* Tags that are equal from bit CALL_TAG_SHIFT on belong to one call. */
enum { CALL_TAG_SHIFT = 20, CALL_SLOTS_BITS = 10, CALL_SLOTS = 1 << CALL_SLOTS_BITS };

/* All zero: empty. */
struct call_index {
	struct unexpected
		*slot[CALL_SLOTS]; /* the first message of each call that hashes to the slot */
};

/* A message's links in the index. */
struct call_link {
	struct unexpected *next,
		*prev; /* the ring of the messages of its call, in order of arrival */
	struct unexpected *after,
		**at; /* the first of its call: the chain of the slot; else at is NULL */
};

void call_index_add(struct call_index *index, struct unexpected *e);
void call_index_remove(struct unexpected *e);
/*
 * Calls see() for every message of the call to which the tag belongs.  Returns the number of messages that it
 * has looked at.
 */
int call_index_each(const struct call_index *index, uint64_t tag,
		    void (*see)(void *user, const struct unexpected *unexpected), void *user);

#endif
