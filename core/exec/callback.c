/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.c - functions of the program that are called when an operation is complete. */
#include "exec/callback.h"
#include "base/error.h"

#include <stdlib.h>

struct callback {
	struct callback *next; /* the list is in the order of the operations */
	uint64_t number;
	coll_request_fn fn;
	void *user;
};

int callback_add(struct comm *comm, uint64_t number, coll_request_fn fn, void *user)
{
	struct callback *callback = malloc(sizeof(*callback)), **at = &comm->callbacks;

	if (!callback)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a callback");
	while (*at && (*at)->number <= number)
		at = &(*at)->next;
	*callback = (struct callback){*at, number, fn, user};
	*at = callback;
	return COLL_SUCCESS;
}

void callback_call(struct comm *comm)
{
	struct callback *first;

	while ((first = comm->callbacks) && (first->number <= comm->finished || comm->error)) {
		comm->callbacks = first->next;
		first->fn(first->user,
			  first->number <= comm->finished ? COLL_SUCCESS : comm->error);
		free(first);
	}
}

int callback_append(struct callback **list, coll_request_fn fn, void *user)
{
	struct callback *callback = malloc(sizeof(*callback)), **at = list;

	if (!callback)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a callback");
	while (*at)
		at = &(*at)->next;
	*callback = (struct callback){.fn = fn, .user = user};
	*at = callback;
	return COLL_SUCCESS;
}

void callback_end(struct callback **list, coll_result_t result)
{
	struct callback *first;

	while ((first = *list)) {
		*list = first->next;
		first->fn(first->user, result);
		free(first);
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
