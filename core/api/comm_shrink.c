/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_shrink.c - a communicator for the survivors.  The old communicator may have failed, so its
 * operations are of no use.  Each survivor sends a control message with the ranks that it excludes to the
 * lowest survivor, the leader.  The leader alone decides, so that all survivors get the same answer: the
 * new communicator's context id once all have sent the same list, or the rank of a survivor that failed.
 * Without a transport the backend's own function does this (derive_native.c).
 */
#include "exec/comm.h"
#include "base/error.h"
#include "api/group.h"
#include "api/comm_split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct shrink {
	struct comm *comm;
	uint8_t *excluded; /* per rank */
	uint64_t hash;     /* of the same, never 0 */
	int leader;
	int aborted; /* comm->aborted when the call began */
};

static int shrink_exclude(struct shrink *s, const int32_t *exclude, int32_t n)
{
	const struct comm *comm = s->comm;

	for (int i = 0; i < n; i++) {
		if (exclude[i] < 0 || exclude[i] >= comm->nranks)
			return error_set(COLL_ERR_INVALID_ARGUMENT,
					 "coll_comm_shrink: exclude[%d] is %d, but ranks go from 0 "
					 "to %d",
					 i, exclude[i], comm->nranks - 1);
		s->excluded[exclude[i]] = 1;
	}
	if (s->excluded[comm->rank])
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_shrink: rank %d excludes itself; only those that stay "
				 "call it",
				 comm->rank);
	s->hash = SIGNATURE_HASH_BEGIN;
	for (int r = 0; r < comm->nranks; r++)
		s->hash = signature_hash(s->hash, (uint64_t)s->excluded[r] + 1);
	s->hash |= 1;
	while (s->excluded[s->leader])
		s->leader++;
	return COLL_SUCCESS;
}

/* For the leader: a survivor that has failed or left, or -1. */
static int shrink_missing(const struct shrink *s)
{
	for (int r = 0; r < s->comm->nranks; r++)
		if (!s->excluded[r] && s->comm->peer_state[r] != PEER_ALIVE)
			return r;
	return -1;
}

static int shrink_agreed(const struct shrink *s)
{
	const struct comm *comm = s->comm;

	for (int r = 0; r < comm->nranks; r++)
		if (!s->excluded[r] && r != comm->rank && comm->shrink[r] != s->hash)
			return 0;
	return 1;
}

/* Has another thread aborted or destroyed the communicator meanwhile? */
static int shrink_aborted(const struct shrink *s)
{
	return atomic_load(&s->comm->aborted) != s->aborted;
}

static int shrink_over(void *arg)
{
	const struct shrink *s = arg;
	const struct comm *comm = s->comm;

	if (!comm->context->ep || shrink_aborted(s))
		return 1;
	if (comm->rank == s->leader)
		return shrink_agreed(s) || shrink_missing(s) >= 0;
	return comm->shrunk.hash == s->hash || comm->peer_state[s->leader] != PEER_ALIVE;
}

/* "3, 5": the survivors that have not sent the leader the same list. */
static void shrink_list_missing(const struct shrink *s, char *text, size_t size)
{
	size_t at = 0;

	for (int r = 0; r < s->comm->nranks && at < size; r++)
		if (!s->excluded[r] && r != s->comm->rank && s->comm->shrink[r] != s->hash)
			at += (size_t)snprintf(text + at, size - at, "%s%d%s", at ? ", " : "", r,
					       s->comm->shrink[r] ? " (excludes others)" : "");
}

static int shrink_timed_out(const struct shrink *s)
{
	char missing[256] = "";

	if (s->comm->rank != s->leader)
		return error_set(COLL_ERR_TIMEOUT,
				 "coll_comm_shrink: rank %d, the lowest that stays, does not "
				 "answer: all ranks that stay must call it with the same list",
				 s->leader);
	shrink_list_missing(s, missing, sizeof(missing));
	return error_set(COLL_ERR_TIMEOUT,
			 "coll_comm_shrink: not heard from rank %s: all ranks that stay must call "
			 "it with the same list",
			 missing);
}

static int shrink_gone_too(int rank)
{
	return error_set(COLL_ERR_PEER_LOST,
			 "coll_comm_shrink: rank %d is gone too: exclude it as well", rank);
}

/* The error of a wait that ended without an answer. */
static int shrink_broken(const struct shrink *s)
{
	const struct comm *comm = s->comm;

	if (!comm->context->ep)
		return error_set(COLL_ERR_ABORTED, "the endpoint of backend '%s' had to be closed",
				 comm->context->plugin->backend.name);
	if (shrink_aborted(s))
		return error_set(COLL_ERR_ABORTED,
				 "coll_comm_shrink: rank %d aborted the communicator", comm->rank);
	return shrink_timed_out(s);
}

