/* SPDX-License-Identifier: BSD-3-Clause */
/* watcher.c - the thread that drives control channels: it notices lost ranks, and what other ranks say of their failures. */
#include "transport/channel_impl.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "endpoint/context_log.h"
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
	WATCHER_RETRY_MS = 2,     /* news that no call takes are tried again so soon */
	WATCHER_OUTSIDE_MS =
		250, /* programs that may wait outside the library are looked at so often */
	WATCHER_GRACE_MS = 100, /* see channel.grace */
	WATCHER_POLL_MS =
		200 /* another thread that drives channels waits so long for the watcher */
};

/* The thread of the process, while it has channels. */
struct watcher {
	pthread_t thread;
	int wake_fd;
	int stop; /* a later channel has another thread */
	struct pollfd *fds;
	size_t capacity;
};

/* Guards the list, all channels in it, and the watcher's `stop`. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *watch_channels;
static struct watcher *watch_thread;
static struct channel *watch_inherited; /* in a child process: the parent's, so that they stay
					     reachable; never used */

static struct context *watcher_next(const struct context *context)
{
	return traffic_of(context)->next_watched;
}

/* Has the backend a transport?  Then the watcher only notes lost ranks: some transports let only the program's threads call them. */
static int watcher_is_transport(const struct context *context)
{
	return context->plugin->backend.transport != NULL;
}

/* ------------------------------------------------------------- the failure notice -- */

int channel_has_lost(const struct context *context, int rank)
{
	const struct channel *c = traffic_of(context)->channel;

	return c && atomic_load(&c->lost[channel_rank(context, rank)]);
}

/* Writes a sentence for each lost rank of the context.  Returns 0 if there is none. */
static size_t watcher_describe(const struct channel *c, const struct context *context, char *text,
			       size_t size)
{
	size_t n = 0;

	for (int r = 0; r < context->nranks && n < size; r++) {
		const int world = channel_rank(context, r);
		char name[48];

		if (!atomic_load(&c->lost[world]))
			continue;
		snprintf(name, sizeof(name), world == r ? "rank %d" : "rank %d (world rank %d)", r,
			 world);
		n += (size_t)snprintf(text + n, size - n, "%s%s was lost: %s", n ? "; " : "", name,
				      c->control->failure[world]);
	}
	return n;
}

/* The first failure notice of a context stays.  It stands before the backend's abort ends any call. */
static int watcher_raise(const struct channel *c, struct context *context)
{
	char text[sizeof(context->notice.text)];

	if (!watcher_describe(c, context, text, sizeof(text)))
		return 0;
	if (!atomic_load(&context->notice.code)) {
		memcpy(context->notice.text, text, sizeof(text));
		atomic_store(&context->notice.code, COLL_ERR_PEER_LOST);
	}
	return 1;
}

int watcher_check_ranks(const struct context *context)
{
	char text[sizeof(context->notice.text)];
	size_t n = 0;

	if (!traffic_of(context)->channel)
		return COLL_SUCCESS;
	pthread_mutex_lock(&watch_lock);
	n = watcher_describe(traffic_of(context)->channel, context, text, sizeof(text));
	pthread_mutex_unlock(&watch_lock);
	return n ? error_set(COLL_ERR_PEER_LOST, "%s", text) : COLL_SUCCESS;
}

void channel_end(struct context *context)
{
	if (traffic_of(context)->channel)
		channel_wake(traffic_of(context)->channel);
}

/* Has channel_report_lost a rank to report? */
static int watcher_has_news(const struct context *context)
{
	const struct channel *c = traffic_of(context)->channel;
	int r = 0;

	if (!watcher_is_transport(context))
		return 0;
	while (r < context->nranks && !channel_is_silent(c, context, r))
		r++;
	return r < context->nranks;
}

void channel_await(const struct context *context, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	while (traffic_of(context)->channel && !atomic_load(&context->notice.ended) &&
	       !watcher_has_news(context) && clock_remaining(deadline) > 0)
		clock_nap(1000);
}

