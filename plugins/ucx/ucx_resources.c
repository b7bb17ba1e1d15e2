/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_resources.c - checks that this process has the resources that UCX takes for granted.  UCX 1.13 aborts the
 * process if it gets no thread, or no descriptor for the thread.  If it gets no descriptor for a peer, it waits for
 * seconds and then blames the connection.
 */
#include "ucx.h"
#include "base/thread.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The descriptors of an endpoint, measured with UCX 1.13: so many before UCX returns errors instead of aborting, and so
 * many for each connected peer, with the descriptor of the peer's process.  A process whose limit is above
 * UCX_DESCRIPTORS_MANY is not checked.
 */
enum {
	UCX_DESCRIPTORS = 16,
	UCX_DESCRIPTORS_SHARED = 2, /* a peer in shared memory */
	UCX_DESCRIPTORS_TCP = 3,    /* a peer over TCP */
	UCX_DESCRIPTORS_MANY = 65536
};

/* Returns the number of descriptors that the process may still open; -1: enough, or not known. */
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

/* Returns the descriptors that this endpoint needs, without the ranks that connect later, when they first need to. */
static int ucx_needed_descriptors(const coll_host_t *host)
{
	const int64_t mesh = host->nranks > 1 ? host->option_int(host, "mesh") : 0;
	int n = UCX_DESCRIPTORS;

	for (uint32_t i = 0; i < host->nranks && (int64_t)host->nranks <= mesh; i++)
		if (i != host->rank)
			n += kit_shares(host, i, COLL_SHARES_PIDS) ? UCX_DESCRIPTORS_SHARED
								   : UCX_DESCRIPTORS_TCP;
	return n;
}

int32_t ucx_resources_check(const coll_host_t *host, coll_error_t *err)
{
	int limit = 0, free_ones = ucx_free_descriptors(&limit);
	int needed = ucx_needed_descriptors(host);
	struct ucx_thread thread;
	int32_t code;

	if (free_ones >= 0 && free_ones < needed)
		return error_fill(err, COLL_ERR_SYSTEM,
				  "UCX needs %d file descriptors, and this process may open only "
				  "%d more of its %d: raise the limit (ulimit -n)",
				  needed, free_ones, limit);
	code = ucx_thread_reserve(&thread, err);
	ucx_thread_release(&thread);
	return code;
}

/* ----------------------------------------------------------------- a place for a thread -- */

static void *ucx_thread_main(void *arg)
{
	struct ucx_thread *thread = arg;

	thread->tid = (pid_t)syscall(SYS_gettid);
	sem_post(&thread->begun);
	while (sem_wait(&thread->end))
		;
	return NULL;
}

int32_t ucx_thread_reserve(struct ucx_thread *thread, coll_error_t *err)
{
	int code;

	sem_init(&thread->begun, 0, 0);
	sem_init(&thread->end, 0, 0);
	code = thread_start(&thread->id, ucx_thread_main, thread);
	thread->started = !code;
	if (code)
		return error_fill(err, COLL_ERR_SYSTEM,
				  "UCX needs a thread, and this process can start none: %s; raise "
				  "the limit (ulimit -u)",
				  strerror(code));
	while (sem_wait(&thread->begun))
		;
	return COLL_SUCCESS;
}

/* The kernel still counts a joined thread for a moment, so this function waits until the kernel has forgotten it. */
void ucx_thread_release(struct ucx_thread *thread)
{
	const struct timespec moment = {.tv_nsec = 20 * 1000};
	const int64_t deadline = clock_now_ms() + UCX_THREAD_MS;

	if (thread->started) {
		sem_post(&thread->end);
		pthread_join(thread->id, NULL);
		while (!syscall(SYS_tgkill, getpid(), thread->tid, 0) && clock_now_ms() < deadline)
			nanosleep(&moment, NULL);
	}
	thread->started = 0;
	sem_destroy(&thread->begun);
	sem_destroy(&thread->end);
}
