/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h - a new connection: how both ends prove that they know the key; neither sends it.
 *
 *   listener -> dialler    challenge   magic, version, the listener's rank, nonce
 *   dialler  -> listener   answer      magic, version, ranks, nonce; mac of challenge and answer
 *   listener -> dialler    verdict     accepted or refused with a message; mac of all three
 *   dialler  -> listener   confirm     mac of all four
 *
 * A connection counts for the dialler once it has sent its confirm, for the listener once the confirm
 * has come.  A dialler may therefore have several attempts under way and confirm the first that
 * is accepted; an attempt that it gives up is never taken for a connection.
 *
 * Between processes of one host that know a random number of each other already (`brief`), an answer to a challenge of
 * zeros is all.  The dialler has no other attempt under way then.  The connection counts for the dialler once it has sent
 * the answer, for the listener once the answer has come; a listener that refuses it hangs up.  The dialler's owner must
 * learn by another way that the listener is connected.
 *
 * Both ends then have a session key: a mac of all four messages, so of both nonces.
 *
 * A `connection` is under way until its handshake is over; then its owner gets a `session`.
 *
 * Every message has a fixed size: no length from the wire decides an allocation.  Numbers are little-endian.
 */
#ifndef CORE_SOCKET_HANDSHAKE_H
#define CORE_SOCKET_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "socket/socket.h"

enum {
	HANDSHAKE_MAC_SIZE = 16,
	HANDSHAKE_SALT_SIZE = 16,
	HANDSHAKE_KEY_SIZE = HANDSHAKE_MAC_SIZE,
	HANDSHAKE_TEXT_SIZE = 256,
	HANDSHAKE_BYTE_ORDER = 0x01020304
};

/* The parameters of all handshakes of a job.  The functions get `user`. */
struct handshake {
	char magic[8]; /* the name of the protocol above the handshake */
	uint32_t version;
	const char *name; /* the name of that protocol for messages */
	uint32_t rank, nranks;
	int any_order; /* lower ranks may dial higher ones too */
	/*
	 * Local sockets carry the answer alone: `mac` covers random numbers of both ends' processes, new for this mesh, so
	 * that no message of another mesh or of another pair of ranks fits.  The sessions have no key.
	 */
	int brief;
	/* Computes the mac of data under the job's key. */
	void (*mac)(const void *user, const void *data, size_t len,
		    uint8_t mac[HANDSHAKE_MAC_SIZE]);
	void (*log)(const void *user, int level, const char *text);
	socket_tune_fn tune; /* sets options of sockets that connect; may be NULL */
	const void *user;
};

struct handshake_challenge {
	char magic[8];
	uint32_t version; /* magic and version have the same place in every version */
	uint32_t rank;
	uint8_t nonce[16];
};

struct handshake_answer {
	char magic[8];
	uint32_t version;
	uint32_t rank; /* the rank of the dialler */
	uint32_t to;   /* the rank that it dials */
	uint32_t nranks;
	uint32_t order; /* HANDSHAKE_BYTE_ORDER, the only number in native byte order */
	uint32_t reserved;
	uint64_t dial; /* random; equal in all attempts of one dialler */
	uint8_t nonce[16];
	uint8_t mac[HANDSHAKE_MAC_SIZE];
};

enum { HANDSHAKE_ACCEPTED = 1, HANDSHAKE_REFUSED = 2 };

struct handshake_verdict {
	uint32_t type;
	int32_t code;                      /* the COLL_ERR_* of a refusal, or 0 */
	uint8_t salt[HANDSHAKE_SALT_SIZE]; /* the listener's part of the keys of later messages */
	uint8_t mac[HANDSHAKE_MAC_SIZE];
	char text[HANDSHAKE_TEXT_SIZE]; /* why the dialler is refused */
};

struct handshake_confirm {
	uint8_t mac[HANDSHAKE_MAC_SIZE];
};

/* A dialler sends this question to a listener that says nothing: a web server answers it. */
static const char handshake_knock[] = "GET / HTTP/1.0\r\n\r\n";

