/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_engine.c - a backend without a transport, for ranks that are threads of one process: an
 * engine with streams, collectives, events, split and shrink of its own.  A call only queues its
 * work; the next caller of any function moves the streams of all ranks as far as possible.  With
 * ENGINE_BARE this is a second backend, 'bare', without optional functions; with ENGINE_TOGETHER a
 * third, 'together', that opens the endpoints of all ranks in one call.
 */
#include "coll_engine_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(ENGINE_BARE)
#define ENGINE_NAME "bare"
#elif defined(ENGINE_TOGETHER)
#define ENGINE_NAME "together"
#else
#define ENGINE_NAME "engine"
#endif

static int32_t engine_enqueue(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct engine *e = ep;
	int32_t code;

	pthread_mutex_lock(&engine_lock);
	if (args->kind == COLL_KIND_ALLREDUCE && args->op == COLL_AVG) {
		e->refused = 1;
		code = engine_error(err, COLL_ERR_UNSUPPORTED, "the engine knows no averages");
	} else {
		code = engine_queue(ep, ITEM_CALL, args, args->stream, NULL, err);
	}
	pthread_mutex_unlock(&engine_lock);
	return code;
}

static int32_t engine_query(void *ep, coll_error_t *err)
{
	struct engine *e = ep;
	int32_t code;

	pthread_mutex_lock(&engine_lock);
	engine_progress();
	code = e->stream[0].head ? COLL_IN_PROGRESS : COLL_SUCCESS;
	if (e->world->code)
		code = engine_error(err, e->world->code, e->world->failure);
	pthread_mutex_unlock(&engine_lock);
	return code;
}

static int32_t engine_async_error(void *ep, coll_error_t *err)
{
	int32_t code = engine_query(ep, err);

	return code == COLL_IN_PROGRESS ? COLL_SUCCESS : code;
}

static int32_t engine_sync(void *ep, int64_t timeout_ms, coll_error_t *err)
{
	const struct timespec moment = {.tv_nsec = 100000};
	int32_t code = engine_query(ep, err);

	for (int64_t i = 0; code == COLL_IN_PROGRESS && i < 10 * timeout_ms; i++) {
		nanosleep(&moment, NULL);
		code = engine_query(ep, err);
	}
	return code == COLL_IN_PROGRESS ? engine_error(err, COLL_ERR_TIMEOUT, "not yet") : code;
}

static int32_t engine_group_begin(void *ep, coll_error_t *err)
{
	(void)err;
	pthread_mutex_lock(&engine_lock);
	((struct engine *)ep)->in_group++;
	pthread_mutex_unlock(&engine_lock);
	return COLL_SUCCESS;
}

static int32_t engine_group_end(void *ep, coll_error_t *err)
{
	(void)err;
	pthread_mutex_lock(&engine_lock);
	((struct engine *)ep)->in_group--;
	engine_progress();
	pthread_mutex_unlock(&engine_lock);
	return COLL_SUCCESS;
}

/* Drops all work from the endpoint's streams. */
static void engine_clear(struct engine *e)
{
	for (int i = 0; i <= ENGINE_STREAMS; i++)
		while (e->stream[i].head)
			engine_pop(&e->stream[i]);
}

/* Ends the calls of all ranks, so that the engine touches none of their buffers any more. */
static void engine_abort(void *ep)
{
	struct engine *e = ep;
	uint32_t silent = 0;
	char what[100];

	pthread_mutex_lock(&engine_lock);
	while (silent < e->world->nranks && engine_next(e->world->rank[silent]))
		silent++;
	snprintf(what, sizeof(what), "has ended the engine's work, which waited for rank %u",
		 (unsigned)silent);
	if (e->refused)
		engine_clear(e);
	else
		engine_fail(e->world, COLL_ERR_REMOTE, what, e->host->rank);
	pthread_mutex_unlock(&engine_lock);
}

/* ------------------------------------------------------------- making endpoints -- */

static void engine_close(void *ep, int64_t timeout_ms)
{
	struct engine *e = ep;
	struct world *w = e->world;

	(void)timeout_ms;
	pthread_mutex_lock(&engine_lock);
	engine_clear(e);
	if (w) {
		w->rank[e->host->rank] = NULL;
		w->refs--;
	}
	if (w && !w->refs) {
		struct world **at = &engine_worlds;

		while (*at != w)
			at = &(*at)->next;
		*at = w->next;
		free(w->rank);
		free(w);
	}
	pthread_mutex_unlock(&engine_lock);
	free(e);
}

static struct world *engine_world(const coll_host_t *host)
{
	struct world *w = engine_worlds;

