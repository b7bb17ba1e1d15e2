/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unpin.c - frees pinned memory.  Before it does so, the driver waits for all work of the memory's context.  That may
 * be work of the program, and never end.  So a thread of its own frees the memory, and no call waits for it for long.
 */
#include "device/device.h"
#include "device/device_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time that a call waits. */
enum { UNPIN_MS = 1000 };

struct pinned {
	struct pinned *next;
	void *ptr;
};

static pthread_mutex_t unpin_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t unpin_once = PTHREAD_ONCE_INIT;
static pthread_cond_t unpin_done;
static struct pinned *unpin_list;
static int unpin_runs; /* the thread has not ended */
static int unpin_late; /* a call has given up: until the thread has ended, no call waits */

static void unpin_init(void)
{
	clock_cond_init(&unpin_done);
}

/* Frees all memory of the list.  The lock is held. */
static void unpin_all(void)
{
	struct pinned *p;

	while ((p = unpin_list)) {
		unpin_list = p->next;
		pthread_mutex_unlock(&unpin_lock);
		device_unpin_now(p->ptr);
		free(p);
		pthread_mutex_lock(&unpin_lock);
	}
}

static void *unpin_run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&unpin_lock);
	unpin_all();
	unpin_runs = unpin_late = 0;
	pthread_cond_broadcast(&unpin_done);
	pthread_mutex_unlock(&unpin_lock);
	return NULL;
}

/* Returns 0 if there can be no thread. */
static int unpin_start(void)
{
	pthread_t thread;
	int failed = thread_start(&thread, unpin_run, NULL);

	if (!failed)
		pthread_detach(thread);
	return !failed;
}

void device_unpin(void *ptr)
{
	struct pinned *p = ptr ? malloc(sizeof(*p)) : NULL;
	int64_t deadline = clock_deadline(UNPIN_MS);

	if (!p) {
		if (ptr)
			device_unpin_now(ptr);
		return;
	}
	pthread_once(&unpin_once, unpin_init);
	pthread_mutex_lock(&unpin_lock);
	*p = (struct pinned){unpin_list, ptr};
	unpin_list = p;
	if (!unpin_runs)
		unpin_runs = unpin_start();
	if (!unpin_runs)
		unpin_all();
	while (unpin_runs && !unpin_late)
		if (clock_cond_wait(&unpin_done, &unpin_lock, deadline) && unpin_runs &&
		    !unpin_late) {
			unpin_late = 1;
			log_info(
				"other work keeps a CUDA device busy, so CUDA has not freed pinned "
				"memory within %d ms: that goes on in the background",
				UNPIN_MS);
		}
	pthread_mutex_unlock(&unpin_lock);
}
