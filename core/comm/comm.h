/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - communicators: their ranks, their failure, their control messages. */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include "endpoint/context.h"
#include "transport/match.h"
#include "engine.h"
#include "comm/call.h"
#include "comm/outcome.h"
#include "comm/scratch.h"

struct call_log;
struct composed;
struct order_group;
struct message;
struct native;
struct lanes;
struct registration;
struct shrinks;
struct staging_sites;
struct task;
struct stream_order;
struct stall;
struct watch;

/* Running operations: see moving.h. */
struct op_list {
	struct op *first, *last;
	int count;
};

/* Open messages outside the order of the operations, the oldest first. */
struct message_list {
	struct message *first, *last;
	int count;
};

/* The operations that are under way, in order of issue, and finished operations that later calls may reuse. */
struct queue {
	struct op *head, *tail;
	struct op *waiting;            /* the oldest that has not begun, or NULL */
	struct op *held;               /* the oldest in state OP_DEFERRED, or NULL */
	struct op_list woken, in_turn; /* the running ones to be looked at: see moving.h */
	struct op *collective;         /* no older collective runs, unless this one has left */
	uint64_t collective_number;    /* its number */
	struct op *plans[KIND_AWAIT +
			 1]; /* per kind: finished operations, which calls repeat (plan.h) */
	int left_awaited; /* a receive waits for a rank that has left, as check_left has not seen yet */
	struct scratch_spares spares; /* scratch memory of finished operations */
	struct op *persistent;        /* operations of persistent requests */
};

/* The tasks that the communicator has to look at: see task.h. */
struct tasks {
	struct task *awaited;                /* a heap by the numbers of operations; NULL: none */
	uint64_t ever_awaited;               /* how many were ever awaited */
	struct task *limited, *last_limited; /* in the order in which their limits were set */
	int64_t look_us;                     /* no limit is to be looked at before */
};

/* Messages outside the order, which are open: see message/message.h. */
struct messages {
	struct message_list sends, recvs;
	int looks;                 /* how many messages message_progress has to look at */
	struct message *next_look; /* the send at which message_progress goes on; NULL: the first */
	struct message *first_unsent; /* it and the sends behind it wait for copies; NULL: none */
	int copying;                  /* how many messages have a copy under way */
	const struct message
		*probing; /* of the coll_probe that began last and still waits, or NULL */
};

/* A rank of the communicator as this rank sees it. */
enum peer_state {
	PEER_ALIVE,
	PEER_REPORTED, /* another rank has lost it; this rank has not */
	PEER_LEFT,     /* has destroyed its communicator, and told this rank */
	PEER_FAILED    /* the transport has lost the connection to it: see context->failure */
};

/* A part of a communicator that another folder hangs on it.  The functions may be NULL: there is nothing to do. */
struct comm_part {
	const char *name;
	/* The communicator is new: makes the part.  The lock is held, as in the next two. */
	int (*begin)(struct comm *comm);
	/* The communicator has failed: the folder ends its work for it.  loud: this rank found the failure, in this lane. */
	void (*failed)(struct comm *comm, int loud);
	/* The communicator is freed next: it leaves its context.  Also after a begin that has failed. */
	void (*end)(struct comm *comm);
	/* The context does not know the communicator any more: frees the part. */
	void (*free)(struct comm *comm);
};

/*
 * What a communicator, its queue and its waits need of the files that stand right of them: memory of devices, algorithms,
 * streams of the program, questions to other ranks.  exec/parts.c hands the functions over.  The lock is held in all of
 * them.
 */
