/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - communicators and their lanes: their ranks, their failure, their control messages. */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include "endpoint/context.h"
#include "engine.h"
#include "base/handle.h"
#include "base/kind.h"
#include "comm/outcome.h"
#include "comm/scratch.h"

struct call;
struct call_log;
struct composed;
struct lane_wait;
struct order_group;
struct page;
struct page_comm;
struct page_counts;
struct counts_own;
struct message;
struct native;
struct native_split;
struct observed_comm;
struct redop;
struct redop_table;
struct registration;
struct shrinks;
struct staging_sites;
struct task;
struct stream_order;
struct stall;
struct traffic;
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
	struct op *deferred;           /* the oldest in state OP_DEFERRED, or NULL */
	struct op_list woken, in_turn; /* the running ones to be looked at: see moving.h */
	struct op *collective;         /* no older collective runs, unless this one has left */
	uint64_t collective_number;    /* its number */
	uint64_t message_number;       /* of a group's youngest operation that is no collective */
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
	uint64_t observed;         /* messages that observers were told of */
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

/* A part of a lane that another folder hangs on it.  The functions may be NULL: there is nothing to do. */
struct comm_part {
	const char *name;
	/* The lane is new: makes the part.  The lock is held, as in the next two. */
	int (*begin)(struct lane *lane);
	/* The communicator has failed: the folder ends its work for it.  loud: this rank found the failure, in whichever lane. */
	void (*failed)(struct lane *lane, int loud);
	/* The lane is freed next: it leaves its context.  Also after a begin that has failed. */
	void (*end)(struct lane *lane);
	/* The context does not know the lane any more: frees the part. */
	void (*free)(struct lane *lane);
};

/*
 * What a communicator, its queue and its waits need of the folders right of comm/: memory of devices, algorithms,
 * streams of the program, questions to other ranks.  exec/parts.c hands the functions over.  The lock is held in all
 * functions.
 */
struct comm_client {
	const struct comm_part *parts; /* in the order of their making; the last one has no name */
	/* Finds the kinds of memory of an operation's buffers: call.memory and call.staged. */
	int (*locate)(struct op *op);
	/* COLL_ERR_UNSUPPORTED with a message if no engine does calls of the kind. */
	int (*supports)(const struct lane *lane, int kind);
	/* Finds the operation of a call that reduces: see redop_find. */
	int (*find_redop)(const struct redop_table *table, const char *what, int dtype, int op,
			  struct redop *redop);
	/* Returns the name of the algorithm of a call that the library composes; NULL: it has none.  May be a NULL pointer itself. */
	const char *(*algorithm)(const struct call *call);
	/* Chooses the engine of a call: see dispatch_choose. */
	int (*choose)(const struct lane *lane, struct call *call);
	/* The newest collective is issued: compares it with the messages that came for it. */
	void (*issued)(struct lane *lane);
	/* The communicator has failed: lane_end_all (life.h). */
	void (*failed)(struct lane *lane, int loud);
	/* Takes control messages, and looks for lost ranks: see lane_check. */
	void (*check)(struct lane *lane);
	/*
	 * Moves on messages outside the order, of which lane->messages.looks are to be looked at.  Returns 1 if any
	 * moved.
	 */
	int (*move_messages)(struct lane *lane);
	/* Before a thread sleeps: the same for messages that the last call has not come to. */
	int (*look_at_messages)(struct lane *lane);
	/* An operation with an offload leaves the queue, or is freed. */
	void (*retire)(struct op *op);

	/* --- streams of the program: see compose/stream_order.h.  Called only for operations and communicators that have some. */
	int (*begin)(struct op *op, uint64_t group);
	struct order_group *(*group)(struct lane *lane, uint64_t group);
	void (*group_end)(struct lane *lane, uint64_t group, struct order_group *calls);
	void (*hold)(struct op *op);
	int (*depends)(struct op *op);
	void (*drop)(struct op *op);
	void (*release)(struct lane *lane, uint64_t number);
	int (*watch)(struct lane *lane);

	const struct lane_client *lanes; /* for communicators of two lanes (lane.h) */

