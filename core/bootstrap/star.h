/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star.h - the bootstrap over TCP.  One rank, the root, is known to all: the rank whose process made the unique id,
 * or rank 0.  With few ranks all others are its children: a star.  With many the ranks form a tree (star_tree.h).
 *
 * Every rank connects to the root with the handshake of socket/handshake.h.  In a tree it also listens; it tells the
 * root where (HERE), and the root gives it a seat and the addresses of its parent (SEAT), which sat down before
 * it.  A rank whose parent is not the root leaves the root and connects to the parent.
 *
 * Then, for every exchange, each rank sends a piece to its parent, and the root sends the table of all pieces to
 * its children, which pass it on.  A rank that has failed sends its code and a message in place of the piece, and
 * every rank gets them in place of the table.  If something goes wrong the rank that sees it sends its parent and
 * its children a failure, and so does every rank that gets one.  In the first exchange it then stays in the call for
 * two seconds at most, so that children which connect late get the failure too.
 */
#ifndef CORE_BOOTSTRAP_STAR_H
#define CORE_BOOTSTRAP_STAR_H

#include "bootstrap/bootstrap_impl.h"
#include "bootstrap/star_frame.h"
#include "bootstrap/star_tree.h"
#include "socket/acceptor.h"
#include "socket/dial.h"

enum {
	STAR_VERSION = 7,
	STAR_GRACE_MS = 2000, /* extra wait of a child for the names of the missing ranks */
	STAR_ASK_MS = 2000    /* extra time for each level below that is asked for them */
};

/* A unique id has fewer bytes than this, as many as an ncclUniqueId has. */
enum { UNIQUE_ID_TEXT_MAX = 128 };

/* What a rank knows of another one in this round. */
enum star_heard {
	STAR_SILENT = 0,
	STAR_WAITS = 1,      /* it is there, but ranks below it are silent */
	STAR_WHOLE_TREE = 2, /* its piece has come, with those of all ranks below it */
	STAR_PLACED = 3      /* and its block is in the root's table */
};

/* The body of a SEAT. */
struct star_seat {
	uint32_t seat, parent;         /* the seat of the receiver; the rank of its parent */
	char here[UNIQUE_ID_TEXT_MAX]; /* the parent's HERE; "" if it is the root */
};

/* A connection from a child, or to the root from a rank that has no seat yet. */
struct rank_connection {
	int rank;
	int fd;    /* -1: lost, or the rank has gone to its parent */
	int place; /* in the poll set; -1: not in the set */
	int seat;  /* 0: not known yet */
	enum star_heard heard;
	int seated; /* a SEAT has been sent, or there are no seats: the next frame is a piece */
	char address[ADDRESS_TEXT_SIZE];
	struct star_stream stream;
	struct star_frame answer; /* the head of this round's table or failure, for this child */
	size_t sent;              /* bytes sent of it and of its body */
	int told;                 /* the FAILURE has been sent */
	int says;                 /* it has answered the question of a stalled round */
	uint8_t *body; /* of the frame that comes, unless it has its place in the table; or NULL */
	char here[UNIQUE_ID_TEXT_MAX];
};

