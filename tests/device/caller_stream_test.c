/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_stream_test.c - calls with a stream of the program over backends with a transport: the
 * order of the stream's work and the operations, and its release after every failure.
 */
#include "staging_harness.h"

enum { LATE_US = 20000, MANY = 200, PATIENCE_S = 60, ROOM_MB = 140 };

/* Of a job of two ranks. */
struct failure {
	pthread_barrier_t over;
};

/* ----------------------------------------------------------------------- streams -- */

static void *stream_new(int device)
{
	void *stream = NULL;

	context_begin(device);
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		bail_out("no stream");
	context_end(device);
	return stream;
}

static int stream_do(int device, void *stream, int (*fn)(void *stream))
{
	int code;

	context_begin(device);
	code = fn(stream);
	context_end(device);
	return code;
}

/* Does the stream end its work before the test loses patience? */
static int stream_ends(struct rank *r, void *stream, const char *what)
{
	double end = ranks_now() + PATIENCE_S;
	int code;

	while ((code = stream_do(0, stream, cuStreamQuery)) == CUDA_ERROR_NOT_READY)
		if (ranks_now() > end)
			return rank_fail(r, "%s: the stream is still held", what);
		else
			ranks_sleep(0.0005);
	return !code || rank_fail(r, "%s: the stream has failed: %d", what, code);
}

/* A kernel that takes its time, and then writes or reads a number. */
struct kernel {
	int64_t *there, value;
	_Atomic int *gate; /* NULL, or it waits for this */
	int fails;
	_Atomic int done;
};

static int kernel_write(void *arg)
{
	struct kernel *k = arg;
	int64_t *at;

	for (int i = 0; k->gate && !atomic_load(k->gate) && i < PATIENCE_S * 1000; i++)
		ranks_sleep(0.001);
	if (!k->gate)
		ranks_sleep(LATE_US * 1e-6);
	at = standin_touch(k->there, sizeof(*at));
	if (at)
		*at = k->value;
	atomic_store(&k->done, 1);
	return k->fails;
}

static int kernel_read(void *arg)
{
	struct kernel *k = arg;
	const int64_t *at = standin_touch(k->there, sizeof(*at));

	k->value = at ? *at : -1;
	atomic_store(&k->done, 1);
	return 0;
}

static int sum_on(struct rank *r, int64_t *there, void *stream)
{
	return rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream),
			"allreduce");
}

static int64_t sum_of(const struct rank *r)
{
	return r->nranks * (r->nranks + 1) / 2;
}

/* ---------------------------------------------------------------- the order of one call -- */

/* A kernel fills the buffer late, and a kernel behind the call reads the sum; no thread waits. */
static void order_of_one(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);

	for (int i = 0; i < 3 && !r->failure[0]; i++) {
		struct kernel in = {there, r->rank + 1 + i, NULL, 0, 0},
			      out = {there, 0, NULL, 0, 0};

		device_launch(0, stream, kernel_write, &in);
		sum_on(r, there, stream);
		device_launch(0, stream, kernel_read, &out);
		if (stream_ends(r, stream, "one call") && out.value != sum_of(r) + i * r->nranks)
			rank_fail(r, "round %d: the stream found %lld", i, (long long)out.value);
	}
	rank_did(r, coll_sync(r->comm), "sync");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* The call returns although the stream is busy, and the operation has not begun. */
