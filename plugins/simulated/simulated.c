/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulated - all ranks of a communicator in one process, without sockets or files.  A sender puts a pointer
 * to its message into the receiver's inbox, and the receiver copies straight from the sender's buffer.
 * Tests, debugging and processes with several devices use this backend.
 *
 * Copy this folder for a backend of your own.  It has open and close, which find the other ranks; send
 * and progress; a descriptor to sleep on; and the table at the end.
 */
#include <coll/backend.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	SIM_BUDGET = 8 << 20, /* bytes that a progress() copies: about a millisecond */
	SIM_EAGER_MAX = 1024, /* the sender copies messages of at most this many bytes */
	/* Bytes after which a copy of a longer message shows that it goes on; a reduction may be a slow function. */
	SIM_PIECE = 1 << 20,
	SIM_REDUCED = 64 << 10,
	SIM_GONE_MS = 900, /* after so long without a piece the thread of a copy counts as gone */
	/* A thread that keeps the lock of a box for so many waits counts as gone; it needs the lock for moments. */
	SIM_LOCK_WAITS = 9,
	SIM_LOCK_MS = 100
};

/* A queue of sends, linked through send->plugin[SIM_NEXT]. */
struct sim_queue {
	coll_send_t *first, *last;
};

/* The part of a rank that other ranks may use.  It is freed with the group. */
struct sim_box {
	pthread_mutex_t lock;
	struct sim_queue inbox; /* messages to this rank */
	struct sim_queue done;  /* sends of this rank that a receiver has finished */
	_Atomic int filled; /* 1: a queue has a message; the owner reads this without the lock */
	/* The message in another rank's memory that this rank is copying; never dereferenced. */
	const coll_send_t *current;
	uint32_t current_from;   /* the rank of `current` */
	_Atomic uint32_t pieces; /* copied pieces: the number changes while a copy goes on */
	int asleep;              /* 1: the rank sleeps on the descriptor */
	int event_fd;
	int closed;
	_Atomic int broken; /* 1: a thread has left the library with the lock */
};

/* The memory that all ranks of a communicator share; the last rank that refers to it frees it. */
struct sim_group {
	struct sim_group *next; /* in the list of all groups of this process */
	uint64_t number;        /* unique in the process */
	int refs;               /* ranks that refer to the group */
	_Atomic int
		close_count; /* ranks that have closed; a new value makes ranks look at the boxes */
	uint32_t nranks;
	struct sim_box box[];
};

struct sim_ep {
	const coll_host_t *host;
	struct sim_group *group;
	struct sim_box *box;
	int close_count_seen;
	int has_closed_peers; /* 1: an entry of `closed` is SIM_CLOSED */
	uint8_t *closed;      /* the state of each rank */
};

/* The state of another rank: open, known to have closed, reported to the core as lost. */
enum { SIM_OPEN, SIM_CLOSED, SIM_REPORTED };

/* ------------------------------------------------------------------- boxes -- */

/* Notes that this thread has the lock: so a thread that kept it for too long has come back. */
static int sim_locked(struct sim_box *box)
{
	if (atomic_load_explicit(&box->broken, memory_order_relaxed))
		atomic_store(&box->broken, 0);
	return 1;
}

/*
 * Takes the lock of a box and returns 1, or returns 0 if the box is broken.  Waits several short times, since a debugger
 * that stops all threads may use up one wait.
 */
static int sim_lock(struct sim_box *box)
{
	struct timespec until;

	if (!pthread_mutex_trylock(&box->lock))
		return sim_locked(box);
	for (int i = 0; i < SIM_LOCK_WAITS && !atomic_load(&box->broken); i++) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += SIM_LOCK_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (!pthread_mutex_timedlock(&box->lock, &until))
			return sim_locked(box);
	}
	atomic_store(&box->broken, 1);
	return 0;
}

static void sim_unlock(struct sim_box *box)
{
	pthread_mutex_unlock(&box->lock);
}

