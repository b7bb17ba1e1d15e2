/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h - one opened backend endpoint (UCX: a worker) as an object: its plugin, its ranks, its host table, the
 * communicators on it (the first communicator, and communicators split from the first), and the lock that serialises their calls.
 *
 * What goes over the endpoint is the matter of the folders to the right: messages, control messages and copies are in a
 * part of theirs that lies behind the struct (transport/traffic.h), and struct context_client calls them.
 */
#ifndef CORE_ENDPOINT_CONTEXT_H
#define CORE_ENDPOINT_CONTEXT_H

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "bootstrap/bootstrap.h"
#include "base/error.h"
#include "observe/observe.h"
#include "plugin/plugin.h"

#include <pthread.h>
#include <stdatomic.h>

struct lane;
struct comm_client;
struct context;
struct context_parts;
struct control_body;
struct selection;

/*
 * What a context needs of the folders right of endpoint/: its messages and its communicators.  The context's lock is
 * held in all functions but the functions of its life.  Only `left` and `closed` block, for a timeout.
 */
struct context_client {
	const struct comm_client *comms; /* of the communicators that are made on the context */
	size_t size; /* of the memory of a context: struct context and the client's part behind it, which begins as zeros */

	/* --- its life: of the client's part.  NULL: there is nothing to do */

	/* The context is made: makes the client's part, and fills the functions of the host table for messages and memory. */
	void (*begin)(struct context *context, const struct context_parts *parts);
	/* The endpoint is open. */
	void (*opened)(struct context *context);
	/* The endpoint is closed next: nobody else uses it from now on. */
	void (*closing)(struct context *context);
	/* The endpoint is closed next, perhaps with communicators on it: closes the endpoints that the backend made from it. */
	void (*close_splits)(struct context *context);
	/* The endpoint is closed: the client closes the endpoints beside it, within timeout_ms. */
	void (*closed)(struct context *context, int64_t timeout_ms);
	/*
	 * The communicator of the context is destroyed, though events may still hold the context: the other ranks learn that
	 * this rank leaves, within timeout_ms.  The caller holds no lock.
	 */
	void (*left)(struct context *context, int64_t timeout_ms);
	/* The context is freed next: frees the client's part. */
	void (*free)(struct context *context);

	/* --- memory */

	/*
	 * Returns the kind of memory at a pointer, a COLL_MEM_* bit, or 0 with a message if nobody can tell.  *device:
	 * where it is.  Called if context->devices is set, without the lock too; NULL: all memory is the host's.
	 */
	uint32_t (*memory_kind)(const void *ptr, int *device);

	/* --- messages */

	/* Takes the messages that have come.  Returns 1 if control messages came or went.  NULL: there are none. */
	int (*take)(struct context *context);
	/* Sends a control message: see context_send_control.  NULL: it goes nowhere. */
	void (*send)(struct context *context, int peer, uint64_t tag,
		     const struct control_body *body, const void *bytes, size_t len);
	/* Are control messages still being sent?  NULL: never. */
	int (*sending)(struct context *context);
	/* Has the control channel beside the endpoint lost that rank?  Any thread may ask, without the lock.  NULL: never. */
	int (*lost)(const struct context *context, int rank);
	/* The communicator of a native context has failed: asks for an abort of the backend.  NULL: nobody does it. */
	void (*failed)(struct context *context);

	/* --- communicators */

	/* A peer has failed, a message did not fit, or control messages have come. */
	void (*check)(struct context *context);
	/*
	 * Does all that context_progress would do now, and returns 1.  Or does nothing, and returns 0: context_progress
	 * is to be called.
	 */
	int (*poll)(struct context *context);
	/* Moves operations on.  Returns 1 if anything moved. */
	int (*advance)(struct context *context);
	/* Before a thread sleeps: moves on what the last advance may have left.  Returns 1 if anything moved. */
	int (*look)(struct context *context);
	/* The endpoint was closed early: every operation on it has failed. */
	void (*shut)(struct context *context);
	/* Does an operation wait for another context, or for a device, whose progress no descriptor signals? */
	int (*awaits)(const struct context *context);
	/* When is the client to be called although nothing moves, by clock_now_us?  INT64_MAX: at no time. */
	int64_t (*due)(const struct context *context);
	/* Does a backend without a transport have operations in flight? */
	int (*busy)(const struct context *context);
	/* Such a backend moves only when it is polled, and has none in flight: polls it for the sake of other ranks. */
	void (*rest)(struct context *context);
};

/* Slots of a hash table of the communicators of a context. */
enum { CONTEXT_COMMS_BITS = 10 };