static void call_returns(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	_Atomic int gate = 0;
	struct kernel in = {there, r->rank + 1, &gate, 0, 0}, out = {there, 0, NULL, 0, 0};
	coll_request_t request = NULL;
	int32_t done = 1;

	device_launch(0, stream, kernel_write, &in);
	sum_on(r, there, stream);
	rank_did(r, coll_get_request(r->comm, &request), "request");
	ranks_sleep(0.02);
	rank_did(r, coll_test(request, &done), "test");
	if (done || stream_do(0, stream, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "the operation did not wait for its stream");
	device_launch(0, stream, kernel_read, &out);
	atomic_store(&gate, 1);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	if (stream_ends(r, stream, "a busy stream") && out.value != sum_of(r))
		rank_fail(r, "the stream found %lld", (long long)out.value);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* Host memory; the default streams, of which each device has its own. */
static void default_streams(struct rank *r)
{
	int device = r->rank % 2;
	int64_t *x = calloc(1, sizeof(*x)), *there = device_new(device, sizeof(*there), 0);
	coll_op_t op = COLL_SUM;
	void *context;

	if (!x || cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent_v2(context))
		bail_out("no context");
	for (int i = 0; i < 2; i++) {
		void *stream = i ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
		struct kernel in = {there, 0, NULL, 0, 0};

		*x = r->rank + 1;
		device_launch(device, stream, kernel_write, &in);
		sum_on(r, x, stream);
		if (cuStreamSynchronize(stream) || *x != sum_of(r))
			rank_fail(r, "default stream %d: the sum is %lld", i, (long long)*x);
	}
	/* The operation reads its factor, on the device, while it holds the default stream. */
	*x = 2;
	device_move(device, there, x, sizeof(*x));
	if (rank_did(r,
		     coll_red_op_create_pre_mul_sum(&op, there, COLL_INT64, COLL_SCALAR_DEVICE,
						    r->comm),
		     "pre_mul_sum") &&
	    rank_did(r, coll_allreduce(x, x, 1, COLL_INT64, op, r->comm, CU_STREAM_LEGACY),
		     "allreduce") &&
	    (cuStreamSynchronize(CU_STREAM_LEGACY) || *x != 4 * r->nranks))
		rank_fail(r, "a factor on the device: the sum is %lld", (long long)*x);
	cuCtxPopCurrent_v2(&context);
	cuDevicePrimaryCtxRelease_v2(device);
	device_free(device, there);
	free(x);
}

/* Calls on two streams and on the communicator's own, in the order of issue. */
static void two_streams(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream[2] = {stream_new(0), stream_new(0)};
	struct kernel in = {there, r->rank + 1, NULL, 0, 0}, out = {there, 0, NULL, 0, 0};
	int64_t want = sum_of(r) * r->nranks * r->nranks;

	device_launch(0, stream[0], kernel_write, &in);
	sum_on(r, there, stream[0]);
	sum_on(r, there, stream[1]);
	sum_on(r, there, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	device_launch(0, stream[1], kernel_read, &out);
	if (stream_ends(r, stream[0], "stream 0") && stream_ends(r, stream[1], "stream 1") &&
	    out.value != want)
		rank_fail(r, "the sum is %lld", (long long)out.value);
	for (int i = 0; i < 2; i++)
		stream_do(0, stream[i], cuStreamDestroy_v2);
	device_free(0, there);
}

/* Calls on streams of two devices in turn. */
static void two_devices(struct rank *r)
{
	int64_t *there[2], x = r->rank + 1;
	void *stream[2];

	for (int d = 0; d < 2; d++) {
		there[d] = device_new(d, sizeof(x), 0);
		stream[d] = stream_new(d);
		device_move(d, there[d], &x, sizeof(x));
	}
	for (int i = 0; i < 6 && !r->failure[0]; i++) {
		sum_on(r, there[i % 2], stream[i % 2]);
		rank_did(r, coll_sync(r->comm), "sync");
	}
	for (int d = 0; d < 2; d++) {
		if (stream_do(d, stream[d], cuStreamSynchronize))
			rank_fail(r, "the stream of device %d has failed", d);
		device_move(d, &x, there[d], sizeof(x));
		if (x != sum_of(r) * r->nranks * r->nranks)
			rank_fail(r, "the sum on device %d is %lld", d, (long long)x);
		stream_do(d, stream[d], cuStreamDestroy_v2);
		device_free(d, there[d]);
	}
}

/* Many calls without a wait; the buffers grow, so that the library's own memory must grow too. */
static void many_calls(struct rank *r)
{
	int64_t *there = device_new(0, MANY * sizeof(*there), 0), x[MANY];
	void *stream = stream_new(0);
	int bad = 0;

	/* Finished operations with little memory, which the later ones use again. */
	for (int i = 0; i < 8; i++)
		sum_on(r, there, stream);
	stream_ends(r, stream, "short calls");
	for (int i = 0; i < MANY; i++)
		x[i] = r->rank + i;
	device_move(0, there, x, sizeof(x));
	for (int i = 1; i <= MANY && !r->failure[0]; i++)
		rank_did(r,
			 coll_allreduce(there, there, (size_t)i, COLL_INT64, COLL_MAX, r->comm,
					stream),
			 "allreduce");
	stream_ends(r, stream, "many calls");
	device_move(0, x, there, sizeof(x));
	for (int i = 0; i < MANY; i++)
		bad += x[i] != r->nranks - 1 + i;
	if (bad)
		rank_fail(r, "%d numbers are wrong", bad);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* ------------------------------------------------------------------------- groups -- */

/*
 * A group on two streams is a call on both: it waits for the work of both, and both wait for all
 * of it.
 */
static void groups(struct rank *r)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	int64_t *there = device_new(0, 3 * sizeof(*there), 0);
	void *stream[2] = {stream_new(0), stream_new(0)};
	struct kernel in[2] = {{there, r->rank + 1, NULL, 0, 0},
			       {there + 1, r->rank + 7, NULL, 0, 0}};
	struct kernel out[2] = {{there, 0, NULL, 0, 0}, {there + 2, 0, NULL, 0, 0}};

	rank_did(r, coll_group_start(), "group");
	sum_on(r, there, stream[0]);
	rank_did(r, coll_send(there + 1, 1, COLL_INT64, next, 3, r->comm, stream[0]), "send");
	rank_did(r, coll_recv(there + 2, 1, COLL_INT64, before, 3, r->comm, stream[1]), "recv");
	/* Work between the call and the end of the group comes before the group. */
	device_launch(0, stream[1], kernel_write, &in[0]);
	device_launch(0, stream[0], kernel_write, &in[1]);
	rank_did(r, coll_group_end(), "group");
	device_launch(0, stream[1], kernel_read, &out[0]);
	device_launch(0, stream[0], kernel_read, &out[1]);
	if (stream_ends(r, stream[0], "stream 0") && stream_ends(r, stream[1], "stream 1") &&
	    (out[0].value != sum_of(r) || out[1].value != before + 7))
		rank_fail(r, "%lld and %lld", (long long)out[0].value, (long long)out[1].value);
	for (int i = 0; i < 2; i++)
		stream_do(0, stream[i], cuStreamDestroy_v2);
	device_free(0, there);
}

/* A persistent request starts on its stream. */
static void requests(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	const coll_args_t args = sum_args(there, stream);
	coll_request_t request = NULL;

	if (!rank_did(r, coll_request_init(r->comm, &args, &request), "request_init"))
		return;
	for (int i = 0; i < 3; i++) {
		struct kernel in = {there, r->rank + 1, NULL, 0, 0}, out = {there, 0, NULL, 0, 0};

		device_launch(0, stream, kernel_write, &in);
		rank_did(r, coll_request_start(request), "start");
		device_launch(0, stream, kernel_read, &out);
		if (i % 2)
			rank_did(r, coll_wait(request), "wait");
		if (stream_ends(r, stream, "a request") && out.value != sum_of(r))
			rank_fail(r, "start %d: %lld", i, (long long)out.value);
	}
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_request_free(request), "free");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* ------------------------------------------------------------------------- events -- */

/* A backward pass: the gradient is computed on one stream and reduced on the communicator's own. */
static void event_overlap(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *compute = stream_new(0);
	_Atomic int gate = 0;
	struct kernel in = {there, r->rank + 1, &gate, 0, 0}, out = {there, 0, NULL, 0, 0};
	coll_event_t ready, reduced;

	rank_did(r, coll_event_create(r->comm, &ready), "create");
	rank_did(r, coll_event_create(r->comm, &reduced), "create");
	device_launch(0, compute, kernel_write, &in);
	rank_did(r, coll_event_record_on_stream(ready, r->comm, compute), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, ready), "comm_wait_event");
	sum_on(r, there, NULL);
	rank_did(r, coll_event_record(reduced, r->comm), "record");
	rank_did(r, coll_stream_wait_event(r->comm, compute, reduced), "stream_wait_event");
	device_launch(0, compute, kernel_read, &out);
	if (coll_event_query(ready) != COLL_IN_PROGRESS ||
	    coll_event_query(reduced) != COLL_IN_PROGRESS)
		rank_fail(r, "an event is complete before its time");
	atomic_store(&gate, 1);
	if (stream_ends(r, compute, "events") && out.value != sum_of(r))
		rank_fail(r, "the stream found %lld", (long long)out.value);
	rank_did(r, coll_event_synchronize(ready), "synchronize");
	rank_did(r, coll_event_query(reduced), "query");
	rank_did(r, coll_event_destroy(ready), "destroy");
	rank_did(r, coll_event_destroy(reduced), "destroy");
	stream_do(0, compute, cuStreamDestroy_v2);
	device_free(0, there);
}

/* Streams and communicators that wait for an event keep its old position when it is recorded again. */
static void event_again(struct rank *r)
{
	int64_t *there = device_new(0, 2 * sizeof(*there), 0);
	void *first = stream_new(0), *second = stream_new(0);
	_Atomic int gate = 0;
	struct kernel in = {there, r->rank + 1, &gate, 0, 0}, out = {there, 0, NULL, 0, 0};
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "create");
	rank_did(r, coll_stream_wait_event(r->comm, second, event), "no event yet");
	device_launch(0, first, kernel_write, &in);
	rank_did(r, coll_event_record_on_stream(event, r->comm, first), "record_on_stream");
	rank_did(r, coll_stream_wait_event(r->comm, second, event), "stream_wait_event");
	rank_did(r, coll_comm_wait_event(r->comm, event), "comm_wait_event");
	rank_did(r, coll_event_record_on_stream(event, r->comm, NULL), "record again");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	sum_on(r, there, NULL);
	device_launch(0, second, kernel_read, &out);
	ranks_sleep(0.01);
	if (stream_do(0, second, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "the stream forgot the event for which it waits");
	atomic_store(&gate, 1);
	rank_did(r, coll_sync(r->comm), "sync");
	device_launch(0, first, kernel_read, &out);
	if (stream_ends(r, first, "first") && stream_ends(r, second, "second") &&
	    out.value != sum_of(r))
		rank_fail(r, "the sum is %lld", (long long)out.value);
	rank_did(r, coll_event_destroy(event), "destroy");
	stream_do(0, first, cuStreamDestroy_v2);
	stream_do(0, second, cuStreamDestroy_v2);
	device_free(0, there);
}

/* A stream waits for the operation of another communicator, which then fails. */
static void event_fails(struct rank *r)
{
	int64_t x = 1, y;
	void *stream = stream_new(0);
	coll_comm_t other = NULL;
	coll_event_t event;
	int code;

	rank_did(r, coll_comm_dup(r->comm, &other), "dup");
	rank_did(r, coll_event_create(other, &event), "create");
	if (!r->rank) {
		rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, other, NULL), "call");
		rank_did(r, coll_event_record(event, other), "record");
		rank_did(r, coll_stream_wait_event(r->comm, stream, event), "stream_wait_event");
		ranks_sleep(0.01);
		if (stream_do(0, stream, cuStreamQuery) != CUDA_ERROR_NOT_READY)
			rank_fail(r, "the stream does not wait");
		rank_did(r, coll_comm_abort(other), "abort");
		stream_ends(r, stream, "after the abort");
		code = coll_event_query(event);
		if (code != COLL_ERR_ABORTED)
			rank_fail(r, "the event: %d", code);
		code = coll_stream_wait_event(r->comm, stream, event);
		if (code != COLL_ERR_ABORTED)
			rank_fail(r, "a second wait: %d", code);
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_comm_destroy(other), "destroy");
	rank_did(r, coll_event_destroy(event), "destroy");
	stream_do(0, stream, cuStreamDestroy_v2);
}

