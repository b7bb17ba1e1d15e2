/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c - opening and closing endpoints, driving them, and control messages. */
#include "transport/companion.h"
#include "transport/context.h"
#include "transport/host_context.h"
#include "device/device.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "device/copy_stream.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A control message that is being sent. */
struct control {
	struct control *next;
	coll_send_t send;
	struct control_body *body;
};

static int context_same_host(const struct bootstrap *bootstrap, int a, int b)
{
	return bootstrap_shares(bootstrap, a, b) & COLL_SHARES_HOST;
}

/* Do an earlier rank of the host and this rank have the same processors? */
static int context_shares_cpus(const struct bootstrap *bootstrap, int rank)
{
	const struct bootstrap_peer *a = bootstrap_peer(bootstrap, rank);

	for (int r = 0; r < rank; r++) {
		const struct bootstrap_peer *b = bootstrap_peer(bootstrap, r);

		if (a->cpus == b->cpus && a->first_cpu == b->first_cpu &&
		    context_same_host(bootstrap, rank, r))
			return 1;
	}
	return 0;
}

/*
 * With more ranks on a host than processors, a rank that polls only keeps others from working.  A
 * launcher may have bound each rank to some processors: sets that differ are taken to be disjoint.
 * own: a rank of the host.  Returns CPUS_*.
 */
static int context_count_cpus(const struct bootstrap *bootstrap, int own)
{
	int ranks = 0, cpus = 0, unknown = 0;

	for (int r = 0; r < bootstrap_nranks(bootstrap); r++) {
		if (!context_same_host(bootstrap, r, own))
			continue;
		ranks++;
		unknown |= !bootstrap_peer(bootstrap, r)->cpus;
		cpus += context_shares_cpus(bootstrap, r) ? 0 : bootstrap_peer(bootstrap, r)->cpus;
	}
	if (unknown || ranks <= cpus)
		return CPUS_OWN;
	return cpus > CPUS_FEW_MOST ? CPUS_SHARED : CPUS_FEW;
}

int context_cpus(const struct context *context, int rank)
{
	return context_same_host(context->bootstrap, rank, 0)
		       ? context->cpus
		       : context_count_cpus(context->bootstrap, rank);
}

/* Ranks of one host form a node, or `node_size` consecutive ones; numbered by their first rank. */
static int context_number_nodes(struct context *context)
{
	int size = (int)context->selection.node_size;

	if (!size)
		return bootstrap_hosts(context->bootstrap, context->node);
	for (int r = 0; r < context->nranks; r++)
		context->node[r] = r - r % size;
	return COLL_SUCCESS;
}

/* Configuration and plugins belong to the first of the contexts that were derived from one another. */
static void context_free(struct context *context)
{
	match_free(&context->match);
	copy_streams_free(&context->copy_streams);
	stream_home_leave(&context->home);
	for (int i = 0; i < CONTEXT_FREED; i++)
		free(context->freed[i]);
	for (int r = 0; context->failure && r < context->nranks; r++)
		if (context->failure[r] != host_no_cause)
			free(context->failure[r]);
	free(context->failure);
	free(context->node);
	free(context->origin);
	free(context->shares);
	bootstrap_close(context->bootstrap);
	if (!context->parent) {
		plugins_free(context->plugins);
		config_free(context->config);
	}
	if (context->wake_fd >= 0)
		close(context->wake_fd);
	free(context);
}

/* Makes all parts except the endpoint. */
static int context_prepare(struct context *context, const struct context_parts *parts)
{
	const struct context_client *client = parts->client;
	int failed, cpus;

	context->client = client;
	context->refs = 1;
	context->refused = -1;
	context->bootstrap = parts->bootstrap;
	context->config = parts->config;
	context->plugins = parts->plugins;
	context->plugin = parts->plugin;
	context->selection = parts->selection;
	context->rank = bootstrap_rank(parts->bootstrap);
	context->nranks = bootstrap_nranks(parts->bootstrap);
	cpus = context_count_cpus(parts->bootstrap, context->rank);
	context->oversubscribed = cpus != CPUS_OWN;
	context->cpus = context_same_host(parts->bootstrap, context->rank, 0)
				? cpus
				: context_count_cpus(parts->bootstrap, 0);
	context->poll_us = context->oversubscribed ? 0 : config_int(parts->config, "poll");
	context->polls_us = context->poll_us;
	context->yield_us = config_int(parts->config, "yield");
	context->timeout_us = config_int(parts->config, "timeout");
	context->stall_us = config_int(parts->config, "stall_after");
	context->check_buffers = config_int(parts->config, "check_buffers") != 0;
	context->fallback = config_int(parts->config, "enable_gpu_fallback") != 0;
	context->devices = device_open();
	context->failure = calloc((size_t)context->nranks, sizeof(*context->failure));
	context->wake_fd = descriptor_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	failed = errno;
	match_init(&context->match);
	context->match.check_unexpected = client->check_unexpected;
	context->match.mismatch = client->mismatch;
	context->match.no_memory = client->no_memory;
	context->match.fill = client->fill;
	context->match.context = context;
	context->node = calloc((size_t)context->nranks, sizeof(*context->node));
	context->shares = calloc((size_t)context->nranks, sizeof(*context->shares));
	host_fill(context, parts->device);
	context->home.device = parts->device_named ? parts->device : -1;
	if (!context->failure || !context->node || !context->shares)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", context->nranks);
	if (context->wake_fd < 0)
		return error_set(COLL_ERR_SYSTEM, "cannot make an eventfd: %s%s", strerror(failed),
				 error_remedy(failed));
	return context_number_nodes(context);
}

