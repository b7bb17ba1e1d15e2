/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waiting: first polling, then yielding the processor, then sleeping.  A thread that waits
 * on one context also drives the other contexts it is responsible for, so that one thread can hold
 * several ranks of a communicator, or wait for several communicators in any order.
 */
#include "transport/context.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/fork.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
	/* A round in WAIT_SWEEP drives the thread's other contexts; while polling only these rounds
	 * read the clock. */
	WAIT_SWEEP = 8,
	WAIT_CONTEXTS = 64,       /* a sleep watches the descriptors of at most so many contexts */
	WAIT_SLEEP_MS = 100,      /* longest sleep: bounds the cost of a missed wake-up */
	WAIT_DUE_LEAST_US = 1000, /* the client may read a clock that lags by a tick */
	/* A context without a descriptor is polled: a sleep lasts 1/WAIT_BLIND_PART of the time waited,
	 * between these bounds. */
	WAIT_BLIND_US = 200,
	WAIT_BLIND_MOST_US = 10000,
	WAIT_BLIND_PART = 16,
	/*
	 * A yield of so many microseconds, both included, has let another thread run that yields too: a rank
	 * that shares the processor, and can only go on if this rank does not poll.  Without such a thread a
	 * yield takes less; a thread that computes keeps the processor for a tick of the kernel.
	 */
	WAIT_SHARED_LEAST_US = 2,
	WAIT_SHARED_MOST_US = 500,
	WAIT_SHARED_POLL_US = 1,
	WAIT_UNLOCKED_US = 50, /* between two waits inside a backend: other threads take the lock */
	WAIT_PATIENCE_US = 1000
};

static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *wait_contexts;
static struct context *
	wait_inherited; /* in a child process: the parent's contexts, so that they stay reachable; never used */

void wait_add(struct context *context)
{
	fork_watch();
	pthread_mutex_lock(&wait_lock);
	context->next = wait_contexts;
	wait_contexts = context;
	pthread_mutex_unlock(&wait_lock);
}

void wait_remove(struct context *context)
{
	pthread_mutex_lock(&wait_lock);
	for (struct context **at = &wait_contexts; *at; at = &(*at)->next)
		if (*at == context) {
			*at = context->next;
			break;
		}
	pthread_mutex_unlock(&wait_lock);
}

void wait_fork_lock(void)
{
	pthread_mutex_lock(&wait_lock);
}

void wait_fork_unlock(void)
{
	pthread_mutex_unlock(&wait_lock);
}

void wait_forked(void)
{
	for (struct context *l = wait_contexts; l; l = l->next) {
		const coll_transport_t *t = l->plugin->backend.transport;

		if (l->ep && t && t->forked)
			t->forked(l->ep);
	}
	wait_inherited = wait_contexts;
	wait_contexts = NULL;
}

static int wait_is_mine(struct context *context)
{
	return atomic_load_explicit(&context->progress_owner, memory_order_relaxed) ==
	       (uintptr_t)pthread_self();
}

/*
 * Takes the lock of a context that a thread which waits on `context` drives too, unless another thread has it.  These are the
 * thread's own; and of a native endpoint and that for host memory the other one, whose calls are of the same communicators,
 * whichever thread has made them.
 */
static int wait_take(const struct context *context, struct context *l)
{
	const int mine = wait_is_mine(l);

	if (l == context || (!mine && context->host_context != l && l->host_context != context) ||
	    !lock_try(&l->lock))
		return 0;
	if (mine || context->host_context == l || l->busy || l->resting)
		return 1;
	lock_release(&l->lock);
	return 0;
}

/* The context that this thread waits on, and whose lock it holds, while it drives others. */
static _Thread_local const struct context *wait_sweeps;

int wait_holds(const struct context *context)
{
	return wait_sweeps == context;
}

/* Drives contexts beside `context`, except those that another thread has locked. */
static int wait_sweep(struct context *context)
{
	int moved = 0;

	wait_sweeps = context;
	pthread_mutex_lock(&wait_lock);
	for (struct context *l = wait_contexts; l; l = l->next) {
		if (!wait_take(context, l))
			continue;
		l->now_is_recent = 0;
		moved |= context_progress(l);
		lock_release(&l->lock);
	}
	pthread_mutex_unlock(&wait_lock);
	wait_sweeps = NULL;
	return moved;
}

void wait_help(struct context *context)
{
	if (!context->plugin->backend.transport && !wait_sweeps && wait_is_mine(context))
		wait_sweep(context);
}

/* The descriptors and the limits of one sleep. */
struct wait_set {
	struct pollfd fds[WAIT_CONTEXTS + 1];
	int n;
	int64_t longest_us;
	int64_t blind_us; /* longest sleep if a context has no descriptor */
};

