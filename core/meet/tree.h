/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.h - the bootstrap over TCP.  The ranks form a tree (tree_protocol.h).  One rank, the root, is known to all: the rank
 * whose process made the unique id, or rank 0.  With few ranks the tree is flat: all others are children of the root.
 *
 * Joining (tree.c).  Every rank connects to the root with the handshake of socket/handshake.h.  In a flat tree
 * this is its place.  In a deep tree it also listens, and tells the root where (HERE).  The root gives it an index
 * in the tree and the address of its parent (INDEX).  A rank whose parent is not the root leaves the root and connects
 * to its parent, which has got its own index before.
 *
 * An exchange is a round (tree_round.c), and every rank has the same part in it: it gathers the pieces of its
 * children, sends them to its parent with its own piece, waits for the answer, and passes the answer down.  A leaf has no
 * children; the root has no parent and makes the answer: the table of all pieces.  A rank that has failed sends its
 * code and a message in place of the piece, and every rank gets them in place of the table.
 *
 * If something goes wrong, the rank that sees it sends its parent and its children a failure, and so does every
 * rank that gets one.  In the first round a rank with children then stays in the call for two seconds at most,
 * so that children which connect late get the failure too.
 *
 * The files call each other in one direction:
 *
 *     tree.c -> tree_round.c -> tree_children.c -> tree_link.c -> tree_protocol.c
 */
#ifndef CORE_MEET_TREE_H
#define CORE_MEET_TREE_H

#include "bootstrap/bootstrap_kind.h"
#include "meet/meet.h"
#include "meet/tree_protocol.h"
#include "socket/acceptor.h"
#include "socket/dial.h"

enum {
	TREE_VERSION = 8,
	TREE_GRACE_MS = 2000, /* extra wait of a child for the names of the missing ranks */
	TREE_ASK_MS = 2000    /* extra time for each level below that is asked for them */
};

/* A unique id has fewer bytes than this, as many as an ncclUniqueId has. */
enum { UNIQUE_ID_TEXT_MAX = 128 };

/* The status of a rank in this round, as another rank knows it. */
enum tree_status {
	TREE_SILENT = 0,
	TREE_WAITS = 1, /* it is there, but ranks below it are silent */
	TREE_CAME = 2,  /* its piece has come, with the pieces of all ranks below it */
	TREE_PLACED = 3 /* and the root has its piece */
};

/* What a rank has done because the time of the round is up. */
enum tree_overdue {
	TREE_IN_TIME = 0,
	TREE_CHILDREN_ASKED = 1, /* it has asked its silent children which ranks are missing */
	TREE_PARENT_TOLD = 2     /* it has told its parent */
};

/* The body of an INDEX. */
struct tree_place {
	uint32_t index, parent;        /* the index of the receiver; the rank of its parent */
	char here[UNIQUE_ID_TEXT_MAX]; /* the parent's HERE; "" if it is the root */
};

/* A connection to another rank.  In each direction one frame is under way at a time. */
struct tree_link {
	int rank;  /* of the peer */
	int fd;    /* -1: none, or no more */
	int place; /* in the poll set; -1: not in the set */
	int ended; /* the peer is lost, or has sent a FAILURE */
	char address[ADDRESS_TEXT_SIZE];
	struct tree_stream stream; /* with the frame that comes */
	uint8_t *body;             /* memory of its own for the body of that frame; or NULL */
	uint64_t received;         /* bytes */
	struct tree_frame out;     /* the frame that goes */
	const void *out_body;
	size_t out_left; /* its bytes that are not sent yet; a frame that broke off is the last one */
};

/* A connection from a child, or to the root from a rank that has no index yet. */
struct tree_child {
	struct tree_link link; /* the first member */
	int index;             /* 0: not known yet */
	int placed; /* an INDEX has been sent, or the tree is flat: the next frame is a piece */
	enum tree_status status;
	uint8_t *
		entries; /* the child's subtree in this rank's entries, once the child's piece begins to come */
	int told;           /* the FAILURE has been sent */
	int stall_answered; /* it has answered the question of a stalled round */
	char here[UNIQUE_ID_TEXT_MAX];
};