/* ----------------------------------------------------- threads that share a communicator -- */

/*
 * Pieces of work that fit into the stream: a kernel, the two pieces that a call on host memory puts there before its
 * operation, and the first one behind it.  The next one makes the calling thread wait in the driver.
 */
enum { ROOM = 4 };

/* A call of another thread of the rank. */
struct caller {
	coll_comm_t comm;
	const coll_args_t *args;
	coll_request_t
		request; /* a persistent one, which the thread starts; NULL: the thread issues the operation */
	int code;
	pthread_t thread;
};

static void *call_in_thread(void *arg)
{
	struct caller *c = arg;

	c->code = c->request ? coll_request_start(c->request)
			     : coll_request_issue(c->comm, c->args, &c->request);
	return NULL;
}

/* A thread makes the call and waits in the driver, although the operation has been issued. */
static void caller_begin(struct rank *r, struct caller *c, struct kernel *held)
{
	const unsigned long before = standin_works();
	const double end = ranks_now() + PATIENCE_S;
	char room[12];

	snprintf(room, sizeof(room), "%d", ROOM);
	setenv("STANDIN_CUDA_ROOM", room, 1);
	device_launch(0, c->args->stream, kernel_write, held);
	if (pthread_create(&c->thread, NULL, call_in_thread, c))
		bail_out("cannot start a thread");
	/* The kernel and two words: the stand-in does not count the event. */
	while (standin_works() < before + ROOM - 1 && ranks_now() < end)
		ranks_sleep(0.0005);
	if (standin_works() != before + ROOM - 1)
		rank_fail(r, "%lu pieces of work", standin_works() - before);
}

