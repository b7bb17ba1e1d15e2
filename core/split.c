/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c - communicators made from others.  Over a transport they share the parent's endpoint: a
 * new one is no more than a number in the message tags, which the parent's rank 0 draws.
 */
#include "split.h"
#include "engine.h"
#include "error.h"
#include "group.h"

#include <stdlib.h>

/* What each rank of the parent brings. */
struct split_vote {
	int32_t color, key;
	uint32_t context; /* rank 0's counts */
};

struct split {
	struct split *next;
	coll_comm_t parent;
	coll_comm_t *out;
	uint64_t number; /* of the operation that exchanges the votes */
	struct split_vote own;
	struct split_vote all[];
};

struct split **split_next(struct split *split)
{
	return &split->next;
}

/* An allgather over the parent, in the order of its operations. */
static int split_exchange(struct comm *comm, struct split *split)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLGATHER, .dtype = COLL_UINT8};
	int code = comm_error(comm);

	args.sendbuf = &split->own;
	args.recvbuf = split->all;
	args.count = sizeof(split->own);
	args.flags = OP_OF_SPLIT;
	if (!code && !comm->link->plugin->backend.transport)
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "splitting over backend '%s' is not implemented",
				 comm->link->plugin->backend.name);
	if (!code)
		code = group_join(comm);
	if (!code)
		code = op_issue(comm, &args, group_current());
	split->number = comm->issued;
	return code;
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

int split_new_comm(struct comm *parent, uint32_t context, int rank, int n, const int *world,
		   coll_comm_t *out)
{
	struct link *link = parent->link;
	struct comm *made = NULL;
	int code;

	if (context == UINT32_MAX)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "too many communicators were made from this one's connections: "
				 "make a new one with a new id");
	code = comm_new(&made, link, context, rank, n, world);
	if (!code) {
		link_hold(link);
		*out = made->handle;
	} else if (made) {
		link_leave(link);
		comm_free(made);
		link_enter(link);
	}
	return code;
}

static int split_make(struct comm *comm, const struct split *split)
{
	int *world = calloc((size_t)comm->nranks, sizeof(*world));
	int rank = 0, n, code = COLL_SUCCESS;

	if (!world)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	n = split_members(comm, split->all, world, &rank);
	if (split->own.color >= 0)
		code = split_new_comm(comm, split->all[0].context, rank, n, world, split->out);
	free(world);
	return code;
}

/* The parent is entered; on success *out is to be ended. */
static int split_begin(struct comm *comm, int32_t color, int32_t key, coll_comm_t *newcomm,
		       struct split **out)
{
	struct split *split = calloc(1, sizeof(*split) + (size_t)comm->nranks * sizeof(split->own));
	int code;

	*out = NULL;
	if (!split)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	split->parent = comm->handle;
	split->out = newcomm;
	split->own = (struct split_vote){.color = color, .key = key};
	if (comm->rank == 0)
		split->own.context = comm_draw_context(comm->link);
	code = split_exchange(comm, split);
	if (code)
		free(split);
	else
		*out = split;
	return code;
}

int split_end(struct split *split)
{
	struct comm *comm = comm_enter(split->parent, "coll_comm_split");
	int code = comm ? comm_wait(comm, split->number) : COLL_ERR_INVALID_ARGUMENT;

	if (!code)
		code = split_make(comm, split);
	if (comm)
		comm_leave(comm);
	free(split); /* on an error the operation that wrote to it is cancelled */
	return code;
}

coll_result_t coll_comm_split(coll_comm_t handle, int32_t color, int32_t key, coll_comm_t *newcomm,
			      const coll_config_t *config)
{
	struct comm *comm = comm_enter(handle, "coll_comm_split");
	struct split *split = NULL;
	int code = COLL_SUCCESS;

	if (newcomm)
		*newcomm = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!newcomm || config || (color < 0 && color != COLL_SPLIT_NOCOLOR))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_split: %s",
				 !newcomm ? "newcomm is NULL"
				 : config ? "config must be NULL"
					  : "color must be 0 or more, or COLL_SPLIT_NOCOLOR");
	if (!code)
		code = split_begin(comm, color, key, newcomm, &split);
	comm_leave(comm);
	if (code)
		return code;
	if (group_current()) {
		group_add_split(split);
		return COLL_SUCCESS;
	}
	return split_end(split);
}

coll_result_t coll_comm_dup(coll_comm_t handle, coll_comm_t *newcomm)
{
	return coll_comm_split(handle, 0, 0, newcomm, NULL);
}
