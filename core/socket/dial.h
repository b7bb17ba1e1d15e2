/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dial.h - reaches one rank through any of its addresses.
 *
 * The attempts overlap: each address gets a short head start before the next one is dialled too, and a
 * failed attempt starts the next at once.  The first listener that proves the key wins; all other
 * attempts end.
 *
 * The owner's loop: dial_prepare, poll_set_wait, dial_advance, until dial->fd is a connection, a code is
 * returned, or the owner's own deadline has passed.
 */
#ifndef CORE_SOCKET_DIAL_H
#define CORE_SOCKET_DIAL_H

#include "socket/handshake.h"

enum { DIAL_NOTE_SIZE = 320 };

enum dial_state { DIAL_IDLE, DIAL_CONNECTING, DIAL_CHALLENGE, DIAL_VERDICT, DIAL_OUT };

/* The attempt at one address. */
struct dial_attempt {
	enum dial_state state;
	int fd;
	int poll_index; /* in the poll set of this turn; -1: not in it */
	int extra;      /* counts against dial->extra_sockets */
	int64_t start;  /* IDLE: when to connect; CONNECTING: when connecting began */
	int pause_ms;   /* before the next try */
	int tries;      /* that came to nothing */
	int refusals;   /* in a row: nobody listened */
	size_t got;     /* bytes of the message that is being received */
	struct handshake_messages messages;
};

struct dial {
	const struct handshake *hs;
	uint32_t peer;
	struct address_list addresses; /* best first */
	int local;                     /* the peer is on this host */
	int named; /* the user has said where the peer is: nobody else is to be found there */
	int retry; /* the peer may not be listening yet */
	int *extra_sockets; /* sockets that all dials together may open beyond one each; NULL: any number */
	uint64_t id;
	struct dial_attempt attempts[ADDRESS_MAX];
	int code;          /* of the failure that ended an address for good */
	int no_descriptor; /* the failure was that of socket() */

	int fd;                       /* the connection; -1: none yet */
	char text[ADDRESS_TEXT_SIZE]; /* its address */
	uint8_t salt[HANDSHAKE_SALT_SIZE];
	char note[DIAL_NOTE_SIZE]; /* what happened last */
};

/* Begins.  The caller has zeroed *dial and set hs, peer, addresses, and as needed local to spare. */
int dial_begin(struct dial *dial);
/*
 * Connects where it is time to, and adds the sockets to the set.  A code, with the error text: no
 * address leads to the peer.
 */
int dial_prepare(struct dial *dial, struct poll_set *set);
/* Does what the set found; codes as for dial_prepare. */
int dial_advance(struct dial *dial, const struct poll_set *set);
/* Ends all attempts; dial->fd stays the caller's. */
void dial_end(struct dial *dial);

#endif