	/* --- waits: see watch/stall.h */
	int64_t (*slice)(struct stall *stall, const struct lane *lane);
	int (*step)(struct stall *stall, struct lane *lane, int64_t idle_us);
	/* A wait ends for which the other ranks were asked (stall->counted). */
	void (*unstall)(struct stall *stall, struct lane *lane);
	/* A rank has left: fails the communicator if a running operation needs it. */
	void (*check_left)(struct lane *lane);
	/*
	 * A thread of the program waits, and nothing has moved for idle_us: notes the wait for other processes.  May be
	 * a NULL pointer.
	 */
	void (*note)(struct lane *lane, int64_t idle_us);
	/* The same as `step` from time to time, for calls that poll. */
	void (*poll)(struct lane *lane);
	/* Asks the other ranks where they are. */
	void (*ask)(struct lane *lane);
	/* The same now and then, for a program that is in no wait. */
	int (*ask_outside)(struct lane *lane);
	/* Writes whom the rank waits for; asked: the ranks were asked a moment ago. */
	void (*describe_missing)(struct lane *lane, int asked, char *text, size_t size);
	/* Writes what this rank waits for. */
	void (*describe_own)(const struct lane *lane, char *text, size_t size);

	/* --- the end of a communicator */
	/* Takes what the other ranks have said until now: of failures, and of their last calls when they left. */
	void (*listen)(struct lane *lane);
	/* Tells the other ranks that this rank leaves. */
	void (*leave)(struct lane *lane);
	/* Counts the messages that have come for the communicator and that no call has received; writes the first in words. */
	unsigned (*unexpected)(const struct lane *lane, char *text, size_t size);
};

/*
 * A communicator: what its lanes share.  A communicator has one lane for all memory, or two (lane.h): then each field
 * names the lock that guards it.  A field that names no lock is constant from the communicator's making to its end.
 */
struct comm {
	coll_comm_t handle;       /* both locks, until comm_publish */
	struct handle_slot *slot; /* of the handle: every call of a program ends there */
	/*
	 * NULL: there is no such lane.  The host lane's is cleared under the first lane's lock, when the handle is not valid any
	 * more: who has a pin reads it without a lock.
	 */
	struct lane *lane[LANES];
	struct outcome *outcome; /* also for events: outlives the communicator */
	int rank, nranks;
	int nlanes; /* lanes that are made: the thread that makes and frees them counts, without a lock */
	/* Counts aborts, and the destroy: one more ends the shrink of an aborted communicator.  No lock. */
	_Atomic int aborted;
	_Atomic int64_t timeout_us; /* longest time without progress in a wait.  No lock */
	/* For observers (observed.h), both locks until comm_publish; NULL: there are none. */
	struct observed_comm *observed;
	uint64_t
		parent; /* the number for observers of the communicator that it is made from, or 0 */
	struct redop_table
		*redops; /* NULL: none was made.  A reader takes one lock, a change both */

	/* --- of two lanes, the first lane's lock: which operation is the newest */

	/*
	 * The last operation of the host lane, 0: none; and 1 more than `issued` of the first lane when that operation was
	 * issued, so that the host lane has the newest operation of both if host_issued == issued + 1.
	 */
	uint64_t host_number, host_issued;
	/* The last operation of the host lane that stages device memory, 0: none; and `issued` of the first lane before it. */
	uint64_t staged_number, staged_after;
	/*
	 * The last operation of the first lane for which an operation of the host lane waits, so that all later
	 * operations wait for it too; 0: none.
	 */
	uint64_t awaited;
	/*
	 * What the next operation of the host lane waits for, and the stream that is ordered with it: see
	 * event/lane_order.h.
	 */
	struct lane_wait *waits;
	void *order_stream;
	/*
	 * The last operation of the host lane that is in the issue order of both lanes, and the last operation for
	 * which a stream waits; 0: none.
	 */
	_Atomic uint64_t staged, stream_wait; /* no lock */

	/* --- of two lanes, the host lane's lock */
	uint64_t first_moves; /* see lane_moves */

	/* --- of two lanes, the first lane's lock */
	uint64_t host_moves; /* see lane_moves */
};

/* A queue of operations on an engine or several, over one endpoint, under the lock of the endpoint's context. */
struct lane {
	struct comm *comm;
	struct context *context;
	struct traffic *traffic; /* of the context, if that has some: see transport/traffic.h */
	const struct comm_client *client;
	const struct engine *engine[ENGINES]; /* NULL: the lane has none of this kind */
	int index;                            /* LANE_*: which lane of the communicator it is */
	int derived; /* shares the endpoint of the lane from which it was made */
	uint32_t context_id;

