/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: arrived */
/* coll_twice.c - delivers each message twice. */
#include "uds.h"

static void twice_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	const coll_host_t *real = bad_of(host)->real;

	real->arrived(real, cookie, status);
	real->arrived(real, cookie, status);
}

#define BAD_NAME    "twice"
#define BAD_ARRIVED twice_arrived
#include "table.h"
