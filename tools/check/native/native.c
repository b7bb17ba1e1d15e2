/* SPDX-License-Identifier: BSD-3-Clause */
/* native.c - the native group without libcoll; the checks through coll.h cover its collectives. */
#include <pthread.h>
#include <string.h>
#include "check/host/host.h"
#include "check/native/native.h"
#include "lib/tool.h"

enum { NATIVE_BOUND_MS = 5000, NATIVE_ABORTS = 2 };

typedef int32_t (*native_slot)(void *ep, const coll_args_t *args, coll_error_t *err);

static void native_expect(struct check_ep *ep, const char *what, int32_t code,
			  const coll_error_t *err)
{
	if (code)
		check_fail(ep->c, "rank %d: %s returned %d: %.300s", ep->rank, what, code,
			   err->text);
}

static void native_in_time(struct check_ep *ep, const char *what, int64_t begin, int64_t bound)
{
	int64_t took = tool_now_ms() - begin;

	if (took > bound)
		check_fail(ep->c, "rank %d: %s took %lld ms", ep->rank, what, (long long)took);
}

/* ------------------------------------------------------------------ idle -- */

static void native_idle_rank(struct check_ep *ep)
{
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};
	int64_t begin = tool_now_ms();

	native_expect(ep, "query of an idle endpoint", n->query(ep->ep, &err), &err);
	if (n->sync)
		native_expect(ep, "sync of an idle endpoint", n->sync(ep->ep, 1000, &err), &err);
	if (n->async_error)
		native_expect(ep, "async_error", n->async_error(ep->ep, &err), &err);
	native_in_time(ep, "query, sync and async_error with nothing to do", begin,
		       NATIVE_BOUND_MS);
}

static void native_group_rank(struct check_ep *ep)
{
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};

	if (!n->group_begin) {
		check_skip(ep->c, "the plugin has no native->group_begin");
		return;
	}
	native_expect(ep, "group_begin", n->group_begin(ep->ep, &err), &err);
	native_expect(ep, "group_end of an empty group", n->group_end(ep->ep, &err), &err);
	native_expect(ep, "query after it", n->query(ep->ep, &err), &err);
}

/* ------------------------------------------------------------------ abort -- */

static void *native_abort_thread(void *arg)
{
	struct check_ep *ep = arg;

	for (int i = 0; i < NATIVE_ABORTS; i++)
		ep->plugin->native.abort(ep->ep);
	return NULL;
}

static void native_abort_rank(struct check_ep *ep)
{
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};
	int64_t begin = tool_now_ms();
	pthread_t thread;

	if (!n->abort) {
		check_skip(ep->c, "the plugin has no native->abort");
		return;
	}
	check_slot(ep->c, ep->rank, "abort");
	if (pthread_create(&thread, NULL, native_abort_thread, ep))
		return;
	/* query may return any code; the check is that abort returns. */
	n->query(ep->ep, &err);
	n->abort(ep->ep);
	pthread_join(thread, NULL);
	n->query(ep->ep, &err);
	check_slot(ep->c, ep->rank, NULL);
	native_in_time(ep, "abort", begin, NATIVE_BOUND_MS);
}

/* ------------------------------------------------------------------ events -- */

static void native_events_rank(struct check_ep *ep)
{
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};
	int64_t begin = tool_now_ms();
	void *event = NULL;

	native_expect(ep, "event_create", n->event_create(ep->ep, &event, &err), &err);
	if (check_failed(ep->c))
		return;
	for (int i = 0; i < 3; i++) {
		native_expect(ep, "event_record", n->event_record(ep->ep, event, NULL, &err), &err);
		native_expect(ep, "event_wait", n->event_wait(ep->ep, event, NULL, &err), &err);
		native_expect(ep, "event_synchronize of an idle endpoint",
			      n->event_synchronize(ep->ep, event, NATIVE_BOUND_MS / 2, &err), &err);
		native_expect(ep, "event_query after event_synchronize",
			      n->event_query(ep->ep, event, &err), &err);
	}
	n->event_destroy(ep->ep, event);
	native_in_time(ep, "events of an idle endpoint", begin, 3 * (int64_t)NATIVE_BOUND_MS);
}

/* ------------------------------------------------------------------ split -- */

static int32_t native_no_exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
				  int64_t timeout_ms, coll_error_t *err)
{
	(void)host;
	(void)in;
	(void)out;
	(void)len;
	(void)timeout_ms;
	(void)err;
	return COLL_ERR_UNSUPPORTED;
}

