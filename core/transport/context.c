/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c - opening and closing endpoints, driving them, and control messages. */
#include "transport/context.h"
#include "device/device.h"
#include "base/error.h"
#include "device/copy_stream.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A control message on its way. */
struct notice {
	struct notice *next;
	coll_send_t send;
	struct notice_body *body;
};

int64_t link_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Has an earlier rank of the host the same processors? */
static int link_shares_cpus(const struct boot *boot, int rank)
{
	const struct boot_peer *a = boot_peer(boot, rank);

	for (int r = 0; r < rank; r++) {
		const struct boot_peer *b = boot_peer(boot, r);

		if (a->cpus == b->cpus && a->first_cpu == b->first_cpu && !strcmp(a->host, b->host))
			return 1;
	}
	return 0;
}

/*
 * With more ranks on this host than processors, polling only keeps others from working.  A launcher
 * may have bound each to some: what not all share is taken to be different ones.
 */
static int link_oversubscribed(const struct boot *boot)
{
	const struct boot_peer *own = boot_peer(boot, boot_rank(boot));
	int ranks = 0, cpus = 0;

	for (int r = 0; r < boot_nranks(boot); r++) {
		const struct boot_peer *peer = boot_peer(boot, r);

		if (strcmp(peer->host, own->host))
			continue;
		ranks++;
		cpus += link_shares_cpus(boot, r) ? 0 : peer->cpus;
	}
	return own->cpus && ranks > cpus;
}

/* Ranks of one host form a node, or `node_size` consecutive ones; numbered by their first rank. */
static void link_number_nodes(struct link *link)
{
	int size = (int)link->tuning.node_size;

	for (int r = 0; r < link->nranks; r++) {
		const char *host = boot_peer(link->boot, r)->host;
		int first = size ? r - r % size : 0;

		while (!size && strcmp(boot_peer(link->boot, first)->host, host))
			first++;
		link->node[r] = first;
	}
}

/* Configuration and plugins belong to the first of the links that derive from one another. */
static void link_free(struct link *link)
{
	match_free(&link->match);
	lanes_free(&link->lanes);
	for (int i = 0; i < LINK_FREED; i++)
		free(link->freed[i]);
	for (int r = 0; link->lost && r < link->nranks; r++)
		free(link->lost[r]);
	free(link->lost);
	free(link->node);
	boot_close(link->boot);
	if (!link->parent) {
		plugins_free(link->plugins);
		conf_free(link->conf);
	}
	if (link->wake_fd >= 0)
		close(link->wake_fd);
	pthread_mutex_destroy(&link->lock);
	free(link);
}

/* All but the endpoint. */
static int link_prepare(struct link *link, const struct link_client *client, struct boot *boot,
			struct conf *conf, const struct plugin *plugin, const struct tuning *tuning,
			int device)
{
	pthread_mutex_init(&link->lock, NULL);
	link->client = client;
	link->refs = 1;
	link->refused = -1;
	link->boot = boot;
	link->conf = conf;
	link->plugin = plugin;
	link->tuning = *tuning;
	link->rank = boot_rank(boot);
	link->nranks = boot_nranks(boot);
	link->poll_us = link_oversubscribed(boot) ? 0 : conf_int(conf, "poll");
	link->yield_us = conf_int(conf, "yield");
	link->timeout_us = conf_int(conf, "timeout");
	link->fallback = conf_int(conf, "enable_gpu_fallback") != 0;
	link->devices = device_open();
	link->lost = calloc((size_t)link->nranks, sizeof(*link->lost));
	link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	match_init(&link->match);
	link->match.unexpected = client->unexpected;
	link->match.mismatch = client->mismatch;
	link->match.no_memory = client->no_memory;
	link->match.fill = client->fill;
	link->match.link = link;
	host_fill(link, device);
	link->node = calloc((size_t)link->nranks, sizeof(*link->node));
	if (!link->lost || !link->node)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", link->nranks);
	if (link->wake_fd < 0)
		return error_set(COLL_ERR_SYSTEM, "cannot make an eventfd: %s", strerror(errno));
	return COLL_SUCCESS;
}