/* An endpoint may take fewer kinds of memory than its backend. */
static void context_ask_memory(struct context *context)
{
	const coll_backend_t *b = &context->plugin->backend;

	context->memory = b->memory;
	if (b->transport && b->transport->memory)
		context->memory &= b->transport->memory(context->ep);
	context->classify = context->devices || !(context->memory & COLL_MEM_HOST);
}

/* If the application left the choice of the device to the backend, only the backend knows it. */
static void context_ask_device(struct context *context)
{
	const coll_native_t *native = context->plugin->backend.native;

	context->device = context->host.device;
	if (native && native->device)
		context->home.device = context->device = native->device(context->ep);
}

/* Reads the properties of the opened endpoint. */
static void context_begin(struct context *context)
{
	context_ask_memory(context);
	context_ask_device(context);
	atomic_store(&context->constructing, 0);
	bootstrap_watch(context->bootstrap, &context->aborted);
	wait_add(context);
}

int context_make(struct context **out, const struct context_parts *parts)
{
	struct context *context = calloc(1, sizeof(*context));

	*out = context;
	if (!context)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	return context_prepare(context, parts);
}

/* Around the plugin's function that connects the ranks, and may ask whether another rank has failed (host->aborted). */
static void context_open_begin(struct context *context, const struct context_making *making)
{
	context->opener = pthread_self();
	context->making = making;
	atomic_store(&context->given_up, 0);
	atomic_store(&context->opening, 1);
}

/* Returns the code of the function, with a text. */
static int context_open_end(struct context *context, int code, const coll_error_t *err)
{
	atomic_store(&context->opening, 0);
	context->making = NULL;
	if (code != host_open_code(context, code))
		return error_set(COLL_ERR_REMOTE, "another rank failed while the ranks were "
						  "connecting");
	return code ? error_take(code, err) : COLL_SUCCESS;
}

int context_open(struct context *context)
{
	coll_error_t err = error_blank();
	int code;

	plugin_will_finish(context->plugin);
	context_open_begin(context, NULL);
	code = context->plugin->backend.open(&context->host, &context->ep, &err);
	code = context_open_end(context, code, &err);
	if (!code)
		context_begin(context);
	return code;
}

int context_all_ok(const struct context *context, struct bootstrap *bootstrap, int code,
		   int64_t timeout_ms)
{
	/*
	 * The plugins of all ranks know the failure from an exchange, so no further exchange is needed.
	 */
	if (context && context->remote.code)
		return error_raise(&context->remote);
	return bootstrap_all_ok(bootstrap, context ? host_told_code(context, code) : code,
				timeout_ms);
}

int context_open_all(struct context *const *contexts, int n)
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
		hosts[r] = &contexts[r]->host;
	plugin_will_finish(contexts[0]->plugin);
	code = contexts[0]->plugin->backend.open_all(hosts, (uint32_t)n, eps, &err);
	for (int r = 0; r < n; r++) {
		contexts[r]->ep = eps[r];
		if (!code)
			context_begin(contexts[r]);
	}
	free(hosts);
	free(eps);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

int context_derive(struct context **out, struct context *parent, struct bootstrap *bootstrap)
{
	const struct context_parts parts = {.client = parent->client,
					    .bootstrap = bootstrap,
					    .config = parent->config,
					    .plugin = parent->plugin,
					    .selection = parent->selection,
					    .device = parent->device,
					    .device_named = parent->home.device >= 0};
	struct context *context = calloc(1, sizeof(*context));

	*out = context;
	if (!context) {
		bootstrap_close(bootstrap);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	}
	context->parent = parent;
	context->companion = parent->companion;
	context->host_context = parent->host_context;
	context_ref(parent);
	/* A shrink may follow an abort of the parent, which then does not concern the new context. */
	atomic_store(&context->constructing, !atomic_load(&parent->aborted));
	return context_prepare(context, &parts);
}

