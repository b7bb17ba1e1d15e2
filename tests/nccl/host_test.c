/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_test.c - host memory on communicators of a backend without a transport: every kind of call, beside calls on
 * device memory, in groups with them, ordered with them, and on communicators made from others.
 */
#include "../lib/calls.h"
#include "case.h"

enum { MANY = 300, ELEMENTS = 30 };

/* Is the sum of `x`, on the host, equal to `want`, and that of 10 x on the device to 10 want? */
static int both_sum(struct rank *r, coll_comm_t comm, int64_t x, int64_t want, const char *what)
{
	return sums_to(r, comm, x, want, what) &&
	       nccl_sums(r, comm, r->rank % NCCL_DEVICES, 10 * x, 10 * want, what);
}

static int64_t sum_to(int64_t n)
{
	return n * (n + 1) / 2;
}

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
		   COLL_ERR_UNSUPPORTED, "COLL_ENABLE_GPU_FALLBACK=1", "an own one on the device");
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

/* ----------------------------------------------------------------------------- events -- */

static void host_call(struct rank *r, int64_t *x)
{
	rank_did(r, coll_allreduce(x, x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
}

static void device_call(struct rank *r, int64_t *there)
{
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "device");
}

/* A call on the host waits for one on the device, whose stream is held. */
static void host_after_device(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, *there = nccl_new(device, &x, 1);
	void *stream = nccl_stream(device);
	struct nccl_gate gate = {0};
	coll_event_t event, of_stream;
	coll_request_t request;
	int32_t done = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	rank_did(r, coll_event_create(r->comm, &of_stream), "event_create");
	nccl_gate(&gate, device, stream);
	rank_did(r, coll_event_record_on_stream(of_stream, r->comm, stream), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, of_stream), "wait_event");
	device_call(r, there);
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	host_call(r, &y);
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	for (int i = 0; i < 20; i++) {
		rank_did(r, coll_test(request, &done), "test");
		ranks_sleep(0.001);
	}
	if (done || coll_event_query(event) != COLL_IN_PROGRESS)
		rank_fail(r, "the call on the host did not wait for that on the device");
	nccl_open(&gate);
	rank_did(r, coll_wait(request), "wait");
	if (y != r->nranks || nccl_value(device, there) != r->nranks)
		rank_fail(r, "%lld, %lld", (long long)y, (long long)nccl_value(device, there));
	rank_did(r, coll_event_synchronize(event), "synchronize");
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_event_destroy(of_stream), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
	device_free(device, there);
}

