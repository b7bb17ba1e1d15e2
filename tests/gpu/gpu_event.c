/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_event.c - order between the communicator's stream and the program's own stream, by events.  A
 * gate blocks the program's stream, so that work which fails to wait shows.  Over a transport the
 * library keeps the order by itself, and stages the buffers.
 */
#include "gpu.h"

static struct gpu_gate gate;

static int event_is(coll_event_t event, coll_result_t want, const char *what)
{
	coll_result_t got = coll_event_query(event);

	return got == want ||
	       gpu_fail("%s: %d (%s), not %d", what, got, coll_get_last_error(NULL), want);
}

static int event_make(const struct gpu *g, coll_event_t *events, int n)
{
	for (int i = 0; i < n; i++)
		if (!gpu_did(coll_event_create(g->comm, &events[i]), "coll_event_create"))
			return 0;
	return 1;
}

static void event_end(coll_event_t *events, int n)
{
	for (int i = 0; i < n; i++)
		gpu_did(coll_event_destroy(events[i]), "coll_event_destroy");
}

/* Is the last issued operation still under way? */
static void event_waits(const struct gpu *g)
{
	coll_request_t request;
	int32_t done = -1;

	gpu_sleep(0.05);
	if (!gpu_did(coll_get_request(g->comm, &request), "coll_get_request"))
		return;
	gpu_did(coll_test(request, &done), "coll_test");
	gpu_did(coll_request_free(request), "coll_request_free");
	if (done)
		gpu_fail("the allreduce did not wait for the event");
}

static void event_fresh(const struct gpu *g)
{
	coll_event_t e;

	if (event_make(g, &e, 1)) {
		event_is(e, COLL_SUCCESS, "an event never recorded");
		gpu_did(coll_event_synchronize(e), "coll_event_synchronize");
		gpu_did(coll_comm_wait_event(g->comm, e), "coll_comm_wait_event");
		gpu_did(coll_stream_wait_event(g->comm, g->stream, e), "coll_stream_wait_event");
		gpu_sums(g, g->comm, gpu_total(g), "after an event never recorded");
		event_end(&e, 1);
		gpu_refused(coll_event_query(e), COLL_ERR_INVALID_ARGUMENT, "", "its handle");
	}
	gpu_report("an event never recorded is complete, one destroyed is refused");
}

/* stream -> communicator -> host */
static void event_order(const struct gpu *g)
{
	coll_event_t e[2];

	if (!event_make(g, e, 2)) {
		gpu_report("the communicator waits for a stream");
		return;
	}
	gpu_gate_close(&gate, g->stream);
	gpu_did(coll_event_record_on_stream(e[0], g->comm, g->stream), "record_on_stream");
	event_is(e[0], COLL_IN_PROGRESS, "recorded behind a gate");
	gpu_did(coll_comm_wait_event(g->comm, e[0]), "coll_comm_wait_event");
	gpu_sum_begin(g, g->comm, NULL);
	gpu_did(coll_event_record(e[1], g->comm), "coll_event_record");
	event_is(e[1], COLL_IN_PROGRESS, "recorded after what waits");
	event_waits(g);
	gpu_gate_open(&gate);
	gpu_did(coll_event_synchronize(e[1]), "coll_event_synchronize");
	gpu_sum_end(g, gpu_total(g), "after the gate");
	event_is(e[0], COLL_SUCCESS, "when all is done");
	event_is(e[1], COLL_SUCCESS, "when all is done");
	event_end(e, 2);
	gpu_report("the communicator waits for a stream");
}

/* communicator -> stream */
static void event_back(const struct gpu *g)
{
	void *other = gpu_stream();
	coll_event_t e[2];

	if (!event_make(g, e, 2)) {
		gpu_report("a stream waits for the communicator");
		return;
	}
	gpu_gate_close(&gate, g->stream);
	gpu_did(coll_event_record_on_stream(e[0], g->comm, g->stream), "record_on_stream");
	gpu_did(coll_comm_wait_event(g->comm, e[0]), "coll_comm_wait_event");
	gpu_sum_begin(g, g->comm, NULL);
	gpu_did(coll_event_record(e[1], g->comm), "coll_event_record");
	gpu_did(coll_stream_wait_event(g->comm, other, e[1]), "coll_stream_wait_event");
	/* Copies half of the result to another place, and back. */
	gpu_must(cuda_driver.cuMemcpyAsync((uintptr_t)g->send, (uintptr_t)g->recv, 2048, other),
		 "copy");
	gpu_must(cuda_driver.cuMemsetD8Async((uintptr_t)g->recv, 0, 2048, other), "fill");
	gpu_must(cuda_driver.cuMemcpyAsync((uintptr_t)g->recv, (uintptr_t)g->send, 2048, other),
		 "copy");
	if (cuda_driver.cuStreamQuery(other) != CUDA_NOT_READY)
		gpu_fail("the stream did not wait for the event");
	gpu_gate_open(&gate);
	gpu_must(cuda_driver.cuStreamSynchronize(other), "cuStreamSynchronize");
	gpu_sum_end(g, gpu_total(g), "moved by a stream that waited");
	event_end(e, 2);
	gpu_must(cuda_driver.cuStreamDestroy(other), "cuStreamDestroy");
	gpu_report("a stream waits for the communicator");
}