struct comm_client {
	const struct comm_part *parts; /* in the order of their making; the last one has no name */
	/* Finds the kinds of memory of an operation's buffers: call.memory and call.staged. */
	int (*locate)(struct op *op);
	/* COLL_ERR_UNSUPPORTED with a message if no engine does calls of the kind. */
	int (*supports)(const struct comm *comm, int kind);
	/* Finds the operation of a call that reduces: call->redop. */
	int (*find_redop)(const struct comm *comm, struct call *call);
	/* Chooses the engine of a call: see dispatch_choose. */
	int (*choose)(const struct comm *comm, struct call *call);
	/* The newest collective is issued: compares it with the messages that came for it. */
	void (*issued)(struct comm *comm);
	/* The communicator has failed: comm_end_all (life.h). */
	void (*failed)(struct comm *comm, int loud);
	/* Takes control messages, and looks for lost ranks: see comm_check. */
	void (*check)(struct comm *comm);
	/* Moves on messages outside the order, of which comm->messages.looks are to be looked at: 1 if any moved. */
	int (*move_messages)(struct comm *comm);
	/* Before a thread sleeps: the same for messages that the last call has not come to. */
	int (*look_at_messages)(struct comm *comm);
	/* An operation with an offload leaves the queue, or is freed. */
	void (*retire)(struct op *op);

	/* --- streams of the program: see compose/stream_order.h.  Called only for operations and communicators that have some. */
	int (*begin)(struct op *op, uint64_t group);
	struct order_group *(*group)(struct comm *comm, uint64_t group);
	void (*group_end)(struct comm *comm, uint64_t group, struct order_group *calls);
	void (*hold)(struct op *op);
	int (*depends)(struct op *op);
	void (*drop)(struct op *op);
	void (*release)(struct comm *comm, uint64_t number);
	int (*watch)(struct comm *comm);

	const struct lane_client *lanes; /* for communicators of two lanes (lane.h) */

	/* --- waits: see watch/stall.h */
	int64_t (*slice)(struct stall *stall, const struct comm *comm);
	int (*step)(struct stall *stall, struct comm *comm, int64_t idle_us);
	/* A wait ends for which the other ranks were asked (stall->counted). */
	void (*unstall)(struct stall *stall, struct comm *comm);
	/* A rank has left: fails the communicator if a running operation needs it. */
	void (*check_left)(struct comm *comm);
	/* The same as `step` from time to time, for calls that poll. */
	void (*poll)(struct comm *comm);
	/* Asks the other ranks where they are. */
	void (*ask)(struct comm *comm);
	/* The same now and then, for a program that is in no wait. */
	int (*ask_outside)(struct comm *comm);
	/* Writes whom the rank waits for; asked: the ranks were asked a moment ago. */
	void (*describe_missing)(struct comm *comm, int asked, char *text, size_t size);
	/* Writes what this rank waits for. */
	void (*describe_own)(const struct comm *comm, char *text, size_t size);

	/* --- the end of a communicator */
	/* Takes what the other ranks have said until now: of failures, and of their last calls when they left. */
	void (*listen)(struct comm *comm);
	/* Tells the other ranks that this rank leaves. */
	void (*leave)(struct comm *comm);
	/* Counts the messages that have come for the communicator and that no call has received; writes the first in words. */
	unsigned (*unexpected)(const struct comm *comm, char *text, size_t size);
};

/* A communicator; or one lane of a communicator that has two (lane.h), which share its handle and its outcome. */
struct comm {
	coll_comm_t handle;
	struct context *context;
	const struct comm_client *client;
	const struct engine *engine[ENGINES]; /* NULL: the communicator has none of this kind */
	int lane;                             /* LANE_*: which lane of the communicator it is */
	struct lanes *lanes; /* both lanes (lane.h); NULL: the communicator has one */
	int derived;         /* shares the endpoint of the communicator from which it was made */
	uint32_t context_id;

	/* --- its ranks */
	int rank, nranks;
	int *to_context_rank; /* rank here -> rank on the context */
	int *to_comm_rank;    /* rank on the context -> rank here, or -1 */
	uint8_t *peer_state;  /* per rank: enum peer_state */
	int nleft;            /* ranks in state PEER_LEFT */

