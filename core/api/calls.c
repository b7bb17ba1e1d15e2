/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c - the public operations: each fills a coll_args_t, which is checked and joins the queue. */
#include "api/calls.h"
#include "api/check.h"
#include "api/group.h"
#include "api/overlap.h"
#include "base/error.h"
#include "comm/staging_sites.h"
#include "comm/queue.h"
#include "comm/comm_wait.h"

/* -------------------------------------------------------- one public operation -- */

int call_join(struct op *op, uint64_t group)
{
	struct lane *lane = op->lane;
	int code = group_join(lane);

	if (!code && op->call.args.stream && !lane->native)
		code = lane->client->begin(op, group);
	if (!code && group)
		code = overlap_check(lane, &op->call);
	return code;
}

/* Enqueues an operation that is in a group, has a stream or copies, or has other things before it. */
__attribute__((noinline)) static int call_queue(struct op *op, const void *site,
						struct issued *issued)
{
	struct lane *lane = op->lane;
	const uint64_t group = group_current();
	const int code = call_join(op, group);
	uint64_t number;

	if (code) {
		op_retire(op);
		return code;
	}
	op->site = op->call.staged ? staging_site(site) : site;
	number = op_enqueue(op, group);
	if (issued)
		issued->number = number;
	if (!group)
		queue_issued(lane);
	if (lane->error && !group)
		lane_flush(lane);
	return comm_error(lane);
}

int call_issue_on_host(struct lane *lane, const coll_args_t *args, int answer, const void *site,
		       struct issued *issued)
{
	const int stages = answer == HOST_MEMORY_STAGES;
	coll_args_t ordered = *args;
	struct issued on_host;
	struct lane *host;
	int code = stages ? lane->client->lanes->stage(lane, &ordered) : COLL_SUCCESS;

	if (!code)
		code = lane->client->lanes->begin(lane);
	if (code)
		return code;
	host = lane_go_host(lane);
	code = call_issue(host, &ordered, site, &on_host);
	(void)lane_go_native(host);
	if (code)
		return code;
	if (stages)
		code = lane->client->lanes->staged(lane, args, on_host.number);
	else if (!group_current())
		code = lane->client->lanes->follow(lane, on_host.number);
	lane_note_issued(lane, on_host.number);
	if (issued)
		*issued = on_host;
	return code;
}

/* A call that the backend has not at once, or that it cannot take.  `code` is the result of its check. */
__attribute__((noinline)) static int call_queue_native(struct lane *lane, const struct call *call,
						       int code, const coll_args_t *args,
						       const void *site, struct issued *issued)
{
	struct op *op;
	int to_host;

	code = host_memory_make(lane, call, code, &op, &to_host);
	if (to_host)
		return call_issue_on_host(lane, args, to_host, site, issued);
	return code ? host_memory_hint(lane, call, code, !group_current())
		    : call_queue(op, site, issued);
}

/* A call that differs from the one before by more than its buffers, or that is in a group. */
__attribute__((noinline)) static int call_check_native(struct lane *lane, const coll_args_t *args,
						       const void *site, struct issued *issued)
{
	struct call call;
	int code = check_call(lane, args, &call);

	if (!code && !group_current() && lane->engine[ENGINE_NATIVE]->now(lane, &call))
		return comm_error(lane);
	return call_queue_native(lane, &call, code, args, site, issued);
}

/* Each call of a program over such a backend comes by here, so that a call which repeats the last one takes the shortest way. */
static inline int call_issue_native(struct lane *lane, const coll_args_t *args, const void *site,
				    struct issued *issued)
{
	if (!group_current() && lane->engine[ENGINE_NATIVE]->again(lane, args))
		return comm_error(lane);
	return call_check_native(lane, args, site, issued);
}

/* Makes the operation of a call that is not the same as an earlier call. */
__attribute__((noinline)) static int call_make(struct lane *lane, const coll_args_t *args,
					       struct op **op)
{
	struct call call;
	int code = check_call(lane, args, &call);

	return code ? code : op_make(lane, &call, op);
}

/* A part of each function of the program's, since each of their calls comes by here. */
__attribute__((always_inline)) static inline int call_issue_here(struct lane *lane,
								 const coll_args_t *args,
								 const void *site,
								 struct issued *issued)
{
	int (*at_once)(struct op * op);
	struct op *op, *made;
	int code;

