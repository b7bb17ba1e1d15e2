/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_test.c - events between the communicator's stream and the application's: the pattern of a
 * backward pass, events across communicators and devices, and events that must not be complete yet.
 */
#include "harness.h"

/* Fills n words on a stream. */
static void fill_async(struct rank *r, int device, void *at, unsigned value, void *stream)
{
	context_begin(device);
	if (cuMemsetD32Async((uintptr_t)at, value, 2, stream))
		rank_fail(r, "memset");
	context_end(device);
}

static void copy_async(struct rank *r, int device, void *to, const void *from, void *stream)
{
	context_begin(device);
	if (cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, 8, stream))
		rank_fail(r, "copy");
	context_end(device);
}

/*
 * The seven calls of a backward pass: the compute stream computes the gradient, the communicator's
 * stream waits for it, and the compute stream waits for the sum.  The gate makes sure that no step
 * runs too early.
 */
static void event_overlap(struct rank *r)
{
	void *compute = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	int64_t x[2] = {-1, -1}, *there = nccl_new(r->rank, x, 2);
	coll_event_t ready, reduced;

	rank_did(r, coll_event_create(r->comm, &ready), "event_create");
	rank_did(r, coll_event_create(r->comm, &reduced), "event_create");
	nccl_gate(&gate, r->rank, compute);
	fill_async(r, r->rank, there, 1, compute);
	rank_did(r, coll_event_record_on_stream(ready, r->comm, compute), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, ready), "comm_wait_event");
	rank_did(r, coll_allreduce(there, there, 2, COLL_INT32, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_event_record(reduced, r->comm), "record");
	rank_did(r, coll_stream_wait_event(r->comm, compute, reduced), "stream_wait_event");
	copy_async(r, r->rank, there + 1, there, compute);
	if (coll_event_query(ready) != COLL_IN_PROGRESS ||
	    coll_event_query(reduced) != COLL_IN_PROGRESS)
		rank_fail(r, "an event is complete before its time");
	nccl_open(&gate);
	rank_did(r, coll_event_synchronize(reduced), "event_synchronize");
	rank_did(r, coll_event_query(ready), "query");
	rank_did(r, coll_event_query(reduced), "query");
	nccl_stream_do(r->rank, compute, cuStreamSynchronize);
	if (nccl_value(r->rank, there + 1) != ((int64_t)r->nranks << 32 | r->nranks))
		rank_fail(r, "the sum is %#llx", (long long)nccl_value(r->rank, there + 1));
	rank_did(r, coll_event_destroy(ready), "event_destroy");
	rank_did(r, coll_event_destroy(reduced), "event_destroy");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(r->rank, compute, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/*
 * An event never recorded is complete, and a wait for it returns.  After a second recording,
 * earlier waits still wait for the first position.
 */
static void event_again(struct rank *r)
{
	void *first = nccl_stream(r->rank), *second = nccl_stream(r->rank);
	struct nccl_gate gate[2] = {{0, 0}, {0, 0}};
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "create");
	rank_did(r, coll_event_query(event), "query of what was never recorded");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	rank_did(r, coll_comm_wait_event(r->comm, event), "comm_wait_event");
	rank_did(r, coll_stream_wait_event(r->comm, first, event), "stream_wait_event");
	nccl_gate(&gate[0], r->rank, first);
	rank_did(r, coll_event_record_on_stream(event, r->comm, first), "record");
	rank_did(r, coll_stream_wait_event(r->comm, second, event), "stream_wait_event");
	rank_did(r, coll_event_record(event, r->comm), "record again, on an idle stream");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (nccl_stream_do(r->rank, second, cuStreamQuery) != CUDA_ERROR_NOT_READY)
		rank_fail(r, "the stream forgot what it waits for");
	nccl_open(&gate[0]);
	nccl_stream_do(r->rank, second, cuStreamSynchronize);
	rank_did(r, coll_event_destroy(event), "destroy");
	nccl_stream_do(r->rank, first, cuStreamSynchronize);
	nccl_stream_do(r->rank, first, cuStreamDestroy_v2);
	nccl_stream_do(r->rank, second, cuStreamDestroy_v2);
}

/* NULL as the other stream stands for the calling thread. */
static void event_of_thread(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "create");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (nccl_value(r->rank, there) != r->nranks)
		rank_fail(r, "complete before the operation");
	rank_did(r, coll_event_destroy(event), "destroy");
	device_free(r->rank, there);
}

