/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - the host functions that the kit gives to a plugin.  They record how the plugin uses them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/siphash.h"
#include "check/host/host.h"
#include "lib/tool.h"
#include "oracle/oracle.h"

enum { HOST_SLEEP_US = 200, HOST_WORLD_STEPS = CHECK_STEPS / 4 };
enum {
	HOST_SHARES = COLL_SHARES_HOST | COLL_SHARES_NETWORK | COLL_SHARES_PIDS |
		      COLL_SHARES_FILES | COLL_SHARES_IPC
};

static struct check_ep *host_ep(const coll_host_t *host)
{
	return host->core;
}

void *check_memory(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p) {
		fprintf(stderr, "the kit has no memory left\n");
		_exit(1);
	}
	return p;
}

/* ------------------------------------------------------------------ any time -- */

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	if (!text || !*text || strchr(text, '\n') || level < COLL_LOG_ERROR ||
	    level > COLL_LOG_TRACE)
		host_ep(host)->seen.logged_badly = 1;
}

static const char *host_option_string(const coll_host_t *host, const char *key)
{
	const coll_option_t *option = check_option_find(host_ep(host)->plugin, key);

	if (!option || option->type != COLL_OPTION_STRING)
		return NULL;
	return check_option_text(host_ep(host)->c, option);
}

static int64_t host_option_int(const coll_host_t *host, const char *key)
{
	const coll_option_t *option = check_option_find(host_ep(host)->plugin, key);
	const char *text;
	int64_t value;

	if (!option || option->type == COLL_OPTION_STRING)
		return 0;
	text = check_option_text(host_ep(host)->c, option);
	return text && !check_option_value(option, text, &value) ? value : 0;
}

static int32_t host_exchange_error(coll_error_t *err, int32_t code, const char *text)
{
	if (err) {
		snprintf(err->text, sizeof(err->text), "%s", text);
		err->code = code;
	}
	return code;
}

static void host_hold(const struct check_ep *ep)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;

	while (!atomic_load(&ep->c->shared->number[CHECK_RELEASED]) && tool_now_ms() < deadline)
		usleep(HOST_SLEEP_US);
}

static int32_t host_exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			     int64_t timeout_ms, coll_error_t *err)
{
	struct check_ep *ep = host_ep(host);
	int call = (int)++ep->exchanges;

	if (call == ep->open_mode.fail_exchange && !ep->open_mode.fail_after)
		return host_exchange_error(err, ep->open_mode.fail_code,
					   "the kit failed an exchange");
	if (check_exchange(ep->c, ep->rank, &ep->step, in, out, len, timeout_ms))
		return host_exchange_error(err, COLL_ERR_TIMEOUT,
					   "other ranks were not heard from");
	if (atomic_load(&ep->c->shared->gave_up[ep->step - 1]))
		return host_exchange_error(err, COLL_ERR_REMOTE, "another rank has failed");
	if (call == ep->open_mode.block_exchange)
		host_hold(ep);
	if (call == ep->open_mode.fail_exchange)
		return host_exchange_error(err, ep->open_mode.fail_code,
					   "the kit failed an exchange");
	return COLL_SUCCESS;
}

static int32_t host_exchange_fail(const coll_host_t *host, int32_t code, const char *text,
				  int64_t timeout_ms)
{
	struct check_ep *ep = host_ep(host);

	(void)text;
	ep->exchanges++;
	if (ep->step < CHECK_STEPS)
		atomic_store(&ep->c->shared->gave_up[ep->step], ep->rank + 1);
	check_exchange(ep->c, ep->rank, &ep->step, NULL, NULL, 0, timeout_ms);
	return code;
}

static void host_mac(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16])
{
	siphash128(host->key, data, len, out);
}

static int32_t host_aborted(const coll_host_t *host)
{
	return atomic_load(&host_ep(host)->aborted);
}

static void *host_alloc(const coll_host_t *host, uint64_t bytes)
{
	void *p;

	(void)host;
	return posix_memalign(&p, 64, bytes ? bytes : 1) ? NULL : p;
}

static void host_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	free(ptr);
}