/* The endpoint takes some of the memory that its backend takes at best. */
static void link_ask_memory(struct link *link)
{
	const coll_backend_t *b = &link->plugin->backend;

	link->memory = b->memory;
	if (b->transport && b->transport->memory)
		link->memory &= b->transport->memory(link->ep);
	link->classify = link->devices || !(link->memory & COLL_MEM_HOST);
}

/* Asked for the current device, only the backend knows which that is. */
static void link_ask_device(struct link *link)
{
	const coll_native_t *native = link->plugin->backend.native;

	link->device = link->host.device;
	if (native && native->device)
		link->device = native->device(link->ep);
}

/* Once the endpoint is open. */
static void link_begin(struct link *link)
{
	link_ask_memory(link);
	link_ask_device(link);
	atomic_store(&link->unborn, 0);
	boot_watch(link->boot, &link->aborted);
	link_number_nodes(link);
	wait_add(link);
}

int link_make(struct link **out, const struct link_parts *parts)
{
	struct link *link = calloc(1, sizeof(*link));

	*out = link;
	if (!link) {
		boot_close(parts->boot);
		plugins_free(parts->plugins);
		conf_free(parts->conf);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	}
	link->plugins = parts->plugins;
	return link_prepare(link, parts->client, parts->boot, parts->conf, parts->plugin,
			    &parts->tuning, parts->device);
}

int link_open(struct link *link)
{
	coll_error_t err = error_blank();
	int code = link->plugin->backend.open(&link->host, &link->ep, &err);

	if (code)
		return error_take(code, &err);
	link_begin(link);
	return COLL_SUCCESS;
}

