/* SPDX-License-Identifier: BSD-3-Clause */
/* kit_bounded.c - see kit_bounded.h. */
#include "base/kit_bounded.h"

#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>

/* Guards `done` and `left` of all calls. */
static pthread_mutex_t bounded_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bounded_ended;
static pthread_once_t bounded_once = PTHREAD_ONCE_INIT;

static void bounded_init(void)
{
	clock_cond_init(&bounded_ended);
}

static void *bounded_run(void *arg)
{
	struct bounded *b = arg;
	int left;

	b->run(b);
	pthread_mutex_lock(&bounded_lock);
	b->done = 1;
	left = b->left;
	pthread_cond_broadcast(&bounded_ended);
	pthread_mutex_unlock(&bounded_lock);
	if (left)
		b->free(b);
	return NULL;
}

int bounded_start(struct bounded *b)
{
	pthread_t thread;
	int failed;

	pthread_once(&bounded_once, bounded_init);
	failed = thread_start(&thread, bounded_run, b);
	if (!failed)
		pthread_detach(thread);
	return failed;
}

int bounded_wait(struct bounded *b, int64_t deadline)
{
	int done;

	pthread_mutex_lock(&bounded_lock);
	while (!b->done && !clock_cond_wait(&bounded_ended, &bounded_lock, deadline))
		;
	done = b->done;
	pthread_mutex_unlock(&bounded_lock);
	return done;
}

int bounded_leave(struct bounded *b)
{
	int done;

	pthread_mutex_lock(&bounded_lock);
	done = b->done;
	b->left = 1;
	pthread_mutex_unlock(&bounded_lock);
	return done;
}
