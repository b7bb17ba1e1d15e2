/* SPDX-License-Identifier: BSD-3-Clause */
/* finish.c - tells the plugins that were used that the process ends. */
#include "plugin/plugin.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* A process uses few backends, so the list has a fixed size. */
enum { FINISH_MOST = 64 };

static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*finish_fn[FINISH_MOST])(void);
static int finish_count;
static pid_t finish_pid; /* a forked child uses none of its parent's backends */

/* Runs at exit: the backend that was used first ends last. */
static void finish_all(void)
{
	pthread_mutex_lock(&finish_lock);
	if (finish_pid == getpid())
		while (finish_count > 0)
			finish_fn[--finish_count]();
	pthread_mutex_unlock(&finish_lock);
}

static void finish_add(void (*fn)(void))
{
	if (finish_pid != getpid()) {
		finish_count = 0;
		finish_pid = getpid();
	}
	for (int i = 0; i < finish_count; i++)
		if (finish_fn[i] == fn)
			return;
	if (finish_count == FINISH_MOST || (finish_count == 0 && atexit(finish_all))) {
		log_warn("a backend will not be told that the process ends: there is no memory "
			 "for a function that runs at exit");
		return;
	}
	finish_fn[finish_count++] = fn;
}

void plugin_will_finish(const struct plugin *plugin)
{
	if (!plugin->backend.finish)
		return;
	pthread_mutex_lock(&finish_lock);
	finish_add(plugin->backend.finish);
	pthread_mutex_unlock(&finish_lock);
}
