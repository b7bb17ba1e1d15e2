/* SPDX-License-Identifier: BSD-3-Clause */
/* companion_watch.c - the thread that watches for lost ranks, and for what other ranks say of their failures. */
#include "transport/companion_impl.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/siphash.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	WATCHER_SLEEP_MS = 1000, /* bounds the cost of a missed wake-up */
	WATCHER_LOCK_MS =
		5, /* longest wait for the lock of a context whose backend is aborted next */
	WATCHER_RETURN_MS = 3000, /* an aborted backend returns from its calls sooner */
	WATCHER_BLIND_MS = 10,    /* a transport without a descriptor is polled so often */
	WATCHER_RETRY_MS = 2,     /* letters that no call takes are tried again so soon */
	WATCHER_OUTSIDE_MS =
		250, /* programs that may wait outside the library are looked at so often */
	WATCHER_POLL_MS =
		200 /* another thread that drives companions waits so long for the watcher */
};

/* The thread of the process, while it has companions. */
struct watcher {
	pthread_t thread;
	int wake_fd;
	int stop; /* a later companion has another thread */
	struct pollfd *fds;
	size_t capacity;
};

/* Guards the list, all companions in it, and the watcher's `stop`. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct companion *watch_companions;
static struct watcher *watch_thread;
static struct companion *watch_inherited; /* in a child process: the parent's, so that they stay
					     reachable; never used */

/* ----------------------------------------------------------------------- the alarm -- */

int companion_has_lost(const struct context *context, int rank)
{
	return context->companion &&
	       atomic_load(&context->companion->lost[companion_rank(context, rank)]);
}

/* Writes a sentence for each lost rank of the context: 0 if there is none. */
static size_t companion_describe(const struct companion *c, const struct context *context,
				 char *text, size_t size)
{
	size_t n = 0;

	for (int r = 0; r < context->nranks && n < size; r++) {
		const int world = companion_rank(context, r);
		char name[48];

		if (!atomic_load(&c->lost[world]))
			continue;
		snprintf(name, sizeof(name), world == r ? "rank %d" : "rank %d (world rank %d)", r,
			 world);
		n += (size_t)snprintf(text + n, size - n, "%s%s was lost: %s", n ? "; " : "", name,
				      c->context->failure[world]);
	}
	return n;
}

/* The first alarm of a context stays.  It stands before the backend's abort ends any call. */
static int companion_raise(const struct companion *c, struct context *context)
{
	char text[sizeof(context->alarm.text)];

	if (!companion_describe(c, context, text, sizeof(text)))
		return 0;
	if (!atomic_load(&context->alarm.code)) {
		memcpy(context->alarm.text, text, sizeof(text));
		atomic_store(&context->alarm.code, COLL_ERR_PEER_LOST);
	}
	return 1;
}

int companion_check_ranks(const struct context *context)
{
	char text[sizeof(context->alarm.text)];
	size_t n = 0;

	if (!context->companion)
		return COLL_SUCCESS;
	pthread_mutex_lock(&watch_lock);
	n = companion_describe(context->companion, context, text, sizeof(text));
	pthread_mutex_unlock(&watch_lock);
	return n ? error_set(COLL_ERR_PEER_LOST, "%s", text) : COLL_SUCCESS;
}

void companion_end(struct context *context)
{
	atomic_store(&context->alarm.ended, 1);
	context_notify(context);
	if (context->companion)
		companion_wake(context->companion);
}

void companion_await(const struct context *context, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	while (context->companion && !atomic_load(&context->alarm.ended) &&
	       clock_remaining(deadline) > 0)
		clock_nap(1000);
}

static int companion_owes_abort(const struct context *context)
{
	return atomic_load(&context->alarm.ended) && !atomic_load(&context->alarm.aborted);
}

void companion_shrink_begin(struct context *context, const struct context_making *making,
			    int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	if (!context->companion)
		return;
	pthread_mutex_lock(&watch_lock);
	while (companion_owes_abort(context) && clock_remaining(deadline) > 0) {
		pthread_mutex_unlock(&watch_lock);
		companion_wake(context->companion);
		clock_nap(1000);
		pthread_mutex_lock(&watch_lock);
	}
	context->shrinking = making;
	pthread_mutex_unlock(&watch_lock);
}

