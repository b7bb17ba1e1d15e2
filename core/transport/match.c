/* SPDX-License-Identifier: BSD-3-Clause */
/* match.c - posted receives, unexpected messages, and the bytes between them. */
#include "transport/match.h"
#include "base/copy.h"
#include "reduce/redop.h"

#include <stdlib.h>
#include <string.h>

/* Cookies are pointers with a mark in the low bits. */
enum { COOKIE_RECV = 0, COOKIE_UNEXPECTED = 1, COOKIE_DISCARD = 2, COOKIE_MARK = 3 };

void match_init(struct match *m)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < MATCH_BUCKETS; i++)
		m->posted_end[i] = &m->posted[i];
	m->done_end = &m->done;
}

static void match_free_list(struct unexpected *e)
{
	while (e) {
		struct unexpected *next = e->next;

		free(e->unordered);
		free(e);
		e = next;
	}
}

void match_free(struct match *m)
{
	for (int i = 0; i < MATCH_BUCKETS; i++)
		match_free_list(m->unexpected[i]);
	match_free_list(m->partial);
	store_free(&m->store);
	unordered_free(&m->unordered_posted);
	unordered_free(&m->unordered_unexpected);
}

/* Returns the bytes of memory that hold a message. */
static uint64_t match_memory(const struct unexpected *e)
{
	return sizeof(*e) + e->header.len;
}

static void match_discard(struct match *m, struct unexpected *e)
{
	m->held -= match_memory(e);
	free(e->unordered);
	store_give(&m->store, e, match_memory(e));
}

static inline void match_finish(struct match *m, struct recv *recv, int status)
{
	recv->state = RECV_DONE;
	recv->status = status ? status : recv->broken;
	recv->next = NULL;
	*m->done_end = recv;
	m->done_end = &recv->next;
}

/* Reduces `count` elements, beginning at byte `at` of a receive's buffer. */
static void match_reduce(const struct recv *recv, uint64_t at, const char *incoming, uint64_t count)
{
	const char *own = recv->own + at;
	char *dst = recv->dst + at;

	if (recv->unscaled)
		redop_apply_pair(recv->redop, dst, own, incoming, count, recv->divisor);
	else if (recv->divisor)
		redop_apply_divided(recv->redop, dst, own, incoming, count, recv->divisor);
	else if (recv->swapped)
		redop_apply(recv->redop, dst, incoming, own, count);
	else
		redop_apply(recv->redop, dst, own, incoming, count);
}

/*
 * Returns the number of whole elements in n bytes.  A division takes long, and only an opaque type has a size that is
 * no power of two.
 */
static uint64_t match_elements(const struct recv *recv, uint64_t n)
{
	return recv->elem & (recv->elem - 1) ? n / recv->elem : n >> __builtin_ctz(recv->elem);
}

static uint8_t *match_carry(struct recv *recv)
{
	return recv->elem > sizeof(recv->carry) ? recv->long_carry : recv->carry;
}

/* Passes the next n bytes of a message to a receive. */
static void match_fill(const struct match *m, struct recv *recv, const char *bytes, uint64_t n)
{
	uint64_t carried, at;

	if (n == recv->len && recv->own && !recv->device && !recv->got &&
	    n) { /* short messages come whole */
		recv->got = n;
		match_reduce(recv, 0, bytes, match_elements(recv, n));
		return;
	}
	carried = recv->own ? recv->got - match_elements(recv, recv->got) * recv->elem : 0;
	at = recv->got - carried;
	if (n > recv->len - recv->got)
		n = recv->len - recv->got;
	if (!n) /* an empty message has no buffer to copy */
		return;
	recv->got += n;
	if (recv->device) {
		if (!recv->broken)
			recv->broken = m->fill(recv, recv->dst + at, bytes, n);
		return;
	}
	if (!recv->own) {
		copy_payload(recv->dst + at, bytes, n);
		return;
	}
	while (n) {
		uint64_t whole = carried ? 1 : match_elements(recv, n);
		uint64_t used = carried ? recv->elem - carried : whole * recv->elem;
		const char *incoming = bytes;

		if (carried || !whole) { /* collects an element that arrives in several pieces */
			used = used && used < n ? used : n;
			memcpy(match_carry(recv) + carried, bytes, used);
			if (carried + used < recv->elem)
				return;
			incoming = (const char *)match_carry(recv);
		}
		match_reduce(recv, at, incoming, whole);
		at += whole * recv->elem;
		bytes += used;
		n -= used;
		carried = 0;
	}
}

