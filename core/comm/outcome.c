/* SPDX-License-Identifier: BSD-3-Clause */
/* outcome.c - how a communicator ended: its failure, and how far its lanes came. */
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
	pthread_mutex_init(&outcome->lock, NULL);
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
	if (!outcome || atomic_fetch_sub(&outcome->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&outcome->lock);
	free(outcome);
}

int outcome_fail(struct outcome *outcome, int is_remote, int code, const char *fmt, va_list ap)
{
	int first;

	pthread_mutex_lock(&outcome->lock);
	first = !atomic_load(&outcome->code);
	if (first) {
		outcome->is_remote = is_remote;
		vsnprintf(outcome->text, sizeof(outcome->text), fmt, ap);
		atomic_store(&outcome->code, code);
	}
	pthread_mutex_unlock(&outcome->lock);
	return first;
}

void outcome_end(struct outcome *outcome, const struct lane *lane)
{
	outcome->lane[lane->index].finished = lane->finished;
	atomic_store(&outcome->lane[lane->index].ended, 1);
}

int outcome_result(const struct outcome *outcome, int lane_index, uint64_t number)
{
	if (!atomic_load(&outcome->lane[lane_index].ended))
		return COLL_IN_PROGRESS;
	if (outcome->lane[lane_index].finished >= number)
		return COLL_SUCCESS;
	return error_set(atomic_load(&outcome->code), "%s", outcome->text);
}
