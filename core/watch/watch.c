/* SPDX-License-Identifier: BSD-3-Clause */
/* watch.c - what this rank knows of the other ranks of a communicator: see watch.h. */
#include "watch/report.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

int watch_new(struct lane *lane, int hashed)
{
	const size_t n = (size_t)lane->comm->nranks;
	struct watch *watch = calloc(1, sizeof(*watch) + n * sizeof(watch->rank[0]));
	struct compared *compared = NULL;

	lane->watch = watch;
	if (watch && hashed)
		watch->compared = compared =
			calloc(1, sizeof(*compared) + n * sizeof(compared->number[0]));
	if (!watch || (hashed && !compared))
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	if (compared)
		compared->ahead_rank = -1;
	return COLL_SUCCESS;
}

void watch_free(struct lane *lane)
{
	struct watch *watch = lane->watch;

	if (!watch)
		return;
	for (int r = 0; watch->left && r < lane->comm->nranks; r++)
		free(watch->left[r]);
	free(watch->left);
	free(watch->report);
	free(watch->compared);
	free(watch);
	lane->watch = NULL;
}

void watch_keep(struct lane *lane, int rank, const struct report *report)
{
	struct watch *watch = lane->watch;

	if (!watch->report)
		watch->report = calloc((size_t)lane->comm->nranks, sizeof(*watch->report));
	if (watch->report)
		watch->report[rank] = *report;
}

const struct report *watch_report(const struct lane *lane, int rank)
{
	const struct watch *watch = lane->watch;

	return watch->rank[rank].answered && watch->report ? &watch->report[rank] : NULL;
}

void watch_keep_left(struct lane *lane, int rank, uint32_t first, uint32_t calls, const void *bytes)
{
	struct watch *watch = lane->watch;
	struct left_calls *left;

	if (!watch->left)
		watch->left = calloc((size_t)lane->comm->nranks, sizeof(watch->left[0]));
	left = watch->left && !watch->left[rank]
		       ? malloc(sizeof(*left) + calls * sizeof(left->call[0]))
		       : NULL;
	if (!left)
		return;
	left->first = first;
	left->calls = calls;
	memcpy(left->call, bytes, calls * sizeof(left->call[0]));
	watch->left[rank] = left;
}

const struct left_calls *watch_left(const struct lane *lane, int rank)
{
	return lane->watch->left ? lane->watch->left[rank] : NULL;
}