static int watcher_owes_abort(const struct context *context)
{
	return atomic_load(&context->notice.ended) && !atomic_load(&context->notice.aborted);
}

void watcher_spare(struct context *context, const struct context_making *making, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	if (!traffic_of(context)->channel)
		return;
	pthread_mutex_lock(&watch_lock);
	while (watcher_owes_abort(context) && clock_remaining(deadline) > 0) {
		pthread_mutex_unlock(&watch_lock);
		channel_wake(traffic_of(context)->channel);
		clock_nap(1000);
		pthread_mutex_lock(&watch_lock);
	}
	traffic_of(context)->shrinking = making;
	pthread_mutex_unlock(&watch_lock);
}

void watcher_spare_no_more(struct context *context)
{
	if (!traffic_of(context)->channel)
		return;
	pthread_mutex_lock(&watch_lock);
	traffic_of(context)->shrinking = NULL;
	pthread_mutex_unlock(&watch_lock);
	channel_wake(traffic_of(context)->channel);
}

/* Takes the news of a context, and releases its lock. */
static void watcher_check_locked(struct context *w)
{
	w->now_is_recent = 0;
	w->client->check(w);
	lock_release(&w->lock);
}

/*
 * The communicator fails first, unless a call holds the lock for long: it releases streams that wait for other operations,
 * for which the backend's abort would wait.
 */
static void watcher_check_ended(struct context *w)
{
	/* An abort by the program fails the communicator itself, and has released the streams. */
	if (!atomic_load(&w->aborted) && context_lock_within(w, WATCHER_LOCK_MS))
		watcher_check_locked(w);
}

/* Does a call still hold the lock of the context, whose backend was aborted?  It cannot tell the program why: the log does. */
static void watcher_tell_why(struct context *w)
{
	if (lock_try(&w->lock)) {
		lock_release(&w->lock);
		w->notice.tell_us = 0;
	} else if (clock_now_us() >= w->notice.tell_us) {
		w->notice.tell_us = 0;
		if (w->notice.text[0])
			context_log(
				w, COLL_LOG_ERROR,
				"rank %d: backend '%s' does not return from a call, although the "
				"communicator has failed: %s",
				w->rank, w->plugin->backend.name, w->notice.text);
	}
}

/* 1: there may be something to tell. */
static int watcher_tell_all(const struct channel *c)
{
	int left = 0;

	for (struct context *w = c->watched; w; w = watcher_next(w)) {
		if (w->notice.tell_us)
			watcher_tell_why(w);
		left |= w->notice.tell_us != 0;
	}
	return left;
}

/* Each context has its failure notice before the first abort, which may take long. */
static void watcher_abort_ended(struct channel *c)
{
	for (struct context *w = c->watched; w; w = watcher_next(w)) {
		const coll_native_t *native = w->plugin->backend.native;

		if (!watcher_owes_abort(w) || traffic_of(w)->shrinking)
			continue;
		watcher_check_ended(w);
		if (native && native->abort)
			native->abort(w->ep);
		atomic_store(&w->notice.aborted, 1);
		if (!atomic_load(&w->aborted)) /* by the program */
			w->notice.tell_us = clock_now_us() + (int64_t)WATCHER_RETURN_MS * 1000;
	}
}

/* ------------------------------------------------------------- arrived messages -- */

/* Messages of the channel's own, with a tag of no communicator. */
#define WATCHER_TAG (MATCH_CONTROL | (uint64_t)0x3ffffff << 38 | (uint64_t)1 << 35)

void watcher_tell_ranks(const struct channel *c, int kind)
{
	const struct control_body body = {.kind = kind};

	for (int r = 0; r < c->control->nranks; r++)
		if (r != c->control->rank)
			traffic_send_control(c->control, r, WATCHER_TAG, &body, "", 1);
}

/* A call of the context, or the next call, learns of the news. */
static void watcher_notify(struct context *w)
{
	context_notify(w);
	if (w->host_context)
		context_notify(w->host_context);
}

