/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_test.c - host memory on communicators of a backend without a transport: every kind of call, beside calls on
 * device memory and in groups with them; and device memory for what the backend lacks.
 */
#include "../lib/calls.h"
#include "../lib/scenarios.h"
#include "host.h"

enum { MANY = 300, ELEMENTS = 30 };

/* ------------------------------------------------------------------- every kind of call -- */

static void every_kind(struct rank *r)
{
	static const struct {
		int dtype, op;
	} data[] = {{COLL_INT64, COLL_SUM},      {COLL_UINT8, COLL_BXOR},
		    {COLL_INT16, COLL_MAX},      {COLL_FLOAT64, COLL_AVG},
		    {COLL_COMPLEX64, COLL_PROD}, {COLL_FLOAT64_INT32, COLL_MINLOC}};

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < 6 * 2 * 2; i++) {
			struct oracle_case c = {.kind = oracle_kinds[k],
						.dtype = data[i / 4].dtype,
						.op = data[i / 4].op,
						.root = r->nranks - 1,
						.place = i % 2,
						.gaps = i / 2 % 2,
						.count = ELEMENTS};

			if (!oracle_reduces(c.kind))
				c.op = ORACLE_MOVE;
			if (oracle_kind_has(c.kind, c.op) && !calls_try(r, &c))
				return;
			c.list = 1;
			if (oracle_has_list(c.kind) && !c.place && !calls_try(r, &c))
				return;
		}
	both_sum(r, r->comm, r->rank + 1, sum_to(r->nranks), "after them");
}

/* Calls on both memories follow one another without a wait, and ranks mix them in their own ways. */
static void in_turn(struct rank *r)
{
	int64_t here[MANY], x = r->rank, *there = nccl_new(r->rank, &x, 1);

	for (int i = 0; i < MANY; i++) {
		here[i] = r->rank + i;
		if (!rank_did(r,
			      coll_allreduce(here + i, here + i, 1, COLL_INT64, COLL_SUM, r->comm,
					     NULL),
			      "host") ||
		    !rank_did(r,
			      coll_allreduce(there, there, 1, COLL_INT64, COLL_MAX, r->comm, NULL),
			      "device"))
			break;
		if (i % (50 + r->rank) == 0)
			rank_did(r, coll_sync(r->comm), "sync");
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	for (int i = 0; i < MANY; i++)
		if (here[i] != sum_to(r->nranks - 1) + (int64_t)i * r->nranks)
			rank_fail(r, "sum %d is %lld", i, (long long)here[i]);
	if (nccl_value(r->rank, there) != r->nranks - 1)
		rank_fail(r, "the largest is %lld", (long long)nccl_value(r->rank, there));
	device_free(r->rank, there);
}

/* Empty parts go by their pointers. */
static void empty_parts(struct rank *r)
{
	const int root = 0, n = r->nranks;
	int64_t own[2] = {r->rank, r->rank}, all[8] = {0}, *there = nccl_new(r->rank, own, 2),
		*gathered = nccl_new(r->rank, all, 8);
	size_t counts[RANKS_MAX], count = r->rank % 2 ? 0 : 2, at = 0;

	for (int i = 0; i < n; i++)
		counts[i] = i % 2 ? 0 : 2;
	rank_did(r, coll_gatherv(own, count, all, counts, NULL, COLL_INT64, root, r->comm, NULL),
		 "gatherv on the host");
	rank_did(r,
		 coll_gatherv(count ? there : NULL, count, gathered, counts, NULL, COLL_INT64, root,
			      r->comm, NULL),
		 "gatherv on the device");
	/* One past the end of a device's memory. */
	rank_did(r,
		 coll_gatherv(count ? there : there + 2, count, gathered, counts, NULL, COLL_INT64,
			      root, r->comm, NULL),
		 "gatherv on the device again");
	rank_did(r, coll_allreduce(NULL, own, 0, COLL_INT64, COLL_SUM, r->comm, NULL), "nothing");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; r->rank == root && i < n; i++)
		for (size_t k = 0; k < counts[i]; k++, at++)
			if (all[at] != i || nccl_value(r->rank, gathered + at) != i)
				rank_fail(r, "element %zu", at);
	both_sum(r, r->comm, 1, n, "after them");
	device_free(r->rank, there);
	device_free(r->rank, gathered);
}