/* The messages of one connection, in their order. */
struct handshake_messages {
	struct handshake_challenge challenge;
	struct handshake_answer answer;
	struct handshake_verdict verdict;
	struct handshake_confirm confirm;
};

/* Selects a message of the handshake. */
enum handshake_step {
	HANDSHAKE_ANSWER,
	HANDSHAKE_VERDICT,
	HANDSHAKE_CONFIRM,
	HANDSHAKE_CHALLENGE, /* it comes first, and has no mac */
	HANDSHAKE_CONNECT    /* no message: the system has not connected the socket yet */
};

/*
 * A connection from its first byte to its session key.  Its state is the step that this end waits for: a dialler
 * waits for CONNECT, CHALLENGE and VERDICT, a listener for ANSWER and CONFIRM.
 */
struct connection {
	int fd;    /* -1: none */
	int place; /* in the poll set; -1: not in the set */
	int brief; /* an answer is all */
	enum handshake_step awaits;
	int64_t since; /* when the state began */
	size_t got;    /* bytes of the message that comes */
	struct handshake_messages messages;
};

enum handshake_event {
	HANDSHAKE_MORE,    /* the message is not complete */
	HANDSHAKE_WHOLE,   /* the message is complete, and its mac is right */
	HANDSHAKE_LOST,    /* the connection has ended, with errno */
	HANDSHAKE_FOREIGN, /* the peer speaks another protocol */
	HANDSHAKE_VERSION, /* the peer speaks another version of this protocol */
	HANDSHAKE_FORGED   /* the mac is wrong: the peer has another key */
};

/* A connection whose handshake is over, as dial and acceptor hand it to their owner. */
struct session {
	uint32_t rank;                   /* of the peer */
	int fd;                          /* -1: none */
	int family;                      /* of the socket */
	char address[ADDRESS_TEXT_SIZE]; /* of the peer */
	uint8_t key[HANDSHAKE_KEY_SIZE]; /* of this connection alone; zeros: a brief handshake */
};

/* Begins over a socket of that family, which is in no poll set yet. */
void connection_begin(const struct handshake *hs, struct connection *c, int fd, int family,
		      enum handshake_step awaits);
/* From now on this end waits for that step. */
void connection_await(struct connection *c, enum handshake_step step);
/* The set waits for the event that the state needs. */
void connection_watch(struct connection *c, struct poll_set *set);
/* The handshake with that rank is over: fills *session, which owns the descriptor from now on. */
void connection_finish(const struct handshake *hs, struct connection *c, struct poll_set *set,
		       uint32_t rank, const struct address *address, struct session *session);
/* Takes the connection out of the set and closes the descriptor, if there is one. */
void connection_close(struct connection *c, struct poll_set *set);
/* Receives the bytes of the awaited message that have arrived. */
enum handshake_event connection_receive(const struct handshake *hs, struct connection *c);
/*
 * Sends the message of the step after filling in all that follows from hs: magic, version and mac.  Returns -1 with
 * errno if the connection is broken, since a new connection takes so few bytes at once.
 */
int connection_send(const struct handshake *hs, struct connection *c, enum handshake_step step);

/* Computes the mac of a message and of all messages before it. */
void handshake_seal(const struct handshake *hs, const struct handshake_messages *messages,
		    enum handshake_step step, uint8_t mac[HANDSHAKE_MAC_SIZE]);
/* Is the mac in that message the right one? */
int handshake_is_sealed(const struct handshake *hs, const struct handshake_messages *messages,
			enum handshake_step step);

/* Are two macs equal?  Takes the same time wherever they differ. */
int handshake_same_mac(const uint8_t a[HANDSHAKE_MAC_SIZE], const uint8_t b[HANDSHAKE_MAC_SIZE]);
/* Computes the key of this connection from its complete messages. */
void handshake_session_key(const struct handshake *hs, const struct handshake_messages *messages,
			   uint8_t key[HANDSHAKE_KEY_SIZE]);

/* Logs at a level of backend.h. */
void handshake_log(const struct handshake *hs, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
