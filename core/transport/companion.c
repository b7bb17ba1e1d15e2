/* SPDX-License-Identifier: BSD-3-Clause */
/* companion.c - the endpoint beside a native backend, and the thread that watches for lost ranks. */
#include "transport/companion.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	COMPANION_HELLO =
		1, /* connects the ranks of a transport that connects at the first message */
	COMPANION_LEAVE = 2, /* the sender has closed its communicators: its end is no failure */
	COMPANION_LEAVE_MS = 1000, /* longest wait until the other ranks have that message */
	WATCHER_SLEEP_MS = 1000,   /* bounds the cost of a missed wake-up */
	WATCHER_BLIND_MS = 10      /* a transport without a descriptor is polled so often */
};

struct companion {
	struct companion *next;
	struct context *context; /* of its own */
	struct context *watched; /* the native contexts: a list by next_watched */
	uint8_t *left;           /* per rank: it has left */
	_Atomic uint8_t *lost;   /* per rank: the connection has ended before it left */
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

static int companion_rank(const struct context *context, int rank)
{
	return context->origin ? context->origin[rank] : rank;
}

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
	atomic_store(&context->alarm.news, 1);
	context_wake(context);
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

void companion_await(const struct context *context, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	while (context->companion && !atomic_load(&context->alarm.code) &&
	       clock_remaining(deadline) > 0)
		poll(NULL, 0, 1);
}

static void companion_raise_all(struct companion *c)
{
	for (struct context *w = c->watched; w; w = w->next_watched)
		w->alarm.aborts = companion_raise(c, w) && !w->alarm.aborted;
	for (struct context *w = c->watched; w; w = w->next_watched) {
		const coll_native_t *native = w->plugin->backend.native;

		if (!w->alarm.aborts)
			continue;
		w->alarm.aborted = 1;
		if (native && native->abort)
			native->abort(w->ep);
	}
}

/* ---------------------------------------------------------------------- messages -- */

static void companion_take(struct companion *c, const struct unexpected *e)
{
	const struct control_body *body = (const void *)e->data;

	if (e->header.len >= sizeof(*body) && body->kind == COMPANION_LEAVE)
		c->left[e->peer] = 1;
}

/* Notes the ranks that have left or are lost since the last look: 1 if some are lost. */
static int companion_look(struct companion *c)
{
	struct context *context = c->context;
	struct unexpected *e;
	int news = 0;

	while ((e = match_take(&context->match, MATCH_CONTROL))) {
		companion_take(c, e);
		free(e);
	}
	for (int r = 0; r < context->nranks; r++)
		if (context->failure[r] && !c->left[r] && !atomic_load(&c->lost[r])) {
			atomic_store(&c->lost[r], 1);
			news = 1;
		}
	return news;
}

static void companion_drive(struct companion *c)
{
	context_lock(c->context);
	context_progress(c->context);
	pthread_mutex_unlock(&c->context->lock);
	if (companion_look(c))
		companion_raise_all(c);
}

static void companion_tell(const struct companion *c, int kind)
{
	for (int r = 0; r < c->context->nranks; r++)
		if (r != c->context->rank)
			context_send_control(c->context, r, MATCH_CONTROL, kind, 0, "");
}

/* The companion's context has no operations and no communicators. */
static void companion_received(struct recv *recv)
{
	(void)recv;
}

static int companion_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n)
{
	(void)recv;
	(void)dst;
	(void)bytes;
	(void)n;
	return COLL_ERR_INTERNAL;
}

static int companion_check_unexpected(struct context *context, uint32_t peer,
				      const coll_header_t *header)
{
	(void)context;
	(void)peer;
	return header->tag != MATCH_CONTROL;
}

static int companion_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return COLL_SUCCESS;
}

static void companion_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			       const coll_header_t *header)
{
	(void)context;
	(void)recv;
	(void)peer;
	(void)header;
}

static void companion_check(struct context *context)
{
	(void)context; /* companion_look follows every round */
}

static int companion_advance(struct context *context)
{
	(void)context;
	return 0;
}

static int companion_idle(const struct context *context)
{
	(void)context;
	return 0;
}

static const struct context_client companion_client = {
	.received = companion_received,
	.fill = companion_fill,
	.no_memory = companion_no_memory,
	.check_unexpected = companion_check_unexpected,
	.mismatch = companion_mismatch,
	.check = companion_check,
	.advance = companion_advance,
	.shut = companion_check,
	.awaits = companion_idle,
	.busy = companion_idle,
};

/* -------------------------------------------------------------------- the watcher -- */

