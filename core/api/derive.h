/* SPDX-License-Identifier: BSD-3-Clause */
/* derive.h - communicators made from other communicators: split, dup and shrink. */
#ifndef CORE_API_DERIVE_H
#define CORE_API_DERIVE_H

#include "comm/task.h"

/* Do the backend's own functions serve the new communicators? */
enum split_native {
	SPLIT_COMPOSED,
	SPLIT_MAY_BLOCK, /* yes, if no rank objects: the call of this rank may block in the backend's split */
	SPLIT_MADE /* this rank's split of the backend has succeeded */
};

/* The arguments of a rank of the parent, which all ranks exchange. */
struct split_vote {
	int32_t color, key;
	uint32_t context_id; /* the new communicators get the context id of rank 0 */
	int32_t native;      /* enum split_native */
};

/* A call of coll_comm_split, coll_comm_dup, coll_comm_isplit or coll_comm_idup. */
struct split {
	struct task task;   /* its number: the operation that exchanges the votes */
	struct split *next; /* in the list of a group */
	const struct derive *derive;
	coll_comm_t *out;
	int waits; /* the call waits in split_finish, which makes the communicator; else the end of the vote makes it */
	int may_block;      /* context->split_may_block is set for it */
	uint32_t seq;       /* of the operation among the collectives of its communicator */
	int64_t timeout_us; /* of the new communicator; 0: its parent's */
	struct split_vote own;
	struct split_vote all[]; /* one for each rank of the parent */
};

/* Issues the operation that exchanges the votes, over a lane with a transport, which is entered: sets task.number and seq. */
int split_vote(struct lane *lane, struct split *split);
/* The same for votes that have changed since, and waits for it: task.number and seq stay. */
int split_vote_again(struct lane *lane, struct split *split);

/* An implementation of making communicators from other communicators.  The parent is entered. */
struct derive {
	/*
	 * `make` blocks, and keeps the lock of the parent: the call waits for all of the split, the vote too, and the splits of
	 * a group need a thread for each parent.
	 */
	int blocks;
	/* May `make` block, where the votes of all ranks allow it (SPLIT_MAY_BLOCK)?  NULL: never. */
	int (*may_block)(const struct lane *lane);
	/* After the vote, of which `code` is the result: makes the communicator. */
	int (*make)(struct lane *lane, struct split *split, int code);
	/* Makes a communicator of the ranks that are not excluded (a byte for each rank); timeout_us as in split. */
	int (*shrink)(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
		      coll_comm_t *out);
};

/*
 * Over a transport communicators share the parent's endpoint: a new communicator is no more than a context id in
 * message tags (derive_transport.c).
 */
extern const struct derive derive_transport;
/*
 * For native_split.c: its `make`, but the new communicator takes over *native_split, its endpoint for the backend's own
 * functions or NULL, and sets it to NULL.
 */
int derive_transport_join(struct lane *lane, struct split *split, int code,
			  struct native_split **native_split);
/* The ranks of a parent that become the ranks of a new communicator, in its order. */
struct members {
	int *rank; /* on the heap */
	int n;
	int place; /* of this rank among them */
};

/* The ranks of this rank's colour, or the ranks that are not excluded.  The caller frees m->rank; COLL_ERR_NO_MEMORY. */
int members_of_color(struct members *m, const struct lane *parent, const struct split_vote *all);
int members_but(struct members *m, const struct lane *parent, const uint8_t *excluded);

/* A communicator to make of the members of a parent. */
struct derived {
	const struct members *members;
	uint32_t context_id;
	int64_t timeout_us;                 /* 0: its parent's */
	uint64_t birth;                     /* see struct lane */
	struct native_split **native_split; /* see derive_transport_join; NULL: none */
};
/* Makes the communicator on the parent's context, which its lock guards; only a lane, without a handle, if the parent is a host lane. */
int derive_transport_new(struct lane *parent, const struct derived *derived, struct lane **out);
/* For derive_native.c: the shrink of derive_transport, but *out is the communicator. */
int derive_transport_shrunk(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
			    struct lane **out);

/* A backend with functions of its own has an implementation of its own (native/derive_native.c, native/native_split.c). */
static inline const struct derive *derive_of(const struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	return native && native->derive ? native->derive : &derive_transport;
}

#endif
