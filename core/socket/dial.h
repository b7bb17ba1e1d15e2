/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dial.h - reaches one rank through any of its addresses.
 *
 * The attempts overlap: each address gets a short head start before the next address is dialled too, and a failed
 * attempt starts the next at once.  The first listener that proves the key wins; all other attempts end.
 *
 * The owner's loop: dial_prepare, poll_set_wait, dial_advance, until dial->session.fd is a connection, a code is
 * returned, or the owner's own deadline has passed.
 */
#ifndef CORE_SOCKET_DIAL_H
#define CORE_SOCKET_DIAL_H

#include "socket/handshake.h"

enum { DIAL_NOTE_SIZE = 320, DIAL_REPORT_SIZE = 420, DIAL_REASONS = 3 };

/* The reason for failed tries of one address: an errno, 0 for a closed connection, or DIAL_SILENT. */
enum { DIAL_SILENT = -1 }; /* it accepts connections, but nobody answers */

enum {
	DIAL_MISSES_PEER = 1,  /* at some address the peer does not answer */
	DIAL_MEETS_SILENCE = 2 /* at some address somebody accepts connections and says nothing */
};

struct dial_reason {
	int why;
	int64_t ms; /* the time that passed in tries which ended so */
};

/* The attempt to connect to one address. */
struct dial_attempt {
	struct connection conn;                  /* its fd is -1 between two tries */
	int given_up;                            /* no later try will follow */
	int extra;                               /* the socket counts against dial->extra_sockets */
	int64_t due;                             /* when the next try begins */
	int64_t since;                           /* when the last try failed, or the dial began */
	struct dial_reason reason[DIAL_REASONS]; /* in the order of their first times */
	int nreasons;
	int pause_ms; /* pause before the next try */
	int tries;    /* number of failed tries */
	int refusals; /* number of refused tries in a row */
};

struct dial {
	const struct handshake *hs;
	uint32_t peer;
	int any_peer;                  /* whoever listens, which tells its rank: session.rank */
	struct address_list addresses; /* best first */
	int local;                     /* the peer is on this host */
	int named; /* the user named the address: only the peer may listen there */
	int retry; /* the peer may not be listening yet */
	int *extra_sockets; /* more sockets than one each that all dials together may still open; NULL: any number */
	/* Random, and one for all dials of this process to an acceptor; 0: dial_begin() draws it. */
	uint64_t id;
	struct dial_attempt *attempts; /* [addresses.count], from dial_begin to dial_end */
	int code; /* of the failure that ended an address for good: the gravest of all addresses */
	int no_descriptor;    /* the failure: socket() found no descriptor */
	int knocked;          /* a silent listener has been asked whether it is a web server */
	struct poll_set *set; /* with the sockets of the attempts */

	struct session session; /* its fd is -1 until there is a connection */
	uint8_t salt[HANDSHAKE_SALT_SIZE];
	char note[DIAL_NOTE_SIZE]; /* who listens in the peer's place; "": nobody known */
};

/*
 * Begins.  The caller has zeroed *dial and set hs, peer and addresses, and local to extra_sockets as
 * needed.  dial_end frees the memory.
 */
int dial_begin(struct dial *dial);
/*
 * Starts the attempts that are due and adds their sockets to the set.  Returns a code, with the error text,
 * if no address leads to the peer.  All calls for one dial have the same set.  A brief handshake may end here:
 * dial->session.fd is the connection then.
 */
int dial_prepare(struct dial *dial, struct poll_set *set);
/* Handles the events of the set; returns codes like dial_prepare. */
int dial_advance(struct dial *dial, const struct poll_set *set);
/* One turn of a dial without another user of the set: prepares, waits until `wake` at most, and advances. */
int dial_step(struct dial *dial, struct poll_set *set, int64_t wake);
/*
 * Says for each address why it has not led to the peer, and for how long: the reason that took most of the time, as the
 * last try may have failed for another one.
 */
void dial_report(const struct dial *dial, char text[DIAL_REPORT_SIZE]);
/* The reasons at all addresses, as bits; 0: the state of this host is the reason. */
int dial_reasons(const struct dial *dial);
/* Ends all attempts, before the poll set ends.  The caller keeps the session, which has left the set. */
void dial_end(struct dial *dial);

#endif
