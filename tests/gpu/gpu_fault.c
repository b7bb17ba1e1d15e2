/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_fault.c - faults: memory of the wrong kind, a device changed under the program, a rank that
 * does not come, an abort, an end with work under way, a rank that dies.  No call may hang.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "gpu.h"

/* Tolerance for promises in seconds, on a busy machine. */
static const double slack = 4;

/* Did the work that began at `then` take at most this long? */
static void fault_within(double begin, double seconds, const char *what)
{
	double took = gpu_now() - begin;

	if (took > seconds + slack)
		gpu_fail("%s took %.1f s, not %.1f s at most", what, took, seconds);
}

/* The call fails with the code of this rank's own failure, or another rank told of the same before. */
static void fault_ends(int code, int own, const char *words, const char *what)
{
	if (code != COLL_ERR_REMOTE || !strstr(coll_get_last_error(NULL), words))
		gpu_refused(code, own, "", what);
}

/* Makes a communicator on which rank 0 makes no call; the other ranks begin an allreduce. */
static int fault_stuck(const struct gpu *g, coll_comm_t *comm)
{
	if (!gpu_did(coll_comm_dup(g->comm, comm), "coll_comm_dup"))
		return 0;
	if (!gpu_sums(g, *comm, gpu_total(g), "while all come"))
		return 0;
	return g->rank == 0 || gpu_sum_begin(g, *comm, NULL);
}

/* ------------------------------------------------------------- wrong memory -- */

static void fault_host(const struct gpu *g)
{
	int32_t x = 1, y = 0;

	if (!g->native) {
		gpu_skip("host memory is refused", "backend '%s' takes it", g->backend);
		return;
	}
	gpu_refused(coll_allreduce(&x, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL),
		    COLL_ERR_UNSUPPORTED, "sendbuf is host memory", "a send buffer of the host");
	gpu_refused(coll_allreduce(g->send, &y, 1, COLL_INT32, COLL_SUM, g->comm, NULL),
		    COLL_ERR_UNSUPPORTED, "recvbuf is host memory", "a receive buffer of the host");
	gpu_sums(g, g->comm, gpu_total(g), "afterwards");
	gpu_report("host memory is refused");
}

static void fault_managed(const struct gpu *g)
{
	int32_t *x = gpu_alloc(2 * sizeof(*x), 1);

	if (!x) {
		gpu_skip("managed memory is taken", "the driver gives none");
		return;
	}
	x[0] = g->rank + 1;
	x[1] = 0;
	if (gpu_did(coll_allreduce(x, x + 1, 1, COLL_INT32, COLL_SUM, g->comm, NULL), "managed") &&
	    gpu_did(coll_sync(g->comm), "coll_sync") && x[1] != gpu_total(g))
		gpu_fail("the sum is %d, not %d", x[1], gpu_total(g));
	gpu_free(x);
	gpu_report("managed memory is taken");
}

/* ------------------------------------------------------------ device restored -- */

static void device_is(void *want, const char *when)
{
	void *context = NULL;

	gpu_must(cuda_driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
	if (context != want)
		gpu_fail("the context is %p, not %p, after %s", context, want, when);
}

/* Makes every kind of call with the current context `context`, which is not the communicator's. */
static void device_calls(const struct gpu *g, void *context)
{
	coll_comm_t copy;
	coll_event_t event;

	device_is(context, "nothing");
	gpu_did(coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL),
		"coll_allreduce");
	device_is(context, "coll_allreduce");
	gpu_did(coll_sync(g->comm), "coll_sync");
	device_is(context, "coll_sync");
	gpu_did(coll_event_create(g->comm, &event), "coll_event_create");
	device_is(context, "coll_event_create");
	gpu_did(coll_event_record(event, g->comm), "coll_event_record");
	gpu_did(coll_event_synchronize(event), "coll_event_synchronize");
	gpu_did(coll_event_query(event), "coll_event_query");
	gpu_did(coll_event_destroy(event), "coll_event_destroy");
	device_is(context, "coll_event_*");
	gpu_did(coll_group_start(), "coll_group_start");
	gpu_did(coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL), "group");
	gpu_did(coll_group_end(), "coll_group_end");
	device_is(context, "coll_group_end");
	gpu_did(coll_barrier(g->comm), "coll_barrier");
	device_is(context, "coll_barrier");
	if (gpu_did(coll_comm_dup(g->comm, &copy), "coll_comm_dup")) {
		device_is(context, "coll_comm_dup");
		gpu_did(coll_comm_destroy(copy), "coll_comm_destroy");
		device_is(context, "coll_comm_destroy");
	}
}

