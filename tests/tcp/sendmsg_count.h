/* SPDX-License-Identifier: BSD-3-Clause */
/* sendmsg_count.h - counts the calls of sendmsg() in this process, also those of a plugin. */
#ifndef TESTS_SENDMSG_COUNT_H
#define TESTS_SENDMSG_COUNT_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

static _Atomic int sendmsg_calls;

/* Takes the place of the C library's function. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t (*next)(int, const struct msghdr *, int);
	void *symbol = dlsym(RTLD_NEXT, "sendmsg");

	memcpy(&next, &symbol, sizeof(next));
	atomic_fetch_add(&sendmsg_calls, 1);
	return next(fd, msg, flags);
}

#endif