	/* Of a call that neither waits for its turn nor goes to the host lane. */
	if (issued)
		*issued = (struct issued){lane->index, lane->issued + 1};
	if (lane->error)
		return comm_error(lane);
	if (lane->native)
		return call_issue_native(lane, args, site, issued);
	op = plan_again(lane, args);
	if (!op) {
		code = call_make(lane, args, &made);
		if (code)
			return code;
		op = made;
	}
	if (group_current() || op->call.staged)
		return call_queue(op, site, issued);
	op->site = site;
	at_once = lane->engine[op->call.engine]->at_once;
	if (!at_once || !at_once(op))
		return call_queue(op, site, issued);
	if (!lane->error)
		return COLL_SUCCESS;
	lane_flush(lane);
	return comm_error(lane);
}

int call_issue(struct lane *lane, const coll_args_t *args, const void *site, struct issued *issued)
{
	return call_issue_here(lane, args, site, issued);
}

/* Sets each member, since to clear the struct first takes longer. */
static inline coll_args_t call_args(int kind, const void *sendbuf, void *recvbuf, size_t count,
				    coll_dtype_t dtype, coll_stream_t stream)
{
	coll_args_t args;

	args.size = sizeof(args);
	args.kind = kind;
	args.dtype = dtype;
	args.op = args.root = 0;
	args.sendbuf = sendbuf;
	args.recvbuf = recvbuf;
	args.count = count;
	args.sendcounts = args.senddispls = NULL;
	args.recvcounts = args.recvdispls = NULL;
	args.stream = stream;
	args.scalar = NULL;
	args.tag = args.flags = 0;
	return args;
}

void coll_set_call_site(const void *site)
{
	staging_set_site(site);
}

__attribute__((always_inline)) static inline coll_result_t call(coll_comm_t handle,
								const char *what,
								const coll_args_t *args,
								const void *site)
{
	struct lane *lane = comm_enter_here(handle, LANE_FIRST, what);
	int code;

	if (!lane)
		return error_code();
	code = call_issue_here(lane, args, site, NULL);
	comm_leave_here(lane);
	return code;
}

coll_result_t coll_allreduce(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			     coll_op_t op, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_ALLREDUCE, sendbuf, recvbuf, count, dtype, stream);

	args.op = op;
	return call(comm, "coll_allreduce", &args, __builtin_return_address(0));
}

coll_result_t coll_broadcast(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			     int32_t root, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_BROADCAST, sendbuf, recvbuf, count, dtype, stream);

	args.root = root;
	return call(comm, "coll_broadcast", &args, __builtin_return_address(0));
}

coll_result_t coll_reduce(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			  coll_op_t op, int32_t root, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_REDUCE, sendbuf, recvbuf, count, dtype, stream);

	args.root = root;
	args.op = op;
	return call(comm, "coll_reduce", &args, __builtin_return_address(0));
}

coll_result_t coll_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
			     coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args =
		call_args(COLL_KIND_ALLGATHER, sendbuf, recvbuf, sendcount, dtype, stream);

	return call(comm, "coll_allgather", &args, __builtin_return_address(0));
}

coll_result_t coll_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount,
				  coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				  coll_stream_t stream)
{
	coll_args_t args =
		call_args(COLL_KIND_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, dtype, stream);

	args.op = op;
	return call(comm, "coll_reduce_scatter", &args, __builtin_return_address(0));
}

coll_result_t coll_alltoall(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			    coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_ALLTOALL, sendbuf, recvbuf, count, dtype, stream);

	return call(comm, "coll_alltoall", &args, __builtin_return_address(0));
}

coll_result_t coll_gather(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			  int32_t root, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_GATHER, sendbuf, recvbuf, count, dtype, stream);

	args.root = root;
	return call(comm, "coll_gather", &args, __builtin_return_address(0));
}

coll_result_t coll_scatter(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			   int32_t root, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_SCATTER, sendbuf, recvbuf, count, dtype, stream);

	args.root = root;
	return call(comm, "coll_scatter", &args, __builtin_return_address(0));
}

coll_result_t coll_scan(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			coll_op_t op, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_SCAN, sendbuf, recvbuf, count, dtype, stream);

	args.op = op;
	return call(comm, "coll_scan", &args, __builtin_return_address(0));
}

coll_result_t coll_exscan(const void *sendbuf, void *recvbuf, size_t count, coll_dtype_t dtype,
			  coll_op_t op, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_EXSCAN, sendbuf, recvbuf, count, dtype, stream);

	args.op = op;
	return call(comm, "coll_exscan", &args, __builtin_return_address(0));
}

coll_result_t coll_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
			      const size_t *recvcounts, const size_t *displs, coll_dtype_t dtype,
			      coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLGATHERV, .dtype = dtype};

	args.sendbuf = sendbuf;
	args.recvbuf = recvbuf;
	args.count = sendcount;
	args.recvcounts = recvcounts;
	args.recvdispls = displs;
	args.stream = stream;
	return call(comm, "coll_allgatherv", &args, __builtin_return_address(0));
}

