/* SPDX-License-Identifier: BSD-3-Clause */
/* shrinks.c - what the ranks of a communicator tell each other when they shrink it. */
#include "comm/shrinks.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

int shrinks_new(struct lane *lane)
{
	const size_t n = (size_t)lane->comm->nranks;

	lane->shrinks = calloc(1, sizeof(*lane->shrinks) + n * sizeof(lane->shrinks->asked[0]));
	if (!lane->shrinks)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	lane->shrinks->lost = -1;
	return COLL_SUCCESS;
}

/* Nobody takes the answer: the new communicator, if there is one, must not wait for this rank. */
static void shrinks_drop(struct lane *lane, const struct shrunk *answer)
{
	const int lost = lane->shrinks->lost;
	struct rank_name name;
	char text[160] = "coll_comm_shrink has ended without the answer";

	if (answer->failed_rank >= 0)
		return;
	if (lost >= 0)
		snprintf(text, sizeof(text), "%s was lost during coll_comm_shrink",
			 comm_rank_name(lane, lost, &name));
	comm_refuse(lane, answer->context_id, lost >= 0 ? COLL_ERR_PEER_LOST : COLL_ERR_TIMEOUT,
		    text);
}

int shrinks_before(struct lane *lane, uint64_t hash, struct shrunk *answer)
{
	struct shrunk *first;
	int found = 0;

	while (!found && (first = lane->shrinks->behind)) {
		lane->shrinks->behind = first->next;
		*answer = *first;
		free(first);
		found = answer->hash == hash;
		if (!found)
			shrinks_drop(lane, answer);
	}
	return found;
}

/*
 * The leader may have made its next calls before this rank has looked at the awaited answer.  Without memory the answer
 * to such a call is lost.
 */
static void shrinks_keep(struct lane *lane, const struct shrunk *answer)
{
	struct shrunk **at = &lane->shrinks->behind, *kept = malloc(sizeof(*kept));

	if (!kept)
		return;
	*kept = *answer;
	while (*at)
		at = &(*at)->next;
	*at = kept;
}

/* The leader's answer; this rank may have given up before. */
void shrinks_take_answer(struct lane *lane, const struct control_body *body)
{
	struct shrunk answer = {.context_id = (uint32_t)body->code};
	char *rest;

	answer.hash = strtoull(body->text, &rest, 16);
	answer.failed_rank = (int)strtol(rest, NULL, 10);
	if (lane->shrinks->answer.hash)
		shrinks_keep(lane, &answer);
	else if (answer.hash && answer.hash == lane->shrinks->awaited)
		lane->shrinks->answer = answer;
	else
		shrinks_drop(lane, &answer);
}

void shrinks_end(struct lane *lane)
{
	struct shrunk unused;

	if (lane->shrinks)
		(void)shrinks_before(lane, 0, &unused);
}
