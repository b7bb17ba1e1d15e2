/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_split.c - see native_split.h.
 *
 * All ranks of the parent call the backend's split, or none does: the ranks first exchange their votes (api/derive.c), and
 * one vote against it is enough.  Afterwards they exchange whether the split has succeeded.  If it has failed on any rank,
 * all ranks close what it has made, and the operations of the new communicators are composed from messages.
 */
#include "native/native_split.h"
#include "api/derive.h"
#include "base/error.h"
#include "base/lock.h"
#include "comm/lane_log.h"
#include "comm/comm_wait.h"
#include "native/native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An endpoint that the backend's split has made, or is about to make. */
struct native_split {
	coll_host_t host;              /* first: split_aborted finds the rest by it */
	void *ep;                      /* NULL: none, or closed */
	pthread_t thread;              /* calls the backend's split */
	_Atomic(struct lane *) parent; /* while the backend's split runs, else NULL */
	struct lock lock; /* of changes of `parent`, and of other threads that look at the parent */
	_Atomic(struct comm *) comm; /* that has the endpoint; NULL: none has it yet */
	uint8_t shares[];            /* host.shares */
};

static const coll_backend_t *split_backend(const struct native_split *split)
{
	const struct context *context = split->host.core;

	return &context->plugin->backend;
}

/* ----------------------------------------------------------------- its host table -- */

/* The thread is inside the backend's split, and has the parent's lock: moves the endpoint, and looks for a failure. */
static int split_parent_failed(struct lane *parent)
{
	parent->context->now_is_recent = 0;
	context_progress(parent->context);
	lane_check_aborted(parent, UINT64_MAX);
	lane_check(parent);
	return parent->error != 0;
}

/* Any other thread asks, without the parent's lock. */
static int split_is_aborted(struct native_split *split)
{
	const struct context *context = split->host.core;
	const struct comm *comm = atomic_load(&split->comm);
	const struct lane *parent;
	int aborted = atomic_load(&context->aborted) || (comm && atomic_load(&comm->aborted));

	lock_acquire(&split->lock);
	parent = atomic_load(&split->parent);
	aborted |= parent && atomic_load(&parent->comm->aborted);
	lock_release(&split->lock);
	return aborted;
}

static int32_t split_aborted(const coll_host_t *host)
{
	struct native_split *split = (void *)(uintptr_t)host;
	struct lane *parent = atomic_load(&split->parent);

	return parent && pthread_equal(split->thread, pthread_self()) ? split_parent_failed(parent)
								      : split_is_aborted(split);
}

static int32_t split_exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			      int64_t timeout_ms, coll_error_t *err)
{
	(void)host;
	(void)in;
	(void)out;
	(void)len;
	(void)timeout_ms;
	return error_fill(err, COLL_ERR_UNSUPPORTED,
			  "the ranks of a split find each other by the endpoint that is split");
}

static int32_t split_exchange_fail(const coll_host_t *host, int32_t code, const char *text,
				   int64_t timeout_ms)
{
	(void)host;
	(void)text;
	(void)timeout_ms;
	return code;
}

/* Returns how long the backend's split may block: as long as a wait for the parent's operations, or for ranks that connect. */
static int64_t split_timeout_ms(const struct lane *parent)
{
	const int64_t wait_ms = atomic_load(&parent->comm->timeout_us) / 1000 + 1;
	const int64_t init_ms = parent->context->host.timeout_ms;

	return wait_ms < init_ms ? wait_ms : init_ms;
}

/* Fills the host table for a new communicator of these ranks of the parent; n is 0 for a rank without a colour. */
static void split_fill_host(struct native_split *split, const struct lane *parent,
			    const struct members *m, const struct split_vote *own,
			    uint32_t context_id)
{
	const coll_host_t *like = &parent->context->host;
	const uint32_t name[2] = {context_id, (uint32_t)own->color};
	coll_host_t *host = &split->host;

	*host = (coll_host_t){
		.size = like->size,
		.abi_minor = like->abi_minor,
		.rank = (uint32_t)m->place,
		.nranks = (uint32_t)m->n,
		.device = parent->context->device,
		.timeout_ms = split_timeout_ms(parent),
		.core = like->core,
		.log = like->log,
		.option_string = like->option_string,
		.option_int = like->option_int,
		.exchange = split_exchange,
		.mac = like->mac,
		.aborted = split_aborted,
		.alloc = like->alloc,
		.free = like->free,
		.memory_kind = like->memory_kind,
		.copy = like->copy,
		.reduce = like->reduce,
		.exchange_fail = split_exchange_fail,
		.key_is_secret = like->key_is_secret,
		.shares = split->shares,
	};
	like->mac(like, name, sizeof(name), host->key);
	for (int r = 0; r < m->n; r++)
		split->shares[r] = parent->context->shares[parent->to_context_rank[m->rank[r]]];
}

static int split_new(const struct lane *parent, const struct split *split,
		     struct native_split **out)
{
	struct members m = {.rank = NULL};
	const int code = split->own.color < 0 ? 0 : members_of_color(&m, parent, split->all);

	*out = code ? NULL : calloc(1, sizeof(**out) + (size_t)m.n);
	if (*out)
		split_fill_host(*out, parent, &m, &split->own, split->all[0].context_id);
	free(m.rank);
	return *out ? COLL_SUCCESS
		    : error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", parent->comm->nranks);
}

