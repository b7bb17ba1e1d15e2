/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_order_test.c - calls on host memory beside calls on device memory of one communicator: their order by events and
 * streams, their requests, and communicators made from others.
 */
#include "host.h"

#include <pthread.h>

enum { TIMEOUT_MS = 10000 }; /* for a busy machine; nothing waits so long */

/* ----------------------------------------------------------------------------- events -- */

static void host_call(struct rank *r, int64_t *x)
{
	rank_did(r, coll_allreduce(x, x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
}

static void device_call(struct rank *r, int64_t *there)
{
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "device");
}

/* A stream of the program: a new one, or the default stream of the job. */
static void *host_stream(const struct rank *r, int device)
{
	return r->user ? r->user : nccl_stream(device);
}

static void host_stream_end(const struct rank *r, int device, void *stream)
{
	if (!r->user)
		nccl_stream_do(device, stream, cuStreamDestroy_v2);
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

/* Each call waits for the one before it, on the other memory; the events are more than the backend marks at a time. */
static void one_after_the_other(struct rank *r)
{
	enum { ROUNDS = 30 }; /* 4 ranks: a sum of 2 to the power of 60 */
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, *there = nccl_new(device, &x, 1);
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	for (int i = 0; i < 2 * ROUNDS && !r->failure[0]; i++) {
		if (i % 2)
			host_call(r, &y);
		else
			device_call(r, there);
		rank_did(r, coll_event_record(event, r->comm), "record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	}
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < ROUNDS; i++)
		x *= r->nranks;
	if (y != x || nccl_value(device, there) != x)
		rank_fail(r, "%lld, %lld", (long long)y, (long long)nccl_value(device, there));
	rank_did(r, coll_event_destroy(event), "event_destroy");
	device_free(device, there);
}

/* Two communicators wait for each other in turn: a call on the host stands between calls on devices of the other one. */
static void there_and_back(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, want = 1, *there = nccl_new(device, &x, 1);
	coll_comm_t other = NULL;
	coll_event_t out, back;

	rank_did(r, coll_comm_dup(r->comm, &other), "dup");
	rank_did(r, coll_event_create(other, &out), "event_create");
	rank_did(r, coll_event_create(r->comm, &back), "event_create");
	for (int i = 0; i < 20 && !r->failure[0]; i++) {
		rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, other, NULL),
			 "device");
		rank_did(r, coll_event_record(out, other), "record");
		rank_did(r, coll_comm_wait_event(r->comm, out), "wait_event");
		host_call(r, &y);
		rank_did(r, coll_event_record(back, r->comm), "record");
		rank_did(r, coll_comm_wait_event(other, back), "wait_event");
		want *= r->nranks;
	}
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_sync(other), "sync");
	if (y != want || nccl_value(device, there) != want)
		rank_fail(r, "%lld, %lld", (long long)y, (long long)nccl_value(device, there));
	rank_did(r, coll_event_destroy(out), "event_destroy");
	rank_did(r, coll_event_destroy(back), "event_destroy");
	rank_did(r, coll_comm_destroy(other), "destroy");
	device_free(device, there);
}

/* A call on the device and a stream of the program wait for a call on the host, whose own stream is held. */
static void device_after_host(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, *there = nccl_new(device, &x, 1);
	void *stream = host_stream(r, device), *held = nccl_stream(device);
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
	host_stream_end(r, device, stream);
	nccl_stream_do(device, held, cuStreamDestroy_v2);
	device_free(device, there);
}

/* The stream of a call on the host: the call waits for it, and it for the call. */
static void host_with_stream(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	void *stream = host_stream(r, device);
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
	host_stream_end(r, device, stream);
}

/* ---------------------------------------------------------------------------- threads -- */