/* The leader's answer to all survivors: a context id, or the rank that failed. */
static void shrink_answer(const struct shrink *s, uint32_t context_id, int lost)
{
	struct comm *comm = s->comm;
	char text[40];

	snprintf(text, sizeof(text), "%" PRIx64 " %d", s->hash, lost);
	for (int r = 0; r < comm->nranks; r++) {
		if (s->excluded[r] || r == comm->rank)
			continue;
		comm->shrink[r] = 0;
		context_send_control(comm->context, comm->to_context_rank[r],
				     comm_tag_control(comm->context_id), CONTROL_SHRUNK,
				     (int)context_id, text);
	}
}

static int shrink_lead(struct shrink *s, uint32_t *context_id)
{
	struct comm *comm = s->comm;
	int timed_out = context_wait(comm->context, shrink_over, s, comm->context->timeout_us);
	int broken = timed_out || !comm->context->ep || shrink_aborted(s);
	int lost = broken ? comm->rank : shrink_agreed(s) ? -1 : shrink_missing(s);

	if (!broken && lost < 0)
		*context_id = comm_draw_context_id(comm->context);
	if (!timed_out) /* after a timeout the others time out too */
		shrink_answer(s, *context_id, lost);
	if (broken)
		return shrink_broken(s);
	return lost < 0 ? COLL_SUCCESS : shrink_gone_too(lost);
}

static int shrink_follow(struct shrink *s, uint32_t *context_id)
{
	struct comm *comm = s->comm;
	int leader = comm->to_context_rank[s->leader];
	char text[24];

	snprintf(text, sizeof(text), "%" PRIx64, s->hash);
	context_send_control(comm->context, leader, comm_tag_control(comm->context_id),
			     CONTROL_SHRINK, 0, text);
	(void)context_wait(comm->context, shrink_over, s, comm->context->timeout_us);
	if (comm->shrunk.hash == s->hash) {
		comm->shrunk.hash = 0;
		*context_id = comm->shrunk.context_id;
		return comm->shrunk.failed_rank < 0 ? COLL_SUCCESS
						    : shrink_gone_too(comm->shrunk.failed_rank);
	}
	if (comm->peer_state[s->leader] != PEER_ALIVE)
		return shrink_gone_too(s->leader);
	context_send_control(comm->context, leader, comm_tag_control(comm->context_id),
			     CONTROL_SHRINK, 0, "0");
	return shrink_broken(s);
}

static int shrink_agree(struct shrink *s, uint32_t *context_id)
{
	s->aborted = atomic_load(&s->comm->aborted);
	return s->comm->rank == s->leader ? shrink_lead(s, context_id)
					  : shrink_follow(s, context_id);
}

static int shrink_make(const struct shrink *s, uint32_t context_id, coll_comm_t *newcomm)
{
	struct comm *comm = s->comm;
	int *world = calloc((size_t)comm->nranks, sizeof(*world));
	int n = 0, rank = 0, code;

	if (!world)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	for (int r = 0; r < comm->nranks; r++) {
		if (s->excluded[r])
			continue;
		if (r == comm->rank)
			rank = n;
		world[n++] = comm->to_context_rank[r];
	}
	code = split_new_comm(comm, context_id, rank, n, world, newcomm);
	free(world);
	return code;
}

static int shrink_over_transport(struct shrink *s, coll_comm_t *newcomm)
{
	uint32_t context_id = 0;
	int code = shrink_agree(s, &context_id);

	return code ? code : shrink_make(s, context_id, newcomm);
}

static int shrink_check(const int32_t *exclude, int32_t n, const coll_comm_t *newcomm,
			const coll_config_t *config, int32_t flags)
{
	const char *wrong = !newcomm                   ? "newcomm is NULL"
			    : config                   ? "config must be NULL"
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

coll_result_t coll_comm_shrink(coll_comm_t handle, const int32_t *exclude, int32_t nexclude,
			       coll_comm_t *newcomm, const coll_config_t *config, int32_t flags)
{
	struct comm *comm = comm_enter(handle, "coll_comm_shrink");
	struct shrink s = {.comm = comm};
	int code;

	if (newcomm)
		*newcomm = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	code = shrink_check(exclude, nexclude, newcomm, config, flags);
	s.excluded = calloc((size_t)comm->nranks, 1);
	if (!code && !s.excluded)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	if (!code)
		code = shrink_exclude(&s, exclude, nexclude);
	if (!code && !comm->context->plugin->backend.transport)
		code = split_native_shrink(comm, s.excluded, newcomm);
	else if (!code)
		code = shrink_over_transport(&s, newcomm);
	comm_leave(comm);
	free(s.excluded);
	return code;
}
