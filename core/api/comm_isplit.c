/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_isplit.c - coll_comm_isplit and coll_comm_idup: a split with a request.
 *
 * Over a transport the votes are an operation of the parent, and a callback makes the new communicator when
 * the operation is complete: also after the request was freed, and before a function of the program hears of
 * it.  A backend without a transport blocks, alone in the call and in a group at its end.
 */
#include "api/derive.h"
#include "api/request.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "exec/callback.h"
#include "exec/queue.h"

#include <stdlib.h>

/* The votes are here, or the parent has failed.  The parent's lock is held. */
static void isplit_voted(void *user, coll_result_t result)
{
	struct split *split = user;
	struct comm *comm = split->comm;
	int code = result ? error_set(result, "%s", comm->error_text) : COLL_SUCCESS;

	split_end(split, split->derive->over(comm, split, code));
	split_unref(split);
}

/* Begins the split of a request, and does of it what does not block.  The parent is entered. */
static int isplit_begin(struct comm *comm, const struct split_args *args, struct request *request)
{
	const int blocks = derive_of(comm)->blocks;
	struct callback *callback = blocks ? NULL : callback_new(isplit_voted, NULL);
	int code;

	if (!blocks && !callback)
		return COLL_ERR_NO_MEMORY;
	code = split_new(comm, args, &request->split);
	if (code) {
		free(callback);
		return code;
	}
	request->number = comm->issued;
	if (blocks)
		return COLL_SUCCESS;
	atomic_fetch_add(&request->split->refs, 1);
	callback_insert(comm, request->number, callback, request->split);
	if (!group_current())
		queue_issued(comm);
	return COLL_SUCCESS;
}

/* The rest of a split that blocks.  The request, which the program has not seen yet, cannot end meanwhile. */
static int isplit_block(struct split *split)
{
	if (group_current()) {
		atomic_fetch_add(&split->refs, 1);
		split_defer(split);
		return COLL_SUCCESS;
	}
	return split_finish(split);
}

static void isplit_drop_request(coll_request_t *handle, struct request *request)
{
	handle_end(*handle, "a request");
	*handle = NULL;
	split_unref(request->split);
	free(request);
}

static int isplit_call(coll_comm_t handle, const struct split_args *args, coll_request_t *request)
{
	CANCEL_OFF;
	struct comm *comm = comm_enter(handle, args->function);
	const struct request like = {.comm = handle};
	struct request *r = NULL;
	int code, blocks;

	if (args->newcomm)
		*args->newcomm = NULL;
	if (request)
		*request = NULL;
	if (!comm)
		return error_code();
	blocks = derive_of(comm)->blocks;
	code = request ? request_new(request, &like, &r)
		       : error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is NULL",
				   args->function);
	if (!code)
		code = isplit_begin(comm, args, r);
	comm_leave(comm);
	if (!code && blocks)
		code = isplit_block(r->split);
	if (code && r)
		isplit_drop_request(request, r);
	return code;
}

coll_result_t coll_comm_isplit(coll_comm_t comm, int32_t color, int32_t key, coll_comm_t *newcomm,
			       const coll_config_t *config, coll_request_t *request)
{
	const struct split_args args = {"coll_comm_isplit", color, key, newcomm, config};

	return isplit_call(comm, &args, request);
}

coll_result_t coll_comm_idup(coll_comm_t comm, coll_comm_t *newcomm, const coll_config_t *config,
			     coll_request_t *request)
{
	const struct split_args args = {"coll_comm_idup", 0, 0, newcomm, config};

	return isplit_call(comm, &args, request);
}