/* Takes the messages of the channel's own.  The lock of its context is held in this function and the next. */
static void watcher_take_own(const struct channel *c)
{
	struct unexpected *e;

	while ((e = match_take(&traffic_of(c->control)->match, WATCHER_TAG))) {
		const struct control_body *body = (const void *)e->data;

		if (e->header.len >= sizeof(*body) && body->kind == WATCHER_LEAVE)
			c->left[e->peer] = 1;
		free(e);
	}
}

/* Notes the ranks that are lost since the last look.  Returns 1 if there are some. */
static int watcher_note_lost(struct channel *c)
{
	int news = 0;

	for (int r = 0; r < c->control->nranks; r++)
		if (c->control->failure[r] && !c->left[r] && !atomic_load(&c->lost[r])) {
			atomic_store(&c->lost[r], CHANNEL_LOST);
			if (!c->grace)
				c->grace = clock_deadline(WATCHER_GRACE_MS);
			news = 1;
		}
	return news;
}

/* The messages that have come for a native context. */
struct watcher_news {
	struct context *context;
	int any; /* there is at least one */
};

/*
 * Has the sender failed, as a survivor that takes part in the shrink?  The loss of another survivor ends it through
 * coll_host_t.aborted.
 */
static int watcher_ends_shrink(const struct context_making *making, int from, int code)
{
	int excluded = 0;

	for (int32_t i = 0; i < making->n; i++)
		excluded |= making->exclude[i] == from;
	return !excluded && code != COLL_ERR_PEER_LOST;
}

/* A message that ends the communicator: the first such message is the failure notice. */
static void watcher_take_end(struct context *w, int from, const struct control_body *body)
{
	char name[24] = "";

	if (traffic_of(w)->shrinking &&
	    watcher_ends_shrink(traffic_of(w)->shrinking, from, body->code))
		traffic_of(w)->shrinking = NULL;
	if (strncmp(body->text, "rank ", 5))
		snprintf(name, sizeof(name), "rank %d: ", from);
	if (!w->notice.text[0])
		snprintf(w->notice.text, sizeof(w->notice.text), "%s%s", name, body->text);
	atomic_store(&w->notice.ended, 1);
}

static void watcher_see(void *user, const struct unexpected *e)
{
	struct watcher_news *news = user;
	struct context *w = news->context;
	const struct control_body *body = (const void *)e->data;
	const int from = channel_rank_of(w, (int)e->peer);

	if (!e->complete || from < 0)
		return;
	news->any = 1;
	if (e->header.len > sizeof(*body) && traffic_of(w)->client->ends(body->kind) &&
	    !e->data[e->header.len - 1])
		watcher_take_end(w, from, body);
}

/* Tells each context whose messages have come.  The lock of the channel's context is held. */
static void watcher_see_all(struct channel *c)
{
	for (struct context *w = c->watched; w; w = watcher_next(w)) {
		struct watcher_news news = {w, 0};

		match_each(&traffic_of(c->control)->match, ~(uint64_t)0, traffic_of(w)->control_tag,
			   watcher_see, &news);
		if (news.any)
			watcher_notify(w);
	}
}

static void watcher_raise_all(struct channel *c)
{
	for (struct context *w = c->watched; w; w = watcher_next(w))
		if (!watcher_is_transport(w) && watcher_raise(c, w)) {
			atomic_store(&w->notice.ended, 1);
			watcher_notify(w);
		}
}

/*
 * A rank that fails says why over its transport, and the channel may lose the rank before this message has come.  So contexts
 * with a transport hear of a lost rank WATCHER_GRACE_MS later: the next call on such a context takes the news
 * (channel_report_lost).  Returns 1 while lost ranks wait for that time.
 */