struct star {
	struct bootstrap bootstrap;
	int root;                             /* -1: not known before this rank is connected */
	const char *interface_name;           /* until the star is open; or NULL */
	uint8_t shared[BOOTSTRAP_KEY_SIZE];   /* from the id, or from COLL_KEY */
	uint8_t body_key[BOOTSTRAP_KEY_SIZE]; /* for the bodies of frames */
	struct handshake handshake;
	char left_out
		[ADDRESS_LEFT_OUT_SIZE]; /* the addresses for which the root's id has no room */
	int seat, nchildren;
	uint32_t round;
	int64_t looked; /* when star_failure_waits last looked at the connections */
	int64_t deadline,
		timeout_ms; /* of this round; the shortest of this rank and of those below */
	/* to the parent; not used by the root */
	int parent; /* its rank */
	int fd;
	int place; /* in the poll set */
	struct star_stream stream;
	char parent_address[ADDRESS_TEXT_SIZE];
	uint64_t pieces; /* sent */
	int midway;      /* a frame to the parent is not complete */
	int spoke;       /* this round's piece is on its way: an answer may come */
	int answered;    /* the answer is complete */
	int ended;       /* the parent has sent a FAILURE, or is lost */
	int waits_too;   /* the parent has said in this round that it, too, waits */
	uint8_t *table;  /* memory for the answer, of table_len bytes; the root's own table */
	size_t table_len;
	struct bootstrap_failure *failure; /* of this round */
	/* to the children; used by ranks that have some */
	struct acceptor acceptor;      /* until all children are connected */
	struct rank_connection *conns; /* [conns_max], in the order of their arrival */
	int nconns, conns_max;
	struct poll_set polls;
	int *conn_at;          /* 1 + the connection at that place in the poll set; 0: none */
	struct pollfd *unsent; /* [nchildren] the connections that wait for space for the table */
	uint8_t *heard;        /* [nranks] an enum star_heard for each rank */
	uint8_t *entries;      /* for the parent: of the ranks that have come */
	int nentries;
	size_t len;       /* bytes of each rank in this round */
	int failed;       /* this rank itself has failed: it throws pieces away */
	int missing;      /* number of children whose piece has not come */
	int asked;        /* the children that are silent have been asked who is missing */
	int64_t patience; /* when the wait for their answers ends */
	int hurries;      /* the parent has said that a rank has failed */
	int hurried;      /* the children that are silent have been told so */
	/* A stalled round: when the root asks its children; who has been heard from; when the wait for answers ends. */
	int64_t stall_at;
	uint8_t *stall_heard; /* [nranks] while answers are awaited; else NULL */
	int64_t stall_end;
	int stall_asked; /* the parent has asked */
	uint64_t bytes;  /* to and from children and visitors */
};

/* ---- star.c ---- */

/* Fills t->handshake for t's rank and number of ranks. */
void star_set_handshake(struct star *t);
static inline int star_is_root(const struct star *t)
{
	return t->bootstrap.rank == t->root;
}

/* Are there so many ranks that not all are children of the root? */
static inline int star_is_tree(const struct star *t)
{
	return star_tree_fan(t->bootstrap.nranks) < t->bootstrap.nranks - 1;
}

/* Makes the bootstrap's own key, and that of the bodies, from the shared one and the root's salt. */
void star_derive_keys(struct star *t, const uint8_t salt[HANDSHAKE_SALT_SIZE]);
/*
 * COLL_ERR_PEER_LOST about `rank`, whose connection, to that address, failed with errno err; or the failure that it has
 * sent in this round.
 */
int star_lost_error(const struct star *t, int rank, const char *address, int err);
/* COLL_ERR_PEER_LOST about the connection with `rank`: a mac is wrong. */
int star_forged_error(const struct star *t, int rank, const char *address);
/*
 * Writes as much of head and body as can be written, from offset on: bytes moved, 0 if it would block, -1
 * with errno.
 */
ssize_t star_write_frame(int fd, const struct star_frame *head, const void *body, size_t offset);

/* How long a rank waits beyond its deadline for the root's answer, in ms. */
int64_t star_grace(const struct star *t);

/* ---- star_listen.c: rank 0 of an address ---- */

/*
 * Rank 0 listens at the addresses of root, or of the interface, and at no others, unless other hosts know root by
 * addresses that this host does not have.  Launchers on one host name a loopback address as root, whatever the
 * interface is.
 */
int star_listen_root(struct star *t, const char *root, const char *interface_name,
		     struct address_list *addrs);
/* Without a key from the user, every process that reaches a listening socket can join: says so. */
void star_warn_open(const struct listeners *listeners);

/* ---- star_member.c: towards the parent ---- */

/* Waits until the parent has sent something, or its connection has ended.  timeout_ms is for the text. */
int star_await_bytes(const struct star *t, int64_t deadline, int64_t timeout_ms);
/*
 * Sends the parent a frame, after star_await_answer: while the connection has no space this function reads what the
 * parent sends.  Ends early without error if the connection breaks or the answer comes.
 */
int star_send_up(struct star *t, struct star_frame head, const void *body, int64_t timeout_ms);
/* Sends the parent a FAILURE or, in place of the next piece, a FAILED, if it fits into the socket's buffer. */
void star_tell_parent(struct star *t, int type, int code, const char *text);
/* A round begins: the answer goes to `table`, or its message to failure->text. */
void star_await_answer(struct star *t, uint8_t *table, size_t len,
		       struct bootstrap_failure *failure);