static void caller_end(struct rank *r, struct caller *c, _Atomic int *gate)
{
	atomic_store(gate, 1);
	pthread_join(c->thread, NULL);
	unsetenv("STANDIN_CUDA_ROOM");
	if (c->code)
		rank_fail(r, "the call of the thread: %d", c->code);
}

/* Rank 0 makes a call while another thread is still in one; rank 1 sends when the request of that thread is over. */
static void own_requests(struct rank *r)
{
	struct failure *f = r->user;
	int64_t x = r->rank + 1, y = r->rank, *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	_Atomic int gate = 0;
	struct kernel held = {there, 0, &gate, 0, 0};
	const coll_args_t sum = sum_args(&x, stream);
	const coll_args_t recv = {.size = sizeof(recv),
				  .kind = COLL_KIND_RECV,
				  .dtype = COLL_INT64,
				  .root = 1,
				  .recvbuf = &y,
				  .count = 1};
	struct caller c = {.comm = r->comm, .args = &sum};
	coll_request_t request = NULL;
	int32_t done = 1;

	sum_on(r, &y, stream); /* what the library makes only once is made */
	stream_ends(r, stream, "the first call");
	pthread_barrier_wait(&f->over); /* rank 1 puts nothing on a stream meanwhile */
	if (r->rank == 0) {
		caller_begin(r, &c, &held);
		rank_did(r, coll_request_issue(r->comm, &recv, &request), "recv");
		caller_end(r, &c, &gate);
		rank_did(r, coll_wait_for(c.request, 1000 * PATIENCE_S), "the thread's request");
		rank_did(r, coll_test(request, &done), "test");
		if (done || x != sum_of(r))
			rank_fail(r, "the receive is over: %d; the sum is %lld", (int)done,
				  (long long)x);
		pthread_barrier_wait(&f->over);
		rank_did(r, coll_wait(request), "the receive");
		rank_did(r, coll_request_free(request), "free");
		rank_did(r, coll_request_free(c.request), "free");
	} else {
		sum_on(r, &x, NULL);
		rank_did(r, coll_sync(r->comm), "sync");
		pthread_barrier_wait(&f->over);
		rank_did(r, coll_send(&y, 1, COLL_INT64, 0, 0, r->comm, NULL), "send");
	}
	rank_did(r, coll_sync(r->comm), "sync");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* A request that another thread is starting is under way. */
static void start_twice(struct rank *r)
{
	struct failure *f = r->user;
	int64_t x = r->rank + 1, *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	_Atomic int gate = 0;
	struct kernel held = {there, 0, &gate, 0, 0};
	const coll_args_t sum = sum_args(&x, stream);
	struct caller c = {.comm = r->comm, .args = &sum};
	int code;

	rank_did(r, coll_request_init(r->comm, &sum, &c.request), "request_init");
	rank_did(r, coll_request_start(c.request), "start");
	stream_ends(r, stream, "the first start");
	rank_did(r, coll_wait(c.request), "wait");
	pthread_barrier_wait(&f->over);
	if (r->rank == 0) {
		caller_begin(r, &c, &held);
		code = coll_request_start(c.request);
		if (code != COLL_ERR_INVALID_USAGE)
			rank_fail(r, "a second start: %d", code);
		caller_end(r, &c, &gate);
		pthread_barrier_wait(&f->over);
	} else {
		pthread_barrier_wait(&f->over);
		rank_did(r, coll_request_start(c.request), "start");
	}
	rank_did(r, coll_wait(c.request), "wait");
	if (stream_ends(r, stream, "the second start") && x != sum_of(r) * r->nranks)
		rank_fail(r, "the sum is %lld", (long long)x);
	rank_did(r, coll_request_start(c.request), "start again");
	rank_did(r, coll_wait(c.request), "wait");
	rank_did(r, coll_request_free(c.request), "free");
	stream_ends(r, stream, "the third start");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* ----------------------------------------------------------------------- captures -- */

/* Rank 0 captures a stream, in the mode that forbids unsafe calls to all threads of the process. */
static void captures(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0), x = r->rank + 1;
	void *captured = stream_new(0), *stream = stream_new(0), *graph;
	const char *text;
	int code;

	device_move(0, there, &x, sizeof(x));
	sum_on(r, there, stream); /* what the library makes only once is made */
	rank_did(r, coll_barrier(r->comm), "barrier");
	context_begin(0);
	if (!r->rank && cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL))
		bail_out("no capture");
	context_end(0);
	if (!r->rank) {
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, captured);
		text = coll_get_last_error(NULL);
		if (code != COLL_ERR_INVALID_USAGE ||
		    !strstr(text, "allreduce: a graph capture of the stream is in progress"))
			rank_fail(r, "%d (%s)", code, text);
	}
	/* Calls on another stream go on, and do not end the capture. */
	sum_on(r, there, stream);
	rank_did(r, coll_barrier(r->comm), "barrier");
	context_begin(0);
	code = r->rank ? 0 : cuStreamEndCapture(captured, &graph);
	if (!r->rank && !code)
		cuGraphDestroy(graph);
	context_end(0);
	if (code)
		rank_fail(r, "the library has ended the capture: %d", code);
	rank_did(r, coll_barrier(r->comm), "barrier");
	sum_on(r, there, captured);
	stream_ends(r, captured, "after the capture");
	device_move(0, &x, there, sizeof(x));
	if (x != sum_of(r) * r->nranks * r->nranks)
		rank_fail(r, "the sum is %lld", (long long)x);
	stream_do(0, captured, cuStreamDestroy_v2);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* With check_buffers = yes: a call that its stream has refused is no part of the group, which may write to its buffer. */
