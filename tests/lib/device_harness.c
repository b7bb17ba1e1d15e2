/* SPDX-License-Identifier: BSD-3-Clause */
/* device_harness.c - memory at places, and calls that the oracle checks there. */
#include "device_harness.h"

const char *const where_names[WHERES] = {"on the device", "sendbuf on the device",
					 "recvbuf on the device", "managed"};

void context_begin(int device)
{
	void *context = NULL;

	if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent_v2(context))
		bail_out("no context");
}

void context_end(int device)
{
	void *context;

	if (cuCtxPopCurrent_v2(&context) || cuDevicePrimaryCtxRelease_v2(device))
		bail_out("no context any more");
}

void *device_new(int device, size_t bytes, int managed)
{
	CUdeviceptr ptr = 0;

	context_begin(device);
	if (managed ? cuMemAllocManaged(&ptr, bytes, 1) : cuMemAlloc_v2(&ptr, bytes))
		bail_out("no device memory");
	context_end(device);
	return (void *)(uintptr_t)ptr;
}

void device_free(int device, void *ptr)
{
	context_begin(device);
	if (ptr && cuMemFree_v2((uintptr_t)ptr))
		bail_out("device memory cannot be freed");
	context_end(device);
}

void device_move(int device, void *dst, const void *src, size_t n)
{
	context_begin(device);
	if (cuMemcpy((uintptr_t)dst, (uintptr_t)src, n))
		bail_out("the test itself cannot copy");
	context_end(device);
}

void device_launch(int device, void *stream, int (*fn)(void *), void *arg)
{
	context_begin(device);
	if (standin_stream_do(stream, fn, arg))
		bail_out("no kernel");
	context_end(device);
}

coll_args_t sum_args(void *x, coll_stream_t stream)
{
	return (coll_args_t){.size = sizeof(coll_args_t),
			     .kind = COLL_KIND_ALLREDUCE,
			     .dtype = COLL_INT64,
			     .op = COLL_SUM,
			     .sendbuf = x,
			     .recvbuf = x,
			     .count = 1,
			     .stream = stream};
}

void *place_new(int at, size_t bytes)
{
	void *host = NULL;

	if (at != PLACE_HOST)
		return device_new(at % PLACE_MANAGED, bytes ? bytes : 1, at >= PLACE_MANAGED);
	host = calloc(1, bytes ? bytes : 1);
	if (!host)
		bail_out("no memory");
	return host;
}

void place_free(int at, void *ptr)
{
	if (at == PLACE_HOST)
		free(ptr);
	else
		device_free(at % PLACE_MANAGED, ptr);
}

void place_set(int at, void *ptr, const void *bytes, size_t n)
{
	if (at == PLACE_HOST)
		memcpy(ptr, bytes, n);
	else
		device_move(at % PLACE_MANAGED, ptr, bytes, n);
}

void place_get(int at, void *bytes, const void *ptr, size_t n)
{
	if (at == PLACE_HOST)
		memcpy(bytes, ptr, n);
	else
		device_move(at % PLACE_MANAGED, bytes, ptr, n);
}

void device_call_begin(struct device_call *c, struct rank *r, const struct oracle_case *like,
		       const int *at)
{
	*c = (struct device_call){.r = r, .at = {at[0], at[1]}};
	if (oracle_call_begin(&c->o, like, r->rank, r->nranks))
		bail_out("no memory");
	for (int i = 0; i < ORACLE_AREAS; i++)
		c->area[i] = place_new(at[i], c->o.bytes[i]);
	oracle_call_place(&c->o, c->area[ORACLE_SEND], c->area[ORACLE_RECV]);
}

void device_call_end(struct device_call *c)
{
	for (int i = 0; i < ORACLE_AREAS; i++)
		place_free(c->at[i], c->area[i]);
	oracle_call_end(&c->o);
}

void device_call_fill(struct device_call *c)
{
	for (int i = 0; i < ORACLE_AREAS; i++) {
		void *bytes = place_new(PLACE_HOST, c->o.bytes[i]);

		if (!i && oracle_call_again(&c->o))
			bail_out("no memory");
		oracle_call_fill(&c->o, i, bytes);
		place_set(c->at[i], c->area[i], bytes, c->o.bytes[i]);
		free(bytes);
	}
}

int device_call_check(const struct device_call *c, const char *what)
{
	char text[ORACLE_TEXT];
	int good = 1;

	for (int i = 0; i < ORACLE_AREAS && good; i++) {
		void *bytes = place_new(PLACE_HOST, c->o.bytes[i]);

		place_get(c->at[i], bytes, c->area[i], c->o.bytes[i]);
		good = oracle_call_check(&c->o, i, bytes, text) ||
		       rank_fail(c->r, "%s, %s at place %d", text, what, c->at[i]);
		free(bytes);
	}
	return good;
}

