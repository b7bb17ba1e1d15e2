/* SPDX-License-Identifier: BSD-3-Clause */
/* call_index.c - a hash table of fixed size, chained through the messages themselves. */
#include "transport/match.h"

static unsigned call_slot(uint64_t tag)
{
	return (unsigned)((tag >> CALL_TAG_SHIFT) * 0x9e3779b97f4a7c15u >> (64 - CALL_SLOTS_BITS));
}

static int call_is(const struct unexpected *e, uint64_t tag)
{
	return (e->header.tag ^ tag) >> CALL_TAG_SHIFT == 0;
}

void call_index_add(struct call_index *index, struct unexpected *e)
{
	struct unexpected **at = &index->slot[call_slot(e->header.tag)], *first;

	while (*at && !call_is(*at, e->header.tag))
		at = &(*at)->call.after;
	first = *at;
	if (!first) {
		e->call = (struct call_link){.next = e, .prev = e, .at = at};
		*at = e;
		return;
	}
	e->call = (struct call_link){.next = first, .prev = first->call.prev};
	e->call.prev->call.next = e;
	first->call.prev = e;
}

void call_index_remove(struct unexpected *e)
{
	struct unexpected *next = e->call.next, *after = e->call.after;

	if (e->call.at) {
		*e->call.at = next == e ? after : next;
		next->call.at = e->call.at;
		next->call.after = after;
		if (after)
			after->call.at = next == e ? e->call.at : &next->call.after;
	}
	next->call.prev = e->call.prev;
	e->call.prev->call.next = next;
}

int call_index_each(const struct call_index *index, uint64_t tag,
		    void (*see)(void *user, const struct unexpected *unexpected), void *user)
{
	const struct unexpected *first = index->slot[call_slot(tag)], *e;
	int looked = 0;

	for (; first && !call_is(first, tag); first = first->call.after)
		looked++;
	e = first;
	while (e) {
		looked++;
		see(user, e);
		e = e->call.next == first ? NULL : e->call.next;
	}
	return looked;
}
