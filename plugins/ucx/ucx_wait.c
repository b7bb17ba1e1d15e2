/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_wait.c - progress, and the descriptor to sleep on.
 *
 * The descriptor is an epoll descriptor over three kinds of descriptors: UCX's own; a timer, because UCX does
 * not signal when a full queue has space again; and a pidfd for each other rank on this host, which shows the
 * end of the process at once.  (Shared memory does not show it, and UCX polls only now and then.)
 */
#include "ucx.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	UCX_POLL_PEERS_EVERY = 512, /* calls of progress() that moved nothing */
	UCX_PROBE_AFTER = 64,       /* such calls until new connections get their probes */
	UCX_EVENTS = 16,            /* ended processes that one epoll_wait() returns */
	UCX_BUSY_ARMS = 200,        /* so often a rank yields before it sleeps while UCX is busy */
	UCX_RETRY_NS = 500 * 1000,  /* longest sleep while UCX's queue to a peer is full */
	UCX_ROUNDS = 64             /* most calls of ucp_worker_progress() in one progress() */
};

/* --------------------------------------------------------------------- progress -- */

/* Polls UCX, and again only after many bytes: over TCP a poll that finds none costs a system call. */
static void ucx_poll(struct ucx *u)
{
	const int cancels = ucx_uncancel(u);
	uint64_t before;
	int round = 0;

	do {
		before = u->received;
		ucx_lib.ucp_worker_progress(u->worker);
	} while (u->received - before >= UCX_POLL_AGAIN && u->received < UCX_BUDGET &&
		 ++round < UCX_ROUNDS);
	cancel_restore(cancels);
}

int32_t ucx_progress(void *ep)
{
	struct ucx *u = ep;
	int outermost = ucx_enter(u);

	u->calls++;
	u->moved = 0;
	u->received = 0;
	u->inside = 1;
	if (u->deferred)
		ucx_replay(u);
	ucx_poll(u);
	if (u->connect_back)
		ucx_connect_back(u);
	if (u->transfers)
		ucx_zcopy_advance(u);
	if (u->busy)
		ucx_send_all(u);
	if (ucx_has_work(&u->peer[u->rank]))
		ucx_loop_back(u);
	u->idle++;
	if (u->moved)
		u->idle = u->busy_arms = 0;
	if (u->new_peers && u->idle >= UCX_PROBE_AFTER)
		ucx_probe_accepted(u);
	if (u->poll_peers || u->idle % UCX_POLL_PEERS_EVERY == UCX_POLL_PEERS_EVERY - 1)
		ucx_poll_peers(u);
	if (u->gap)
		ucx_gap_advance(u);
	if (u->failing)
		ucx_reap_failed(u);
	ucx_leave(u, outermost);
	u->inside = 0;
	return u->moved;
}

/* -------------------------------------------------------------- ends of processes -- */

void ucx_watch(struct ucx *u, struct ucx_peer *peer)
{
	const struct ucx_record *record = &u->record[peer->rank];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};

	if (peer->pidfd >= 0 || kit_shares(u->host, peer->rank, COLL_SHARES_PROCESS))
		return;
#ifdef SYS_pidfd_open
	peer->pidfd =
		(int)syscall(SYS_pidfd_open, record->pid, 0); /* the kernel sets close-on-exec */
#endif
	if (peer->pidfd >= 0 && epoll_ctl(u->wait_fd, EPOLL_CTL_ADD, peer->pidfd, &event))
		kit_log(u->host, COLL_LOG_WARN,
			"cannot watch the process of rank %u, whose end will show late: epoll_ctl: "
			"%s",
			peer->rank, strerror(errno));
	if (peer->pidfd < 0)
		kit_log(u->host, COLL_LOG_DEBUG,
			"cannot watch the process of rank %u, whose end will show late: "
			"pidfd_open: %s",
			peer->rank, strerror(errno));
}

void ucx_unwatch(struct ucx *u, struct ucx_peer *peer)
{
	CANCEL_OFF;
	if (peer->pidfd < 0)
		return;
	/* A forked child may hold the descriptor: then close() alone does not remove it from epoll. */
	epoll_ctl(u->wait_fd, EPOLL_CTL_DEL, peer->pidfd, NULL);
	close(peer->pidfd);
	peer->pidfd = -1;
}