/* ------------------------------------------------------------------ queues -- */

/* Indices of send->plugin. */
enum { SIM_NEXT, SIM_FROM, SIM_FAILED, SIM_EAGER };

static void sim_push(struct sim_queue *q, coll_send_t *send)
{
	send->plugin[SIM_NEXT] = 0;
	if (q->last)
		q->last->plugin[SIM_NEXT] = (uintptr_t)send;
	else
		q->first = send;
	q->last = send;
}

static coll_send_t *sim_pop(struct sim_queue *q)
{
	coll_send_t *send = q->first;

	if (!send)
		return NULL;
	q->first = (coll_send_t *)(uintptr_t)send->plugin[SIM_NEXT];
	if (!q->first)
		q->last = NULL;
	return send;
}

/*
 * Takes `victim` out of the queue, or, if it is NULL, every message that lies in memory of rank `from`'s core.  Returns 1
 * if it took out a message.
 */
static int sim_remove(struct sim_queue *q, const coll_send_t *victim, uint32_t from)
{
	struct sim_queue rest = {NULL, NULL};
	coll_send_t *send;
	int removed = 0;

	while ((send = sim_pop(q))) {
		int match = victim ? send == victim
				   : send->plugin[SIM_FROM] == from && !send->plugin[SIM_EAGER];

		removed |= match;
		if (!match)
			sim_push(&rest, send);
	}
	*q = rest;
	return removed;
}

/*
 * Wakes the owner of a box.  The caller has the lock, which a thread would keep if pthread_cancel ended it in the system
 * call.
 */
static void sim_wake(struct sim_box *box)
{
	uint64_t one = 1;
	int cancels;

	if (!box->asleep)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	if (write(box->event_fd, &one, sizeof(one)) == sizeof(one))
		box->asleep = 0;
	pthread_setcancelstate(cancels, NULL);
}

/* ------------------------------------------------------------------ sending -- */

/* Copies a short message, so that its sender need not wait for the receiver. */
static coll_send_t *sim_copy(coll_send_t *send)
{
	coll_send_t *copy = malloc(sizeof(*copy) + send->header.len);

	if (!copy)
		return send;
	*copy = *send;
	copy->buf = copy + 1;
	copy->plugin[SIM_EAGER] = 1;
	if (send->header.len)
		memcpy(copy + 1, send->buf, send->header.len);
	send->status = COLL_SUCCESS;
	return copy;
}

/* Puts the message into the inbox of its receiver.  Returns 0 if the receiver has closed. */
static int sim_deliver(struct sim_ep *ep, struct sim_box *to, coll_send_t *send)
{
	int closed;

	if (!sim_lock(to))
		return 0;
	closed = to->closed || ep->closed[send->peer] == SIM_REPORTED;
	if (!closed) {
		atomic_store_explicit(&to->filled, 1, memory_order_relaxed);
		sim_push(&to->inbox, send->header.len <= SIM_EAGER_MAX ? sim_copy(send) : send);
		sim_wake(to);
	}
	sim_unlock(to);
	return !closed;
}

static int32_t sim_send(void *ep_, coll_send_t *send, coll_error_t *err)
{
	struct sim_ep *ep = ep_;

	send->plugin[SIM_FROM] = ep->host->rank;
	if (sim_deliver(ep, &ep->group->box[send->peer], send))
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text),
		 "rank %u has closed its endpoint, or sent an invalid message before",
		 (unsigned)send->peer);
	return err->code = COLL_ERR_PEER_LOST;
}

/* Does rank `to` copy from `victim` (NULL: from any message of this rank)?  gone: 1 ends a copy whose thread is gone. */
static int sim_is_copied(const struct sim_ep *ep, struct sim_box *to, const coll_send_t *victim,
			 int gone)
{
	int busy;

	if (!sim_lock(to))
		return 0;
	busy = to->current && (victim ? to->current == victim : to->current_from == ep->host->rank);
	if (busy && gone)
		to->current = NULL;
	sim_unlock(to);
	return busy && !gone;
}

