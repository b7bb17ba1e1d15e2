/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resolve.c - getaddrinfo with a timeout.  getaddrinfo waits for name servers as long as resolv.conf says, and
 * nothing can end it: it runs in a thread, which is left to itself after the timeout.
 */
#include "socket/resolve.h"
#include "base/late.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct resolve {
	struct late late;
	char host[RESOLVE_HOST_SIZE];
	struct addrinfo hints;
	struct addrinfo *list;
	int rc, err; /* of getaddrinfo: its result, and errno */
};

static void resolve_leave(struct resolve *r)
{
	if (!late_leave(&r->late))
		return;
	if (r->list)
		freeaddrinfo(r->list);
	free(r);
}

static void *resolve_run(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *list = NULL;

	r->rc = getaddrinfo(r->host, NULL, &r->hints, &list);
	r->err = errno;
	r->list = r->rc ? NULL : list;
	late_give(&r->late);
	resolve_leave(r);
	return NULL;
}

static struct resolve *resolve_new(const char *host, const struct addrinfo *hints)
{
	struct resolve *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	late_init(&r->late);
	snprintf(r->host, sizeof(r->host), "%s", host);
	r->hints = *hints;
	return r;
}

static int resolve_start(struct resolve *r)
{
	pthread_t thread;
	int failed = thread_start(&thread, resolve_run, r);

	if (!failed)
		pthread_detach(thread);
	return failed;
}

int resolve(const char *host, const struct addrinfo *hints, int64_t timeout_ms,
	    struct addrinfo **list)
{
	struct addrinfo numeric = *hints;
	struct resolve *r;
	int rc, err;

	*list = NULL;
	numeric.ai_flags |= AI_NUMERICHOST;
	rc = getaddrinfo(host, NULL, &numeric, list);
	/* An address needs no name server, and a thread might not run before a short timeout. */
	if (!rc || hints->ai_flags & AI_NUMERICHOST)
		return rc;
	*list = NULL;
	r = resolve_new(host, hints);
	if (r && resolve_start(r)) {
		resolve_leave(r); /* for the thread */
		resolve_leave(r);
		r = NULL;
	}
	if (!r) /* nothing to wait for, or no thread: better late than never */
		return getaddrinfo(host, NULL, hints, list);
	rc = RESOLVE_TIMED_OUT;
	err = errno;
	if (late_wait(&r->late, timeout_ms)) {
		rc = r->rc;
		err = r->err;
		*list = r->list;
		r->list = NULL;
	}
	resolve_leave(r);
	errno = err;
	return rc;
}
