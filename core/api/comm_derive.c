/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_derive.c - the public functions that make communicators from others: split, dup and shrink. */
#include "api/derive.h"
#include "api/request.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>

static int split_call(coll_comm_t handle, const struct split_args *args)
{
	CANCEL_OFF;
	struct comm *comm = comm_enter(handle, args->function);
	struct split *split;
	int code;

	if (args->newcomm)
		*args->newcomm = NULL;
	if (!comm)
		return error_code();
	code = split_new(comm, args, &split);
	if (!code)
		code = split_begin(split);
	comm_leave(comm);
	if (!code)
		code = split_complete(split);
	if (split)
		task_unref(&split->task);
	return code;
}

coll_result_t coll_comm_split(coll_comm_t comm, int32_t color, int32_t key, coll_comm_t *newcomm,
			      const coll_config_t *config)
{
	const struct split_args args = {"coll_comm_split", color, key, newcomm, config, 1};

	return split_call(comm, &args);
}

coll_result_t coll_comm_dup(coll_comm_t comm, coll_comm_t *newcomm)
{
	const struct split_args args = {"coll_comm_dup", 0, 0, newcomm, NULL, 1};

	return split_call(comm, &args);
}

/* ------------------------------------------------------------------ with a request -- */

/* The request, which the program has not seen yet, cannot end before the return. */
static int isplit_call(coll_comm_t handle, const struct split_args *args, coll_request_t *request)
{
	CANCEL_OFF;
	struct comm *comm = comm_enter(handle, args->function);
	struct split *split = NULL;
	int code;

	if (args->newcomm)
		*args->newcomm = NULL;
	if (request)
		*request = NULL;
	if (!comm)
		return error_code();
	code = request ? split_new(comm, args, &split)
		       : error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is NULL",
				   args->function);
	if (!code)
		code = request_new(request, &split->task);
	if (code && split)
		task_unref(&split->task);
	if (!code)
		code = split_begin(split);
	comm_leave(comm);
	if (!code && split->derive->block)
		code = split_complete(split);
	if (code && request && *request)
		request_drop(request);
	return code;
}

coll_result_t coll_comm_isplit(coll_comm_t comm, int32_t color, int32_t key, coll_comm_t *newcomm,
			       const coll_config_t *config, coll_request_t *request)
{
	const struct split_args args = {"coll_comm_isplit", color, key, newcomm, config, 0};

	return isplit_call(comm, &args, request);
}

coll_result_t coll_comm_idup(coll_comm_t comm, coll_comm_t *newcomm, const coll_config_t *config,
			     coll_request_t *request)
{
	const struct split_args args = {"coll_comm_idup", 0, 0, newcomm, config, 0};

	return isplit_call(comm, &args, request);
}

/* ------------------------------------------------------------- the survivors of a failure -- */

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

/* Marks the excluded ranks.  Only survivors call shrink, so the list must not contain this rank. */
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