/* A call on the device and a stream of the program wait for a call on the host, whose own stream is held. */
static void device_after_host(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, *there = nccl_new(device, &x, 1);
	void *stream = nccl_stream(device), *held = nccl_stream(device);
	struct nccl_gate gate = {0};
	coll_event_t event;
	coll_request_t request;
	int32_t done = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	nccl_gate(&gate, device, held);
	rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT64, COLL_SUM, r->comm, held), "host");
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_stream_wait_event(r->comm, stream, event), "stream_wait_event");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	device_call(r, there);
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	for (int i = 0; i < 20; i++) {
		rank_did(r, coll_test(request, &done), "test");
		ranks_sleep(0.001);
	}
	if (done || coll_event_query(event) != COLL_IN_PROGRESS ||
	    !nccl_stream_do(device, stream, cuStreamQuery))
		rank_fail(r, "the call on the device, the event or the stream did not wait");
	nccl_open(&gate);
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (y != r->nranks)
		rank_fail(r, "the event is complete before the call on the host: %lld",
			  (long long)y);
	if (nccl_stream_do(device, stream, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	if (nccl_value(device, there) != r->nranks)
		rank_fail(r, "%lld", (long long)nccl_value(device, there));
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
	nccl_stream_do(device, held, cuStreamDestroy_v2);
	device_free(device, there);
}

/* The stream of a call on the host: the call waits for it, and it for the call. */
static void host_with_stream(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	void *stream = nccl_stream(device);
	struct nccl_gate gate = {0};
	int64_t y = 1;

	nccl_gate(&gate, device, stream);
	rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT64, COLL_SUM, r->comm, stream), "host");
	ranks_sleep(0.01);
	if (r->nranks > 1 && y != 1)
		rank_fail(r, "the call did not wait for its stream");
	nccl_open(&gate);
	if (nccl_stream_do(device, stream, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	if (y != r->nranks)
		rank_fail(r, "the stream did not wait for the call: %lld", (long long)y);
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
}

/* --------------------------------------------------------------------------- requests -- */

static void count_result(void *user, coll_result_t result)
{
	atomic_fetch_add((_Atomic int *)user, result ? 1000 : 1);
}

static void requests(struct rank *r)
{
	_Atomic int over = 0;
	int64_t x = r->rank + 1, y = 0, z = 0, *there = nccl_new(r->rank, &x, 1);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .count = 1};
	coll_request_t persistent, issued, newest[2], all[3];
	int32_t done = 0, indices[3], n = 0, total = 0;

	args.sendbuf = &x;
	args.recvbuf = &y;
	rank_did(r, coll_request_init(r->comm, &args, &persistent), "request_init");
	args.recvbuf = &z;
	rank_did(r, coll_request_issue(r->comm, &args, &issued), "request_issue");
	rank_did(r, coll_request_set_callback(issued, count_result, (void *)&over), "callback");
	rank_did(r, coll_request_set_timeout(issued, 60000), "set_timeout");
	rank_did(r, coll_get_request(r->comm, &newest[0]), "get_request");
	for (int i = 0; i < 3; i++) {
		y = 0;
		rank_did(r, coll_request_start(persistent), "start");
		rank_did(r, coll_wait(persistent), "wait");
		if (y != sum_to(r->nranks))
			rank_fail(r, "start %d: %lld", i, (long long)y);
	}
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "device");
	rank_did(r, coll_get_request(r->comm, &newest[1]), "get_request");
	all[0] = newest[0];
	all[1] = issued;
	all[2] = newest[1];
	for (total = 0; total < 3 && !r->failure[0]; total += n) {
		rank_did(r, coll_wait_some(3, all, -1, indices, &n), "wait_some");
		for (int i = 0; i < n; i++) {
			rank_did(r, coll_request_free(all[indices[i]]), "free");
			all[indices[i]] = NULL;
		}
	}
	if (z != y || nccl_value(r->rank, there) != y || atomic_load(&over) != 1)
		rank_fail(r, "%lld, %lld, %d", (long long)z, (long long)nccl_value(r->rank, there),
			  atomic_load(&over));
	rank_did(r, coll_request_start(persistent), "start");
	rank_did(r, coll_get_request(r->comm, &newest[0]), "get_request");
	while (!done && rank_did(r, coll_test(newest[0], &done), "test"))
		;
	rank_did(r, coll_test(persistent, &done), "test");
	if (!done)
		rank_fail(r, "the newest request was not the one started last");
	rank_did(r, coll_request_free(newest[0]), "free");
	rank_did(r, coll_request_free(persistent), "free");
	device_free(r->rank, there);
}

/* ----------------------------------------------------------- communicators from others -- */

static void derived(struct rank *r)
{
	coll_comm_t half = NULL, dup = NULL, idup = NULL, rest = NULL;
	const int32_t last = r->nranks - 1;
	coll_request_t request;
	int64_t n = (r->nranks + 1 - r->rank % 2) / 2;

	rank_did(r, coll_comm_split(r->comm, r->rank % 2, -r->rank, &half, NULL), "split");
	rank_did(r, coll_comm_dup(r->comm, &dup), "dup");
	rank_did(r, coll_comm_idup(dup, &idup, NULL, &request), "idup");
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	both_sum(r, half, 1, n, "split");
	both_sum(r, dup, r->rank + 1, sum_to(r->nranks), "dup");
	both_sum(r, idup, r->rank + 1, sum_to(r->nranks), "idup");
	rank_did(r, coll_comm_destroy(dup), "destroy");
	both_sum(r, idup, 2, 2 * r->nranks, "idup after dup");
	if (r->rank != last || !last)
		rank_did(r, coll_comm_shrink(idup, &last, last > 0, &rest, NULL, 0), "shrink");
	if (rest)
		both_sum(r, rest, 1, last ? last : 1, "shrunk");
	for (int i = 0; i < 3; i++) {
		coll_comm_t comm = i == 0 ? rest : i == 1 ? idup : half;

		if (comm)
			rank_did(r, coll_comm_destroy(comm), "destroy");
	}
	both_sum(r, r->comm, 1, r->nranks, "the first one");
}