/* By the backend's own shrink or split. */
static int context_derive_native(struct context *context, const struct context_making *making)
{
	const coll_native_t *native = context->plugin->backend.native;
	void *parent = context->parent->ep;
	coll_error_t err = error_blank();
	int code;

	context_open_begin(context, making);
	if (making->exclude)
		code = native->shrink(parent, making->exclude, making->n, &context->host,
				      &context->ep, &err);
	else
		code = native->split(parent, making->color, making->key, &context->host,
				     &context->ep, &err);
	code = context_open_end(context, code, &err);
	if (!code)
		context_begin(context);
	return code;
}

int context_split_nothing(struct context *context, const struct context_making *making)
{
	const coll_native_t *native = context->plugin->backend.native;
	coll_error_t err = error_blank();
	void *none = NULL;
	int code;

	if (!native->split)
		return COLL_SUCCESS;
	context_open_begin(context, making);
	code = native->split(context->ep, COLL_SPLIT_NOCOLOR, making->key, NULL, &none, &err);
	return context_open_end(context, code, &err);
}

int context_derive_open(struct context *context, const struct context_making *making)
{
	int code, lost;

	if (making->exclude)
		companion_shrink_begin(context->parent, making, context->host.timeout_ms);
	atomic_store(&context->deriving, making->exclude ? CONTEXT_SHRINKS : CONTEXT_SPLITS);
	if (making->exclude || context->plugin->backend.native->split)
		code = context_derive_native(context, making);
	else
		code = context_open(context);
	atomic_store(&context->deriving, 0);
	if (making->exclude)
		companion_shrink_end(context->parent);
	lost = code ? companion_check_ranks(context) : COLL_SUCCESS;
	return lost ? lost : code;
}

void context_ref(struct context *context)
{
	atomic_fetch_add(&context->refs, 1);
}

static void context_close_endpoint(struct context *context, int64_t timeout_ms)
{
	struct control *next;
	void *ep = context->ep;

	context->ep =
		NULL; /* first: a fork in another thread must not find a half closed endpoint */
	if (ep)
		context->plugin->backend.close(ep, timeout_ms);
	for (struct control *n = context->controls; n; n = next) {
		next = n->next;
		free(n->body);
		free(n);
	}
	context->controls = NULL;
}

/*
 * The ranks of a backend whose close is collective wait for each other.  Returns the time that is left for close, or
 * 0 if close must not wait for other ranks.
 */
static int64_t context_meet_to_close(const struct context *context, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	if (!(context->plugin->backend.flags & COLL_BACKEND_CLOSE_TOGETHER) || !context->ep ||
	    !context->bootstrap || bootstrap_in_process(context->bootstrap))
		return timeout_ms;
	if (timeout_ms == 0 || bootstrap_all_ok(context->bootstrap, COLL_SUCCESS, timeout_ms))
		return 0;
	return clock_remaining(deadline);
}

/*
 * A thread that is gone, or that is still in a call, may use the context.  What the kernel has for the endpoint is given
 * back if no thread has the lock; only the memory is kept.
 */
static void context_leave_behind(struct context *context, int64_t timeout_ms)
{
	if (!context->plugin->backend.transport || !context_lock_within(context, timeout_ms))
		return;
	context_close_endpoint(context, timeout_ms);
	lock_release(&context->lock);
	wait_abandon(context);
	if (context->has_progress_thread)
		pthread_detach(context->thread);
	atomic_store(&context->stop, 1);
	context_wake(context);
}

/* Returns 0 if a thread has left the library while it drove other contexts, and so keeps the list of contexts locked. */
static int context_leave_list(struct context *context)
{
	const int left = wait_remove(context);

	if (!left)
		log_warn("rank %d: the memory of a communicator is not freed, since a thread has "
			 "left a call by siglongjmp or its own end",
			 context->rank);
	return left;
}

void context_unref(struct context *context, int64_t timeout_ms)
{
	struct context *parent = context->parent;

	if (atomic_fetch_sub(&context->refs, 1) > 1)
		return;
	if (atomic_load(&context->abandoned) || !context_leave_list(context)) {
		context_leave_behind(context, timeout_ms);
		return;
	}
	wait_thread_stop(context);
	companion_forget(context);
	context_close_endpoint(context, context_meet_to_close(context, timeout_ms));
	if (context->companion && !parent)
		companion_close(context->companion, timeout_ms);
	if (context->host_context && !parent)
		host_context_close(context->host_context, timeout_ms);
	context_free(context);
	if (parent)
		context_unref(parent, timeout_ms);
}