/* ------------------------------------------------------------------------- split -- */

/* Have all ranks voted so? */
static int split_all(const struct lane *parent, const struct split_vote *all,
		     enum split_native native)
{
	int same = 1;

	for (int r = 0; r < parent->comm->nranks; r++)
		same &= all[r].native == (int32_t)native;
	return same;
}

/* The backend's split begins, or has ended: then the parent is NULL. */
static void split_set_parent(struct native_split *own, struct lane *parent)
{
	lock_acquire(&own->lock);
	atomic_store(&own->parent, parent);
	lock_release(&own->lock);
}

/* Calls the backend's split, and returns its code, with a text.  The parent may have failed since the vote. */
static int split_call(struct lane *parent, const struct split *split, struct native_split *own)
{
	coll_error_t err;
	int code;

	error_clear(&err);
	if (parent->error)
		return comm_error(parent);
	own->thread = pthread_self();
	split_set_parent(own, parent);
	code = lane_native(parent)->split(lane_native_ep(parent), split->own.color, split->own.key,
					  &own->host, &own->ep, &err);
	split_set_parent(own, NULL);
	if (code)
		return error_take(code, &err);
	if (split->own.color >= 0 && !own->ep)
		return error_set(COLL_ERR_PLUGIN, "it has made no endpoint");
	return COLL_SUCCESS;
}

/* Does the failure of the split concern the parent? */
static int split_is_fatal(int code)
{
	return code == COLL_ERR_TIMEOUT || code == COLL_ERR_ABORTED || code == COLL_ERR_REMOTE ||
	       code == COLL_ERR_PEER_LOST;
}

/* The backend's split has failed on this rank.  Returns COLL_SUCCESS, or the parent's failure. */
static int split_refused(struct lane *parent, int code)
{
	static atomic_int told; /* a program may split again and again */
	const char *backend = parent->context->plugin->backend.name;
	struct rank_name name;

	if (!parent->error && split_is_fatal(code))
		comm_fail(parent, 0, code, "%s: the split of backend '%s': %s",
			  comm_own_name(parent, &name), backend, error_text());
	if (parent->error)
		return comm_error(parent);
	lane_log(parent,
		 code == COLL_ERR_UNSUPPORTED || atomic_exchange(&told, 1) ? COLL_LOG_INFO
									   : COLL_LOG_WARN,
		 "%s: backend '%s' does not split its own communicator, and the library composes "
		 "the operations of the new communicator from messages: %s",
		 comm_own_name(parent, &name), backend, error_text());
	return COLL_SUCCESS;
}

/* All ranks call it.  *out NULL: the new communicator has no such endpoint, or this rank no new communicator. */
static int split_native(struct lane *parent, struct split *split, struct native_split **out)
{
	struct native_split *own;
	struct rank_name name;
	int code = split_new(parent, split, &own);

	if (code) { /* the other ranks wait in the split, and hear of it */
		comm_fail(parent, 0, code, "%s: %s", comm_own_name(parent, &name), error_text());
		return comm_error(parent);
	}
	if (parent->error) { /* the vote has shown it; the other ranks may have left */
		native_split_free(own);
		return comm_error(parent);
	}
	code = split_call(parent, split, own);
	split->own.native = code ? SPLIT_COMPOSED : SPLIT_MADE;
	if (code)
		code = split_refused(parent, code);
	if (!code)
		code = split_vote_again(parent, split);
	if (!code && own->ep && split_all(parent, split->all, SPLIT_MADE)) {
		*out = own;
		own = NULL;
	}
	native_split_free(own);
	return code;
}

static int native_split_may_block(const struct lane *lane)
{
	return (lane->context->plugin->backend.flags & COLL_BACKEND_NATIVE_SPLIT) != 0;
}

static int native_split_make(struct lane *parent, struct split *split, int code)
{
	struct native_split *own = NULL;

	if (!code && split_all(parent, split->all, SPLIT_MAY_BLOCK))
		code = split_native(parent, split, &own);
	code = derive_transport_join(parent, split, code, &own);
	native_split_free(own);
	return code;
}

static int native_split_shrink(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
			       coll_comm_t *out)
{
	return derive_transport.shrink(lane, excluded, timeout_us, out);
}

const struct derive derive_polled = {
	.may_block = native_split_may_block,
	.make = native_split_make,
	.shrink = native_split_shrink,
};

/* --------------------------------------------------------------- the new endpoint -- */

void native_split_begin(struct lane *lane)
{
	if (!lane->native_split)
		return;
	lane->native_ep = lane->native_split->ep;
	atomic_store(&lane->native_split->comm, lane->comm);
}

static void split_close(struct native_split *split)
{
	void *ep = split->ep;

	split->ep = NULL;
	if (ep)
		split_backend(split)->close(ep, 0);
}

void native_split_close(struct lane *lane)
{
	lane->native_ep = NULL;
	if (lane->native_split)
		split_close(lane->native_split);
}

void native_split_free(struct native_split *split)
{
	if (split)
		split_close(split);
	free(split);
}

void native_split_close_all(struct context *context)
{
	for (struct lane *lane = context->lanes; lane; lane = lane->next)
		native_split_close(lane);
}