	/* --- its operations */
	struct queue queue;
	struct tasks tasks;
	uint64_t issued;   /* operations ever issued */
	uint64_t finished; /* all operations up to this number are done */
	uint32_t seq;      /* collectives ever issued */
	uint64_t steps;    /* steps ever completed: grows while operations move */
	int deferred; /* groups of the thread that have not ended: an engine may defer operations, and is not polled */
	uint64_t joined;           /* the last group with a call of the communicator */
	int64_t timeout_us;        /* longest time without progress in a wait */
	const struct task *waited; /* by the caller of stall_step; it has no operation */

	/* --- its failure and its end */
	struct outcome *outcome; /* of the communicator, also for events: outlives it */
	int error; /* the failure in `outcome`, once this lane has ended its operations for it */
	struct error_first
		pending; /* a failure seen where the transport may not be called; see comm_check */
	/* Counts aborts, and the destroy: one more ends the shrink of an aborted communicator. */
	_Atomic int aborted;
	int leaving;    /* coll_comm_destroy has begun: a peer that leaves is no failure */
	uint64_t birth; /* tag of messages about ranks that could not make it too; 0: none */

	/* --- its place in the context: of comm.c and drive.c */
	struct comm *next, *prev; /* in context->comms */
	struct comm *next_of_id;  /* in its slot of context->comm_of_id */
	int busy;                 /* enum comm_busy */
	struct comm *next_busy;

	/* --- its parts */
	struct call_log *log;    /* of the calls: see call_log.h */
	struct shrinks *shrinks; /* see shrinks.h */
	struct registration *registrations;
	struct redop_table
		*redops; /* NULL: none was made.  The lanes share it: a change takes both locks */
	struct staging_sites
		*staging_sites; /* see staging_sites.h; NULL: no operation was staged */
	int stages_sends; /* a send was staged, which later sends of its group must not overtake */
	struct watch *watch;   /* of the other ranks: see watch/watch.h */
	struct native *native; /* for a backend without a transport (native/native.h); else NULL */
	int native_groups;     /* groups of the backend's own that have not ended yet */
	int asks_place;        /* native_asks_place (native/native_slot.h) */
	struct composed *composed;  /* see compose/composed.h */
	struct stream_order *order; /* see compose/stream_order.h; NULL: no call had a stream */
	int stream_waits; /* threads that wait for an event on a stream of the program, behind operations */
	struct messages messages; /* outside the order */
};

/* COMM_RESTS: has operations, and is in context->busy again once a message for them has come (moving.h). */
enum comm_busy { COMM_IDLE, COMM_BUSY, COMM_RESTS };

void comm_list_busy(struct comm *comm);
/* From now on context_progress moves the communicator, until nothing is left to move. */
static inline void comm_set_busy(struct comm *comm)
{
	if (comm->busy != COMM_BUSY)
		comm_list_busy(comm);
}
/* Takes it out of context->busy; before: the communicator before it there, or NULL.  to: COMM_IDLE or COMM_RESTS. */
void comm_unlist_busy(struct comm *comm, struct comm *before, int to);

/* It is freed next: it leaves the list of busy communicators. */
void comm_forget_busy(struct comm *comm);

/* Puts it into the context's list, and into the table where comm_of_tag finds it. */
void comm_enlist(struct comm *comm);
/* Takes it out of both.  A communicator that could not be made is in neither. */
void comm_delist(struct comm *comm);
/* The communicator whose messages have this tag; NULL: none on this context. */
struct comm *comm_of_tag(const struct context *context, uint64_t tag);

/* Counts an operation, and returns its number. */
static inline uint64_t comm_count(struct comm *comm)
{
	comm_set_busy(comm);
	return ++comm->issued;
}

/* Memory for comm_rank_name and comm_own_name. */
struct rank_name {
	char text[48];
};

