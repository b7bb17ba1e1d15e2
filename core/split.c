/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c - communicators made from others.  Over a transport they share the parent's endpoint: a
 * new one is no more than a number in the message tags, which its ranks agree on.
 */
#include "comm.h"
#include "engine.h"
#include "error.h"
#include "group.h"

#include <stdlib.h>

/* What each rank of the parent brings. */
struct split_vote {
	int32_t color, key;
	uint32_t context; /* the lowest number that is free here */
};

enum { SPLIT_CONTEXTS = 1 << 20 };

/* An allgather over the parent, in the order of its operations. */
static int split_exchange(struct comm *comm, const struct split_vote *own, struct split_vote *all)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLGATHER, .dtype = COLL_UINT8};
	int code = comm_error(comm);

	args.sendbuf = own;
	args.recvbuf = all;
	args.count = sizeof(*own);
	args.flags = OP_OF_SPLIT;
	if (!code && !comm->link->plugin->backend.transport)
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "splitting over backend '%s' is not implemented",
				 comm->link->plugin->backend.name);
	if (!code && group_current())
		code = error_set(COLL_ERR_INVALID_USAGE,
				 "a communicator cannot be split in a group");
	if (!code)
		code = op_issue(comm, &args, 0);
	return code ? code : comm_wait(comm, comm->issued);
}

/* Does rank a of the parent come before rank b in the new communicator? */
static int split_before(const struct split_vote *all, int a, int b)
{
	return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* The link ranks of this rank's colour, in order; *rank becomes its place among them. */
static int split_members(const struct comm *comm, const struct split_vote *all, int *world,
			 int *rank)
{
	int32_t color = all[comm->rank].color;
	int n = 0;

	for (int r = 0; r < comm->nranks; r++) {
		int place = 0;

		if (all[r].color != color)
			continue;
		for (int other = 0; other < comm->nranks; other++)
			place += all[other].color == color && split_before(all, other, r);
		world[place] = comm->world[r];
		if (r == comm->rank)
			*rank = place;
		n++;
	}
	return n;
}

static int split_make(struct comm *comm, const struct split_vote *all, coll_comm_t *out)
{
	int *world = calloc((size_t)comm->nranks, sizeof(*world));
	struct link *link = comm->link;
	struct comm *made = NULL;
	uint32_t context = 0;
	int rank = 0, n, code;

	if (!world)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	for (int r = 0; r < comm->nranks; r++)
		context = all[r].context > context ? all[r].context : context;
	link->next_context = context + 1;
	n = split_members(comm, all, world, &rank);
	if (context >= SPLIT_CONTEXTS)
		code = error_set(COLL_ERR_UNSUPPORTED, "more than %d communicators were split off",
				 SPLIT_CONTEXTS);
	else
		code = all[comm->rank].color < 0 ? COLL_SUCCESS
						 : comm_new(&made, link, context, rank, n, world);
	free(world);
	if (!code && made) {
		link_hold(link);
		*out = made->handle;
	} else if (made) {
		link_leave(link);
		comm_free(made);
		link_enter(link);
	}
	return code;
}

coll_result_t coll_comm_split(coll_comm_t handle, int32_t color, int32_t key, coll_comm_t *newcomm,
			      const coll_config_t *config)
{
	struct comm *comm = comm_enter(handle, "coll_comm_split");
	struct split_vote own = {.color = color, .key = key}, *all = NULL;
	int code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!newcomm || config || (color < 0 && color != COLL_SPLIT_NOCOLOR))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_split: %s",
				 !newcomm ? "newcomm is NULL"
				 : config ? "config must be NULL"
					  : "color must be 0 or more, or COLL_SPLIT_NOCOLOR");
	if (newcomm)
		*newcomm = NULL;
	own.context = comm->link->next_context;
	if (!code)
		all = calloc((size_t)comm->nranks, sizeof(*all));
	if (!code && !all)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	if (!code)
		code = split_exchange(comm, &own, all);
	if (!code)
		code = split_make(comm, all, newcomm);
	comm_leave(comm);
	free(all);
	return code;
}

coll_result_t coll_comm_dup(coll_comm_t handle, coll_comm_t *newcomm)
{
	return coll_comm_split(handle, 0, 0, newcomm, NULL);
}

coll_result_t coll_comm_shrink(coll_comm_t handle, const int32_t *exclude, int32_t nexclude,
			       coll_comm_t *newcomm, const coll_config_t *config, int32_t flags)
{
	struct comm *comm = comm_enter(handle, "coll_comm_shrink");

	(void)exclude;
	(void)nexclude;
	(void)config;
	(void)flags;
	if (newcomm)
		*newcomm = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	comm_leave(comm);
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"coll_comm_shrink is not implemented yet: make a new communicator among the "
		"survivors with a new id");
}
