/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.h - the beginning of a ring, which both sides map.  tcp_ring_offer.c makes rings, tcp_ring.c moves
 * bytes.
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
 * A short message is in the ring and, until the next message, also in the line of the writer's position: a reader that
 * waits for it reads that line anyway, and needs no other line.  The writer sets first `last_end`, then `last`, then
 * `written`.  A message is whole as long as `last_end` equals the `written` that the reader has seen before.
 */
struct tcp_ring_control {
	_Alignas(TCP_RING_LINE) _Atomic uint64_t written; /* the writer's position */
	_Atomic uint32_t writer_sleeps;                   /* 1: until there is space */
	uint32_t unused;
	_Atomic uint64_t last_end; /* the position behind the message in `last` */
	_Atomic uint64_t last[TCP_RING_LAST];
	_Alignas(TCP_RING_LINE) _Atomic uint64_t taken; /* the reader's position */
	_Atomic uint32_t reader_sleeps;                 /* 1: until there are bytes */
	_Atomic uint32_t far; /* 1: the reader's processor is far from the writer's */
};

/* Wakes a peer that sleeps.  Within a message it sends nothing: more bytes follow on the socket and wake the peer. */
void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn);

#endif
