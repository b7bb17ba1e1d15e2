/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_protocol.h - what the ranks of a tree agree on: its shape as numbers, and its frames as bytes.  No function here
 * calls the system.
 *
 * Each rank has an index in the tree.  The root has index 0; the other ranks get theirs in the order in which they
 * reach the root.  The children of index i are the indices i * fan + 1 to i * fan + fan, as far as there are
 * so many ranks.  Up to tree_shape.flat ranks the tree is flat: every rank is a child of the root.
 *
 * Shapes are a pure function of the number of ranks, so that all ranks agree without a message.
 *
 * A frame is a head and a body of head.len bytes, in the machines' own byte order, which the handshake
 * compares.  The head carries two macs.  `mac` is computed under the key of the connection and covers the
 * head, the direction and the number of the frame in its direction: a frame that was changed, dropped,
 * repeated, reordered or sent on another connection has the wrong mac.  `body_mac` is computed under a key
 * that all ranks share, so that a rank computes it once for the table that it sends to all its children.
 */
#ifndef CORE_MEET_TREE_PROTOCOL_H
#define CORE_MEET_TREE_PROTOCOL_H

#include "socket/handshake.h"

/* ---- the shape ---- */

/* The same on all ranks.  Only tests change it. */
struct tree_shape {
	int flat; /* the most ranks that all are children of the root */
	int fan;  /* the most children of a rank where there are more ranks */
};
extern struct tree_shape tree_shape;

/* The most children of a rank in a meeting of nranks >= 1 ranks. */
int tree_shape_fan(int nranks);
/* The index of the parent of an index > 0. */
int tree_shape_parent(int index, int nranks);
/* The number of children of an index. */
int tree_shape_children(int index, int nranks);
/* The lowest index of a child of that index. */
int tree_shape_first_child(int index, int nranks);
/* The number of ranks in the subtree of that index, itself included. */
int tree_shape_size(int index, int nranks);
/* The number of levels below that index. */
int tree_shape_height(int index, int nranks);
/* The number of levels above that index. */
int tree_shape_depth(int index, int nranks);

/* ---- frames ---- */

/*
 * PIECE and FAILED go to the parent, TABLE and FAILED come from it.  FAILED stands where a piece or a table
 * would: a rank has failed, and the next round may follow.  FAILURE: the sender cannot go on, so nobody can.
 *
 * The body of a rank without children is its block in its PIECE.  That of a rank with children has an entry for each
 * rank of its subtree: the number of the rank, 4 bytes, and its block.
 */
enum tree_type {
	TREE_PIECE = 1,
	TREE_TABLE = 2,
	TREE_FAILURE = 3,
	TREE_FAILED = 4,
	/* To a child: asks for a STATUS, because the time is up or for the reason in `code`. */
	TREE_WHO = 5,
	/* The answer, also unasked when the child's time is up.  The body has a byte for each rank, an enum tree_status. */
	TREE_STATUS = 6,
	/* Round 0, to the root: the rank's own addresses, in the text of a unique id. */
	TREE_HERE = 7,
	/* Round 0, from the root: a struct tree_place. */
	TREE_INDEX = 8
};

/* The code of a WHO for which nobody's time is up. */
enum tree_why {
	TREE_STALLED = 1, /* only the log waits for the answer, which has this code too */
	TREE_HURRY = 2    /* no question: a rank has failed */
};

struct tree_frame {
	uint32_t type;
	uint32_t round;
	uint64_t len;        /* number of the bytes that follow */
	uint32_t timeout_ms; /* to the parent: the time that is left; UINT32_MAX: a longer one */
	int32_t code; /* FAILED and FAILURE: a message follows; WHO and STATUS: an enum tree_why or 0 */
	uint32_t rank;  /* FAILED: the rank that has failed */
	uint32_t index; /* to the parent in a deep tree: the sender's */
	uint8_t body_mac[HANDSHAKE_MAC_SIZE];
	uint8_t mac[HANDSHAKE_MAC_SIZE];
};

/* The value of timeout_ms for that time. */
static inline uint32_t tree_timeout(int64_t ms)
{
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* The frames of one connection: how many were exchanged, and the frame that arrives now. */
struct tree_stream {
	uint8_t key[HANDSHAKE_KEY_SIZE]; /* the session key of the connection */
	const uint8_t *body_key;
	uint32_t is_parent;
	uint64_t sent, taken; /* complete frames in each direction */
	struct tree_frame head;
	size_t head_got;
	uint64_t got;
	uint8_t *body; /* memory for head.len bytes; NULL: the body is thrown away */
};

/* Fills a zeroed stream.  is_parent: this end is the parent's.  body_key must live as long as the stream. */
void tree_stream_init(struct tree_stream *stream, int is_parent,
		      const uint8_t key[HANDSHAKE_KEY_SIZE], const uint8_t *body_key);

/* Fills head->body_mac: once for all connections that send the body. */
void tree_seal_body(const uint8_t *body_key, struct tree_frame *head, const void *body);
/* Fills head->mac for the next frame to send.  The caller counts stream->sent up when all is sent. */
void tree_seal(const struct tree_stream *stream, struct tree_frame *head);
/* Is this the head of the next frame to receive? */
int tree_is_sealed(const struct tree_stream *stream, const struct tree_frame *head);

/* Forgets the received frame: the next byte is the first of a head. */
void tree_stream_next(struct tree_stream *stream);
/* The memory for the next bytes and its size.  scrap: memory for bytes that are thrown away. */
void *tree_stream_space(struct tree_stream *stream, void *scrap, size_t scrap_size, size_t *size);

enum tree_event {
	TREE_MORE, /* the frame is not complete */
	/*
	 * The head is complete and has the right mac.  The caller checks it, sets stream->body and calls
	 * tree_stream_take(stream, 0): a body may be empty.
	 */
	TREE_HEAD,
	TREE_WHOLE, /* so has the body, unless it was thrown away */
	TREE_FORGED /* a mac is wrong */
};
/* Takes n bytes that were written to the memory of tree_stream_space. */
enum tree_event tree_stream_take(struct tree_stream *stream, size_t n);

/*
 * Checks an authentic head from `rank` in that round: COLL_SUCCESS if it is a piece of len bytes or a FAILED.
 * any_len: pieces are thrown away, whatever their length.
 */
int tree_check_piece(const struct tree_frame *head, int rank, int parent, uint32_t round,
		     size_t len, int any_len);
/* Checks an authentic head from the parent: COLL_SUCCESS if it is a table of len bytes or a FAILED. */
int tree_check_table(const struct tree_frame *head, int parent, uint32_t round, size_t len);
/* Sets the error that the rank has broken the protocol, in the words of fmt; returns COLL_ERR_INTERNAL. */
int tree_broke(int rank, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Checks that the message of a failure fits into the memory of a struct bootstrap_failure. */
int tree_check_message(const struct tree_frame *head, int rank);

#endif