/* The same for a message that came whole. */
static inline void match_fill_whole(const struct match *m, struct recv *recv, const char *bytes)
{
	const uint64_t n = recv->len;

	if (!recv->kernel && (recv->own || recv->device || !n)) {
		match_fill(m, recv, bytes, n);
		return;
	}
	recv->got = n;
	if (!recv->kernel) {
		copy_payload(recv->dst, bytes, n);
		return;
	}
	reduce_run(recv->kernel, recv->dst, recv->swapped ? bytes : recv->own,
		   recv->swapped ? recv->own : bytes, n, 1);
}

static inline int match_agrees(const struct recv *recv, uint32_t peer, const coll_header_t *h)
{
	return recv->tag == h->tag && (recv->peer == COLL_ANY_SOURCE || recv->peer == (int)peer);
}

static int match_is_unordered(uint64_t tag)
{
	return (tag & (MATCH_UNORDERED | MATCH_CONTROL)) == MATCH_UNORDERED;
}

static struct unordered_entry *match_entry(struct recv *recv)
{
	return &((struct unordered_recv *)recv)->entry;
}

static struct unordered_key match_key(const struct recv *recv)
{
	return (struct unordered_key){.tag = recv->tag, .user = recv->meta[1], .peer = recv->peer};
}

static int match_adopt_number(struct recv *recv, const coll_header_t *h)
{
	if ((uint32_t)recv->meta[0] != (uint32_t)h->meta[0] || recv->meta[1] != h->meta[1] ||
	    recv->len != h->len)
		return 0;
	recv->meta[0] = h->meta[0];
	return 1;
}

/*
 * An unordered receive takes a message of its type, or of no elements, that is not longer than itself.  An ordered
 * receive takes a message of the same call.
 */
static int match_adopt(struct recv *recv, const coll_header_t *h)
{
	if (recv->numbered)
		return match_adopt_number(recv, h);
	if (!recv->unordered)
		return recv->len == h->len && match_same_call(recv->meta, h->meta);
	if (h->len > recv->len || (h->len && h->meta[0] != recv->meta[0]))
		return 0;
	recv->meta[1] = h->meta[1];
	recv->len = h->len;
	return 1;
}

static inline int match_expected(struct recv *recv, const coll_header_t *h)
{
	return (recv->meta[0] == h->meta[0] && recv->meta[1] == h->meta[1] &&
		recv->len == h->len) ||
	       match_adopt(recv, h);
}

static void match_unlink_posted(struct match *m, struct recv **at, unsigned bucket)
{
	struct recv *recv = *at;

	*at = recv->next;
	if (m->posted_end[bucket] == &recv->next)
		m->posted_end[bucket] = at;
}

/* Takes an unexpected message out of its list; an incomplete one goes to the list of partial messages. */
static void match_unlink_unexpected(struct match *m, struct unexpected *e)
{
	unsigned bucket = match_bucket(e->header.tag);

	m->unexpected_count--;
	call_index_remove(e);
	*(e->prev ? &e->prev->next : &m->unexpected[bucket]) = e->next;
	*(e->next ? &e->next->prev : &m->unexpected_last[bucket]) = e->prev;
	if (!m->unexpected[bucket])
		m->unexpected_in[bucket / 64] &= ~((uint64_t)1 << bucket % 64);
	for (int class = 0; e->unordered && class < UNORDERED_CLASSES; class ++)
		unordered_remove(&m->unordered_unexpected, &e->unordered[class]);
	if (!e->complete) {
		e->next = m->partial;
		m->partial = e;
	}
}

/* Takes a message out of its list: its last byte has come, or no more will come. */
static void match_unlink_ended(struct match *m, struct unexpected *e)
{
	struct unexpected **at = &m->partial;

	while (*at && *at != e)
		at = &(*at)->next;
	if (*at) {
		*at = e->next;
		return;
	}
	e->complete = 1;
	match_unlink_unexpected(m, e);
}

/* Pairs an unexpected message with a receive, which completes with the last byte of the message. */
static void match_pair(struct match *m, struct recv *recv, struct unexpected *e)
{
	match_unlink_unexpected(m, e);
	if (!match_expected(recv, &e->header)) {
		m->mismatch(m->context, recv, e->peer, &e->header);
		match_finish(m, recv, COLL_ERR_MISMATCH);
		if (e->complete)
			match_discard(m, e);
		else
			e->dropped = 1;
		return;
	}
	recv->peer = (int32_t)e->peer;
	if (!e->complete) {
		e->recv = recv;
		recv->unexpected = e;
		recv->state = RECV_FILLING;
		return;
	}
	match_fill_whole(m, recv, e->data);
	match_finish(m, recv, COLL_SUCCESS);
	match_discard(m, e);
}

