/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - checks of backends that take device memory only: memory that the host cannot access,
 * the caller's streams, events between the caller's streams and the communicator's, the thread's
 * current context.  For all other backends: the caller's streams, whose order the core keeps.
 */
#include <stdlib.h>
#include <string.h>
#include "check/api/api.h"

enum { DEVICE_COUNT = 1000, DEVICE_ROUNDS = 20 };

static int device_did(struct api_rank *r, int code, const char *what)
{
	return !code || api_fail(r, "the kit itself: %s: %s", what, memory_error());
}

/*
 * Makes a stream for backends that have events on streams and no transport, which keep the order of streams by themselves.
 */
static void *device_stream(struct api_rank *r)
{
	void *stream;

	if (!api_may_lack(r)) {
		check_skip(r->c, "the plugin has a transport group, so the core keeps the order of "
				 "streams: see caller-stream");
		return NULL;
	}
	stream = memory_stream_new(r->device);
	if (!stream)
		device_did(r, -1, "a stream");
	return stream;
}

/* ------------------------------------------------------------- accepted kinds of memory -- */

/* Does an allreduce on memory that only the device may access; the check copies the data in and out. */
static void device_memory(struct api_rank *r)
{
	enum { BYTES = DEVICE_COUNT * sizeof(float) };
	float *x = memory_new(MEMORY_CUDA, r->device, BYTES),
	      *own = calloc(DEVICE_COUNT, sizeof(*own));
	int good = device_did(r, x && own ? 0 : -1, "memory");

	for (int i = 0; i < DEVICE_COUNT && good; i++)
		own[i] = (float)(r->rank + i);
	good = good && device_did(r, memory_copy(r->device, x, own, BYTES), "a copy") &&
	       api_did(r, coll_allreduce(x, x, DEVICE_COUNT, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		       "coll_allreduce") &&
	       api_did(r, coll_sync(r->comm), "coll_sync") &&
	       device_did(r, memory_copy(r->device, own, x, BYTES), "a copy");
	for (int i = 0; i < DEVICE_COUNT && good; i++)
		if (own[i] != (float)(r->nranks * (r->nranks - 1) / 2 + r->nranks * i))
			good = api_fail(r, "element %d of the sum is %g", i, (double)own[i]);
	if (good)
		atomic_fetch_add(&r->c->shared->calls, r->rank == 0);
	memory_free(MEMORY_CUDA, r->device, x);
	free(own);
}

/* The call refuses the memory with a message, and the communicator still works. */
static void device_host_refused(struct api_rank *r)
{
	float mine[16] = {0}, *x = memory_new(MEMORY_CUDA, r->device, sizeof(mine));

	if (!device_did(r, x ? 0 : -1, "memory"))
		return;
	if (api_answered(r, coll_allreduce(mine, x, 16, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			 COLL_ERR_UNSUPPORTED, "memory", "an allreduce of host memory") &&
	    api_answered(r, coll_allreduce(x, mine, 16, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			 COLL_ERR_UNSUPPORTED, "memory", "an allreduce into host memory") &&
	    api_did(r, coll_allreduce(x, x, 16, COLL_FLOAT32, COLL_MAX, r->comm, NULL),
		    "coll_allreduce after a refusal"))
		api_did(r, coll_sync(r->comm), "coll_sync");
	memory_free(MEMORY_CUDA, r->device, x);
}

/* ------------------------------------------------------------------------- streams -- */

static void device_sleep(void *ms)
{
	api_sleep_ms(*(int *)ms);
}

/*
 * Fills x on the stream; some fills are late, so that an operation that does not wait for the
 * stream gets wrong data.
 */
static int device_fill(struct api_rank *r, void *stream, int32_t *x, int round)
{
	int *ms = api_buffer(r, sizeof(*ms));

	*ms = 3 * (r->rank + 1);
	return (round % 4 || device_did(r, memory_stream_call(r->device, stream, device_sleep, ms),
					"work on a stream")) &&
	       device_did(r,
			  memory_stream_fill(r->device, stream, x, (uint32_t)(r->rank + round),
					     DEVICE_COUNT),
			  "filling memory");
}

/* One stream fills, sums and copies; the host waits for none of these operations. */
static int device_chain(struct api_rank *r, void *stream, int32_t *x, int32_t *out, int round)
{
	const size_t bytes = DEVICE_COUNT * sizeof(*x);

	return device_fill(r, stream, x, round) &&
	       api_did(r, coll_allreduce(x, x, DEVICE_COUNT, COLL_INT32, COLL_SUM, r->comm, stream),
		       "coll_allreduce on the caller's stream") &&
	       api_did(r,
		       coll_broadcast(x, x, DEVICE_COUNT, COLL_INT32, round % r->nranks, r->comm,
				      stream),
		       "coll_broadcast on the caller's stream") &&
	       device_did(r, memory_stream_copy(r->device, stream, out, x, bytes), "a copy");
}

/* Verifies the results that device_chain and device_loop leave in `out`, round by round. */
static int device_verify(struct api_rank *r, const int32_t *out)
{
	int32_t n = r->nranks;

	for (int round = 0; round < DEVICE_ROUNDS; round++)
		for (int i = 0; i < DEVICE_COUNT; i++)
			if (out[round * DEVICE_COUNT + i] != n * (n - 1) / 2 + n * round)
				return api_fail(r, "element %d of sum %d is %d, not %d", i, round,
						out[round * DEVICE_COUNT + i],
						n * (n - 1) / 2 + n * round);
	atomic_fetch_add(&r->c->shared->calls, r->rank == 0);
	return 1;
}

static void device_stream_order(struct api_rank *r)
{
	int32_t *x = api_buffer(r, DEVICE_COUNT * sizeof(*x));
	int32_t *out = api_buffer(r, (size_t)DEVICE_ROUNDS * DEVICE_COUNT * sizeof(*out));
	void *stream = device_stream(r);
	int good = stream != NULL;

	for (int round = 0; round < DEVICE_ROUNDS && good; round++)
		good = device_chain(r, stream, x, out + round * DEVICE_COUNT, round);
	if (stream && device_did(r, memory_stream_wait(r->device, stream), "a stream") && good)
		device_verify(r, out);
	memory_stream_free(r->device, stream);
}

/* Makes a group of a receive, a send and a sum behind the stream's work, then takes the stream's results. */
static int device_group(struct api_rank *r, void *stream, int32_t *x, uint32_t round)
{
	int32_t n = r->nranks, right = (r->rank + 1) % n, left = (r->rank + n - 1) % n;
	int good =
		device_did(r,
			   memory_stream_fill(r->device, stream, x, (uint32_t)r->rank + round, 2),
			   "filling memory") &&
		api_did(r, coll_group_start(), "coll_group_start") &&
		api_did(r, coll_recv(x + 2, 1, COLL_INT32, left, 0, r->comm, stream),
			"coll_recv on the caller's stream") &&
		api_did(r, coll_send(x, 1, COLL_INT32, right, 0, r->comm, stream),
			"coll_send on the caller's stream") &&
		api_did(r, coll_allreduce(x + 1, x + 1, 1, COLL_INT32, COLL_SUM, r->comm, stream),
			"coll_allreduce on the caller's stream") &&
		api_did(r, coll_group_end(), "coll_group_end") &&
		device_did(r, memory_stream_wait(r->device, stream), "a stream");

	if (good && (x[1] != n * (n - 1) / 2 + n * (int32_t)round || x[2] != left + (int32_t)round))
		good = api_fail(r, "in round %u the sum is %d and %d was received", round, x[1],
				x[2]);
	return good;
}

/* Each operation of a group runs on the stream that its call names. */
static void device_stream_group(struct api_rank *r)
{
	int32_t *x = api_buffer(r, 3 * sizeof(*x));
	void *stream = device_stream(r);
	int good = stream != NULL;

	for (uint32_t round = 0; round < DEVICE_ROUNDS && good; round++)
		good = device_group(r, stream, x, round);
	memory_stream_free(r->device, stream);
}

static void device_caller_rounds(struct api_rank *r, void *stream, int32_t *x, int32_t *out)
{
	int good = 1;

	for (int round = 0; round < DEVICE_ROUNDS && good; round++)
		good = device_chain(r, stream, x, out + round * DEVICE_COUNT, round);
	good = device_did(r, memory_stream_wait(r->device, stream), "a stream") && good &&
	       device_verify(r, out);
	for (uint32_t round = 0; round < DEVICE_ROUNDS && good; round++)
		good = device_group(r, stream, x, round);
}

/*
 * Tries the caller's stream over a transport.  The core keeps the order with the stream, stages the memory, and drives the
 * plugin from a thread of its own while the program's thread waits for the stream only.
 */
static void device_caller_stream(struct api_rank *r)
{
	enum { BYTES = DEVICE_COUNT * sizeof(int32_t) };
	struct api_rank s = *r;
	int32_t *x, *out;
	void *stream;

	s.device = r->rank % r->c->options->traits.gpus;
	x = memory_new(MEMORY_MANAGED, s.device, BYTES);
	out = memory_new(MEMORY_MANAGED, s.device, (size_t)DEVICE_ROUNDS * BYTES);
	stream = memory_stream_new(s.device);
	if (device_did(&s, x && out && stream ? 0 : -1, "memory and a stream"))
		device_caller_rounds(&s, stream, x, out);
	r->step = s.step;
	api_did(r, coll_sync(r->comm), "coll_sync");
	if (stream)
		memory_stream_free(s.device, stream);
	memory_free(MEMORY_MANAGED, s.device, x);
	memory_free(MEMORY_MANAGED, s.device, out);
}

/* -------------------------------------------------------------------------- events -- */

/* Does a round on two streams: the caller's stream fills and copies, the communicator's stream sums. */
static int device_loop(struct api_rank *r, void *stream, coll_event_t event, int32_t *x,
		       int32_t *out, int round)
{
	const size_t bytes = DEVICE_COUNT * sizeof(*x);

	return device_fill(r, stream, x, round) &&
	       api_did(r, coll_event_record_on_stream(event, r->comm, stream),
		       "coll_event_record_on_stream") &&
	       api_did(r, coll_comm_wait_event(r->comm, event), "coll_comm_wait_event") &&
	       api_did(r, coll_allreduce(x, x, DEVICE_COUNT, COLL_INT32, COLL_SUM, r->comm, NULL),
		       "coll_allreduce") &&
	       api_did(r, coll_event_record(event, r->comm), "coll_event_record") &&
	       api_did(r, coll_stream_wait_event(r->comm, stream, event),
		       "coll_stream_wait_event") &&
	       device_did(r, memory_stream_copy(r->device, stream, out, x, bytes), "a copy");
}

static void device_events(struct api_rank *r)
{
	int32_t *x = api_buffer(r, DEVICE_COUNT * sizeof(*x));
	int32_t *out = api_buffer(r, (size_t)DEVICE_ROUNDS * DEVICE_COUNT * sizeof(*out));
	void *stream = device_stream(r);
	coll_event_t event = NULL;
	int good = stream && api_did(r, coll_event_create(r->comm, &event), "coll_event_create");

	for (int round = 0; round < DEVICE_ROUNDS && good; round++)
		good = device_loop(r, stream, event, x, out + round * DEVICE_COUNT, round);
	if (stream && device_did(r, memory_stream_wait(r->device, stream), "a stream") && good)
		device_verify(r, out);
	if (event)
		api_did(r, coll_event_destroy(event), "coll_event_destroy");
	memory_stream_free(r->device, stream);
}

/*
 * A host function that blocks the stream until the check releases it, or until it ends by itself before a watchdog fires.
 */
struct device_latch {
	atomic_int open;
	int64_t timeout_ms;
};

static void device_wait_latch(void *arg)
{
	struct device_latch *latch = arg;

	for (int64_t ms = 0; !atomic_load(&latch->open) && ms < latch->timeout_ms; ms++)
		api_sleep_ms(1);
}

static int device_latched(struct api_rank *r, void *stream, coll_event_t event,
			  struct device_latch *latch)
{
	coll_result_t code;
	int good;

	good = device_did(r, memory_stream_call(r->device, stream, device_wait_latch, latch),
			  "work on a stream") &&
	       api_did(r, coll_event_record_on_stream(event, r->comm, stream),
		       "coll_event_record_on_stream") &&
	       api_did(r, coll_comm_wait_event(r->comm, event), "coll_comm_wait_event") &&
	       api_answered(r, coll_event_query(event), COLL_IN_PROGRESS, NULL,
			    "coll_event_query before the work ahead of the event is done");
	atomic_store(&latch->open, 1);
	if (!good)
		return 0;
	code = coll_event_synchronize(event);
	return api_did(r, code, "coll_event_synchronize") &&
	       api_did(r, coll_event_query(event), "coll_event_query after synchronize") &&
	       api_works(r);
}

static void device_event_states(struct api_rank *r)
{
	struct device_latch latch = {.timeout_ms = r->c->timeout_ms / 2};
	void *stream = device_stream(r);
	coll_event_t event = NULL;

	if (stream && api_did(r, coll_event_create(r->comm, &event), "coll_event_create"))
		device_latched(r, stream, event, &latch);
	if (stream)
		device_did(r, memory_stream_wait(r->device, stream), "a stream");
	if (event)
		api_did(r, coll_event_destroy(event), "coll_event_destroy");
	memory_stream_free(r->device, stream);
}

/* ------------------------------------------------------------------------- context -- */

/*
 * Makes, uses and destroys a communicator; api_did verifies the current context after every call.
 */
static void device_life(struct api_rank *r)
{
	struct api_rank again = *r;
	coll_comm_t part = NULL;
	coll_result_t error;
	int32_t done;
	coll_request_t request;

	if (!api_join(&again, &again.comm) || !api_works(&again) ||
	    !api_did(&again, coll_get_request(again.comm, &request), "coll_get_request") ||
	    !api_did(&again, coll_test(request, &done), "coll_test") ||
	    !api_did(&again, coll_request_free(request), "coll_request_free") ||
	    !api_did(&again, coll_barrier(again.comm), "coll_barrier") ||
	    !api_did(&again, coll_comm_get_async_error(again.comm, &error),
		     "coll_comm_get_async_error") ||
	    !api_did(&again, coll_comm_split(again.comm, 0, 0, &part, NULL), "coll_comm_split") ||
	    !api_did(&again, coll_comm_destroy(part), "coll_comm_destroy") ||
	    !api_kit_barrier(&again))
		return;
	api_did(&again, coll_comm_abort(again.comm), "coll_comm_abort");
	api_did(&again, coll_comm_destroy(again.comm), "coll_comm_destroy");
	r->step = again.step;
}

/* Runs once without a current context, and once with the context of another device if there is one. */
static void device_context(struct api_rank *r)
{
	int other = (r->device + 1) % r->c->options->traits.devices;

	device_life(r);
	if (check_failed(r->c) || !device_did(r, memory_enter(other), "a context"))
		return;
	r->context = memory_context();
	device_life(r);
	memory_leave();
	r->context = NULL;
}

/* ------------------------------------------------------------------ the table -- */

static const char *const device_no_copies[] = {"enable_gpu_fallback=no", NULL};

static const char *const device_copies[] = {"enable_gpu_fallback=yes", NULL};

static const struct api_plan device_caller_stream_plan = {.rank = device_caller_stream,
							  .options = device_copies};
static const struct api_plan device_memory_plan = {.rank = device_memory,
						   .options = device_no_copies};
static const struct api_plan device_host_plan = {.rank = device_host_refused,
						 .options = device_no_copies};
static const struct api_plan device_stream_order_plan = {.rank = device_stream_order};
static const struct api_plan device_stream_group_plan = {.rank = device_stream_group};
static const struct api_plan device_events_plan = {.rank = device_events};
static const struct api_plan device_event_states_plan = {.rank = device_event_states};
static const struct api_plan device_context_plan = {.rank = device_context, .flags = API_NO_COMM};

const struct check check_api_device[] = {
	{"device-memory", "memory that only the device may touch is reduced",
	 "coll.h, Device memory", CHECK_API, .needs = CHECK_DEVICES, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &device_memory_plan},
	{"device-host",
	 "host memory beside device memory is refused where the backend does not take it",
	 "coll.h, Device memory", CHECK_API, .needs = CHECK_DEVICES, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &device_host_plan},
	{"device-context", "no call changes the thread's current context", "coll.h, Device memory",
	 CHECK_API, .needs = CHECK_DEVICES | CHECK_MANAGED, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &device_context_plan},
	{"stream-order", "operations on the caller's stream run in the order of that stream",
	 "coll.h, coll_stream_t", CHECK_API, .needs = CHECK_DEVICES | CHECK_MANAGED | CHECK_EVENTS,
	 .ways = CHECK_EITHER, .run = api_run, .plan = &device_stream_order_plan},
	{"stream-group", "a group's operations run on the caller's stream", "coll.h, coll_stream_t",
	 CHECK_API, .needs = CHECK_DEVICES | CHECK_MANAGED | CHECK_EVENTS, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &device_stream_group_plan},
	{"caller-stream",
	 "over a transport, operations and groups on the caller's stream run in the order of that "
	 "stream",
	 "coll.h, coll_stream_t", CHECK_API, .needs = CHECK_TRANSPORT | CHECK_STREAMS,
	 .bare = "the engine has streams of its own: see stream-order, stream-group and "
		 "stream-events",
	 .ways = CHECK_EITHER, .run = api_run, .plan = &device_caller_stream_plan},
	{"stream-events", "events order the caller's stream and the communicator's, both ways",
	 "coll.h, coll_event_create", CHECK_API,
	 .needs = CHECK_DEVICES | CHECK_MANAGED | CHECK_EVENTS, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &device_events_plan},
	{"stream-event-states", "an event on the caller's stream is complete when its work is done",
	 "coll.h, coll_event_query", CHECK_API,
	 .needs = CHECK_DEVICES | CHECK_MANAGED | CHECK_EVENTS, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &device_event_states_plan},
	{.name = NULL},
};
