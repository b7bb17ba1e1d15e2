/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: open-text */
/* coll_mute.c - a failed open leaves its error text empty. */
#include "uds.h"

static int32_t mute_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	int32_t code = bad_open(host, ep, err);

	err->text[0] = '\0';
	return code;
}

#define BAD_NAME "mute"
#define BAD_OPEN mute_open
#include "table.h"
