/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_paths.c - the option tcp.multipath: connections by Multipath TCP (RFC 8684), which the kernel spreads over several
 * links and moves when one of them fails.
 *
 * The kernel makes the paths, from the endpoints that the administrator has given the host (ip mptcp endpoint).  A
 * connection whose other end has no Multipath TCP is TCP.
 */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Most connections of strangers that one look takes from a listener. */
enum { TCP_STRANGERS = 64 };

/* The numbers and the layout of Linux' <linux/mptcp.h>, which older systems do not have. */
enum { TCP_SOL_MPTCP = 284, TCP_MPTCP_INFO = 1, TCP_MPTCP_FALLBACK = 1 };

struct tcp_mptcp_info {
	uint8_t extra; /* paths besides the first one, which may have ended */
	uint8_t unused[7];
	uint32_t flags;
	uint32_t token;
	uint64_t sequence[3];
	uint8_t addresses[3];
	uint8_t unused2;
	uint32_t retransmits;
	uint64_t bytes[4];
	uint8_t all; /* paths that are up; older kernels do not tell it */
	uint8_t unused3[7];
};

_Static_assert(offsetof(struct tcp_mptcp_info, flags) == 8 &&
		       offsetof(struct tcp_mptcp_info, all) == 80,
	       "as the kernel lays it out");

/*
 * Returns the number of paths that are up, which may be 0 for a moment; -1: the connection is TCP, of which the kernel
 * refuses the question.
 */
static int tcp_paths(int fd)
{
	struct tcp_mptcp_info info = {.extra = 0};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, TCP_SOL_MPTCP, TCP_MPTCP_INFO, &info, &size) ||
	    info.flags & TCP_MPTCP_FALLBACK)
		return -1;
	return size > offsetof(struct tcp_mptcp_info, all) ? info.all : info.extra + 1;
}

int tcp_paths_refused(void)
{
	int fd = socket_new_multipath(AF_INET), one = 1, refused;

	if (fd < 0)
		return errno;
	/* Linux 5.6 has such sockets, but 5.16 is the first to tell of their paths, and 5.17 to take TCP_NODELAY. */
	refused = tcp_paths(fd) < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
			  ? EOPNOTSUPP
			  : 0;
	close(fd);
	return refused;
}

/* Does the kernel take the times of keepalive for a socket of Multipath TCP? */
static int tcp_paths_keep_alive(void)
{
	int fd = socket_new_multipath(AF_INET), seconds = 60, failed = 0;

	if (fd < 0)
		return 0;
	failed = setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	close(fd);
	return !failed;
}

void tcp_paths_check(const struct tcp_options *options)
{
	const coll_host_t *host = options->host;

	if (!host->option_int(host, "multipath"))
		return;
	if (!options->multipath) {
		kit_log(host, COLL_LOG_INFO,
			"option tcp.multipath: the kernel refuses Multipath TCP: %s (it needs "
			"Linux 5.17 or later, and net.mptcp.enabled); the connections are TCP",
			strerror(tcp_paths_refused()));
		return;
	}
	if (options->user_timeout > 0)
		kit_log(host, COLL_LOG_INFO,
			"option tcp.user_timeout: the kernel does not take it for connections of "
			"Multipath TCP (option tcp.multipath)");
	if (!tcp_paths_keep_alive())
		kit_log(host, COLL_LOG_INFO,
			"option tcp.multipath: the kernel does not take TCP_KEEPIDLE for "
			"connections of Multipath TCP: an idle rank hears of a host that "
			"vanishes only after net.ipv4.tcp_keepalive_time");
}

/* ------------------------------------------------------------------- listeners -- */

void tcp_paths_keep(struct tcp *t, const struct listeners *listeners)
{
	for (int i = 0; i < listeners->count; i++) {
		int protocol = 0, fd;
		socklen_t size = sizeof(protocol);

		if (getsockopt(listeners->fd[i], SOL_SOCKET, SO_PROTOCOL, &protocol, &size) ||
		    protocol != SOCKET_MULTIPATH)
			continue;
		fd = descriptor_lift(fcntl(listeners->fd[i], F_DUPFD_CLOEXEC, 0));
		if (fd >= 0)
			t->paths.fd[t->paths.count++] = fd;
		else
			kit_log(t->host, COLL_LOG_INFO,
				"option tcp.multipath: cannot keep a listening socket: %s%s; "
				"the kernel finds no connection for further paths to its address",
				strerror(errno), error_remedy(errno));
	}
}

