/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c - makes contexts, opens and closes their endpoints, and frees them. */
#include "endpoint/context.h"
#include "algorithm/rules.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "endpoint/context_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ------------------------------------------------------------------ its host -- */

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
	int size = context->node_size;

	if (!size)
		return bootstrap_hosts(context->bootstrap, COLL_SHARES_HOST, context->node);
	for (int r = 0; r < context->nranks; r++)
		context->node[r] = r - r % size;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------ making, opening -- */

/* Makes all parts except the endpoint. */
static int context_prepare(struct context *context, const struct context_parts *parts)
{
	int failed, cpus;

	context->refs = 1;
	context->refused = -1;
	context->bootstrap = parts->bootstrap;
	context->config = parts->config;
	context->plugins = parts->plugins;
	context->plugin = parts->plugin;
	context->node_size = parts->node_size;
	context->rank = bootstrap_rank(parts->bootstrap);
	context->nranks = bootstrap_nranks(parts->bootstrap);
	cpus = context_count_cpus(parts->bootstrap, context->rank);
	context->oversubscribed = cpus != CPUS_OWN;
	context->cpus = context_same_host(parts->bootstrap, context->rank, 0)
				? cpus
				: context_count_cpus(parts->bootstrap, 0);
	context->waits.poll_us = context->oversubscribed ? 0 : config_int(parts->config, "poll");
	context->waits.polls_us = context->waits.poll_us;
	context->waits.yield_us = config_int(parts->config, "yield");
	context->waits.yields_anyway = config_is_set(parts->config, "yield");
	context->timeout_us = config_int(parts->config, "timeout");
	context->stall_us = config_int(parts->config, "stall_after");
	context->check_buffers = config_int(parts->config, "check_buffers") != 0;
	context->fallback = config_int(parts->config, "enable_gpu_fallback") != 0;
	context->failure = calloc((size_t)context->nranks, sizeof(*context->failure));
	context->waits.wake_fd = descriptor_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	failed = errno;
	context->node = calloc((size_t)context->nranks, sizeof(*context->node));
	context->shares = calloc((size_t)context->nranks, sizeof(*context->shares));
	context->device_named = parts->device_named;
	host_fill(context, parts->device);
	if (context->client->begin)
		context->client->begin(context, parts);
	if (!context->failure || !context->node || !context->shares)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", context->nranks);
	if (context->waits.wake_fd < 0)
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
		context->device = native->device(context->ep);
}

/* Reads the properties of the opened endpoint. */
static void context_begin(struct context *context)
{
	wait_watch_forks(); /* the client's own handlers come after it, so that a fork takes the client's locks first */
	context_ask_memory(context);
	context_ask_device(context);
	if (context->client->opened)
		context->client->opened(context);
	atomic_store(&context->opening.constructing, 0);
	bootstrap_watch(context->bootstrap, &context->aborted);
	wait_add(context);
}

/* Memory for a context and its client's part. */
static struct context *context_new(const struct context_client *client)
{
	struct context *context = calloc(1, client->size);

	if (context)
		context->client = client;
	else
		(void)error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	return context;
}

int context_make(struct context **out, const struct context_parts *parts)
{
	*out = context_new(parts->client);
	return *out ? context_prepare(*out, parts) : COLL_ERR_NO_MEMORY;
}

/* Around the plugin's function that connects the ranks, and may ask whether another rank has failed (host->aborted). */
static void context_open_begin(struct context *context, const struct context_making *making)
{
	context->opening.thread = pthread_self();
	context->opening.making = making;
	atomic_store(&context->opening.given_up, 0);
	atomic_store(&context->opening.runs, 1);
}

/* Returns the code of the function, with a text. */
static int context_open_end(struct context *context, int code, const coll_error_t *err)
{
	atomic_store(&context->opening.runs, 0);
	context->opening.making = NULL;
	if (code != host_open_code(context, code))
		return error_set(COLL_ERR_REMOTE, "another rank failed while the ranks were "
						  "connecting");
	return code ? error_take(code, err) : COLL_SUCCESS;
}

/* By the backend's open. */
static int context_open_making(struct context *context, const struct context_making *making)
{
	coll_error_t err;
	const int is_first = plugin_open_begin(context->plugin);
	int code;

	error_clear(&err);
	context_open_begin(context, making);
	code = context->plugin->backend.open(&context->host, &context->ep, &err);
	plugin_open_end(context->plugin, is_first);
	code = context_open_end(context, code, &err);
	if (!code)
		context_begin(context);
	return code;
}

int context_open(struct context *context)
{
	return context_open_making(context, NULL);
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
	coll_error_t err;
	int code, is_first;

	error_clear(&err);
	if (!hosts || !eps) {
		free(hosts);
		free(eps);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
	}
	for (int r = 0; r < n; r++)
		hosts[r] = &contexts[r]->host;
	is_first = plugin_open_begin(contexts[0]->plugin);
	code = contexts[0]->plugin->backend.open_all(hosts, (uint32_t)n, eps, &err);
	plugin_open_end(contexts[0]->plugin, is_first);
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
					    .node_size = parent->node_size,
					    .device = parent->device,
					    .device_named = parent->device_named};
	struct context *context = context_new(parent->client);
	int code;

	*out = context;
	if (!context) {
		bootstrap_close(bootstrap);
		return COLL_ERR_NO_MEMORY;
	}
	context->parent = parent;
	context->host_context = parent->host_context;
	context_ref(parent);
	/* A shrink may follow an abort of the parent, which then does not concern the new context. */
	atomic_store(&context->opening.constructing, !atomic_load(&parent->aborted));
	code = context_prepare(context, &parts);
	context_inherit_observers(context, parent);
	return code;
}

