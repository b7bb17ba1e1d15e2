/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * acceptor.h - lets in the ranks that know the key, and gives nothing to anybody else.
 *
 * A connection is pending until its other end has proved itself: it costs one descriptor, 500 bytes and
 * two seconds at most, and cannot keep others from being served.
 *
 * The owner's loop: acceptor_prepare, poll_set_wait, acceptor_advance.
 */
#ifndef CORE_SOCKET_ACCEPTOR_H
#define CORE_SOCKET_ACCEPTOR_H

#include "socket/handshake.h"

enum {
	ACCEPTOR_PENDING_MAX = 64, /* connections that have not proved anything yet */
	ACCEPTOR_NOTE_SIZE = 300
};

/* Sockets that listen. */
struct listeners {
	int fd[ADDRESS_MAX];
	int count;
};

void listeners_close(struct listeners *listeners);

struct pending_connection {
	int fd;
	int poll_index; /* in the poll set of this turn; -1: not in it */
	int proven;     /* the answer was right; the confirm is still to come */
	int64_t since;
	uint32_t rank; /* proven: whose it is */
	size_t got;    /* bytes of the message that is being received */
	struct handshake_messages messages;
};

struct acceptor {
	const struct handshake *hs;
	struct listeners listeners;
	uint8_t salt[HANDSHAKE_SALT_SIZE]; /* for all that are accepted */
	/* `fd` is the connection to `rank` from now on. */
	void (*connected)(void *owner, uint32_t rank, int fd);
	void *owner;

	int poll_index[ADDRESS_MAX];        /* of the listeners in the poll set */
	struct pending_connection *pending; /* oldest first */
	int npending, nproven;
	uint64_t *dials; /* [nranks] the dialler that each rank's connection came from; 0: none */
	int64_t accept_after;
	int turned_away, wrong_keys;
	int no_descriptor; /* errno of an accept() that found no descriptor, and nobody to drop for one */
	char note[ACCEPTOR_NOTE_SIZE]; /* about the last one that was turned away */
};

/* The caller has zeroed *acceptor and set the members from hs to owner.  It may do without listeners yet. */
int acceptor_begin(struct acceptor *acceptor);
/* Descriptors that the acceptor adds to a set at most. */
size_t acceptor_poll_size(const struct handshake *hs);
void acceptor_prepare(struct acceptor *acceptor, struct poll_set *set);
/* A code, with the error text: a rank of the job came that can never fit. */
int acceptor_advance(struct acceptor *acceptor, const struct poll_set *set);
/* Closes the listeners and drops all pending connections.  Accepts an acceptor of zeros. */
void acceptor_close(struct acceptor *acceptor);
/* acceptor_close, and frees the memory. */
void acceptor_end(struct acceptor *acceptor);

#endif
