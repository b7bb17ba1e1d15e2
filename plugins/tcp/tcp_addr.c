/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_addr.c - where a rank listens, which address suits a peer, options of sockets. */
#include "tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A host that vanishes is noticed after IDLE + COUNT * STEP seconds, also if nothing is sent. */
enum { TCP_KEEP_IDLE_S = 10, TCP_KEEP_STEP_S = 5, TCP_KEEP_COUNT = 4 };

static void tcp_set(const coll_host_t *host, int fd, int level, int name, const void *value,
		    socklen_t size, const char *what)
{
	if (setsockopt(fd, level, name, value, size))
		kit_log(host, COLL_LOG_DEBUG, "cannot set %s of a socket: %s", what,
			strerror(errno));
}

static void tcp_set_int(const coll_host_t *host, int fd, int level, int name, int64_t value,
			const char *what)
{
	int number = (int)value;

	tcp_set(host, fd, level, name, &number, sizeof(number), what);
}

static void tcp_tune_inet(const coll_host_t *host, int fd, int local)
{
	const char *congestion = host->option_string(host, "congestion");
	int64_t rcvbuf = host->option_int(host, "rcvbuf");
	int64_t user_timeout = host->option_int(host, "user_timeout");

	/* Within a host nothing is ever congested, and bbr would still pace. */
	if ((!congestion || !*congestion) && local)
		congestion = "reno";
	if (congestion && *congestion)
		tcp_set(host, fd, IPPROTO_TCP, TCP_CONGESTION, congestion,
			(socklen_t)strlen(congestion), "the congestion control");
	if (rcvbuf > 0)
		tcp_set_int(host, fd, SOL_SOCKET, SO_RCVBUF, rcvbuf, "SO_RCVBUF");
	if (user_timeout > 0)
		tcp_set_int(host, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (user_timeout + 999) / 1000,
			    "TCP_USER_TIMEOUT");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEP_IDLE_S, "TCP_KEEPIDLE");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEP_STEP_S, "TCP_KEEPINTVL");
	tcp_set_int(host, fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEP_COUNT, "TCP_KEEPCNT");
	tcp_set_int(host, fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
}

void tcp_tune(const coll_host_t *host, int fd, int family, int local)
{
	int64_t sndbuf = host->option_int(host, "sndbuf");

	if (!sndbuf && family == AF_UNIX)
		sndbuf = TCP_UNIX_BUFFER;
	if (sndbuf > 0)
		tcp_set_int(host, fd, SOL_SOCKET, SO_SNDBUF, sndbuf, "SO_SNDBUF");
	if (family != AF_UNIX)
		tcp_tune_inet(host, fd, local);
}

/* ------------------------------------------------------------------ listening -- */