/* Ids of freed communicators are bits in CONTEXT_FREED pieces, each allocated when first needed. */
enum { CONTEXT_FREED_PIECE = 1 << 15, CONTEXT_FREED = 1 << 11 };

/* What the watcher (transport/watcher.c) tells a native context about the other ranks. */
struct failure_notice {
	_Atomic int
		code; /* COLL_ERR_PEER_LOST once a rank of the context is lost, else 0; `text` is written before it */
	_Atomic int
		news; /* ranks were lost, or control messages have come, since the last context_progress */
	_Atomic int ended; /* ranks are lost, or a message has come that ends the communicator */
	char text[512];
	_Atomic int aborted; /* then the watcher has aborted the backend */
	int64_t tell_us; /* if a call holds the lock until then, the watcher logs the reason; 0: nothing to log */
};

/* context_derive_open runs.  A shrink may follow a failure of the parent, which ends a split. */
enum context_deriving { CONTEXT_SPLITS = 1, CONTEXT_SHRINKS = 2 };

struct crowd;

/* How a context waits: of wait.c, context_lock.c and progress.c, but for the options, which context.c reads. */
struct context_waits {
	int64_t poll_us, yield_us; /* the options: so long a wait polls, and then yields */
	int yields_anyway;         /* the user has set the option `yield` */
	int64_t polls_us; /* how long a wait polls now: poll_us, or less on a processor that ranks share */
	/* Another program keeps the processor: waits sleep instead of yielding, until then, and for so long. */
	int64_t crowded_until_us, crowded_for_us;
	struct crowd *crowd; /* crowd.c; NULL before its first look */
	int crowd_looks;     /* before so many yields crowd_begin is to be called */
	int64_t rested_us,
		rested_at_us;       /* idle_us with the waits right before it, and when it ended */
	int wake_fd;                /* an eventfd, written to end the sleeps of all threads */
	int wakes_in_vain;          /* since the last time that wake_fd was drained */
	_Atomic int lock_waiters;   /* threads that wait for the lock */
	_Atomic int yields_in_vain; /* times that no thread has taken the lock although one waits */
};

/* The plugin's open, split or shrink of a context; of context.c and host.c alone. */
struct context_opening {
	_Atomic int runs; /* the function runs, on this thread */
	pthread_t thread;
	_Atomic int given_up; /* while it ran, the plugin was told that another rank has failed */
	const struct context_making *making; /* of a split or shrink; else NULL */
	_Atomic int deriving;                /* enum context_deriving: the loss of a rank ends it */
	_Atomic int constructing; /* not open yet: an abort of its parent aborts it too */
};

struct context {
	struct lock lock;
	const struct context_client *client;
	_Atomic int refs;
	struct context *parent; /* this context was split from it and uses its config; or NULL */

	/* --- the endpoint */
	const struct plugin *plugin;
	struct plugin_list *plugins; /* NULL if it has a parent */
	struct config *config;
	struct bootstrap *bootstrap;
	coll_host_t host;
	void *ep; /* the endpoint; NULL once closed */
	struct context_opening opening;
	int32_t device;    /* the device of the endpoint, or the device asked for; -1: none */
	int device_named;  /* the program has chosen the device */
	uint32_t memory;   /* kinds that the endpoint takes: COLL_MEM_* bits */
	int devices;       /* there is a CUDA driver: a buffer may be device memory */
	int classify;      /* the memory kinds of buffers must be looked up */
	int fallback;      /* the option: buffers that the endpoint does not take are staged */
	int check_buffers; /* the option */
	int memory_told;   /* 1: the user knows that coll_mem_alloc gives ordinary memory */

	/* --- its ranks */
	int rank, nranks;
	int *node;     /* per rank: number of its node */
	int node_size; /* ranks of a node; 0: all ranks of a host */
	int *origin; /* per rank: its rank in the communicator that coll_comm_init_* made; NULL: the same */
	uint8_t *shares;           /* per rank: the same as host.shares */
	int cpus;                  /* CPUS_* of rank 0's host */
	int oversubscribed;        /* this host has more ranks than processors */
	char **failure;            /* per rank: why it cannot be reached any more, or NULL */
	int refused;               /* a rank whose message was refused for lack of memory, or -1 */
	uint64_t refused_len;      /* bytes of that message */
	struct error_first remote; /* the failure of a rank that ended its plugin's exchanges */
	int told_failure; /* this rank's plugin has passed a failure to host->exchange_fail */