static struct unexpected *match_find_unordered(struct match *m, const struct recv *recv)
{
	const struct unordered_key key = match_key(recv);
	const struct unordered_entry *entry = unordered_find(&m->unordered_unexpected, &key);

	return entry ? entry->of : NULL;
}

static struct unexpected *match_find_unexpected(struct match *m, const struct recv *recv)
{
	struct unexpected *e = m->unexpected[match_bucket(recv->tag)];

	while (e && !match_agrees(recv, e->peer, &e->header))
		e = e->next;
	return e;
}

static void match_add_unordered(struct match *m, struct recv *recv)
{
	const struct unordered_key key = match_key(recv);

	unordered_add(&m->unordered_posted, match_entry(recv), &key, recv);
}

void match_post(struct match *m, struct recv *recv)
{
	unsigned bucket = match_bucket(recv->tag);
	struct unexpected *e =
		recv->unordered ? match_find_unordered(m, recv) : match_find_unexpected(m, recv);

	recv->got = 0;
	recv->broken = COLL_SUCCESS;
	recv->unexpected = NULL;
	recv->next = NULL;
	if (e) {
		match_pair(m, recv, e);
		return;
	}
	recv->state = RECV_POSTED;
	if (recv->unordered) {
		match_add_unordered(m, recv);
		return;
	}
	*m->posted_end[bucket] = recv;
	m->posted_end[bucket] = &recv->next;
}

uint64_t match_withdraw(struct match *m, struct recv *recv)
{
	unsigned bucket = match_bucket(recv->tag);
	int state = recv->state;

	recv->state = RECV_IDLE;
	if (state == RECV_POSTED && recv->unordered) {
		unordered_remove(&m->unordered_posted, match_entry(recv));
	} else if (state == RECV_POSTED) {
		for (struct recv **at = &m->posted[bucket]; *at; at = &(*at)->next)
			if (*at == recv) {
				match_unlink_posted(m, at, bucket);
				return 0;
			}
	} else if (state == RECV_DONE) {
		for (struct recv **at = &m->done; *at; at = &(*at)->next)
			if (*at == recv) {
				*at = recv->next;
				if (m->done_end == &recv->next)
					m->done_end = at;
				return 0;
			}
	} else if (state == RECV_FILLING && recv->unexpected) {
		recv->unexpected->recv = NULL;
		recv->unexpected->dropped = 1;
	} else if (state == RECV_FILLING) {
		return (uint64_t)(uintptr_t)recv | COOKIE_RECV;
	}
	return 0;
}

static void match_forget_bucket(struct match *m, struct unexpected *e, uint64_t mask, uint64_t tag)
{
	struct unexpected *next;

	for (; e; e = next) {
		next = e->next;
		if ((e->header.tag & mask) != tag)
			continue;
		match_unlink_unexpected(m, e);
		if (e->complete)
			match_discard(m, e);
		else
			e->dropped = 1;
	}
}

/* Returns the first list from `bucket` on that is not empty, or MATCH_BUCKETS. */
static int match_next_unexpected(const struct match *m, int bucket)
{
	if (!m->unexpected_count)
		return MATCH_BUCKETS;
	for (; bucket < MATCH_BUCKETS; bucket = (bucket | 63) + 1) {
		uint64_t rest = m->unexpected_in[bucket / 64] >> bucket % 64;

		if (rest)
			return bucket + __builtin_ctzll(rest);
	}
	return bucket;
}

void match_forget(struct match *m, uint64_t mask, uint64_t tag)
{
	for (int i = match_next_unexpected(m, 0); i < MATCH_BUCKETS;
	     i = match_next_unexpected(m, i + 1))
		match_forget_bucket(m, m->unexpected[i], mask, tag);
}

void match_each(const struct match *m, uint64_t mask, uint64_t tag,
		void (*see)(void *user, const struct unexpected *unexpected), void *user)
{
	for (int i = match_next_unexpected(m, 0); i < MATCH_BUCKETS;
	     i = match_next_unexpected(m, i + 1))
		for (const struct unexpected *e = m->unexpected[i]; e; e = e->next)
			if ((e->header.tag & mask) == tag)
				see(user, e);
}

static void match_see_incomplete(const struct unexpected *e, void (*see)(void *user, uint32_t peer),
				 void *user)
{
	for (; e; e = e->next)
		if (!e->complete)
			see(user, e->peer);
}