/* Control messages. */
enum {
	CONTROL_FAIL = 1,
	CONTROL_SHRINK = 5, /* to the leader: hash of the excluded ranks; 0: the sender gives up */
	CONTROL_SHRUNK = 6, /* from the leader: hash, failed rank or -1; code is the context id */
	CONTROL_UNMADE = 7, /* the sender could not make its communicator of a split: see birth */
	CONTROL_REPORT = 8, /* where the sender is: a struct report (report.h) */
	CONTROL_LOST = 12   /* an int32_t: the rank that the sender has lost */
};

/*
 * Tag: context (bits 63-38) | user (37) | control (36), then for collectives seq (bits 35-20) |
 * message number (19-0), for point to point loose (35) | pieces (34) | the user's tag (31-0).  Loose messages,
 * those outside the order, carry the user's tag in meta[1], so that a receive of any tag finds them.  The pieces
 * of a message carry the number of the message on its sender, which the message before them has in meta[0].
 */
enum {
	TAG_CONTEXT_SHIFT = 38,
	TAG_CONTEXT_BITS = 26,
	TAG_SEQ_SHIFT = CALL_TAG_SHIFT,
	TAG_SEQ_BITS = 16,
	TAG_MSG_BITS = 20
};

#define TAG_USER   ((uint64_t)1 << 37)
#define TAG_LOOSE  ((uint64_t)1 << 35)
#define TAG_PIECES ((uint64_t)1 << 34)
_Static_assert(MATCH_LOOSE == (TAG_USER | TAG_LOOSE), "transport/match.h knows loose messages");
#define TAG_SEQ_MASK ((1u << TAG_SEQ_BITS) - 1)
#define TAG_MSG_MASK ((1u << TAG_MSG_BITS) - 1)

/*
 * Tags carry the sequence number modulo 2^16.  The queue inserts a barrier so that no two ranks are more
 * than a quarter of that apart.
 */
#define TAG_SEQ_APART ((TAG_SEQ_MASK + 1) / 4)