static void *host_call_in_thread(void *arg)
{
	struct rank *r = arg;
	int64_t *x = r->user;

	rank_did(r, coll_allreduce(x, x, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "host");
	return NULL;
}

/* A thread of rank 1 makes a call on the host and ends: the one that waits for a later call on the device moves it. */
static void host_call_of_another_thread(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, y = 1, *there = nccl_new(device, &y, 1);
	struct rank in_thread = *r;
	coll_request_t request;
	pthread_t thread;

	in_thread.user = &x;
	device_call(r, there);
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
	if (r->rank == 1) {
		if (pthread_create(&thread, NULL, host_call_in_thread, &in_thread))
			bail_out("cannot start a thread");
		pthread_join(thread, NULL);
	} else {
		ranks_sleep(0.02);
		host_call(r, &x);
		rank_did(r, coll_get_request(r->comm, &request), "get_request");
		rank_did(r, coll_wait(request), "wait");
		rank_did(r, coll_request_free(request), "free");
	}
	device_call(r, there);
	rank_did(r, coll_sync(r->comm), "sync");
	if (x != r->nranks || nccl_value(device, there) != (int64_t)r->nranks * r->nranks)
		rank_fail(r, "%lld, %lld", (long long)x, (long long)nccl_value(device, there));
	device_free(device, there);
}

/*
 * Pieces of work that fit into the stream: a host function, the two pieces that a call on host memory puts there before
 * its operation, and the first one behind it.  The next one makes the calling thread wait in the driver.
 */
enum { ROOM = 4 };

struct issue {
	coll_comm_t comm;
	const coll_args_t *args;
	coll_request_t request;
	int code;
};

static void *issue_in_thread(void *arg)
{
	struct issue *i = arg;

	i->code = coll_request_issue(i->comm, i->args, &i->request);
	return NULL;
}

/* Rank 0 makes a call while another thread is still in one, whose stream is full; rank 1 sends when that one is over. */
static void own_requests(struct rank *r)
{
	int64_t x = r->rank + 1, y = -1, *there = nccl_new(r->rank, &x, 1);
	void *stream = nccl_stream(r->rank);
	const coll_args_t sum = sum_args(&x, stream);
	const coll_args_t recv = {.size = sizeof(recv),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT64,
				  .root = 1,
				  .recvbuf = &y,
				  .count = 1};
	struct issue own = {.comm = r->comm, .args = &sum};
	struct nccl_gate gate = {0};
	coll_request_t request = NULL;
	const double end = ranks_now() + 60;
	unsigned long before;
	int32_t done = 1;
	pthread_t thread;
	char room[12];

	/* What the library makes only once is made. */
	rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT64, COLL_SUM, r->comm, stream), "host");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	if (r->rank == 0) {
		before = standin_works();
		snprintf(room, sizeof(room), "%d", ROOM);
		setenv("STANDIN_CUDA_ROOM", room, 1);
		nccl_gate(&gate, r->rank, stream);
		if (pthread_create(&thread, NULL, issue_in_thread, &own))
			bail_out("cannot start a thread");
		/* The stand-in does not count the event. */
		while (standin_works() < before + ROOM - 1 && ranks_now() < end)
			ranks_sleep(0.0005);
		if (standin_works() != before + ROOM - 1)
			rank_fail(r, "%lu pieces of work", standin_works() - before);
		rank_did(r, coll_request_issue(r->comm, &recv, &request), "recv");
		nccl_open(&gate);
		pthread_join(thread, NULL);
		unsetenv("STANDIN_CUDA_ROOM");
		rank_did(r, own.code, "the call of the thread");
		rank_did(r, coll_wait_for(own.request, 10000), "the thread's request");
		rank_did(r, coll_test(request, &done), "test");
		if (done || x != sum_to(r->nranks))
			rank_fail(r, "the receive is over: %d; the sum is %lld", (int)done,
				  (long long)x);
		device_call(r, there);
		rank_did(r, coll_wait(request), "the receive");
		rank_did(r, coll_request_free(request), "free");
		rank_did(r, coll_request_free(own.request), "free");
	} else {
		host_call(r, &x);
		device_call(r, there);
		rank_did(r, coll_sync(r->comm), "sync");
		rank_did(r, coll_send(&y, 1, COLL_INT64, 0, 0, r->comm, NULL), "send");
	}
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* A call on the host waits for an event of a stream of the program. */
static void host_after_stream(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	void *stream = host_stream(r, device);
	struct nccl_gate gate = {0};
	coll_event_t event;
	coll_request_t request;
	int32_t done = 0;
	int64_t x = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	nccl_gate(&gate, device, stream);
	rank_did(r, coll_event_record_on_stream(event, r->comm, stream), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	host_call(r, &x);
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	for (int i = 0; i < 20 && !done; i++) {
		rank_did(r, coll_test(request, &done), "test");
		ranks_sleep(0.001);
	}
	if (done)
		rank_fail(r, "the call on the host did not wait for the stream");
	nccl_open(&gate);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	host_stream_end(r, device, stream);
}

/* The driver refuses the event for which a call on the host would wait. */
static void refused_record(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	coll_event_t event;
	int64_t x = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	setenv("STANDIN_CUDA_EVENT", "2", 1);
	nccl_fails(r, coll_event_record_on_stream(event, r->comm, stream), COLL_ERR_DEVICE,
		   "coll_event_record_on_stream", "record");
	unsetenv("STANDIN_CUDA_EVENT");
	rank_did(r, coll_event_record_on_stream(event, r->comm, stream), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	host_call(r, &x);
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
}

/* The calls of an open group have not begun, so an event cannot be behind them. */
static void events_in_group(struct rank *r)
{
	int64_t x = 1;
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	rank_did(r, coll_group_start(), "group_start");
	host_call(r, &x);
	nccl_fails(r, coll_event_record(event, r->comm), COLL_ERR_INVALID_USAGE,
		   "before or after the group", "record");
	nccl_fails(r, coll_comm_wait_event(r->comm, event), COLL_ERR_INVALID_USAGE,
		   "before or after the group", "wait_event");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (x != r->nranks)
		rank_fail(r, "%lld", (long long)x);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
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

/* The device is through in time, and the program looks only later: nothing was late. */
static void limit_of_the_past(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_args_t args = sum_args(there, NULL);
	coll_request_t request;
	double end;

	device_call(r, there);
	rank_did(r, coll_sync(r->comm), "warm up");
	rank_did(r, coll_request_issue(r->comm, &args, &request), "request_issue");
	rank_did(r, coll_request_set_timeout(request, 100), "set_timeout");
	end = ranks_now() + 0.15;
	context_begin(r->rank);
	if (cuCtxSynchronize())
		rank_fail(r, "the device");
	context_end(r->rank);
	while (ranks_now() < end)
		ranks_sleep(0.01);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	device_free(r->rank, there);
}

/* The newest operation is the last one that was issued: here a call on the device, which waits for rank 1. */
static void refused_call(struct rank *r)
{
	int64_t x = 1, y = 1, *there = nccl_new(r->rank, &x, 1);
	coll_request_t request, note;
	int32_t done = 1;

	device_call(r, there); /* makes the connections */
	rank_did(r, coll_sync(r->comm), "sync");
	if (r->rank == 1) {
		rank_did(r, coll_irecv(&y, 1, COLL_INT64, 0, 1, r->comm, &note), "irecv");
		rank_did(r, coll_wait(note), "wait for the note");
		rank_did(r, coll_request_free(note), "free");
	}
	device_call(r, there);
	if (r->rank == 0) {
		nccl_fails(r, coll_scan(&y, &y, 1, COLL_INT64, COLL_AVG, r->comm, NULL),
			   COLL_ERR_INVALID_ARGUMENT, "avg", "a scan on the host");
		rank_did(r, coll_get_request(r->comm, &request), "get_request");
		rank_did(r, coll_test(request, &done), "test");
		if (done)
			rank_fail(r, "the newest request is complete before rank 1 has called");
		rank_did(r, coll_isend(&y, 1, COLL_INT64, 1, 1, r->comm, &note), "isend");
		rank_did(r, coll_wait(note), "wait for the note");
		rank_did(r, coll_request_free(note), "free");
		rank_did(r, coll_wait(request), "wait");
		rank_did(r, coll_request_free(request), "free");
	}
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(r->rank, there) != (int64_t)r->nranks * r->nranks)
		rank_fail(r, "%lld", (long long)nccl_value(r->rank, there));
	device_free(r->rank, there);
}

/* Waits for the newest operation, a call on the device. */
static void wait_for_newest(struct rank *r)
{
	coll_request_t request;

	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
}

/* The same with a start that is refused: the receive on the host is under way until rank 1 has made both device calls. */
static void refused_start(struct rank *r)
{
	int64_t x = 1, y = -1, *there = nccl_new(r->rank, &x, 1);
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT64,
				  .root = 1,
				  .recvbuf = &y,
				  .count = 1};
	coll_request_t persistent = NULL, request;
	int32_t done = 0;

	if (r->rank == 0) {
		rank_did(r, coll_request_init(r->comm, &args, &persistent), "request_init");
		rank_did(r, coll_request_start(persistent), "start");
	}
	device_call(r, there);
	wait_for_newest(r);
	if (r->rank == 0) {
		nccl_fails(r, coll_request_start(persistent), COLL_ERR_INVALID_USAGE,
			   "still under way", "a second start");
		rank_did(r, coll_get_request(r->comm, &request), "get_request");
		rank_did(r, coll_test(request, &done), "test");
		if (!done)
			rank_fail(r, "the newest request is not that of the call on the device");
		rank_did(r, coll_request_free(request), "free");
	}
	device_call(r, there);
	wait_for_newest(r);
	if (r->rank == 1)
		rank_did(r, coll_send(&x, 1, COLL_INT64, 0, 0, r->comm, NULL), "send");
	if (r->rank == 0) {
		rank_did(r, coll_wait(persistent), "wait");
		rank_did(r, coll_request_free(persistent), "free");
		if (y != 1)
			rank_fail(r, "received %lld", (long long)y);
	}
	rank_did(r, coll_sync(r->comm), "sync");
	device_free(r->rank, there);
}

/* A call on the host that waits for one on the device ends although the program only asks for errors. */
static void callback_by_questions(struct rank *r)
{
	_Atomic int over = 0;
	int64_t x = 1, y = 1, *there = nccl_new(r->rank, &x, 1);
	const double deadline = ranks_now() + 20;
	coll_request_t request;
	coll_result_t error = 0;
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	device_call(r, there);
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	host_call(r, &y);
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	rank_did(r, coll_request_set_callback(request, count_result, (void *)&over), "callback");
	while (!atomic_load(&over) && !error && ranks_now() < deadline)
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (atomic_load(&over) != 1 || error)
		rank_fail(r, "callbacks: %d, error %d", atomic_load(&over), error);
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
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

/* --------------------------------------------------------------------------------- main -- */

/* Streams cannot wait for memory: a call on the device that is to wait for one on the host waits in the calling thread. */
static void test_waiting_threads(void)
{
	setenv("STANDIN_CUDA_WAIT", "801", 1);
	for (int nranks = 1; nranks <= 3; nranks += 2) {
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, one_after_the_other, NULL},
			"calls on both wait for each other in turn, in the calling thread");
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, there_and_back, NULL},
			"two communicators wait for each other in turn, in the calling thread");
	}
	unsetenv("STANDIN_CUDA_WAIT");
}

