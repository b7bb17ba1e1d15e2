/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture_test.c - CUDA graphs and the nccl backend: calls that are captured run when the graph is launched; a capture
 * by any thread neither fails calls of the library nor is ended by them; the end of a communicator that graphs use.
 */
#include "harness.h"

enum { N = 8, LAUNCHES = 3 };

struct job {
	int first;    /* the captured call is the first of the communicator */
	void *stream; /* NULL: one of its own */
};

static void begin_capture(struct rank *r, void *stream, int mode)
{
	context_begin(r->rank);
	if (cuStreamBeginCapture_v2(stream, mode))
		bail_out("no capture");
	context_end(r->rank);
}

static void *end_capture(struct rank *r, void *stream)
{
	void *graph = NULL, *exec = NULL;
	int code;

	context_begin(r->rank);
	code = cuStreamEndCapture(stream, &graph);
	if (code)
		rank_fail(r, "the capture has been ended: %d", code);
	else if (cuGraphInstantiateWithFlags(&exec, graph, 0) || cuGraphDestroy(graph))
		rank_fail(r, "the graph cannot be instantiated");
	context_end(r->rank);
	return exec;
}

static void launch(struct rank *r, void *exec, void *stream)
{
	context_begin(r->rank);
	if (!exec || cuGraphLaunch(exec, stream) || cuStreamSynchronize(stream))
		rank_fail(r, "the graph does not run");
	context_end(r->rank);
}

/* ----------------------------------------------------------------- captured calls -- */

static void calls(struct rank *r, int64_t *there, void *stream)
{
	rank_did(r, coll_allreduce(there, there, N, COLL_INT64, COLL_SUM, r->comm, stream),
		 "allreduce");
	/* In place it needs memory of the backend's. */
	rank_did(r, coll_alltoall(there, there, N / r->nranks, COLL_INT64, r->comm, stream),
		 "alltoall");
}