static void watcher_wake(const struct watcher *w)
{
	uint64_t one = 1;
	ssize_t n = w ? write(w->wake_fd, &one, sizeof(one)) : 0;

	(void)n; /* a full counter means that a wake-up is already due */
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

		companion_drive(c);
		if (!c->context->ep || !t->wait_fd || *n == w->capacity) {
			longest = longest < WATCHER_BLIND_MS ? longest : WATCHER_BLIND_MS;
			continue;
		}
		if (t->arm(c->context->ep))
			longest = 0;
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
		poll(w->fds, n, longest);
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
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->fds || w->wake_fd < 0)
		failed = w->fds ? errno : ENOMEM;
	if (!failed)
		failed = thread_start(&w->thread, watcher_run, w);
	if (!failed) {
		watch_thread = w;
		return COLL_SUCCESS;
	}
	watcher_free(w);
	return error_set(COLL_ERR_SYSTEM, "cannot start the thread that watches for lost ranks: %s",
			 strerror(failed));
}

static int watcher_add(struct companion *c)
{
	int code = COLL_SUCCESS;

	pthread_mutex_lock(&watch_lock);
	if (!watch_thread)
		code = watcher_start();
	if (!code) {
		companion_tell(c, COMPANION_HELLO);
		c->next = watch_companions;
		watch_companions = c;
		watcher_wake(watch_thread);
	}
	pthread_mutex_unlock(&watch_lock);
	return code;
}

/* The thread ends with the last companion. */
static void watcher_remove(const struct companion *companion)
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
		watcher_wake(over);
	}
	pthread_mutex_unlock(&watch_lock);
	if (!over)
		return;
	pthread_join(over->thread, NULL);
	watcher_free(over);
}

/* ------------------------------------------------------------- opening and closing -- */

static void companion_free(struct companion *c, int64_t timeout_ms)
{
	if (c->context)
		context_withdraw(c->context, timeout_ms);
	free(c->left);
	free((void *)c->lost);
	free(c);
}

/* Opens the endpoint of this rank. */
static int companion_begin(struct companion *c, const struct context_parts *parts)
{
	const size_t n = (size_t)bootstrap_nranks(parts->bootstrap);
	int code = context_make(&c->context, parts);

	c->left = calloc(n, sizeof(*c->left));
	c->lost = calloc(n, sizeof(*c->lost));
	if (!code && (!c->left || !c->lost))
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %zu ranks", n);
	if (!code)
		code = context_open(c->context);
	return code ? code : watcher_add(c);
}

int companion_open(struct context *context, const struct plugin *plugin)
{
	const struct context_parts parts = {.client = &companion_client,
					    .bootstrap = context->bootstrap,
					    .config = context->config,
					    .plugin = plugin,
					    .selection = context->selection,
					    .device = -1};
	struct companion *c = calloc(1, sizeof(*c));
	struct error_first first = {0};
	int code = c ? companion_begin(c, &parts)
		     : error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");

	error_note(&first, context_all_ok(c ? c->context : NULL, context->bootstrap, code,
					  context->host.timeout_ms));
	if (first.code && c) {
		watcher_remove(c);
		companion_free(c, 0);
	} else if (!first.code) {
		context->companion = c;
	}
	bootstrap_watch(context->bootstrap, &context->aborted); /* the companion's context had it */
	return error_raise(&first);
}

static int companion_is_sending(const struct companion *c)
{
	context_progress(c->context);
	return context_controls_pending(c->context);
}

void companion_close(struct companion *c, int64_t timeout_ms)
{
	const int64_t most = timeout_ms < COMPANION_LEAVE_MS ? timeout_ms : COMPANION_LEAVE_MS;
	const int64_t deadline = clock_deadline(most);

	watcher_remove(c);
	context_lock(c->context);
	companion_tell(c, COMPANION_LEAVE);
	while (companion_is_sending(c) && clock_remaining(deadline) > 0)
		poll(NULL, 0, 1);
	pthread_mutex_unlock(&c->context->lock);
	companion_free(c, clock_remaining(deadline));
}

void companion_watch(struct context *context)
{
	struct companion *c = context->companion;

	if (!c)
		return;
	pthread_mutex_lock(&watch_lock);
	context->next_watched = c->watched;
	c->watched = context;
	companion_raise_all(c);
	pthread_mutex_unlock(&watch_lock);
}

void companion_forget(struct context *context)
{
	struct companion *c = context->companion;

	if (!c)
		return;
	pthread_mutex_lock(&watch_lock);
	for (struct context **at = &c->watched; *at; at = &(*at)->next_watched)
		if (*at == context) {
			*at = context->next_watched;
			break;
		}
	pthread_mutex_unlock(&watch_lock);
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
