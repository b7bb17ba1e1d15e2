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
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

int tcp_paths(int fd)
{
	struct tcp_mptcp_info info = {.extra = 0};
	socklen_t size = sizeof(info);

	/* Of a TCP socket the kernel refuses the question. */
	if (getsockopt(fd, TCP_SOL_MPTCP, TCP_MPTCP_INFO, &info, &size) ||
	    info.flags & TCP_MPTCP_FALLBACK)
		return 0;
	if (size > offsetof(struct tcp_mptcp_info, all) && info.all > 0)
		return info.all;
	return info.extra + 1;
}

/* Returns 0, or the errno for which the kernel makes no socket of Multipath TCP. */
static int tcp_paths_refused(void)
{
	int fd = socket_new_multipath(AF_INET), refused = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return refused;
}

void tcp_paths_check(const struct tcp_options *options)
{
	const int refused = options->multipath ? tcp_paths_refused() : 0;

	if (refused)
		kit_log(options->host, COLL_LOG_INFO,
			"option tcp.multipath: the kernel makes no socket of Multipath TCP: %s "
			"(see "
			"net.mptcp.enabled); the connections are TCP",
			strerror(refused));
	else if (options->multipath && options->user_timeout > 0)
		kit_log(options->host, COLL_LOG_INFO,
			"option tcp.user_timeout: the kernel does not take it for connections of "
			"Multipath TCP (option tcp.multipath)");
}

void tcp_paths_note(const struct tcp_options *options, const struct tcp_conn *conn)
{
	if (!options->multipath || !conn->inet || tcp_is_local(options->host, conn->peer) ||
	    tcp_paths(conn->fd) > 0)
		return;
	kit_log(options->host, COLL_LOG_INFO,
		"the connection to rank %u is TCP: this kernel, rank %u (its kernel, its option "
		"tcp.multipath) or a device between them refuses Multipath TCP",
		conn->peer, conn->peer);
	/* A socket of Multipath TCP refuses some options that it takes once it is TCP. */
	tcp_tune(options, conn->fd, AF_INET, 0);
}

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
	}
}

void tcp_paths_settle(struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++)
		if (t->conn[i].fd >= 0 && tcp_paths(t->conn[i].fd) > 0)
			return;
	listeners_close(&t->paths);
}

void tcp_paths_report(const struct tcp *t)
{
	char text[200] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < t->nranks && used < sizeof(text) - 40; i++) {
		const struct tcp_conn *conn = &t->conn[i];
		const int paths = conn->fd >= 0 && conn->inet ? tcp_paths(conn->fd) : 0;

		if (paths)
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%s%d to rank %u", used ? ", " : "", paths, i);
	}
	if (used)
		kit_log(t->host, COLL_LOG_INFO, "paths of Multipath TCP at the end: %s", text);
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
