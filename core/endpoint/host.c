/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c - the table of functions that an endpoint's plugin gets from the core; transport/traffic.c has the functions that concern
 * messages and memory.
 */
#include "base/error.h"
#include "endpoint/context.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HOST_HUGE = 2 << 20 };

static struct context *host_core(const coll_host_t *host)
{
	return host->core;
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	const struct context *context = host_core(host);
	const struct log_about about = config_log_about(context->config, NULL);

	log_plugin(&about, level, context->plugin->backend.name, text);
}

static const char *host_option_string(const coll_host_t *host, const char *key)
{
	const struct context *context = host_core(host);

	return config_backend_string(context->config, &context->plugin->backend, key);
}

static int64_t host_option_int(const coll_host_t *host, const char *key)
{
	const struct context *context = host_core(host);

	return config_backend_int(context->config, &context->plugin->backend, key);
}

/*
 * An exchange that ends with the failure of a rank does so on every rank.  The failure is noted, and
 * answers all further exchanges of the plugin: no rank waits for one that has given up.
 */
static void host_note_failure(struct context *context, int code)
{
	if (bootstrap_rank_failed(context->bootstrap))
		error_note(&context->remote, code);
}

static int32_t host_exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			     int64_t timeout_ms, coll_error_t *err)
{
	struct context *context = host_core(host);
	int code = error_raise(&context->remote);

	if (!code) {
		code = bootstrap_exchange(context->bootstrap, in, out, len, timeout_ms);
		host_note_failure(context, code);
	}
	return code ? error_fill(err, code, "%s", error_text()) : COLL_SUCCESS;
}

int host_open_code(const struct context *context, int code)
{
	return code == COLL_ERR_ABORTED && atomic_load(&context->opening.given_up) &&
			       !atomic_load(&context->aborted)
		       ? COLL_ERR_REMOTE
		       : code;
}

int host_told_code(const struct context *context, int code)
{
	return code == COLL_ERR_REMOTE && !atomic_load(&context->opening.given_up)
		       ? BOOTSTRAP_REMOTE
		       : code;
}

static int32_t host_exchange_fail(const coll_host_t *host, int32_t code, const char *text,
				  int64_t timeout_ms)
{
	struct context *context = host_core(host);

	context->told_failure = 1;
	if (!context->remote.code)
		host_note_failure(context,
				  bootstrap_exchange_fail(
					  context->bootstrap,
					  host_told_code(context, host_open_code(context, code)),
					  text ? text : coll_error_string(code), timeout_ms));
	return code;
}

static void host_mac(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16])
{
	siphash128(host->key, data, len, out);
}

/* While the plugin connects the ranks of a derived context, which nobody watches yet: has a rank died? */
static int host_lost_rank(const struct context *context)
{
	int lost = 0;

	for (int r = 0; context->origin && !lost && r < context->nranks; r++)
		lost = context_has_lost(context, r);
	return lost;
}

/* While the plugin connects the ranks: another rank has failed, so that it will never be connected. */
static int host_other_failed(struct context *context)
{
	/* Another thread must not look at the connections on which this one may run an exchange. */
	if (!atomic_load(&context->opening.runs) ||
	    !pthread_equal(context->opening.thread, pthread_self()))
		return 0;
	if (!atomic_load(&context->opening.given_up) &&
	    (context->opening.making
		     ? context->opening.making->failed(context->opening.making->user)
		     : bootstrap_failure_waits(context->bootstrap)))
		atomic_store(&context->opening.given_up, 1);
	return atomic_load(&context->opening.given_up);
}

static int32_t host_aborted(const coll_host_t *host)
{
	struct context *context = host_core(host);
	const int deriving = atomic_load(&context->opening.deriving);

	wait_help(context);
	return atomic_load(&context->aborted) ||
	       (atomic_load(&context->opening.constructing) &&
		atomic_load(&context->parent->aborted)) ||
	       (deriving == CONTEXT_SPLITS && atomic_load(&context->parent->notice.ended)) ||
	       (deriving && host_lost_rank(context)) || host_other_failed(context);
}

static void *host_alloc(const coll_host_t *host, uint64_t bytes)
{
	size_t align = bytes >= HOST_HUGE ? HOST_HUGE : 64;
	void *p;

	(void)host;
	if (posix_memalign(&p, align, bytes ? bytes : 1))
		return NULL;
	if (align == HOST_HUGE)
		madvise(p, bytes, MADV_HUGEPAGE); /* a hint: a refusal does no harm */
	return p;
}

static void host_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	free(ptr);
}

char host_no_cause[] = "there was no memory for the cause";

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	struct context *context = host_core(host);
	char refusal[160], *cause;

	if (peer >= host->nranks || context->failure[peer])
		return;
	if (context->refused ==
	    (int)peer) { /* a plugin that does not know the cause names the peer */
		snprintf(refusal, sizeof(refusal),
			 "rank %d had no memory for a message of %llu bytes from it, and ended the "
			 "connection",
			 context->rank, (unsigned long long)context->refused_len);
		text = refusal;
	}
	cause = strdup(text ? text : "no reason given");
	/* A plugin reports a peer once: without a text the loss would be forgotten. */
	context->failure[peer] = cause ? cause : host_no_cause;
	context->pending_events = 1;
}

static void host_set_shares(struct context *context)
{
	for (int r = 0; context->shares && r < context->nranks; r++) {
		uint8_t bits = bootstrap_shares(context->bootstrap, context->rank, r);

		if (context->oversubscribed && bits & COLL_SHARES_HOST)
			bits |= COLL_SHARES_PROCESSORS;
		context->shares[r] = bits;
	}
}

void host_fill(struct context *context, int device)
{
	context->host = (coll_host_t){
		.size = sizeof(coll_host_t),
		.abi_minor = COLL_BACKEND_ABI_MINOR,
		.rank = (uint32_t)context->rank,
		.nranks = (uint32_t)context->nranks,
		.device = device,
		.timeout_ms = config_int(context->config, "init_timeout") / 1000,
		.core = context,
		.log = host_log,
		.option_string = host_option_string,
		.option_int = host_option_int,
		.exchange = host_exchange,
		.mac = host_mac,
		.aborted = host_aborted,
		.alloc = host_alloc,
		.free = host_free,
		.peer_lost = host_peer_lost,
		.exchange_fail = host_exchange_fail,
		.key_is_secret = (uint32_t)bootstrap_key_is_secret(context->bootstrap),
		.shares = context->shares,
	};
	host_set_shares(context);
	bootstrap_key(context->bootstrap, context->host.key);
}
