/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c - addresses of sockets, of host names and of this host's interfaces, and their texts. */
#include "socket/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/late.h"
#include "base/thread.h"

enum {
	RESOLVE_HOST_SIZE = 256,
	RESOLVE_TIMED_OUT = 1 << 20 /* a result of resolve(), and of no getaddrinfo() */
};

static int address_is_ipv6(const struct address *address)
{
	return address->sa.ss_family == AF_INET6;
}

uint16_t address_port(const struct address *address)
{
	return ntohs(address_is_ipv6(address) ? address->in6.sin6_port : address->in.sin_port);
}

void address_set_port(struct address *address, uint16_t port)
{
	if (address_is_ipv6(address)) {
		address->in6.sin6_port = htons(port);
		address->len = sizeof(address->in6);
	} else {
		address->in.sin_port = htons(port);
		address->len = sizeof(address->in);
	}
}

const void *address_ip(const struct address *address)
{
	return address_is_ipv6(address) ? (const void *)&address->in6.sin6_addr
					: (const void *)&address->in.sin_addr;
}

size_t address_ip_size(const struct address *address)
{
	return address_is_ipv6(address) ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

int address_is_loopback(const struct address *address)
{
	const struct in6_addr *ip = &address->in6.sin6_addr;

	if (!address_is_ipv6(address))
		return ntohl(address->in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_V4MAPPED(ip) ? ip->s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(ip);
}

void address_set_ip(struct address *address, const void *ip, size_t size, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	address->sa.ss_family = size == sizeof(struct in6_addr) ? AF_INET6 : AF_INET;
	if (address_is_ipv6(address))
		memcpy(&address->in6.sin6_addr, ip, size);
	else
		memcpy(&address->in.sin_addr, ip, sizeof(address->in.sin_addr));
	address_set_port(address, port);
}

void address_set(struct address *address, const struct sockaddr *sa, uint16_t port)
{
	struct address from = {.len = 0};
	const struct in6_addr *ip = &from.in6.sin6_addr;

	memcpy(&from.sa, sa, sa->sa_family == AF_INET6 ? sizeof(from.in6) : sizeof(from.in));
	if (address_is_ipv6(&from) && IN6_IS_ADDR_V4MAPPED(ip)) {
		address_set_ip(address, &ip->s6_addr[12], sizeof(struct in_addr), port);
		return;
	}
	address_set_ip(address, address_ip(&from), address_ip_size(&from), port);
	if (address_is_ipv6(&from))
		address->in6.sin6_scope_id = from.in6.sin6_scope_id;
}

void address_local(const char *name, struct address *out)
{
	size_t len = strnlen(name, sizeof(out->un.sun_path) - 1);

	memset(out, 0, sizeof(*out));
	out->un.sun_family = AF_UNIX;
	/* A leading NUL stands for the abstract namespace. */
	memcpy(out->un.sun_path + 1, name, len);
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

void address_format(const struct address *address, char text[ADDRESS_TEXT_SIZE])
{
	char ip[INET6_ADDRSTRLEN], scope[IF_NAMESIZE] = "";
	struct address plain;

	if (address->sa.ss_family == AF_UNIX) {
		strcpy(text, "a local socket");
		return;
	}
	/* A socket of both families shows IPv4 addresses in IPv6's form. */
	address_set(&plain, &address->any, address_port(address));
	if (inet_ntop(plain.sa.ss_family, address_ip(&plain), ip, sizeof(ip)) == NULL)
		strcpy(ip, "?");
	if (!address_is_ipv6(&plain)) {
		snprintf(text, ADDRESS_TEXT_SIZE, "%s:%u", ip, (unsigned)address_port(&plain));
		return;
	}
	if_indextoname(plain.in6.sin6_scope_id, scope);
	snprintf(text, ADDRESS_TEXT_SIZE, "[%s%s%s]:%u", ip, scope[0] ? "%" : "", scope,
		 (unsigned)address_port(&plain));
}

/* ---------------------------------------------------- getaddrinfo with a timeout -- */

/*
 * getaddrinfo waits for name servers as long as resolv.conf says, and nothing can end it: it runs in a thread,
 * which is left to itself after the timeout.
 */
struct resolve {
	struct late late;
	char host[RESOLVE_HOST_SIZE];
	struct addrinfo hints;
	struct addrinfo *list;
	int rc, err; /* of getaddrinfo: its result, and errno */
};

static void resolve_leave(struct resolve *r)
{
	if (!late_leave(&r->late))
		return;
	if (r->list)
		freeaddrinfo(r->list);
	free(r);
}

static void *resolve_run(void *arg)
{
	struct resolve *r = arg;
	struct addrinfo *list = NULL;

	r->rc = getaddrinfo(r->host, NULL, &r->hints, &list);
	r->err = errno;
	r->list = r->rc ? NULL : list;
	late_give(&r->late);
	resolve_leave(r);
	return NULL;
}

/* Starts the thread.  Returns NULL if there is no memory, or no thread. */
static struct resolve *resolve_begin(const char *host, const struct addrinfo *hints)
{
	struct resolve *r = calloc(1, sizeof(*r));
	pthread_t thread;

	if (!r)
		return NULL;
	late_init(&r->late);
	snprintf(r->host, sizeof(r->host), "%s", host);
	r->hints = *hints;
	if (!thread_start(&thread, resolve_run, r)) {
		pthread_detach(thread);
		return r;
	}
	resolve_leave(r); /* for the thread */
	resolve_leave(r);
	return NULL;
}

/*
 * Like getaddrinfo without a service, but returns after timeout_ms.  A call that gives up leaves a thread
 * behind, which ends when the system's resolver does and frees its own memory.  If no thread can be
 * started, the call blocks as getaddrinfo does.
 */
static int resolve(const char *host, const struct addrinfo *hints, int64_t timeout_ms,
		   struct addrinfo **list)
{
	struct addrinfo numeric = *hints;
	struct resolve *r;
	int rc, err;

	*list = NULL;
	numeric.ai_flags |= AI_NUMERICHOST;
	rc = getaddrinfo(host, NULL, &numeric, list);
	/* An address needs no name server, and a thread might not run before a short timeout. */
	if (!rc || hints->ai_flags & AI_NUMERICHOST)
		return rc;
	*list = NULL;
	r = resolve_begin(host, hints);
	if (!r) /* nothing to wait for, or no thread: better late than never */
		return getaddrinfo(host, NULL, hints, list);
	rc = RESOLVE_TIMED_OUT;
	err = errno;
	if (late_wait(&r->late, timeout_ms)) {
		rc = r->rc;
		err = r->err;
		*list = r->list;
		r->list = NULL;
	}
	resolve_leave(r);
	errno = err;
	return rc;
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

int address_list_has(const struct address_list *list, const struct address *address)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].sa.ss_family == address->sa.ss_family &&
		    memcmp(address_ip(&list->item[i]), address_ip(address),
			   address_ip_size(address)) == 0)
			return 1;
	return 0;
}

int address_list_add(struct address_list *list, const struct address *address)
{
	if (address_list_has(list, address))
		return 1;
	if (list->count == ADDRESS_INET_MAX)
		return 0;
	list->item[list->count++] = *address;
	return 1;
}

void address_list_leave_out(struct address_list *list, const char *text)
{
	size_t used = strlen(list->left_out);

	list->more = 1;
	if (used + strlen(text) + sizeof(", ...") + 2 > sizeof(list->left_out)) {
		if (used > 0 && list->left_out[used - 1] != '.')
			strcpy(list->left_out + used, ", ...");
		return;
	}
	snprintf(list->left_out + used, sizeof(list->left_out) - used, "%s%s", used ? ", " : "",
		 text);
}

/* A link-local address means another host on each interface. */
static int address_lacks_interface(const struct address *address)
{
	return address_is_ipv6(address) && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr) &&
	       address->in6.sin6_scope_id == 0;
}