static void captured_in_group(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0), x = r->rank + 1;
	void *stream = stream_new(0), *graph;
	const coll_args_t args = sum_args(there, stream);
	coll_request_t request = NULL;
	int code[2];

	device_move(0, there, &x, sizeof(x));
	rank_did(r, coll_request_init(r->comm, &args, &request), "request_init");
	context_begin(0);
	if (cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED))
		bail_out("no capture");
	context_end(0);
	rank_did(r, coll_group_start(), "group");
	code[0] = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream);
	code[1] = coll_request_start(request);
	for (int i = 0; i < 2; i++)
		if (code[i] != COLL_ERR_INVALID_USAGE)
			rank_fail(r, "%s: %d", i ? "start" : "allreduce", code[i]);
	sum_on(r, there, NULL);
	rank_did(r, coll_group_end(), "group");
	rank_did(r, coll_sync(r->comm), "sync");
	device_move(0, &x, there, sizeof(x));
	if (x != sum_of(r))
		rank_fail(r, "the sum is %lld", (long long)x);
	context_begin(0);
	if (cuStreamEndCapture(stream, &graph) || cuGraphDestroy(graph))
		rank_fail(r, "the library has ended the capture");
	context_end(0);
	rank_did(r, coll_request_free(request), "free");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* ----------------------------------------------------------------------- failures -- */