/* Each rank's device decides which default stream is meant, although no context is current in the calls. */
static void test_default_streams(void)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
	} jobs[] = {{host_after_stream, "a call on the host waits for an event of"},
		    {host_with_stream, "a call on the host with"},
		    {device_after_host, "a call on the host, for which waits"}};

	for (int i = 0; i < 3; i++) {
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, jobs[i].fn, CU_STREAM_LEGACY},
			"%s a legacy default stream", jobs[i].name);
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, jobs[i].fn, CU_STREAM_PER_THREAD},
			"%s a per-thread default stream", jobs[i].name);
	}
}

int main(int argc, char **argv)
{
	static const struct host_job jobs[] = {
		{host_after_device, "a call on the host waits for an event of the device", 1},
		{host_after_stream, "a call on the host waits for an event of a stream", 1},
		{device_after_host, "calls on the device wait for an event of the host", 1},
		{one_after_the_other, "calls on both wait for each other in turn", 1},
		{there_and_back, "two communicators wait for each other in turn", 1},
		{host_with_stream, "a call on the host with a stream", 1},
		{host_call_of_another_thread, "another thread has made a call on the host", 2},
		{events_in_group, "no events in a group with calls on the host", 1},
		{requests, "requests of both", 1},
		{limit_of_the_past, "a limit that nobody has looked at in its time", 1},
		{refused_call, "a refused call on the host is not the newest operation", 2},
		{refused_start, "nor is a refused start", 2},
		{callback_by_questions, "a callback comes while the program asks for errors", 1},
		{derived, "communicators from others", 1},
		{derived_in_group, "splits in a group", 2},
		{NULL, NULL, 0}};

	nccl_begin(argv, ".libs");
	/* For driver.t, with a driver that lacks functions. */
	if (argc > 1) {
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, host_after_stream, NULL},
			"a call on the host waits for a stream");
		return done_testing();
	}
	test_waiting_threads();
	test_default_streams();
	nccl_ok(&(struct nccl_job){1, 1, INIT_EXCHANGE, refused_record, NULL},
		"the driver refuses an event");
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, own_requests, NULL},
		"threads get the requests of their own calls");
	host_run(jobs);
	return done_testing();
}