/*
 * Waits until rank `to` no longer copies from `victim` (NULL: from any message of this rank).  Does not wait for a thread
 * that has left the library in the midst of a copy, by a jump out of a signal's handler or by its own end.
 */
static void sim_wait_copied(struct sim_ep *ep, struct sim_box *to, const coll_send_t *victim)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	uint32_t pieces = atomic_load(&to->pieces);
	int cancels, naps = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	while (sim_is_copied(ep, to, victim, naps > SIM_GONE_MS)) {
		if (pieces != atomic_load(&to->pieces))
			naps = 0;
		pieces = atomic_load(&to->pieces);
		if (naps++)
			nanosleep(&ms, NULL);
		else
			sched_yield();
	}
	pthread_setcancelstate(cancels, NULL);
}

/* Takes `victim` out of a queue of the box, as sim_remove. */
static int sim_remove_from(struct sim_box *box, struct sim_queue *q, const coll_send_t *victim,
			   uint32_t from)
{
	int removed;

	if (!sim_lock(box))
		return 0;
	removed = sim_remove(q, victim, from);
	sim_unlock(box);
	return removed;
}

static void sim_cancel(void *ep_, coll_send_t *send)
{
	struct sim_ep *ep = ep_;
	struct sim_box *to = &ep->group->box[send->peer];

	sim_remove_from(to, &to->inbox, send, 0);
	sim_wait_copied(ep, to, send);
	sim_remove_from(ep->box, &ep->box->done, send, 0);
}

