/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inbox.h - a small transport for ranks that are threads of one process: a send leaves a copy in
 * the receiver's inbox.  Includes no header of libcoll: whoever includes this has chosen one.
 * Uses nothing beyond ABI 1.0, and is frozen with it.
 */
#ifndef TESTS_FROZEN_INBOX_H
#define TESTS_FROZEN_INBOX_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct inbox_message {
	struct inbox_message *next;
	uint32_t from;
	int32_t last; /* the sender has closed */
	coll_header_t header;
	unsigned char bytes[];
};

struct inbox {
	pthread_mutex_t lock;
	struct inbox_message *first, **end;
	int event_fd;
};

/* Belongs to all ranks, freed by the last. */
struct inbox_world {
	pthread_mutex_t lock;
	uint32_t refs;
	struct inbox box[];
};

struct inbox_ep {
	const coll_host_t *host;
	struct inbox_world *world;
	struct inbox *own;
	uint8_t closed[]; /* for each rank: it is lost, or the host has refused a message of it */
};

static int32_t inbox_fail(coll_error_t *err, int32_t code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

/* ------------------------------------------------------------------ messages -- */

static int inbox_put(struct inbox_ep *ep, uint32_t to, const coll_send_t *send, int32_t last)
{
	struct inbox *box = &ep->world->box[to];
	uint64_t len = send ? send->header.len : 0, one = 1;
	struct inbox_message *m = calloc(1, sizeof(*m) + len);

	if (!m)
		return -1;
	m->from = ep->host->rank;
	m->last = last;
	if (send)
		m->header = send->header;
	if (len)
		memcpy(m->bytes, send->buf, len);
	pthread_mutex_lock(&box->lock);
	*box->end = m;
	box->end = &m->next;
	if (write(box->event_fd, &one, sizeof(one)) != sizeof(one))
		one = 0; /* full: it is readable as it is */
	pthread_mutex_unlock(&box->lock);
	return 0;
}

static struct inbox_message *inbox_take(struct inbox *box)
{
	struct inbox_message *m;

	pthread_mutex_lock(&box->lock);
	m = box->first;
	if (m)
		box->first = m->next;
	if (!box->first)
		box->end = &box->first;
	pthread_mutex_unlock(&box->lock);
	return m;
}

static int32_t inbox_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	if (inbox_put(ep, send->peer, send, 0))
		return inbox_fail(err, COLL_ERR_NO_MEMORY, "no memory for a message");
	send->status = COLL_SUCCESS;
	return COLL_SUCCESS;
}

static void inbox_deliver(struct inbox_ep *ep, const struct inbox_message *m)
{
	const coll_host_t *host = ep->host;
	coll_sink_t sink;

	if (m->last || ep->closed[m->from]) {
		if (!ep->closed[m->from])
			host->peer_lost(host, m->from, "it has closed its inbox");
		ep->closed[m->from] = 1;
		return;
	}
	if (host->arrive(host, m->from, &m->header, &sink)) {
		ep->closed[m->from] = 1;
		host->peer_lost(host, m->from, "it sent nonsense");
		return;
	}
	if (sink.buf && m->header.len)
		memcpy(sink.buf, m->bytes, m->header.len);
	else if (m->header.len)
		host->data(host, sink.cookie, m->bytes, m->header.len);
	host->arrived(host, sink.cookie, COLL_SUCCESS);
}

static int32_t inbox_progress(void *ep_)
{
	struct inbox_ep *ep = ep_;
	struct inbox_message *m;
	int32_t moved = 0;

	for (; moved < 64 && (m = inbox_take(ep->own)); moved++) {
		inbox_deliver(ep, m);
		free(m);
	}
	return moved > 0;
}

static int32_t inbox_wait_fd(void *ep)
{
	return ((struct inbox_ep *)ep)->own->event_fd;
}

static int32_t inbox_arm(void *ep)
{
	struct inbox *box = ((struct inbox_ep *)ep)->own;
	uint64_t count;
	int busy;

	pthread_mutex_lock(&box->lock);
	busy = box->first != NULL;
	if (!busy && read(box->event_fd, &count, sizeof(count)) != sizeof(count))
		count = 0; /* it was empty */
	pthread_mutex_unlock(&box->lock);
	return busy;
}

/* -------------------------------------------------------------- opening, closing -- */

static struct inbox_world *inbox_make(uint32_t nranks)
{
	struct inbox_world *world = calloc(1, sizeof(*world) + nranks * sizeof(world->box[0]));

	if (!world)
		return NULL;
	world->refs = nranks;
	pthread_mutex_init(&world->lock, NULL);
	for (uint32_t r = 0; r < nranks; r++) {
		pthread_mutex_init(&world->box[r].lock, NULL);
		world->box[r].end = &world->box[r].first;
		world->box[r].event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}
	return world;
}

static void inbox_release(struct inbox_world *world, uint32_t nranks, uint32_t refs)
{
	struct inbox_message *m;

	pthread_mutex_lock(&world->lock);
	world->refs -= refs;
	refs = world->refs;
	pthread_mutex_unlock(&world->lock);
	if (refs)
		return;
	for (uint32_t r = 0; r < nranks; r++) {
		while ((m = inbox_take(&world->box[r])))
			free(m);
		if (world->box[r].event_fd >= 0)
			close(world->box[r].event_fd);
		pthread_mutex_destroy(&world->box[r].lock);
	}
	pthread_mutex_destroy(&world->lock);
	free(world);
}

/* Rank 0 makes the inboxes; the others learn their address, good in the whole process. */
static int32_t inbox_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct inbox_ep *ep = calloc(1, sizeof(*ep) + host->nranks);
	uint64_t *all = host->alloc(host, host->nranks * sizeof(*all));
	uint64_t own = host->rank ? 0 : (uintptr_t)inbox_make(host->nranks);
	int32_t code = COLL_ERR_NO_MEMORY;

	if (ep && all)
		code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	else
		inbox_fail(err, code, "no memory for an endpoint");
	if (!code && !all[0])
		code = inbox_fail(err, COLL_ERR_NO_MEMORY, "rank 0 has no memory for inboxes");
	if (!code) {
		ep->host = host;
		ep->world = (struct inbox_world *)(uintptr_t)all[0];
		ep->own = &ep->world->box[host->rank];
	} else if (own) {
		inbox_release((struct inbox_world *)(uintptr_t)own, host->nranks, host->nranks);
	}
	if (all)
		host->free(host, all, host->nranks * sizeof(*all));
	*out = ep;
	return code;
}

static void inbox_close(void *ep_, int64_t timeout_ms)
{
	struct inbox_ep *ep = ep_;

	(void)timeout_ms; /* what was sent is with its receivers */
	if (ep->world) {
		for (uint32_t r = 0; r < ep->host->nranks; r++)
			if (r != ep->host->rank)
				inbox_put(ep, r, NULL, 1);
		inbox_release(ep->world, ep->host->nranks, 1);
	}
	free(ep);
}

#endif
