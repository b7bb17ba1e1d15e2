/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: wait-fd */
/* coll_deaf.c - the descriptor of wait_fd never becomes readable. */
#include "tcp.h"

#include <sys/eventfd.h>

static int32_t deaf_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	int32_t code = bad_open(host, ep, err);

	if (!code)
		((struct bad *)*ep)->fd = eventfd(0, EFD_CLOEXEC);
	return code;
}

static int32_t deaf_wait_fd(void *ep)
{
	return ((struct bad *)ep)->fd;
}

static void deaf_close(void *ep, int64_t timeout_ms)
{
	if (((struct bad *)ep)->fd > 0)
		close(((struct bad *)ep)->fd);
	bad_close(ep, timeout_ms);
}

#define BAD_NAME    "deaf"
#define BAD_OPEN    deaf_open
#define BAD_WAIT_FD deaf_wait_fd
#define BAD_CLOSE   deaf_close
#include "table.h"