/* Rank 0 has no colour, and a split that is under way in a group. */
static void derived_in_group(struct rank *r)
{
	coll_comm_t some = NULL, all = NULL;

	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_comm_split(r->comm, r->rank ? 0 : COLL_SPLIT_NOCOLOR, 0, &some, NULL),
		 "split");
	rank_did(r, coll_comm_split(r->comm, 0, 0, &all, NULL), "split");
	rank_did(r, coll_group_end(), "group_end");
	if (r->rank ? !some : some != NULL)
		rank_fail(r, "the communicator of the split");
	if (some)
		both_sum(r, some, 1, r->nranks - 1, "some");
	both_sum(r, all, 1, r->nranks, "all");
	if (some)
		rank_did(r, coll_comm_destroy(some), "destroy");
	rank_did(r, coll_comm_destroy(all), "destroy");
}

/* ------------------------------------------------------------------- copied host memory -- */

/* With the option, what the backend lacks is done for device memory too. */
static void fallback(struct rank *r)
{
	const int64_t ones = (INT64_C(1) << r->nranks) - 1;
	int64_t x = INT64_C(1) << r->rank, y = 0, *there = nccl_new(r->rank, &x, 1),
		*out = nccl_new(r->rank, &y, 1);

	rank_did(r, coll_allreduce(there, out, 1, COLL_INT64, COLL_BOR, r->comm, NULL), "bor");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(r->rank, out) != ones)
		rank_fail(r, "bor: %lld", (long long)nccl_value(r->rank, out));
	rank_did(r, coll_scan(there, out, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "scan");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(r->rank, out) != 2 * x - 1)
		rank_fail(r, "scan: %lld", (long long)nccl_value(r->rank, out));
	rank_did(r, coll_allreduce(there, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "mixed");
	rank_did(r, coll_sync(r->comm), "sync");
	if (y != ones)
		rank_fail(r, "mixed: %lld", (long long)y);
	both_sum(r, r->comm, 1, r->nranks, "after them");
	device_free(r->rank, there);
	device_free(r->rank, out);
}

/* --------------------------------------------------------------------------------- main -- */

static void test_all(int nranks, int processes)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
		int least;
	} jobs[] = {{every_kind, "every kind of call on host memory", 1},
		    {in_turn, "host and device memory in turn", 1},
		    {empty_parts, "empty parts", 1},
		    {in_groups, "groups of calls on both", 1},
		    {ordered_messages, "messages with tags and from any source", 1},
		    {loose_messages, "messages outside the order", 1},
		    {operations, "operations of the program", 1},
		    {requests, "requests of both", 1},
		    {host_after_device, "a call on the host waits for an event of the device", 1},
		    {device_after_host, "calls on the device wait for an event of the host", 1},
		    {host_with_stream, "a call on the host with a stream", 1},
		    {derived, "communicators from others", 1},
		    {derived_in_group, "splits in a group", 2}};
	const int init = processes ? INIT_EXCHANGE : INIT_ALL;

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (nranks >= jobs[i].least)
			nccl_ok(&(struct nccl_job){nranks, processes, init, jobs[i].fn, NULL}, "%s",
				jobs[i].name);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	nccl_ok(&(struct nccl_job){nranks, processes, init, fallback, NULL},
		"what the backend lacks, copied through host memory");
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	for (int nranks = 1; nranks <= 4; nranks++)
		test_all(nranks, 1);
	nccl_hold_devices();
	for (int nranks = 1; nranks <= 4; nranks++)
		test_all(nranks, 0);
	nccl_drop_devices();
	return done_testing();
}
