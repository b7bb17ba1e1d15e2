/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waiting: first polling, then yielding the processor, then sleeping.
 */
#include "endpoint/wait_impl.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "endpoint/context_log.h"
#include "base/thread.h"

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
	/*
	 * A yield of so many microseconds has let another program compute until the end of its turn.  A thread that sleeps and
	 * is woken is preferred to that program, a thread that yields is not: 2 ranks beside 2 programs that spin take 16 us for
	 * an allreduce of 4 KiB, with yields 170 us.  Waits do without yields for a time that doubles with each such yield in
	 * succession, between these bounds, so that one yield in a while finds out whether the other program still runs.
	 */
	WAIT_CROWDED_LEAST_US = 1000,
	WAIT_CROWDED_FOR_US = 50 * 1000,
	WAIT_CROWDED_FOR_MOST_US = 1000 * 1000,
	WAIT_UNLOCKED_US = 50, /* between two waits inside a backend: other threads take the lock */
	WAIT_PATIENCE_US = 1000,
	WAIT_YIELDS_US = 10000, /* longest time in which other threads are let take the lock */
	/* A counted thread has left the library if no thread takes the lock in so many such times, */
	WAIT_YIELDS_IN_VAIN = 100,
	/* or if threads wake so often before one thread drains the eventfd. */
	WAIT_WAKES_IN_VAIN = 1000
};

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

/* The context has no descriptor that ends a sleep. */
static int wait_is_blind(const struct context *context)
{
	const coll_transport_t *t = context->plugin->backend.transport;

	return !context->ep || !t || !t->wait_fd;
}

/* Adds the descriptor of a context to the set.  Returns 0 if the context has work, so that nobody may sleep. */
static int wait_arm(struct context *context, struct wait_set *set)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	const int blind = wait_is_blind(context);

	if (blind && (context->busy || context->resting) &&
	    context->plugin->backend.flags & COLL_BACKEND_POLL)
		return 0;
	if (!context->busy && context_rests(context))
		context->client->rest(context);
	if (context->client->look(context)) {
		context->progress_count++;
		return 0;
	}
	wait_until_due(context, set);
	if ((blind || context->client->awaits(context)) && set->blind_us < set->longest_us)
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
	return !context->plugin->backend.transport && !context_rests(context) &&
	       !context->client->busy(context) && !context->client->awaits(context);
}

static int wait_arm_other(struct context *other, void *user)
{
	struct wait_set *set = user;

	return set->n == WAIT_CONTEXTS || wait_is_at_rest(other) || wait_arm(other, set);
}

/* Adds the descriptors of all contexts that the thread drives.  Returns 0 if one has work.  `context` is locked. */
static int wait_arm_all(struct context *context, struct wait_set *set)
{
	return wait_arm(context, set) && wait_each(context, wait_arm_other, set);
}

/* ----------------------------------------------------------------------- the lock -- */

/* One call of context_wait or context_wait_or_leave. */
struct waiting {
	struct context *context;
	int is_progress_thread;
	int64_t patience_us; /* 0: this call never leaves */
	int lost;            /* the lock has not come back */
	int64_t rested_us;   /* nothing has moved for so long in the waits right before */
	int64_t now_us;      /* at the last look at the clock */
	int uncancelled;     /* the thread is not cancelled, but in sleeps of a call that leaves */
	int cancel_before;
};

/*
 * Takes the lock that this waiting thread has left to other threads.  The thread that holds it polls for this thread too,
 * but does not look at what this thread waits for.  So a caller's thread asks for the lock after
 * WAIT_PATIENCE_US; asked for at once, the lock would change hands with every poll.
 */
static void wait_lock_again(struct waiting *w)
{
	struct lock *lock = &w->context->lock;

	if (w->is_progress_thread)
		lock_acquire(lock);
	else if (w->patience_us)
		w->lost = !lock_within(lock, WAIT_PATIENCE_US) &&
			  !context_await_lock(w->context, w->patience_us);
	else if (!lock_within(lock, WAIT_PATIENCE_US))
		context_lock(w->context);
}

