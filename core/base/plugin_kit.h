/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin_kit.h - helpers for the plugins of this tree, which link base as hidden static code.  The core does not use them.
 * Plugins fill errors with error_fill (error.h) and read clocks with clock.h.
 */
#ifndef CORE_BASE_PLUGIN_KIT_H
#define CORE_BASE_PLUGIN_KIT_H

#include <coll/backend.h>

/* Formats a line for host->log. */
void kit_log(const coll_host_t *host, int32_t level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * For a rank that has failed in open or split: takes part in the other ranks' next exchange with code and err->text (err
 * may be NULL), and returns the code.  A core before ABI 1.3 has no such function; the other ranks' exchange then ends
 * because this rank does not take part.
 */
int32_t kit_exchange_fail(const coll_host_t *host, int32_t code, const coll_error_t *err);

/*
 * Does the rank share all these things (COLL_SHARES_* bits) with this rank?  Before ABI 1.4 the core does not say, so no
 * other rank does.
 */
int kit_shares(const coll_host_t *host, uint32_t rank, uint8_t things);
/* Do all ranks share all these things?  All ranks get the same answer. */
int kit_all_share(const coll_host_t *host, uint8_t things);

/* ---- the messages that wait to be sent to one peer, linked by plugin[0] ---- */

struct send_queue {
	coll_send_t *first, *last; /* `last` is valid only if `first` is not NULL */
};

static inline coll_send_t *send_queue_next(const coll_send_t *send)
{
	return (coll_send_t *)(uintptr_t)send->plugin[0];
}

static inline void send_queue_append(struct send_queue *queue, coll_send_t *send)
{
	send->plugin[0] = 0;
	if (queue->first)
		queue->last->plugin[0] = (uintptr_t)send;
	else
		queue->first = send;
	queue->last = send;
}

/* Takes the first message out; the queue must not be empty. */
static inline coll_send_t *send_queue_take(struct send_queue *queue)
{
	coll_send_t *send = queue->first;

	queue->first = send_queue_next(send);
	return send;
}

/* Takes a message out of the queue, if it is in the queue. */
void send_queue_remove(struct send_queue *queue, coll_send_t *send);

/*
 * A copy of the rest of a cancelled message.  The peer has the beginning and must get the whole message, so the plugin
 * sends the rest before the first message of the queue.
 */
struct send_rest {
	uint8_t *bytes; /* NULL: no rest */
	uint64_t size, done;
};

/* Allocates `size` bytes for a rest by host->alloc.  Returns NULL without memory. */
uint8_t *send_rest_new(struct send_rest *rest, const coll_host_t *host, uint64_t size);
void send_rest_free(struct send_rest *rest, const coll_host_t *host);

#endif