/* A list has one count for all ranks: if it is 0, the call is one on devices, whatever the pointers of a rank are. */
static void empty_lists(struct rank *r)
{
	int64_t x = 1;
	const void *sends[RANKS_MAX] = {NULL};
	void *recvs[RANKS_MAX] = {NULL}, *own = r->rank % 2 ? NULL : &x;

	rank_did(r, coll_allgather_list(own, recvs, 0, COLL_INT64, r->comm, NULL), "allgather");
	rank_did(r, coll_alltoall_list(sends, recvs, 0, COLL_INT64, r->comm, NULL), "alltoall");
	rank_did(r, coll_gather_list(own, recvs, 0, COLL_INT64, 0, r->comm, NULL), "gather");
	rank_did(r, coll_scatter_list(sends, own, 0, COLL_INT64, 0, r->comm, NULL), "scatter");
	rank_did(r, coll_reduce_scatter_list(sends, own, 0, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "reduce_scatter");
	rank_did(r, coll_sync(r->comm), "sync");
	both_sum(r, r->comm, 1, r->nranks, "after them");
}

/* With reproducible = yes the backend reduces nothing: lists of host memory go to the companion, also empty ones. */
static void reproducible_lists(struct rank *r)
{
	int64_t x[RANKS_MAX], y = 0;
	const void *sends[RANKS_MAX];

	for (int i = 0; i < r->nranks; i++) {
		x[i] = r->rank + i;
		sends[i] = &x[i];
	}
	for (size_t count = 0; count < 2; count++)
		rank_did(r,
			 coll_reduce_scatter_list(sends, &y, count, COLL_INT64, COLL_SUM, r->comm,
						  NULL),
			 count ? "reduce_scatter_list" : "an empty reduce_scatter_list");
	rank_did(r, coll_sync(r->comm), "sync");
	if (y != sum_to(r->nranks - 1) + r->rank * r->nranks)
		rank_fail(r, "the sum is %lld", (long long)y);
}

/* Barriers are calls on devices, whatever rank 0 has left in the fields that a barrier does not use. */
static void barrier(struct rank *r)
{
	scenario_run(r, scenario_barrier_fields);
	both_sum(r, r->comm, 1, r->nranks, "after it");
}

/* ----------------------------------------------------------------------------- groups -- */

static void in_groups(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;

	for (int i = 0; i < 20; i++) {
		int64_t x = r->rank + 1, sum = 0, out = 100 * r->rank + i, in = -1,
			*there = nccl_new(r->rank, &x, 1);

		rank_did(r, coll_group_start(), "group_start");
		rank_did(r, coll_allreduce(&x, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "host");
		rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "device");
		rank_did(r, coll_send(&out, 1, COLL_INT64, next, 9, r->comm, NULL), "send");
		rank_did(r, coll_recv(&in, 1, COLL_INT64, before, 9, r->comm, NULL), "recv");
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_INVALID_USAGE, "group", "sync inside");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_sync(r->comm), "sync");
		if (sum != sum_to(r->nranks) || nccl_value(r->rank, there) != sum ||
		    in != 100 * before + i)
			rank_fail(r, "%lld, %lld, %lld", (long long)sum,
				  (long long)nccl_value(r->rank, there), (long long)in);
		device_free(r->rank, there);
	}
}

/* --------------------------------------------------------------------------- messages -- */

