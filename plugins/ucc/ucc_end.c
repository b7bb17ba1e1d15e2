/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_end.c - ends an endpoint.
 *
 * The end of a context waits until its messages have left, and for that other ranks may have to move theirs: so another thread ends
 * the context.  Nothing can end a context with collectives under way, or with a team that is being made: it stays in memory, and
 * nobody calls UCC for it again.
 */
#include "ucc.h"
#include "base/kit_bounded.h"

#include <sched.h>
#include <stdlib.h>

enum {
	END_FINISH_MS = 10000, /* for a busy machine */
	/* A context that is at rest ends in a few milliseconds: the wait for that does not count as blocking. */
	END_REST_MS = 20
};

/* The end of one context. */
struct end {
	struct bounded call; /* first: end_run and end_free find the rest by it */
	ucc_lib_h lib;
	ucc_context_h context;
	ucc_team_h team; /* or NULL */
	struct ucc_exchange *exchange;
	struct end *next;
};

static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_changed;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static int end_count; /* contexts that are ending; `end_lock` guards it, and the list */
static struct end
	*end_kept; /* what UCC cannot end: the list shows leak checkers that it is not lost */

static void end_init(void)
{
	clock_cond_init(&end_changed);
}

static void end_add(int contexts)
{
	pthread_mutex_lock(&end_lock);
	end_count += contexts;
	pthread_cond_broadcast(&end_changed);
	pthread_mutex_unlock(&end_lock);
}

static void end_run(struct bounded *call)
{
	struct end *e = (void *)call;

	ucc_log_quiet();
	while (e->team && ucc_library.ucc_team_destroy(e->team) == UCC_INPROGRESS) {
		ucc_library.ucc_context_progress(e->context);
		sched_yield();
	}
	ucc_library.ucc_context_destroy(e->context);
	ucc_library_finalize(e->lib);
	free(e->exchange);
	end_add(-1);
}

static void end_free(struct bounded *call)
{
	free(call);
}

static struct end *end_of(const struct ucc *u)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->call = (struct bounded){.run = end_run, .free = end_free};
	e->lib = u->lib;
	e->context = u->context;
	e->team = u->team;
	e->exchange = u->exchange;
	return e;
}

/* 0: no thread could be started. */
static int end_start(const struct ucc *u, int64_t timeout_ms)
{
	struct end *e = end_of(u);

	pthread_once(&end_once, end_init);
	if (!e)
		return 0;
	end_add(1);
	if (bounded_start(&e->call)) {
		end_add(-1);
		free(e);
		return 0;
	}
	bounded_wait(&e->call, clock_deadline(timeout_ms));
	if (bounded_leave(&e->call))
		free(e);
	return 1;
}

static void end_keep(const struct ucc *u)
{
	struct end *e = end_of(u);

	if (e) {
		pthread_mutex_lock(&end_lock);
		e->next = end_kept;
		end_kept = e;
		pthread_mutex_unlock(&end_lock);
	}
	kit_log(u->host, COLL_LOG_DEBUG,
		"UCC's context stays in memory: UCC cannot cancel what is under way, and ends "
		"nothing when the process ends");
}

static void end_without_context(struct ucc *u)
{
	if (u->lib && !ucc_queue_is_stopped())
		ucc_library_finalize(u->lib);
	free(u->exchange);
}

void ucc_close(void *ep, int64_t timeout_ms)
{
	struct ucc *u = ep;
	const int ends = ucc_queue_is_at_rest(u) && !u->unfinished && !ucc_queue_is_stopped();
	/* One thread may end the endpoints of all ranks, one after the other. */
	const int alone = u->nranks > 1 && kit_all_share(u->host, COLL_SHARES_PROCESS);
	const int64_t wait_ms = alone || timeout_ms < END_REST_MS ? END_REST_MS : timeout_ms;

	ucc_log_remove(u);
	if (!u->context)
		end_without_context(u);
	else if (!ends || !end_start(u, wait_ms))
		end_keep(u);
	ucc_queue_free(u);
	free(u);
}

void ucc_finish(void)
{
	const int64_t deadline = clock_deadline(END_FINISH_MS);

	ucc_queue_stop();
	pthread_once(&end_once, end_init);
	pthread_mutex_lock(&end_lock);
	while (end_count && !clock_cond_wait(&end_changed, &end_lock, deadline))
		;
	pthread_mutex_unlock(&end_lock);
}
