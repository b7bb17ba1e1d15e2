/* SPDX-License-Identifier: BSD-3-Clause */
/* unordered.c - a hash table that grows, chained through the first entry of each key. */
#include "transport/match.h"

#include <stdlib.h>

static int unordered_class(const struct unordered_key *key)
{
	return (key->peer == COLL_ANY_SOURCE ? UNORDERED_ANY_SOURCE : 0) |
	       (key->user == MATCH_ANY_TAG ? UNORDERED_ANY_TAG : 0);
}

struct unordered_key unordered_key_of(uint32_t peer, const coll_header_t *h, int class)
{
	return (struct unordered_key){
		.tag = h->tag,
		.user = class & UNORDERED_ANY_TAG ? MATCH_ANY_TAG : h->meta[1],
		.peer = class & UNORDERED_ANY_SOURCE ? COLL_ANY_SOURCE : (int32_t)peer,
	};
}

static int unordered_is(const struct unordered_key *a, const struct unordered_key *b)
{
	return a->tag == b->tag && a->user == b->user && a->peer == b->peer;
}

static struct unordered_entry **unordered_slot(struct unordered_index *index,
					       const struct unordered_key *key)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* spreads the bits */
	uint64_t hash = ((key->tag ^ key->user) * odd ^ (uint32_t)key->peer) * odd;
	unsigned bits = index->bits ? index->bits : UNORDERED_SLOTS_BITS;

	hash = (hash ^ hash >> 32) * odd;
	return &(index->slots ? index->slots : index->few)[hash >> (64 - bits)];
}

/* Returns the link to the first entry of a key, or the link at the end of the chain. */
static struct unordered_entry **unordered_search(struct unordered_index *index,
						 const struct unordered_key *key)
{
	struct unordered_entry **at = unordered_slot(index, key);

	for (; *at; at = &(*at)->after) {
		index->looked++;
		if (unordered_is(&(*at)->key, key))
			break;
	}
	return at;
}

static void unordered_chain(struct unordered_entry **at, struct unordered_entry *first)
{
	first->at = at;
	first->after = *at;
	if (*at)
		(*at)->at = &first->after;
	*at = first;
}

/* Without memory the chains stay long. */
static void unordered_grow(struct unordered_index *index)
{
	const unsigned bits = index->bits ? index->bits : UNORDERED_SLOTS_BITS;
	struct unordered_index old = *index;
	struct unordered_entry **slots, **from = old.slots ? old.slots : index->few, *first;

	if (index->keys < (uint64_t)1 << bits ||
	    !(slots = calloc((size_t)2 << bits, sizeof(struct unordered_entry *))))
		return;
	index->slots = slots;
	index->bits = bits + 1;
	for (size_t i = 0; i < (size_t)1 << bits; i++)
		while ((first = from[i])) {
			from[i] = first->after;
			unordered_chain(unordered_slot(index, &first->key), first);
		}
	free(old.slots);
}

void unordered_add(struct unordered_index *index, struct unordered_entry *p,
		   const struct unordered_key *key, void *of)
{
	struct unordered_entry **at, *first;

	unordered_grow(index);
	at = unordered_search(index, key);
	first = *at;
	*p = (struct unordered_entry){
		.next = p, .prev = p, .key = *key, .order = index->order++, .of = of};
	index->in_class[unordered_class(key)]++;
	if (!first) {
		unordered_chain(at, p);
		index->keys++;
		return;
	}
	p->next = first;
	p->prev = first->prev;
	p->prev->next = p;
	first->prev = p;
}

void unordered_remove(struct unordered_index *index, struct unordered_entry *p)
{
	struct unordered_entry *next = p->next;

	index->in_class[unordered_class(&p->key)]--;
	if (p->at) {
		*p->at = p->after;
		if (p->after)
			p->after->at = p->at;
		if (next == p)
			index->keys--;
		else
			unordered_chain(p->at, next);
	}
	next->prev = p->prev;
	p->prev->next = next;
}

struct unordered_entry *unordered_find(struct unordered_index *index,
				       const struct unordered_key *key)
{
	return index->in_class[unordered_class(key)] ? *unordered_search(index, key) : NULL;
}

struct unordered_entry *unordered_find_any(struct unordered_index *index, uint32_t peer,
					   const coll_header_t *h)
{
	struct unordered_entry *oldest = NULL;

	for (int class = 0; class < UNORDERED_CLASSES; class ++) {
		const struct unordered_key key = unordered_key_of(peer, h, class);
		struct unordered_entry *p = unordered_find(index, &key);

		if (p && (!oldest || p->order < oldest->order))
			oldest = p;
	}
	return oldest;
}

void unordered_free(struct unordered_index *index)
{
	free(index->slots);
	index->slots = NULL;
	index->bits = 0;
}