/* A split: with `parts` colours each colour has the ranks at a distance of `parts`, in the opposite order. */
struct native_color {
	int32_t color; /* -1: this rank gets no communicator */
	int parts;     /* colours of the split */
	int world;     /* number of the communicator: see check_ep_new */
};

/* The host table of a split for a backend with a transport: the ranks find each other by the endpoint that is split. */
static void native_share(struct check_ep *made, const struct native_color *c)
{
	coll_host_t *host = &made->host;
	const uint8_t own = made->shares[host->rank];

	host->exchange = native_no_exchange;
	host->arrive = NULL;
	host->data = NULL;
	host->arrived = NULL;
	host->peer_lost = NULL;
	host->message = NULL;
	if (c->color < 0) {
		host->rank = host->nranks = 0;
		return;
	}
	made->shares[host->rank] = made->shares[(host->rank + 1) % host->nranks];
	host->nranks =
		(host->nranks - (uint32_t)c->color + (uint32_t)c->parts - 1) / (uint32_t)c->parts;
	host->rank = host->nranks - 1 - host->rank / (uint32_t)c->parts;
	made->shares[host->rank] = own;
	host->key[0] ^= (uint8_t)c->color;
}

/* Executes a call of one int32 on an endpoint that was split from `ep`.  Returns 0 if the backend does not do it. */
static int native_call(struct check_ep *ep, void *made, native_slot slot, int32_t kind, int32_t *x)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = kind,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = x,
				  .recvbuf = x,
				  .count = 1};
	const int64_t end = tool_now_ms() + ep->host.timeout_ms;
	coll_error_t err = {.size = sizeof(err)};
	unsigned idle = 0;
	int32_t code = slot ? slot(made, &args, &err) : COLL_ERR_UNSUPPORTED;

	if (code == COLL_ERR_UNSUPPORTED)
		return 0;
	if (!code)
		code = ep->plugin->native.query(made, &err);
	while (code == COLL_IN_PROGRESS && tool_now_ms() < end) {
		check_progress(ep);
		check_pause(&idle);
		code = ep->plugin->native.query(made, &err);
	}
	native_expect(ep, "a collective of the endpoint that split made", code, &err);
	return !code;
}

/* The ranks of the new endpoint are the ranks of the colour, in the order of the keys. */
static void native_try(struct check_ep *ep, const struct check_ep *made,
		       const struct native_color *c)
{
	const coll_native_t *n = &ep->plugin->native;
	int32_t sum = ep->rank + 1, first = ep->rank, want = 0, root = 0;

	for (int r = c->color; r < ep->nranks; r += c->parts) {
		want += r + 1;
		root = r;
	}
	if (native_call(ep, made->ep, n->allreduce, COLL_KIND_ALLREDUCE, &sum) && sum != want)
		check_fail(ep->c, "rank %d: the sum of the ranks with colour %d is %d, not %d",
			   ep->rank, c->color, sum, want);
	if (native_call(ep, made->ep, n->broadcast, COLL_KIND_BROADCAST, &first) && first != root)
		check_fail(ep->c,
			   "rank %d: the first rank with colour %d was rank %d, not rank %d, which "
			   "has the least key",
			   ep->rank, c->color, first, root);
}

/* Checks what split has given, and uses the new endpoint if the backend takes host memory. */
static void native_made(struct check_ep *ep, struct check_ep *made, const struct native_color *c)
{
	const coll_backend_t *backend = &ep->plugin->backend;
	coll_error_t err = {.size = sizeof(err)};

	if (c->color < 0) {
		if (made->ep)
			check_fail(ep->c, "rank %d: split with colour -1 left *newep not NULL",
				   ep->rank);
		made->ep = NULL;
	} else if (!made->ep) {
		check_fail(ep->c, "rank %d: split gave no endpoint", ep->rank);
	} else {
		native_expect(ep, "query of the endpoint that split made",
			      ep->plugin->native.query(made->ep, &err), &err);
		if (backend->flags & COLL_BACKEND_NATIVE_SPLIT && backend->memory & COLL_MEM_HOST)
			native_try(ep, made, c);
	}
}

