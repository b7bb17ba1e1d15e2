/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_addr.c - opens the listening sockets, orders the addresses of a peer, sets socket options. */
#include "tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

/* TCP reports a vanished host after IDLE + COUNT * STEP seconds, also while no rank sends. */
enum { TCP_KEEP_IDLE_S = 10, TCP_KEEP_STEP_S = 5, TCP_KEEP_COUNT = 4 };

static void tcp_set(const coll_host_t *host, int fd, int level, int name, const void *value,
		    socklen_t size, const char *what)
{
	if (setsockopt(fd, level, name, value, size))
		kit_log(host, COLL_LOG_DEBUG,
			"cannot set %s of a socket: %s; the socket keeps the system's value", what,
			strerror(errno));
}

static void tcp_set_int(const coll_host_t *host, int fd, int level, int name, int64_t value,
			const char *what)
{
	int number = (int)value;

	tcp_set(host, fd, level, name, &number, sizeof(number), what);
}

/* Sets the algorithm that the user named.  The first socket that cannot have it warns for all sockets. */
static void tcp_set_congestion(const coll_host_t *host, int fd, const char *name)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ||
	    atomic_flag_test_and_set(&warned))
		return;
	kit_log(host, COLL_LOG_WARN,
		"cannot set the TCP congestion control '%.40s', which option tcp.congestion "
		"(COLL_TCP_CONGESTION) names: %s; the connections keep the system's; "
		"/proc/sys/net/ipv4/tcp_available_congestion_control lists the names",
		name, strerror(errno));
}

void tcp_options_read(const coll_host_t *host, struct tcp_options *options)
{
	*options = (struct tcp_options){
		.host = host,
		.sndbuf = host->option_int(host, "sndbuf"),
		.rcvbuf = host->option_int(host, "rcvbuf"),
		.user_timeout = host->option_int(host, "user_timeout"),
		.congestion = host->option_string(host, "congestion"),
		.use_local = host->option_int(host, "unix") != 0,
		.multipath = host->option_int(host, "multipath") && !tcp_paths_refused(),
	};
}

static void tcp_tune_inet(const struct tcp_options *options, int fd, int local)
{
	const coll_host_t *host = options->host;

	if (options->congestion && *options->congestion)
		tcp_set_congestion(host, fd, options->congestion);
	/* The loopback device is never congested, and bbr would slow it down by pacing. */
	else if (local)
		tcp_set(host, fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4, "the congestion control");
	if (options->rcvbuf > 0)
		tcp_set_int(host, fd, SOL_SOCKET, SO_RCVBUF, options->rcvbuf, "SO_RCVBUF");
	if (options->user_timeout > 0)
		tcp_set_int(host, fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
			    (options->user_timeout + 999) / 1000, "TCP_USER_TIMEOUT");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEP_IDLE_S, "TCP_KEEPIDLE");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEP_STEP_S, "TCP_KEEPINTVL");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEP_COUNT, "TCP_KEEPCNT");
	tcp_set_int(host, fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
}

void tcp_tune(const void *user, int fd, int family, int local)
{
	const struct tcp_options *options = user;
	int64_t sndbuf = options->sndbuf;

	if (!sndbuf && family == AF_UNIX)
		sndbuf = TCP_UNIX_BUFFER;
	if (sndbuf > 0)
		tcp_set_int(options->host, fd, SOL_SOCKET, SO_SNDBUF, sndbuf, "SO_SNDBUF");
	if (family != AF_UNIX)
		tcp_tune_inet(options, fd, local);
}

/* ------------------------------------------------------------------ listening -- */

/*
 * Listens at the address and fills in its port.  *exhausted becomes 1 if the process or the system has no free descriptor.
 */
static int32_t tcp_listen_at(const struct tcp_options *options, struct address *address,
			     struct listeners *listeners, int *exhausted, coll_error_t *err)
{
	int fd, reason;

	if (socket_listen(address, tcp_tune, options, &fd, &reason)) {
		*exhausted = socket_is_exhausted(reason);
		return error_fill(err, COLL_ERR_SYSTEM, "%s", error_text());
	}
	listeners->fd[listeners->count++] = fd;
	return COLL_SUCCESS;
}

/*
 * Listens at the address, by Multipath TCP at the port of the addresses before: the kernel makes a further path to another
 * address of a rank at the port of the first path.  *port: 0 before the first such address.
 */
static int32_t tcp_listen_next(const struct tcp_options *options, struct address *address,
			       uint16_t *port, struct listeners *listeners, int *exhausted,
			       coll_error_t *err)
{
	int32_t code;

	if (!address->multipath)
		return tcp_listen_at(options, address, listeners, exhausted, err);
	address_set_port(address, *port);
	if (*port && !tcp_listen_at(options, address, listeners, exhausted, err))
		return COLL_SUCCESS;
	address_set_port(address, 0);
	code = tcp_listen_at(options, address, listeners, exhausted, err);
	if (!code && !*port)
		*port = address_port(address);
	return code;
}

