/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: lasting-threads */
/* coll_lingers.c - a thread lives on after close. */
#include "uds.h"

#include <pthread.h>

static void *lingers_thread(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static int32_t lingers_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, lingers_thread, NULL))
		pthread_detach(thread);
	return bad_open(host, ep, err);
}

#define BAD_NAME "lingers"
#define BAD_OPEN lingers_open
#include "table.h"
