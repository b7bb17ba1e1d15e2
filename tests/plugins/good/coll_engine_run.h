/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_engine_run.h - the streams of backend 'engine', and the work on them. */
#ifndef TESTS_PLUGINS_COLL_ENGINE_RUN_H
#define TESTS_PLUGINS_COLL_ENGINE_RUN_H

#include "coll_engine.h"
#include <coll/backend.h>

#include <pthread.h>

/* A position in a stream; freed when it is complete and nothing refers to it. */
struct mark {
	int refs, done;
};

enum { ITEM_CALL, ITEM_RECORD, ITEM_WAIT };

struct item {
	struct item *next;
	int what;
	coll_args_t args;
	uint64_t seq; /* number of a call: calls run in this order, whatever their stream */
	struct mark *mark;
};

struct stream {
	struct item *head, **last;
};

/* The endpoints of one communicator. */
struct world {
	struct world *next;
	uint8_t key[16];
	uint32_t nranks, joined, refs;
	struct engine **rank;
	uint64_t seq; /* number of the call that runs next */
	int32_t code; /* the error after which no more call runs, and its text */
	char failure[200];
};

struct engine {
	struct engine_handle handle; /* the first member, because a test gets its address */
	const coll_host_t *host;
	struct world *world;
	struct stream stream[1 + ENGINE_STREAMS];
	uint64_t issued;
	int in_group; /* nesting of groups; calls wait for the end of the group */
	int refused;  /* a call that the engines of the other ranks refuse as well */
};

/* One lock guards everything, also the ranks' memory. */
extern pthread_mutex_t engine_lock;
extern struct world *engine_worlds;

int32_t engine_error(coll_error_t *err, int32_t code, const char *text);
/* Records "rank 3 <what>": no more call runs in this world.  The first failure stays. */
void engine_fail(struct world *w, int32_t code, const char *what, uint32_t rank);

/* The caller of these functions holds the lock. */

/* Releases a reference. */
void engine_drop(struct mark *mark);
/* Removes the first item. */
void engine_pop(struct stream *s);
/* Returns the stream of e whose next item is the world's next call, or NULL. */
struct stream *engine_next(struct engine *e);
/* Moves all streams of all ranks as far as possible. */
void engine_progress(void);
/* Appends an item to a stream; NULL: the endpoint's own.  Takes over the reference to mark. */
int32_t engine_queue(struct engine *e, int what, const coll_args_t *args, void *stream,
		     struct mark *mark, coll_error_t *err);

#endif
