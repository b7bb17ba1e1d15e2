/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_engine_run.c - moves the streams of all ranks, and does the work of a call when all ranks
 * have made it.
 */
#include "coll_engine_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
struct world *engine_worlds;

int32_t engine_error(coll_error_t *err, int32_t code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

void engine_fail(struct world *w, int32_t code, const char *what, uint32_t rank)
{
	if (w->code)
		return;
	w->code = code;
	snprintf(w->failure, sizeof(w->failure), "rank %u %s", (unsigned)rank, what);
}

/* --------------------------------------------------------------- running calls -- */

static size_t engine_size(int32_t dtype)
{
	static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1},
			     later[] = {2, 2, 1, 8, 16, 8, 16, 8, 16}; /* from COLL_INT16 on */

	return dtype < COLL_INT16 ? sizes[dtype] : later[dtype - COLL_INT16];
}

/* Completes a call on all ranks: call[r] is rank r's call. */
static int32_t engine_sum(struct world *w, const coll_args_t **call)
{
	const coll_host_t *host = w->rank[0]->host;
	size_t bytes = call[0]->count * engine_size(call[0]->dtype);
	char *sum = malloc(bytes + 1);
	int32_t code = sum ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;

	if (!code && bytes)
		memcpy(sum, call[0]->sendbuf, bytes);
	for (uint32_t r = 1; !code && r < w->nranks; r++)
		code = host->reduce(host, sum, sum, call[r]->sendbuf, call[0]->count,
				    call[0]->dtype, call[0]->op);
	for (uint32_t r = 0; !code && r < w->nranks && bytes; r++)
		memcpy(call[r]->recvbuf, sum, bytes);
	free(sum);
	return code;
}

static void engine_copy(struct world *w, const coll_args_t **call)
{
	size_t bytes = call[0]->count * engine_size(call[0]->dtype);

	for (uint32_t to = 0; to < w->nranks && bytes; to++)
		for (uint32_t from = 0; from < w->nranks; from++) {
			char *dst = call[to]->recvbuf;

			if (call[0]->kind == COLL_KIND_ALLGATHER)
				memmove(dst + from * bytes, call[from]->sendbuf, bytes);
			else if ((int32_t)from == call[0]->root && dst != call[from]->sendbuf)
				memmove(dst, call[from]->sendbuf, bytes);
		}
}

static void engine_call(struct world *w, const coll_args_t **call)
{
	int32_t code = COLL_SUCCESS;

	for (uint32_t r = 1; r < w->nranks; r++)
		if (call[r]->kind != call[0]->kind || call[r]->count != call[0]->count)
			engine_fail(w, COLL_ERR_MISMATCH, "makes another call than rank 0", r);
	if (w->code)
		return;
	if (call[0]->kind == COLL_KIND_ALLREDUCE)
		code = engine_sum(w, call);
	else if (call[0]->kind != COLL_KIND_BARRIER)
		engine_copy(w, call);
	if (code)
		engine_fail(w, code, "cannot reduce this", 0);
}

/* ------------------------------------------------------------------ the streams -- */

void engine_drop(struct mark *mark)
{
	if (mark && --mark->refs == 0)
		free(mark);
}

void engine_pop(struct stream *s)
{
	struct item *item = s->head;

	s->head = item->next;
	if (!s->head)
		s->last = &s->head;
	engine_drop(item->mark);
	free(item);
}

/* Passes stream items that need no other rank; returns 1 if there were any. */
static int engine_pass(struct engine *e)
{
	int moved = 0;

	for (int i = 0; i <= ENGINE_STREAMS; i++) {
		struct stream *s = &e->stream[i];

		while (s->head && s->head->what != ITEM_CALL &&
		       (s->head->what == ITEM_RECORD || s->head->mark->done)) {
			s->head->mark->done = 1;
			engine_pop(s);
			moved = 1;
		}
	}
	return moved;
}

struct stream *engine_next(struct engine *e)
{
	for (int i = 0; e && !e->in_group && i <= ENGINE_STREAMS; i++) {
		struct item *head = e->stream[i].head;

		if (head && head->what == ITEM_CALL && head->seq == e->world->seq)
			return &e->stream[i];
	}
	return NULL;
}

/* Does a rank wait for a rank that has closed its endpoint? */
static void engine_lost(struct world *w)
{
	uint32_t r = 0;

	while (w->rank[r])
		r++;
	engine_fail(w, COLL_ERR_PEER_LOST, "has left", r);
}

/* Runs a call that all ranks have reached; returns 1 if there was one. */
static int engine_run(struct world *w)
{
	const coll_args_t **call = calloc(w->nranks, sizeof(*call));
	uint32_t n = 0;

	while (call && n < w->nranks && engine_next(w->rank[n])) {
		call[n] = &engine_next(w->rank[n])->head->args;
		n++;
	}
	for (uint32_t r = 0; r < w->nranks && w->refs < w->nranks; r++)
		if (engine_next(w->rank[r]))
			engine_lost(w);
	if (n == w->nranks && !w->code)
		engine_call(w, call);
	free(call);
	if (n < w->nranks || w->code)
		return 0;
	for (uint32_t r = 0; r < n; r++)
		engine_pop(engine_next(w->rank[r]));
	w->seq++;
	return 1;
}

void engine_progress(void)
{
	int moved = 1;

	while (moved) {
		moved = 0;
		for (struct world *w = engine_worlds; w; w = w->next) {
			for (uint32_t r = 0; r < w->nranks; r++)
				moved |= w->rank[r] && !w->code && engine_pass(w->rank[r]);
			moved |= w->joined >= w->nranks && !w->code && engine_run(w);
		}
	}
}

int32_t engine_queue(struct engine *e, int what, const coll_args_t *args, void *stream,
		     struct mark *mark, coll_error_t *err)
{
	struct item *item = calloc(1, sizeof(*item));
	struct stream *s = stream ? stream : &e->stream[0];

	if (!item) {
		engine_drop(mark);
		return engine_error(err, COLL_ERR_NO_MEMORY, "no memory for the queue");
	}
	item->what = what;
	item->mark = mark;
	if (args) {
		item->args = *args;
		item->seq = e->issued++;
	}
	*s->last = item;
	s->last = &item->next;
	engine_progress();
	return COLL_SUCCESS;
}
