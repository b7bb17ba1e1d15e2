/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_kit.c - helpers for the plugins of this tree. */
#include "base/plugin_kit.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void kit_log(const coll_host_t *host, int32_t level, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	host->log(host, level, text);
}

int32_t kit_exchange_fail(const coll_host_t *host, int32_t code, const coll_error_t *err)
{
	if (host->size > offsetof(coll_host_t, exchange_fail) && host->exchange_fail)
		host->exchange_fail(host, code, err ? err->text : NULL, host->timeout_ms);
	return code;
}

int kit_shares(const coll_host_t *host, uint32_t rank, uint8_t things)
{
	if (host->size < offsetof(coll_host_t, shares) + sizeof(host->shares) || !host->shares)
		return rank == host->rank;
	return (host->shares[rank] & things) == things;
}

int kit_all_share(const coll_host_t *host, uint8_t things)
{
	for (uint32_t r = 0; r < host->nranks; r++)
		if (!kit_shares(host, r, things))
			return 0;
	return 1;
}

void send_queue_remove(struct send_queue *queue, coll_send_t *send)
{
	coll_send_t *before = queue->first;

	if (before == send) {
		queue->first = send_queue_next(send);
		return;
	}
	while (before && send_queue_next(before) != send)
		before = send_queue_next(before);
	if (!before)
		return;
	before->plugin[0] = send->plugin[0];
	if (queue->last == send)
		queue->last = before;
}

uint8_t *send_rest_new(struct send_rest *rest, const coll_host_t *host, uint64_t size)
{
	*rest = (struct send_rest){.bytes = host->alloc(host, size), .size = size};
	return rest->bytes;
}

void send_rest_free(struct send_rest *rest, const coll_host_t *host)
{
	if (rest->bytes)
		host->free(host, rest->bytes, rest->size);
	rest->bytes = NULL;
}