	while (w && memcmp(w->key, host->key, sizeof(w->key)) != 0)
		w = w->next;
	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w || !(w->rank = calloc(host->nranks, sizeof(struct engine *)))) {
		free(w);
		return NULL;
	}
	memcpy(w->key, host->key, sizeof(w->key));
	w->nranks = host->nranks;
	w->next = engine_worlds;
	engine_worlds = w;
	return w;
}

/* The caller holds the lock. */
static int32_t engine_join(struct engine *e, coll_error_t *err)
{
	struct world *w = engine_world(e->host);

	if (!w)
		return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for an engine");
	e->world = w;
	w->rank[e->host->rank] = e;
	w->refs++;
	w->joined++;
	return COLL_SUCCESS;
}

/* Waits until all ranks have come; the caller holds the lock, which is released during the wait. */
static int32_t engine_rendezvous(struct engine *e, coll_error_t *err)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	int32_t code = engine_join(e, err);
	const struct world *w = e->world;

	if (code)
		return code;
	for (int64_t i = 0; w->joined < w->nranks; i++) {
		if (i == e->host->timeout_ms || e->host->aborted(e->host))
			return engine_error(err, COLL_ERR_TIMEOUT, "not all ranks have come");
		pthread_mutex_unlock(&engine_lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&engine_lock);
	}
	return COLL_SUCCESS;
}

static struct engine *engine_new(const coll_host_t *host, const char *how)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->host = host;
	e->handle.made = how;
	e->handle.thread = (int)gettid();
	e->handle.device = host->device;
	for (int i = 0; i <= ENGINE_STREAMS; i++) {
		e->stream[i].last = &e->stream[i].head;
		if (i)
			e->handle.stream[i - 1] = &e->stream[i];
	}
	return e;
}

static int32_t engine_make(const coll_host_t *host, const char *how, void **ep, coll_error_t *err)
{
	struct engine *e = engine_new(host, how);
	int32_t code;

	*ep = e;
	if (!e)
		return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	pthread_mutex_lock(&engine_lock);
	code = engine_rendezvous(e, err);
	pthread_mutex_unlock(&engine_lock);
	if (!code && host->option_int(host, "refuse") == (int64_t)host->nranks && !host->rank)
		code = engine_error(err, COLL_ERR_DEVICE, "told to refuse so many ranks");
	return code;
}

/* No rank waits for ranks that have not begun. */
static int32_t engine_together(const coll_host_t *host, coll_error_t *err)
{
	char here = 1, *all = malloc(host->nranks);
	int32_t code;

	if (!all)
		return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for the ranks");
	code = host->exchange(host, &here, all, 1, host->timeout_ms, err);
	free(all);
	return code;
}

static int32_t engine_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	int32_t code = engine_together(host, err);

	return code ? code : engine_make(host, "open", ep, err);
}

#ifdef ENGINE_TOGETHER
static int32_t engine_open_all(const coll_host_t *const *hosts, uint32_t n, void **eps,
			       coll_error_t *err)
{
	int32_t code = COLL_SUCCESS;

	for (uint32_t i = 0; !code && i < n; i++) {
		if (hosts[i]->rank != i || hosts[i]->nranks != n || eps[i])
			return engine_error(err, COLL_ERR_INTERNAL, "not the ranks in their order");
		if (i && hosts[0]->option_int(hosts[0], "refuse") == (int64_t)n)
			return engine_error(err, COLL_ERR_DEVICE, "told to refuse so many ranks");
		eps[i] = engine_new(hosts[i], "open_all");
		if (!eps[i])
			return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
		pthread_mutex_lock(&engine_lock);
		code = engine_join(eps[i], err);
		pthread_mutex_unlock(&engine_lock);
	}
	return code;
}
#endif

static void *engine_handle(void *ep)
{
	return ep;
}

#ifndef ENGINE_BARE
/* Returns only after the other ranks' timeout, or when this rank is aborted. */
static int32_t engine_dawdle(const coll_host_t *host, coll_error_t *err)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	for (int64_t i = 0; i < host->timeout_ms && !host->aborted(host); i++)
		nanosleep(&moment, NULL);
	return engine_error(err, COLL_ERR_ABORTED, "has dawdled");
}

static int32_t engine_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			    void **newep, coll_error_t *err)
{
	int32_t code;

	(void)ep;
	(void)key;
	*newep = NULL;
	if (color < 0)
		return COLL_SUCCESS;
	if (newhost->rank && newhost->option_int(newhost, "dawdle"))
		return engine_dawdle(newhost, err);
	code = engine_together(newhost, err);
	return code ? code : engine_make(newhost, "split", newep, err);
}

