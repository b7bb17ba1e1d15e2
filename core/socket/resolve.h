/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h - the addresses of a host name, within a time. */
#ifndef CORE_SOCKET_RESOLVE_H
#define CORE_SOCKET_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

enum { RESOLVE_HOST_SIZE = 256 };

/* A result of resolve() that none of getaddrinfo's has the value of. */
enum { RESOLVE_TIMED_OUT = 1 << 20 };

/*
 * Like getaddrinfo without a service, but returns after timeout_ms.  A call that gives up leaves a thread
 * behind, which ends when the system's resolver does and frees its own memory.  If no thread can be
 * started, the call blocks as getaddrinfo does.
 */
int resolve(const char *host, const struct addrinfo *hints, int64_t timeout_ms,
	    struct addrinfo **list);

#endif
