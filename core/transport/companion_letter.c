/* SPDX-License-Identifier: BSD-3-Clause */
/* companion_letter.c - what comes over the companion, and the way of a letter to its communicator. */
#include "transport/companion_impl.h"

#include <stdlib.h>
#include <string.h>

enum { COMPANION_EARLY = 64 /* most letters for communicators that are not there */ };

void companion_tell(const struct companion *c, int kind)
{
	const struct control_body body = {.kind = kind};

	for (int r = 0; r < c->context->nranks; r++)
		if (r != c->context->rank)
			endpoint_send_control(c->context, r, MATCH_CONTROL, &body, "", 1);
}

void companion_notify(struct context *context)
{
	context_notify(context);
	if (context->host_context)
		context_notify(context->host_context);
}

void companion_free_letters(struct unexpected *list)
{
	struct unexpected *next;

	for (; list; list = next) {
		next = list->next;
		free(list);
	}
}

static void companion_append(struct unexpected **list, struct unexpected *e)
{
	while (*list)
		list = &(*list)->next;
	e->next = NULL;
	*list = e;
}

static const struct companion_letter *companion_letter_of(const struct unexpected *e)
{
	return (const void *)((const struct control_body *)(const void *)e->data)->text;
}

/* Is this the communicator of the letter?  *from becomes its sender there. */
static int companion_is_for(const struct context *context, const struct unexpected *e, int *from)
{
	if (context->channel != companion_letter_of(e)->channel)
		return 0;
	for (int r = 0; r < context->nranks; r++)
		if (companion_rank(context, r) == (int)e->peer) {
			*from = r;
			return 1;
		}
	return 0;
}

/*
 * Has the sender failed, as a survivor that takes part in the shrink?  The loss of another survivor ends it through
 * coll_host_t.aborted.
 */
static int companion_ends_shrink(const struct context_making *making, int from,
				 const struct control_body *body)
{
	int excluded = 0;

	for (int32_t i = 0; i < making->n; i++)
		excluded |= making->exclude[i] == from;
	return !excluded && body->code != COLL_ERR_PEER_LOST;
}

/* The message ends the communicator. */
static void companion_take_end(struct context *context, int from, const struct control_body *body)
{
	if (context->shrinking && companion_ends_shrink(context->shrinking, from, body))
		context->shrinking = NULL;
	atomic_store(&context->alarm.ended, 1);
}

/* Makes the letter an unexpected message of the context, as one of a transport's. */
static void companion_deliver(struct context *context, struct unexpected *e, int from)
{
	const struct companion_letter *letter = companion_letter_of(e);
	const size_t head = (size_t)((const char *)&letter->body - e->data);
	const struct control_body *body = (const void *)e->data;

	e->peer = (uint32_t)from;
	e->header.len -= head;
	memmove(e->data, e->data + head, (size_t)e->header.len);
	companion_append(&context->letters, e);
	if (context->client->ends(body->kind))
		companion_take_end(context, from, body);
	companion_notify(context);
}

/* Takes the letter, whose communicator may not be made yet. */
static void companion_take_letter(struct companion *c, struct unexpected *e)
{
	int from;

	for (struct context *w = c->watched; w; w = w->next_watched)
		if (companion_is_for(w, e, &from)) {
			companion_deliver(w, e, from);
			return;
		}
	companion_append(&c->early, e);
	if (++c->nearly <= COMPANION_EARLY)
		return;
	e = c->early;
	c->early = e->next;
	c->nearly--;
	free(e);
}

static void companion_take(struct companion *c, struct unexpected *e)
{
	const struct control_body *body = (const void *)e->data;
	const size_t least = sizeof(*body) + sizeof(struct companion_letter);

	if (e->header.len > least && body->kind == COMPANION_CARRY) {
		companion_take_letter(c, e);
		return;
	}
	if (e->header.len >= sizeof(*body) && body->kind == COMPANION_LEAVE)
		c->left[e->peer] = 1;
	free(e);
}

int companion_look(struct companion *c)
{
	struct context *context = c->context;
	struct unexpected *e;
	int news = 0;

	while ((e = match_take(&context->match, MATCH_CONTROL)))
		companion_take(c, e);
	for (int r = 0; r < context->nranks; r++)
		if (context->failure[r] && !c->left[r] && !atomic_load(&c->lost[r])) {
			atomic_store(&c->lost[r], 1);
			news = 1;
		}
	return news;
}

struct unexpected *companion_receive(struct context *context)
{
	struct companion *c = context->companion;
	struct unexpected *e;

	if (!c)
		return NULL;
	context_lock(c->context);
	e = context->letters;
	if (e)
		context->letters = e->next;
	lock_release(&c->context->lock);
	return e;
}

void companion_deliver_early(struct companion *c, struct context *context)
{
	struct unexpected **at = &c->early, *e;
	int from;

	while ((e = *at))
		if (companion_is_for(context, e, &from)) {
			*at = e->next;
			c->nearly--;
			companion_deliver(context, e, from);
		} else {
			at = &e->next;
		}
}
