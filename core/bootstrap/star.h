/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star.h - the bootstrap over TCP: a star with rank 0 in the middle; seen by core/boot_*.c.
 *
 * The handshake, in which both ends prove that they know the key and neither sends it:
 *
 *   rank 0 -> rank r   challenge   magic, version, nonce
 *   rank r -> rank 0   answer      magic, version, rank, nranks, nonce, mac of both
 *   rank 0 -> rank r   verdict     welcome, or refusal with a sentence; mac of all three
 *
 * Then, for every exchange: each rank sends a piece to rank 0, rank 0 sends the table of all pieces
 * to each rank.  A rank that has failed sends its code and a sentence in place of the piece, and every
 * rank gets them in place of the table.  If something goes wrong rank 0 sends everyone a failure.
 * Nothing is allocated by what the wire says.
 */
#ifndef CORE_BOOTSTRAP_STAR_H
#define CORE_BOOTSTRAP_STAR_H

#include "bootstrap/bootstrap_impl.h"
#include "socket/socket.h"

enum {
	TCP_VERSION = 1,
	TCP_MAX_PENDING = 64,       /* connections that have not proved anything yet */
	TCP_PENDING_LIFE_MS = 2000, /* longest handshake */
	TCP_PENDING_MIN_MS = 20,    /* before it is dropped to make room for another */
	TCP_ACCEPT_PAUSE_MS = 50,   /* after accept has failed for want of descriptors */
	TCP_GRACE_MS = 2000         /* for rank 0 to tell who is missing */
};

extern const char tcp_magic[8];

/* ---- the wire: numbers of the handshake are little-endian ---- */

struct tcp_challenge {
	char magic[8];
	uint32_t version; /* magic and version stay where they are in every version */
	uint32_t reserved;
	uint8_t nonce[16];
};

struct tcp_answer {
	char magic[8];
	uint32_t version;
	uint32_t rank;
	uint32_t nranks;
	uint32_t order; /* 0x01020304 in the machine's own order: frames are not converted */
	uint8_t nonce[16];
	uint8_t mac[16];
};

enum { TCP_WELCOME = 1, TCP_REFUSED = 2 };

struct tcp_verdict {
	uint32_t type;
	int32_t code;
	uint32_t text_len; /* of the sentence that follows a refusal, below BOOTSTRAP_TEXT_SIZE */
	uint32_t reserved;
	uint8_t salt[16]; /* what the meeting's own key is made with */
	uint8_t mac[16];
};

/*
 * PIECE and FAILED go to rank 0, TABLE and FAILED come from it.  FAILED stands where a piece or a table
 * would: a rank has failed, and the next round may follow.  FAILURE: rank 0 cannot go on.
 */
enum { TCP_PIECE = 1, TCP_TABLE = 2, TCP_FAILURE = 3, TCP_FAILED = 4 };

struct tcp_frame {
	uint32_t type;
	uint32_t round;
	uint64_t len;        /* of what follows */
	uint32_t timeout_ms; /* to rank 0: how long the rank will wait; UINT32_MAX: longer */
	int32_t code;        /* FAILED and FAILURE; a sentence follows */
};

void tcp_answer_mac(const uint8_t key[16], const struct tcp_challenge *challenge,
		    const struct tcp_answer *answer, uint8_t mac[16]);
void tcp_verdict_mac(const uint8_t key[16], const struct tcp_challenge *challenge,
		     const struct tcp_answer *answer, const struct tcp_verdict *verdict,
		     uint8_t mac[16]);
/* Compares in a time that does not depend on where they differ. */
int tcp_mac_equal(const uint8_t a[16], const uint8_t b[16]);

/* ---- the two ends ---- */

/* Rank 0's end of a rank. */
struct rank_connection {
	int fd; /* -1: not arrived */
	char addr[ADDRESS_TEXT_SIZE];
	struct tcp_frame head; /* being received */
	size_t head_got, got;
	size_t sent;  /* of this round's table with its head */
	char *failed; /* BOOTSTRAP_TEXT_SIZE bytes for the sentence of a FAILED; or NULL */
};

struct pending_connection {
	int fd;
	int64_t since;
	struct tcp_challenge challenge;
	struct tcp_answer answer;
	size_t got; /* bytes of answer */
};

struct star {
	struct bootstrap bootstrap;
	uint8_t shared[16]; /* the key that was handed round */
	uint32_t round;
	/* ranks other than 0 */
	int fd;
	char root_addr[ADDRESS_TEXT_SIZE];
	/* rank 0 */
	int listener[ADDRESS_INET_MAX];
	int nlisteners;
	uint8_t salt[16];
	struct rank_connection *conns; /* [nranks], 0 unused */
	struct pollfd *polls;          /* listeners, pending, conns */
	uint8_t *heard;                /* [nranks] has this round's piece come? */
	int missing;                   /* ranks whose piece has not */
	int64_t deadline, timeout_ms;
	struct pending_connection pending[TCP_MAX_PENDING]; /* oldest first */
	int npending;
	int64_t accept_after;
	int turned_away, wrong_keys;
	char note[300]; /* about who was turned away last, for the text of a timeout */
};

/* Arrives at rank 0.  patient: rank 0 may not be listening yet.  timeout_ms is for the text. */
int connect_to_root(struct star *t, const struct address_list *addrs, int retry, int64_t deadline,
		    int64_t timeout_ms);

/* Rank 0: memory for all ranks. */
int tcp_root_init(struct star *t);
/* Rank 0's exchange; while it has listeners it also lets ranks in. */
int tcp_root_exchange(struct star *t, const void *in, void *out, size_t len,
		      struct bootstrap_failure *failure, int64_t timeout_ms);
void tcp_root_close(struct star *t);
void tcp_root_close_listeners(struct star *t);

/* acceptor.c: lets in who knows the key, turns away everyone else. */
void acceptor_accept(struct star *t, int listener);
/* Bytes have come from, or a failure has come over, stranger i.  A code: all must fail. */
int acceptor_recv(struct star *t, int i);
/* Drops who has stayed too long without a proof. */
void acceptor_sweep(struct star *t);
void acceptor_close(struct star *t);

/* COLL_ERR_PEER_LOST about `rank`, whose connection failed with errno err. */
int tcp_lost_error(const struct star *t, int rank, int err);
/*
 * Writes what can be written of head and body from offset on: bytes moved, 0 if it would block, -1
 * with errno.
 */
ssize_t tcp_write_frame(int fd, const struct tcp_frame *head, const void *body, size_t offset);

/* unique_id.c */
int unique_id_parse(const char *id, uint8_t key[16], struct address_list *addrs);
/* Hands over the listening sockets that this process made for the id. */
int unique_id_take(const uint8_t key[16], int listener[ADDRESS_INET_MAX], int *n);
/* Closes those that a parent process made before it forked. */
void unique_id_drop_inherited(void);

#endif
