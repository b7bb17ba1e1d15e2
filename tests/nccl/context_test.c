/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_test.c - the CUDA context of a thread belongs to the application: every call of the
 * library leaves it unchanged, also when there is none, and no context stays retained.
 */
#include "harness.h"

/* The current context of the thread. */
static void *context_now(void)
{
	void *context = NULL;

	if (cuCtxGetCurrent(&context))
		bail_out("no current context can be asked for");
	return context;
}

/* The context that the calls of this thread must leave unchanged. */
struct watch {
	struct rank *r;
	void *context;
	int calls;
};

/* Did the call succeed and leave the context unchanged? */
static int kept(struct watch *w, int code, const char *what)
{
	void *now = context_now();

	w->calls++;
	rank_did(w->r, code, what);
	return now == w->context ||
	       rank_fail(w->r, "%s changed the context from %p to %p", what, w->context, now);
}

static void keep_collectives(struct watch *w, int64_t *at)
{
	coll_comm_t m = w->r->comm;
	const size_t counts[4] = {1, 1, 1, 1};

	kept(w, coll_allreduce(at, at, 1, COLL_INT64, COLL_SUM, m, NULL), "allreduce");
	kept(w, coll_allreduce(at, at, 1, COLL_INT64, COLL_SUM, m, NULL), "allreduce again");
	kept(w, coll_broadcast(at, at, 1, COLL_INT64, 0, m, NULL), "broadcast");
	kept(w, coll_reduce(at, at + 1, 1, COLL_INT64, COLL_SUM, 0, m, NULL), "reduce");
	kept(w, coll_allgather(at, at + 4, 1, COLL_INT64, m, NULL), "allgather");
	kept(w, coll_reduce_scatter(at + 4, at, 1, COLL_INT64, COLL_SUM, m, NULL),
	     "reduce_scatter");
	kept(w, coll_alltoall(at + 4, at + 8, 1, COLL_INT64, m, NULL), "alltoall");
	kept(w, coll_gather(at, at + 4, 1, COLL_INT64, 0, m, NULL), "gather");
	kept(w, coll_scatter(at + 4, at, 1, COLL_INT64, 0, m, NULL), "scatter");
	kept(w, coll_allgatherv(at, 1, at + 4, counts, NULL, COLL_INT64, m, NULL), "allgatherv");
	kept(w, coll_reduce_scatterv(at + 4, at, counts, COLL_INT64, COLL_SUM, m, NULL),
	     "reduce_scatterv");
	kept(w, coll_alltoallv(at + 4, counts, NULL, at + 8, counts, NULL, COLL_INT64, m, NULL),
	     "alltoallv");
	kept(w, coll_gatherv(at, 1, at + 4, counts, NULL, COLL_INT64, 0, m, NULL), "gatherv");
	kept(w, coll_scatterv(at + 4, counts, NULL, at, 1, COLL_INT64, 0, m, NULL), "scatterv");
	kept(w, coll_sync(m), "sync");
	kept(w, coll_barrier(m), "barrier");
}

static void keep_messages(struct watch *w, int64_t *at)
{
	int next = (w->r->rank + 1) % w->r->nranks;
	int before = (w->r->rank + w->r->nranks - 1) % w->r->nranks;
	coll_comm_t m = w->r->comm;
	coll_result_t error;

	kept(w, coll_group_start(), "group_start");
	kept(w, coll_send(at, 1, COLL_INT64, next, 0, m, NULL), "send");
	kept(w, coll_recv(at + 1, 1, COLL_INT64, before, 0, m, NULL), "recv");
	kept(w, coll_group_end(), "group_end");
	kept(w, coll_comm_get_async_error(m, &error), "get_async_error");
	kept(w, coll_sync(m), "sync");
}

static void keep_events(struct watch *w, void *stream)
{
	coll_comm_t m = w->r->comm;
	coll_event_t event;

	kept(w, coll_event_create(m, &event), "event_create");
	kept(w, coll_event_record(event, m), "event_record");
	kept(w, coll_event_record_on_stream(event, m, stream), "event_record_on_stream");
	kept(w, coll_comm_wait_event(m, event), "comm_wait_event");
	kept(w, coll_stream_wait_event(m, stream, event), "stream_wait_event");
	kept(w, coll_event_synchronize(event), "event_synchronize");
	kept(w, coll_event_query(event), "event_query");
	kept(w, coll_event_destroy(event), "event_destroy");
}