static int watcher_tell_transports(struct channel *c)
{
	if (!c->grace)
		return 0;
	if (clock_remaining(c->grace))
		return 1;
	c->grace = 0;
	for (int r = 0; r < c->control->nranks; r++)
		if (atomic_load(&c->lost[r]))
			atomic_store(&c->lost[r], CHANNEL_SILENT);
	for (struct context *w = c->watched; w; w = watcher_next(w))
		if (watcher_is_transport(w))
			context_notify(w);
	return 0;
}

/* -------------------------------------------------------------------- the watcher -- */

/*
 * A program that waits elsewhere, say for a stream of its own, takes no messages: they are taken here, unless the
 * communicator has ended.  Never waits for the lock of a context.  Returns 1 if a call holds one, and the news are
 * still to be taken.
 */
static int watcher_check_all(struct channel *c)
{
	int left = 0;

	for (struct context *w = c->watched; w; w = watcher_next(w)) {
		if (watcher_is_transport(w) || !atomic_load(&w->notice.news) ||
		    atomic_load(&w->notice.ended))
			continue;
		if (!lock_try(&w->lock)) {
			left = 1;
			continue;
		}
		atomic_store(&w->notice.news, 0);
		watcher_check_locked(w);
	}
	return left;
}

/*
 * Asks the other ranks for programs that make no calls.  Returns 1 if there may be such programs.  Never waits for the
 * lock of a context.
 */
static int watcher_watch_all(struct channel *c)
{
	const int64_t now = clock_now_us();

	if (now - c->outside_us < (int64_t)WATCHER_OUTSIDE_MS * 1000)
		return c->outside;
	c->outside_us = now;
	c->outside = 0;
	for (struct context *w = c->watched; w; w = watcher_next(w)) {
		if (watcher_is_transport(w) || atomic_load(&w->notice.ended) || !lock_try(&w->lock))
			continue;
		w->now_is_recent = 0;
		c->outside |= traffic_of(w)->client->watch(w);
		lock_release(&w->lock);
	}
	return c->outside;
}

/* 1: the endpoint has more work. */
static int watcher_drive(struct channel *c)
{
	struct context *control = c->control;
	const coll_transport_t *t = control->plugin->backend.transport;
	int lost, came, more;

	context_lock(control);
	context_progress(control);
	watcher_take_own(c);
	lost = watcher_note_lost(c);
	came = control->control_count != c->seen; /* other threads drive the endpoint too */
	c->seen = control->control_count;
	more = control->ep && t->wait_fd && t->arm(control->ep);
	if (came) /* before anybody takes them */
		watcher_see_all(c);
	lock_release(&control->lock);
	if (lost)
		watcher_raise_all(c);
	watcher_abort_ended(c);
	return more;
}

void channel_poll(const struct context *context)
{
	/* The watcher has the lock while it aborts a backend. */
	if (!traffic_of(context)->channel || !clock_lock_within(&watch_lock, WATCHER_POLL_MS))
		return;
	(void)watcher_drive(traffic_of(context)->channel);
	if (traffic_of(context)->channel->grace) /* the watcher may sleep longer */
		channel_wake(traffic_of(context)->channel);
	pthread_mutex_unlock(&watch_lock);
}

static void watcher_wake(int wake_fd)
{
	CANCEL_OFF;
	uint64_t one = 1;
	ssize_t n = write(wake_fd, &one, sizeof(one));

	(void)n; /* a full counter means that a wake-up is already due */
}

void channel_wake(const struct channel *channel)
{
	watcher_wake(channel->wake_fd);
}

/* Without memory for all descriptors the watcher polls the endpoints that are left out. */
static void watcher_grow(struct watcher *w)
{
	struct pollfd *fds;
	size_t n = 1;

	for (struct channel *c = watch_channels; c; c = c->next)
		n++;
	if (n <= w->capacity)
		return;
	fds = realloc(w->fds, n * sizeof(*fds));
	if (!fds)
		return;
	w->fds = fds;
	w->capacity = n;
}