/*
 * The stream of another communicator waits for an event, and the event outlives its communicator.
 */
static void event_across(struct rank *r)
{
	void *compute = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	int64_t x = 0, *there = nccl_new(r->rank, &x, 1);
	coll_event_t event;
	coll_comm_t dup = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		return;
	rank_did(r, coll_event_create(dup, &event), "create");
	nccl_gate(&gate, r->rank, compute);
	fill_async(r, r->rank, there, 2, compute);
	rank_did(r, coll_event_record_on_stream(event, dup, compute), "record");
	rank_did(r, coll_comm_wait_event(dup, event), "dup waits");
	rank_did(r, coll_allreduce(there, there, 2, COLL_INT32, COLL_SUM, dup, NULL), "allreduce");
	rank_did(r, coll_event_record(event, dup), "record on the dup");
	rank_did(r, coll_comm_wait_event(r->comm, event), "the other waits");
	rank_did(r, coll_allreduce(there, there, 2, COLL_INT32, COLL_SUM, r->comm, NULL), "again");
	nccl_open(&gate);
	rank_did(r, coll_sync(r->comm), "sync");
	if ((int32_t)nccl_value(r->rank, there) != 2 * r->nranks * r->nranks)
		rank_fail(r, "the sum is %d", (int32_t)nccl_value(r->rank, there));
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	rank_did(r, coll_event_query(event), "query after that");
	rank_did(r, coll_event_record(event, r->comm), "record after that");
	rank_did(r, coll_event_synchronize(event), "synchronize after that");
	rank_did(r, coll_event_destroy(event), "destroy");
	nccl_stream_do(r->rank, compute, cuStreamSynchronize);
	nccl_stream_do(r->rank, compute, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/*
 * One thread has two communicators of one rank each on two devices: an event of the first holds the
 * second back.
 */
static void test_devices(void)
{
	coll_comm_t comms[2][1];
	coll_config_t config;
	struct nccl_gate gate = {0, 0};
	void *compute = nccl_stream(1);
	int64_t x = 0, *there = nccl_new(1, &x, 1);
	coll_event_t event, after;
	int bad = 0;

	ranks_config(&config, "nccl");
	for (int32_t d = 0; d < 2; d++)
		if (coll_comm_init_all(comms[d], 1, &d, &config))
			bail_out("init_all: %s", coll_get_last_error(NULL));
	bad += coll_event_create(comms[1][0], &event) != 0;
	bad += coll_event_create(comms[0][0], &after) != 0;
	nccl_gate(&gate, 1, compute);
	bad += coll_event_record_on_stream(event, comms[1][0], compute) != 0;
	bad += coll_comm_wait_event(comms[0][0], event) != 0;
	bad += coll_event_record(after, comms[0][0]) != 0;
	is_int(bad, 0, "an event of device 1 for a communicator of device 0: %s",
	       coll_get_last_error(NULL));
	is_int(coll_event_query(after), COLL_IN_PROGRESS, "which waits");
	nccl_open(&gate);
	is_int(coll_event_synchronize(after), 0, "and goes on");
	bad += coll_event_destroy(event) != 0;
	bad += coll_event_destroy(after) != 0;
	bad += nccl_stream_do(1, compute, cuStreamSynchronize) != 0;
	bad += nccl_stream_do(1, compute, cuStreamDestroy_v2) != 0;
	for (int d = 0; d < 2; d++)
		bad += coll_comm_destroy(comms[d][0]) != 0;
	is_int(bad, 0, "all is put away");
	device_free(1, there);
}

/* A wait for an event ends after the timeout. */
static void event_timeout(struct rank *r)
{
	void *compute = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	coll_event_t event;
	double begin;

	rank_did(r, coll_event_create(r->comm, &event), "create");
	nccl_gate(&gate, r->rank, compute);
	rank_did(r, coll_event_record_on_stream(event, r->comm, compute), "record");
	begin = ranks_now();
	nccl_fails(r, coll_event_synchronize(event), COLL_ERR_TIMEOUT, "event", "synchronize");
	if (ranks_now() - begin > 60)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	nccl_open(&gate);
	rank_did(r, coll_event_synchronize(event), "synchronize afterwards");
	rank_did(r, coll_event_destroy(event), "destroy");
	nccl_stream_do(r->rank, compute, cuStreamSynchronize);
	nccl_stream_do(r->rank, compute, cuStreamDestroy_v2);
	nccl_works(r);
}

/* A thread that waits for an event of its own stream. */
struct waiting {
	coll_event_t event;
	coll_result_t code;
	_Atomic int begins;
};

static void *synchronize(void *arg)
{
	struct waiting *w = arg;

	atomic_store(&w->begins, 1);
	w->code = coll_event_synchronize(w->event);
	return NULL;
}

/* Another thread waits for its stream when the communicator is aborted or destroyed: the wait is not the communicator's. */
static void end_beside_wait(struct rank *r, int destroys)
{
	void *compute = nccl_stream(r->rank);
	struct nccl_gate gate = {0, 0};
	struct waiting w = {NULL, COLL_IN_PROGRESS, 0};
	coll_comm_t dup = NULL;
	pthread_t thread;
	double begin;

	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		return;
	rank_did(r, coll_event_create(dup, &w.event), "create");
	nccl_gate(&gate, r->rank, compute);
	rank_did(r, coll_event_record_on_stream(w.event, dup, compute), "record");
	if (pthread_create(&thread, NULL, synchronize, &w))
		bail_out("cannot start a thread");
	while (!atomic_load(&w.begins))
		ranks_sleep(0.001);
	ranks_sleep(0.1);
	begin = ranks_now();
	if (!destroys)
		rank_did(r, coll_comm_abort(dup), "abort");
	rank_did(r, coll_comm_destroy(dup), "destroy");
	if (ranks_now() - begin > 30)
		rank_fail(r, "the end took %.1f s", ranks_now() - begin);
	nccl_open(&gate);
	pthread_join(thread, NULL);
	rank_did(r, w.code, "synchronize");
	rank_did(r, coll_event_destroy(w.event), "destroy the event");
	nccl_stream_do(r->rank, compute, cuStreamSynchronize);
	nccl_stream_do(r->rank, compute, cuStreamDestroy_v2);
}

static void event_destroy(struct rank *r)
{
	end_beside_wait(r, 1);
}

static void event_abort(struct rank *r)
{
	end_beside_wait(r, 0);
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	nccl_hold_devices();
	for (int nranks = 1; nranks <= 4; nranks += 3) {
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, event_overlap, NULL},
			"create, record_on_stream, comm_wait, record, stream_wait, query, "
			"synchronize, destroy");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, event_again, NULL},
			"never recorded: complete; recorded again: moved");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, event_of_thread, NULL},
			"an event after an operation");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, event_across, NULL},
			"an event of another communicator, which it outlives");
	}
	test_devices();
	nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, event_destroy, NULL},
		"destroyed while a thread waits for its stream");
	nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, event_abort, NULL},
		"aborted while a thread waits for its stream");
	setenv("COLL_TIMEOUT", "1s", 1);
	nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, event_timeout, NULL}, "a wait has an end");
	return done_testing();
}