/* Ordered messages: tags count, and rank 0 receives from any source. */
static void ordered_messages(struct rank *r)
{
	int64_t x[2] = {r->rank, -r->rank}, y = 0, sum = 0;

	if (r->rank) {
		rank_did(r, coll_send(x, 1, COLL_INT64, 0, 1, r->comm, NULL), "send");
		rank_did(r, coll_send(x + 1, 1, COLL_INT64, 0, 2, r->comm, NULL), "send");
	}
	for (int i = 1; !r->rank && i < r->nranks; i++) {
		rank_did(r, coll_recv(&y, 1, COLL_INT64, COLL_ANY_SOURCE, 2, r->comm, NULL),
			 "recv from any");
		rank_did(r, coll_sync(r->comm), "sync");
		sum += y;
		rank_did(r, coll_recv(&y, 1, COLL_INT64, i, 1, r->comm, NULL), "recv");
		rank_did(r, coll_sync(r->comm), "sync");
		sum += 1000 * y;
	}
	rank_did(r, coll_sync(r->comm), "sync");
	if (!r->rank && sum != 999 * sum_to(r->nranks - 1))
		rank_fail(r, "the sum is %lld", (long long)sum);
	both_sum(r, r->comm, 1, r->nranks, "after them");
}

static void loose_messages(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	int64_t in = -1, out = r->rank, probed = -1;
	coll_status_t status = {.size = sizeof(status)};
	coll_request_t requests[2];
	int32_t found = 1, index = -1;

	rank_did(r, coll_iprobe(before, 5, r->comm, &found, &status), "iprobe");
	if (found)
		rank_fail(r, "a message that nobody has sent");
	rank_did(r, coll_irecv(&in, 1, COLL_INT64, before, 7, r->comm, &requests[0]), "irecv");
	both_sum(r, r->comm, 1, r->nranks, "while a receive is open");
	rank_did(r, coll_isend(&out, 1, COLL_INT64, next, 7, r->comm, &requests[1]), "isend");
	for (int i = 0; i < 2; i++) {
		rank_did(r, coll_wait_any(2, requests, -1, &index), "wait_any");
		rank_did(r, coll_request_free(requests[index]), "free");
		requests[index] = NULL;
	}
	rank_did(r, coll_isend(&out, 1, COLL_INT64, next, 8, r->comm, &requests[1]), "isend");
	rank_did(r, coll_probe(before, COLL_ANY_TAG, r->comm, &status), "probe");
	rank_did(r,
		 coll_irecv(&probed, 1, COLL_INT64, status.source, status.tag, r->comm,
			    &requests[0]),
		 "irecv");
	for (int i = 0; i < 2; i++) {
		rank_did(r, coll_wait(requests[i]), "wait");
		rank_did(r, coll_request_free(requests[i]), "free");
	}
	if (in != before || probed != before || status.tag != 8)
		rank_fail(r, "%lld, %lld, tag %d", (long long)in, (long long)probed, status.tag);
}

/* ------------------------------------------------------------------------- operations -- */

static void own_max(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const int64_t *a = left;
	int64_t *b = inout;

	(void)dtype;
	(void)user;
	for (size_t i = 0; i < count; i++)
		b[i] = a[i] > b[i] ? a[i] : b[i];
}

