/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * acceptor.h - lets in the ranks that know the key, and gives nothing to anybody else.
 *
 * A connection is pending until its other end has proved itself: it costs one descriptor, 600 bytes and
 * two seconds at most, and cannot keep others from being served.
 *
 * The owner's loop: acceptor_prepare, poll_set_wait, acceptor_advance.
 */
#ifndef CORE_SOCKET_ACCEPTOR_H
#define CORE_SOCKET_ACCEPTOR_H

#include "socket/handshake.h"

enum {
	ACCEPTOR_PENDING_SPARE = 64, /* connections without a proof, besides one for each rank */
	ACCEPTOR_PENDING_MAX = 256,  /* the most together */
	ACCEPTOR_NOTE_SIZE = 320
};

/* Listening sockets. */
struct listeners {
	int fd[ADDRESS_MAX];
	int count;
};

/*
 * Listens at every address of the interface or address `name`; NULL or "": one socket listens at all addresses.  port 0: the
 * system chooses.  *addresses: where, best first.  On an error some sockets may be open.
 */
int listeners_open(const char *name, uint16_t port, struct listeners *listeners,
		   struct address_list *addresses);
void listeners_close(struct listeners *listeners);

struct pending_connection {
	struct connection conn;
	struct address peer;
	uint32_t rank; /* of the peer, once it has proved the key and its confirm is awaited */
};

struct acceptor {
	const struct handshake *hs;
	struct listeners listeners;
	uint8_t salt[HANDSHAKE_SALT_SIZE]; /* sent to every accepted connection */
	/* Called for each accepted connection.  The owner closes session->fd. */
	void (*connected)(void *owner, const struct session *session);
	void *owner;
	int many; /* the diallers are no ranks: they share a number, and any number of them may come */

	struct poll_set *set;               /* with the listeners and the pending connections */
	int place[ADDRESS_MAX];             /* of each listener */
	struct pending_connection *pending; /* oldest first */
	int npending, nproven;
	uint64_t *dials; /* [nranks] the id of the dialler of each rank's connection; 0: none */
	/*
	 * The code and the text of the owner's failure; 0: it has not failed.  A rank that comes a second time wants the
	 * next rendezvous, and is told this failure.
	 */
	int failed;
	const char *failed_text;
	int64_t accept_after;
	int turned_away, wrong_keys;
	int no_descriptor; /* errno of an accept() without descriptor, while no connection could be dropped; 0: none */
	char note[ACCEPTOR_NOTE_SIZE]; /* the reason for the last refused connection */
};

/*
 * The caller has zeroed *acceptor and set the members from hs to owner.  Listeners may be added later.  All calls
 * have the same poll set, which ends after the acceptor.
 */
int acceptor_begin(struct acceptor *acceptor);
/* The most descriptors that the acceptor adds to a poll set. */
size_t acceptor_poll_size(const struct handshake *hs);
void acceptor_prepare(struct acceptor *acceptor, struct poll_set *set);
/* Returns a code, with the error text, if a rank of the job came that can never fit. */
int acceptor_advance(struct acceptor *acceptor, const struct poll_set *set);
/* Closes the listeners and drops all pending connections.  Accepts an acceptor of zeros. */
void acceptor_close(struct acceptor *acceptor);
/* Calls acceptor_close and frees the memory. */
void acceptor_end(struct acceptor *acceptor);

#endif