struct tree {
	struct bootstrap bootstrap;
	int root;                             /* -1: not known before this rank is connected */
	const char *interface_name;           /* until the tree is open; or NULL */
	uint8_t shared[BOOTSTRAP_KEY_SIZE];   /* from the id, or from COLL_KEY */
	uint8_t body_key[BOOTSTRAP_KEY_SIZE]; /* for the bodies of frames */
	struct handshake handshake;
	char left_out[ADDRESS_LEFT_OUT_SIZE]; /* addresses without space in the root's id */
	int index;                            /* of this rank in the tree; 0: the root */
	int nchildren;

	/* This round. */
	uint32_t round;               /* 0: the rank joins */
	int64_t deadline, timeout_ms; /* the shortest of this rank and of the ranks below it */
	size_t len;                   /* bytes of each rank */
	uint8_t *table; /* memory for the answer, of table_len bytes; the root's own table */
	size_t table_len;
	struct bootstrap_failure *failure;
	int failed; /* this rank itself has failed: it throws pieces away */
	uint8_t *
		entries; /* of a rank with children: the number and the piece of each rank of its subtree */
	int nentries;    /* of the ranks that have come */
	uint8_t *status; /* [nranks] an enum tree_status for each rank */
	int missing;     /* number of children whose piece has not come */
	enum tree_overdue overdue;
	int64_t ask_end; /* when the wait for the answers of the children that were asked ends */
	int hurries;     /* the parent has said that a rank has failed */
	int hurried;     /* the children that are silent have been told so */
	/* A stalled round: when the root asks its children; who has been heard from; when the wait for answers ends. */
	int64_t stall_at;
	uint8_t *stall_status; /* [nranks] while answers are awaited; else NULL */
	int64_t stall_end;
	int stall_asked; /* the parent has asked */

	/* The parent; not used by the root. */
	struct tree_link parent;
	int piece_begun;  /* this round's piece is on its way: an answer may come */
	int piece_sent;   /* all of it */
	int answered;     /* the answer is complete */
	int parent_waits; /* the parent has said in this round that its time is up too */

	/* The children. */
	struct acceptor acceptor; /* until all children are connected */
	struct tree_child *conns; /* [conns_max], in the order of their arrival */
	int nconns, conns_max;
	struct poll_set polls; /* of the parent, the children and the acceptor */
	int *conn_at;          /* 1 + the connection at that place in the poll set; 0: none */
	int64_t looked;        /* when tree.c last looked between rounds */
	uint64_t bytes;        /* sent and received */
};

static inline int tree_is_root(const struct tree *t)
{
	return t->bootstrap.rank == t->root;
}

/* Are there so many ranks that not all are children of the root? */
static inline int tree_is_deep(const struct tree *t)
{
	return tree_shape_fan(t->bootstrap.nranks) < t->bootstrap.nranks - 1;
}

/* ---- tree_link.c: the keys, and a connection to any other rank ---- */

/* Fills t->handshake for t's rank and number of ranks. */
void tree_set_handshake(struct tree *t);
/* Makes the bootstrap's own key, and the key of the bodies, from the shared key and the root's salt. */
void tree_derive_keys(struct tree *t, const uint8_t salt[HANDSHAKE_SALT_SIZE]);
/* Waits for the poll set until `wake` at most.  Returns a code if the communicator is aborted. */
int tree_wait(struct tree *t, int64_t wake);
/* Fills a zeroed link.  is_parent: this end is the parent's. */
void tree_link_open(struct tree *t, struct tree_link *link, int is_parent,
		    const struct session *session);
/* COLL_ERR_PEER_LOST about a connection that failed with errno err; or the failure that its rank sent in this round. */
int tree_link_lost(const struct tree *t, const struct tree_link *link, int err);
/* Begins to send a frame, whose body has its mac.  Returns 0 if an earlier frame broke off. */
int tree_link_begin(struct tree_link *link, const struct tree_frame *head, const void *body);
/* Writes as much of that frame as the socket takes.  Returns 1 if all is sent, -1 with errno if the connection broke. */
int tree_link_flush(struct tree *t, struct tree_link *link);
/* Ends the sending of a frame.  Returns 1 if a part of it was sent, so that no other frame can follow. */
int tree_link_break_off(struct tree_link *link);
/* Sends a frame if it fits into the socket's buffer; returns 1 if it did. */
int tree_link_send(struct tree *t, struct tree_link *link, struct tree_frame head,
		   const void *body);
