/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.c - functions of the program that are called when an operation is complete. */
#include "comm/callback.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>

/*
 * A communicator's callbacks are a pairing heap, since a program may add thousands of callbacks in any order: the first
 * callback is in front, and each callback is before its children.
 */
struct callback {
	struct callback *next; /* in a list, or among the children of the same one */
	struct callback *child;
	uint64_t number,
		order; /* of the operation; of the callback among all of the communicator */
	coll_request_fn fn;
	void *user;
};

struct callback *callback_new(coll_request_fn fn, void *user)
{
	struct callback *callback = malloc(sizeof(*callback));

	if (callback)
		*callback = (struct callback){.fn = fn, .user = user};
	else
		error_set(COLL_ERR_NO_MEMORY, "no memory for a callback");
	return callback;
}

static int callback_is_before(const struct callback *a, const struct callback *b)
{
	return a->number != b->number ? a->number < b->number : a->order < b->order;
}

/* Both are heaps, or NULL. */
static struct callback *callback_merge(struct callback *a, struct callback *b)
{
	if (!a || !b)
		return a ? a : b;
	if (callback_is_before(b, a))
		return callback_merge(b, a);
	b->next = a->child;
	a->child = b;
	return a;
}

/* The children of one that is taken: in pairs, and then the pairs from the last to the first. */
static struct callback *callback_merge_children(struct callback *child)
{
	struct callback *pairs = NULL, *all = NULL, *a, *b;

	while ((a = child)) {
		b = a->next;
		child = b ? b->next : NULL;
		a = callback_merge(a, b);
		a->next = pairs;
		pairs = a;
	}
	while ((a = pairs)) {
		pairs = a->next;
		all = callback_merge(all, a);
	}
	return all;
}

static struct callback *callback_take(struct comm *comm)
{
	struct callback *first = comm->callbacks;

	comm->callbacks = callback_merge_children(first->child);
	return first;
}

void callback_insert(struct comm *comm, uint64_t number, struct callback *callback, void *user)
{
	callback->number = number;
	callback->order = comm->callbacks_added++;
	callback->user = user;
	callback->child = NULL;
	comm->callbacks = callback_merge(comm->callbacks, callback);
}

int callback_add(struct comm *comm, uint64_t number, coll_request_fn fn, void *user)
{
	struct callback *callback = callback_new(fn, user);

	if (!callback)
		return COLL_ERR_NO_MEMORY;
	callback_insert(comm, number, callback, user);
	return COLL_SUCCESS;
}

/* The caller holds the lock of the communicator's context. */
static void callback_run(struct callback *callback, coll_result_t result)
{
	handle_bar();
	callback->fn(callback->user, result);
	handle_unbar();
	free(callback);
}

void callback_call(struct comm *comm)
{
	struct callback *first;

	while ((first = comm->callbacks) && (first->number <= comm->finished || comm->error)) {
		callback_take(comm);
		callback_run(first, first->number <= comm->finished ? COLL_SUCCESS : comm->error);
	}
}

/* A list is a ring of which the caller has the last. */
int callback_append(struct callback **list, coll_request_fn fn, void *user)
{
	struct callback *callback = callback_new(fn, user), *last = *list;

	if (!callback)
		return COLL_ERR_NO_MEMORY;
	callback->next = last ? last->next : callback;
	if (last)
		last->next = callback;
	*list = callback;
	return COLL_SUCCESS;
}

void callback_end(struct callback **list, coll_result_t result)
{
	struct callback *last, *first;

	while ((last = *list)) {
		first = last->next;
		last->next = first->next;
		if (first == last)
			*list = NULL;
		callback_run(first, result);
	}
}

void callback_free(struct comm *comm)
{
	while (comm->callbacks)
		free(callback_take(comm));
}