static void fault_device(const struct gpu *g)
{
	void *context;

	gpu_must(cuda_driver.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
	device_calls(g, NULL);
	gpu_use(g->device);
	gpu_report("a thread without a context stays so");
	if (g->devices < 2) {
		gpu_skip("another device stays the current one", "one device");
		return;
	}
	gpu_use((g->device + 1) % g->devices);
	gpu_must(cuda_driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
	device_calls(g, context);
	gpu_use(g->device);
	gpu_report("another device stays the current one");
}

/* -------------------------------------------------------- ranks that do not come -- */

struct abort_job {
	coll_comm_t comm;
	double at;
	coll_result_t code;
};

static void *abort_later(void *arg)
{
	struct abort_job *job = arg;

	gpu_sleep(0.3);
	job->at = gpu_now();
	job->code = coll_comm_abort(job->comm);
	return NULL;
}

static void fault_abort(const struct gpu *g)
{
	const char *name = "abort by another thread while a rank does not come";
	struct abort_job job = {0};
	pthread_t thread;
	coll_result_t error = COLL_SUCCESS;

	if (fault_stuck(g, &job.comm) && !pthread_create(&thread, NULL, abort_later, &job)) {
		if (g->rank)
			fault_ends(coll_sync(job.comm), COLL_ERR_ABORTED, "aborted", "coll_sync");
		pthread_join(thread, NULL);
		fault_within(job.at, 1, "from the abort to the end of coll_sync");
		gpu_did(job.code, "coll_comm_abort");
		gpu_did(coll_comm_abort(job.comm), "coll_comm_abort again");
		fault_ends(
			coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, job.comm, NULL),
			COLL_ERR_ABORTED, "aborted", "a call after the abort");
		gpu_did(coll_comm_get_async_error(job.comm, &error), "coll_comm_get_async_error");
		if (error != COLL_ERR_ABORTED && error != COLL_ERR_REMOTE)
			gpu_fail("the asynchronous error is %d", error);
		job.at = gpu_now();
		gpu_did(coll_comm_destroy(job.comm), "coll_comm_destroy");
		fault_within(job.at, 2, "coll_comm_destroy after an abort");
		gpu_refused(coll_comm_abort(job.comm), COLL_ERR_INVALID_ARGUMENT, "",
			    "abort after destroy");
	}
	gpu_sums(g, g->comm, gpu_total(g), "the other communicator afterwards");
	gpu_report("%s", name);
}

/* An abort also ends work on the program's stream. */
static void fault_abort_stream(const struct gpu *g)
{
	coll_comm_t comm;
	double begin;

	if (gpu_did(coll_comm_dup(g->comm, &comm), "coll_comm_dup") &&
	    gpu_sums(g, comm, gpu_total(g), "while all come")) {
		if (g->rank)
			gpu_sum_begin(g, comm, g->stream);
		gpu_sleep(0.2);
		begin = gpu_now();
		gpu_did(coll_comm_abort(comm), "coll_comm_abort");
		while (cuda_driver.cuStreamQuery(g->stream) == CUDA_NOT_READY &&
		       gpu_now() - begin < 1 + slack)
			gpu_sleep(0.001);
		fault_within(begin, 1, "the end of the stream's work after the abort");
		if (cuda_driver.cuStreamQuery(g->stream) == CUDA_NOT_READY)
			gpu_fail("the abort has not ended the stream's work");
		gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
	}
	gpu_sums(g, g->comm, gpu_total(g), "the other communicator afterwards");
	gpu_report("abort of work on the program's stream");
}

/* Rank 0 comes while the others are in destroy, which waits for it. */
static void fault_close(const struct gpu *g, coll_stream_t stream, const char *name)
{
	coll_comm_t comm;

	if (gpu_did(coll_comm_dup(g->comm, &comm), "coll_comm_dup") &&
	    gpu_sums(g, comm, gpu_total(g), "while all come")) {
		if (!g->rank)
			gpu_sleep(0.2);
		gpu_sum_begin(g, comm, stream);
		gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
		gpu_sum_end(g, gpu_total(g), "after the destroy");
	}
	gpu_report("destroy completes work on %s", name);
}

/* The option destroy_timeout is 2 s in this program. */
static void fault_destroy(const struct gpu *g)
{
	coll_comm_t comm;
	double begin;

	if (fault_stuck(g, &comm)) {
		begin = gpu_now();
		if (g->rank) {
			coll_comm_destroy(comm);
			fault_within(begin, 3, "coll_comm_destroy");
		}
		gpu_did(coll_barrier(g->comm), "coll_barrier");
		if (!g->rank) {
			begin = gpu_now();
			coll_comm_destroy(comm);
			fault_within(begin, 3, "coll_comm_destroy where the others have gone");
		}
	}
	gpu_sums(g, g->comm, gpu_total(g), "the other communicator afterwards");
	gpu_report("destroy with work under way");
}

/* The option timeout is 4 s in this theme; rank 0 sleeps so long that its own wait is shorter. */
static void fault_timeout(const struct gpu *g)
{
	coll_comm_t comm;
	double begin;

	if (fault_stuck(g, &comm)) {
		begin = gpu_now();
		if (g->rank) {
			fault_ends(coll_sync(comm), COLL_ERR_TIMEOUT, "timed out", "coll_sync");
			fault_within(begin, 4, "coll_sync");
		} else {
			gpu_sleep(4);
		}
		gpu_did(coll_barrier(g->comm), "coll_barrier");
		gpu_did(coll_comm_abort(comm), "coll_comm_abort");
		begin = gpu_now();
		gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
		fault_within(begin, 2, "coll_comm_destroy");
	}
	gpu_sums(g, g->comm, gpu_total(g), "the other communicator afterwards");
	gpu_report("a wait for a rank that does not come ends");
}

void gpu_fault(struct gpu *g)
{
	fault_host(g);
	fault_managed(g);
	fault_device(g);
	if (g->nranks < 2) {
		gpu_skip("a rank that does not come", "one rank");
		return;
	}
	fault_abort(g);
	fault_abort_stream(g);
	fault_close(g, NULL, "the communicator's stream");
	fault_close(g, g->stream, "the program's stream");
	fault_destroy(g);
	fault_timeout(g);
}

/* ---------------------------------------------------------------------- death -- */

/* The last rank dies while the other ranks wait for it. */
void gpu_death(struct gpu *g)
{
	const char *name = "the others hear of a rank that died, or time out";
	coll_result_t code, error = COLL_SUCCESS;
	double begin;

	if (g->nranks < 2) {
		gpu_skip(name, "one rank");
		return;
	}
	gpu_sums(g, g->comm, gpu_total(g), "while all live");
	if (g->rank == g->nranks - 1) {
		gpu_report("%s", name);
		gpu_report("the communicator's end");
		gpu_say("end");
		gpu_sleep(1); /* until all are done with the first sum */
		_exit(0);
	}
	begin = gpu_now();
	/* The rank may have died before the call. */
	code = coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL);
	if (!code)
		code = coll_sync(g->comm);
	fault_within(begin, 4, "coll_sync");
	if (!code)
		gpu_fail("the sum of the dead is there");
	else if (g->rank == 0)
		gpu_say("note|a rank died: code %d, %s", code, coll_get_last_error(NULL));
	gpu_did(coll_comm_get_async_error(g->comm, &error), "coll_comm_get_async_error");
	if (error != code)
		gpu_fail("the asynchronous error is %d, coll_sync said %d", error, code);
	if (coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL) != code)
		gpu_fail("a later call does not answer %d", code);
	begin = gpu_now();
	gpu_did(coll_comm_abort(g->comm), "coll_comm_abort");
	fault_within(begin, 1, "coll_comm_abort");
	gpu_report("%s", name);
}