static int64_t wait_blind(int64_t idle_us)
{
	int64_t us = idle_us / WAIT_BLIND_PART;

	return us < WAIT_BLIND_US        ? WAIT_BLIND_US
	       : us < WAIT_BLIND_MOST_US ? us
					 : WAIT_BLIND_MOST_US;
}

/* The sleep ends when the client is to be called. */
static void wait_until_due(const struct context *context, struct wait_set *set)
{
	const int64_t due = context->client->due(context);
	int64_t left;

	if (due == INT64_MAX)
		return;
	left = due - clock_now_us();
	left = left > WAIT_DUE_LEAST_US ? left : WAIT_DUE_LEAST_US;
	if (left < set->longest_us)
		set->longest_us = left;
}

/* Adds the descriptor of a context to the set: 0 if the context has work, so that nobody may sleep. */
static int wait_arm(struct context *context, struct wait_set *set)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	int blind = !context->ep || !t || !t->wait_fd;

	if (blind && (context->busy || context->resting) &&
	    context->plugin->backend.flags & COLL_BACKEND_POLL)
		return 0;
	if (context->client->look(context)) {
		context->progress_count++;
		return 0;
	}
	wait_until_due(context, set);
	if ((blind || context->copies_pending || context->client->awaits(context)) &&
	    set->blind_us < set->longest_us)
		set->longest_us = set->blind_us;
	if (blind)
		return 1;
	if (t->arm(context->ep))
		return 0;
	set->fds[set->n++] = (struct pollfd){.fd = t->wait_fd(context->ep), .events = POLLIN};
	return 1;
}

/* Nothing of a backend without a transport is to be polled. */
static int wait_is_at_rest(const struct context *context)
{
	return !context->plugin->backend.transport && !context->client->busy(context) &&
	       !context->client->awaits(context);
}

/* Adds the descriptors of all contexts that the thread drives: 0 if one has work.  `context` is locked. */
static int wait_arm_all(struct context *context, struct wait_set *set)
{
	int idle = wait_arm(context, set);

	pthread_mutex_lock(&wait_lock);
	for (struct context *l = wait_contexts; l && idle && set->n < WAIT_CONTEXTS; l = l->next) {
		if (!wait_take(context, l))
			continue;
		idle = wait_is_at_rest(l) || wait_arm(l, set);
		lock_release(&l->lock);
	}
	pthread_mutex_unlock(&wait_lock);
	return idle;
}

/*
 * Takes the lock that this waiting thread has left to others.  The thread that holds it polls for this thread too,
 * but does not look at what this thread waits for.  So a caller's thread asks for the lock after
 * WAIT_PATIENCE_US; asked for at once, the lock would change hands with every poll.
 */
static void wait_lock_again(struct context *context, int is_progress_thread)
{
	if (is_progress_thread)
		lock_acquire(&context->lock);
	else if (!lock_within(&context->lock, WAIT_PATIENCE_US))
		context_lock(context);
}

/* A backend without a transport may wait by itself: 1 if it did. */
static int wait_in_backend(struct context *context)
{
	const coll_backend_t *b = &context->plugin->backend;
	const struct timespec unlocked = {.tv_nsec = WAIT_UNLOCKED_US * 1000};
	coll_error_t err = error_blank();
	int busy = context->client->busy(context);

	if (b->transport || !b->native || !b->native->sync || !context->ep)
		return 0;
	if (busy && !b->native->sync(context->ep, 1, &err)) /* query reports the same error */
		return 1;
	lock_release(&context->lock);
	nanosleep(&unlocked, NULL);
	wait_lock_again(context, 0);
	return 1;
}

/* Another thread ran for `took` microseconds when this one yielded: how long shall the waits poll from now on? */
static int64_t wait_adapt(const struct context *context, int64_t took)
{
	const int shared = took >= WAIT_SHARED_LEAST_US && took <= WAIT_SHARED_MOST_US;

	return shared && context->poll_us > WAIT_SHARED_POLL_US ? WAIT_SHARED_POLL_US
								: context->poll_us;
}

/* Lets another thread run, also one that waits for the lock. */
static void wait_yield(struct context *context, int is_progress_thread)
{
	int64_t took;

	lock_release(&context->lock);
	took = clock_now_us();
	sched_yield();
	took = clock_now_us() - took;
	wait_lock_again(context, is_progress_thread);
	context->polls_us = wait_adapt(context, took);
}