	/* --- driving it */
	struct context_waits waits;
	int64_t timeout_us, stall_us; /* options */
	int sleepers;                 /* threads that sleep on this context */
	int sleepers_have_news;       /* an operation is complete, or a communicator has failed */
	uint64_t progress_count;      /* counts the calls, of any thread, that moved anything */
	uint64_t control_count; /* of these, the calls in which control messages came or went */
	int64_t idle_us;   /* the last context_wait timed out when nothing had moved for so long */
	int64_t now_us;    /* see context_now */
	int now_is_recent; /* now_us was read in this call, or in this round of a wait */
	uint32_t
		observed; /* the events that an observer wants, COLL_OBSERVE_*; 0 unless the user names observers */
	int unflushed;      /* the endpoint may keep messages back: see context_flush */
	int pending_events; /* a peer has failed or a message did not match: see context_progress */
	_Atomic uintptr_t
		progress_owner; /* the thread that last entered: it drives this context while it waits for another context */
	struct {
		pthread_t thread; /* the library's own thread, if it was started */
		int started;
		_Atomic int stop; /* tells the thread to end */
	} progress;

	/* --- its observers: see observe/observe.h */
	struct observers *
		observers; /* of the first of the contexts that are made from one another; or NULL */

	/* --- its end */
	_Atomic int aborted;
	_Atomic int
		lost; /* nobody gives the lock back: waits for it are short, until a thread gets it */
	_Atomic int
		abandoned; /* a lost thread may still use the context, so that it is never freed */

	/* --- the lanes of its communicators: see comm/comm.h */
	struct lane *lanes;
	struct lane *lane_of_id[1 << CONTEXT_COMMS_BITS]; /* the first of each slot */
	/* Lanes whose operations may move, and some lanes whose operations ended last. */
	struct lane *busy, *last_busy;
	int resting;                   /* lanes whose operations only wait for messages */
	int split_may_block;           /* a split is under way that may block in the backend */
	uint32_t next_context_id;      /* counts the ids drawn here: see comm_draw_context_id */
	uint8_t *freed[CONTEXT_FREED]; /* a bit for each context id: see comm_note_freed */

	/* --- other contexts */
	/*
	 * Of a native context: the context for host memory beside it (transport/channel.h), which other threads read.
	 * NULL: none.
	 */
	struct context *_Atomic host_context;
	/*
	 * The context of the other lane, if the thread that holds this context's lock holds that context's lock too and
	 * drives it (lane_drive).  NULL: none.
	 */
	struct context *driven_with;
	struct failure_notice notice;
	struct context *next; /* in the list of all contexts */
};

/* The arguments of context_open: the objects that the new context takes over. */
struct context_parts {
	const struct context_client *client;
	struct bootstrap *bootstrap;
	struct config *config;
	struct plugin_list *plugins;
	const struct plugin *plugin;
	struct selection *
		selection; /* of algorithms; NULL for a derived context, which has its parent's selection */
	int node_size; /* ranks of a node; 0: all ranks of a host */
	int device;
	int device_named; /* the program has chosen it */
};
/*
 * Makes all but the endpoint.  The context takes over bootstrap, config and plugins.  After an error
 * *context is to be released, or it is NULL and the parts still belong to the caller.
 */
int context_make(struct context **context, const struct context_parts *parts);
/* Opens the plugin's endpoint; collective.  On an error the context is to be released. */
int context_open(struct context *context);
/*
 * Collective: `code` is the result of context_make or context_open on this rank, with error_text().
 * Returns COLL_SUCCESS, or the same failure on every rank.  *context may be NULL.
 */
int context_all_ok(const struct context *context, struct bootstrap *bootstrap, int code,
		   int64_t timeout_ms);
/* Opens the endpoints of all n ranks at once, in rank order, if the backend has open_all. */
int context_open_all(struct context *const *contexts, int n);
/*
 * Without a transport each communicator has a context of its own, and a context made from another context holds a
 * reference to it.  context_derive takes over bootstrap, also when it fails, and makes all but the endpoint.  On an
 * error *context is NULL or to be released.  context_derive_open is collective and makes the endpoint, with the parent's
 * lock held.
 */
struct context_making {
	int32_t color, key;
	const int32_t *exclude; /* for a shrink, else NULL */
	int32_t n;
	/* For a shrink: the host lane over which the backend's open exchanges, or NULL; the parent's aborts before it. */
	struct lane *over;
	int aborted;
	/*
	 * Has another rank failed, so that the backend's function will not end?  The thread of context_derive_open calls it
	 * while it waits in that function.
	 */
	int (*failed)(void *user);
	void *user;
};
int context_derive(struct context **context, struct context *parent, struct bootstrap *bootstrap);
int context_derive_open(struct context *context, const struct context_making *making);
/* The part of a rank that gets no communicator in the split of this context. */
int context_split_nothing(struct context *context, const struct context_making *making);
/*
 * Frees a context whose open has failed on some rank, or that another context's client has opened.  The bootstrap, the
 * plugins and the configuration go back to the caller, who may open another backend with them.
 */
