/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - communicators and the queue of operations each one owns. */
#ifndef CORE_EXEC_COMM_H
#define CORE_EXEC_COMM_H

#include "transport/context.h"
#include "exec/call.h"

enum { COMM_HISTORY = 32 };

struct native;

struct comm {
	coll_comm_t handle;
	struct context *context;
	struct native *native; /* of a backend without a transport: see native.h; else NULL */
	uint32_t context_id;
	int rank, nranks;
	int *to_context_rank; /* rank here -> rank on the context */
	int *to_comm_rank;    /* rank on the context -> rank here, or -1 */
	int *node;            /* rank here -> number of its node */
	int nnodes;
	struct op *head, *tail; /* in order of issue */
	struct op *op_cache;    /* finished ones, for their memory */
	struct op *persistent;  /* those of persistent requests */
	struct redop_table redops;
	struct call known[COLL_KIND_RECV + 1];  /* per kind: the last that passed all checks */
	uint64_t issued;                        /* operations ever issued */
	uint64_t finished;                      /* all operations up to this number are done */
	uint32_t seq;                           /* collectives ever issued */
	struct signature history[COMM_HISTORY]; /* of the last collectives, by seq */
	int error;
	char error_text[768];
	int pending_code; /* a failure seen where the transport may not be called; see comm_check */
	char pending_text[512];
	_Atomic int aborted;
	uint8_t *gone; /* per rank: has said that it destroys its communicator */
	int ngone;
	uint8_t *here;    /* per rank: has answered whether it is there */
	uint64_t steps;   /* completed ever: grows while operations get on */
	uint64_t *shrink; /* per rank: the hash it has sent to this rank; 0: none */
	struct {
		uint64_t hash; /* of the list it is about; 0: no answer */
		uint32_t context_id;
		int lost;  /* the rank for whose sake there is none, or -1 */
	} shrunk;          /* the leader's last answer */
	int native_groups; /* that its backend has begun, and that are to be ended */
	int leaving;       /* says goodbye: whoever goes now need not say so */
	struct comm *next; /* on the context */
};

/* Control messages. */
enum {
	CONTROL_FAIL = 1,
	CONTROL_BYE = 2,
	CONTROL_ARE_YOU_THERE = 3,
	CONTROL_HERE = 4,
	CONTROL_SHRINK = 5, /* to the leader: the hash of the ranks I exclude; 0: not any more */
	CONTROL_SHRUNK = 6  /* from the leader: hash, lost rank or -1; code is the context */
};

/*
 * Tag: context (bits 63-38) | user (37) | control (36), then for collectives seq (bits 35-20) |
 * message number (19-0), for point to point the user's tag (31-0).
 */
enum {
	TAG_CONTEXT_SHIFT = 38,
	TAG_CONTEXT_BITS = 26,
	TAG_SEQ_SHIFT = 20,
	TAG_SEQ_BITS = 16,
	TAG_MSG_BITS = 20
};

#define TAG_USER     ((uint64_t)1 << 37)
#define TAG_SEQ_MASK ((1u << TAG_SEQ_BITS) - 1)
#define TAG_MSG_MASK ((1u << TAG_MSG_BITS) - 1)

/* Ranks are never so many collectives apart that one's number in tags means another to the next. */
#define TAG_SEQ_APART ((TAG_SEQ_MASK + 1) / 4)

uint64_t comm_tag_collective(const struct comm *comm, uint32_t seq, uint32_t msg);
uint64_t comm_tag_user(const struct comm *comm, uint32_t tag);
uint64_t comm_tag_control(uint32_t context_id);

/*
 * Sets the communicator's asynchronous error (the first one stays), ends its operations and tells
 * the other ranks unless `quiet`.  The lock is held.
 */
void comm_fail(struct comm *comm, int quiet, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * A number for new communicators that no other rank of the context draws: every rank counts in a space
 * of its own.  UINT32_MAX: no more left.
 */
uint32_t comm_draw_context_id(struct context *context);

/* Waits, at most a moment, until what others are told of a failure is on its way. */
void comm_flush(struct comm *comm);

/*
 * As comm_fail once the transport has moved and what other ranks say of failures is known, which is
 * usually better: also where the transport may not be called.  The first one stays.
 */
void comm_set_pending(struct comm *comm, int code, const char *text);

/* Sends a control message to all other ranks that have not said goodbye.  The lock is held. */
void comm_send_control(struct comm *comm, int kind, int code, const char *text);

/* After the transport has moved: control messages, lost peers.  The lock is held. */
void comm_check(struct comm *comm);
/* Fails the communicator if an operation under way needs a rank that is gone. */
void comm_check_gone(struct comm *comm);

/* See struct context_client. */
extern const struct context_client comm_context_client;
int comm_no_memory(struct context *context, uint32_t peer, const coll_header_t *header);
int comm_check_unexpected(struct context *context, uint32_t peer, const coll_header_t *header);
void comm_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
		   const coll_header_t *header);

/* Messages for that context are of no use any more: not even those still to come. */
void comm_note_freed(struct context *context, uint32_t context_id);

/* The collective of number comm->seq - 1 is issued here with this signature. */
void comm_remember(struct comm *comm, const struct signature *signature);

/*
 * A communicator on an opened context; world: nranks context ranks, copied; NULL: all.  On an error *comm
 * may be half-made.  The lock is held; comm_free takes it itself.
 */
int comm_new(struct comm **comm, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *world);
void comm_free(struct comm *comm);
/* The first communicator of a context that was opened; the context is released on an error (comm_make.c). */
int init_comm(coll_comm_t *out, struct context *context);

/*
 * From handle to object: pins it, takes the context's lock.  Sets the error text and returns NULL if
 * the handle is not valid; `what` names the public function.
 */
struct comm *comm_enter(coll_comm_t handle, const char *what);
void comm_leave(struct comm *comm);

/* The number of the group that the calling thread has open, or 0. */
uint64_t group_current(void);
void group_set_current(uint64_t number);

/* The pending error of the communicator as this thread's error; 0 if there is none. */
int comm_error(const struct comm *comm);

/* Waits until operation `number` is done; the lock is held. */
int comm_wait(struct comm *comm, uint64_t number);

#endif
