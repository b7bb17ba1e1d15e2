/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c - addresses of this host's interfaces and of host names, and their texts. */
#include "socket/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"
#include "socket/resolve.h"

uint16_t address_port(const struct address *addr)
{
	if (addr->sa.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&addr->sa)->sin6_port);
	return ntohs(((const struct sockaddr_in *)&addr->sa)->sin_port);
}

void address_set_port(struct address *addr, uint16_t port)
{
	if (addr->sa.ss_family == AF_INET6) {
		((struct sockaddr_in6 *)&addr->sa)->sin6_port = htons(port);
		addr->len = sizeof(struct sockaddr_in6);
	} else {
		((struct sockaddr_in *)&addr->sa)->sin_port = htons(port);
		addr->len = sizeof(struct sockaddr_in);
	}
}

static const void *address_sa_ip(const void *sa)
{
	if (((const struct sockaddr *)sa)->sa_family == AF_INET6)
		return &((const struct sockaddr_in6 *)sa)->sin6_addr;
	return &((const struct sockaddr_in *)sa)->sin_addr;
}

static size_t address_sa_ip_size(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

const void *address_ip(const struct address *address)
{
	return address_sa_ip(&address->sa);
}

size_t address_ip_size(const struct address *address)
{
	return address_sa_ip_size((const struct sockaddr *)&address->sa);
}

int address_is_loopback(const struct address *address)
{
	const struct in6_addr *ip = address_ip(address);
	uint8_t ipv4[4];

	if (address_ip_size(address) == sizeof(*ip) && !IN6_IS_ADDR_V4MAPPED(ip))
		return IN6_IS_ADDR_LOOPBACK(ip);
	memcpy(ipv4, (const uint8_t *)address_ip(address) + address_ip_size(address) - 4, 4);
	return ipv4[0] == 127;
}

void address_set_ip(struct address *address, const void *ip, size_t size, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	address->sa.ss_family = size == sizeof(struct in6_addr) ? AF_INET6 : AF_INET;
	if (address->sa.ss_family == AF_INET6)
		memcpy(&((struct sockaddr_in6 *)&address->sa)->sin6_addr, ip, size);
	else
		memcpy(&((struct sockaddr_in *)&address->sa)->sin_addr, ip, sizeof(struct in_addr));
	address_set_port(address, port);
}

void address_local(const char *name, struct address *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strnlen(name, sizeof(address.sun_path) - 1);

	/* A leading NUL stands for the abstract namespace. */
	memcpy(address.sun_path + 1, name, len);
	memset(out, 0, sizeof(*out));
	memcpy(&out->sa, &address, sizeof(address));
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

void address_format(const struct address *addr, char buf[ADDRESS_TEXT_SIZE])
{
	char ip[INET6_ADDRSTRLEN];
	int v6 = addr->sa.ss_family == AF_INET6;

	if (addr->sa.ss_family == AF_UNIX) {
		strcpy(buf, "a local socket");
		return;
	}
	if (inet_ntop(addr->sa.ss_family, address_sa_ip(&addr->sa), ip, sizeof(ip)) == NULL)
		strcpy(ip, "?");
	snprintf(buf, ADDRESS_TEXT_SIZE, "%s%s%s:%u", v6 ? "[" : "", ip, v6 ? "]" : "",
		 (unsigned)address_port(addr));
}

void address_format_peer(int fd, char buf[ADDRESS_TEXT_SIZE])
{
	struct address addr = {.len = sizeof(addr.sa)};

	if (getpeername(fd, (struct sockaddr *)&addr.sa, &addr.len) == 0)
		address_format(&addr, buf);
	else
		strcpy(buf, "?");
}

/* ------------------------------------------------------------ text to address -- */

struct address_text {
	char host[RESOLVE_HOST_SIZE];
	uint16_t port;
};

static int address_split(const char *text, const char *what, struct address_text *out)
{
	const char *colon = strrchr(text, ':');
	const char *host = text, *end = colon;
	char *rest;
	unsigned long port = 0;

	if (colon != NULL && text[0] == '[' && colon[-1] == ']') {
		host++;
		end--;
	} else if (colon != NULL && memchr(text, ':', (size_t)(colon - text)) != NULL) {
		return error_set(COLL_ERR_CONFIG,
				 "%s '%.100s': write an IPv6 address in brackets, as in "
				 "[::1]:4000",
				 what, text);
	}
	if (colon != NULL && colon[1] >= '0' && colon[1] <= '9') {
		errno = 0;
		port = strtoul(colon + 1, &rest, 10);
		if (*rest != '\0' || errno != 0 || port > 65535)
			port = 0;
	}
	if (port == 0 || end <= host || (size_t)(end - host) >= sizeof(out->host))
		return error_set(COLL_ERR_CONFIG,
				 "%s '%.100s' is not of the form host:port with a port from 1 to "
				 "65535",
				 what, text);
	memcpy(out->host, host, (size_t)(end - host));
	out->host[end - host] = '\0';
	out->port = (uint16_t)port;
	return 0;
}

int address_list_has(const struct address_list *list, const struct sockaddr *sa)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].sa.ss_family == sa->sa_family &&
		    memcmp(address_sa_ip(&list->item[i].sa), address_sa_ip(sa),
			   address_sa_ip_size(sa)) == 0)
			return 1;
	return 0;
}