static void wait_sleep(struct context *context, int64_t longest_us, int64_t idle_us,
		       int is_progress_thread)
{
	struct wait_set set = {.n = 1, .longest_us = longest_us, .blind_us = wait_blind(idle_us)};
	struct timespec t;
	uint64_t count;
	ssize_t got;

	set.fds[0] = (struct pollfd){.fd = context->wake_fd, .events = POLLIN};
	/* The progress thread does not wait inside the backend: its operations move without a thread. */
	if (!is_progress_thread && wait_in_backend(context))
		return;
	if (!wait_arm_all(context, &set)) {
		wait_yield(context, is_progress_thread);
		return;
	}
	t = (struct timespec){.tv_sec = set.longest_us / 1000000,
			      .tv_nsec = set.longest_us % 1000000 * 1000};
	context->sleepers++;
	lock_release(&context->lock);
	if (!ppoll(set.fds, (nfds_t)set.n, &t, NULL) && is_progress_thread)
		thread_let_signals_end();
	wait_lock_again(context, is_progress_thread);
	/* The last thread to wake drains the eventfd, so that every sleeper has seen it. */
	if (--context->sleepers == 0 && set.fds[0].revents & POLLIN) {
		got = read(context->wake_fd, &count, sizeof(count));
		(void)got;
	}
}

/* Lets other threads take the lock. */
static void wait_yield_lock(struct context *context, int is_progress_thread)
{
	if (!atomic_load(&context->lock_waiters))
		return;
	lock_release(&context->lock);
	while (atomic_load(&context->lock_waiters) && !atomic_load(&context->stop))
		sched_yield();
	wait_lock_again(context, is_progress_thread);
}

/* One idle moment, `idle` microseconds after something last moved. */
static void wait_pause(struct context *context, int64_t idle, int64_t left, int is_progress_thread)
{
	int64_t longest = (int64_t)WAIT_SLEEP_MS * 1000;

	if (idle < context->polls_us)
		return;
	if (idle < context->poll_us + context->yield_us) {
		wait_yield(context, is_progress_thread);
		return;
	}
	wait_sleep(context, left < longest ? left : longest, idle, is_progress_thread);
}

/* The progress thread waits until it is told to stop. */
static int wait_stopped(void *arg)
{
	return atomic_load(&((struct context *)arg)->stop);
}

/* The time at which a wait that begins now is over. */
static int64_t wait_end(int64_t now, int64_t timeout_us)
{
	return timeout_us < INT64_MAX - now ? now + timeout_us : INT64_MAX;
}

int context_wait(struct context *context, int (*done)(void *arg), void *arg, int64_t timeout_us)
{
	int64_t end = 0, last = 0, idle = 0, now;
	uint64_t calls = context->progress_count, moves = context_moves(context);
	unsigned rounds = 0;
	int is_progress_thread = done == wait_stopped, moved;

	while (!done(arg)) {
		/* Now and then all is looked at. */
		if ((rounds + 1) % WAIT_SWEEP == 0 || !context->client->poll(context))
			context_progress(context);
		wait_yield_lock(context, is_progress_thread);
		moved = context->progress_count != calls; /* any thread may have moved it */
		calls = context->progress_count;
		if (context_moves(context) != moves) {
			moves = context_moves(context);
			last = idle = 0;
		}
		if (++rounds % WAIT_SWEEP && (moved || idle < context->polls_us)) {
			if (!moved)
				thread_pause();
			continue;
		} /* a read of the clock costs more than a poll */
		now = clock_now_us();
		context->now_us = now;
		context->now_is_recent = 1;
		if (!end)
			end = wait_end(now, timeout_us);
		if (!last)
			last = now;
		idle = now - last;
		if (rounds % WAIT_SWEEP == 0)
			moved |= wait_sweep(context);
		if (now >= end) {
			context->idle_us = idle;
			return done(arg) ? COLL_SUCCESS : COLL_ERR_TIMEOUT;
		}
		if (moved)
			continue;
		context->now_is_recent = idle < context->polls_us;
		wait_pause(context, idle, end - now, is_progress_thread);
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------- a thread of the library's own -- */

static void *wait_thread_run(void *arg)
{
	struct context *context = arg;

	lock_acquire(&context->lock);
	context_wait(context, wait_stopped, context, INT64_MAX);
	lock_release(&context->lock);
	return NULL;
}

static int wait_thread_create(struct context *context)
{
	int failed;

	context->has_progress_thread = 1;
	failed = thread_start(&context->thread, wait_thread_run, context);
	if (!failed)
		return COLL_SUCCESS;
	context->has_progress_thread = 0;
	return error_set(COLL_ERR_SYSTEM, "cannot start the progress thread: %s%s",
			 strerror(failed), thread_advice(failed));
}

int wait_thread_start(struct context *context)
{
	return config_int(context->config, "progress") ? wait_thread_create(context) : COLL_SUCCESS;
}

int wait_thread_need(struct context *context)
{
	int code;

	if (context->has_progress_thread)
		return COLL_SUCCESS;
	code = wait_thread_create(context);
	if (!code)
		log_info("rank %d: the first call with a stream of the program has come: from now "
			 "on a "
			 "thread of the library moves the data, as with 'progress = thread'",
			 context->rank);
	return code;
}

void wait_thread_stop(struct context *context)
{
	if (!context->has_progress_thread)
		return;
	atomic_store(&context->stop, 1);
	context_wake(context);
	pthread_join(context->thread, NULL);
	context->has_progress_thread = 0;
}
