/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h - addresses of sockets, of this host's interfaces and of host names, and their texts.
 */
#ifndef CORE_SOCKET_ADDRESS_H
#define CORE_SOCKET_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	ADDRESS_INET_MAX = 8, /* most IP addresses in a list */
	ADDRESS_MAX = 9,      /* and one local (AF_UNIX) socket */
	ADDRESS_TEXT_SIZE = 80,
	ADDRESS_LEFT_OUT_SIZE = 200
};

struct address {
	union {
		struct sockaddr_storage sa; /* its family selects the member */
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
	socklen_t len;
	int loopback;  /* a loopback interface has it: usable within its host only */
	int multipath; /* reached by Multipath TCP where the kernel has that */
};

struct address_list {
	struct address item[ADDRESS_MAX]; /* best first */
	int count;
	int more;                             /* the host has more addresses than fit */
	char left_out[ADDRESS_LEFT_OUT_SIZE]; /* their texts, as far as there is space */
};

/*
 * IP addresses of this host that others can use, port 0: of the interface or address `name`, or, if
 * it is NULL or "", of all interfaces that run: first the addresses that the default route uses, then one of each
 * interface and family, loopback last.  A name that does not exist is an error, which lists the names that exist.
 * errno is set: to the reason why the system does not list its interfaces, or to 0.
 */
int address_of_interfaces(const char *name, struct address_list *out);
/* "1.2.3.4:80" or "[::1]:80", numbers only; `what` begins the error text. */
int address_parse(const char *text, const char *what, struct address *out);
/* Like the function above, but also accepts a host name; blocks at most timeout_ms. */
int address_resolve(const char *text, const char *what, int64_t timeout_ms,
		    struct address_list *out);
/* The local socket of that name in the abstract namespace, which leaves no file behind. */
void address_local(const char *name, struct address *out);

/* "10.0.0.7:4711", "[::1]:80", "a local socket". */
void address_format(const struct address *address, char text[ADDRESS_TEXT_SIZE]);

/* The functions below are for IP addresses. */
uint16_t address_port(const struct address *address);
void address_set_port(struct address *address, uint16_t port);
/* The 4 or 16 bytes of the IP address, in network byte order. */
size_t address_ip_size(const struct address *address);
/* Is it an address like 127.0.0.1 or ::1, which only this host reaches? */
int address_is_loopback(const struct address *address);
const void *address_ip(const struct address *address);
/* Has the list this IP address, with any port? */
int address_list_has(const struct address_list *list, const struct address *address);
/* Appends the address unless the list has it.  Returns 0 if the list is full. */
int address_list_add(struct address_list *list, const struct address *address);
/* Notes an address for which the list has no space. */
void address_list_leave_out(struct address_list *list, const char *text);
/* Makes an address of a socket address with an IP address.  An IPv4 address in IPv6's form becomes IPv4. */
void address_set(struct address *address, const struct sockaddr *sa, uint16_t port);
/* Makes an address of 4 (IPv4) or 16 bytes (IPv6). */
void address_set_ip(struct address *address, const void *ip, size_t size, uint16_t port);

#endif
