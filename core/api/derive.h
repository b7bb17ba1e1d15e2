/* SPDX-License-Identifier: BSD-3-Clause */
/* derive.h - communicators made from others: split, dup and shrink. */
#ifndef CORE_API_DERIVE_H
#define CORE_API_DERIVE_H

#include "exec/comm.h"

/* The arguments of a rank of the parent, which all ranks exchange. */
struct split_vote {
	int32_t color, key;
	uint32_t context_id; /* rank 0's is that of the new communicators */
};

/* A call of coll_comm_split, coll_comm_dup, coll_comm_isplit or coll_comm_idup. */
struct split {
	struct split *next; /* in the list of a group */
	_Atomic int
		refs; /* of the call, of its request, of its callback, and of the list of a group */
	const struct derive *derive;
	struct comm *comm; /* the parent; valid in the callback */
	coll_comm_t parent;
	coll_comm_t *out;
	/* The lock of the parent guards what a request reads. */
	int done;
	int code;   /* once done: the result */
	char *text; /* of the code; NULL: there was no memory for it */
	struct callback *callbacks;
	uint64_t number;    /* derive_transport: of the operation that exchanges the votes */
	uint32_t seq;       /* derive_transport: of the same among the parent's collectives */
	int64_t timeout_us; /* of the new communicator; 0: its parent's */
	struct split_vote own;
	struct split_vote all[]; /* one for each rank of the parent */
};

/* An implementation of making communicators from others.  The parent is entered. */
struct derive {
	/* Begins a split: nothing of it blocks. */
	int (*begin)(struct comm *comm, struct split *split);
	/* Waits for the other ranks and makes the communicator. */
	int (*finish)(struct comm *comm, struct split *split);
	/*
	 * What finish does once the other ranks' votes are here, or have not come (code).  Does not block;
	 * NULL if that is impossible.
	 */
	int (*over)(struct comm *comm, struct split *split, int code);
	/* Makes a communicator of the ranks that are not excluded (a byte for each rank); timeout_us as in split. */
	int (*shrink)(struct comm *comm, const uint8_t *excluded, int64_t timeout_us,
		      coll_comm_t *out);
	/* finish keeps the lock of the parent: the splits of a group need a thread for each parent. */
	int blocks;
};

/*
 * Over a transport communicators share the parent's endpoint: a new one is no more than a context id in
 * message tags (derive_transport.c).
 */
extern const struct derive derive_transport;
/*
 * Makes a communicator of n context ranks on the parent's context, which its lock guards.  timeout_us 0: its parent's.
 * birth: see struct comm.
 */
int derive_transport_new(struct comm *parent, uint32_t context_id, int rank, int n,
			 const int *world, int64_t timeout_us, uint64_t birth, struct comm **out);
/* For derive_native.c: the shrink of derive_transport, but *out is the communicator. */
int derive_transport_shrunk(struct comm *comm, const uint8_t *excluded, int64_t timeout_us,
			    struct comm **out);
/* Without a transport each communicator has an endpoint and a rendezvous of its own (derive_native.c). */
extern const struct derive derive_native;

static inline const struct derive *derive_of(const struct comm *comm)
{
	return comm->context->plugin->backend.transport ? &derive_transport : &derive_native;
}

/*
 * Writes the ranks of the colour of rank `self`, in their new order, to ranks[] and returns their number;
 * *place becomes the place of `self` among them (derive_transport.c).
 */
int split_order(const struct split_vote *all, int n, int self, int *ranks, int *place);
/*
 * Checks the configuration of a new communicator, which may set timeout_ms only: *timeout_us becomes that, or 0
 * if it is not set.  config may be NULL; `function` is the public function.
 */
int derive_config(const char *function, const coll_config_t *config, int64_t *timeout_us);

/*
 * Checks the arguments of a split and begins it; the parent is entered.  The caller releases *out.
 * `function` is the public function.
 */
struct split_args {
	const char *function;
	int32_t color, key;
	coll_comm_t *newcomm;
	const coll_config_t *config;
};
int split_new(struct comm *comm, const struct split_args *args, struct split **out);
/* Waits for the other ranks; the parent is not entered. */
int split_finish(struct split *split);
/* Notes the result, of which the caller's last error has the text.  The parent is entered. */
void split_end(struct split *split, int code);
/* Reports the result of a split that is done. */
int split_result(const struct split *split);
/* Calls fn once the split is done; during this call if it is done already. */
int split_call_back(struct split *split, coll_request_fn fn, void *user);
/* Accepts NULL. */
void split_unref(struct split *split);
/* The end of the open group finishes and frees the split. */
void split_defer(struct split *split);

#endif