void context_withdraw(struct context *context, int64_t timeout_ms);

/*
 * Communicators and events hold references; the last unref closes the endpoint, and the endpoints beside it, within timeout_ms.
 */
void context_ref(struct context *context);
void context_unref(struct context *context, int64_t timeout_ms);
/*
 * Opens the observers that the user names, for the first communicator of a context that is not made from another.  The
 * context is open, and its lock is not held.
 */
void context_observe(struct context *context);
/* A context that is made from another shares its observers. */
void context_inherit_observers(struct context *context, const struct context *parent);
/* The same number on all ranks of the context, another number for other contexts; the job's key cannot be found from it. */
uint64_t context_number(const struct context *context);
/* Returns the context from which this one was made, directly or through others; itself if it was made from none. */
const struct context *context_first(const struct context *context);
/* The number of that context. */
uint64_t context_job(const struct context *context);
/* Writes one line about the endpoint's connections, in the words of its backend; "": nothing.  The lock is held. */
void context_describe(const struct context *context, char *text, size_t size);
/* Ends the endpoint at once, failing every communicator on it.  The lock is held. */
void context_shut(struct context *context);

/* Takes the lock; waiting threads and the progress thread yield it. */
void context_lock_slowly(struct context *context);
static inline void context_lock(struct context *context)
{
	if (!lock_try(&context->lock))
		context_lock_slowly(context);
}
/* The same, but returns 0 if the lock is not free within timeout_ms. */
int context_lock_within(struct context *context, int64_t timeout_ms);
/*
 * The same with a limit that only a thread exceeds which computes in a function of the program, or has left the library by a
 * jump or its own end.  Ends early if `lost` is set; a caller that has waited for long sets it then.
 */
int context_await_lock(struct context *context, int64_t patience_us);
/* Notes that the calling thread, which has just taken the lock, drives this context. */
static inline void context_entered(struct context *context)
{
	context->now_is_recent = 0;
	atomic_store_explicit(&context->progress_owner, THREAD_NUMBER, memory_order_relaxed);
}

/* Takes the lock, as context_lock and context_entered do. */
static inline void context_enter(struct context *context)
{
	context_lock(context);
	context_entered(context);
}

static inline void context_leave(struct context *context)
{
	lock_release(&context->lock);
}

/*
 * The time for the record of an operation: monotonic, and at most a tick of the kernel old.  The clock is
 * read once a call or once in a few rounds of a wait.
 */
static inline int64_t context_now(struct context *context)
{
	if (!context->now_is_recent) {
		int64_t now = clock_tick_us();

		if (now > context->now_us)
			context->now_us = now;
		context->now_is_recent = 1;
	}
	return context->now_us;
}

/*
 * Counts what moves operations.  Control messages do not: the questions of two ranks that wait for a third would
 * else keep both waiting for ever.
 */
static inline uint64_t context_moves(const struct context *context)
{
	return context->progress_count - context->control_count;
}

/* Starts a message, which the endpoint may keep back until context_flush.  The lock is held. */
int context_send_more(struct context *context, coll_send_t *send, coll_error_t *err);
/*
 * Starts the messages that the endpoint keeps back.  Returns 1 if there may have been some.  The lock is held.  A
 * caller of context_send_more calls it before the lock is given up, and before it computes for long.
 */
static inline int context_flush(struct context *context)
{
	if (!context->unflushed)
		return 0;
	context->unflushed = 0;
	if (context->ep)
		context->plugin->backend.transport->flush(context->ep);
	return 1;
}

/* Moves messages and operations without blocking.  Returns 1 if any moved.  The lock is held. */
int context_progress(struct context *context);
/*
 * Is the backend one without a transport that moves only when it is polled?  Data of operations that are complete on this
 * rank may still have to go to other ranks, so waits poll it also when it has nothing in flight.
 */
static inline int context_rests(const struct context *context)
{
	const coll_backend_t *b = &context->plugin->backend;

	return b->flags & COLL_BACKEND_POLL && !b->transport;
}
/* Forgets that client->check is due.  Returns 1 if it was.  The lock is held. */
int context_take_news(struct context *context);
/* Has the communicators take their control messages, and look for lost ranks.  The lock is held. */
static inline void context_check(struct context *context)
{
	context->client->check(context);
}
/* Wakes every thread that sleeps on the context.  Any thread may call it, with or without the lock. */
void context_wake(struct context *context);
/* The same, and the next context_progress calls client->check. */
void context_notify(struct context *context);