	/* --- its ranks: the endpoints of two lanes may number them in two ways, and lose them at two times */
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
	uint32_t
		observed; /* the events that an observer wants, COLL_OBSERVE_*; 0: none (observed.h) */
	int deferred; /* groups of the thread that have not ended: an engine may defer operations, and is not polled */
	uint64_t joined;           /* the last group with a call of the lane */
	const struct task *waited; /* by the caller of stall_step; it has no operation */

	/* --- its failure and its end */
	int error; /* the failure in comm->outcome, once this lane has ended its operations for it */
	struct error_first
		pending; /* a failure seen where the transport may not be called; see lane_check */
	int leaving; /* coll_comm_destroy has come to this lane: a peer that leaves is no failure */
	uint64_t birth; /* tag of messages about ranks that could not make it too; 0: none */

	/* --- in the context's lists: of comm.c and drive.c */
	struct lane *next, *prev; /* in context->lanes */
	struct lane *next_of_id;  /* in its slot of context->lane_of_id */
	int busy;                 /* enum lane_busy */
	struct lane *next_busy;

	/* --- its parts */
	struct call_log *log; /* of the calls: see call_log.h */
	/* The records of its last operations, and who waits: in its slot, or on the heap (page/page.h). */
	struct page_comm *seen;
	struct page_comm *slot; /* in the page of the rank, for other processes; NULL: none */
	struct page *page;      /* with a reference; NULL: the rank has none */
	struct server
		*server; /* see serve/serve.h; NULL: this rank does not show its host's ranks */
	struct page_counts *counts; /* see counts.h; NULL: the option `counters` is off */
	struct counts_own *counts_own;
	struct shrinks *shrinks; /* see shrinks.h */
	struct registration *registrations;
	struct staging_sites
		*staging_sites; /* see staging_sites.h; NULL: no operation was staged */
	int stages_sends; /* a send was staged, which later sends of its group must not overtake */
	struct watch *watch;   /* of the other ranks: see watch/watch.h */
	struct native *native; /* for a backend without a transport (native/native.h); else NULL */
	int native_groups;     /* groups of the backend's own that have not ended yet */
	struct native_split
		*native_split; /* of a derived lane: see native/native_split.h; NULL: none */
	void *native_ep;   /* its endpoint for the backend's own functions; NULL: none, or closed */
	int asks_in_place; /* native_asks_in_place (native/native_slot.h) */
	struct composed *composed;  /* see compose/composed.h */
	struct stream_order *order; /* see compose/stream_order.h; NULL: no call had a stream */
	int stream_waits; /* threads that wait for an event on a stream of the program, behind operations */
	struct messages messages; /* outside the order */
};

/* LANE_RESTS: has operations, and is in context->busy again once a message for them has come (moving.h). */
enum lane_busy { LANE_IDLE, LANE_BUSY, LANE_RESTS };

void lane_list_busy(struct lane *lane);
/* From now on context_progress moves the lane, until nothing is left to move. */
static inline void lane_set_busy(struct lane *lane)
{
	if (lane->busy != LANE_BUSY)
		lane_list_busy(lane);
}
/* Takes it out of context->busy; before: the lane before it there, or NULL.  to: LANE_IDLE or LANE_RESTS. */
void lane_unlist_busy(struct lane *lane, struct lane *before, int to);

/* The lane is freed next: it leaves the list of busy lanes. */
void lane_forget_busy(struct lane *lane);

/* Puts the lane into the context's list, and into the table where lane_of_tag finds it. */
void lane_enlist(struct lane *lane);
/* Takes the lane out of both.  A lane that could not be made is in neither. */
void lane_delist(struct lane *lane);
/* Returns the lane whose messages have this tag, or NULL: the context has none. */
struct lane *lane_of_tag(const struct context *context, uint64_t tag);

/* Memory for comm_rank_name and comm_own_name. */
struct rank_name {
	char text[48];
};

/* Writes the name of the communicator in the files of the option `dump`, the same on all its ranks. */
void comm_write_id(const struct lane *lane, char text[32]);

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
 * Tag: context (bits 63-38) | user (37) | control (36), then for collectives seq (bits 35-20) | message number (19-0),
 * for point to point unordered (35) | pieces (34) | the user's tag (31-0).  Unordered messages (coll_isend) carry the
 * user's tag in meta[1], so that a receive of any tag finds them.  The pieces of a message carry the number of the
 * message on its sender, which the message before them has in meta[0].
 */
