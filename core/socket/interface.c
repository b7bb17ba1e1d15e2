/* SPDX-License-Identifier: BSD-3-Clause */
/* interface.c - the addresses of this host's network interfaces, best first. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "socket/address.h"

/* The order in which addresses enter a list. */
enum interface_rank {
	INTERFACE_ROUTE_IPV4, /* the default route uses it */
	INTERFACE_ROUTE_IPV6,
	INTERFACE_FIRST_IPV4, /* the first of its interface and family */
	INTERFACE_FIRST_IPV6,
	INTERFACE_IPV4,
	INTERFACE_IPV6,
	INTERFACE_LOOPBACK_IPV4,
	INTERFACE_LOOPBACK_IPV6,
	INTERFACE_RANKS
};

/* A link-local IPv6 address is not usable, because it means another host in every network. */
static int interface_is_usable(const struct ifaddrs *i)
{
	const struct sockaddr *sa = i->ifa_addr;

	if (sa == NULL || !(i->ifa_flags & IFF_UP))
		return 0;
	return sa->sa_family == AF_INET ||
	       (sa->sa_family == AF_INET6 &&
		!IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)sa)->sin6_addr));
}

static void interface_address(const struct ifaddrs *i, struct address *address)
{
	address_set(address, i->ifa_addr, 0);
	address->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
}

/* "10.0.0.7" */
static void interface_ip_text(const struct ifaddrs *i, char text[INET6_ADDRSTRLEN])
{
	struct address address;

	interface_address(i, &address);
	if (!inet_ntop(address.sa.ss_family, address_ip(&address), text, INET6_ADDRSTRLEN))
		text[0] = '\0';
}

/* ---------------------------------------------------------------- the default route -- */

/*
 * Adds the address from which the system would send to `there`, an address for documents, which only the default route
 * leads to.  Connecting a datagram socket sends nothing.
 */
static void interface_add_route(struct address_list *routes, const void *there, size_t size)
{
	struct address to, from = {.len = sizeof(from.sa)};
	int fd;

	address_set_ip(&to, there, size, 9);
	fd = descriptor_lift(socket(to.sa.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return;
	if (!connect(fd, (const struct sockaddr *)&to.sa, to.len) &&
	    !getsockname(fd, (struct sockaddr *)&from.sa, &from.len))
		address_list_add(routes, &from);
	close(fd);
}

static void interface_routes(struct address_list *routes)
{
	static const uint8_t ipv4[4] = {198, 51, 100, 1};                   /* RFC 5737 */
	static const uint8_t ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}; /* RFC 3849 */

	routes->count = 0;
	interface_add_route(routes, ipv4, sizeof(ipv4));
	interface_add_route(routes, ipv6, sizeof(ipv6));
}

/* ------------------------------------------------------------------------- the order -- */

static int interface_is_first(const struct ifaddrs *list, const struct ifaddrs *i)
{
	for (; list != i; list = list->ifa_next)
		if (interface_is_usable(list) && !strcmp(list->ifa_name, i->ifa_name) &&
		    list->ifa_addr->sa_family == i->ifa_addr->sa_family)
			return 0;
	return 1;
}

static enum interface_rank interface_rank(const struct ifaddrs *list, const struct ifaddrs *i,
					  const struct address_list *routes)
{
	const int ipv6 = i->ifa_addr->sa_family == AF_INET6;

	if (i->ifa_flags & IFF_LOOPBACK)
		return ipv6 ? INTERFACE_LOOPBACK_IPV6 : INTERFACE_LOOPBACK_IPV4;
	if (address_list_has(routes, i->ifa_addr))
		return ipv6 ? INTERFACE_ROUTE_IPV6 : INTERFACE_ROUTE_IPV4;
	if (interface_is_first(list, i))
		return ipv6 ? INTERFACE_FIRST_IPV6 : INTERFACE_FIRST_IPV4;
	return ipv6 ? INTERFACE_IPV6 : INTERFACE_IPV4;
}

/* The list keeps space for two loopback addresses, so that a host can always reach itself. */
static int interface_limit(enum interface_rank rank)
{
	return rank == INTERFACE_LOOPBACK_IPV6   ? ADDRESS_INET_MAX
	       : rank == INTERFACE_LOOPBACK_IPV4 ? ADDRESS_INET_MAX - 1
						 : ADDRESS_INET_MAX - 2;
}

/* Without a name only interfaces that run count: without a carrier they reach no host. */
static int interface_is_called(const struct ifaddrs *i, const char *name)
{
	char ip[INET6_ADDRSTRLEN];

	if (!interface_is_usable(i))
		return 0;
	if (name == NULL || name[0] == '\0')
		return (i->ifa_flags & IFF_RUNNING) != 0;
	if (strcmp(i->ifa_name, name) == 0)
		return 1;
	interface_ip_text(i, ip);
	return strcmp(ip, name) == 0;
}

static void interface_add(struct address_list *out, const struct ifaddrs *i, int limit)
{
	struct address address;
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 4], ip[INET6_ADDRSTRLEN];

	interface_address(i, &address);
	if (out->count < limit && address_list_add(out, &address))
		return;
	interface_ip_text(i, ip);
	snprintf(text, sizeof(text), "%s (%.*s)", ip, IF_NAMESIZE - 1, i->ifa_name);
	address_list_leave_out(out, text);
}

/* ---------------------------------------------------------------------- no interface -- */

static int interface_not_found(const struct ifaddrs *list, const char *name)
{
	char known[400] = "", ip[INET6_ADDRSTRLEN];
	size_t used = 0;

	for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
		if (!interface_is_usable(i) || used + 80 > sizeof(known))
			continue;
		interface_ip_text(i, ip);
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
	struct address_list routes;
	struct ifaddrs *list = NULL;
	int code = 0, err;

	*out = (struct address_list){.count = 0};
	if (getifaddrs(&list) < 0) {
		err = errno;
		error_set(COLL_ERR_SYSTEM, "cannot list the network interfaces: %s%s",
			  strerror(err), error_remedy(err));
		errno = err;
		return COLL_ERR_SYSTEM;
	}
	interface_routes(&routes);
	for (int rank = 0; rank < INTERFACE_RANKS; rank++)
		for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
			if (interface_is_called(i, name) &&
			    (int)interface_rank(list, i, &routes) == rank)
				interface_add(out, i, interface_limit((enum interface_rank)rank));
	if (out->count == 0)
		code = interface_not_found(list, name);
	freeifaddrs(list);
	errno = 0;
	return code;
}