/* Drives all channels, and returns how long the watcher may sleep. */
static int watcher_round(struct watcher *w, nfds_t *n)
{
	int longest = WATCHER_SLEEP_MS;

	watcher_grow(w);
	for (struct channel *c = watch_channels; c; c = c->next) {
		const coll_transport_t *t = c->control->plugin->backend.transport;

		if (watcher_drive(c))
			longest = 0;
		if (watcher_check_all(c) && longest > WATCHER_RETRY_MS)
			longest = WATCHER_RETRY_MS;
		if ((watcher_watch_all(c) | watcher_tell_all(c)) && longest > WATCHER_OUTSIDE_MS)
			longest = WATCHER_OUTSIDE_MS;
		if (watcher_tell_transports(c) && longest > WATCHER_BLIND_MS)
			longest = WATCHER_BLIND_MS;
		if (!c->control->ep || !t->wait_fd || *n == w->capacity) {
			longest = longest < WATCHER_BLIND_MS ? longest : WATCHER_BLIND_MS;
			continue;
		}
		w->fds[(*n)++] =
			(struct pollfd){.fd = t->wait_fd(c->control->ep), .events = POLLIN};
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

/* --------------------------------------------------------------------------- fork -- */

static void watcher_fork_lock(void)
{
	pthread_mutex_lock(&watch_lock);
}

static void watcher_fork_unlock(void)
{
	pthread_mutex_unlock(&watch_lock);
}

/* The thread does not exist in the child; endpoint/wait_list.c closes the endpoints' descriptors. */
static void watcher_forked(void)
{
	watch_inherited = watch_channels;
	watch_channels = NULL;
	if (watch_thread)
		watcher_free(watch_thread);
	watch_thread = NULL;
	watcher_fork_unlock();
}

static void watcher_fork_register(void)
{
	pthread_atfork(watcher_fork_lock, watcher_fork_unlock, watcher_forked);
}

void channel_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watcher_fork_register);
}

int watcher_begin(struct channel *c)
{
	int code = COLL_SUCCESS;

	pthread_mutex_lock(&watch_lock);
	if (!watch_thread)
		code = watcher_start();
	if (!code) {
		c->wake_fd = watch_thread->wake_fd;
		watcher_tell_ranks(c, WATCHER_HELLO);
		c->next = watch_channels;
		watch_channels = c;
		channel_wake(c);
	}
	pthread_mutex_unlock(&watch_lock);
	return code;
}

/* The thread ends with the last channel. */
void watcher_end(const struct channel *channel)
{
	struct watcher *over = NULL;

	pthread_mutex_lock(&watch_lock);
	for (struct channel **at = &watch_channels; *at; at = &(*at)->next)
		if (*at == channel) {
			*at = channel->next;
			break;
		}
	if (!watch_channels && watch_thread) {
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

void channel_watch(struct context *context, uint64_t tag)
{
	struct channel *c = traffic_of(context)->channel;

	if (!c)
		return;
	pthread_mutex_lock(&watch_lock);
	traffic_of(context)->next_watched = c->watched;
	c->watched = context;
	context_lock(c->control);
	traffic_of(context)->control_tag = tag;
	watcher_see_all(c);
	lock_release(&c->control->lock);
	watcher_raise_all(c);
	watcher_abort_ended(c);
	if (watcher_is_transport(context))
		context_notify(context); /* ranks may be lost already */
	pthread_mutex_unlock(&watch_lock);
}

void channel_forget(struct context *context)
{
	struct channel *c = traffic_of(context)->channel;

	if (!c)
		return;
	pthread_mutex_lock(&watch_lock);
	for (struct context **at = &c->watched; *at; at = &traffic_of(*at)->next_watched)
		if (*at == context) {
			*at = traffic_of(context)->next_watched;
			break;
		}
	pthread_mutex_unlock(&watch_lock);
}

int watcher_watches(const struct channel *c)
{
	int watches;

	pthread_mutex_lock(&watch_lock);
	watches = c->watched != NULL;
	pthread_mutex_unlock(&watch_lock);
	return watches;
}