void match_each_incomplete(const struct match *m, void (*see)(void *user, uint32_t peer),
			   void *user)
{
	for (int i = match_next_unexpected(m, 0); i < MATCH_BUCKETS;
	     i = match_next_unexpected(m, i + 1))
		match_see_incomplete(m->unexpected[i], see, user);
	match_see_incomplete(m->partial, see, user);
}

const struct unexpected *match_probe(struct match *m, const struct recv *recv)
{
	return match_find_unordered(m, recv);
}

struct unexpected *match_take(struct match *m, uint64_t tag)
{
	struct unexpected *e = m->unexpected[match_bucket(tag)];

	while (e && (!e->complete || e->header.tag != tag))
		e = e->next;
	if (!e)
		return NULL;
	match_unlink_unexpected(m, e);
	m->held -= match_memory(e);
	return e;
}

/* Receives of any source and any tag find an unordered message too.  Returns 0 if memory has run out. */
static int match_index_unordered(struct match *m, struct unexpected *e)
{
	e->unordered = malloc(UNORDERED_CLASSES * sizeof(*e->unordered));
	for (int class = 0; e->unordered && class < UNORDERED_CLASSES; class ++) {
		const struct unordered_key key = unordered_key_of(e->peer, &e->header, class);

		unordered_add(&m->unordered_unexpected, &e->unordered[class], &key, e);
	}
	return e->unordered != NULL;
}

/* Counts the memory of a message from now on, until match_discard or match_take. */
static void match_hold(struct match *m, const struct unexpected *e)
{
	m->held += match_memory(e);
	if (m->held > m->held_most)
		m->held_most = m->held;
}

/* Stores an unexpected message. */
static int match_store(struct match *m, uint32_t peer, const coll_header_t *h, coll_sink_t *sink)
{
	struct unexpected *e;
	unsigned bucket;

	if (h->len > SIZE_MAX - sizeof(*e))
		return COLL_ERR_INTERNAL;
	e = store_take(&m->store, sizeof(*e) + h->len);
	if (!e)
		return m->no_memory(m->context, peer, h);
	bucket = match_bucket(h->tag);
	*e = (struct unexpected){.header = *h, .peer = peer, .prev = m->unexpected_last[bucket]};
	match_hold(m, e);
	if (match_is_unordered(h->tag) && !match_index_unordered(m, e)) {
		match_discard(m, e);
		return m->no_memory(m->context, peer, h);
	}
	*(e->prev ? &e->prev->next : &m->unexpected[bucket]) = e;
	m->unexpected_last[bucket] = e;
	m->unexpected_in[bucket / 64] |= (uint64_t)1 << bucket % 64;
	m->unexpected_count++;
	m->unexpected_ever++;
	m->unexpected_bytes += h->len;
	call_index_add(&m->calls, e);
	sink->buf = e->data;
	sink->cookie = (uint64_t)(uintptr_t)e | COOKIE_UNEXPECTED;
	return COLL_SUCCESS;
}

int match_posted(const struct match *m, uint32_t peer, const coll_header_t *h)
{
	const struct recv *recv = m->posted[match_bucket(h->tag)];

	if (h->tag & MATCH_CONTROL || match_is_unordered(h->tag))
		return 1;
	while (recv && !match_agrees(recv, peer, h))
		recv = recv->next;
	return recv != NULL;
}

/* Finds the posted receive for a message, and takes it out of its list.  Returns NULL if no receive waits for the message. */
static struct recv *match_take_posted(struct match *m, uint32_t peer, const coll_header_t *h)
{
	const unsigned bucket = match_bucket(h->tag);
	struct recv **at = &m->posted[bucket], *recv;
	struct unordered_entry *entry;

	if (match_is_unordered(h->tag)) {
		entry = unordered_find_any(&m->unordered_posted, peer, h);
		if (entry)
			unordered_remove(&m->unordered_posted, entry);
		return entry ? entry->of : NULL;
	}
	while (*at && !match_agrees(*at, peer, h))
		at = &(*at)->next;
	recv = *at;
	if (recv)
		match_unlink_posted(m, at, bucket);
	return recv;
}

/* Nothing of the message is stored.  match_each_incomplete finds it, unless there is no memory to note it. */
static void match_refuse(struct match *m, uint32_t peer, coll_sink_t *sink)
{
	struct unexpected *e = store_take(&m->store, sizeof(*e));

	if (!e)
		return;
	*e = (struct unexpected){.next = m->partial, .peer = peer, .dropped = 1};
	match_hold(m, e);
	m->partial = e;
	sink->cookie = (uint64_t)(uintptr_t)e | COOKIE_UNEXPECTED;
}