coll_result_t coll_reduce_scatterv(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
				   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				   coll_stream_t stream)
{
	coll_args_t args = {
		.size = sizeof(args), .kind = COLL_KIND_REDUCE_SCATTERV, .dtype = dtype};

	args.op = op;
	args.sendbuf = sendbuf;
	args.recvbuf = recvbuf;
	args.recvcounts = recvcounts;
	args.stream = stream;
	return call(comm, "coll_reduce_scatterv", &args, __builtin_return_address(0));
}

coll_result_t coll_alltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
			     void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
			     coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLTOALLV, .dtype = dtype};

	args.sendbuf = sendbuf;
	args.sendcounts = sendcounts;
	args.senddispls = sdispls;
	args.recvbuf = recvbuf;
	args.recvcounts = recvcounts;
	args.recvdispls = rdispls;
	args.stream = stream;
	return call(comm, "coll_alltoallv", &args, __builtin_return_address(0));
}

coll_result_t coll_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
			   const size_t *recvcounts, const size_t *displs, coll_dtype_t dtype,
			   int32_t root, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_GATHERV, .dtype = dtype};

	args.root = root;
	args.sendbuf = sendbuf;
	args.count = sendcount;
	args.recvbuf = recvbuf;
	args.recvcounts = recvcounts;
	args.recvdispls = displs;
	args.stream = stream;
	return call(comm, "coll_gatherv", &args, __builtin_return_address(0));
}

coll_result_t coll_scatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
			    void *recvbuf, size_t recvcount, coll_dtype_t dtype, int32_t root,
			    coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_SCATTERV, .dtype = dtype};

	args.root = root;
	args.sendbuf = sendbuf;
	args.sendcounts = sendcounts;
	args.senddispls = displs;
	args.recvbuf = recvbuf;
	args.count = recvcount;
	args.stream = stream;
	return call(comm, "coll_scatterv", &args, __builtin_return_address(0));
}

coll_result_t coll_send(const void *sendbuf, size_t count, coll_dtype_t dtype, int32_t peer,
			uint32_t tag, coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_SEND, sendbuf, NULL, count, dtype, stream);

	args.tag = tag;
	args.root = peer;
	return call(comm, "coll_send", &args, __builtin_return_address(0));
}

coll_result_t coll_recv(void *recvbuf, size_t count, coll_dtype_t dtype, int32_t peer, uint32_t tag,
			coll_comm_t comm, coll_stream_t stream)
{
	coll_args_t args = call_args(COLL_KIND_RECV, NULL, recvbuf, count, dtype, stream);

	args.tag = tag;
	args.root = peer;
	return call(comm, "coll_recv", &args, __builtin_return_address(0));
}

/* -------------------------------------------------------------------- waiting -- */

/* Of a communicator that has failed or has two lanes, or within a group. */
__attribute__((noinline)) static int call_wait_lanes(struct lane *lane)
{
	const struct comm *comm = lane->comm;
	int code = comm_error(lane);

	if (!code && lane->finished == lane->issued && !comm->host_issued && !group_current())
		return COLL_SUCCESS;
	if (!code && group_current())
		code = error_set(
			COLL_ERR_INVALID_USAGE,
			"a wait inside a group would never end: call coll_group_end first");
	if (!code && comm->staged_number)
		code = lane_wait_staged(lane);
	if (!code)
		code = lane_wait(lane, lane->issued, 1);
	return code ? code : lane_wait_host(lane, 0);
}

/* May return CONTEXT_LOST; the thread may be cancelled meanwhile. */
static int call_wait_all(struct lane *lane)
{
	if (lane->error || lane->comm->lane[LANE_HOST] || group_current())
		return call_wait_lanes(lane);
	return lane->finished == lane->issued ? COLL_SUCCESS : lane_wait(lane, lane->issued, 1);
}

coll_result_t coll_sync(coll_comm_t handle)
{
	struct lane *lane = comm_enter_here(handle, LANE_FIRST, "coll_sync");
	int code;

	if (!lane)
		return error_code();
	code = call_wait_all(lane);
	if (code == CONTEXT_LOST)
		return comm_leave_lost(lane);
	comm_leave_here(lane);
	return code;
}

coll_result_t coll_barrier(coll_comm_t handle)
{
	struct lane *lane = comm_enter(handle, "coll_barrier");
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	int code;

	if (!lane)
		return error_code();
	code = call_wait_all(lane);
	if (!code)
		code = call_issue(lane, &args, NULL, NULL);
	if (!code)
		code = call_wait_all(lane);
	if (code == CONTEXT_LOST)
		return comm_leave_lost(lane);
	comm_leave(lane);
	return code;
}