static void address_add(struct address_list *out, const struct sockaddr *sa, uint16_t port,
			int loopback)
{
	struct address *addr = &out->item[out->count];

	if (address_list_has(out, sa)) /* the resolver may return an address twice */
		return;
	if (out->count == ADDRESS_INET_MAX ||
	    (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return;
	memset(addr, 0, sizeof(*addr));
	memcpy(&addr->sa, sa,
	       sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in));
	address_set_port(addr, port);
	addr->loopback = loopback;
	out->count++;
}

static int address_fail(const char *text, const char *what, const char *host, int rc,
			int64_t timeout_ms)
{
	if (rc == RESOLVE_TIMED_OUT)
		return error_set(COLL_ERR_TIMEOUT,
				 "%s '%.100s': timed out: the name server has not answered within "
				 "%.3g s: give "
				 "the address of the host '%.100s' instead of its name, or check "
				 "/etc/resolv.conf",
				 what, text, (double)timeout_ms / 1e3, host);
	return error_set(COLL_ERR_SYSTEM, "%s '%.100s': cannot find the host '%.100s': %s", what,
			 text, host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

static int address_lookup(const char *text, const char *what, int flags, int64_t timeout_ms,
			  struct address_list *out)
{
	struct addrinfo hints = {.ai_flags = flags, .ai_socktype = SOCK_STREAM}, *list = NULL;
	struct address_text t;
	int rc = address_split(text, what, &t);

	out->count = 0;
	if (rc)
		return rc;
	rc = resolve(t.host, &hints, timeout_ms, &list);
	if (rc != 0)
		return address_fail(text, what, t.host, rc, timeout_ms);
	for (struct addrinfo *a = list; a != NULL; a = a->ai_next)
		address_add(out, a->ai_addr, t.port, 0);
	freeaddrinfo(list);
	if (out->count == 0)
		return error_set(COLL_ERR_SYSTEM, "%s '%.100s': the host has no IP address", what,
				 text);
	return 0;
}

int address_parse(const char *text, const char *what, struct address *out)
{
	struct address_list list;
	int code = address_lookup(text, what, AI_NUMERICHOST, 0, &list);

	if (code == 0)
		*out = list.item[0];
	return code;
}

int address_resolve(const char *text, const char *what, int64_t timeout_ms,
		    struct address_list *out)
{
	return address_lookup(text, what, 0, timeout_ms, out);
}

/* ----------------------------------------------------------------- interfaces -- */

/*
 * Order of use: IPv4, IPv6, then loopback; -1: not usable.  A link-local IPv6 address is not usable,
 * because it means another host in every network.
 */
static int address_class(const struct ifaddrs *i)
{
	const struct sockaddr *sa = i->ifa_addr;
	int loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;

	if (sa == NULL || !(i->ifa_flags & IFF_UP))
		return -1;
	if (sa->sa_family == AF_INET)
		return loopback ? 2 : 0;
	if (sa->sa_family != AF_INET6 ||
	    IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)sa)->sin6_addr))
		return -1;
	return loopback ? 3 : 1;
}

static void address_ip_text(const struct ifaddrs *i, char buf[INET6_ADDRSTRLEN])
{
	struct sockaddr_storage sa = {0};

	memcpy(&sa, i->ifa_addr,
	       i->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in));
	if (inet_ntop(sa.ss_family, address_sa_ip(&sa), buf, INET6_ADDRSTRLEN) == NULL)
		buf[0] = '\0';
}

/* Without a name only interfaces that run count: without a carrier they reach no host. */
static int address_is_called(const struct ifaddrs *i, const char *name)
{
	char ip[INET6_ADDRSTRLEN];

	if (name == NULL || name[0] == '\0')
		return (i->ifa_flags & IFF_RUNNING) != 0;
	if (strcmp(i->ifa_name, name) == 0)
		return 1;
	address_ip_text(i, ip);
	return strcmp(ip, name) == 0;
}

static int address_no_interface(const struct ifaddrs *list, const char *name)
{
	char known[400] = "", ip[INET6_ADDRSTRLEN];
	size_t used = 0;

	for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
		if (address_class(i) < 0 || used + 80 > sizeof(known))
			continue;
		address_ip_text(i, ip);
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s (%s)",
					 used ? ", " : "", i->ifa_name, ip);
	}
	if (name == NULL || name[0] == '\0')
		return error_set(COLL_ERR_SYSTEM, "this host has no network interface with an IP "
						  "address, not even a loopback");
	return error_set(COLL_ERR_CONFIG,
			 "interface '%.64s' is not one of this host's usable ones: %s", name,
			 known);
}

int address_of_interfaces(const char *name, struct address_list *out)
{
	/* The list keeps space for two loopback addresses, so that a host can always reach itself. */
	static const int limit[4] = {ADDRESS_INET_MAX - 2, ADDRESS_INET_MAX - 2,
				     ADDRESS_INET_MAX - 1, ADDRESS_INET_MAX};
	struct ifaddrs *list = NULL;
	int code = 0, err;

	out->count = 0;
	if (getifaddrs(&list) < 0) {
		err = errno;
		error_set(COLL_ERR_SYSTEM, "cannot list the network interfaces: %s%s",
			  strerror(err), error_remedy(err));
		errno = err;
		return COLL_ERR_SYSTEM;
	}
	for (int class = 0; class < 4; class ++)
		for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
			if (address_class(i) == class && out->count < limit[class] &&
			    address_is_called(i, name))
				address_add(out, i->ifa_addr, 0,
					    (i->ifa_flags & IFF_LOOPBACK) != 0);
	if (out->count == 0)
		code = address_no_interface(list, name);
	freeifaddrs(list);
	errno = 0;
	return code;
}
