/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waiting: first polling, then yielding the processor, then sleeping.  A thread that waits
 * on one link also drives the other links it is responsible for, so that one thread can hold
 * several ranks of a communicator, or wait for several communicators in any order.
 */
#include "transport/context.h"
#include "base/error.h"
#include "transport/fork.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
	/* Every so many idle rounds the thread's other links are driven, and while polling only then
	 * the clock is looked at. */
	WAIT_SWEEP = 8,
	WAIT_LINKS = 64,     /* of so many links a sleep watches the descriptors */
	WAIT_SLEEP_MS = 100, /* longest sleep: bounds what a lost wake-up could cost */
	/* Sleeps on what has no descriptor: at least and at most, and so much of the time waited. */
	WAIT_BLIND_US = 200,
	WAIT_BLIND_MOST_US = 10000,
	WAIT_BLIND_PART = 16,
	WAIT_DOOR_US = 50 /* after the wait of a backend's own: lets others take the lock */
};

static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link *wait_links;
static struct link *wait_inherited; /* the parent's, in a child: kept, never used */

void wait_add(struct link *link)
{
	fork_watch();
	pthread_mutex_lock(&wait_lock);
	link->next = wait_links;
	wait_links = link;
	pthread_mutex_unlock(&wait_lock);
}

void wait_remove(struct link *link)
{
	pthread_mutex_lock(&wait_lock);
	for (struct link **at = &wait_links; *at; at = &(*at)->next)
		if (*at == link) {
			*at = link->next;
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
	for (struct link *l = wait_links; l; l = l->next) {
		const coll_transport_t *t = l->plugin->backend.transport;

		if (l->ep && t && t->forked)
			t->forked(l->ep);
	}
	wait_inherited = wait_links;
	wait_links = NULL;
}

void wait_drive(struct link *link)
{
	atomic_store_explicit(&link->driver, (uintptr_t)pthread_self(), memory_order_relaxed);
}

static int wait_is_mine(struct link *link)
{
	return atomic_load_explicit(&link->driver, memory_order_relaxed) ==
	       (uintptr_t)pthread_self();
}

/* Drives the thread's links other than `link`, as far as no other thread is in them. */
static int wait_sweep(struct link *link)
{
	int moved = 0;

	pthread_mutex_lock(&wait_lock);
	for (struct link *l = wait_links; l; l = l->next) {
		if (l == link || !wait_is_mine(l) || pthread_mutex_trylock(&l->lock))
			continue;
		moved |= link_progress(l);
		pthread_mutex_unlock(&l->lock);
	}
	pthread_mutex_unlock(&wait_lock);
	return moved;
}

/* A sleep. */
struct wait_nap {
	struct pollfd fds[WAIT_LINKS + 1];
	int n;
	int64_t longest_us;
	int64_t blind_us; /* the longest without a descriptor to watch */
};

static int64_t wait_blind(int64_t idle_us)
{
	int64_t us = idle_us / WAIT_BLIND_PART;

	return us < WAIT_BLIND_US        ? WAIT_BLIND_US
	       : us < WAIT_BLIND_MOST_US ? us
					 : WAIT_BLIND_MOST_US;
}

/* What to watch of a link while sleeping: 1 if it may be slept on. */
static int wait_arm(struct link *link, struct wait_nap *nap)
{
	const coll_transport_t *t = link->plugin->backend.transport;
	int blind = !link->ep || !t || !t->wait_fd;

	if ((blind || link->ferried || link->client->awaits(link)) &&
	    nap->blind_us < nap->longest_us)
		nap->longest_us = nap->blind_us;
	if (blind)
		return 1;
	if (t->arm(link->ep))
		return 0;
	nap->fds[nap->n++] = (struct pollfd){.fd = t->wait_fd(link->ep), .events = POLLIN};
	return 1;
}

/* Arms the thread's links; 0 if one of them has work. The link's own lock is held. */
static int wait_arm_all(struct link *link, struct wait_nap *nap)
{
	int idle = wait_arm(link, nap);

	pthread_mutex_lock(&wait_lock);
	for (struct link *l = wait_links; l && idle && nap->n < WAIT_LINKS; l = l->next) {
		if (l == link || !wait_is_mine(l) || pthread_mutex_trylock(&l->lock))
			continue;
		idle = wait_arm(l, nap);
		pthread_mutex_unlock(&l->lock);
	}
	pthread_mutex_unlock(&wait_lock);
	return idle;
}

/* A backend that has no transport may have a wait of its own. */
static int wait_in_backend(struct link *link)
{
	const coll_backend_t *b = &link->plugin->backend;
	const struct timespec door = {.tv_nsec = WAIT_DOOR_US * 1000};
	coll_error_t err = error_blank();
	int busy = link->client->busy(link);

	if (b->transport || !b->native || !b->native->sync || !link->ep)
		return 0;
	if (busy && !b->native->sync(link->ep, 1, &err)) /* what it says, query says too */
		return 1;
	pthread_mutex_unlock(&link->lock);
	nanosleep(&door, NULL);
	pthread_mutex_lock(&link->lock);
	return 1;
}

static void wait_sleep(struct link *link, int64_t longest_us, int64_t idle_us, int serves)
{
	struct wait_nap nap = {.n = 1, .longest_us = longest_us, .blind_us = wait_blind(idle_us)};
	struct timespec t;
	uint64_t count;
	ssize_t got;

	nap.fds[0] = (struct pollfd){.fd = link->wake_fd, .events = POLLIN};
	/* What a backend does by itself goes on without the thread that serves. */
	if ((!serves && wait_in_backend(link)) || !wait_arm_all(link, &nap))
		return;
	t = (struct timespec){.tv_sec = nap.longest_us / 1000000,
			      .tv_nsec = nap.longest_us % 1000000 * 1000};
	link->sleepers++;
	pthread_mutex_unlock(&link->lock);
	ppoll(nap.fds, (nfds_t)nap.n, &t, NULL);
	pthread_mutex_lock(&link->lock);
	/* The last one up takes the wake-up away, so that nobody misses it. */
	if (--link->sleepers == 0 && nap.fds[0].revents & POLLIN) {
		got = read(link->wake_fd, &count, sizeof(count));
		(void)got;
	}
}

/* Lets in whoever waits for the lock. */
static void wait_give_way(struct link *link)
{
	if (!atomic_load(&link->wanted))
		return;
	pthread_mutex_unlock(&link->lock);
	while (atomic_load(&link->wanted) && !atomic_load(&link->stop))
		sched_yield();
	pthread_mutex_lock(&link->lock);
}

/* One idle moment, `idle` microseconds after something last moved. */
static void wait_pause(struct link *link, int64_t idle, int64_t left, int serves)
{
	int64_t longest = (int64_t)WAIT_SLEEP_MS * 1000;

	if (idle < link->poll_us)
		return;
	if (idle < link->poll_us + link->yield_us) {
		pthread_mutex_unlock(&link->lock);
		sched_yield();
		pthread_mutex_lock(&link->lock);
		return;
	}
	wait_sleep(link, left < longest ? left : longest, idle, serves);
}

/* What the library's own thread waits for. */
static int wait_stopped(void *arg)
{
	return atomic_load(&((struct link *)arg)->stop);
}

int link_wait(struct link *link, int (*done)(void *arg), void *arg, int64_t timeout_us)
{
	int64_t last = 0, idle = 0, now;
	uint64_t moves = link->moves;
	unsigned rounds = 0;

	while (!done(arg)) {
		link_progress(link);
		wait_give_way(link);
		if (link->moves != moves) { /* by this thread or another */
			moves = link->moves;
			last = idle = 0;
			continue;
		}
		if (++rounds % WAIT_SWEEP && idle < link->poll_us)
			continue; /* so often nobody looks at the clock */
		now = link_now();
		if (!last)
			last = now;
		idle = now - last;
		if (rounds % WAIT_SWEEP == 0 && wait_sweep(link))
			continue;
		if (idle >= timeout_us)
			return done(arg) ? COLL_SUCCESS : COLL_ERR_TIMEOUT;
		wait_pause(link, idle, timeout_us - idle, done == wait_stopped);
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------- a thread of the library's own -- */

static void *wait_serving(void *arg)
{
	struct link *link = arg;

	pthread_mutex_lock(&link->lock);
	link_wait(link, wait_stopped, link, INT64_MAX);
	pthread_mutex_unlock(&link->lock);
	return NULL;
}

int wait_serve(struct link *link)
{
	sigset_t all, before;
	int failed;

	if (!conf_int(link->conf, "progress"))
		return COLL_SUCCESS;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's threads' */
	link->served = 1;
	failed = pthread_create(&link->thread, NULL, wait_serving, link);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed)
		return COLL_SUCCESS;
	link->served = 0;
	return error_set(COLL_ERR_SYSTEM, "cannot start the progress thread: %s", strerror(failed));
}

void wait_serve_end(struct link *link)
{
	if (!link->served)
		return;
	atomic_store(&link->stop, 1);
	link_wake(link);
	pthread_join(link->thread, NULL);
	link->served = 0;
}
