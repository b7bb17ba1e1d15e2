/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_shrink.c - coll_comm_shrink: a communicator for the survivors of a failure. */
#include "api/derive.h"
#include "api/group.h"
#include "base/cancel.h"
#include "base/error.h"

#include <stdlib.h>

static int shrink_check(const int32_t *exclude, int32_t n, const coll_comm_t *newcomm,
			int32_t flags)
{
	const char *wrong = !newcomm                   ? "newcomm is NULL"
			    : flags                    ? "flags must be 0"
			    : n < 0 || (n && !exclude) ? "exclude is NULL or nexclude negative"
						       : NULL;

	if (wrong)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_shrink: %s", wrong);
	if (group_current())
		return error_set(COLL_ERR_INVALID_USAGE,
				 "coll_comm_shrink waits, so it cannot be called in a group");
	return COLL_SUCCESS;
}

/* Marks the excluded ranks; the survivors call, so this rank must not be one of them. */
static int shrink_exclude(const struct comm *comm, const int32_t *exclude, int32_t n,
			  uint8_t *excluded)
{
	struct rank_name name;

	for (int i = 0; i < n; i++) {
		if (exclude[i] < 0 || exclude[i] >= comm->nranks)
			return error_set(COLL_ERR_INVALID_ARGUMENT,
					 "coll_comm_shrink: exclude[%d] is %d, but ranks go from 0 "
					 "to %d",
					 i, exclude[i], comm->nranks - 1);
		excluded[exclude[i]] = 1;
	}
	if (excluded[comm->rank])
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"coll_comm_shrink: %s excludes itself; only those that stay call it",
			comm_own_name(comm, &name));
	return COLL_SUCCESS;
}

coll_result_t coll_comm_shrink(coll_comm_t handle, const int32_t *exclude, int32_t nexclude,
			       coll_comm_t *newcomm, const coll_config_t *config, int32_t flags)
{
	CANCEL_OFF;
	struct comm *comm = comm_enter(handle, "coll_comm_shrink");
	uint8_t *excluded;
	int64_t timeout_us = 0;
	int code;

	if (newcomm)
		*newcomm = NULL;
	if (!comm)
		return error_code();
	code = shrink_check(exclude, nexclude, newcomm, flags);
	if (!code)
		code = derive_config("coll_comm_shrink", config, &timeout_us);
	excluded = calloc((size_t)comm->nranks, 1);
	if (!code && !excluded)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	if (!code)
		code = shrink_exclude(comm, exclude, nexclude, excluded);
	if (!code)
		code = derive_of(comm)->shrink(comm, excluded, timeout_us, newcomm);
	comm_leave(comm);
	free(excluded);
	return code;
}