void companion_shrink_end(struct context *context)
{
	if (!context->companion)
		return;
	pthread_mutex_lock(&watch_lock);
	context->shrinking = NULL;
	pthread_mutex_unlock(&watch_lock);
	companion_wake(context->companion);
}

/* Takes the news of a context, and releases its lock. */
static void companion_check_locked(struct context *w)
{
	w->now_is_recent = 0;
	w->client->check(w);
	lock_release(&w->lock);
}

/*
 * The communicator fails first, unless a call holds the lock for long: it releases streams that wait for other operations,
 * for which the backend's abort would wait.
 */
static void companion_check_ended(struct context *w)
{
	/* An abort by the program fails the communicator itself, and has released the streams. */
	if (!atomic_load(&w->aborted) && context_lock_within(w, WATCHER_LOCK_MS))
		companion_check_locked(w);
}

/* The first letter that ends the communicator, as text: 0 if there is none. */
static int companion_read_end(const struct companion *c, const struct context *w, char *text,
			      size_t size)
{
	int found = 0;

	context_lock(c->context);
	for (const struct unexpected *e = w->letters; e && !found; e = e->next) {
		const struct control_body *body = (const void *)e->data;
		const size_t len = (size_t)e->header.len - sizeof(*body);

		found = w->client->ends(body->kind) && !body->text[len - 1];
		if (found && strncmp(body->text, "rank ", 5))
			snprintf(text, size, "rank %d: %s", (int)e->peer, body->text);
		else if (found)
			snprintf(text, size, "%s", body->text);
	}
	lock_release(&c->context->lock);
	return found;
}

/* Does a call still hold the lock of the context, whose backend was aborted?  It cannot tell the program why: the log does. */
static void companion_tell_why(const struct companion *c, struct context *w)
{
	char text[sizeof(w->alarm.text)] = "";

	if (lock_try(&w->lock)) {
		lock_release(&w->lock);
		w->alarm.tell_us = 0;
	} else if (clock_now_us() >= w->alarm.tell_us) {
		w->alarm.tell_us = 0;
		if (atomic_load(&w->alarm.code))
			memcpy(text, w->alarm.text, sizeof(text));
		if (text[0] || companion_read_end(c, w, text, sizeof(text)))
			log_error("rank %d: backend '%s' does not return from a call, although the "
				  "communicator has failed: %s",
				  w->rank, w->plugin->backend.name, text);
	}
}

/* 1: there may be something to tell. */
static int companion_tell_all(const struct companion *c)
{
	int left = 0;

	for (struct context *w = c->watched; w; w = w->next_watched) {
		if (w->alarm.tell_us)
			companion_tell_why(c, w);
		left |= w->alarm.tell_us != 0;
	}
	return left;
}

/* Each context has its alarm or its letter before the first abort, which may take long. */
static void companion_abort_ended(struct companion *c)
{
	for (struct context *w = c->watched; w; w = w->next_watched) {
		const coll_native_t *native = w->plugin->backend.native;

		if (!companion_owes_abort(w) || w->shrinking)
			continue;
		companion_check_ended(w);
		if (native && native->abort)
			native->abort(w->ep);
		atomic_store(&w->alarm.aborted, 1);
		if (!atomic_load(&w->aborted)) /* by the program */
			w->alarm.tell_us = clock_now_us() + (int64_t)WATCHER_RETURN_MS * 1000;
	}
}

static void companion_raise_all(struct companion *c)
{
	for (struct context *w = c->watched; w; w = w->next_watched)
		if (companion_raise(c, w)) {
			atomic_store(&w->alarm.ended, 1);
			companion_notify(w);
		}
}

/* -------------------------------------------------------------------- the watcher -- */

/*
 * A program that waits elsewhere, say for a stream of its own, takes no letters: they are taken here, unless the
 * communicator has ended.  Never waits for the lock of a context.  1: a call holds one, and the news are still to
 * be taken.
 */
static int companion_check_all(struct companion *c)
{
	int left = 0;

	for (struct context *w = c->watched; w; w = w->next_watched) {
		if (!atomic_load(&w->alarm.news) || atomic_load(&w->alarm.ended))
			continue;
		if (!lock_try(&w->lock)) {
			left = 1;
			continue;
		}
		atomic_store(&w->alarm.news, 0);
		companion_check_locked(w);
	}
	return left;
}