/*
 * Reads what the peer has sent, of one frame at most.  take_head checks a head and chooses the memory for the
 * body (stream.body); take_frame takes a whole frame.  Both get authentic bytes only.  tree_link_receive takes a
 * FAILURE itself and returns it as an error.
 */
typedef int (*tree_take_fn)(struct tree *t, struct tree_link *link);
int tree_link_receive(struct tree *t, struct tree_link *link, tree_take_fn take_head,
		      tree_take_fn take_frame);
/* Makes link->body, where the body of the frame then goes. */
int tree_link_make_body(struct tree_link *link);
/* The whole body, with an end. */
const char *tree_link_text(struct tree_link *link);
/* Takes a FAILED into t->failure. */
void tree_link_take_failed(struct tree *t, struct tree_link *link);

/* Between rounds: has the peer sent a failure, or closed its connection? */
int tree_link_failure_waits(const struct tree_link *link);

/* ---- tree_link.c: the connection to the parent ---- */

/* How long this rank waits beyond its deadline for the answer, in ms. */
int64_t tree_grace(const struct tree *t);
/* COLL_ERR_TIMEOUT: the parent has not answered. */
int tree_no_answer(const struct tree *t);
/* A round begins: the answer goes to `table`, or its message to failure->text. */
void tree_parent_begin(struct tree *t, uint8_t *table, size_t len,
		       struct bootstrap_failure *failure);
/*
 * Sends the parent a frame, after tree_parent_begin.  While the connection has no space this function reads what the
 * parent sends, until timeout_ms is over.  Ends early without error if the connection breaks or the answer comes.
 */
int tree_parent_send(struct tree *t, struct tree_frame head, const void *body, int64_t timeout_ms);
/* Sends the parent a FAILURE or, in place of this round's piece, a FAILED, if it fits into the socket's buffer. */
void tree_parent_tell(struct tree *t, int type, int code, const char *text);
/* Reads what the parent has sent; sets t->answered.  A code: it has sent a FAILURE, is lost or is wrong. */
int tree_parent_take(struct tree *t);
/* Waits for the answer, while this rank joins and so has no children. */
int tree_parent_await(struct tree *t);

/* ---- tree_children.c ---- */

/* Takes that index in the tree: makes the memory for the round, and for the children that belong to the index. */
int tree_take_index(struct tree *t, int index);
/* Closes all connections and frees the memory for them. */
void tree_close(struct tree *t);
/* Reads what that child has sent. */
int tree_child_take(struct tree *t, struct tree_child *child);
/* The root's connection of the rank with that index > 0. */
static inline struct tree_child *tree_at_index(const struct tree *t, int index)
{
	return &t->conns[index - 1];
}

/* Is this child connected, and in its place, and has it not sent its piece? */
static inline int tree_child_is_silent(const struct tree_child *child)
{
	return child->link.fd >= 0 && child->placed && child->status == TREE_SILENT;
}

/* Sends every child the table or, with failed, the failure of a rank. */
int tree_pass_down(struct tree *t, const void *body, size_t len, int failed);
/* Tells the children the error of this thread and closes the listeners; returns `code`, with the error. */
int tree_fail(struct tree *t, int code);

/* ---- tree.c ---- */

/* Joins the tree: connects to the root, and in a deep tree to the parent.  retry: the root may not be listening yet. */
int tree_join(struct tree *t, const struct address_list *addresses, int retry);

/* ---- unique_id.c: unique ids: their text, and the sockets that listen for them ---- */

/*
 * id: receives the text.  COLL_ERR_INVALID_ARGUMENT: it needs more than `size` bytes with its NUL.  Addresses without
 * room join addresses->left_out, and a log line names these.
 */
int unique_id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addresses, char *id,
		    size_t size);
int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE],
		    struct address_list *addresses);

/*
 * Hands over the listening sockets that this process made for the id, and the addresses for which the id has no room;
 * or no sockets if the process of another rank made the id; must: that is an error.
 */
int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners, char left_out[ADDRESS_LEFT_OUT_SIZE]);
/* Closes the sockets that a parent process made before it forked. */
void unique_id_drop_inherited(void);

/* ---- tree_round.c ---- */

/* The exchange of every rank: see bootstrap_kind. */
int tree_exchange(struct tree *t, const void *in, void *out, size_t len,
		  struct bootstrap_failure *failure, int64_t timeout_ms);

#endif