static void native_split_as(struct check_ep *ep, const struct native_color *c)
{
	struct check_ep *made = check_ep_new(ep->c, ep->rank, c->world);
	coll_error_t err = {.size = sizeof(err)};
	const int shares = (ep->plugin->backend.flags & COLL_BACKEND_NATIVE_SPLIT) != 0;
	int64_t begin = tool_now_ms();
	int32_t code;

	if (shares)
		native_share(made, c);
	made->ep = c->color < 0 ? ep : NULL;
	check_slot(ep->c, ep->rank, "split");
	code = ep->plugin->native.split(ep->ep, c->color, shares ? -ep->rank : ep->rank,
					c->color < 0 && !shares ? NULL : &made->host, &made->ep,
					&err);
	check_slot(ep->c, ep->rank, NULL);
	native_in_time(ep, "split", begin, ep->host.timeout_ms + NATIVE_BOUND_MS);
	if (shares && code == COLL_ERR_UNSUPPORTED)
		check_skip(ep->c, "the endpoint does not split: %s", err.text);
	else
		native_expect(ep, "split", code, &err);
	if (code)
		made->ep = NULL;
	else
		native_made(ep, made, c);
	check_barrier(ep->c, ep->rank, &ep->step);
	check_close(made, shares ? 0 : 1000);
	check_ep_free(made);
}

/* The exchange of this kit is of all ranks, so a backend that needs it has one colour. */
static void native_split_rank(struct check_ep *ep)
{
	native_split_as(ep, &(struct native_color){0, 1, 1});
	native_split_as(ep, &(struct native_color){-1, 1, 2});
	if (ep->plugin->backend.flags & COLL_BACKEND_NATIVE_SPLIT)
		native_split_as(ep, &(struct native_color){ep->rank % 2, 2, 3});
}

/* ------------------------------------------------------------------ the rest -- */

static void native_register_rank(struct check_ep *ep)
{
	static uint8_t memory[4096];
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};
	void *handle = NULL;

	if (!n->mem_register) {
		check_skip(ep->c, "the plugin has no native->mem_register");
		return;
	}
	if (!(ep->plugin->backend.memory & COLL_MEM_HOST)) {
		check_skip(ep->c, "the plugin takes no host memory, which this check registers");
		return;
	}
	native_expect(ep, "mem_register",
		      n->mem_register(ep->ep, memory, sizeof(memory), COLL_MEM_HOST, &handle, &err),
		      &err);
	if (!check_failed(ep->c))
		n->mem_deregister(ep->ep, handle);
}

static void native_op_rank(struct check_ep *ep)
{
	const coll_native_t *n = &ep->plugin->native;
	coll_error_t err = {.size = sizeof(err)};
	const float scalar = 0.5f;
	int32_t op = -1, code;

	if (!n->op_create_pre_mul_sum || !n->op_destroy) {
		check_skip(ep->c, "the plugin has no native->op_create_pre_mul_sum");
		return;
	}
	code = n->op_create_pre_mul_sum(ep->ep, &op, &scalar, COLL_FLOAT32, 1, &err);
	if (code == COLL_ERR_UNSUPPORTED) {
		check_skip(ep->c, "the plugin has no such operation on float32");
		return;
	}
	native_expect(ep, "op_create_pre_mul_sum", code, &err);
	if (!code && op < COLL_AVG)
		check_fail(ep->c, "rank %d: the new operation has the number %d of an old one",
			   ep->rank, op);
	if (!code)
		native_expect(ep, "op_destroy", n->op_destroy(ep->ep, op, &err), &err);
}

/* ------------------------------------------------------------------ takes -- */

/* Address of buffers that nobody may read. */
static void *const native_nowhere = (void *)(uintptr_t)1;

/* Returns the answer for such a call.  bare: 1 leaves out the buffers and the count, which nobody may read. */
static int32_t native_ask(struct check_ep *ep, int32_t kind, int32_t dtype, uint32_t flags,
			  int bare)
{
	coll_error_t err = {.size = sizeof(err)};
	coll_args_t args = {.size = sizeof(args), .kind = kind, .dtype = dtype, .flags = flags};
	int32_t code;

	if (!bare) {
		args.sendbuf = args.recvbuf = native_nowhere;
		args.sendcounts = args.senddispls = native_nowhere;
		args.recvcounts = args.recvdispls = native_nowhere;
		args.count = UINT64_MAX / 64;
		args.tag = 77;
	}
	code = ep->plugin->native.takes(ep->ep, &args, &err);
	if (code && code != COLL_ERR_UNSUPPORTED)
		check_fail(ep->c, "rank %d: takes returned %d for kind %d: %.300s", ep->rank, code,
			   kind, err.text);
	else if (code && !err.text[0])
		check_fail(ep->c, "rank %d: takes declines kind %d without a reason", ep->rank,
			   kind);
	return code;
}