/* The numeric address names an interface that this host does not have. */
static int address_wrong_interface(const char *text, const char *what, const char *host)
{
	const char *percent = strchr(host, '%');
	char ip[INET6_ADDRSTRLEN] = "";
	struct in6_addr unused;

	if (percent == NULL || (size_t)(percent - host) >= sizeof(ip))
		return 0;
	memcpy(ip, host, (size_t)(percent - host));
	if (inet_pton(AF_INET6, ip, &unused) != 1)
		return 0;
	return error_set(COLL_ERR_CONFIG, "%s '%.100s': this host has no network interface '%.64s'",
			 what, text, percent + 1);
}

static int address_fail(const char *text, const char *what, const char *host, int rc,
			int64_t timeout_ms)
{
	if (address_wrong_interface(text, what, host))
		return COLL_ERR_CONFIG;
	if (rc == RESOLVE_TIMED_OUT)
		return error_set(
			COLL_ERR_TIMEOUT,
			"%s '%.100s': timed out: the name server has not answered within "
			"%.3g s: give the address of the host '%.100s' instead of its name, "
			"or check /etc/resolv.conf",
			what, text, (double)timeout_ms / 1e3, host);
	return error_set(COLL_ERR_SYSTEM, "%s '%.100s': cannot find the host '%.100s': %s", what,
			 text, host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

/* Returns 1 if the address is of no use without the name of an interface. */
static int address_take(struct address_list *out, const struct addrinfo *found, uint16_t port)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address address;

	if (found->ai_family != AF_INET && found->ai_family != AF_INET6)
		return 0;
	address_set(&address, found->ai_addr, port);
	if (address_lacks_interface(&address))
		return 1;
	if (!address_list_add(out, &address)) {
		address_format(&address, text);
		address_list_leave_out(out, text);
	}
	return 0;
}

static int address_lookup(const char *text, const char *what, int flags, int64_t timeout_ms,
			  struct address_list *out)
{
	struct addrinfo hints = {.ai_flags = flags, .ai_socktype = SOCK_STREAM}, *list = NULL;
	struct address_text t;
	int rc = address_split(text, what, &t), lacking = 0;

	*out = (struct address_list){.count = 0};
	if (rc)
		return rc;
	rc = resolve(t.host, &hints, timeout_ms, &list);
	if (rc != 0)
		return address_fail(text, what, t.host, rc, timeout_ms);
	for (struct addrinfo *a = list; a != NULL; a = a->ai_next)
		lacking |= address_take(out, a, t.port);
	freeaddrinfo(list);
	if (out->count == 0 && lacking)
		return error_set(COLL_ERR_CONFIG,
				 "%s '%.100s': a link-local address needs the name of this host's "
				 "interface to it, as in [fe80::1%%eth0]:4000",
				 what, text);
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

/* ---------------------------------------------------------- the interfaces of this host -- */

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

static void interface_address(const struct ifaddrs *i, struct address *address)
{
	address_set(address, i->ifa_addr, 0);
	address->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
}

/* A link-local IPv6 address is not usable, because it means another host in every network. */
static int interface_is_usable(const struct ifaddrs *i)
{
	struct address address;

	if (i->ifa_addr == NULL || !(i->ifa_flags & IFF_UP) ||
	    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
		return 0;
	interface_address(i, &address);
	return !address_is_ipv6(&address) || !IN6_IS_ADDR_LINKLOCAL(&address.in6.sin6_addr);
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
	if (!connect(fd, &to.any, to.len) && !getsockname(fd, &from.any, &from.len))
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
	struct address address;

	interface_address(i, &address);
	if (i->ifa_flags & IFF_LOOPBACK)
		return ipv6 ? INTERFACE_LOOPBACK_IPV6 : INTERFACE_LOOPBACK_IPV4;
	if (address_list_has(routes, &address))
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
