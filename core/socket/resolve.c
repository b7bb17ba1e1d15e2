/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resolve.c - getaddrinfo with a timeout.  getaddrinfo waits for name servers as long as resolv.conf says, and
 * nothing can end it: it runs in a thread, which is left to itself after the timeout.
 */
#include "socket/resolve.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct resolve {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int users; /* the caller and the thread: the last one frees this */
	int done;
	char host[RESOLVE_HOST_SIZE];
	struct addrinfo hints;
	struct addrinfo *list;
	int rc, err; /* of getaddrinfo: its result, and errno */
};

static void resolve_unref(struct resolve *r)
{
	int last;

	pthread_mutex_lock(&r->lock);
	last = --r->users == 0;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	if (r->list)
		freeaddrinfo(r->list);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void *resolve_run(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(r->host, NULL, &r->hints, &list), err = errno;

	pthread_mutex_lock(&r->lock);
	r->rc = rc;
	r->err = err;
	r->list = rc ? NULL : list;
	r->done = 1;
	pthread_cond_signal(&r->ended);
	pthread_mutex_unlock(&r->lock);
	resolve_unref(r);
	return NULL;
}

static struct resolve *resolve_new(const char *host, const struct addrinfo *hints)
{
	struct resolve *r = calloc(1, sizeof(*r));
	pthread_condattr_t monotonic;

	if (!r)
		return NULL;
	snprintf(r->host, sizeof(r->host), "%s", host);
	r->hints = *hints;
	r->users = 2;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&r->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return r;
}

/* Signals are the application's threads'. */
static int resolve_start(struct resolve *r)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attr, resolve_run, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed;
}

/* Waits for the thread: 0 after the timeout. */
static int resolve_wait(struct resolve *r, int64_t timeout_ms, struct addrinfo **list, int *rc)
{
	const int64_t until = clock_deadline(timeout_ms);
	const struct timespec t = {until / 1000, until % 1000 * 1000000};
	int done;

	pthread_mutex_lock(&r->lock);
	while (!r->done && pthread_cond_timedwait(&r->ended, &r->lock, &t) != ETIMEDOUT)
		;
	done = r->done;
	if (done) {
		*list = r->list;
		*rc = r->rc;
		errno = r->err;
		r->list = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	return done;
}

int resolve(const char *host, const struct addrinfo *hints, int64_t timeout_ms,
	    struct addrinfo **list)
{
	struct addrinfo numeric = *hints;
	struct resolve *r;
	int rc, done, err;

	*list = NULL;
	numeric.ai_flags |= AI_NUMERICHOST;
	rc = getaddrinfo(host, NULL, &numeric, list);
	/* An address needs no name server, and a thread might not run before a short timeout. */
	if (!rc || hints->ai_flags & AI_NUMERICHOST)
		return rc;
	*list = NULL;
	r = resolve_new(host, hints);
	if (r && resolve_start(r)) {
		r->users--;
		resolve_unref(r);
		r = NULL;
	}
	if (!r) /* nothing to wait for, or no thread: better late than never */
		return getaddrinfo(host, NULL, hints, list);
	done = resolve_wait(r, timeout_ms, list, &rc);
	err = errno;
	resolve_unref(r);
	errno = err;
	return done ? rc : RESOLVE_TIMED_OUT;
}