/* Rank 0 calls on a stream, rank 1 does not call; the stream must be released with the error. */
static void is_released(struct rank *r, void *stream, int want, const char *words)
{
	double end = ranks_now() + PATIENCE_S;
	coll_result_t error = COLL_SUCCESS;

	stream_ends(r, stream, "after the failure");
	while (!error && ranks_now() < end && !coll_comm_get_async_error(r->comm, &error))
		ranks_sleep(0.001);
	if (error != want || !strstr(coll_get_last_error(r->comm), words))
		rank_fail(r, "error %d (%s), not %d", error, coll_get_last_error(r->comm), want);
}

static void aborts(struct rank *r)
{
	struct failure *f = r->user;
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);

	if (r->rank == 0) {
		sum_on(r, there, stream);
		sum_on(r, there, stream);
		ranks_sleep(0.02);
		if (stream_do(0, stream, cuStreamQuery) != CUDA_ERROR_NOT_READY)
			rank_fail(r, "the stream was not held");
		rank_did(r, coll_comm_abort(r->comm), "abort");
		is_released(r, stream, COLL_ERR_ABORTED, "aborted");
	}
	pthread_barrier_wait(&f->over);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* Two calls whose memory is more than a communicator pins; the stream of the first waits for this thread. */
static void finds_no_room(struct rank *r)
{
	struct failure *f = r->user;
	void *stream[2] = {stream_new(0), stream_new(0)};
	int64_t *there = device_new(0, ROOM_MB << 20, 0),
		*written = device_new(0, sizeof(*written), 0);
	const size_t count = ((size_t)ROOM_MB << 20) / sizeof(*there);
	_Atomic int gate = 0;
	struct kernel in = {written, 1, &gate, 0, 0};

	if (r->rank == 0) {
		device_launch(0, stream[0], kernel_write, &in);
		rank_did(r,
			 coll_allreduce(there, there, count, COLL_INT64, COLL_SUM, r->comm,
					stream[0]),
			 "the first call");
		if (coll_allreduce(there, there, count, COLL_INT64, COLL_SUM, r->comm, stream[1]) !=
			    COLL_ERR_TIMEOUT ||
		    !strstr(coll_get_last_error(NULL),
			    "allreduce timed out: it waits for pinned memory"))
			rank_fail(r, "the second call: %s", coll_get_last_error(NULL));
		rank_did(r, coll_comm_abort(r->comm), "abort");
		atomic_store(&gate, 1);
		for (int i = 0; i < 2; i++)
			stream_ends(r, stream[i], "after the abort");
	}
	pthread_barrier_wait(&f->over);
	for (int i = 0; i < 2; i++)
		stream_do(0, stream[i], cuStreamDestroy_v2);
	device_free(0, there);
	device_free(0, written);
}