enum {
	TAG_CONTEXT_SHIFT = 38,
	TAG_CONTEXT_BITS = 26,
	TAG_SEQ_SHIFT = 20,
	TAG_SEQ_BITS = 16,
	TAG_MSG_BITS = 20
};

#define TAG_USER      ((uint64_t)1 << 37)
#define TAG_UNORDERED ((uint64_t)1 << 35)
#define TAG_PIECES    ((uint64_t)1 << 34)
#define TAG_SEQ_MASK  ((1u << TAG_SEQ_BITS) - 1)
#define TAG_MSG_MASK  ((1u << TAG_MSG_BITS) - 1)

/*
 * Tags carry the sequence number modulo 2^16.  The queue inserts a barrier so that no two ranks are more
 * than a quarter of that apart.
 */
#define TAG_SEQ_APART ((TAG_SEQ_MASK + 1) / 4)

static inline uint64_t tag_collective(const struct lane *lane, uint32_t seq, uint32_t msg)
{
	return (uint64_t)lane->context_id << TAG_CONTEXT_SHIFT |
	       (uint64_t)(seq & TAG_SEQ_MASK) << TAG_SEQ_SHIFT | (msg & TAG_MSG_MASK);
}
uint64_t tag_user(const struct lane *lane, uint32_t tag);
uint64_t tag_unordered(const struct lane *lane);
uint64_t tag_pieces(const struct lane *lane, uint32_t number);
static inline int tag_is_unordered(uint64_t tag)
{
	return (tag & (TAG_USER | TAG_UNORDERED)) == (TAG_USER | TAG_UNORDERED);
}
uint64_t tag_control(uint32_t context_id);
/*
 * For messages about the communicators that the split with number `seq` makes of a parent.  The new
 * communicators take them, also when the parent is gone.
 */
uint64_t tag_birth(uint32_t parent_context_id, uint32_t seq);
int tag_is_birth(uint64_t tag);

/*
 * The communicator fails (the first failure stays): ends the operations of this lane, and tells the other ranks unless
 * they know (`quiet`).  The lock is held.
 */
