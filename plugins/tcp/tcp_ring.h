/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.h - the beginning of a ring, which both sides map.  tcp_ring_offer.c makes rings, tcp_ring.c moves
 * bytes.
 */
#ifndef TCP_RING_H
#define TCP_RING_H

#include "tcp.h"
#include "tcp_map.h"

#include <stdatomic.h>

enum {
	TCP_RING_CONTROL = 4096, /* bytes before the data */
	TCP_RING_LINE = 128,     /* two cache lines: processors fetch pairs */
	TCP_RING_HEADER = 4,     /* words of a header */
	TCP_RING_LAST = 13,      /* words of a message that fit behind the writer's position */
	TCP_NOT_LENT = -1        /* tcp_borrow */
};

/* In `borrowed`: the reader maps no further memory. */
#define TCP_BORROWS_NO_MORE (UINT64_C(1) << 63)

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
	_Atomic uint64_t
		borrowed; /* the slots whose memory the reader has mapped, as bits (tcp_lend.c) */
	_Alignas(TCP_RING_LINE) _Atomic uint64_t
		lent; /* the slots that the writer has not withdrawn */
	_Atomic uint64_t
		given_up; /* the numbers of lent messages that the writer has given up, as bits */
};

/* Wakes a peer that sleeps.  Within a message it sends nothing: more bytes follow on the socket and wake the peer. */
void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn);
/*
 * Sends a frame, or the byte `kind` once the stream has left the socket; with the descriptor if it is not -1.  Returns 1 if
 * it is sent, 0 if the socket is full or has failed.  Only reading finds the end of a socket.
 */
int tcp_ring_signal(struct tcp *t, struct tcp_conn *conn, uint64_t kind, int fd);
/* Updates the free space of the ring.  Returns 0 if the peer has written nonsense; then the connection breaks. */
int tcp_ring_look(struct tcp *t, struct tcp_conn *conn);
/* Tells the writer that this rank has read up to its position; `left` bytes are still to be read. */
void tcp_ring_tell(struct tcp *t, struct tcp_conn *conn, uint64_t left);
/* Copies the next n bytes, which stay in the ring. */
void tcp_ring_peek(const struct tcp_ring *ring, void *to, size_t n);
/* Does the message stay in the ring for now? */
int tcp_ring_blocks(struct tcp *t, const struct tcp_conn *conn, const coll_header_t *header);
/*
 * Handles a lent message, if one begins at this rank's position; `left` bytes are in the ring.  Returns TCP_NOT_LENT if none
 * does, 1 if more may be there, or 0.
 */
int tcp_borrow(struct tcp *t, struct tcp_conn *conn, uint64_t left);

#endif
