/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_mesh.h - what the files share that connect every rank with every other. */
#ifndef TCP_MESH_H
#define TCP_MESH_H

#include "tcp.h"

#define TCP_MAGIC 0x31544c43u /* "CLT1": changes with this handshake */
#define TCP_MAC   16

enum {
	TCP_GUESTS = 64,        /* accepted, hello still to come */
	TCP_SILENCE_MS = 2000,  /* a guest may say nothing for so long */
	TCP_CONNECT_MS = 3000,  /* then the next address is tried */
	TCP_REPLY_MS = 10000,   /* the same once TCP is connected */
	TCP_PAUSE_MS = 100,     /* before all addresses are tried again */
	TCP_REFUSED_ROUNDS = 3, /* nobody listens there, after so many rounds */
	TCP_KNOCK_MS = 500,     /* between looks whether a silent higher rank still listens */
	TCP_GRACE_MS = 1000,    /* to find out ourselves what made a rank hang up */
};

struct tcp_hello {
	uint32_t magic, size, from, to;
	uint8_t mac[TCP_MAC];
};

/* An attempt to reach a lower rank. */
struct tcp_dial {
	enum { TCP_DIAL_PAUSE, TCP_DIAL_CONNECT, TCP_DIAL_REPLY, TCP_DIAL_DONE } stage;
	int fd;
	uint32_t candidate, refused, rounds; /* refused: in this round; rounds: in a row */
	int64_t deadline;
	uint32_t got;
	uint8_t reply[TCP_MAC];
	char text[160]; /* how the last attempt ended */
};

/* Somebody who connected to us. */
struct tcp_guest {
	enum { TCP_GUEST_NONE, TCP_GUEST_HELLO, TCP_GUEST_READY } stage;
	int fd;
	uint32_t got;
	int64_t deadline;
	struct tcp_hello hello;
	uint8_t ready[TCP_MAC];
};

struct tcp_mesh {
	struct tcp *t;
	const struct tcp_listeners *listeners;
	const struct tcp_record *records;
	struct tcp_dial *dial; /* one for each lower rank */
	uint8_t *refused;      /* has the last knock at this rank found nobody? */
	int64_t knock;         /* when to knock next */
	struct tcp_guest *guest;
	uint32_t places; /* room for TCP_GUESTS strangers and all ranks */
	uint32_t joined; /* connections made */
	uint32_t left;   /* of them, first rank that hung up since, plus 1 */
	int64_t grace;   /* when that becomes our failure */
	int64_t deadline;
	int32_t code; /* the first failure that cannot be lived with; its text is in err */
	coll_error_t *err;
};

/* ------------------------------------------------------------------ tcp_mesh.c -- */

/* Notes a failure that ends open(); the first one counts. */
void tcp_mesh_fail(struct tcp_mesh *mesh, int32_t code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void tcp_mesh_no_descriptor(struct tcp_mesh *mesh);
void tcp_mesh_mac(const struct tcp_mesh *mesh, const char *label, uint32_t from, uint32_t to,
		  uint32_t nonce_of, uint8_t mac[TCP_MAC]);
int tcp_mesh_mac_equal(const uint8_t *a, const uint8_t *b);
int tcp_mesh_epoll(struct tcp_mesh *mesh, int how, int fd, uint32_t events, uint64_t data);
/* Reads up to `size` bytes and no more.  1: complete, 0: not yet, -1: failed. */
int tcp_mesh_read(int fd, void *buf, uint32_t size, uint32_t *got);
int tcp_mesh_write(int fd, const void *buf, size_t size);
/* From now on `fd` is the connection to `peer`. */
void tcp_mesh_join(struct tcp_mesh *mesh, uint32_t peer, int fd);

/* ------------------------------------------------------------------ tcp_dial.c -- */

/* Something happened to the attempt to reach `peer`. */
void tcp_dial_event(struct tcp_mesh *mesh, uint32_t peer);
/* Does what time demands; returns when it next does, or `next` if that is sooner. */
int64_t tcp_dial_timers(struct tcp_mesh *mesh, int64_t now, int64_t next);

/* ----------------------------------------------------------------- tcp_guest.c -- */

void tcp_guest_accept(struct tcp_mesh *mesh, int listener);
void tcp_guest_event(struct tcp_mesh *mesh, struct tcp_guest *guest);
void tcp_guest_drop(struct tcp_guest *guest);
void tcp_guest_timers(struct tcp_mesh *mesh, int64_t now);

#endif