/* Has epoll watch the listeners, or no longer.  Their events have the number behind the last rank. */
static void tcp_paths_watch(struct tcp *t, int operation)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = t->nranks};

	for (int i = 0; i < t->paths.count; i++)
		if (epoll_ctl(t->epoll_fd, operation, t->paths.fd[i], &event))
			kit_log(t->host, COLL_LOG_DEBUG,
				"epoll_ctl of a listening socket of Multipath TCP: %s",
				strerror(errno));
}

void tcp_paths_settle(struct tcp *t)
{
	uint32_t all = 0, plain = 0, first = 0;

	if (!t->paths.count)
		return;
	for (uint32_t i = 0; i < t->nranks; i++) {
		if (t->conn[i].fd < 0 || !t->conn[i].inet || tcp_is_local(t->host, i))
			continue;
		all++;
		if (tcp_paths(t->conn[i].fd) < 0 && !plain++)
			first = i;
	}
	if (plain)
		kit_log(t->host, COLL_LOG_INFO,
			"option tcp.multipath: connections to other hosts that are TCP: %u of %u, "
			"the first to rank %u: that rank (its kernel, its option tcp.multipath) or "
			"a device between refuses Multipath TCP",
			plain, all, first);
	if (plain == all)
		listeners_close(&t->paths);
	else
		tcp_paths_watch(t, EPOLL_CTL_ADD);
}

void tcp_paths_turn_away(struct tcp *t)
{
	const int cancels = cancel_disable();
	int exhausted = 0;

	for (int i = 0; i < t->paths.count; i++)
		for (int n = 0; n < TCP_STRANGERS; n++) {
			int fd = descriptor_lift(accept4(t->paths.fd[i], NULL, NULL, SOCK_CLOEXEC));

			if (fd < 0) {
				exhausted |= socket_is_exhausted(errno);
				break;
			}
			close(fd);
		}
	cancel_restore(cancels);
	/* A stranger whom this process cannot take must not wake the rank for ever. */
	if (exhausted)
		tcp_paths_watch(t, EPOLL_CTL_DEL);
}

/* ----------------------------------------------------------------------- words -- */

/* Writes "2 to rank 1, 1 to rank 3", or "" without such connections.  A list that is too long ends with "...". */
static void tcp_paths_list(const struct tcp *t, char *text, size_t size)
{
	enum { ROOM = 40 };
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < t->nranks; i++) {
		const struct tcp_conn *conn = &t->conn[i];
		const int paths = conn->fd >= 0 && conn->inet ? tcp_paths(conn->fd) : -1;

		if (paths < 0)
			continue;
		if (used + ROOM > size) {
			snprintf(text + used, size - used, ", ...");
			return;
		}
		used += (size_t)snprintf(text + used, size - used, "%s%d to rank %u",
					 used ? ", " : "", paths, i);
	}
}

void tcp_describe(void *ep, char *buf, uint64_t size)
{
	char list[400];

	tcp_paths_list(ep, list, sizeof(list));
	snprintf(buf, size, "%s%s", list[0] ? "paths of Multipath TCP: " : "", list);
}

void tcp_paths_report(const struct tcp *t)
{
	char list[200];

	tcp_paths_list(t, list, sizeof(list));
	if (list[0])
		kit_log(t->host, COLL_LOG_INFO, "paths of Multipath TCP at the end: %s", list);
}

void tcp_paths_info(const coll_host_t *host, char *text, size_t size)
{
	const int refused = tcp_paths_refused();

	if (refused)
		snprintf(text, size, "no Multipath TCP (%s)", strerror(refused));
	else if (!host->option_int(host, "multipath"))
		snprintf(text, size, "Multipath TCP possible");
	else
		snprintf(text, size,
			 "Multipath TCP, one path for each endpoint of the host: ip mptcp endpoint "
			 "add ADDRESS dev DEVICE signal; ip mptcp limits set subflows 8 "
			 "add_addr_accepted 8");
}
