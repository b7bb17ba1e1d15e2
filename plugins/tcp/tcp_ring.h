/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.h - the beginning of a ring, which both sides map: tcp_ring.c moves bytes, tcp_ring_offer.c makes it.
 */
#ifndef TCP_RING_H
#define TCP_RING_H

#include "tcp.h"

#include <stdatomic.h>

enum {
	TCP_RING_CONTROL = 4096, /* bytes before the data */
	TCP_RING_LINE = 128,     /* two cache lines: processors fetch pairs */
	TCP_RING_HEADER = 4,     /* words of a header */
	TCP_RING_LAST = 13       /* words of a message that fit behind the writer's position */
};

/*
 * Positions count the bytes of the stream.  The peer may write anything anywhere at any time.
 *
 * A short message stands in the ring and, until the next one, also in the line of the writer's position: a reader that
 * waits for it has that line in any case, and needs no other.  The writer sets `last_end` first, `last` then and `written`
 * at last: a message is whole as long as `last_end` equals the `written` that the reader has seen before.
 */
struct tcp_ring_control {
	_Alignas(TCP_RING_LINE) _Atomic uint64_t written; /* by the writer */
	_Atomic uint32_t writer_sleeps;                   /* until there is room */
	uint32_t unused;
	_Atomic uint64_t last_end; /* the position behind the message in `last` */
	_Atomic uint64_t last[TCP_RING_LAST];
	_Alignas(TCP_RING_LINE) _Atomic uint64_t taken; /* by the reader */
	_Atomic uint32_t reader_sleeps;                 /* until there are bytes */
};

/* The other side sleeps.  Within a message more bytes follow on the socket, and they wake it too. */
void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn);

#endif