/* Has the others asked for programs that make no calls; 1: there may be some.  Never waits for the lock of a context. */
static int companion_watch_all(struct companion *c)
{
	const int64_t now = clock_now_us();

	if (now - c->outside_us < (int64_t)WATCHER_OUTSIDE_MS * 1000)
		return c->outside;
	c->outside_us = now;
	c->outside = 0;
	for (struct context *w = c->watched; w; w = w->next_watched) {
		if (atomic_load(&w->alarm.ended) || !lock_try(&w->lock))
			continue;
		w->now_is_recent = 0;
		c->outside |= w->client->watch && w->client->watch(w);
		lock_release(&w->lock);
	}
	return c->outside;
}

/* 1: the endpoint has more work. */
static int companion_drive(struct companion *c)
{
	const coll_transport_t *t = c->context->plugin->backend.transport;
	int lost, more;

	context_lock(c->context);
	context_progress(c->context);
	lost = companion_look(c);
	more = c->context->ep && t->wait_fd && t->arm(c->context->ep);
	lock_release(&c->context->lock);
	if (lost)
		companion_raise_all(c);
	companion_abort_ended(c);
	return more;
}

void companion_poll(const struct context *context)
{
	/* The watcher has the lock while it aborts a backend. */
	if (!context->companion || !clock_lock_within(&watch_lock, WATCHER_POLL_MS))
		return;
	(void)companion_drive(context->companion);
	pthread_mutex_unlock(&watch_lock);
}

static void watcher_wake(int wake_fd)
{
	CANCEL_OFF;
	uint64_t one = 1;
	ssize_t n = write(wake_fd, &one, sizeof(one));

	(void)n; /* a full counter means that a wake-up is already due */
}

void companion_wake(const struct companion *companion)
{
	watcher_wake(companion->wake_fd);
}

/* Without memory for all descriptors the others are polled. */
static void watcher_make_room(struct watcher *w)
{
	struct pollfd *fds;
	size_t n = 1;

	for (struct companion *c = watch_companions; c; c = c->next)
		n++;
	if (n <= w->capacity)
		return;
	fds = realloc(w->fds, n * sizeof(*fds));
	if (!fds)
		return;
	w->fds = fds;
	w->capacity = n;
}

/* Drives all companions, and returns how long the watcher may sleep. */
static int watcher_round(struct watcher *w, nfds_t *n)
{
	int longest = WATCHER_SLEEP_MS;

	watcher_make_room(w);
	for (struct companion *c = watch_companions; c; c = c->next) {
		const coll_transport_t *t = c->context->plugin->backend.transport;

		if (companion_drive(c))
			longest = 0;
		if (companion_check_all(c) && longest > WATCHER_RETRY_MS)
			longest = WATCHER_RETRY_MS;
		if ((companion_watch_all(c) | companion_tell_all(c)) &&
		    longest > WATCHER_OUTSIDE_MS)
			longest = WATCHER_OUTSIDE_MS;
		if (!c->context->ep || !t->wait_fd || *n == w->capacity) {
			longest = longest < WATCHER_BLIND_MS ? longest : WATCHER_BLIND_MS;
			continue;
		}
		w->fds[(*n)++] =
			(struct pollfd){.fd = t->wait_fd(c->context->ep), .events = POLLIN};
	}
	return longest;
}

static void *watcher_run(void *arg)
{
	struct watcher *w = arg;
	int stop = 0, longest;
	uint64_t count;
	ssize_t got;

	while (!stop) {
		nfds_t n = 1;

		pthread_mutex_lock(&watch_lock);
		stop = w->stop;
		longest = stop ? 0 : watcher_round(w, &n);
		pthread_mutex_unlock(&watch_lock);
		w->fds[0] = (struct pollfd){.fd = w->wake_fd, .events = POLLIN};
		if (!poll(w->fds, n, longest))
			thread_let_signals_end();
		if (w->fds[0].revents & POLLIN) {
			got = read(w->wake_fd, &count, sizeof(count));
			(void)got;
		}
	}
	return NULL;
}