/*
 * Waits until done(arg) is non-zero: polls, then yields, then sleeps, driving all contexts of this thread.  Returns
 * COLL_SUCCESS, or COLL_ERR_TIMEOUT (no text) after timeout_us, whatever has moved meanwhile; sets context->idle_us
 * then.  The lock is held, and given up while yielding and sleeping.
 *
 * context_wait_or_leave is for callers that can leave amid the wait.  The thread may be cancelled while it sleeps: see
 * wait_is_cancelled.  It returns CONTEXT_LOST if the lock, which the caller does not hold any more, is not free after
 * patience_us, since another thread has left the library with it.
 */
enum { CONTEXT_LOST = -1 };
int context_wait_or_leave(struct context *context, int (*done)(void *arg), void *arg,
			  int64_t timeout_us, int64_t patience_us);
static inline int context_wait(struct context *context, int (*done)(void *arg), void *arg,
			       int64_t timeout_us)
{
	return context_wait_or_leave(context, done, arg, timeout_us, 0);
}

/*
 * Is the calling thread being cancelled, in the sleep of a context_wait_or_leave?  For functions that attribute cleanup
 * calls while the thread leaves: it holds the lock.
 */
int wait_is_cancelled(void);

/*
 * Does the calling thread, inside of context_wait or wait_help for this context, drive another context?  It holds the
 * locks of both then.
 */
int wait_holds(const struct context *context);

/*
 * The thread waits inside the backend, in a slot of a context without a transport: drives its other contexts, for which
 * other ranks may wait before they come to the same call.
 */
void wait_help(struct context *context);

/* CPUS_* of the host of a rank: the same on all ranks. */
int context_cpus(const struct context *context, int rank);
/* With `progress = thread`: a thread that drives this context until context_unref. */
int wait_thread_start(struct context *context);
/* The same without that option, if the context has no such thread yet. */
int wait_thread_need(struct context *context);
void wait_thread_stop(struct context *context);

/* The list of contexts (wait_list.c). */
void wait_add(struct context *context);
/* Returns 0 if a thread has left the library with the list, so that the context must not be freed. */
int wait_remove(struct context *context);
/* No thread drives the context any more, which is never freed. */
void wait_abandon(struct context *context);
/* Prepares for forks of this process: the child closes the contexts' descriptors.  Cheap when called again. */
void wait_watch_forks(void);

/* The payload of a control message. */
struct control_body {
	int32_t kind; /* CONTROL_* */
	int32_t code;
	char text[];
};

/*
 * Sends a control message of `kind` with this tag to a peer.  The text is copied, and the call does not
 * block.  The lock is held.  Without a transport the message goes over the control channel (transport/channel.c), or
 * nowhere.
 */
void context_send_control(struct context *context, int peer, uint64_t tag, int kind, int code,
			  const char *text);
/* The same with a struct instead of a text. */
void context_send_struct(struct context *context, int peer, uint64_t tag, int kind,
			 const void *bytes, size_t len);
/* The kind of memory at a pointer: see context_client.memory_kind. */
static inline uint32_t context_memory_kind(const struct context *context, const void *ptr,
					   int *device)
{
	*device = -1;
	return context->devices ? context->client->memory_kind(ptr, device) : COLL_MEM_HOST;
}

/* Are control messages of the context still being sent? */
static inline int context_controls_pending(struct context *context)
{
	return context->client->sending && context->client->sending(context);
}
/* Has the control channel beside the endpoint lost that rank? */
static inline int context_has_lost(const struct context *context, int rank)
{
	return context->client->lost && context->client->lost(context, rank);
}
/* See context_client.left. */
static inline void context_left(struct context *context, int64_t timeout_ms)
{
	if (context->client->left)
		context->client->left(context, timeout_ms);
}
/*
 * The communicator of a native context has failed for a reason that did not come over the control channel: asks for an abort
 * of the backend, and has the next context_progress call client->check.
 */
void context_failed(struct context *context);

/* In context.failure for a cause that there was no memory for; it is not freed. */
extern char host_no_cause[];

/* Fills the host table for an endpoint (host.c), but the functions of context_client.begin. */
void host_fill(struct context *context, int device);
/*
 * Returns `code` of the plugin's open; COLL_ERR_REMOTE in place of COLL_ERR_ABORTED if nobody has aborted this rank and
 * host->aborted() told the plugin of another rank's failure.
 */
int host_open_code(const struct context *context, int code);
/* The code for the other ranks: BOOTSTRAP_REMOTE if the plugin itself has said COLL_ERR_REMOTE. */
int host_told_code(const struct context *context, int code);

#endif
