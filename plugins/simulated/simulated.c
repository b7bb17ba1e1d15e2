/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulated - all ranks of a communicator in one process: a message is a pointer put into the
 * receiver's inbox, and the receiver copies straight from the sender's buffer.  No sockets, no
 * files; for tests, for debugging and for several devices of one process.
 *
 * This is the folder to copy for a backend of your own: a table at the end, open and close that
 * find the other ranks, send, progress, and a way to sleep.
 */
#include <coll/backend.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Bytes copied before progress returns: about a millisecond. */
enum { SIM_BUDGET = 8 << 20, SIM_EAGER_MAX = 1024 };

/* A queue of sends, linked through the first word that the core leaves to us. */
struct sim_queue {
	coll_send_t *first, *last;
};

/* What one rank shows to the others; freed with the world. */
struct sim_box {
	pthread_mutex_t lock;
	struct sim_queue inbox; /* messages to this rank */
	struct sim_queue done;  /* own sends that a receiver has finished */
	/* The message that this rank is copying now, to be compared only; whose memory it lies in.
	 */
	const coll_send_t *current;
	uint32_t current_from;
	int asleep; /* somebody waits for the descriptor */
	int event_fd;
	int closed;
};

struct sim_world {
	_Atomic int refs;
	_Atomic int closings; /* how many ranks have closed, so that others need not look */
	uint32_t nranks;
	struct sim_box box[];
};

struct sim_ep {
	const coll_host_t *host;
	struct sim_world *world;
	struct sim_box *box;
	int closings_seen;
	int closed_noted; /* some are SIM_CLOSED */
	uint8_t *closed;  /* per rank */
};

/* What is known of another rank. */
enum { SIM_OPEN, SIM_CLOSED, SIM_REPORTED };

/* ------------------------------------------------------------------ queues -- */

/* The words of send->plugin. */
enum { SIM_NEXT, SIM_FROM, SIM_FAILED, SIM_EAGER };

/* A copy lies in nobody's memory. */
static const uint32_t SIM_NOBODY = UINT32_MAX;

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

/* Takes out `victim`, or, if it is NULL, all that still lies in memory of rank `from`'s core. */
static int sim_remove(struct sim_queue *q, const coll_send_t *victim, uint32_t from)
{
	struct sim_queue kept = {NULL, NULL};
	coll_send_t *send;
	int removed = 0;

	while ((send = sim_pop(q))) {
		int match = victim ? send == victim
				   : send->plugin[SIM_FROM] == from && !send->plugin[SIM_EAGER];

		removed |= match;
		if (!match)
			sim_push(&kept, send);
	}
	*q = kept;
	return removed;
}

/* Wakes the owner of a box whose lock is held. */
static void sim_wake(struct sim_box *box)
{
	uint64_t one = 1;

	if (box->asleep && write(box->event_fd, &one, sizeof(one)) == sizeof(one))
		box->asleep = 0;
}

/* ------------------------------------------------------------------ sending -- */

/* A short message is copied, so that its sender need not wait for the receiver. */
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

static int32_t sim_send(void *ep_, coll_send_t *send, coll_error_t *err)
{
	struct sim_ep *ep = ep_;
	struct sim_box *to = &ep->world->box[send->peer];
	int closed;

	send->plugin[SIM_FROM] = ep->host->rank;
	pthread_mutex_lock(&to->lock);
	closed = to->closed || ep->closed[send->peer] == SIM_REPORTED;
	if (!closed) {
		sim_push(&to->inbox, send->header.len <= SIM_EAGER_MAX ? sim_copy(send) : send);
		sim_wake(to);
	}
	pthread_mutex_unlock(&to->lock);
	if (!closed)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "rank %u has closed its endpoint or was refused",
		 (unsigned)send->peer);
	return err->code = COLL_ERR_PEER_LOST;
}

/* Waits until `to` is not copying from `victim` (NULL: from anything of ours). */
static void sim_wait_copied(struct sim_ep *ep, struct sim_box *to, const coll_send_t *victim)
{
	int busy = 1;

	while (busy) {
		pthread_mutex_lock(&to->lock);
		busy = to->current &&
		       (victim ? to->current == victim : to->current_from == ep->host->rank);
		pthread_mutex_unlock(&to->lock);
		if (busy)
			sched_yield();
	}
}