static void operations(struct rank *r)
{
	int64_t x = r->rank, two = 2, y = -1, *there = nccl_new(r->rank, &x, 1);
	coll_op_t own, scaled, everywhere;

	rank_did(r, coll_red_op_create_user(&own, own_max, NULL, 1, r->comm), "own");
	rank_did(r, coll_red_op_create_user(&everywhere, own_max, NULL, 1, NULL), "everywhere");
	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&scaled, &two, COLL_INT64,
						COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		 "scaled");
	for (int i = 0; i < 3; i++) {
		const coll_op_t op = i == 0 ? own : i == 1 ? everywhere : scaled;

		rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, op, r->comm, NULL), "host");
		rank_did(r, coll_sync(r->comm), "sync");
		if (y != (i < 2 ? r->nranks - 1 : 2 * sum_to(r->nranks - 1)))
			rank_fail(r, "operation %d: %lld", i, (long long)y);
	}
	nccl_fails(r, coll_allreduce(there, there, 1, COLL_INT64, own, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "or pass host memory", "an own one on the device");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, scaled, r->comm, NULL), "device");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(r->rank, there) != 2 * sum_to(r->nranks - 1))
		rank_fail(r, "scaled on the device: %lld", (long long)nccl_value(r->rank, there));
	rank_did(r, coll_red_op_destroy(own, r->comm), "destroy");
	rank_did(r, coll_red_op_destroy(scaled, r->comm), "destroy");
	rank_did(r, coll_red_op_destroy(everywhere, NULL), "destroy");
	nccl_fails(r, coll_allreduce(&x, &y, 1, COLL_INT64, own, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "was not made", "a destroyed one");
	device_free(r->rank, there);
}

/* The texts advise to copy device memory through host memory where that would be done only. */
static void advice(struct rank *r)
{
	static const char advised[] = "COLL_ENABLE_GPU_FALLBACK";
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_SCAN,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .sendbuf = there,
			    .recvbuf = there,
			    .count = 1};
	coll_request_t request;

	nccl_fails(r, coll_scan(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, advised, "a scan");
	nccl_fails(r, coll_request_issue(r->comm, &args, &request), COLL_ERR_UNSUPPORTED, advised,
		   "a scan with a request");
	nccl_fails(r, coll_request_init(r->comm, &args, &request), COLL_ERR_UNSUPPORTED,
		   "or pass host memory", "a persistent scan");
	if (strstr(coll_get_last_error(NULL), advised))
		rank_fail(r, "a persistent scan: %s", coll_get_last_error(NULL));
	rank_did(r, coll_group_start(), "group_start");
	nccl_fails(r, coll_scan(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "or pass host memory", "a scan in a group");
	if (strstr(coll_get_last_error(NULL), advised))
		rank_fail(r, "a scan in a group: %s", coll_get_last_error(NULL));
	rank_did(r, coll_group_end(), "group_end");
	device_free(r->rank, there);
}

/* No algorithm of the library serves a call of the backend's: the call is refused, and does not go to the host lane. */
static void named_algorithm(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .flags = 1u << COLL_ARGS_ALGORITHM,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .sendbuf = there,
			    .recvbuf = there,
			    .count = 1};
	coll_request_t request;

	nccl_fails(r, coll_request_issue(r->comm, &args, &request), COLL_ERR_INVALID_USAGE,
		   "executes the call by itself", "an allreduce that names an algorithm");
	args.kind = COLL_KIND_BARRIER;
	args.count = 0;
	nccl_fails(r, coll_request_issue(r->comm, &args, &request), COLL_ERR_INVALID_USAGE,
		   "executes the call by itself", "a barrier that names an algorithm");
	device_free(r->rank, there);
}

/* A host call on a captured stream: the backend's own operations can be captured. */
static void captured(struct rank *r)
{
	void *stream = nccl_stream(r->rank), *graph = NULL;
	int64_t x = 1;

	context_begin(r->rank);
	if (cuStreamBeginCapture_v2(stream, 2))
		rank_fail(r, "cuStreamBeginCapture");
	context_end(r->rank);
	nccl_fails(r, coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, stream),
		   COLL_ERR_INVALID_USAGE, "only operations that NCCL itself does on device memory",
		   "a call on the host");
	context_begin(r->rank);
	if (cuStreamEndCapture(stream, &graph) || cuGraphDestroy(graph))
		rank_fail(r, "cuStreamEndCapture");
	context_end(r->rank);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
}

/* ---------------------------------------------------------------- a rank that comes later -- */

