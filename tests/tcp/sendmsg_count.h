/* SPDX-License-Identifier: BSD-3-Clause */
/* sendmsg_count.h - counts the calls of sendmsg() and send() in this process, also those of a plugin. */
#ifndef TESTS_SENDMSG_COUNT_H
#define TESTS_SENDMSG_COUNT_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

static _Atomic int sendmsg_calls;                      /* of both functions */
__attribute__((unused)) static _Atomic int send_calls; /* of send() */

/* These take the places of the C library's functions. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t (*next)(int, const struct msghdr *, int);
	void *symbol = dlsym(RTLD_NEXT, "sendmsg");

	memcpy(&next, &symbol, sizeof(next));
	atomic_fetch_add(&sendmsg_calls, 1);
	return next(fd, msg, flags);
}

__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	ssize_t (*next)(int, const void *, size_t, int);
	void *symbol = dlsym(RTLD_NEXT, "send");

	memcpy(&next, &symbol, sizeof(next));
	atomic_fetch_add(&sendmsg_calls, 1);
	atomic_fetch_add(&send_calls, 1);
	return next(fd, bytes, n, flags);
}

#endif