static void sim_cancel(void *ep_, coll_send_t *send)
{
	struct sim_ep *ep = ep_;
	struct sim_box *to = &ep->world->box[send->peer];

	pthread_mutex_lock(&to->lock);
	sim_remove(&to->inbox, send, 0);
	pthread_mutex_unlock(&to->lock);
	sim_wait_copied(ep, to, send);
	pthread_mutex_lock(&ep->box->lock);
	sim_remove(&ep->box->done, send, 0);
	pthread_mutex_unlock(&ep->box->lock);
}

/* Messages are copied whole within one progress: none is ever half done. */
static void sim_drop(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

/* ---------------------------------------------------------------- receiving -- */

/* Gives a message back to its sender, who may touch it again as soon as we have let go of it. */
static void sim_give_back(struct sim_ep *ep, coll_send_t *send, int failed)
{
	struct sim_box *sender = &ep->world->box[send->plugin[SIM_FROM]];

	if (send->plugin[SIM_EAGER]) {
		free(send);
		return;
	}
	pthread_mutex_lock(&sender->lock);
	send->plugin[SIM_FAILED] = (uint64_t)failed;
	sim_push(&sender->done, send);
	sim_wake(sender);
	pthread_mutex_unlock(&sender->lock);
}

/* The core does not trust this rank any more: nothing of it is taken from now on. */
static void sim_distrust(struct sim_ep *ep, uint32_t from)
{
	ep->closed[from] = SIM_REPORTED;
	ep->host->peer_lost(ep->host, from, "it sent an invalid message");
}

static void sim_receive(struct sim_ep *ep, coll_send_t *send)
{
	const coll_host_t *host = ep->host;
	uint32_t from = (uint32_t)send->plugin[SIM_FROM];
	int lost = ep->closed[from] == SIM_REPORTED;
	coll_sink_t sink;

	if (!lost && host->arrive(host, from, &send->header, &sink)) {
		lost = 1;
		sim_distrust(ep, from);
	} else if (!lost) {
		if (sink.buf && send->header.len)
			memcpy(sink.buf, send->buf, send->header.len);
		else if (send->header.len)
			host->data(host, sink.cookie, send->buf, send->header.len);
		host->arrived(host, sink.cookie, COLL_SUCCESS);
	}
	sim_give_back(ep, send, lost);
	pthread_mutex_lock(&ep->box->lock);
	ep->box->current = NULL;
	pthread_mutex_unlock(&ep->box->lock);
}

/* Notes who has closed: what they sent before is in the inbox by now. */
static void sim_note_closed(struct sim_ep *ep)
{
	ep->closings_seen = atomic_load(&ep->world->closings);
	for (uint32_t r = 0; r < ep->world->nranks; r++) {
		struct sim_box *box = &ep->world->box[r];

		pthread_mutex_lock(&box->lock);
		if (box->closed && ep->closed[r] == SIM_OPEN)
			ep->closed[r] = SIM_CLOSED;
		pthread_mutex_unlock(&box->lock);
	}
}

/* Tells the core of those noted, once nothing of theirs is left in the inbox. */
static int sim_report_closed(struct sim_ep *ep)
{
	ep->closed_noted = 0;
	for (uint32_t r = 0; r < ep->world->nranks; r++)
		if (ep->closed[r] == SIM_CLOSED) {
			ep->closed[r] = SIM_REPORTED;
			ep->host->peer_lost(ep->host, r, "it has closed its endpoint");
		}
	return 1;
}

static int32_t sim_progress(void *ep_)
{
	struct sim_ep *ep = ep_;
	struct sim_box *box = ep->box;
	uint64_t bytes = 0;
	coll_send_t *send;
	int moved = 0;

	if (ep->closings_seen != atomic_load(&ep->world->closings)) {
		sim_note_closed(ep);
		ep->closed_noted = 1;
	}
	do {
		pthread_mutex_lock(&box->lock);
		while ((send = sim_pop(&box->done))) {
			send->status = send->plugin[SIM_FAILED] ? COLL_ERR_PEER_LOST : COLL_SUCCESS;
			moved = 1;
		}
		send = sim_pop(&box->inbox);
		box->current = send;
		if (send)
			box->current_from = send->plugin[SIM_EAGER]
						    ? SIM_NOBODY
						    : (uint32_t)send->plugin[SIM_FROM];
		pthread_mutex_unlock(&box->lock);
		if (send) {
			bytes += send->header.len;
			moved = 1;
			sim_receive(ep, send);
		}
	} while (send && bytes < SIM_BUDGET);
	if (!send && ep->closed_noted)
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

	pthread_mutex_lock(&box->lock);
	busy = box->inbox.first || box->done.first || ep->closed_noted ||
	       ep->closings_seen != atomic_load(&ep->world->closings);
	/* Empties the descriptor; it may well be empty already. */
	if (!busy && read(box->event_fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	box->asleep = !busy;
	pthread_mutex_unlock(&box->lock);
	return busy;
}

/* -------------------------------------------------------- opening and closing -- */

static void sim_release_world(struct sim_world *world)
{
	coll_send_t *send;

	if (!world || atomic_fetch_sub(&world->refs, 1) > 1)
		return;
	for (uint32_t r = 0; r < world->nranks; r++) {
		while ((send = sim_pop(&world->box[r].inbox)))
			free(send); /* only copies are left: their senders have closed */
		if (world->box[r].event_fd >= 0)
			close(world->box[r].event_fd);
		pthread_mutex_destroy(&world->box[r].lock);
	}
	free(world);
}

static struct sim_world *sim_make_world(uint32_t nranks)
{
	struct sim_world *world = calloc(1, sizeof(*world) + nranks * sizeof(world->box[0]));
	int good = 1;

	if (!world)
		return NULL;
	world->nranks = nranks;
	atomic_store(&world->refs, (int)nranks);
	for (uint32_t r = 0; r < nranks; r++) {
		pthread_mutex_init(&world->box[r].lock, NULL);
		world->box[r].event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		good &= world->box[r].event_fd >= 0;
	}
	if (good)
		return world;
	atomic_store(&world->refs, 1);
	sim_release_world(world);
	return NULL;
}

static int sim_fail(coll_error_t *err, int code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

/* Rank 0 makes the world; the others learn its address, good in the whole process. */
static int sim_find_world(const coll_host_t *host, struct sim_ep *ep, coll_error_t *err)
{
	uint64_t own = 0, *all = calloc(host->nranks, sizeof(*all));
	int code = all ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;

	if (host->rank == 0)
		own = (uintptr_t)sim_make_world(host->nranks);
	if (!code)
		code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	else
		sim_fail(err, code, "no memory for the addresses of all ranks");
	if (!code && !all[0])
		code = sim_fail(err, COLL_ERR_NO_MEMORY,
				"rank 0 has no memory or descriptors left");
	if (!code) {
		ep->world = (struct sim_world *)(uintptr_t)all[0];
		ep->box = &ep->world->box[host->rank];
	} else if (own) { /* the others have failed as well: nobody else holds it */
		ep->world = (struct sim_world *)(uintptr_t)own;
		atomic_store(&ep->world->refs, 1);
		sim_release_world(ep->world);
		ep->world = NULL;
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
	return sim_find_world(host, ep, err);
}

/* Refuses what lies in the inbox, and lets the others know that we are gone. */
static void sim_leave(struct sim_ep *ep)
{
	struct sim_box *box = ep->box;
	struct sim_queue refused;
	coll_send_t *send;

	pthread_mutex_lock(&box->lock);
	box->closed = 1;
	refused = box->inbox;
	box->inbox = (struct sim_queue){NULL, NULL};
	pthread_mutex_unlock(&box->lock);
	while ((send = sim_pop(&refused)))
		sim_give_back(ep, send, 1);
	atomic_fetch_add(&ep->world->closings, 1);
	for (uint32_t r = 0; r < ep->world->nranks; r++) {
		pthread_mutex_lock(&ep->world->box[r].lock);
		sim_wake(&ep->world->box[r]);
		pthread_mutex_unlock(&ep->world->box[r].lock);
	}
}

/* All long messages still lying with others go back; true if there were any. */
static int sim_call_back(struct sim_ep *ep)
{
	int any = 0;

	for (uint32_t r = 0; r < ep->world->nranks; r++) {
		struct sim_box *box = &ep->world->box[r];

		pthread_mutex_lock(&box->lock);
		any |= sim_remove(&box->inbox, NULL, ep->host->rank);
		pthread_mutex_unlock(&box->lock);
		sim_wait_copied(ep, box, NULL);
	}
	return any;
}

static void sim_close(void *ep_, int64_t timeout_ms)
{
	struct sim_ep *ep = ep_;

	(void)timeout_ms; /* short messages are with their receivers already */
	if (ep->world) {
		if (sim_call_back(ep))
			ep->host->log(ep->host, COLL_LOG_DEBUG,
				      "closed with messages not received");
		sim_leave(ep);
	}
	sim_release_world(ep->world);
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
};