/* By the backend's own shrink or split. */
static int context_derive_native(struct context *context, const struct context_making *making)
{
	const coll_native_t *native = context->plugin->backend.native;
	void *parent = context->parent->ep;
	coll_error_t err;
	int code;

	error_clear(&err);
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
	coll_error_t err;
	void *none = NULL;
	int code;

	error_clear(&err);
	if (!native->split)
		return COLL_SUCCESS;
	context_open_begin(context, making);
	code = native->split(context->ep, COLL_SPLIT_NOCOLOR, making->key, NULL, &none, &err);
	return context_open_end(context, code, &err);
}

int context_derive_open(struct context *context, const struct context_making *making)
{
	const coll_native_t *native = context->plugin->backend.native;
	int code;

	atomic_store(&context->opening.deriving,
		     making->exclude ? CONTEXT_SHRINKS : CONTEXT_SPLITS);
	if (making->exclude ? native->shrink != NULL : native->split != NULL)
		code = context_derive_native(context, making);
	else
		code = context_open_making(context, making->exclude ? making : NULL);
	atomic_store(&context->opening.deriving, 0);
	return code;
}

void context_describe(const struct context *context, char *text, size_t size)
{
	const coll_transport_t *t = context->plugin->backend.transport;

	text[0] = '\0';
	if (context->ep && t && t->describe)
		t->describe(context->ep, text, size);
	text[strcspn(text, "\r\n")] = '\0';
}

/* ------------------------------------------------------------------------ its end -- */

void context_ref(struct context *context)
{
	atomic_fetch_add(&context->refs, 1);
}

/* Configuration and plugins belong to the first of the contexts that were derived from one another. */
static void context_free(struct context *context)
{
	if (context->client->free)
		context->client->free(context);
	for (int i = 0; i < CONTEXT_FREED; i++)
		free(context->freed[i]);
	for (int r = 0; context->failure && r < context->nranks; r++)
		if (context->failure[r] != host_no_cause)
			free(context->failure[r]);
	free(context->failure);
	free(context->node);
	free(context->origin);
	free(context->shares);
	free(context->waits.crowd);
	if (context->plugins) /* before the bootstrap, where the observers read the host's name until they are closed */
		observers_close(context->observers);
	bootstrap_close(context->bootstrap);
	if (!context->parent) {
		plugins_free(context->plugins);
		config_free(context->config);
	}
	if (context->waits.wake_fd >= 0)
		close(context->waits.wake_fd);
	free(context);
}

/* Accepts a context whose endpoint is closed already. */
static void context_close_endpoint(struct context *context, int64_t timeout_ms)
{
	void *ep = context->ep;

	if (ep && context->lanes && context->client->close_splits)
		context->client->close_splits(context);
	context->ep =
		NULL; /* first: a fork in another thread must not find a half closed endpoint */
	if (ep)
		context->plugin->backend.close(ep, timeout_ms);
}

void context_withdraw(struct context *context, int64_t timeout_ms)
{
	const int removed = wait_remove(context);

	context_close_endpoint(context, timeout_ms);
	bootstrap_watch(context->bootstrap, NULL);
	if (context->client->closed)
		context->client->closed(context, timeout_ms);
	context->bootstrap = NULL;
	context->plugins = NULL;
	context->config = NULL;
	if (removed && atomic_fetch_sub(&context->refs, 1) == 1)
		context_free(context);
}

void context_shut(struct context *context)
{
	if (!context->ep)
		return;
	context_close_endpoint(context, 0);
	context->client->shut(context);
}

/* For the wait of the ranks: another rank may need the last data of operations that are complete here. */
static int context_poll_last(void *user)
{
	const struct context *context = user;
	coll_error_t err;

	error_clear(&err);
	if (context_rests(context))
		(void)context->plugin->backend.native->query(context->ep, &err);
	return COLL_SUCCESS;
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
	bootstrap_guard(context->bootstrap, context_poll_last, (void *)(uintptr_t)context);
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
	if (context->progress.started)
		pthread_detach(context->progress.thread);
	atomic_store(&context->progress.stop, 1);
	context_wake(context);
}

/* Returns 0 if a thread has left the library while it drove other contexts, and so keeps the list of contexts locked. */
static int context_leave_list(struct context *context)
{
	const int left = wait_remove(context);

	if (!left)
		context_log(
			context, COLL_LOG_WARN,
			"rank %d: the memory of a communicator is not freed, since a thread has "
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
	if (context->client->closing)
		context->client->closing(context);
	context_close_endpoint(context, context_meet_to_close(context, timeout_ms));
	if (context->client->closed)
		context->client->closed(context, timeout_ms);
	context_free(context);
	if (parent)
		context_unref(parent, timeout_ms);
}
