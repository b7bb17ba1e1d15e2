/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_close.c - sends the last bytes before the end of an endpoint; leaves it in a forked child. */
#include "tcp.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Does the kernel still hold bytes that the TCP socket can deliver? */
static int tcp_is_delivering(int fd)
{
	struct pollfd end = {.fd = fd};
	int unsent = 0;

	if (ioctl(fd, SIOCOUTQ, &unsent) || unsent <= 0)
		return 0;
	/* SIOCOUTQ of a reset socket keeps counting the bytes that the reset dropped. */
	return poll(&end, 1, 0) <= 0 || !(end.revents & (POLLHUP | POLLERR));
}

/* Have the kernels of all peers acknowledged all sent bytes? */
static int tcp_acknowledged(const struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++) {
		const struct tcp_conn *conn = &t->conn[i];

		if (conn->fd >= 0 && conn->inet && !conn->send_errno && tcp_is_delivering(conn->fd))
			return 0;
	}
	return 1;
}

void tcp_flush(struct tcp *t, int64_t timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms;

	/* The kernel drops unsent bytes of a TCP socket that is closed with unread data. */
	for (;;) {
		t->budget = TCP_BUDGET;
		if (t->sending)
			tcp_send_all(t);
		if (t->lending)
			tcp_lend_reap(t);
		if (t->sending || t->lending)
			tcp_ring_watch(t);
		for (uint32_t i = 0; i < t->nranks && t->failing; i++)
			if (t->conn[i].send_errno)
				tcp_fail_sends(t, &t->conn[i], COLL_ERR_PEER_LOST);
		if ((!t->sending && !t->lending && tcp_acknowledged(t)) ||
		    clock_now_ms() >= deadline)
			return;
		poll(NULL, 0, 1);
	}
}

void tcp_forked(void *ep)
{
	const struct tcp *t = ep;

	tcp_ring_forked();
	for (uint32_t i = 0; i < t->nranks; i++) {
		if (t->conn[i].fd >= 0)
			close(t->conn[i].fd);
		if (t->conn[i].offering)
			close(t->conn[i].offer_fd);
	}
	for (int i = 0; i < t->paths.count; i++)
		close(t->paths.fd[i]);
	close(t->epoll_fd);
}