/* Nobody waits: the library's own thread finds that nothing moves. */
static void times_out(struct rank *r)
{
	struct failure *f = r->user;
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);

	if (r->rank == 0) {
		sum_on(r, there, stream);
		stream_ends(r, stream, "timeout");
		is_released(r, stream, COLL_ERR_TIMEOUT, "allreduce of 1 int64 (sum) timed out");
	}
	pthread_barrier_wait(&f->over);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

static void destroys(struct rank *r)
{
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	struct rank other = *r;

	rank_did(r, coll_comm_dup(r->comm, &other.comm), "dup");
	if (r->rank == 0) {
		sum_on(&other, there, stream);
		rank_did(r, coll_comm_destroy(other.comm), "destroy");
		stream_ends(r, stream, "destroy");
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank)
		rank_did(r, coll_comm_destroy(other.comm), "destroy");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* A kernel before the call fails: the operation does not start, and the error names the call. */
static void stream_fails(struct rank *r)
{
	struct failure *f = r->user;
	int64_t *there = device_new(0, sizeof(*there), 0);
	void *stream = stream_new(0);
	_Atomic int gate = 0;
	struct kernel in = {there, r->rank + 1, &gate, 700, 0};
	const char *text;
	int code;

	device_launch(0, stream, kernel_write, &in);
	sum_on(r, there, stream);
	pthread_barrier_wait(&f->over); /* both ranks use the device that fails */
	atomic_store(&gate, 1);
	code = coll_sync(r->comm);
	text = coll_get_last_error(NULL);
	if ((code != COLL_ERR_DEVICE && code != COLL_ERR_REMOTE) ||
	    !strstr(text, "allreduce of 1 int64 (sum) cannot start: earlier work of its stream has "
			  "failed"))
		rank_fail(r, "%d (%s)", code, text);
	for (int i = 0; !atomic_load(&in.done) && i < PATIENCE_S * 1000; i++)
		ranks_sleep(0.001);
}

static void peer_dies(struct rank *r)
{
	int64_t *there;
	void *stream;
	int code;

	device_init();
	there = device_new(0, sizeof(*there), 0);
	stream = stream_new(0);
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank == 1) {
		ranks_sleep(0.1);
		kill(getpid(), SIGKILL);
	}
	code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream);
	if (code != COLL_ERR_PEER_LOST) /* which the call returns if it comes after the death */
		rank_did(r, code, "allreduce");
	is_released(r, stream, COLL_ERR_PEER_LOST, "rank 1");
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* ------------------------------------------------------------- a driver that blocks -- */

/* While rank 0 frees memory, which waits for its stream, the driver blocks all copies of the process. */
static void frees(struct rank *r)
{
	int64_t *there, *other, x = r->rank + 1;
	void *stream;

	device_init();
	there = device_new(0, sizeof(*there), 0);
	other = device_new(0, sizeof(*other), 0);
	stream = stream_new(0);
	device_move(0, there, &x, sizeof(x));
	sum_on(r, there, stream); /* what the library makes only once is made */
	rank_did(r, coll_sync(r->comm), "sync");
	if (r->rank == 1)
		ranks_sleep(0.2);
	setenv("STANDIN_CUDA_FREE", "locked", 1);
	sum_on(r, there, stream);
	device_free(0, other);
	unsetenv("STANDIN_CUDA_FREE");
	stream_ends(r, stream, "behind a call while memory was freed");
	device_move(0, &x, there, sizeof(x));
	if (x != sum_of(r) * r->nranks)
		rank_fail(r, "the sum is %lld", (long long)x);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* Rank 0 makes more calls than its stream has room for before rank 1 makes the first. */
static void fills(struct rank *r)
{
	int64_t *there, x = 1;
	void *stream;

	device_init();
	there = device_new(0, sizeof(*there), 0);
	stream = stream_new(0);
	device_move(0, there, &x, sizeof(x));
	setenv("STANDIN_CUDA_ROOM", "16", 1);
	if (r->rank == 1)
		ranks_sleep(0.2);
	for (int i = 0; i < 40; i++)
		sum_on(r, there, stream);
	unsetenv("STANDIN_CUDA_ROOM");
	stream_ends(r, stream, "behind calls that did not fit");
	device_move(0, &x, there, sizeof(x));
	if (x != INT64_C(1) << 40)
		rank_fail(r, "the sum is %lld", (long long)x);
	stream_do(0, stream, cuStreamDestroy_v2);
	device_free(0, there);
}

/* --------------------------------------------------------------------------- tests -- */

static void test_processes(const char *backend, void (*fn)(struct rank *r), const char *what)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	const struct ranks_job job = {backend, 2, 1, fn, NULL};

	log_begin();
	ranks_run_processes(&job, shared);
	log_end();
	ok(!shared->failure[0][0], "%s, 2 processes: %s", backend, what);
	if (shared->failure[0][0])
		diag("%s", shared->failure[0]);
}