/*
 * Lets other threads take the lock.  A thread that has left the library by a jump while it waited for the lock stays
 * counted: once nobody has taken the lock for long, nobody waits for it.
 */
static void wait_yield_lock(struct waiting *w)
{
	struct context *context = w->context;
	int64_t until = 0;

	if (!atomic_load(&context->waits.lock_waiters))
		return;
	lock_release(&context->lock);
	for (int i = 1;
	     atomic_load(&context->waits.lock_waiters) && !atomic_load(&context->progress.stop);
	     i++) {
		sched_yield();
		if (i % WAIT_SWEEP)
			continue;
		until = until ? until : clock_now_us() + WAIT_YIELDS_US;
		if (clock_now_us() < until)
			continue;
		if (atomic_fetch_add(&context->waits.yields_in_vain, 1) >= WAIT_YIELDS_IN_VAIN)
			atomic_store(&context->waits.lock_waiters, 0);
		break;
	}
	if (!atomic_load(&context->waits.lock_waiters))
		atomic_store(&context->waits.yields_in_vain, 0);
	wait_lock_again(w);
}

/* A backend without a transport may wait by itself.  Returns 1 if it did. */
static int wait_in_backend(struct waiting *w)
{
	struct context *context = w->context;
	const coll_backend_t *b = &context->plugin->backend;
	coll_error_t err;
	int busy = context->client->busy(context);

	error_clear(&err);
	if (b->transport || !b->native || !b->native->sync || !context->ep)
		return 0;
	if (busy && !b->native->sync(context->ep, 1, &err)) /* query reports the same error */
		return 1;
	lock_release(&context->lock);
	clock_nap(WAIT_UNLOCKED_US);
	wait_lock_again(w);
	return 1;
}

/* ---------------------------------------------------------------- yielding, sleeping -- */

/* Another thread ran for `took` microseconds when this one yielded: how long shall the waits poll from now on? */
static int64_t wait_adapt(const struct context *context, int64_t took)
{
	const int shared = took >= WAIT_SHARED_LEAST_US && took <= WAIT_SHARED_MOST_US;

	return shared && context->waits.poll_us > WAIT_SHARED_POLL_US ? WAIT_SHARED_POLL_US
								      : context->waits.poll_us;
}

/* A yield that ended `now` took so long: shall the next waits do without? */
static void wait_note_crowd(struct context *context, uint32_t look, int64_t took, int64_t now)
{
	struct context_waits *waits = &context->waits;

	if (took < WAIT_CROWDED_LEAST_US) {
		waits->crowded_for_us = 0;
		waits->crowd_looks -= waits->crowd_looks > 0;
		return;
	}
	if (context->oversubscribed && crowd_is_ours(context, look, took, now)) {
		waits->crowded_for_us = 0;
		return;
	}
	waits->crowded_for_us *= 2;
	if (waits->crowded_for_us < WAIT_CROWDED_FOR_US)
		waits->crowded_for_us = WAIT_CROWDED_FOR_US;
	if (waits->crowded_for_us > WAIT_CROWDED_FOR_MOST_US)
		waits->crowded_for_us = WAIT_CROWDED_FOR_MOST_US;
	waits->crowded_until_us = now + waits->crowded_for_us;
}

/* Lets another thread run, also one that waits for the lock. */
static void wait_yield(struct waiting *w)
{
	struct context *context = w->context;
	const uint32_t look = context->waits.crowd_looks ? crowd_begin(context) : 0;
	int64_t begin, now;

	lock_release(&context->lock);
	begin = clock_now_us();
	sched_yield();
	now = clock_now_us();
	wait_lock_again(w);
	if (w->lost)
		return;
	context->waits.polls_us = wait_adapt(context, now - begin);
	/* Beside a thread of the library the caller's threads yield to it, for the lock. */
	if (!wait_is_blind(context) && !context->waits.yields_anyway && !context->progress.started)
		wait_note_crowd(context, look, now - begin, now);
}