static void watcher_free(struct watcher *w)
{
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	free(w->fds);
	free(w);
}

/* The lock is held. */
static int watcher_start(void)
{
	struct watcher *w = calloc(1, sizeof(*w));
	int failed = 0;

	if (!w)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a thread");
	w->fds = calloc(1, sizeof(*w->fds));
	w->capacity = 1;
	w->wake_fd = descriptor_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (!w->fds || w->wake_fd < 0)
		failed = w->fds ? errno : ENOMEM;
	if (!failed)
		failed = thread_start(&w->thread, watcher_run, w);
	if (!failed) {
		watch_thread = w;
		return COLL_SUCCESS;
	}
	watcher_free(w);
	return error_set(COLL_ERR_SYSTEM,
			 "cannot start the thread that watches for lost ranks: %s%s",
			 strerror(failed), thread_advice(failed));
}

int companion_watch_begin(struct companion *c)
{
	int code = COLL_SUCCESS;

	pthread_mutex_lock(&watch_lock);
	if (!watch_thread)
		code = watcher_start();
	if (!code) {
		c->wake_fd = watch_thread->wake_fd;
		companion_tell(c, COMPANION_HELLO);
		c->next = watch_companions;
		watch_companions = c;
		companion_wake(c);
	}
	pthread_mutex_unlock(&watch_lock);
	return code;
}

/* The thread ends with the last companion. */
void companion_watch_end(const struct companion *companion)
{
	struct watcher *over = NULL;

	pthread_mutex_lock(&watch_lock);
	for (struct companion **at = &watch_companions; *at; at = &(*at)->next)
		if (*at == companion) {
			*at = companion->next;
			break;
		}
	if (!watch_companions && watch_thread) {
		over = watch_thread;
		over->stop = 1;
		watch_thread = NULL;
		watcher_wake(over->wake_fd);
	}
	pthread_mutex_unlock(&watch_lock);
	if (!over)
		return;
	pthread_join(over->thread, NULL);
	watcher_free(over);
}

/* ----------------------------------------------------------------- what is watched -- */

/* Names the communicator of the context, by the secret that its ranks share. */
static uint64_t companion_channel(const struct context *context)
{
	static const char label[] = "libcoll companion";
	uint8_t key[BOOTSTRAP_KEY_SIZE], name[16];
	uint64_t channel;

	bootstrap_key(context->bootstrap, key);
	siphash128(key, label, sizeof(label), name);
	memcpy(&channel, name, sizeof(channel));
	return channel;
}

void companion_watch(struct context *context)
{
	struct companion *c = context->companion;

	if (!c)
		return;
	context->channel = companion_channel(context);
	pthread_mutex_lock(&watch_lock);
	context->next_watched = c->watched;
	c->watched = context;
	context_lock(c->context);
	companion_deliver_early(c, context);
	lock_release(&c->context->lock);
	companion_raise_all(c);
	companion_abort_ended(c);
	pthread_mutex_unlock(&watch_lock);
}

void companion_forget(struct context *context)
{
	struct companion *c = context->companion;
	struct unexpected *e;

	if (!c)
		return;
	pthread_mutex_lock(&watch_lock);
	for (struct context **at = &c->watched; *at; at = &(*at)->next_watched)
		if (*at == context) {
			*at = context->next_watched;
			break;
		}
	pthread_mutex_unlock(&watch_lock);
	while ((e = companion_receive(context)))
		free(e);
}

int companion_watches(const struct companion *c)
{
	int watches;

	pthread_mutex_lock(&watch_lock);
	watches = c->watched != NULL;
	pthread_mutex_unlock(&watch_lock);
	return watches;
}

/* --------------------------------------------------------------------------- fork -- */

void companion_fork_lock(void)
{
	pthread_mutex_lock(&watch_lock);
}

void companion_fork_unlock(void)
{
	pthread_mutex_unlock(&watch_lock);
}

/* The thread does not exist in the child; wait_forked closes the endpoints' descriptors. */
void companion_forked(void)
{
	watch_inherited = watch_companions;
	watch_companions = NULL;
	if (watch_thread)
		watcher_free(watch_thread);
	watch_thread = NULL;
}