static int32_t tcp_listen_on(const coll_host_t *host, struct tcp_listeners *listeners,
			     struct sockaddr_storage *address, socklen_t len, int local,
			     coll_error_t *err)
{
	int family = address->ss_family;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char text[80];

	tcp_address_text(address, text, sizeof(text));
	if (fd < 0)
		return error_fill(err, COLL_ERR_SYSTEM, "cannot make a socket for %s: %s", text,
				  strerror(errno));
	tcp_tune(host, fd, family, local);
	if (family == AF_INET6)
		tcp_set_int(host, fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
	if (bind(fd, (struct sockaddr *)address, len) || listen(fd, 4096) ||
	    (family != AF_UNIX && getsockname(fd, (struct sockaddr *)address, &len))) {
		error_fill(err, COLL_ERR_SYSTEM, "cannot listen on %s: %s", text, strerror(errno));
		close(fd);
		return COLL_ERR_SYSTEM;
	}
	listeners->fd[listeners->count++] = fd;
	return COLL_SUCCESS;
}

/* name: terminated, and shorter than a record's unix_name. */
static socklen_t tcp_unix_address(const char *name, struct sockaddr_storage *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);

	/* A leading NUL: the abstract namespace, which leaves no file behind. */
	memcpy(address.sun_path + 1, name, len);
	memcpy(out, &address, sizeof(address));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* Says yes to what the option `interface` means: nothing, a name, or an address. */
static int tcp_wanted(const struct ifaddrs *ifa, const char *wanted, char *text, size_t size)
{
	const struct sockaddr_in6 *in6 = (const void *)ifa->ifa_addr;
	const struct sockaddr_in *in = (const void *)ifa->ifa_addr;
	int family = in ? in->sin_family : AF_UNSPEC;

	if (family == AF_INET)
		inet_ntop(family, &in->sin_addr, text, (socklen_t)size);
	else if (family == AF_INET6)
		inet_ntop(family, &in6->sin6_addr, text, (socklen_t)size);
	else
		return 0;
	if ((ifa->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
		return 0;
	/* Such an address means nothing on another host. */
	if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		return 0;
	return !wanted || !*wanted || !strcmp(wanted, ifa->ifa_name) || !strcmp(wanted, text);
}

static int32_t tcp_listen_inet(const coll_host_t *host, const struct ifaddrs *ifa,
			       struct tcp_listeners *listeners, struct tcp_record *record,
			       coll_error_t *err)
{
	struct tcp_address *out = &record->address[record->count];
	int family = ifa->ifa_addr->sa_family;
	struct sockaddr_storage address = {0};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
	struct sockaddr_in *in = (struct sockaddr_in *)&address;
	socklen_t len = family == AF_INET ? sizeof(*in) : sizeof(*in6);
	int loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0;
	int32_t code;

	memcpy(&address, ifa->ifa_addr, len);
	code = tcp_listen_on(host, listeners, &address, len, loopback, err);
	if (code)
		return code;
	out->family = family == AF_INET ? 4 : 6;
	out->port = family == AF_INET ? in->sin_port : in6->sin6_port;
	out->loopback = (uint8_t)loopback;
	if (family == AF_INET)
		memcpy(out->ip, &in->sin_addr, 4);
	else
		memcpy(out->ip, &in6->sin6_addr, 16);
	record->count++;
	return COLL_SUCCESS;
}

/* Listens on each wanted address; loopback ones last, with one place kept for them. */
static int32_t tcp_listen_all(const coll_host_t *host, struct tcp_listeners *listeners,
			      struct tcp_record *record, coll_error_t *err)
{
	const char *wanted = host->option_string(host, "interface");
	int32_t found = 0, code = COLL_SUCCESS;
	struct ifaddrs *list;
	char text[64];

	if (getifaddrs(&list))
		return error_fill(err, COLL_ERR_SYSTEM, "cannot list network interfaces: %s",
				  strerror(errno));
	for (uint32_t loopback = 0; loopback < 2; loopback++) {
		for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
			if (!tcp_wanted(ifa, wanted, text, sizeof(text)) ||
			    !(ifa->ifa_flags & IFF_LOOPBACK) != !loopback ||
			    record->count >= TCP_ADDRESSES - 1 + loopback)
				continue;
			found = 1;
			/* One address may be unusable (still being configured, say). */
			if (tcp_listen_inet(host, ifa, listeners, record, err)) {
				code = COLL_ERR_SYSTEM;
				kit_log(host, COLL_LOG_DEBUG, "%s", err ? err->text : text);
			}
		}
	}
	freeifaddrs(list);
	if (!found && wanted && *wanted)
		return error_fill(err, COLL_ERR_CONFIG,
				  "no running network interface has the name or address '%s' "
				  "(option tcp.interface; 'ip address' lists them)",
				  wanted);
	return record->count ? COLL_SUCCESS : code;
}

static void tcp_identify_host(struct tcp_record *record)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	struct stat netns;

	/* Without both the rank shares a host with nobody, which is only slower. */
	if (fd < 0)
		return;
	if (!stat("/proc/self/ns/net", &netns) &&
	    read(fd, record->boot_id, sizeof(record->boot_id) - 1) < 36)
		record->boot_id[0] = '\0';
	if (record->boot_id[0]) {
		record->netns[0] = (uint64_t)netns.st_dev;
		record->netns[1] = (uint64_t)netns.st_ino;
	}
	close(fd);
}

int32_t tcp_listen(const coll_host_t *host, struct tcp_listeners *listeners,
		   struct tcp_record *record, coll_error_t *err)
{
	uint8_t name[16];
	struct sockaddr_storage address;
	int32_t code;

	tcp_identify_host(record);
	record->pid = (uint32_t)getpid();
	if (getrandom(record->nonce, sizeof(record->nonce), 0) != sizeof(record->nonce) ||
	    getrandom(name, sizeof(name), 0) != sizeof(name))
		return error_fill(err, COLL_ERR_SYSTEM, "cannot get random bytes: %s",
				  strerror(errno));
	if (host->option_int(host, "unix") && record->boot_id[0]) {
		memcpy(record->unix_name, "coll-", 5);
		for (size_t i = 0; i < sizeof(name); i++)
			snprintf(record->unix_name + 5 + 2 * i, 3, "%02x", name[i]);
		code = tcp_listen_on(host, listeners, &address,
				     tcp_unix_address(record->unix_name, &address), 1, err);
		if (code)
			return code;
	}
	return tcp_listen_all(host, listeners, record, err);
}

void tcp_unlisten(struct tcp_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->count; i++)
		close(listeners->fd[i]);
	listeners->count = 0;
}

/* ----------------------------------------------------------------- connecting -- */

int tcp_same_host(const struct tcp_record *a, const struct tcp_record *b)
{
	return a->boot_id[0] && !strcmp(a->boot_id, b->boot_id) && a->netns[0] == b->netns[0] &&
	       a->netns[1] == b->netns[1];
}

static socklen_t tcp_inet_address(const struct tcp_address *from, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *in = (struct sockaddr_in *)out;

	memset(out, 0, sizeof(*out));
	if (from->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = from->port;
		memcpy(&in->sin_addr, from->ip, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = from->port;
	memcpy(&in6->sin6_addr, from->ip, 16);
	return sizeof(*in6);
}

socklen_t tcp_candidate(const coll_host_t *host, const struct tcp_record *own,
			const struct tcp_record *peer, uint32_t k, struct sockaddr_storage *out)
{
	int local = tcp_same_host(own, peer);

	if (local && peer->unix_name[0] && host->option_int(host, "unix") && k-- == 0)
		return tcp_unix_address(peer->unix_name, out);
	/* Loopback addresses first, but only within the host. */
	for (int loopback = local; loopback >= 0; loopback--)
		for (uint32_t i = 0; i < peer->count; i++)
			if (peer->address[i].loopback == loopback && k-- == 0)
				return tcp_inet_address(&peer->address[i], out);
	return 0;
}

void tcp_address_text(const struct sockaddr_storage *address, char *text, size_t size)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	char ip[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_UNIX) {
		snprintf(text, size, "a local socket");
	} else if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(text, size, "%s:%u", ip, ntohs(in->sin_port));
	} else {
		inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
		snprintf(text, size, "[%s]:%u", ip, ntohs(in6->sin6_port));
	}
}
