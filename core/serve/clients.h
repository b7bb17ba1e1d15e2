/* SPDX-License-Identifier: BSD-3-Clause */
/* clients.h - the clients of a server: each sends a request, gets its answer, and may ask again. */
#ifndef CORE_SERVE_CLIENTS_H
#define CORE_SERVE_CLIENTS_H

#include "serve/protocol.h"
#include "socket/acceptor.h"

enum {
	SERVE_CLIENTS = 16,
	SERVE_IDLE_MS = 5000, /* a client of which nothing comes or goes for so long is dropped */
	SERVE_LIFE_MS = 60000 /* so is a client that has been connected for so long */
};

struct client {
	int fd;    /* -1: no client */
	int place; /* in the poll set */
	int64_t since_ms, moved_ms;
	struct tree_stream stream; /* with the request that comes */
	uint8_t *out;              /* the answer that goes; NULL: none */
	size_t out_size, out_sent;
};

/* Makes the body of the answer to an authentic request behind `room` bytes of free space.  NULL: there is no memory. */
typedef uint8_t *(*clients_answer)(void *owner, const struct tree_frame *request, size_t room,
				   uint32_t *type, size_t *size);

struct clients {
	struct client client[SERVE_CLIENTS];
	uint32_t rank; /* of the server, for the heads of answers */
	const struct serve_keys *keys;
	clients_answer answer;
	void *owner;
};

/* The caller has set the members from rank to owner. */
void clients_begin(struct clients *clients);
/* Takes over the connection; closes it if there are SERVE_CLIENTS already. */
void clients_add(struct clients *clients, const struct session *session);
void clients_prepare(struct clients *clients, struct poll_set *set);
void clients_advance(struct clients *clients, struct poll_set *set);
void clients_end(struct clients *clients, struct poll_set *set);

/* Is this authentic head a request? */
int clients_is_request(const struct tree_frame *head);

#endif