static void keep_requests(struct watch *w, int64_t *at)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLREDUCE, .count = 1};
	coll_comm_t m = w->r->comm;
	coll_request_t request;
	int32_t done;
	int64_t two = 2;

	args.dtype = COLL_INT64;
	args.sendbuf = args.recvbuf = at;
	kept(w,
	     coll_red_op_create_pre_mul_sum(&args.op, &two, COLL_INT64, COLL_SCALAR_HOST_IMMEDIATE,
					    m),
	     "red_op_create_pre_mul_sum");
	kept(w, coll_request_init(m, &args, &request), "request_init");
	kept(w, coll_request_start(request), "request_start");
	kept(w, coll_test(request, &done), "test");
	kept(w, coll_wait(request), "wait");
	kept(w, coll_request_free(request), "request_free");
	kept(w, coll_red_op_destroy(args.op, m), "red_op_destroy");
}

static void keep_others(struct watch *w, int64_t *at)
{
	coll_comm_t m = w->r->comm, dup = NULL, half = NULL;
	void *handle;

	kept(w, coll_comm_register(m, at, 64, &handle), "register");
	kept(w, coll_comm_deregister(m, handle), "deregister");
	kept(w, coll_comm_native_handle(m, &handle), "native_handle");
	kept(w, coll_comm_dup(m, &dup), "dup");
	kept(w, coll_comm_split(m, 0, 0, &half, NULL), "split");
	kept(w, coll_comm_destroy(half), "destroy of the split");
	kept(w, coll_comm_abort(dup), "abort");
	kept(w, coll_comm_destroy(dup), "destroy of the dup");
}

static void keep_all(struct rank *r)
{
	void *stream = nccl_stream(r->rank), *popped;
	int64_t x[16] = {0}, *at = nccl_new(r->rank, x, 16);
	int other = (r->rank + 1) % NCCL_DEVICES, within = *(const int *)r->user;
	struct watch w = {.r = r};

	if (within) {
		context_begin(other);
		w.context = context_now();
	}
	keep_collectives(&w, at);
	keep_messages(&w, at);
	keep_events(&w, stream);
	keep_requests(&w, at);
	keep_others(&w, at);
	kept(&w, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (within)
		context_end(other);
	/* Verifies that the call left no context below the current one. */
	if (context_now() || !cuCtxPopCurrent_v2(&popped))
		rank_fail(r, "the thread has a context that it had not");
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, at);
}

/* Makes communicators in each way, in a thread with a context and in a thread without. */
static void keep_init(struct rank *r)
{
	int within = *(const int *)r->user;
	struct watch w = {.r = r};
	char id[COLL_UNIQUE_ID_SIZE];
	coll_comm_t comms[2];
	coll_config_t config;

	ranks_config(&config, "nccl");
	if (within) {
		context_begin(3);
		w.context = context_now();
	}
	kept(&w, coll_backend_available("nccl", NULL, 0), "backend_available");
	kept(&w, coll_comm_init_all(comms, 2, NULL, &config), "init_all");
	kept(&w, coll_comm_destroy(comms[0]), "destroy");
	kept(&w, coll_comm_destroy(comms[1]), "destroy");
	kept(&w, coll_get_unique_id(id, sizeof(id)), "get_unique_id");
	config.device = 1;
	kept(&w, coll_comm_init_rank(&comms[0], 1, id, 0, &config), "init_rank");
	kept(&w, coll_comm_destroy(comms[0]), "destroy");
	kept(&w, coll_comm_init_env(&comms[0], &config), "init_env");
	kept(&w, coll_comm_destroy(comms[0]), "destroy");
	if (within)
		context_end(3);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"no context", "the context of another device"};

	(void)argc;
	nccl_begin(argv, ".libs");
	nccl_hold_devices();
	for (int within = 0; within < 2; within++) {
		nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, keep_init, &within},
			"making and destroying with %s", names[within]);
		for (int nranks = 1; nranks <= 4; nranks += 3)
			nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, keep_all, &within},
				"every call with %s", names[within]);
	}
	return done_testing();
}
