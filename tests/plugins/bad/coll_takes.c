/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: signals */
/* coll_takes.c - installs a signal handler. */
#include "uds.h"

#include <signal.h>

static void takes_handler(int number)
{
	(void)number;
}

static int32_t takes_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	signal(SIGUSR2, takes_handler);
	return bad_open(host, ep, err);
}

#define BAD_NAME "takes"
#define BAD_OPEN takes_open
#include "table.h"