void ucx_poll_peers(struct ucx *u)
{
	CANCEL_OFF;
	struct epoll_event events[UCX_EVENTS];
	int n = epoll_wait(u->wait_fd, events, UCX_EVENTS, 0);

	u->poll_peers = n == UCX_EVENTS;
	for (int i = 0; i < n; i++) {
		struct ucx_peer *peer = events[i].data.ptr;

		if (!peer) /* UCX's descriptor or the timer */
			continue;
		ucx_unwatch(u, peer);
		peer->broken = 1;
		u->gone = 1;
		ucx_gap_expect(u);
		ucx_fail(u, ucx_peer_get(u, peer->rank), "its process has ended");
	}
}

/* --------------------------------------------------------------------- sleeping -- */

static int32_t ucx_wait_add(struct ucx *u, int fd, coll_error_t *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	if (!epoll_ctl(u->wait_fd, EPOLL_CTL_ADD, fd, &event))
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_SYSTEM, "cannot add a descriptor to wait on: epoll_ctl: %s",
			  strerror(errno));
}

int32_t ucx_wait_open(struct ucx *u, coll_error_t *err)
{
	ucs_status_t status = ucx_lib.ucp_worker_get_efd(u->worker, &u->efd);
	int32_t code;

	if (status != UCS_OK) {
		u->efd = -1;
		return ucx_refused(err, status, "cannot get UCX's descriptor to wait on");
	}
	u->wait_fd = descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
	u->timer_fd = descriptor_lift(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (u->wait_fd < 0 || u->timer_fd < 0)
		return error_fill(
			err, COLL_ERR_SYSTEM,
			"cannot make a descriptor to wait on: %s (ulimit -n limits their number)",
			strerror(errno));
	u->efd_watched = 1;
	code = ucx_wait_add(u, u->efd, err);
	return code ? code : ucx_wait_add(u, u->timer_fd, err);
}

void ucx_wait_close(struct ucx *u)
{
	if (u->timer_fd >= 0)
		close(u->timer_fd);
	if (u->wait_fd >= 0)
		close(u->wait_fd);
}

int32_t ucx_wait_fd(void *ep)
{
	const struct ucx *u = ep;

	return u->wait_fd;
}

static void ucx_set_timer(struct ucx *u, long ns)
{
	const struct itimerspec after = {.it_value.tv_nsec = ns};

	timerfd_settime(u->timer_fd, 0, &after, NULL);
}

/* Sets whether UCX's descriptor ends a sleep. */
static void ucx_watch_efd(struct ucx *u, int watch)
{
	struct epoll_event event = {.events = watch ? EPOLLIN : 0, .data.ptr = NULL};

	if (u->efd_watched != watch && !epoll_ctl(u->wait_fd, EPOLL_CTL_MOD, u->efd, &event))
		u->efd_watched = watch;
}

int32_t ucx_arm(void *ep)
{
	struct ucx *u = ep;
	/* 1: the rank must ask UCX again after a moment */
	int sending = u->busy || u->transfers || u->gap || u->no_signals;
	ucs_status_t status;

	if (u->deferred || u->failing || ucx_has_work(&u->peer[u->rank]))
		return 1;
	status = ucx_lib.ucp_worker_arm(u->worker);
	/* A rank that died in the middle of a frame keeps UCX busy until ucx_gap.c has closed the gap. */
	u->poll_peers = 1;
	/*
	 * A message may have come since ucx_progress, or a running peer may make space soon.  So the rank yields and asks
	 * again some times before it sleeps by the timer alone.
	 */
	if (status != UCS_OK && !u->gone && (!sending || u->busy_arms++ < UCX_BUSY_ARMS))
		return 1;
	/*
	 * A send that waits in UCX for space in a queue keeps UCX busy.  UCX then leaves its descriptor readable, so
	 * the timer alone ends the sleep.
	 */
	ucx_watch_efd(u, status == UCS_OK);
	/* Setting the timer also clears an earlier expiration. */
	ucx_set_timer(u, sending || status != UCS_OK ? UCX_RETRY_NS : 0);
	return 0;
}