/*
 * After a sleep.  The last thread to wake drains the eventfd, so that every sleeper has seen it.  A thread that has left
 * the library by a jump while it slept stays counted: threads that wake in vain again and again drain it too.
 */
static void wait_woken(struct context *context, const struct pollfd *wake)
{
	uint64_t count;
	ssize_t got;

	context->sleepers -= context->sleepers > 0;
	if (!(wake->revents & POLLIN))
		return;
	if (context->sleepers && ++context->waits.wakes_in_vain < WAIT_WAKES_IN_VAIN)
		return;
	context->sleepers = context->waits.wakes_in_vain = 0;
	got = read(context->waits.wake_fd, &count, sizeof(count));
	(void)got;
}

static _Thread_local int wait_cancelled;

int wait_is_cancelled(void)
{
	return wait_cancelled;
}

struct wait_sleep {
	struct waiting *w;
	struct wait_set *set;
};

/* The thread was cancelled in its sleep: the functions that it is in leave as after a wait. */
static void wait_cancel(void *arg)
{
	const struct wait_sleep *sleep = arg;
	struct context *context = sleep->w->context;

	wait_cancelled = context_await_lock(context, context->timeout_us);
	if (!wait_cancelled)
		return;
	sleep->set->fds[0].revents = 0;
	wait_woken(context, &sleep->set->fds[0]);
}

/* Sleeps on the descriptors; the thread is cancelled here only. */
static void wait_poll(struct waiting *w, struct wait_set *set)
{
	const struct timespec t = {.tv_sec = set->longest_us / 1000000,
				   .tv_nsec = set->longest_us % 1000000 * 1000};
	struct wait_sleep sleep = {w, set};

	if (!w->patience_us) {
		if (!ppoll(set->fds, (nfds_t)set->n, &t, NULL) && w->is_progress_thread)
			thread_let_signals_end();
		return;
	}
	pthread_cleanup_push(wait_cancel, &sleep);
	cancel_restore(w->cancel_before);
	ppoll(set->fds, (nfds_t)set->n, &t, NULL);
	w->cancel_before =
		cancel_disable(); /* the process may have got its second thread meanwhile */
	pthread_cleanup_pop(0);
}

static void wait_sleep(struct waiting *w, int64_t longest_us, int64_t idle_us)
{
	struct wait_set set = {.n = 1, .longest_us = longest_us, .blind_us = wait_blind(idle_us)};
	struct context *context = w->context;

	set.fds[0] = (struct pollfd){.fd = context->waits.wake_fd, .events = POLLIN};
	/* The progress thread does not wait inside the backend: its operations move without a thread. */
	if (!w->is_progress_thread && wait_in_backend(w))
		return;
	if (!wait_arm_all(context, &set)) {
		wait_yield(w);
		return;
	}
	context->sleepers++;
	lock_release(&context->lock);
	wait_poll(w, &set);
	wait_lock_again(w);
	if (!w->lost)
		wait_woken(context, &set.fds[0]);
}

/* ---------------------------------------------------------------------- the wait -- */

/* The thread stops polling: from now on it makes calls of the system that could end it. */
static void wait_uncancel(struct waiting *w)
{
	if (!w->uncancelled)
		w->cancel_before = cancel_disable();
	w->uncancelled = 1;
}

/* One idle moment, `idle` microseconds after something last moved. */
static void wait_pause(struct waiting *w, int64_t idle, int64_t left)
{
	const struct context_waits *waits = &w->context->waits;
	int64_t longest = (int64_t)WAIT_SLEEP_MS * 1000;

	if (idle < waits->polls_us)
		return;
	wait_uncancel(w);
	if (idle < waits->poll_us + waits->yield_us && w->now_us >= waits->crowded_until_us)
		wait_yield(w);
	else
		wait_sleep(w, left < longest ? left : longest, idle);
}

/* The progress thread waits until it is told to stop. */
static int wait_stopped(void *arg)
{
	return atomic_load(&((struct context *)arg)->progress.stop);
}

/* The time at which a wait that begins now is over. */
static int64_t wait_end(int64_t now, int64_t timeout_us)
{
	return timeout_us < INT64_MAX - now ? now + timeout_us : INT64_MAX;
}