/* The kit reduces types of one number. */
static int32_t host_reduce(const coll_host_t *host, void *dst, const void *left, const void *right,
			   uint64_t count, int32_t dtype, int32_t op)
{
	(void)host;
	if (op == COLL_AVG)
		op = COLL_SUM;
	if (op < COLL_SUM || oracle_parts(dtype) > 1 || oracle_format(dtype)->dtype != dtype ||
	    !oracle_op_fits(op, dtype))
		return COLL_ERR_UNSUPPORTED;
	oracle_reduce_all(oracle_format(dtype), op, dst, left, right, count, 1);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ receiving -- */

static void host_inside(struct check_ep *ep, const char *name)
{
	if (ep->progressing && pthread_equal(ep->thread, pthread_self()))
		return;
	ep->seen.outside = 1;
	ep->seen.outside_name = name;
}

static int32_t host_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   coll_sink_t *sink)
{
	struct check_ep *ep = host_ep(host);
	struct check_arrival *a;

	host_inside(ep, "arrive");
	if (peer >= (uint32_t)ep->nranks) {
		ep->seen.bad_peer = 1;
		return COLL_ERR_INTERNAL;
	}
	ep->arrived_count++;
	if (ep->open_mode.refuse_peer == (int)peer + 1) {
		memset(sink, 0, sizeof(*sink));
		return COLL_ERR_INTERNAL;
	}
	if (header->len > (uint64_t)1 << 32)
		return COLL_ERR_NO_MEMORY; /* a length that no check sends */
	a = check_memory(sizeof(*a));
	a->memory = malloc(header->len + 2 * CHECK_GUARD);
	if (!a->memory) {
		free(a);
		return COLL_ERR_NO_MEMORY;
	}
	memset(a->memory, 0xa5, header->len + 2 * CHECK_GUARD);
	a->buf = a->memory + CHECK_GUARD;
	a->peer = peer;
	a->header = *header;
	a->by_data = ep->open_mode.by_data;
	a->status = COLL_IN_PROGRESS;
	*ep->arrivals_end = a;
	ep->arrivals_end = &a->next;
	ep->latest = a;
	*sink = (coll_sink_t){
		.cookie = (uintptr_t)a, .memory = COLL_MEM_HOST, .buf = a->by_data ? NULL : a->buf};
	return COLL_SUCCESS;
}

static struct check_arrival *host_cookie(struct check_ep *ep, uint64_t cookie)
{
	struct check_arrival *a = ep->latest;

	if (!a || (uintptr_t)a != cookie)
		a = ep->arrivals;
	while (a && (uintptr_t)a != cookie)
		a = a->next;
	ep->seen.cookie |= !a;
	if (a && a->dropped)
		ep->seen.after_drop = 1;
	return a;
}

static void host_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	struct check_ep *ep = host_ep(host);
	struct check_arrival *a;

	host_inside(ep, "data");
	a = host_cookie(ep, cookie);
	if (!a || a->dropped)
		return;
	if (a->ends || n > a->header.len - a->got) {
		ep->seen.over = 1;
		return;
	}
	if (n)
		memcpy(a->buf + a->got, bytes, n);
	a->got += n;
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	struct check_ep *ep = host_ep(host);
	struct check_arrival *a;

	host_inside(ep, "arrived");
	a = host_cookie(ep, cookie);
	if (!a || a->dropped)
		return;
	ep->seen.twice |= a->ends++ > 0;
	ep->seen.under |= a->by_data && !status && a->got != a->header.len;
	if (a->ends == 1)
		a->status = status;
}

/* Set only if the case is `whole`. */
static int32_t host_message(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			    const void *bytes)
{
	struct check_ep *ep = host_ep(host);
	coll_sink_t sink;
	int32_t code;

	host_inside(ep, "message");
	code = host_arrive(host, peer, header, &sink);
	if (code)
		return code;
	ep->whole_count++;
	host_data(host, sink.cookie, bytes, header->len);
	host_arrived(host, sink.cookie, COLL_SUCCESS);
	return COLL_SUCCESS;
}

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	struct check_ep *ep = host_ep(host);

	host_inside(ep, "peer_lost");
	if (peer >= (uint32_t)ep->nranks) {
		ep->seen.bad_peer = 1;
		return;
	}
	ep->seen.lost_twice |= ep->lost[peer]++ > 0;
	snprintf(ep->lost_text[peer], sizeof(ep->lost_text[peer]), "%s", text ? text : "");
}

/* ------------------------------------------------------------------ endpoints -- */

struct check_ep *check_ep_new(struct check_case *c, int rank, int world)
{
	struct check_ep *ep = check_memory(sizeof(*ep));
	const char *text;