/* Recording an event again moves the event, but not earlier waits for it. */
static void event_again(const struct gpu *g)
{
	void *idle = gpu_stream();
	coll_event_t e;

	if (event_make(g, &e, 1)) {
		gpu_gate_close(&gate, g->stream);
		gpu_did(coll_event_record_on_stream(e, g->comm, g->stream), "record_on_stream");
		gpu_did(coll_comm_wait_event(g->comm, e), "coll_comm_wait_event");
		gpu_did(coll_event_record_on_stream(e, g->comm, idle), "record_on_stream");
		gpu_must(cuda_driver.cuStreamSynchronize(idle), "cuStreamSynchronize");
		event_is(e, COLL_SUCCESS, "recorded again on an idle stream");
		gpu_sum_begin(g, g->comm, NULL);
		event_waits(g);
		gpu_gate_open(&gate);
		gpu_did(coll_sync(g->comm), "coll_sync");
		gpu_sum_end(g, gpu_total(g), "after the gate");
		event_end(&e, 1);
	}
	gpu_must(cuda_driver.cuStreamDestroy(idle), "cuStreamDestroy");
	gpu_report("an event recorded again has moved, and who waited waits on");
}

/* The program's stream fills, sums and copies; the host waits only at the end. */
static void event_own_stream(const struct gpu *g)
{
	int32_t sums[2] = {0, 0};
	unsigned mine = (unsigned)g->rank + 1;
	coll_event_t e;

	if (event_make(g, &e, 1)) {
		gpu_gate_close(&gate, g->stream);
		gpu_must(cuda_driver.cuMemsetD32Async((uintptr_t)g->send, mine, 2, g->stream),
			 "fill");
		gpu_did(coll_allreduce(g->send, g->recv, 2, COLL_INT32, COLL_SUM, g->comm,
				       g->stream),
			"coll_allreduce");
		gpu_did(coll_event_record_on_stream(e, g->comm, g->stream), "record_on_stream");
		event_is(e, COLL_IN_PROGRESS, "behind the gate");
		gpu_gate_open(&gate);
		gpu_did(coll_event_synchronize(e), "coll_event_synchronize");
		gpu_copy(sums, g->recv, sizeof(sums));
		if (sums[0] != gpu_total(g) || sums[1] != gpu_total(g))
			gpu_fail("the sum is %d, not %d", sums[0], gpu_total(g));
		event_end(&e, 1);
	}
	gpu_report("an allreduce in the program's stream follows what is before it");
}

static void event_most(const struct gpu *g, coll_comm_t comm)
{
	gpu_did(coll_allreduce(g->recv, g->recv, 1024, COLL_INT32, COLL_MAX, comm, NULL),
		"coll_allreduce");
}

/* An event of one communicator orders the work of another. */
static void event_across(const struct gpu *g)
{
	coll_comm_t other;
	coll_event_t e[2];

	if (gpu_did(coll_comm_dup(g->comm, &other), "coll_comm_dup") && event_make(g, e, 2)) {
		/* The first use may load code, for which the driver waits for every stream. */
		event_most(g, other);
		gpu_did(coll_sync(other), "coll_sync");
		gpu_gate_close(&gate, g->stream);
		gpu_did(coll_event_record_on_stream(e[0], other, g->stream), "record_on_stream");
		gpu_did(coll_comm_wait_event(g->comm, e[0]), "coll_comm_wait_event");
		gpu_sum_begin(g, g->comm, NULL);
		gpu_did(coll_event_record(e[1], g->comm), "coll_event_record");
		gpu_did(coll_comm_wait_event(other, e[1]), "coll_comm_wait_event");
		event_most(g, other);
		event_waits(g);
		gpu_gate_open(&gate);
		gpu_did(coll_comm_destroy(other), "coll_comm_destroy");
		gpu_did(coll_sync(g->comm), "coll_sync");
		gpu_sum_end(g, gpu_total(g), "on both communicators");
		event_end(e, 2);
	}
	gpu_report("a communicator waits for another's event");
}

void gpu_event(struct gpu *g)
{
	event_fresh(g);
	event_order(g);
	event_back(g);
	event_again(g);
	event_own_stream(g);
	event_across(g);
}
