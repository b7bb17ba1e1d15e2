/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c - fork, the end of the process, and effects that a plugin must not have on a process. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/host/host.h"
#include "check/fault/fault.h"
#include "check/kit/trace.h"
#include "lib/tool.h"

/*
 * An endpoint that stays open; this pointer keeps leak checkers from reporting it.  volatile: else the compiler
 * drops the pointer, which nothing reads.
 */
static struct check_ep *volatile limits_open[CHECK_RANKS];

/* Sends a message to the next rank and receives one from the previous rank.  Returns 0 or -1. */
static int limits_talk(struct check_ep *ep, uint64_t tag)
{
	static const uint8_t buf[3000];
	coll_send_t send;

	if (!ep->t->send)
		return 0;
	return check_send(ep, &send, (uint32_t)((ep->rank + 1) % ep->nranks), tag, buf,
			  sizeof(buf)) ||
	       !check_recv(ep, (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks), tag) ||
	       check_wait_send(ep, &send) || check_progress_barrier(ep);
}

static void limits_talk_rank(struct check_ep *ep)
{
	/* A single rank may have no connection to itself. */
	if (ep->nranks > 1)
		limits_talk(ep, 1);
}

/* ------------------------------------------------------------------ fork -- */

/* In the child: verifies that the plugin closed exactly the descriptors that open had opened. */
static void limits_in_child(struct check_ep *ep, const struct check_watch *before, int stay)
{
	struct check_watch after;

	check_slot(ep->c, ep->rank, "forked");
	ep->t->forked(ep->ep);
	check_slot(ep->c, ep->rank, NULL);
	check_watch_begin(&after);
	for (int fd = 0; fd < CHECK_WATCHED_FDS; fd++)
		if (after.fd[fd] > before->fd[fd]) {
			check_fail(ep->c, "rank %d: forked left descriptor %d of the endpoint open",
				   ep->rank, fd);
			break;
		} else if (after.fd[fd] < before->fd[fd]) {
			check_fail(ep->c,
				   "rank %d: forked closed descriptor %d, which is not the "
				   "endpoint's",
				   ep->rank, fd);
			break;
		}
	/* The helper process ends when the kit does, at the latest. */
	for (int64_t end = tool_now_ms() + ep->c->timeout_ms; stay && tool_now_ms() < end;)
		usleep(10000);
	_exit(0);
}

/* Forks and checks the child.  Returns 0 or -1. */
static int limits_fork(struct check_ep *ep, const struct check_watch *before, int stay)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		limits_in_child(ep, before, stay);
	if (pid < 0) {
		check_fail(ep->c, "the kit cannot start a process: %s", strerror(errno));
		return -1;
	}
	while (!stay && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		check_fail(ep->c, "rank %d: the forked child did not survive forked()", ep->rank);
	return check_failed(ep->c) ? -1 : 0;
}

static void limits_forked_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	struct check_watch before;
	uint32_t last = (uint32_t)c->nranks - 1;

	check_watch_begin(&before);
	if (check_open(ep) || limits_talk(ep, 1) || limits_fork(ep, &before, 0) ||
	    limits_talk(ep, 2)) {
		check_ep_free(ep);
		return;
	}
	/* A child that lives on must not hide the death of its parent. */
	if (rank == (int)last && !limits_fork(ep, &before, 1)) {
		check_dies(c, rank);
		kill(getpid(), SIGKILL);
	}
	if (check_await_lost(ep, last))
		check_fail(c, "rank %d: the death of rank %u was hidden by its forked child", rank,
			   last);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void limits_forked(struct check_case *c)
{
	check_ranks(c, limits_forked_rank);
}

/* ------------------------------------------------------------------ exit -- */

static void limits_exit_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	limits_open[rank] = ep;
	if (check_open(ep) || (c->nranks > 1 && limits_talk(ep, 1)))
		return;
	check_barrier(c, rank, &ep->step);
	if (!c->processes)
		return;
	check_slot(c, rank, "exit");
	exit(0);
}

static void limits_exit(struct check_case *c)
{
	check_ranks(c, limits_exit_rank);
	if (c->processes)
		return;
	check_slot(c, 0, "exit");
	atomic_store(&c->shared->finished, 1);
	exit(0);
}

const struct check check_limits_checks[] = {
	{.name = "forked",
	 .says = "forked closes the endpoint's descriptors in a child, and nothing else",
	 .promise = "coll_transport_t.forked",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT | CHECK_FORKED,
	 .bare = "the core closes no descriptor of an engine in a child, where no handle is valid",
	 .ways = CHECK_PROCESSES,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = limits_forked},
	{.name = "exit-open",
	 .says = "a process may end with its endpoints open",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .run = limits_exit},
	{.name = "quiet",
	 .says = "the plugin prints nothing",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 4,
	 .trace = CHECK_PRINTED + 1,
	 .endpoint = limits_talk_rank},
	{.name = "descriptors",
	 .says = "after close no descriptor is left open",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 4,
	 .trace = CHECK_FDS + 1,
	 .endpoint = limits_talk_rank},
	{.name = "lasting-threads",
	 .says = "after close no thread is left running",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .trace = CHECK_LASTING_THREADS + 1,
	 .endpoint = limits_talk_rank},
	{.name = "signals",
	 .says = "no signal is handled differently afterwards",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .trace = CHECK_SIGNALS + 1,
	 .endpoint = limits_talk_rank},
	{.name = "children",
	 .says = "the plugin makes no processes",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .trace = CHECK_CHILDREN + 1,
	 .endpoint = limits_talk_rank},
	{.name = NULL},
};