/* Asks again and again, an event (1) or a request (2), until the last call on devices is complete. */
static void ask(struct rank *r, coll_event_t event, int how)
{
	const double deadline = ranks_now() + 20;
	coll_request_t request = NULL;
	int32_t done = 0;
	int code = 0;

	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	while (!done && (!code || code == COLL_IN_PROGRESS) && ranks_now() < deadline) {
		code = how == 2 ? coll_test(request, &done) : coll_event_query(event);
		done |= how == 1 && !code;
	}
	if (!done)
		rank_fail(r, "still under way: %d", code);
	rank_did(r, coll_request_free(request), "free");
}

/*
 * Rank 0 waits for a call on the host before it makes its next calls on devices.  The others wait in these meanwhile, and
 * have a part in the call on the host.
 */
static void late_rank(struct rank *r, int after_device, int asks)
{
	enum { BIG = 1 << 20 };
	int64_t *x = calloc(BIG, sizeof(*x)), y[8] = {1}, *there = nccl_new(r->rank, y, 8);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .sendbuf = x,
			    .recvbuf = x,
			    .count = BIG};
	coll_request_t request;
	coll_event_t event;

	x[BIG - 1] = 1;
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	if (after_device) {
		rank_did(r, coll_alltoall(there, there, 2, COLL_INT64, r->comm, NULL), "device");
		rank_did(r, coll_event_record(event, r->comm), "record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	}
	rank_did(r, coll_request_issue(r->comm, &args, &request), "host");
	if (!r->rank)
		rank_did(r, coll_wait(request), "wait");
	for (int i = 0; i < 3; i++) {
		rank_did(r, coll_alltoall(there, there, 2, COLL_INT64, r->comm, NULL), "device");
		rank_did(r, coll_allreduce(there, there, 8, COLL_INT64, COLL_MAX, r->comm, NULL),
			 "device");
		if (asks)
			ask(r, event, asks);
	}
	rank_did(r, coll_sync(r->comm), "sync");
	if (x[BIG - 1] != r->nranks)
		rank_fail(r, "%lld", (long long)x[BIG - 1]);
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(r->rank, there);
	free(x);
}

/* The others wait inside the backend, for a connection with rank 0. */
static void new_connection(struct rank *r)
{
	late_rank(r, 0, 0);
}

/* The call on the host waits for one on devices, and the others wait for a device that has more to do. */
static void after_device(struct rank *r)
{
	late_rank(r, 1, 0);
	late_rank(r, 1, 0); /* all connections are there */
}

/* The others ask for their call on devices, which waits for rank 0. */
static void asked(struct rank *r)
{
	late_rank(r, 1, 0); /* makes the connections */
	late_rank(r, 0, 1);
	late_rank(r, 0, 2);
	late_rank(r, 1, 1);
	late_rank(r, 1, 2);
}

/* --------------------------------------------------------------------------------- main -- */

int main(int argc, char **argv)
{
	static const struct host_job jobs[] = {
		{every_kind, "every kind of call on host memory", 1},
		{in_turn, "host and device memory in turn", 1},
		{empty_parts, "empty parts", 1},
		{empty_lists, "empty lists", 1},
		{barrier, "a barrier with a request", 1},
		{in_groups, "groups of calls on both", 1},
		{ordered_messages, "messages with tags and from any source", 1},
		{loose_messages, "messages outside the order", 1},
		{operations, "operations of the program", 1},
		{advice, "advice in refusals", 1},
		{named_algorithm, "an algorithm named for a call of the backend", 1},
		{captured, "a captured stream", 1},
		{new_connection, "a rank that connects after a call on the host", 1},
		{after_device, "a rank that waits for both before its next calls", 1},
		{asked, "a rank that waits for a call on the host while the others only ask", 1},
		{NULL, NULL, 0}};

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_REPRODUCIBLE", "yes", 1);
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, reproducible_lists, NULL},
		"reproducible lists");
	unsetenv("COLL_REPRODUCIBLE");
	host_run(jobs);
	return done_testing();
}