static void tcp_publish(struct tcp_record *record, const struct address *address)
{
	struct tcp_address *out = &record->address[record->count++];

	out->ip_size = (uint8_t)address_ip_size(address);
	out->port = htons(address_port(address));
	out->loopback = (uint8_t)address->loopback;
	memcpy(out->ip, address_ip(address), out->ip_size);
}

/* Listens at each address of the interface that the option names, or of all interfaces. */
static int32_t tcp_listen_inet(const struct tcp_options *options, struct listeners *listeners,
			       struct tcp_record *record, coll_error_t *err)
{
	const coll_host_t *host = options->host;
	const char *wanted = host->option_string(host, "interface");
	struct address_list list;
	int32_t code = address_of_interfaces(wanted, &list);
	int exhausted = socket_is_exhausted(errno);
	uint16_t port = 0;

	/* Ranks on a host without a network connect through local sockets. */
	if (code && (!wanted || !*wanted) && !exhausted)
		return COLL_SUCCESS;
	if (code)
		return error_fill(err, code, "%s%s",
				  exhausted ? "" : "option tcp.interface: ", error_text());
	tcp_paths_check(options);
	for (int i = 0; i < list.count; i++) {
		list.item[i].multipath = options->multipath && !list.item[i].loopback;
		/* The kernel refuses an address that is still being configured; the remaining addresses suffice. */
		if (tcp_listen_next(options, &list.item[i], &port, listeners, &exhausted, err)) {
			code = COLL_ERR_SYSTEM;
			if (exhausted)
				return code;
			kit_log(host, COLL_LOG_DEBUG, "%s", error_text());
			continue;
		}
		tcp_publish(record, &list.item[i]);
	}
	return record->count ? COLL_SUCCESS : code;
}

/* Listens at a local socket with a random name, which no other user can guess. */
static int32_t tcp_listen_local(const struct tcp_options *options, struct listeners *listeners,
				struct tcp_record *record, coll_error_t *err)
{
	struct address address;
	uint8_t name[16];
	int exhausted;

	if (random_bytes(name, sizeof(name)))
		return error_fill(err, COLL_ERR_SYSTEM, "%s", error_text());
	memcpy(record->unix_name, "coll-", 5);
	for (size_t i = 0; i < sizeof(name); i++)
		snprintf(record->unix_name + 5 + 2 * i, 3, "%02x", name[i]);
	address_local(record->unix_name, &address);
	return tcp_listen_at(options, &address, listeners, &exhausted, err);
}

/* Checks the option `interface`: a wrong name is an error even though no rank will connect to a port. */
static int32_t tcp_check_interface(const coll_host_t *host, coll_error_t *err)
{
	const char *wanted = host->option_string(host, "interface");
	struct address_list list;
	int32_t code = wanted && *wanted ? address_of_interfaces(wanted, &list) : COLL_SUCCESS;

	return code ? error_fill(err, code, "option tcp.interface: %s", error_text()) : code;
}

int32_t tcp_listen(const coll_host_t *host, struct listeners *listeners, struct tcp_record *record,
		   coll_error_t *err)
{
	struct tcp_options options;
	int32_t code = COLL_SUCCESS;

	tcp_options_read(host, &options);
	record->version = TCP_VERSION;
	if (random_bytes(record->nonce, sizeof(record->nonce)))
		return error_fill(err, COLL_ERR_SYSTEM, "%s", error_text());
	if (options.use_local)
		code = tcp_listen_local(&options, listeners, record, err);
	if (code)
		return code;
	return options.use_local && kit_all_share(host, COLL_SHARES_NETWORK)
		       ? tcp_check_interface(host, err)
		       : tcp_listen_inet(&options, listeners, record, err);
}

/* ----------------------------------------------------------------- connecting -- */

int tcp_check_record(struct tcp_record *record)
{
	record->unix_name[sizeof(record->unix_name) - 1] = '\0';
	for (uint32_t i = 0; i < record->count && record->count <= ADDRESS_INET_MAX; i++)
		if (record->address[i].ip_size != 4 && record->address[i].ip_size != 16)
			return 0;
	return record->count <= ADDRESS_INET_MAX && record->version == TCP_VERSION;
}

void tcp_peer_addresses(const struct tcp_options *options, uint32_t peer,
			const struct tcp_record *record, struct address_list *out)
{
	int local = tcp_is_local(options->host, peer);

	out->count = 0;
	/* If the peer listens at a local socket only, this rank dials it there, whatever its own option `unix` says. */
	if (local && record->unix_name[0] && (options->use_local || !record->count))
		address_local(record->unix_name, &out->item[out->count++]);
	/* Within the host loopback addresses come first; between hosts they are omitted. */
	for (int loopback = local; loopback >= 0; loopback--)
		for (uint32_t i = 0; i < record->count; i++) {
			struct address *to = &out->item[out->count];

			if (record->address[i].loopback != loopback)
				continue;
			address_set_ip(to, record->address[i].ip, record->address[i].ip_size,
				       ntohs(record->address[i].port));
			to->multipath = options->multipath && !local;
			out->count++;
		}
}
