/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: data */
/* coll_jumbled.c - delivers the second piece of a payload before the first. */
#include "uds.h"

static void jumbled_let_go(struct bad *b)
{
	if (b->memory)
		b->real->data(b->real, b->cookie, b->memory, b->bytes);
	free(b->memory);
	b->memory = NULL;
}

static void jumbled_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	struct bad *b = bad_of(host);

	if (!b->memory && (b->memory = malloc(n))) {
		memcpy(b->memory, bytes, n);
		b->cookie = cookie;
		b->bytes = n;
		return;
	}
	b->real->data(b->real, cookie, bytes, n);
	jumbled_let_go(b);
}

static void jumbled_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	struct bad *b = bad_of(host);

	if (b->memory && b->cookie == cookie)
		jumbled_let_go(b);
	b->real->arrived(b->real, cookie, status);
}

#define BAD_NAME    "jumbled"
#define BAD_DATA    jumbled_data
#define BAD_ARRIVED jumbled_arrived
#include "table.h"