/*
 * A caller that waits in slices goes on where the last slice ended: if each slice polled and yielded anew, a rank on a
 * busy host would give its processor away again and again, and sleep too seldom to be preferred when it wakes.
 */
static int64_t wait_rested(const struct context *context, int64_t now)
{
	return now - context->waits.rested_at_us < WAIT_PATIENCE_US ? context->waits.rested_us : 0;
}

/* As context_wait_or_leave, but for the state of cancellation. */
static int wait_run(struct waiting *w, int (*done)(void *arg), void *arg, int64_t timeout_us)
{
	struct context *context = w->context;
	int64_t end = 0, last = 0, idle = 0, now;
	uint64_t calls = context->progress_count, moves = context_moves(context);
	unsigned rounds = 0;
	int moved;

	while (!done(arg)) {
		/* Now and then all is looked at. */
		if ((rounds + 1) % WAIT_SWEEP == 0 || !context->client->poll(context))
			context_progress(context);
		wait_yield_lock(w);
		if (w->lost)
			return CONTEXT_LOST;
		moved = context->progress_count != calls; /* any thread may have moved it */
		calls = context->progress_count;
		if (context_moves(context) != moves) {
			moves = context_moves(context);
			last = idle = w->rested_us = 0;
		}
		if (++rounds % WAIT_SWEEP && (moved || idle < context->waits.polls_us)) {
			if (!moved)
				thread_pause();
			continue;
		} /* a read of the clock costs more than a poll */
		now = w->now_us = clock_now_us();
		context->now_us = now;
		context->now_is_recent = 1;
		if (!end) {
			end = wait_end(now, timeout_us);
			w->rested_us = wait_rested(context, now);
		}
		if (!last)
			last = now;
		idle = now - last;
		if (rounds % WAIT_SWEEP == 0)
			moved |= wait_sweep(context);
		if (now >= end) {
			context->idle_us = idle;
			context->waits.rested_us = w->rested_us + idle;
			context->waits.rested_at_us = now;
			return done(arg) ? COLL_SUCCESS : COLL_ERR_TIMEOUT;
		}
		if (moved)
			continue;
		context->now_is_recent = w->rested_us + idle < context->waits.polls_us;
		wait_pause(w, w->rested_us + idle, end - now);
		if (w->lost)
			return CONTEXT_LOST;
	}
	return COLL_SUCCESS;
}

int context_wait_or_leave(struct context *context, int (*done)(void *arg), void *arg,
			  int64_t timeout_us, int64_t patience_us)
{
	struct waiting w = {.context = context,
			    .is_progress_thread = done == wait_stopped,
			    .patience_us = patience_us};
	const int code = wait_run(&w, done, arg, timeout_us);

	if (w.uncancelled)
		cancel_restore(w.cancel_before);
	return code;
}

/* ------------------------------------------------------- a thread of the library's own -- */

static void *wait_thread_run(void *arg)
{
	struct context *context = arg;

	log_enter(config_log_about(context->config, NULL).place);
	lock_acquire(&context->lock);
	context_wait(context, wait_stopped, context, INT64_MAX);
	lock_release(&context->lock);
	return NULL;
}

static int wait_thread_create(struct context *context)
{
	int failed;

	context->progress.started = 1;
	failed = thread_start(&context->progress.thread, wait_thread_run, context);
	if (!failed)
		return COLL_SUCCESS;
	context->progress.started = 0;
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

	if (context->progress.started)
		return COLL_SUCCESS;
	code = wait_thread_create(context);
	if (!code)
		context_log(
			context, COLL_LOG_INFO,
			"rank %d: the first call with a stream of the program has come: from now "
			"on a "
			"thread of the library moves the data, as with 'progress = thread'",
			context->rank);
	return code;
}

void wait_thread_stop(struct context *context)
{
	if (!context->progress.started)
		return;
	atomic_store(&context->progress.stop, 1);
	context_wake(context);
	pthread_join(context->progress.thread, NULL);
	context->progress.started = 0;
}