static void captured(struct rank *r)
{
	const struct job *job = r->user;
	void *stream = job->stream ? job->stream : nccl_stream(r->rank), *exec;
	int64_t x[N], y[N], *there = device_new(r->rank, sizeof(x), 0);
	int64_t *other = device_new(r->rank, sizeof(x), 0);

	if (!job->first)
		calls(r, there, stream);
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	/* The other ranks are threads of this process, whose tests make calls that a global capture forbids. */
	begin_capture(r, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	calls(r, there, stream);
	exec = end_capture(r, stream);
	for (int i = 0; i < LAUNCHES; i++) {
		for (int k = 0; k < N; k++)
			x[k] = 100 * i + k + r->rank;
		device_move(r->rank, there, x, sizeof(x));
		/* The same calls outside the graph use other memory of the backend's. */
		calls(r, other, stream);
		launch(r, exec, stream);
		device_move(r->rank, y, there, sizeof(y));
		for (int k = 0; k < N; k++) {
			int from = r->rank * (N / r->nranks) + k % (N / r->nranks);
			int64_t want =
				r->nranks * (100 * i + from) + r->nranks * (r->nranks - 1) / 2;

			if (y[k] != want)
				rank_fail(r, "launch %d: number %d is %lld, not %lld", i, k,
					  (long long)y[k], (long long)want);
		}
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	cuGraphExecDestroy(exec);
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (!job->stream)
		nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
	device_free(r->rank, other);
}

/* ------------------------------------------------------ captures by other threads -- */

/* Waits until every rank is here, without a call of the communicator. */
static void meet(struct rank *r, _Atomic int *come, int times)
{
	double deadline = ranks_now() + 60;

	atomic_fetch_add(come, 1);
	while (atomic_load(come) < times * r->nranks && ranks_now() < deadline)
		ranks_sleep(0.001);
}

/* Everything that the library does while a stream is captured that it does not know. */
static void meanwhile(struct rank *r)
{
	void *theirs = nccl_stream(r->rank), *mine = nccl_stream(r->rank);
	coll_comm_t dup = NULL;
	coll_event_t event;
	int64_t x[N] = {1}, *there = nccl_new(r->rank, x, N);
	_Atomic int *come = r->user;
	void *exec;

	meet(r, come, 1);
	begin_capture(r, theirs, CU_STREAM_CAPTURE_MODE_GLOBAL);
	for (int i = 0; i < 3; i++)
		calls(r, there, i % 2 ? mine : NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_event_create(r->comm, &event), "event");
	rank_did(r, coll_event_record(event, r->comm), "record");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (rank_did(r, coll_comm_dup(r->comm, &dup), "dup")) {
		rank_did(r, coll_allreduce(there, there, N, COLL_INT64, COLL_SUM, dup, NULL),
			 "allreduce of the dup");
		rank_did(r, coll_sync(dup), "sync of the dup");
		rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	}
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	exec = end_capture(r, theirs);
	meet(r, come, 2);
	cuGraphExecDestroy(exec);
	nccl_stream_do(r->rank, theirs, cuStreamDestroy_v2);
	nccl_stream_do(r->rank, mine, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* ------------------------------------------------------------ a graph beside its stream -- */

/* More than the stand-in sends ahead. */
enum { MANY = 1 << 17 };

static int64_t element(int seed, int from, int to)
{
	return seed + 100 * from + to;
}

static void fill(struct rank *r, int64_t *there, int seed)
{
	int64_t *x = calloc(MANY, sizeof(*x));

	for (int i = 0; x && i < MANY; i++)
		x[i] = element(seed, r->rank, i / (MANY / r->nranks));
	device_move(r->rank, there, x, MANY * sizeof(*x));
	free(x);
}

static void holds(struct rank *r, const int64_t *there, int seed, const char *what)
{
	int64_t *x = calloc(MANY, sizeof(*x));

	device_move(r->rank, x, there, MANY * sizeof(*x));
	for (int i = 0; x && i < MANY; i++)
		if (x[i] != element(seed, i / (MANY / r->nranks), r->rank)) {
			rank_fail(r, "%s: number %d is %lld", what, i, (long long)x[i]);
			break;
		}
	free(x);
}

static void exchange(struct rank *r, int64_t *there, void *stream)
{
	rank_did(r,
		 coll_alltoall(there, there, (size_t)(MANY / r->nranks), COLL_INT64, r->comm,
			       stream),
		 "alltoall");
}

/*
 * The graph of a call runs on another stream than a call that is under way: both have memory of the backend's.  Rank 0
 * comes late, so that the graph begins before that call has sent all.
 */
static void beside(struct rank *r)
{
	void *stream = nccl_stream(r->rank), *other = nccl_stream(r->rank), *exec;
	int64_t *graphed = device_new(r->rank, MANY * sizeof(*graphed), 0);
	int64_t *called = device_new(r->rank, MANY * sizeof(*called), 0);
	_Atomic int *come = r->user;

	exchange(r, called, stream);
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	begin_capture(r, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	exchange(r, graphed, stream);
	exec = end_capture(r, stream);
	for (int i = 1; exec && i <= LAUNCHES; i++) {
		fill(r, called, 1000 * i);
		fill(r, graphed, 2000 * i);
		meet(r, come, i);
		if (r->rank == 0)
			ranks_sleep(0.05);
		exchange(r, called, stream);
		launch(r, exec, other);
		nccl_stream_do(r->rank, stream, cuStreamSynchronize);
		holds(r, called, 1000 * i, "the call");
		holds(r, graphed, 2000 * i, "the graph");
	}
	cuGraphExecDestroy(exec);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	nccl_stream_do(r->rank, other, cuStreamDestroy_v2);
	device_free(r->rank, graphed);
	device_free(r->rank, called);
}

/* ---------------------------------------------------------------------------- ends -- */

/* NCCL waits for the graphs that use a communicator: destroy gives that up at its timeout. */
static void graph_outlives(struct rank *r)
{
	void *stream = nccl_stream(r->rank), *exec;
	int64_t *there = device_new(r->rank, N * sizeof(*there), 0);
	double begin;

	nccl_works(r);
	begin_capture(r, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	calls(r, there, stream);
	exec = end_capture(r, stream);
	begin = ranks_now();
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > 20)
		rank_fail(r, "destroy took %.1f s", ranks_now() - begin);
	cuGraphExecDestroy(exec);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	struct job jobs[] = {{.first = 0},
			     {.first = 1},
			     {.stream = CU_STREAM_PER_THREAD},
			     {.first = 1, .stream = CU_STREAM_PER_THREAD}};

	_Atomic int come = 0;

	nccl_begin(argv, argc > 1 ? argv[1] : ".libs");
	nccl_hold_devices();
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		nccl_ok(&(struct nccl_job){2 + 2 * (i % 2), 0, INIT_ALL, captured, &jobs[i]},
			"a graph of calls%s%s", jobs[i].first ? ", the first ones" : "",
			jobs[i].stream ? ", on the per-thread stream" : "");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, meanwhile, &come},
		"calls while another stream is captured");
	atomic_store(&come, 0);
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, beside, &come},
		"a graph beside a call on the stream that it was captured from");
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, graph_outlives, NULL},
		"destroy while a graph has calls of the communicator");
	is_int(standin_contexts_pushed(), 0, "no context is left with a thread");
	is_int(standin_streams(), 0, "nor a stream");
	return done_testing();
}
