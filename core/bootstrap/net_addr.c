/* SPDX-License-Identifier: BSD-3-Clause */
/* net_addr.c - TCP addresses: of this host's interfaces, of names, as text. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "bootstrap/net.h"

uint16_t net_port(const struct net_addr *addr)
{
	if (addr->sa.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&addr->sa)->sin6_port);
	return ntohs(((const struct sockaddr_in *)&addr->sa)->sin_port);
}

void net_set_port(struct net_addr *addr, uint16_t port)
{
	if (addr->sa.ss_family == AF_INET6) {
		((struct sockaddr_in6 *)&addr->sa)->sin6_port = htons(port);
		addr->len = sizeof(struct sockaddr_in6);
	} else {
		((struct sockaddr_in *)&addr->sa)->sin_port = htons(port);
		addr->len = sizeof(struct sockaddr_in);
	}
}

static const void *net_ip(const void *sa)
{
	if (((const struct sockaddr *)sa)->sa_family == AF_INET6)
		return &((const struct sockaddr_in6 *)sa)->sin6_addr;
	return &((const struct sockaddr_in *)sa)->sin_addr;
}

static size_t net_ip_size(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

void net_format(const struct net_addr *addr, char buf[NET_ADDR_SIZE])
{
	char ip[INET6_ADDRSTRLEN];
	int v6 = addr->sa.ss_family == AF_INET6;

	if (inet_ntop(addr->sa.ss_family, net_ip(&addr->sa), ip, sizeof(ip)) == NULL)
		strcpy(ip, "?");
	snprintf(buf, NET_ADDR_SIZE, "%s%s%s:%u", v6 ? "[" : "", ip, v6 ? "]" : "",
		 (unsigned)net_port(addr));
}

void net_format_peer(int fd, char buf[NET_ADDR_SIZE])
{
	struct net_addr addr = {.len = sizeof(addr.sa)};

	if (getpeername(fd, (struct sockaddr *)&addr.sa, &addr.len) == 0)
		net_format(&addr, buf);
	else
		strcpy(buf, "?");
}

/* ------------------------------------------------------------ text to address -- */

struct net_text {
	char host[256];
	uint16_t port;
};

static int net_split(const char *text, const char *what, struct net_text *out)
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

static void net_add(struct net_addrs *out, const struct sockaddr *sa, uint16_t port)
{
	struct net_addr *addr = &out->item[out->count];

	for (int i = 0; i < out->count; i++) /* the resolver may say one thing twice */
		if (out->item[i].sa.ss_family == sa->sa_family &&
		    memcmp(net_ip(&out->item[i].sa), net_ip(sa), net_ip_size(sa)) == 0)
			return;
	if (out->count == NET_MAX_ADDRS || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return;
	memset(addr, 0, sizeof(*addr));
	memcpy(&addr->sa, sa,
	       sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in));
	net_set_port(addr, port);
	out->count++;
}

static int net_lookup(const char *text, const char *what, int flags, struct net_addrs *out)
{
	struct addrinfo hints = {.ai_flags = flags, .ai_socktype = SOCK_STREAM}, *list = NULL;
	struct net_text t;
	int rc = net_split(text, what, &t);

	out->count = 0;
	if (rc)
		return rc;
	rc = getaddrinfo(t.host, NULL, &hints, &list);
	if (rc != 0)
		return error_set(COLL_ERR_SYSTEM, "%s '%.100s': cannot find the host '%.100s': %s",
				 what, text, t.host,
				 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	for (struct addrinfo *a = list; a != NULL; a = a->ai_next)
		net_add(out, a->ai_addr, t.port);
	freeaddrinfo(list);
	if (out->count == 0)
		return error_set(COLL_ERR_SYSTEM, "%s '%.100s': the host has no IP address", what,
				 text);
	return 0;
}

int net_parse(const char *text, const char *what, struct net_addr *out)
{
	struct net_addrs list;
	int code = net_lookup(text, what, AI_NUMERICHOST, &list);

	if (code == 0)
		*out = list.item[0];
	return code;
}

int net_resolve(const char *text, const char *what, struct net_addrs *out)
{
	return net_lookup(text, what, 0, out);
}

/* ----------------------------------------------------------------- interfaces -- */

/*
 * Order of use: IPv4, IPv6, then loopback; -1: not usable.  Link-local IPv6 is not: it means
 * something else on every host.
 */
static int net_class(const struct ifaddrs *i)
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

static void net_ip_text(const struct ifaddrs *i, char buf[INET6_ADDRSTRLEN])
{
	struct sockaddr_storage sa = {0};

	memcpy(&sa, i->ifa_addr,
	       i->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in));
	if (inet_ntop(sa.ss_family, net_ip(&sa), buf, INET6_ADDRSTRLEN) == NULL)
		buf[0] = '\0';
}

static int net_is_called(const struct ifaddrs *i, const char *name)
{
	char ip[INET6_ADDRSTRLEN];

	if (name == NULL || name[0] == '\0' || strcmp(i->ifa_name, name) == 0)
		return 1;
	net_ip_text(i, ip);
	return strcmp(ip, name) == 0;
}

static int net_no_interface(const struct ifaddrs *list, const char *name)
{
	char known[400] = "", ip[INET6_ADDRSTRLEN];
	size_t used = 0;

	for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
		if (net_class(i) < 0 || used + 80 > sizeof(known))
			continue;
		net_ip_text(i, ip);
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

int net_local_addrs(const char *name, struct net_addrs *out)
{
	/* Others leave room for two loopbacks, so that a host can always reach itself. */
	static const int room[4] = {NET_MAX_ADDRS - 2, NET_MAX_ADDRS - 2, NET_MAX_ADDRS - 1,
				    NET_MAX_ADDRS};
	struct ifaddrs *list = NULL;
	int code = 0;

	out->count = 0;
	if (getifaddrs(&list) < 0)
		return error_set(COLL_ERR_SYSTEM, "cannot list the network interfaces: %s",
				 strerror(errno));
	for (int class = 0; class < 4; class ++)
		for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
			if (net_class(i) == class && out->count < room[class] &&
			    net_is_called(i, name))
				net_add(out, i->ifa_addr, 0);
	if (out->count == 0)
		code = net_no_interface(list, name);
	freeifaddrs(list);
	return code;
}