/* `recv` is the receive of the message, out of its list; NULL: none is posted. */
static int match_begin(struct match *m, struct recv *recv, uint32_t peer, const coll_header_t *h,
		       coll_sink_t *sink)
{
	*sink = (coll_sink_t){.cookie = COOKIE_DISCARD, .memory = COLL_MEM_HOST};
	if (!recv) {
		if (!m->check_unexpected(m->context, peer, h))
			return match_store(m, peer, h, sink);
		match_refuse(m, peer, sink);
		return COLL_SUCCESS;
	}
	if (!match_expected(recv, h)) {
		m->mismatch(m->context, recv, peer, h);
		match_finish(m, recv, COLL_ERR_MISMATCH);
		match_refuse(m, peer, sink);
		return COLL_SUCCESS;
	}
	recv->state = RECV_FILLING;
	recv->peer = (int32_t)peer;
	sink->buf = recv->own ? NULL : recv->dst;
	if (recv->device)
		sink->memory = recv->device;
	sink->cookie = (uint64_t)(uintptr_t)recv | COOKIE_RECV;
	return COLL_SUCCESS;
}

int match_arrive(struct match *m, uint32_t peer, const coll_header_t *h, coll_sink_t *sink)
{
	return match_begin(m, match_take_posted(m, peer, h), peer, h, sink);
}

static void *match_cookie(uint64_t cookie)
{
	return (void *)(uintptr_t)(cookie & ~(uint64_t)COOKIE_MARK);
}

void match_data(struct match *m, uint64_t cookie, const void *bytes, uint64_t n)
{
	struct unexpected *e;

	if ((cookie & COOKIE_MARK) == COOKIE_RECV) {
		match_fill(m, match_cookie(cookie), bytes, n);
	} else if ((cookie & COOKIE_MARK) == COOKIE_UNEXPECTED) {
		e = match_cookie(cookie);
		if (n > e->header.len - e->got)
			n = e->header.len - e->got;
		if (n)
			copy_payload(e->data + e->got, bytes, n);
		e->got += n;
	}
}

static void match_note_control(struct match *m, uint64_t tag)
{
	if (m->controls < MATCH_CONTROLS_SEEN)
		m->control[m->controls] = tag;
	m->controls++;
}

static void match_unexpected_arrived(struct match *m, struct unexpected *e, int status)
{
	struct recv *recv = e->recv;

	if (!recv && !e->dropped && !status) {
		e->complete = 1;
		if (e->header.tag & MATCH_CONTROL)
			match_note_control(m, e->header.tag);
		return;
	}
	if (recv && !status)
		match_fill(m, recv, e->data, e->header.len);
	match_unlink_ended(m, e);
	match_discard(m, e);
	if (recv && status == COLL_ERR_ABORTED)
		match_post(m, recv);
	else if (recv)
		match_finish(m, recv, status);
}

void match_arrived(struct match *m, uint64_t cookie, int32_t status)
{
	struct recv *recv = match_cookie(cookie);

	if ((cookie & COOKIE_MARK) == COOKIE_RECV && status == COLL_ERR_ABORTED)
		match_post(m, recv);
	else if ((cookie & COOKIE_MARK) == COOKIE_RECV)
		match_finish(m, recv, status);
	else if ((cookie & COOKIE_MARK) == COOKIE_UNEXPECTED)
		match_unexpected_arrived(m, match_cookie(cookie), status);
}

/* Takes a whole message for which no receive is posted, or whose receive it does not fit. */
static int match_message_other(struct match *m, struct recv *recv, uint32_t peer,
			       const coll_header_t *h, const void *bytes)
{
	coll_sink_t sink;
	int code = match_begin(m, recv, peer, h, &sink);

	if (code)
		return code;
	match_data(m, sink.cookie, bytes, h->len);
	match_arrived(m, sink.cookie, COLL_SUCCESS);
	return COLL_SUCCESS;
}

int match_message(struct match *m, uint32_t peer, const coll_header_t *h, const void *bytes)
{
	const unsigned bucket = match_bucket(h->tag);
	struct recv *recv = m->posted[bucket];

	/* The oldest receive of its list is the most likely one; unordered messages have lists of their own. */
	if (recv && match_agrees(recv, peer, h))
		match_unlink_posted(m, &m->posted[bucket], bucket);
	else
		recv = match_take_posted(m, peer, h);
	if (!recv || !match_expected(recv, h))
		return match_message_other(m, recv, peer, h, bytes);
	recv->peer = (int32_t)peer;
	match_fill_whole(m, recv, bytes);
	match_finish(m, recv, COLL_SUCCESS);
	return COLL_SUCCESS;
}
