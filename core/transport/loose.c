/* SPDX-License-Identifier: BSD-3-Clause */
/* loose.c - a hash table that grows, chained through the first place of each key. */
#include "transport/match.h"

#include <stdlib.h>

static int loose_class(const struct loose_key *key)
{
	return (key->peer == COLL_ANY_SOURCE ? LOOSE_ANY_SOURCE : 0) |
	       (key->user == MATCH_ANY_TAG ? LOOSE_ANY_TAG : 0);
}

struct loose_key loose_key_of(uint32_t peer, const coll_header_t *h, int class)
{
	return (struct loose_key){
		.tag = h->tag,
		.user = class & LOOSE_ANY_TAG ? MATCH_ANY_TAG : h->meta[1],
		.peer = class & LOOSE_ANY_SOURCE ? COLL_ANY_SOURCE : (int32_t)peer,
	};
}

static int loose_is(const struct loose_key *a, const struct loose_key *b)
{
	return a->tag == b->tag && a->user == b->user && a->peer == b->peer;
}

static struct loose_place **loose_slot(struct loose_index *index, const struct loose_key *key)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* spreads the bits */
	uint64_t hash = ((key->tag ^ key->user) * odd ^ (uint32_t)key->peer) * odd;
	unsigned bits = index->bits ? index->bits : LOOSE_SLOTS_BITS;

	hash = (hash ^ hash >> 32) * odd;
	return &(index->slots ? index->slots : index->few)[hash >> (64 - bits)];
}

/* The link to the first place of a key, or the one at the end of the chain. */
static struct loose_place **loose_search(struct loose_index *index, const struct loose_key *key)
{
	struct loose_place **at = loose_slot(index, key);

	for (; *at; at = &(*at)->after) {
		index->looked++;
		if (loose_is(&(*at)->key, key))
			break;
	}
	return at;
}

static void loose_chain(struct loose_place **at, struct loose_place *first)
{
	first->at = at;
	first->after = *at;
	if (*at)
		(*at)->at = &first->after;
	*at = first;
}

/* Without memory the chains stay long. */
static void loose_grow(struct loose_index *index)
{
	const unsigned bits = index->bits ? index->bits : LOOSE_SLOTS_BITS;
	struct loose_index old = *index;
	struct loose_place **slots, **from = old.slots ? old.slots : index->few, *first;

	if (index->keys < (uint64_t)1 << bits ||
	    !(slots = calloc((size_t)2 << bits, sizeof(struct loose_place *))))
		return;
	index->slots = slots;
	index->bits = bits + 1;
	for (size_t i = 0; i < (size_t)1 << bits; i++)
		while ((first = from[i])) {
			from[i] = first->after;
			loose_chain(loose_slot(index, &first->key), first);
		}
	free(old.slots);
}

void loose_add(struct loose_index *index, struct loose_place *p, const struct loose_key *key,
	       void *of)
{
	struct loose_place **at, *first;

	loose_grow(index);
	at = loose_search(index, key);
	first = *at;
	*p = (struct loose_place){
		.next = p, .prev = p, .key = *key, .order = index->order++, .of = of};
	index->in_class[loose_class(key)]++;
	if (!first) {
		loose_chain(at, p);
		index->keys++;
		return;
	}
	p->next = first;
	p->prev = first->prev;
	p->prev->next = p;
	first->prev = p;
}

void loose_remove(struct loose_index *index, struct loose_place *p)
{
	struct loose_place *next = p->next;

	index->in_class[loose_class(&p->key)]--;
	if (p->at) {
		*p->at = p->after;
		if (p->after)
			p->after->at = p->at;
		if (next == p)
			index->keys--;
		else
			loose_chain(p->at, next);
	}
	next->prev = p->prev;
	p->prev->next = next;
}

struct loose_place *loose_find(struct loose_index *index, const struct loose_key *key)
{
	return index->in_class[loose_class(key)] ? *loose_search(index, key) : NULL;
}

struct loose_place *loose_find_any(struct loose_index *index, uint32_t peer, const coll_header_t *h)
{
	struct loose_place *oldest = NULL;

	for (int class = 0; class < LOOSE_CLASSES; class ++) {
		const struct loose_key key = loose_key_of(peer, h, class);
		struct loose_place *p = loose_find(index, &key);

		if (p && (!oldest || p->order < oldest->order))
			oldest = p;
	}
	return oldest;
}

void loose_free(struct loose_index *index)
{
	free(index->slots);
	index->slots = NULL;
	index->bits = 0;
}
