/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_list.c - the list of all contexts: a thread that waits on one context also drives the other contexts for which
 * it is responsible, so that one thread can hold several ranks of a communicator, or wait for several communicators in
 * any order.
 *
 * A thread that leaves the library by a jump meanwhile keeps the lock of the list.  Nobody waits for it without a
 * limit.
 */
#include "endpoint/wait_impl.h"
#include "base/handle.h"
#include "base/log.h"

enum {
	WAIT_LIST_US = 1000,           /* longest wait for the list in a wait for a context */
	WAIT_LIST_LONGEST_US = 1000000 /* and where the list is changed */
};

static struct lock wait_lock; /* of the list */
static _Atomic int
	wait_lost; /* nobody gives the list back: waits for it are short, until one gets it */
static struct context *wait_contexts;
static struct context
	*wait_left; /* contexts that are not driven any more and never freed: they stay reachable */

/* The context that this thread waits on, and whose lock it holds, while it drives other contexts. */
static _Thread_local const struct context *wait_sweeps;

/*
 * Takes the list.  Returns 0 if it is not free in time.  A thread that was in a sweep has left the sweep by a jump, and
 * has the list.
 */
static int wait_list_take(int64_t timeout_us)
{
	const int has = wait_sweeps != NULL;
	int got;

	wait_sweeps = NULL;
	if (has || lock_try(&wait_lock))
		return 1;
	if (atomic_load(&wait_lost) && timeout_us > WAIT_LIST_US)
		timeout_us = WAIT_LIST_US;
	got = lock_within(&wait_lock, timeout_us);
	if (got || timeout_us > WAIT_LIST_US)
		atomic_store(&wait_lost, !got);
	return got;
}

/* Without the list another thread may be in it: it finds the new context or not. */
void wait_add(struct context *context)
{
	const int got = wait_list_take(WAIT_LIST_LONGEST_US);

	context->next = wait_contexts;
	wait_contexts = context;
	if (got)
		lock_release(&wait_lock);
}

static void wait_unlink(struct context *context)
{
	for (struct context **at = &wait_contexts; *at; at = &(*at)->next)
		if (*at == context) {
			*at = context->next;
			break;
		}
}

int wait_remove(struct context *context)
{
	if (!wait_list_take(WAIT_LIST_LONGEST_US))
		return 0;
	wait_unlink(context);
	lock_release(&wait_lock);
	return 1;
}

void wait_abandon(struct context *context)
{
	if (!wait_list_take(WAIT_LIST_US))
		return;
	wait_unlink(context);
	context->next = wait_left;
	wait_left = context;
	lock_release(&wait_lock);
}

/* ------------------------------------------------------------------------- a fork -- */

/*
 * A child process has no part in its parent's communicators.  It would keep the parent's connections open and so hide the
 * parent's death from the peers; and calls on the parent's handles would send in the parent's name.
 */
static int wait_forks; /* the list is locked for a fork */

/* A thread in a sweep has the list: a function of the program, for a reduction, may fork. */
static void wait_fork_lock(void)
{
	wait_forks = !wait_sweeps && wait_list_take(WAIT_LIST_LONGEST_US);
}

static void wait_fork_unlock(void)
{
	if (wait_forks)
		lock_release(&wait_lock);
}

/* The parent's contexts are never used. */
static void wait_forked(void)
{
	struct context *last = NULL;

	for (struct context *l = wait_contexts; l; l = l->next) {
		const coll_transport_t *t = l->plugin->backend.transport;

		if (l->ep && t && t->forked)
			t->forked(l->ep);
		last = l;
	}
	if (last) {
		last->next = wait_left;
		wait_left = wait_contexts;
	}
	wait_contexts = NULL;
	wait_forks = !wait_sweeps;
}

static void wait_before_fork(void)
{
	wait_fork_lock();
	handle_fork_lock();
}

static void wait_after_fork(void)
{
	handle_fork_unlock();
	wait_fork_unlock();
}

static void wait_in_child(void)
{
	wait_forked();
	handle_forked();
	wait_after_fork();
}

static void wait_register_fork(void)
{
	pthread_atfork(wait_before_fork, wait_after_fork, wait_in_child);
}

void wait_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, wait_register_fork);
}

/* ------------------------------------------------------------------------ a sweep -- */

static int wait_is_mine(struct context *context)
{
	return atomic_load_explicit(&context->progress_owner, memory_order_relaxed) ==
	       THREAD_NUMBER;
}

/*
 * Takes the lock of a context that a thread which waits on `context` drives too, unless another thread has the lock.
 * The thread drives its own contexts.  It also drives the other context of the same communicators (a native context and
 * the context for host memory), whichever thread has made the calls.
 */
static int wait_take(const struct context *context, struct context *l)
{
	const int mine = wait_is_mine(l);

	if (l == context || (!mine && context->host_context != l && l->host_context != context) ||
	    !lock_try(&l->lock))
		return 0;
	if (mine || context->host_context == l || l->busy || l->resting || context_rests(l))
		return 1;
	lock_release(&l->lock);
	return 0;
}

int wait_holds(const struct context *context)
{
	return wait_sweeps == context;
}

int wait_sweep(struct context *context)
{
	int moved = 0;

	if (!wait_list_take(WAIT_LIST_US))
		return 0;
	wait_sweeps = context;
	for (struct context *l = wait_contexts; l; l = l->next) {
		if (!wait_take(context, l))
			continue;
		l->now_is_recent = 0;
		moved |= context_progress(l);
		lock_release(&l->lock);
	}
	wait_sweeps = NULL;
	lock_release(&wait_lock);
	return moved;
}

void wait_help(struct context *context)
{
	if (!context->plugin->backend.transport && !wait_sweeps && wait_is_mine(context))
		wait_sweep(context);
}

int wait_each(struct context *context, int (*look)(struct context *other, void *user), void *user)
{
	int go_on = 1;

	if (!wait_list_take(WAIT_LIST_US))
		return 0;
	for (struct context *l = wait_contexts; l && go_on; l = l->next) {
		if (!wait_take(context, l))
			continue;
		go_on = look(l, user);
		lock_release(&l->lock);
	}
	lock_release(&wait_lock);
	return go_on;
}
