/* SPDX-License-Identifier: BSD-3-Clause */
/* shrinks.c - what the ranks of a communicator tell each other when they shrink it. */
#include "comm/shrinks.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

int shrinks_new(struct comm *comm)
{
	const size_t n = (size_t)comm->nranks;

	comm->shrinks = calloc(1, sizeof(*comm->shrinks) + n * sizeof(comm->shrinks->asked[0]));
	if (!comm->shrinks)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->shrinks->lost = -1;
	return COLL_SUCCESS;
}

/* Nobody takes the answer: the new communicator, if there is one, must not wait for this rank. */
static void shrinks_drop(struct comm *comm, const struct shrunk *answer)
{
	const int lost = comm->shrinks->lost;
	struct rank_name name;
	char text[160] = "coll_comm_shrink has ended without the answer";

	if (answer->failed_rank >= 0)
		return;
	if (lost >= 0)
		snprintf(text, sizeof(text), "%s was lost during coll_comm_shrink",
			 comm_rank_name(comm, lost, &name));
	comm_refuse(comm, answer->context_id, lost >= 0 ? COLL_ERR_PEER_LOST : COLL_ERR_TIMEOUT,
		    text);
}

int shrinks_before(struct comm *comm, uint64_t hash, struct shrunk *answer)
{
	struct shrunk *first;
	int found = 0;

	while (!found && (first = comm->shrinks->behind)) {
		comm->shrinks->behind = first->next;
		*answer = *first;
		free(first);
		found = answer->hash == hash;
		if (!found)
			shrinks_drop(comm, answer);
	}
	return found;
}

/*
 * The leader may have made its next calls before this rank has looked at the awaited answer.  Without memory the answer
 * to such a call is lost.
 */
static void shrinks_keep(struct comm *comm, const struct shrunk *answer)
{
	struct shrunk **at = &comm->shrinks->behind, *kept = malloc(sizeof(*kept));

	if (!kept)
		return;
	*kept = *answer;
	while (*at)
		at = &(*at)->next;
	*at = kept;
}

/* The leader's answer; this rank may have given up before. */
void shrinks_take_answer(struct comm *comm, const struct control_body *body)
{
	struct shrunk answer = {.context_id = (uint32_t)body->code};
	char *rest;

	answer.hash = strtoull(body->text, &rest, 16);
	answer.failed_rank = (int)strtol(rest, NULL, 10);
	if (comm->shrinks->answer.hash)
		shrinks_keep(comm, &answer);
	else if (answer.hash && answer.hash == comm->shrinks->awaited)
		comm->shrinks->answer = answer;
	else
		shrinks_drop(comm, &answer);
}

void shrinks_end(struct comm *comm)
{
	struct shrunk unused;

	if (comm->shrinks)
		(void)shrinks_before(comm, 0, &unused);
}