int device_call_once(struct device_call *c, const char *what)
{
	const char *name = coll_kind_name(c->o.c.kind);

	device_call_fill(c);
	return rank_did(c->r, oracle_call_issue(&c->o, c->r->comm, NULL), name) &&
	       rank_did(c->r, coll_sync(c->r->comm), name) && device_call_check(c, what);
}

int device_call_request(struct device_call *c, int times, const char *what)
{
	coll_request_t request;
	int good =
		rank_did(c->r, coll_request_init(c->r->comm, &c->o.args, &request), "request_init");

	for (int i = 0; good && i < times; i++) {
		device_call_fill(c);
		good = rank_did(c->r, coll_request_start(request), "start") &&
		       rank_did(c->r, coll_wait(request), "wait") && device_call_check(c, what);
	}
	return good && rank_did(c->r, coll_request_free(request), "request_free");
}

int device_call_try(struct rank *r, const struct oracle_case *like, const int *at, int times,
		    const char *what)
{
	struct device_call c;
	int good;

	device_call_begin(&c, r, like, at);
	good = device_call_request(&c, times, what);
	device_call_end(&c);
	return good;
}

static int send_and_recv(struct rank *r)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	char *buf[2] = {device_new(0, BYTES, 0), device_new(0, BYTES, 0)}, found[64];
	int good;

	memset(found, 'a' + r->rank, sizeof(found));
	device_move(0, buf[0], found, sizeof(found));
	good = rank_did(r, coll_group_start(), "group") &&
	       rank_did(r, coll_send(buf[0], 64, COLL_INT8, next, 5, r->comm, NULL), "send") &&
	       rank_did(r, coll_recv(buf[1], 64, COLL_INT8, before, 5, r->comm, NULL), "recv") &&
	       rank_did(r, coll_group_end(), "group") && rank_did(r, coll_sync(r->comm), "sync");
	device_move(0, found, buf[1], sizeof(found));
	device_free(0, buf[0]);
	device_free(0, buf[1]);
	return good && (found[63] == 'a' + before || rank_fail(r, "recv: %c", found[63]));
}

int try_call(struct rank *r, int kind, int in_place, int where)
{
	const struct oracle_case c = {.kind = kind,
				      .dtype = COLL_INT32,
				      .op = COLL_SUM,
				      .root = r->nranks - 1,
				      .place = in_place,
				      .gaps = 1,
				      .count = COUNT};
	int device = r->rank % 2 + (where == MANAGED ? PLACE_MANAGED : 0);
	int at[] = {where == RECV_ON_DEVICE ? PLACE_HOST : device,
		    where == SEND_ON_DEVICE ? PLACE_HOST : device};

	return device_call_try(r, &c, at, 3, where_names[where]);
}

void every_call(struct rank *r)
{
	const struct plan *plan = r->user;
	void *context = r;

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int in_place = 0; in_place < 2 && !r->failure[0]; in_place++) {
			int kind = oracle_kinds[k];

			if (in_place &&
			    (plan->where == SEND_ON_DEVICE || plan->where == RECV_ON_DEVICE))
				continue;
			if (oracle_reduces(kind) ? plan->reductions : plan->moves)
				try_call(r, kind, in_place, plan->where);
		}
	if (plan->point)
		send_and_recv(r);
	if (cuCtxGetCurrent(&context) || context)
		rank_fail(r, "a context was left behind");
}

int refused(struct rank *r, int code, const char *words)
{
	const char *text = coll_get_last_error(NULL);

	return (code == COLL_ERR_UNSUPPORTED && !strcmp(text, words)) ||
	       rank_fail(r, "%d (%s), not (%s)", code, text, words);
}

void device_begin(void)
{
	ranks_plugins(".libs", "tests/plugins/.libs");
	setenv("COLL_TIMEOUT", "20s", 1);
}

void device_init(void)
{
	void *context;

	if (cuInit(0))
		bail_out("no stand-in");
	for (int device = 0; device < 2; device++)
		if (cuDevicePrimaryCtxRetain(&context, device))
			bail_out("no context");
}

void device_end(void)
{
	is_int(standin_pinned(), 0, "no pinned memory is left");
	is_int(standin_held(0), 1, "nor is device 0 held");
	is_int(standin_held(1), 1, "nor device 1");
}