	ep->c = c;
	ep->plugin = check_plugin(c, &text);
	ep->t = &ep->plugin->transport;
	ep->rank = rank;
	ep->nranks = c->nranks;
	ep->step = (unsigned)world * HOST_WORLD_STEPS;
	ep->arrivals_end = &ep->arrivals;
	ep->err.size = sizeof(ep->err);
	ep->host = (coll_host_t){.size = sizeof(ep->host),
				 .abi_minor = COLL_BACKEND_ABI_MINOR,
				 .rank = (uint32_t)rank,
				 .nranks = (uint32_t)c->nranks,
				 .device = check_device(c, rank),
				 .timeout_ms = c->timeout_ms,
				 .core = ep,
				 .log = host_log,
				 .option_string = host_option_string,
				 .option_int = host_option_int,
				 .exchange = host_exchange,
				 .mac = host_mac,
				 .aborted = host_aborted,
				 .alloc = host_alloc,
				 .free = host_free,
				 .arrive = host_arrive,
				 .data = host_data,
				 .arrived = host_arrived,
				 .peer_lost = host_peer_lost,
				 .reduce = host_reduce,
				 .exchange_fail = host_exchange_fail,
				 .key_is_secret = 1,
				 .shares = ep->shares};
	if (c->whole)
		ep->host.message = host_message;
	else
		ep->host.size = offsetof(coll_host_t, posted);
	/* All ranks are on this host. */
	memset(ep->shares, HOST_SHARES | (c->processes ? 0 : COLL_SHARES_PROCESS),
	       sizeof(ep->shares));
	ep->shares[rank] |= COLL_SHARES_PROCESS;
	/* The key is the same on all ranks and differs between communicators, also of kits that run at the same time. */
	for (int i = 0; i < 16; i++)
		ep->host.key[i] = (uint8_t)((i * 37 + world * 101 + 11) ^ (getpgrp() >> i % 4 * 8));
	return ep;
}

int32_t check_ep_open(struct check_ep *ep)
{
	if (ep->open_mode.timeout_ms)
		ep->host.timeout_ms = ep->open_mode.timeout_ms;
	check_slot(ep->c, ep->rank, "open");
	ep->code = ep->plugin->backend.open(&ep->host, &ep->ep, &ep->err);
	check_slot(ep->c, ep->rank, NULL);
	return ep->code;
}

int check_open(struct check_ep *ep)
{
	if (!check_ep_open(ep))
		return 0;
	check_fail(ep->c, "rank %d: open returned %d: %.300s", ep->rank, ep->code, ep->err.text);
	check_close(ep, 0);
	return -1;
}

int64_t check_close(struct check_ep *ep, int64_t timeout_ms)
{
	int64_t begin = tool_now_ms();
	void *own = ep->ep;

	ep->ep = NULL;
	if (!own)
		return 0;
	check_slot(ep->c, ep->rank, "close");
	ep->plugin->backend.close(own, timeout_ms);
	check_slot(ep->c, ep->rank, NULL);
	return tool_now_ms() - begin;
}

void check_ep_free(struct check_ep *ep)
{
	struct check_arrival *a, *next;

	for (a = ep->arrivals; a; a = next) {
		next = a->next;
		free(a->memory);
		free(a);
	}
	free(ep);
}

void check_line(struct check_ep *ep, const char *slot,
		int32_t (*write)(struct check_ep *ep, char *buf, uint64_t size))
{
	enum { SIZE = 64, GUARD = 16, POISON = 0x5a };
	char buf[SIZE + GUARD];
	int32_t code;

	for (uint64_t size = SIZE; size >= 1; size /= 4) {
		memset(buf, POISON, sizeof(buf));
		check_slot(ep->c, ep->rank, slot);
		code = write(ep, buf, size);
		check_slot(ep->c, ep->rank, NULL);
		for (uint64_t i = size; i < size + GUARD; i++)
			if (buf[i] != POISON)
				check_fail(ep->c, "%s wrote beyond the %d bytes it was given", slot,
					   (int)size);
		if (!code && !memchr(buf, 0, size))
			check_fail(ep->c, "%s did not end its text within %d bytes", slot,
				   (int)size);
		else if (!code && strchr(buf, '\n'))
			check_fail(ep->c, "%s wrote more than one line", slot);
	}
}

static void host_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	if (!check_open(ep)) {
		c->check->endpoint(ep);
		check_progress_barrier(ep);
		check_close(ep, c->timeout_ms);
	}
	check_ep_free(ep);
}

void check_endpoints(struct check_case *c)
{
	check_ranks(c, host_rank);
}
