/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.c - functions of the program that are called when an operation is complete. */
#include "exec/callback.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>

struct callback {
	struct callback *next; /* the list is in the order of the operations */
	uint64_t number;
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

void callback_insert(struct comm *comm, uint64_t number, struct callback *callback, void *user)
{
	struct callback **at = &comm->callbacks;

	while (*at && (*at)->number <= number)
		at = &(*at)->next;
	callback->number = number;
	callback->user = user;
	callback->next = *at;
	*at = callback;
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
		comm->callbacks = first->next;
		callback_run(first, first->number <= comm->finished ? COLL_SUCCESS : comm->error);
	}
}

int callback_append(struct callback **list, coll_request_fn fn, void *user)
{
	struct callback *callback = callback_new(fn, user), **at = list;

	if (!callback)
		return COLL_ERR_NO_MEMORY;
	while (*at)
		at = &(*at)->next;
	*at = callback;
	return COLL_SUCCESS;
}

void callback_end(struct callback **list, coll_result_t result)
{
	struct callback *first;

	while ((first = *list)) {
		*list = first->next;
		callback_run(first, result);
	}
}

void callback_free(struct comm *comm)
{
	while (comm->callbacks) {
		struct callback *next = comm->callbacks->next;

		free(comm->callbacks);
		comm->callbacks = next;
	}
}
