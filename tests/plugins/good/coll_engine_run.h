/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_engine_run.h - the streams of backend 'engine', and what runs on them. */
#ifndef TESTS_PLUGINS_COLL_ENGINE_RUN_H
#define TESTS_PLUGINS_COLL_ENGINE_RUN_H

#include "coll_engine.h"
#include <coll/backend.h>

#include <pthread.h>

/* A position in a stream: complete, and no longer needed once nobody refers to it. */
struct mark {
	int refs, done;
};

enum { ITEM_CALL, ITEM_RECORD, ITEM_WAIT };

struct item {
	struct item *next;
	int what;
	coll_args_t args;
	uint64_t seq; /* of a call: they run in this order, whatever their stream */
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
	uint64_t seq; /* of the call that runs next */
	int32_t code; /* why no more call runs here, and its words */
	char failure[200];
};

struct engine {
	struct engine_handle handle; /* first: what a test gets */
	const coll_host_t *host;
	struct world *world;
	struct stream stream[1 + ENGINE_STREAMS];
	uint64_t issued;
	int in_group; /* calls wait for its end */
	int refused;  /* a call that the other ranks' engines refuse as well */
};

/* One lock for everything: the ranks' memory passes from hand to hand under it. */
extern pthread_mutex_t engine_lock;
extern struct world *engine_worlds;

int32_t engine_error(coll_error_t *err, int32_t code, const char *text);
/* "rank 3 <what>": no more call runs in this world.  The first failure stays. */
void engine_fail(struct world *w, int32_t code, const char *what, uint32_t rank);

/* The lock is held in all of these. */

/* Gives up a reference. */
void engine_drop(struct mark *mark);
/* Takes the first item away. */
void engine_pop(struct stream *s);
/* The stream of e whose turn it is to run the world's next call, or NULL. */
struct stream *engine_next(struct engine *e);
/* Moves all streams of all ranks as far as they get. */
void engine_progress(void);
/* Appends to a stream, NULL: the endpoint's own.  Takes over the reference to mark. */
int32_t engine_queue(struct engine *e, int what, const coll_args_t *args, void *stream,
		     struct mark *mark, coll_error_t *err);

#endif
