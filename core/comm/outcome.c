/* SPDX-License-Identifier: BSD-3-Clause */
/* outcome.c - how the operations of a communicator ended. */
#include "comm/outcome.h"
#include "base/error.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

struct outcome *outcome_new(coll_comm_t comm)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	if (!outcome)
		return NULL;
	atomic_init(&outcome->refs, 1);
	outcome->comm = comm;
	return outcome;
}

struct outcome *outcome_ref(struct outcome *outcome)
{
	if (outcome)
		atomic_fetch_add(&outcome->refs, 1);
	return outcome;
}

void outcome_unref(struct outcome *outcome)
{
	if (outcome && atomic_fetch_sub(&outcome->refs, 1) == 1)
		free(outcome);
}

void outcome_end(struct outcome *outcome, const struct comm *comm)
{
	outcome->finished = comm->finished;
	outcome->error = comm->error;
	snprintf(outcome->error_text, sizeof(outcome->error_text), "%s", comm->error_text);
	atomic_store(&outcome->ended, 1);
}

int outcome_result(const struct outcome *outcome, uint64_t number)
{
	if (!atomic_load(&outcome->ended))
		return COLL_IN_PROGRESS;
	if (outcome->finished >= number)
		return COLL_SUCCESS;
	return error_set(outcome->error, "%s", outcome->error_text);
}
