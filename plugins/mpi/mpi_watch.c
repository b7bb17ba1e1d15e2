/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_watch.c - learns which ranks have died, where the launcher does not end the job then.
 *
 * Few MPI libraries say it: MPI_Test of a receive from a dead rank never ends.  So a pidfd shows the end of each process of
 * this host.  A library with ULFM (User Level Failure Mitigation, the functions MPIX_Comm_failure_ack and
 * MPIX_Comm_failure_get_acked) names dead ranks of all hosts by the errors of its functions.
 */
#include "mpi_plugin.h"

#include "base/descriptor.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	WATCH_EVENTS = 16,
	WATCH_EACH_US = 10000, /* a look is a system call */
	/* The last frames of a process, with its goodbye among them, may come after its end shows. */
	WATCH_GRACE_MS = 100
};

/* 1: a rank has died, so MPI_Finalize would not end. */
static atomic_int watch_has_seen;

int mpi_watch_seen(void)
{
	return atomic_load(&watch_has_seen);
}

/* A peer that the plugin has given up may still die without a goodbye. */
static void watch_dead(struct mpi_endpoint *ep, struct mpi_peer *peer, const char *why)
{
	if (peer->bye_received)
		return;
	peer->dead = 1;
	atomic_store(&watch_has_seen, 1);
	mpi_fail(ep, peer, why);
}

/* -------------------------------------------------------------------- processes -- */

#ifdef SYS_pidfd_open
static int watch_pidfd(int32_t pid)
{
	return descriptor_lift((int)syscall(SYS_pidfd_open, pid, 0)); /* is close-on-exec */
}
#else
static int watch_pidfd(int32_t pid)
{
	(void)pid;
	return -1;
}
#endif

void mpi_watch_open(struct mpi_endpoint *ep, uint32_t rank, int32_t pid)
{
	struct mpi_peer *peer = &ep->peer[rank];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};

	if (rank == ep->rank || !kit_shares(ep->host, rank, COLL_SHARES_PIDS))
		return;
	if (ep->watch_fd < 0)
		ep->watch_fd = descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
	peer->pidfd = ep->watch_fd < 0 ? -1 : watch_pidfd(pid);
	if (peer->pidfd < 0 || epoll_ctl(ep->watch_fd, EPOLL_CTL_ADD, peer->pidfd, &event))
		kit_log(ep->host, COLL_LOG_DEBUG,
			"cannot watch the process of rank %u: its end will show by a timeout only",
			rank);
}

static void watch_end(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	if (peer->pidfd < 0)
		return;
	/* A forked child may hold the descriptor: then close() alone does not remove it from epoll. */
	epoll_ctl(ep->watch_fd, EPOLL_CTL_DEL, peer->pidfd, NULL);
	close(peer->pidfd);
	peer->pidfd = -1;
}

/* Notes the processes that have ended. */
static void watch_poll(struct mpi_endpoint *ep)
{
	struct epoll_event events[WATCH_EVENTS];
	const int n = epoll_wait(ep->watch_fd, events, WATCH_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct mpi_peer *peer = events[i].data.ptr;

		watch_end(ep, peer);
		peer->ended = clock_deadline(WATCH_GRACE_MS);
		ep->ended++;
	}
}

void mpi_watch_look(struct mpi_endpoint *ep)
{
	const int64_t now = clock_tick_us();

	if (ep->watch_fd < 0 || now < ep->watch_next)
		return;
	ep->watch_next = now + WATCH_EACH_US;
	watch_poll(ep);
	for (uint32_t r = 0; ep->ended && r < ep->nranks; r++) {
		struct mpi_peer *peer = &ep->peer[r];

		if (!peer->ended || clock_remaining(peer->ended))
			continue;
		peer->ended = 0;
		ep->ended--;
		watch_dead(ep, peer, "its process has ended");
	}
}

void mpi_watch_close(struct mpi_endpoint *ep)
{
	for (uint32_t r = 0; ep->peer && r < ep->nranks; r++)
		watch_end(ep, &ep->peer[r]);
	if (ep->watch_fd >= 0)
		close(ep->watch_fd);
	ep->watch_fd = -1;
}

/* Leaves the entries of epoll alone: the child shares them with its parent, which watches on. */
void mpi_watch_forked(void *ep_)
{
	struct mpi_endpoint *ep = ep_;

	for (uint32_t r = 0; ep->peer && r < ep->nranks; r++) {
		if (ep->peer[r].pidfd >= 0)
			close(ep->peer[r].pidfd);
		ep->peer[r].pidfd = -1;
	}
	if (ep->watch_fd >= 0)
		close(ep->watch_fd);
	ep->watch_fd = -1;
}

/* ------------------------------------------------------------------------- ULFM -- */

#ifdef MPI_ULFM
/* Calls watch_dead for the ranks of the group. */
static void watch_group(struct mpi_endpoint *ep, MPI_Group dead)
{
	MPI_Group all = MPI_GROUP_NULL;
	int n = 0;

	mpi.comm_group(ep->comm, &all);
	mpi.group_size(dead, &n);
	for (int i = 0; i < n; i++) {
		int rank = MPI_UNDEFINED;

		mpi.group_translate_ranks(dead, 1, &i, all, &rank);
		if (rank >= 0 && rank < (int)ep->nranks)
			watch_dead(ep, &ep->peer[rank], "MPI says that it has died");
	}
	mpi.group_free(&all);
}

int mpi_watch_error(struct mpi_endpoint *ep, int result)
{
	MPI_Group dead = MPI_GROUP_NULL;
	int class = MPI_SUCCESS;

	mpi.error_class(result, &class);
	if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_PROC_FAILED_PENDING)
		return 0;
	/* MPI receives from any rank again once it knows that the plugin knows the dead ranks. */
	if (mpi.comm_failure_ack(ep->comm) || mpi.comm_failure_get_acked(ep->comm, &dead))
		return 0;
	watch_group(ep, dead);
	mpi.group_free(&dead);
	return 1;
}
#else
int mpi_watch_error(struct mpi_endpoint *ep, int result)
{
	(void)ep;
	(void)result;
	return 0;
}
#endif