/* There is no partly received message to drop: one progress() copies a whole message. */
static void sim_drop(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

/* ---------------------------------------------------------------- receiving -- */

/*
 * Takes the first message out of the inbox of a box; the caller has its lock.  If the message lies in the memory of its
 * sender, the sender's cancel and close wait until sim_return_send.
 */
static coll_send_t *sim_take(struct sim_box *box)
{
	coll_send_t *send = sim_pop(&box->inbox);

	if (send && !send->plugin[SIM_EAGER]) {
		box->current = send;
		box->current_from = (uint32_t)send->plugin[SIM_FROM];
	}
	return send;
}

/* Is `send` still the message that its sender waits for? */
static int sim_is_current(struct sim_box *box, const coll_send_t *send)
{
	int is;

	if (!sim_lock(box))
		return 0;
	is = box->current == send;
	sim_unlock(box);
	return is;
}

/* Returns a message to its sender, unless the sender has given it up meanwhile and reused the memory. */
static void sim_return_send(struct sim_ep *ep, coll_send_t *send, int failed)
{
	struct sim_box *sender = &ep->group->box[ep->box->current_from];

	atomic_fetch_add(&ep->box->pieces, 1);
	if (!sim_is_current(ep->box, send))
		return;
	if (sim_lock(sender)) {
		send->plugin[SIM_FAILED] = (uint64_t)failed;
		sim_push(&sender->done, send);
		atomic_store_explicit(&sender->filled, 1, memory_order_relaxed);
		sim_wake(sender);
		sim_unlock(sender);
	}
	if (sim_lock(ep->box)) {
		ep->box->current = NULL;
		sim_unlock(ep->box);
	}
}

/* Ends a message that sim_take has taken out of the own inbox. */
static void sim_end(struct sim_ep *ep, coll_send_t *send, int eager, int failed)
{
	if (eager)
		free(send);
	else
		sim_return_send(ep, send, failed);
}

/* Reports a rank that sent an invalid message, and takes no further messages of that rank. */
static void sim_refuse_peer(struct sim_ep *ep, uint32_t from)
{
	ep->closed[from] = SIM_REPORTED;
	ep->host->peer_lost(ep->host, from, "it sent an invalid message");
}

/* Hands the payload over in pieces, which sim_wait_copied counts. */
static void sim_copy_payload(struct sim_ep *ep, const coll_sink_t *sink, const coll_send_t *send)
{
	const uint64_t len = send->header.len, piece = sink->buf ? SIM_PIECE : SIM_REDUCED;
	const uint8_t *from = send->buf;

	for (uint64_t at = 0, n; at < len; at += n) {
		n = len - at < piece ? len - at : piece;
		if (sink->buf)
			memcpy((uint8_t *)sink->buf + at, from + at, n);
		else
			ep->host->data(ep->host, sink->cookie, from + at, n);
		if (n == piece)
			atomic_fetch_add(&ep->box->pieces, 1);
	}
}

static void sim_receive(struct sim_ep *ep, coll_send_t *send)
{
	const coll_host_t *host = ep->host;
	uint32_t from = (uint32_t)send->plugin[SIM_FROM];
	const int eager = send->plugin[SIM_EAGER] != 0;
	int lost = ep->closed[from] == SIM_REPORTED;
	coll_sink_t sink;

	if (!lost && host->arrive(host, from, &send->header, &sink)) {
		lost = 1;
		sim_refuse_peer(ep, from);
	} else if (!lost) {
		sim_copy_payload(ep, &sink, send);
		host->arrived(host, sink.cookie, COLL_SUCCESS);
	}
	sim_end(ep, send, eager, lost);
}

/* Notes the ranks that have closed.  All their messages are in the inbox by now. */
static void sim_note_closed(struct sim_ep *ep)
{
	ep->close_count_seen = atomic_load(&ep->group->close_count);
	for (uint32_t r = 0; r < ep->group->nranks; r++) {
		struct sim_box *box = &ep->group->box[r];
		int closed = 1;

		if (sim_lock(box)) {
			closed = box->closed;
			sim_unlock(box);
		}
		if (closed && ep->closed[r] == SIM_OPEN)
			ep->closed[r] = SIM_CLOSED;
	}
}

/* Reports the closed ranks to the core.  The inbox must be empty. */
static int sim_report_closed(struct sim_ep *ep)
{
	ep->has_closed_peers = 0;
	for (uint32_t r = 0; r < ep->group->nranks; r++)
		if (ep->closed[r] == SIM_CLOSED) {
			ep->closed[r] = SIM_REPORTED;
			ep->host->peer_lost(ep->host, r, "it has closed its endpoint");
		}
	return 1;
}

/*
 * Counts all ranks as closed, since no message can come any more: a thread of this rank, or of a sender, has left the
 * library with the lock of the box.
 */
static void sim_break(struct sim_ep *ep)
{
	for (uint32_t r = 0; r < ep->group->nranks; r++)
		if (r != ep->host->rank && ep->closed[r] == SIM_OPEN)
			ep->closed[r] = SIM_CLOSED;
	ep->has_closed_peers = 1;
}

/*
 * Looks into this rank's box: ends the messages that other ranks have received, and sets *send to a message that has come,
 * or to NULL.  Returns 1 if more messages may be there.
 */
static int sim_take_all(struct sim_ep *ep, coll_send_t **send, int *moved)
{
	struct sim_box *box = ep->box;
	coll_send_t *done;
	int more;

	*send = NULL;
	if (!sim_lock(box)) {
		sim_break(ep);
		return 0;
	}
	while ((done = sim_pop(&box->done))) {
		done->status = done->plugin[SIM_FAILED] ? COLL_ERR_PEER_LOST : COLL_SUCCESS;
		*moved = 1;
	}
	*send = sim_take(box);
	more = box->inbox.first != NULL;
	atomic_store_explicit(&box->filled, more, memory_order_relaxed);
	sim_unlock(box);
	return more;
}

static int32_t sim_progress(void *ep_)
{
	struct sim_ep *ep = ep_;
	uint64_t bytes = 0;
	coll_send_t *send;
	int moved = 0, more = 1;

	if (ep->close_count_seen != atomic_load(&ep->group->close_count)) {
		sim_note_closed(ep);
		ep->has_closed_peers = 1;
	} else if (!atomic_load_explicit(&ep->box->filled, memory_order_relaxed)) {
		more = 0;
	}
	while (more && bytes < SIM_BUDGET) {
		more = sim_take_all(ep, &send, &moved);
		if (send) {
			bytes += send->header.len;
			moved = 1;
			sim_receive(ep, send);
		}
	}
	if (!more && ep->has_closed_peers)
		moved |= sim_report_closed(ep);
	return moved;
}

/* ----------------------------------------------------------------- sleeping -- */

static int32_t sim_wait_fd(void *ep)
{
	return ((struct sim_ep *)ep)->box->event_fd;
}

static int32_t sim_arm(void *ep_)
{
	struct sim_ep *ep = ep_;
	struct sim_box *box = ep->box;
	uint64_t count;
	int busy;

	if (!sim_lock(box))
		return 1;
	busy = box->inbox.first || box->done.first || ep->has_closed_peers ||
	       ep->close_count_seen != atomic_load(&ep->group->close_count);
	/* Empties the descriptor, which may be empty already. */
	if (!busy && read(box->event_fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	box->asleep = !busy;
	sim_unlock(box);
	return busy;
}

/* -------------------------------------------------------- opening and closing -- */

/* All groups of this process.  The lock also guards their counts of references. */
static pthread_mutex_t sim_groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_group *sim_groups;
static uint64_t sim_last_number;

static void sim_group_free(struct sim_group *group)
{
	coll_send_t *send;

	for (uint32_t r = 0; r < group->nranks; r++) {
		while ((send = sim_pop(&group->box[r].inbox)))
			free(send); /* a copy; the senders of messages in their own memory have closed */
		if (group->box[r].event_fd >= 0)
			close(group->box[r].event_fd);
		pthread_mutex_destroy(&group->box[r].lock);
	}
	free(group);
}

/* Makes a descriptor above 2: a process that has closed its stderr must not print into the descriptor. */
static int sim_event_fd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

/* Returns a new group, to which the caller refers; NULL without memory or descriptors. */
static struct sim_group *sim_group_new(uint32_t nranks)
{
	struct sim_group *group = calloc(1, sizeof(*group) + nranks * sizeof(group->box[0]));
	int good = 1;

	if (!group)
		return NULL;
	group->nranks = nranks;
	group->refs = 1;
	for (uint32_t r = 0; r < nranks; r++) {
		pthread_mutex_init(&group->box[r].lock, NULL);
		group->box[r].event_fd = sim_event_fd();
		good &= group->box[r].event_fd >= 0;
	}
	if (!good) {
		sim_group_free(group);
		return NULL;
	}
	pthread_mutex_lock(&sim_groups_lock);
	group->number = ++sim_last_number;
	group->next = sim_groups;
	sim_groups = group;
	pthread_mutex_unlock(&sim_groups_lock);
	return group;
}

/* Returns the group with this number, to which the caller now refers; NULL if no rank refers to it any more. */
static struct sim_group *sim_group_ref(uint64_t number)
{
	struct sim_group *group;

	pthread_mutex_lock(&sim_groups_lock);
	group = sim_groups;
	while (group && group->number != number)
		group = group->next;
	if (group)
		group->refs++;
	pthread_mutex_unlock(&sim_groups_lock);
	return group;
}

static void sim_group_unref(struct sim_group *group)
{
	struct sim_group **at = &sim_groups;
	int last;

	pthread_mutex_lock(&sim_groups_lock);
	last = --group->refs == 0;
	while (last && *at != group)
		at = &(*at)->next;
	if (last)
		*at = group->next;
	pthread_mutex_unlock(&sim_groups_lock);
	if (last)
		sim_group_free(group);
}

static int sim_fail(coll_error_t *err, int code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

/*
 * Rank 0 makes the group.  The other ranks learn its number, and find it in this process.  An exchange that fails on
 * rank 0 may have succeeded on other ranks, so rank 0 only gives up its own reference then.
 */
static int sim_find_group(const coll_host_t *host, struct sim_ep *ep, coll_error_t *err)
{
	uint64_t own = 0, *all = calloc(host->nranks, sizeof(*all));
	int code;

	if (!all)
		return sim_fail(err, COLL_ERR_NO_MEMORY, "no memory for the numbers of all ranks");
	if (host->rank == 0)
		ep->group = sim_group_new(host->nranks);
	if (ep->group)
		own = ep->group->number;
	code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	if (!code && !all[0])
		code = sim_fail(err, COLL_ERR_NO_MEMORY,
				"rank 0 found no memory, or no descriptor (ulimit -n)");
	if (!code && !ep->group)
		ep->group = sim_group_ref(all[0]);
	if (!code && !ep->group)
		code = sim_fail(err, COLL_ERR_PEER_LOST, "rank 0 has closed its endpoint");
	if (!code) {
		ep->box = &ep->group->box[host->rank];
	} else if (ep->group) {
		sim_group_unref(ep->group);
		ep->group = NULL;
	}
	free(all);
	return code;
}

static int32_t sim_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct sim_ep *ep = calloc(1, sizeof(*ep));

	*out = ep;
	if (ep)
		ep->closed = calloc(host->nranks, 1);
	if (!ep || !ep->closed)
		return sim_fail(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	ep->host = host;
	return sim_find_group(host, ep, err);
}

/* Returns the messages in the inbox as failed, and wakes all ranks to see this rank closed. */
static void sim_leave(struct sim_ep *ep)
{
	struct sim_box *box = ep->box;
	coll_send_t *send;

	do {
		send = NULL;
		if (sim_lock(box)) {
			box->closed = 1;
			send = sim_take(box);
			sim_unlock(box);
		}
		if (send)
			sim_end(ep, send, send->plugin[SIM_EAGER] != 0, 1);
	} while (send);
	atomic_fetch_add(&ep->group->close_count, 1);
	for (uint32_t r = 0; r < ep->group->nranks; r++) {
		if (!sim_lock(&ep->group->box[r]))
			continue;
		sim_wake(&ep->group->box[r]);
		sim_unlock(&ep->group->box[r]);
	}
}

/* Takes this rank's long messages out of all inboxes.  Returns 1 if there were any. */
static int sim_recall_sends(struct sim_ep *ep)
{
	int any = 0;

	for (uint32_t r = 0; r < ep->group->nranks; r++) {
		struct sim_box *box = &ep->group->box[r];

		any |= sim_remove_from(box, &box->inbox, NULL, ep->host->rank);
		sim_wait_copied(ep, box, NULL);
	}
	return any;
}

static void sim_close(void *ep_, int64_t timeout_ms)
{
	struct sim_ep *ep = ep_;

	(void)timeout_ms; /* nothing to flush: short messages are copies in their receivers' inboxes */
	if (ep->group) {
		if (sim_recall_sends(ep))
			ep->host->log(
				ep->host, COLL_LOG_DEBUG,
				"closed before other ranks received all messages of this rank");
		sim_leave(ep);
		sim_group_unref(ep->group);
	}
	free(ep->closed);
	free(ep);
}

/* -------------------------------------------------------------------- table -- */

static const coll_transport_t sim_transport = {
	.size = sizeof(coll_transport_t),
	.send = sim_send,
	.progress = sim_progress,
	.cancel = sim_cancel,
	.drop = sim_drop,
	.wait_fd = sim_wait_fd,
	.arm = sim_arm,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME,
	.name = "simulated",
	.version = "1.0",
	.description = "all ranks in one process, through memory",
	.priority = 20,
	.memory = COLL_MEM_HOST,
	.transport = &sim_transport,
	.open = sim_open,
	.close = sim_close,
	.host_priority = 70,
};