static int32_t engine_shrink(void *ep, const int32_t *exclude, int32_t n,
			     const coll_host_t *newhost, void **newep, coll_error_t *err)
{
	const struct engine *e = ep;

	for (int32_t i = 0; i < n; i++)
		if (exclude[i] < 0 || exclude[i] >= (int32_t)e->host->nranks)
			return engine_error(err, COLL_ERR_INTERNAL, "excludes an unknown rank");
	if (newhost->nranks + (uint32_t)n != e->host->nranks)
		return engine_error(err, COLL_ERR_INTERNAL, "excludes a rank twice");
	return engine_make(newhost, "shrink", newep, err);
}

/* ---------------------------------------------------------------------- events -- */

struct event {
	struct mark *mark;
};

static int32_t engine_event_create(void *ep, void **event, coll_error_t *err)
{
	(void)ep;
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : engine_error(err, COLL_ERR_NO_MEMORY, "no memory for an event");
}

static void engine_event_destroy(void *ep, void *event)
{
	(void)ep;
	pthread_mutex_lock(&engine_lock);
	engine_drop(((struct event *)event)->mark);
	pthread_mutex_unlock(&engine_lock);
	free(event);
}

static int32_t engine_event_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct event *ev = event;
	struct mark *mark = calloc(1, sizeof(*mark));
	int32_t code;

	if (!mark)
		return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for an event");
	mark->refs = 2;
	pthread_mutex_lock(&engine_lock);
	engine_drop(ev->mark);
	ev->mark = mark;
	code = engine_queue(ep, ITEM_RECORD, NULL, stream, mark, err);
	pthread_mutex_unlock(&engine_lock);
	return code;
}

static int32_t engine_event_wait(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct event *ev = event;
	int32_t code = COLL_SUCCESS;

	pthread_mutex_lock(&engine_lock);
	if (ev->mark) {
		ev->mark->refs++;
		code = engine_queue(ep, ITEM_WAIT, NULL, stream, ev->mark, err);
	}
	pthread_mutex_unlock(&engine_lock);
	return code;
}

static int32_t engine_event_query(void *ep, void *event, coll_error_t *err)
{
	const struct event *ev = event;
	const struct world *w = ((struct engine *)ep)->world;
	int32_t code = COLL_SUCCESS;

	pthread_mutex_lock(&engine_lock);
	engine_progress();
	if (ev->mark && !ev->mark->done)
		code = w->code ? engine_error(err, w->code, w->failure) : COLL_IN_PROGRESS;
	pthread_mutex_unlock(&engine_lock);
	return code;
}

static int32_t engine_event_synchronize(void *ep, void *event, int64_t timeout_ms,
					coll_error_t *err)
{
	const struct timespec moment = {.tv_nsec = 100000};
	int32_t code = engine_event_query(ep, event, err);

	for (int64_t i = 0; code == COLL_IN_PROGRESS && i < 10 * timeout_ms; i++) {
		nanosleep(&moment, NULL);
		code = engine_event_query(ep, event, err);
	}
	return code == COLL_IN_PROGRESS ? engine_error(err, COLL_ERR_TIMEOUT, "not yet") : code;
}
#endif

static const coll_native_t engine_slots = {
	.size = sizeof(coll_native_t),
	.allreduce = engine_enqueue,
	.broadcast = engine_enqueue,
	.allgather = engine_enqueue,
	.barrier = engine_enqueue,
	.group_begin = engine_group_begin,
	.group_end = engine_group_end,
	.query = engine_query,
	.sync = engine_sync,
	.async_error = engine_async_error,
	.abort = engine_abort,
#ifndef ENGINE_BARE
	.split = engine_split,
	.shrink = engine_shrink,
	.event_create = engine_event_create,
	.event_destroy = engine_event_destroy,
	.event_record = engine_event_record,
	.event_wait = engine_event_wait,
	.event_query = engine_event_query,
	.event_synchronize = engine_event_synchronize,
#endif
	.handle = engine_handle,
};

static const coll_option_t engine_options[] = {
	{.key = "refuse",
	 .fallback = "0",
	 .unit = "",
	 .help = "opening fails on rank 0 of so many",
	 .max = 64,
	 .type = COLL_OPTION_INT},
	{.key = "dawdle",
	 .fallback = "no",
	 .unit = "",
	 .help = "splits only rank 0 begins",
	 .type = COLL_OPTION_BOOL},
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS,
	.name = ENGINE_NAME,
	.version = "1.0",
	.description = "an engine for threads of one process",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.options = engine_options,
	.option_count = 2,
	.option_size = sizeof(coll_option_t),
	.native = &engine_slots,
	.open = engine_open,
	.close = engine_close,
#ifdef ENGINE_TOGETHER
	.open_all = engine_open_all,
#endif
};