/* Reads what the parent has sent; sets t->answered.  A code: it has sent a FAILURE, is lost or is wrong. */
int star_take_answer(struct star *t);
/* COLL_ERR_TIMEOUT: the root has not answered. */
int star_no_answer(const struct star *t, int64_t timeout_ms);
/* The exchange of a rank without children. */
int star_member_exchange(struct star *t, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms);
/* Between exchanges: has the parent sent a failure, or closed its connection? */
int star_member_failure_waits(struct star *t);

/* ---- star_sit.c: the first steps of a rank that is not the root ---- */

/* Connects to the root, and in a tree to the parent.  retry: the root may not be listening yet. */
int star_connect(struct star *t, const struct address_list *addresses, int retry, int64_t deadline,
		 int64_t timeout_ms);

/* ---- star_children.c: from the children ---- */

/* Memory for that many connections. */
int star_children_init(struct star *t, int conns_max);
/* A round begins. */
void star_children_begin(struct star *t, const void *in, size_t len);
/* One step of the loop: polls until `wake`, then handles all events of children, newcomers and the parent. */
int star_step(struct star *t, int64_t wake);
/* Gathers the pieces of all children.  While there are listeners it also accepts children. */
int star_gather(struct star *t, int (*overdue)(struct star *t));
/*
 * In a tree, when the time is up: tells the children once that this rank waits too, and asks the silent ones which
 * ranks are missing.  Returns 1 while an answer may come.
 */
int star_ask(struct star *t);
/* Between exchanges: has a child sent a failure, or closed its connection? */
int star_children_failure_waits(struct star *t);
void star_children_close(struct star *t);

/* ---- star_stall.c: ranks that are late, for the log ---- */

/* A round begins. */
void star_stall_begin(struct star *t);
/* When the loop of star_gather must look again. */
int64_t star_stall_wake(const struct star *t);
/*
 * While pieces are missing: the root asks its silent children, and logs which ranks are missing; inner ranks pass the
 * question down and the answers up.
 */
int star_stall(struct star *t);
/* A child has answered. */
void star_stall_take(struct star *t, struct rank_connection *conn);
void star_stall_end(struct star *t);

/* ---- star_answer.c: to the children ---- */

/* Sends the child a frame if it fits into the socket's buffer; returns 1 if it did. */
int star_send_down(struct star *t, struct rank_connection *conn, struct star_frame head,
		   const void *body);
/* Closes the connection. */
void star_drop(struct star *t, struct rank_connection *conn);
/* Sends every child the table or, with failed, the failure of a rank. */
int star_scatter(struct star *t, const void *body, size_t len, int failed);
/* Tells the children the error of this thread and closes the listeners; returns `code`, with the error. */
int star_fail(struct star *t, int code);

/* ---- star_inner.c ---- */

/* The exchange of a rank that has a parent and children. */
int star_inner_exchange(struct star *t, const void *in, void *out, size_t len,
			struct bootstrap_failure *failure, int64_t timeout_ms);

/* ---- star_root.c ---- */

/* Memory for all ranks. */
int star_root_init(struct star *t);
int star_root_exchange(struct star *t, const void *in, void *out, size_t len,
		       struct bootstrap_failure *failure, int64_t timeout_ms);
/* A rank has said where it listens: gives it its seat, and a seat to those that waited for this. */
int star_give_seat(struct star *t, struct rank_connection *conn);
/* Marks in heard[] the ranks that cannot be blamed for their silence. */
void star_excuse(const struct star *t, uint8_t *heard);

/* ---- id_text.c ---- */

/*
 * id: receives the text.  COLL_ERR_INVALID_ARGUMENT: it needs more than `size` bytes with its NUL.  Addresses without
 * room join addresses->left_out, and a log line names these.
 */
int unique_id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addresses, char *id,
		    size_t size);
int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE],
		    struct address_list *addresses);

/* ---- unique_id.c ---- */

/*
 * Hands over the listening sockets that this process made for the id, and the addresses for which the id has no room;
 * or no sockets if the process of another rank made the id; must: that is an error.
 */
int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners, char left_out[ADDRESS_LEFT_OUT_SIZE]);
/* Listens at every address of the chosen interface; without a choice one socket listens at all addresses. */
int unique_id_listen(const char *interface_name, struct listeners *listeners,
		     struct address_list *addresses);
/* Closes the sockets that a parent process made before it forked. */
void unique_id_drop_inherited(void);

#endif