/* Runs in a process of its own, because the device is of no use afterwards. */
static void test_stream_fails(const char *backend)
{
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct failure f;
		const struct ranks_job job = {backend, 2, 0, stream_fails, &f};
		struct ranks_shared *shared = ranks_memory(sizeof(*shared));
		int bad;

		pthread_barrier_init(&f.over, NULL, 2);
		device_init();
		ranks_run_threads(&job, shared);
		bad = shared->failure[0][0] || shared->failure[1][0];
		if (bad)
			diag("%s; %s", shared->failure[0], shared->failure[1]);
		fflush(stdout);
		_exit(bad);
	}
	ok(child > 0 && ranks_reap(child, ranks_now() + 120, &status) && !status,
	   "%s: the stream's earlier work fails", backend);
}

static void test_failures(const char *backend)
{
	struct failure f;

	pthread_barrier_init(&f.over, NULL, 2);
	ranks_ok(&(struct ranks_job){backend, 2, 0, aborts, &f}, "an abort releases the stream");
	setenv("COLL_TIMEOUT", "1s", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, times_out, &f}, "so does a timeout");
	ranks_ok(&(struct ranks_job){backend, 2, 0, finds_no_room, &f},
		 "a call that waits for memory of earlier ones has an end");
	setenv("COLL_TIMEOUT", "20s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "200ms", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, destroys, NULL}, "so does a destroy");
	unsetenv("COLL_DESTROY_TIMEOUT");
	ranks_ok(&(struct ranks_job){backend, 2, 0, default_streams, NULL},
		 "host memory, default streams");
	ranks_ok(&(struct ranks_job){backend, 2, 0, own_requests, &f},
		 "threads get the requests of their own calls");
	ranks_ok(&(struct ranks_job){backend, 2, 0, start_twice, &f}, "a request is started twice");
	pthread_barrier_destroy(&f.over);
}

static void test_order(const char *backend)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *what;
	} tests[] = {
		{order_of_one, "the stream's work before and behind a call"},
		{call_returns, "a call with a busy stream returns"},
		{two_streams, "two streams, and the communicator's own"},
		{two_devices, "streams of two devices in turn"},
		{many_calls, "many calls, and memory that is freed when the device is idle"},
		{groups, "a group on two streams"},
		{requests, "persistent requests"},
		{event_overlap, "events between a stream and the communicator"},
		{event_again, "events that are recorded again"},
		{event_fails, "an event of work that fails"},
		{captures, "a stream that is captured is refused; other captures go on"},
		{captured_in_group, "a refused call is no part of its group"},
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (tests[i].fn == many_calls)
			setenv("STANDIN_CUDA_FREE", "wait", 1);
		if (tests[i].fn == captured_in_group)
			setenv("COLL_CHECK_BUFFERS", "yes", 1);
		ranks_ok(&(struct ranks_job){backend, 3, 0, tests[i].fn, NULL}, "%s",
			 tests[i].what);
		unsetenv("STANDIN_CUDA_FREE");
		unsetenv("COLL_CHECK_BUFFERS");
	}
}

int main(void)
{
	static const char *const backends[] = {"tcp", "simulated", "ucx"};
	int can[3];

	stage_begin();
	for (int i = 0; i < 3; i++)
		can[i] = ranks_can(backends[i]);
	for (int i = 0; i < 3; i += 2)
		if (can[i]) {
			test_processes(backends[i], peer_dies, "a dead peer releases the stream");
			test_processes(backends[i], frees, "memory is freed behind a call");
			test_processes(backends[i], fills,
				       "more calls than the stream has room for");
		}
	test_stream_fails("tcp");
	device_init();
	log_begin();
	for (int i = 0; i < 3; i++) {
		if (!can[i])
			continue;
		test_order(backends[i]);
		test_failures(backends[i]);
	}
	log_end();
	stage_end();
	return done_testing();
}