static inline uint64_t comm_tag_collective(const struct comm *comm, uint32_t seq, uint32_t msg)
{
	return (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT |
	       (uint64_t)(seq & TAG_SEQ_MASK) << TAG_SEQ_SHIFT | (msg & TAG_MSG_MASK);
}
uint64_t comm_tag_user(const struct comm *comm, uint32_t tag);
uint64_t comm_tag_loose(const struct comm *comm);
uint64_t comm_tag_pieces(const struct comm *comm, uint32_t number);
static inline int comm_tag_is_loose(uint64_t tag)
{
	return (tag & MATCH_LOOSE) == MATCH_LOOSE;
}
uint64_t comm_tag_control(uint32_t context_id);
/*
 * For messages about the communicators that the split with number `seq` makes of a parent.  The new
 * communicators take them, also when the parent is gone.
 */
uint64_t comm_tag_birth(uint32_t parent_context_id, uint32_t seq);
int comm_tag_is_birth(uint64_t tag);

/*
 * The communicator fails (the first failure stays): ends the operations of this lane, and tells the other ranks unless
 * they know (`quiet`).  The lock is held.
 */
void comm_fail(struct comm *comm, int quiet, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The part of comm_fail that concerns one lane.  first: the lane that has found the failure. */
void comm_end_lane(struct comm *comm, int first);

/* After the transport has moved: handles control messages and failed peers.  The lock is held. */
static inline void comm_check(struct comm *comm)
{
	comm->client->check(comm);
}

/*
 * Draws an id for a new communicator, which no other rank of the context draws: every rank counts in a
 * space of its own.  UINT32_MAX: all ids are used up.
 */
uint32_t comm_draw_context_id(struct context *context);
/* The ids that each rank of the context can draw: 2^(26 - ceil(log2 nranks)). */
uint32_t comm_most_context_ids(const struct context *context);

/*
 * Notes a failure that comm_check raises: for code that runs inside the transport, which must not be
 * called from there.  By then another rank's message may have told the cause.  The first failure stays.
 */
void comm_set_pending(struct comm *comm, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Sends a control message to all other ranks that have not left.  The lock is held. */
void comm_send_control(struct comm *comm, int kind, int code, const char *text);
/*
 * Without a transport: tells all other ranks that this rank aborts the communicator.  Any thread may call it, also
 * beside one that holds the lock in a call of the backend.
 */
void comm_send_abort(struct comm *comm);
/*
 * Tells all other ranks that this rank has lost one: they may hear of the failure before they notice the loss.  The
 * lock is held.
 */
void comm_send_lost(struct comm *comm, int lost);
/*
 * Tells the ranks of the parent that this rank could not make its communicator of the split with this
 * number: each communicator of that split that contains this rank fails.  The lock is held.
 */
void comm_send_unmade(struct comm *parent, uint32_t seq, int code, const char *text);

/*
 * The same for a new communicator whose context id all know: it fails on each rank of the parent that
 * makes it.  The lock is held.
 */
void comm_refuse(struct comm *parent, uint32_t context_id, int code, const char *text);
/* A communicator was freed: messages with its context id are dropped from now on. */
void comm_note_freed(struct context *context, uint32_t context_id);
int comm_was_freed(const struct context *context, uint32_t context_id);

/*
 * "rank 1", or "rank 1 (world rank 3)" where the communicator numbers the rank in its own way.  COLL_ANY_SOURCE is "any
 * rank"; other ranks' messages may contain any number.
 */
const char *comm_rank_name(const struct comm *comm, int rank, struct rank_name *name);
/* The same of this rank. */
const char *comm_own_name(const struct comm *comm, struct rank_name *name);

/*
 * The backend's own functions, or NULL.  They work on all ranks of an endpoint and in one order, so the
 * communicators that share it over a transport leave them to the first.
 */
static inline const coll_native_t *comm_native(const struct comm *comm)
{
	return comm->derived ? NULL : comm->context->plugin->backend.native;
}

/* Pins a handle's communicator.  NULL with an error if the handle is not valid; `what` names the public function. */
struct comm *comm_pin(coll_comm_t handle, const char *what);
/* The same, and takes its context's lock.  NULL also if another thread has left the library with the lock. */
struct comm *comm_enter(coll_comm_t handle, const char *what);
/* The same for the host lane (comm/lane.h), and for the lane LANE_*. */
struct comm *comm_enter_host(coll_comm_t handle, const char *what);
static inline struct comm *comm_enter_lane(coll_comm_t handle, int lane, const char *what)
{
	return lane == LANE_FIRST ? comm_enter(handle, what) : comm_enter_host(handle, what);
}
void comm_leave(struct comm *comm);
/* The error of a thread that could not get the lock: COLL_ERR_TIMEOUT or COLL_ERR_ABORTED.  The second ends its pin too. */
int comm_lost(const struct comm *comm);
int comm_leave_lost(const struct comm *comm);
/* Threads with an open group: without one, no call looks for the memory of its thread. */
extern _Atomic int group_threads;
uint64_t group_of_thread(void);
/* The number of the group that the calling thread has open, or 0. */
static inline uint64_t group_current(void)
{
	return atomic_load_explicit(&group_threads, memory_order_relaxed) ? group_of_thread() : 0;
}
void group_set_current(uint64_t number);

/* The text of the failure; "" without one. */
static inline const char *comm_failure(const struct comm *comm)
{
	return comm->error ? comm->outcome->text : "";
}
/* The communicator has failed: its error becomes this thread's error, and the program is told. */
int comm_tell_error(const struct comm *comm);
/* Makes the communicator's error this thread's error; 0: the communicator has not failed. */
static inline int comm_error(const struct comm *comm)
{
	return comm->error ? comm_tell_error(comm) : COLL_SUCCESS;
}

#endif
