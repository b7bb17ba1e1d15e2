/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star.h - the bootstrap over TCP: a star with one rank, the root, in the middle; the other ranks are its members.
 * The root is the rank whose process made the unique id, or rank 0.
 *
 * Members connect to the root with the handshake of socket/handshake.h.  Then, for every exchange, each
 * member sends a piece to the root, and the root sends the table of all pieces to each member.  A member that
 * has failed sends its code and a message in place of the piece, and every rank gets them in place of the
 * table.  If something goes wrong the root sends every member a failure.  The root's first exchange then stays in
 * the call for two seconds at most, so that members which connect late get the failure too.
 */
#ifndef CORE_BOOTSTRAP_STAR_H
#define CORE_BOOTSTRAP_STAR_H

#include "bootstrap/bootstrap_impl.h"
#include "bootstrap/star_frame.h"
#include "socket/acceptor.h"
#include "socket/dial.h"

enum {
	STAR_VERSION = 4,
	STAR_GRACE_MS = 2000 /* extra wait of a member for the names of the missing ranks */
};

/* A unique id has fewer bytes than this, as many as an ncclUniqueId has. */
enum { UNIQUE_ID_TEXT_MAX = 128 };

/* The root's connection to a member. */
struct rank_connection {
	int fd;    /* -1: not connected yet, or lost */
	int place; /* in the poll set; -1: not in the set */
	char address[ADDRESS_TEXT_SIZE];
	struct star_stream stream;
	struct star_frame answer; /* the head of this round's table or failure, for this member */
	size_t sent;              /* bytes sent of it and of its body */
	int told;                 /* the FAILURE has been sent */
	char *failed; /* BOOTSTRAP_TEXT_SIZE bytes for the message of a FAILED; or NULL */
};

struct star {
	struct bootstrap bootstrap;
	int root;                             /* -1: not known before this rank is connected */
	uint8_t shared[BOOTSTRAP_KEY_SIZE];   /* from the id, or from COLL_KEY */
	uint8_t body_key[BOOTSTRAP_KEY_SIZE]; /* for the bodies of frames */
	struct handshake handshake;
	uint32_t round;
	int64_t looked; /* when star_failure_waits last looked at the connections */
	/* members */
	int fd;
	struct star_stream stream;
	char root_address[ADDRESS_TEXT_SIZE];
	/* the root */
	struct acceptor acceptor;      /* until all members are connected */
	struct rank_connection *conns; /* [nranks]; the root's own entry is unused */
	struct poll_set polls;
	int *rank_at; /* 1 + the rank whose connection has that place in the poll set; 0: none */
	struct pollfd *unsent; /* [nranks] the connections that wait for space for the table */
	uint8_t *heard;        /* [nranks] 1: the rank's piece of this round has come */
	int failed;            /* the root itself has failed: it throws pieces away */
	int missing;           /* number of ranks whose piece has not come */
	int64_t deadline, timeout_ms;
};

/* ---- star.c ---- */

/* Fills t->handshake for t's rank and number of ranks. */
void star_set_handshake(struct star *t);
static inline int star_is_root(const struct star *t)
{
	return t->bootstrap.rank == t->root;
}

/* Makes the bootstrap's own key, and that of the bodies, from the shared one and the root's salt. */
void star_derive_keys(struct star *t, const uint8_t salt[HANDSHAKE_SALT_SIZE]);
/* COLL_ERR_PEER_LOST about `rank`, whose connection failed with errno err. */
int star_lost_error(const struct star *t, int rank, int err);
/* COLL_ERR_PEER_LOST about the connection with `rank`: a mac is wrong. */
int star_forged_error(const struct star *t, int rank);
/*
 * Writes as much of head and body as can be written, from offset on: bytes moved, 0 if it would block, -1
 * with errno.
 */
ssize_t star_write_frame(int fd, const struct star_frame *head, const void *body, size_t offset);

/* ---- star_member.c ---- */

/* Connects to the root.  retry: the root may not be listening yet.  timeout_ms is for the text. */
int star_connect(struct star *t, const struct address_list *addresses, int retry, int64_t deadline,
		 int64_t timeout_ms);
int star_member_exchange(struct star *t, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms);
/* Between exchanges: has the root sent a failure, or closed its connection? */
int star_member_failure_waits(struct star *t);

/* ---- star_root.c ---- */

/* Memory for all ranks. */
int star_root_init(struct star *t);
/* The root's exchange.  While the root has listeners it also accepts members. */
int star_root_exchange(struct star *t, const void *in, void *out, size_t len,
		       struct bootstrap_failure *failure, int64_t timeout_ms);
/* Between exchanges: has a member sent a failure, or closed its connection? */
int star_root_failure_waits(struct star *t);
void star_root_close(struct star *t);

/* ---- id_text.c ---- */

/* id: receives the text.  COLL_ERR_INVALID_ARGUMENT: it needs more than `size` bytes with its NUL. */
int unique_id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], const struct address_list *addresses,
		    char *id, size_t size);
int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE],
		    struct address_list *addresses);

/* ---- unique_id.c ---- */

/*
 * Hands over the listening sockets that this process made for the id, or none if the process of another rank did;
 * must: that is an error.
 */
int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners);
/* Closes the sockets that a parent process made before it forked. */
void unique_id_drop_inherited(void);

#endif