void context_withdraw(struct context *context, int64_t timeout_ms)
{
	const int removed = wait_remove(context);

	context_close_endpoint(context, timeout_ms);
	bootstrap_watch(context->bootstrap, NULL);
	context->bootstrap = NULL;
	context->plugins = NULL;
	context->config = NULL;
	if (removed)
		context_unref(context, 0);
}

void context_shut(struct context *context)
{
	if (!context->ep)
		return;
	context_close_endpoint(context, 0);
	context->client->shut(context);
}

static int context_reap_controls(struct context *context)
{
	int moved = 0;

	for (struct control **at = &context->controls; *at;) {
		struct control *n = *at;

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

int context_send_more(struct context *context, coll_send_t *send, coll_error_t *err)
{
	const coll_transport_t *t = context->plugin->backend.transport;

	if (!t->send_more)
		return t->send(context->ep, send, err);
	context->unflushed = 1;
	return t->send_more(context->ep, send, err);
}

static int context_has_alarm(const struct context *context)
{
	return atomic_load_explicit(&context->alarm.news, memory_order_relaxed);
}

/* Has the companion news since the last call? */
static int context_is_alarmed(struct context *context)
{
	return context_has_alarm(context) && atomic_exchange(&context->alarm.news, 0);
}

/* 1: control messages have come. */
static int context_take_news(struct context *context)
{
	const int alarmed = context_is_alarmed(context), controls = context->match.controls != 0;

	if (context->pending_events || alarmed || !controls) {
		context->pending_events = 0;
		context->client->check(context);
	} else {
		context->client->controls(context);
	}
	context->match.controls = 0;
	return controls;
}

int context_progress(struct context *context)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	struct recv *recv;
	int moved = 0, controls = 0;

	if (context->ep && t)
		moved = t->progress(context->ep);
	while ((recv = match_next_done(&context->match)))
		context->client->received(recv);
	if (context->pending_events || context->match.controls || context_has_alarm(context))
		controls = context_take_news(context);
	if (context->controls)
		controls |= context_reap_controls(context);
	moved |= controls;
	/* The flush completes most sends, and so the steps that waited for them. */
	do
		moved |= context->client->advance(context);
	while (context_flush(context));
	if (context->sleepers_have_news && context->sleepers)
		context_wake(context);
	context->sleepers_have_news = 0;
	context->progress_count += moved != 0;
	context->control_count += controls != 0;
	return moved;
}

void context_wake(struct context *context)
{
	CANCEL_OFF;
	uint64_t one = 1;
	ssize_t n = write(context->wake_fd, &one, sizeof(one));

	(void)n; /* a full counter means that a wake-up is already due */
}

void context_notify(struct context *context)
{
	atomic_store(&context->alarm.news, 1);
	context_wake(context);
}

static void context_send_body(struct context *context, int peer, uint64_t tag,
			      const struct control_body *body, const void *bytes, size_t len)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	coll_error_t err = error_blank();
	struct control *n;

	if (!t) {
		if (context->companion)
			companion_send(context, peer, body, bytes, len);
		return;
	}
	n = calloc(1, sizeof(*n));
	if (n)
		n->body = malloc(sizeof(*n->body) + len);
	if (!n || !n->body || !context->ep || context->failure[peer]) {
		free(n ? n->body : NULL);
		free(n);
		return;
	}
	*n->body = *body;
	memcpy(n->body->text, bytes, len);
	n->send.header.tag = tag;
	n->send.header.len = sizeof(*n->body) + len;
	n->send.buf = n->body;
	n->send.peer = (uint32_t)peer;
	n->send.memory = COLL_MEM_HOST;
	n->send.status = COLL_IN_PROGRESS;
	n->next = context->controls;
	context->controls = n;
	if (t->send(context->ep, &n->send, &err))
		n->send.status = COLL_ERR_PEER_LOST; /* reaped with the others */
}

void context_send_control(struct context *context, int peer, uint64_t tag, int kind, int code,
			  const char *text)
{
	const struct control_body body = {.kind = kind, .code = code};

	context_send_body(context, peer, tag, &body, text, strlen(text) + 1);
}

void context_send_struct(struct context *context, int peer, uint64_t tag, int kind,
			 const void *bytes, size_t len)
{
	const struct control_body body = {.kind = kind};

	context_send_body(context, peer, tag, &body, bytes, len);
}

int context_controls_pending(struct context *context)
{
	context_reap_controls(context);
	return context->controls != NULL;
}