enum { NATIVE_DTYPES = 4 };
static const int32_t native_dtypes[NATIVE_DTYPES] = {COLL_INT8, COLL_INT16, COLL_FLOAT32,
						     COLL_FLOAT8E4M3};

/* Calls `one` for each kind and some types, as long as the check has not failed. */
static void native_ask_all(struct check_ep *ep,
			   void (*one)(struct check_ep *ep, int32_t kind, int32_t dtype))
{
	int64_t begin = tool_now_ms();

	if (!ep->plugin->native.takes) {
		check_skip(ep->c, "the plugin has no native->takes");
		return;
	}
	for (int32_t kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_RECV; kind++)
		for (int i = 0; i < NATIVE_DTYPES && !check_failed(ep->c); i++)
			one(ep, kind, native_dtypes[i]);
	native_in_time(ep, "takes", begin, NATIVE_BOUND_MS);
}

/* Checks that two calls get one answer if they differ only in members that takes may not read. */
static void native_ask_twice(struct check_ep *ep, int32_t kind, int32_t dtype, uint32_t flags)
{
	if (native_ask(ep, kind, dtype, flags, 0) != native_ask(ep, kind, dtype, flags, 1))
		check_fail(ep->c,
			   "rank %d: takes answers another thing for kind %d and dtype %d with "
			   "other buffers and counts",
			   ep->rank, kind, dtype);
}

static void native_takes_one(struct check_ep *ep, int32_t kind, int32_t dtype)
{
	native_ask_twice(ep, kind, dtype, 0);
}

static void native_takes_rank(struct check_ep *ep)
{
	native_ask_all(ep, native_takes_one);
}

static void native_place_one(struct check_ep *ep, int32_t kind, int32_t dtype)
{
	native_ask_twice(ep, kind, dtype, COLL_ARGS_IN_PLACE);
	for (uint32_t place = 0; place <= COLL_ARGS_IN_PLACE; place += COLL_ARGS_IN_PLACE)
		if (native_ask(ep, kind, dtype, place | 1u << 31, 1) !=
		    native_ask(ep, kind, dtype, place, 1))
			check_fail(ep->c,
				   "rank %d: takes answers another thing for kind %d and dtype %d "
				   "with a flag that it does not know",
				   ep->rank, kind, dtype);
}

static void native_place_rank(struct check_ep *ep)
{
	native_ask_all(ep, native_place_one);
}

const struct check check_native_checks[] = {
	{.name = "native-idle",
	 .says = "query, sync and async_error return success when no operation was enqueued",
	 .promise = "coll_native_t.query",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_EITHER,
	 .endpoint = native_idle_rank},
	{.name = "native-group",
	 .says = "an empty group begins and ends",
	 .promise = "coll_native_t.group_begin",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .endpoint = native_group_rank},
	{.name = "native-takes",
	 .says = "takes judges a call by kind, type, operation and root alone",
	 .promise = "coll_native_t.takes",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .endpoint = native_takes_rank},
	{.name = "native-place",
	 .rests = "native-takes",
	 .says = "takes may judge a call by its place too, and ignores other flags",
	 .promise = "COLL_ARGS_IN_PLACE",
	 .group = CHECK_NATIVE_GROUP,
	 .since = 4,
	 .older = "its takes gets no flag",
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_EITHER,
	 .ranks_max = 2,
	 .endpoint = native_place_rank},
	{.name = "native-abort",
	 .says = "abort comes from any thread, more than once, and ends in time",
	 .promise = "coll_native_t.abort",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .endpoint = native_abort_rank},
	{.name = "native-events",
	 .says = "events are made, recorded, waited for and destroyed",
	 .promise = "coll_native_t.event_create",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE | CHECK_EVENTS,
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .endpoint = native_events_rank},
	{.name = "native-split",
	 .says = "split makes an endpoint for each colour and none for colour -1",
	 .promise = "coll_native_t.split",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE | CHECK_SPLIT,
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .endpoint = native_split_rank},
	{.name = "native-register",
	 .says = "host memory is registered and deregistered",
	 .promise = "coll_native_t.mem_register",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_THREADS,
	 .ranks_max = 2,
	 .endpoint = native_register_rank},
	{.name = "native-op",
	 .says = "an operation sum of scalar times x is made and destroyed",
	 .promise = "coll_native_t.op_create_pre_mul_sum",
	 .group = CHECK_NATIVE_GROUP,
	 .needs = CHECK_NATIVE,
	 .ways = CHECK_THREADS,
	 .ranks_max = 2,
	 .endpoint = native_op_rank},
	{.name = NULL},
};