void comm_fail(struct lane *lane, int quiet, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The part of comm_fail that concerns one lane.  first: the lane that has found the failure. */
void lane_end(struct lane *lane, int first);

/* After the transport has moved: handles control messages and failed peers.  The lock is held. */
static inline void lane_check(struct lane *lane)
{
	lane->client->check(lane);
}

/*
 * Draws an id for a new communicator, which no other rank of the context draws: every rank counts in a
 * space of its own.  UINT32_MAX: all ids are used up.
 */
uint32_t comm_draw_context_id(struct context *context);
/* The ids that each rank of the context can draw: 2^(26 - ceil(log2 nranks)). */
uint32_t comm_most_context_ids(const struct context *context);

/*
 * Notes a failure that lane_check raises: for code that runs inside the transport, which must not be
 * called from there.  By then another rank's message may have told the cause.  The first failure stays.
 */
void lane_set_pending(struct lane *lane, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Sends a control message to all other ranks that have not left.  The lock is held. */
void comm_send_control(struct lane *lane, int kind, int code, const char *text);
/*
 * Without a transport: tells all other ranks that this rank aborts the communicator.  Any thread may call it, also
 * beside one that holds the lock in a call of the backend.
 */
void comm_send_abort(struct lane *lane);
/*
 * Tells all other ranks that this rank has lost one: they may hear of the failure before they notice the loss.  The
 * lock is held.
 */
void comm_send_lost(struct lane *lane, int lost);
/*
 * Tells the ranks of the parent that this rank could not make its communicator of the split with this
 * number: each communicator of that split that contains this rank fails.  The lock is held.
 */
void comm_send_unmade(struct lane *parent, uint32_t seq, int code, const char *text);

/*
 * The same for a new communicator whose context id all know: it fails on each rank of the parent that
 * makes it.  The lock is held.
 */
void comm_refuse(struct lane *parent, uint32_t context_id, int code, const char *text);
/* A communicator was freed: messages with its context id are dropped from now on. */
void comm_note_freed(struct context *context, uint32_t context_id);
int comm_was_freed(const struct context *context, uint32_t context_id);

/* Returns the number in the job of a rank of the communicator. */
int comm_world_rank(const struct lane *lane, int rank);
/*
 * "rank 1", or "rank 1 (world rank 3)" where the communicator numbers the rank in its own way.  COLL_ANY_SOURCE is "any
 * rank"; other ranks' messages may contain any number.
 */
const char *comm_rank_name(const struct lane *lane, int rank, struct rank_name *name);
/* The same of this rank. */
const char *comm_own_name(const struct lane *lane, struct rank_name *name);

/*
 * The backend's own functions, or NULL.  They work on all ranks of an endpoint and in one order, so of the
 * communicators that share an endpoint over a transport only the first uses them, and a communicator that has an
 * endpoint of its own for them.
 */
static inline const coll_native_t *lane_native(const struct lane *lane)
{
	return lane->derived && !lane->native_split ? NULL : lane->context->plugin->backend.native;
}
/* The endpoint for these functions.  NULL: it is closed. */
static inline void *lane_native_ep(const struct lane *lane)
{
	return lane->native_split ? lane->native_ep : lane->context->ep;
}

/* Pins a handle's communicator.  Returns its lane LANE_*, or NULL: the handle is not valid. */
struct lane *comm_pin_lane(coll_comm_t handle, int lane_index);
/*
 * Pins a handle's communicator.  Returns NULL with an error if the handle is not valid; `what` names the public
 * function.
 */
struct comm *comm_pin(coll_comm_t handle, const char *what);
/*
 * The same, and takes the lock of its first lane.  Returns NULL also if another thread has left the library with the
 * lock.
 */
struct lane *comm_enter(coll_comm_t handle, const char *what);
/* The same for its lane LANE_*. */
struct lane *comm_enter_lane(coll_comm_t handle, int lane_index, const char *what);
void comm_leave(struct lane *lane);

/* For comm_enter_here.  The handle is not valid: sets the error and returns NULL. */
void *comm_unknown(coll_comm_t handle, const char *what);
/*
 * Another thread has the lock.  Returns the lane, or NULL, with the pin ended: the thread has kept the lock for longer than any
 * wait lasts.
 */
struct lane *comm_enter_slowly(struct lane *lane);

/*
 * comm_enter_lane and comm_leave as parts of their caller, for the calls that a program makes most often.  comm_enter_here pins by
 * itself, since comm_pin costs 25 instructions (tests/bench/small_calls.t).
 */
static inline struct lane *comm_enter_here(coll_comm_t handle, int lane_index, const char *what)
{
	const struct handle_slot *slot = handle_pin_slot(HANDLE_COMM, handle);
	struct context *context;
	struct lane *lane;

	if (!slot)
		return (struct lane *)comm_unknown(handle, what);
	lane = ((struct comm *)slot->object)->lane[lane_index];
	context = lane->context;
	if (!lock_try(&context->lock))
		return comm_enter_slowly(lane);
	context_entered(context);
	return lane;
}

static inline void comm_leave_here(struct lane *lane)
{
	struct handle_slot *slot = lane->comm->slot;

	lock_release(&lane->context->lock);
	atomic_fetch_sub(&slot->state, 1); /* as handle_unpin, without a search for the slot */
}
/*
 * The error of a thread that could not get the lock: COLL_ERR_TIMEOUT or COLL_ERR_ABORTED.  comm_leave_lost ends the
 * thread's pin too.
 */
int comm_lost(const struct lane *lane);
int comm_leave_lost(const struct lane *lane);
/* Threads with an open group: without one, no call looks for the memory of its thread. */
extern _Atomic int group_threads __attribute__((visibility("hidden")));
uint64_t group_of_thread(void);
/* The number of the group that the calling thread has open, or 0. */
static inline uint64_t group_current(void)
{
	return atomic_load_explicit(&group_threads, memory_order_relaxed) ? group_of_thread() : 0;
}
void group_set_current(uint64_t number);

/* The text of the failure; "" without one. */
static inline const char *comm_failure(const struct lane *lane)
{
	return lane->error ? lane->comm->outcome->text : "";
}
/* The communicator has failed: its error becomes this thread's error, and the program is told. */
int comm_tell_error(const struct lane *lane);
/* Makes the communicator's error this thread's error and returns its code, or 0: the communicator has not failed. */
static inline int comm_error(const struct lane *lane)
{
	return lane->error ? comm_tell_error(lane) : COLL_SUCCESS;
}

#endif