int link_open_all(struct link *const *links, int n)
{
	const coll_host_t **hosts = calloc((size_t)n, sizeof(*hosts));
	void **eps = calloc((size_t)n, sizeof(*eps));
	coll_error_t err = error_blank();
	int code;

	if (!hosts || !eps) {
		free(hosts);
		free(eps);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
	}
	for (int r = 0; r < n; r++)
		hosts[r] = &links[r]->host;
	code = links[0]->plugin->backend.open_all(hosts, (uint32_t)n, eps, &err);
	for (int r = 0; r < n; r++) {
		links[r]->ep = eps[r];
		if (!code)
			link_begin(links[r]);
	}
	free(hosts);
	free(eps);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

int link_derive(struct link **out, struct link *parent, struct boot *boot)
{
	struct link *link = calloc(1, sizeof(*link));

	*out = link;
	if (!link) {
		boot_close(boot);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	}
	link->parent = parent;
	link_hold(parent);
	atomic_store(&link->unborn, !atomic_load(&parent->aborted)); /* shrink may come after it */
	return link_prepare(link, parent->client, boot, parent->conf, parent->plugin,
			    &parent->tuning, parent->device);
}

int link_derive_open(struct link *link, const struct link_making *making)
{
	const coll_native_t *native = link->plugin->backend.native;
	void *parent = link->parent->ep;
	coll_error_t err = error_blank();
	int code;

	if (making->exclude)
		code = native->shrink(parent, making->exclude, making->n, &link->host, &link->ep,
				      &err);
	else if (native->split)
		code = native->split(parent, making->color, making->key, &link->host, &link->ep,
				     &err);
	else
		return link_open(link);
	if (code)
		return error_take(code, &err);
	link_begin(link);
	return COLL_SUCCESS;
}

void link_hold(struct link *link)
{
	atomic_fetch_add(&link->refs, 1);
}

static void link_close_endpoint(struct link *link, int64_t timeout_ms)
{
	struct notice *next;
	void *ep = link->ep;

	link->ep = NULL; /* first: a fork in another thread must not find it half closed */
	if (ep)
		link->plugin->backend.close(ep, timeout_ms);
	for (struct notice *n = link->notices; n; n = next) {
		next = n->next;
		free(n->body);
		free(n);
	}
	link->notices = NULL;
}

void link_release(struct link *link, int64_t timeout_ms)
{
	struct link *parent = link->parent;

	if (atomic_fetch_sub(&link->refs, 1) > 1)
		return;
	wait_serve_end(link);
	wait_remove(link);
	link_close_endpoint(link, timeout_ms);
	link_free(link);
	if (parent)
		link_release(parent, timeout_ms);
}

void link_shut(struct link *link)
{
	if (!link->ep)
		return;
	link_close_endpoint(link, 0);
	link->client->shut(link);
}

void link_lock(struct link *link)
{
	if (!pthread_mutex_trylock(&link->lock))
		return;
	/* A thread that waits or serves takes the lock again at once, unless it knows of us. */
	atomic_fetch_add(&link->wanted, 1);
	pthread_mutex_lock(&link->lock);
	atomic_fetch_sub(&link->wanted, 1);
}

int link_lock_within(struct link *link, int64_t timeout_ms)
{
	struct timespec until;
	int got;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	atomic_fetch_add(&link->wanted, 1);
	got = !pthread_mutex_timedlock(&link->lock, &until);
	atomic_fetch_sub(&link->wanted, 1);
	return got;
}

void link_enter(struct link *link)
{
	link_lock(link);
	wait_drive(link);
}

void link_leave(struct link *link)
{
	pthread_mutex_unlock(&link->lock);
}

static int link_reap_notices(struct link *link)
{
	int moved = 0;

	for (struct notice **at = &link->notices; *at;) {
		struct notice *n = *at;

		if (n->send.status == COLL_IN_PROGRESS) {
			at = &n->next;
			continue;
		}
		*at = n->next;
		free(n->body);
		free(n);
		moved = 1;
	}
	return moved;
}

int link_progress(struct link *link)
{
	const coll_transport_t *t = link->plugin->backend.transport;
	struct recv *recv;
	int moved = 0;

	if (link->ep && t)
		moved = t->progress(link->ep);
	while ((recv = match_next_done(&link->match)))
		link->client->received(recv);
	if (link->news || link->match.controls) {
		link->news = 0;
		link->client->check(link);
		link->match.controls = 0;
	}
	if (link->notices)
		moved |= link_reap_notices(link);
	moved |= link->client->advance(link);
	if (link->news_for_sleepers && link->sleepers)
		link_wake(link);
	link->news_for_sleepers = 0;
	link->moves += moved != 0;
	return moved;
}

void link_kick(struct link *link)
{
	if (link->sleepers)
		link_wake(link);
}

void link_wake(struct link *link)
{
	uint64_t one = 1;
	ssize_t n = write(link->wake_fd, &one, sizeof(one));

	(void)n; /* full means that a wake-up is already due */
}

void link_notify(struct link *link, int peer, uint64_t tag, int kind, int code, const char *text)
{
	const coll_transport_t *t = link->plugin->backend.transport;
	struct notice *n = calloc(1, sizeof(*n));
	size_t len = strlen(text) + 1;
	coll_error_t err = error_blank();

	if (n)
		n->body = malloc(sizeof(*n->body) + len);
	if (!n || !n->body || !link->ep || !t || link->lost[peer]) {
		free(n ? n->body : NULL);
		free(n);
		return;
	}
	n->body->kind = kind;
	n->body->code = code;
	memcpy(n->body->text, text, len);
	n->send.header.tag = tag;
	n->send.header.len = sizeof(*n->body) + len;
	n->send.buf = n->body;
	n->send.peer = (uint32_t)peer;
	n->send.memory = COLL_MEM_HOST;
	n->send.status = COLL_IN_PROGRESS;
	n->next = link->notices;
	link->notices = n;
	if (t->send(link->ep, &n->send, &err))
		n->send.status = COLL_ERR_PEER_LOST; /* reaped with the others */
}

int link_notices_pending(struct link *link)
{
	link_reap_notices(link);
	return link->notices != NULL;
}
