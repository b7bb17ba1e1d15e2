/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_resources.c - the check that this process has what UCX takes for granted: UCX 1.13 aborts the process
 * if it gets no descriptor for its thread, or no thread.
 */
#include "ucx.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/*
 * UCX opens so many descriptors, measured with UCX 1.13, before it returns errors instead of aborting; and
 * a process whose limit is so high is not checked.
 */
enum { UCX_DESCRIPTORS = 16, UCX_DESCRIPTORS_MANY = 65536 };

/* The number of descriptors that the process may still open, or -1: enough, or not known. */
static int ucx_free_descriptors(int *limit)
{
	struct rlimit files;
	struct pollfd *fds;
	int n = 0;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > UCX_DESCRIPTORS_MANY)
		return -1;
	*limit = (int)files.rlim_cur;
	fds = malloc(files.rlim_cur * sizeof(*fds) + 1);
	if (!fds)
		return -1;
	for (int i = 0; i < *limit; i++)
		fds[i] = (struct pollfd){.fd = i};
	if (poll(fds, files.rlim_cur, 0) < 0) {
		free(fds);
		return -1;
	}
	for (int i = 0; i < *limit; i++)
		n += (fds[i].revents & POLLNVAL) != 0;
	free(fds);
	return n;
}

static void *ucx_thread_try(void *arg)
{
	return arg;
}

int32_t ucx_resources_check(coll_error_t *err)
{
	int limit = 0, descriptors = ucx_free_descriptors(&limit), code;
	pthread_t thread;

	if (descriptors >= 0 && descriptors < UCX_DESCRIPTORS)
		return error_fill(err, COLL_ERR_SYSTEM,
				  "UCX needs %d file descriptors, and this process may open only "
				  "%d more of its %d: raise the limit (ulimit -n)",
				  UCX_DESCRIPTORS, descriptors, limit);
	code = pthread_create(&thread, NULL, ucx_thread_try, NULL);
	if (code)
		return error_fill(err, COLL_ERR_SYSTEM,
				  "UCX needs a thread, and this process can start none: %s; raise "
				  "the limit (ulimit -u)",
				  strerror(code));
	pthread_join(thread, NULL);
	return COLL_SUCCESS;
}
