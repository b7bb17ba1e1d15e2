/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h - one opened backend endpoint and what belongs to it: the communicators on it (the first
 * and those split from it), the messages on their way, the lock that serialises all of it.
 */
#ifndef CORE_TRANSPORT_CONTEXT_H
#define CORE_TRANSPORT_CONTEXT_H

#include "bootstrap/bootstrap.h"
#include "algorithm/selection.h"
#include "transport/match.h"
#include "plugin/plugin.h"

#include <pthread.h>
#include <stdatomic.h>

struct comm;
struct lane;
struct link;
struct notice;

/*
 * What a link tells the layer above, which owns the operations.  The link's lock is held in all of
 * these, and none of them blocks.
 */
struct link_client {
	/* A posted receive has completed. */
	void (*received)(struct recv *recv);
	/* Copies n bytes to where a receive wants them, in memory of a device. */
	int (*fill)(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
	/* A message came that no receive waits for: 0 to keep it, 1 to drop it. */
	int (*unexpected)(struct link *link, uint32_t peer, const coll_header_t *header);
	/*
	 * There is no memory to keep a message that came before its receive: 0 drops its payload, a
	 * code refuses the message.
	 */
	int (*no_memory)(struct link *link, uint32_t peer, const coll_header_t *header);
	/* A message came that does not fit the receive which waits for it. */
	void (*mismatch)(struct link *link, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header);
	/* Control messages have come, a peer was lost, or a message did not fit. */
	void (*check)(struct link *link);
	/* Moves operations on: 1 if anything moved. */
	int (*advance)(struct link *link);
	/* The endpoint was closed early: every operation on it has failed. */
	void (*shut)(struct link *link);
	/* Does an operation wait for another link, which no descriptor tells of? */
	int (*awaits)(const struct link *link);
	/* Are operations in the hands of a backend without a transport? */
	int (*busy)(const struct link *link);
};

/* Contexts of freed communicators are noted in pieces of so many, made when needed. */
enum { LINK_FREED_PIECE = 1 << 15, LINK_FREED = 1 << 11 };

struct link {
	pthread_mutex_t lock;
	const struct link_client *client;
	_Atomic int refs;
	struct link *parent; /* from which it was split, and whose conf it uses; or NULL */
	const struct plugin *plugin;
	struct plugin_list *plugins; /* NULL if it has a parent */
	struct conf *conf;
	struct boot *boot;
	coll_host_t host;
	void *ep; /* NULL once closed */
	int rank, nranks;
	int wake_fd;           /* written to end the sleeps of all threads */
	int sleepers;          /* threads that sleep on this link */
	int news_for_sleepers; /* an operation is done, or a communicator has failed */
	uint64_t moves;        /* how often anything moved, whichever thread moved it */
	pthread_t thread;      /* the library's own, if `served` */
	int served;
	_Atomic int wanted; /* threads that wait for the lock */
	_Atomic int stop;   /* tells the thread to end */
	_Atomic int aborted;
	_Atomic int unborn;       /* being made: an abort of its parent is one of it */
	_Atomic uintptr_t driver; /* the thread that last called in */
	int64_t poll_us, yield_us, timeout_us;
	struct tuning tuning; /* rank 0's */
	struct match match;
	struct comm *comms;
	uint32_t next_context;      /* counts the communicators drawn here: see comm_draw_context */
	int32_t device;             /* that the endpoint is on, or was asked for; or -1 */
	uint32_t memory;            /* kinds that the endpoint takes: COLL_MEM_* bits */
	int devices;                /* there is a driver: memory may be a device's */
	int classify;               /* buffers must be looked at before they are used */
	int fallback;               /* what the endpoint does not take is staged */
	struct lane *lanes;         /* to and from devices */
	int ferried;                /* copies under way on them */
	uint8_t *freed[LINK_FREED]; /* a bit for each context: see comm_note_freed */
	int *node;                  /* per rank: number of its node */
	struct notice *notices;     /* control messages being sent */
	char **lost;                /* per rank: why it can no longer be reached, or NULL */
	int refused;                /* a rank whose message was refused for lack of memory, or -1 */
	uint64_t refused_len;       /* bytes of that message */
	int news;                   /* a peer was lost or a message mismatched: see link_progress */
	struct link *next;          /* in the list of all links */
};

/* What a link is made of. */
struct link_parts {
	const struct link_client *client;
	struct boot *boot;
	struct conf *conf;
	struct plugin_list *plugins;
	const struct plugin *plugin;
	struct tuning tuning;
	int device;
};
/*
 * All but the endpoint.  Takes over boot, conf and plugins, also when it fails; then *link is NULL or
 * to be released.
 */
int link_make(struct link **link, const struct link_parts *parts);
/* Opens the plugin's endpoint; collective.  On an error the link is to be released. */
int link_open(struct link *link);
/* Those of all n ranks at once, in rank order, where the backend has open_all. */
int link_open_all(struct link *const *links, int n);
/*
 * Without a transport each communicator has a link of its own, and one made from another's holds
 * that.  The first takes over boot, also when it fails, and makes all but the endpoint; the second
 * is collective and makes the endpoint, with the parent's lock held.  On an error *link is NULL or
 * to be released.
 */
struct link_making {
	int32_t color, key;
	const int32_t *exclude; /* for shrink, else NULL */
	int32_t n;
};
int link_derive(struct link **link, struct link *parent, struct boot *boot);
int link_derive_open(struct link *link, const struct link_making *making);
/* Counts the communicators and events on it; the last one closes the endpoint within timeout_ms. */
void link_hold(struct link *link);
void link_release(struct link *link, int64_t timeout_ms);
/* Ends the endpoint at once, failing every communicator on it.  The lock is held. */
void link_shut(struct link *link);

/* Takes the lock; whoever waits or serves with it gives way. */
void link_lock(struct link *link);
/* The same, but 0 if it is not to be had in so many whole seconds' time. */
int link_lock_within(struct link *link, int64_t timeout_ms);
/* The same, and notes that the calling thread drives this link. */
void link_enter(struct link *link);
void link_leave(struct link *link);

/* Moves what can be moved; 1 if anything did.  The lock is held. */
int link_progress(struct link *link);
/* Ends the sleep of whoever waits on the link.  Any thread, lock or not. */
void link_wake(struct link *link);

/*
 * Waits until done(arg) is non-zero: polls, then yields, then sleeps, driving all links of this
 * thread.  COLL_SUCCESS, or COLL_ERR_TIMEOUT (no text) if nothing moved for timeout_us.  The lock
 * is held, and given up while yielding and sleeping.
 */
int link_wait(struct link *link, int (*done)(void *arg), void *arg, int64_t timeout_us);

/* With `progress = thread`: a thread that drives this link until link_release. */
int wait_serve(struct link *link);
void wait_serve_end(struct link *link);
/* After something was issued: a sleeping thread must look again at what it sleeps for. */
void link_kick(struct link *link);

/* Which links this thread drives while it waits (wait.c). */
void wait_add(struct link *link);
void wait_remove(struct link *link);
void wait_drive(struct link *link);
/* Around fork: the list is locked across it; in the child the links' descriptors are closed. */
void wait_fork_lock(void);
void wait_fork_unlock(void);
void wait_forked(void);

/* The payload of a control message. */
struct notice_body {
	int32_t kind; /* NOTICE_* */
	int32_t code;
	char text[];
};

/*
 * Sends a control message of `kind` with this tag to a peer: text is copied, nothing waits for it.
 * The lock is held.
 */
void link_notify(struct link *link, int peer, uint64_t tag, int kind, int code, const char *text);
/* Are control messages still being sent? */
int link_notices_pending(struct link *link);

/* Microseconds of the monotonic clock. */
int64_t link_now(void);

/* Fills the host table for an endpoint (host.c). */
void host_fill(struct link *link, int device);

#endif
