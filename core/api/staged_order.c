/* SPDX-License-Identifier: BSD-3-Clause */
/* staged_order.c - the place of calls whose device memory is staged among a native communicator's calls. */
#include "api/staged_order.h"
#include "api/event_host.h"
#include "api/host_memory.h"
#include "base/error.h"
#include "base/kind.h"
#include "native/native.h"
#include "comm/lane.h"
#include "comm/queue.h"
#include "comm/comm_wait.h"
#include "transport/traffic.h"

int staged_order_refuse(const coll_args_t *args, const char *where)
{
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s: device memory that is copied through host memory (option "
		"enable_gpu_fallback) has no order among the calls of the backend %s, or pass "
		"host memory, on all ranks",
		kind_name(args->kind), where);
}

static int staged_order_has_streams(const struct comm *comm)
{
	return comm->context->plugin->backend.native->event_record != NULL;
}

/* All issued operations are in the hands of the backend; an error if an open group defers some. */
static int staged_order_flush(struct comm *comm)
{
	queue_run(comm);
	if (comm->queue.head)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "another thread has a group with operations of the communicator "
				 "open: call coll_group_end there first");
	return comm_error(comm);
}

/* The gate waits for the operations before the call, and for its stream. */
static int staged_order_begin_streams(struct comm *comm, coll_args_t *args)
{
	const char *what = kind_name(args->kind);
	struct caller_stream found;
	void *gate = NULL;
	int code = staged_order_flush(comm);

	if (!code && args->stream)
		code = caller_stream_find(what, args->stream, &traffic_of(comm->context)->home,
					  NULL, &found);
	if (!code && args->stream)
		code = caller_stream_check(what, &found);
	if (!code)
		code = event_host_gate(comm, &gate);
	/* The own stream is not empty again before the call is complete. */
	if (!code)
		code = native_mark(comm);
	if (!code)
		code = native_take_place(comm, gate);
	if (!code)
		code = native_join(comm, gate, NULL);
	if (!code && args->stream)
		code = native_join(comm, gate, args->stream);
	args->stream = gate;
	return code;
}

int staged_order_begin(struct comm *comm, coll_args_t *args)
{
	int code;

	if (group_current())
		return staged_order_refuse(args, "in a group: call it before or after the group");
	if (staged_order_has_streams(comm))
		return staged_order_begin_streams(comm, args);
	code = event_host_make(comm);
	return code ? code
		    : event_host_add(comm, outcome_ref(comm->outcome), LANE_FIRST, comm->issued,
				     NULL);
}

int staged_order_end(struct comm *comm, const coll_args_t *args, uint64_t number)
{
	struct lanes *lanes = comm->lanes;
	void *gate = NULL;
	struct rank_name name;
	int code;

	if (number > lanes->staged_number) { /* else another thread has noted a later one */
		lanes->staged_after = comm->issued;
		lanes->staged_number = number;
	}
	lane_note_staged(comm, number);
	if (!staged_order_has_streams(comm))
		return event_await(comm, NULL, outcome_ref(comm->outcome), LANE_HOST, number);
	code = event_host_gate(comm, &gate);
	if (!code)
		code = native_take_place(comm, gate);
	if (!code)
		code = native_join(comm, NULL, gate);
	if (!code && args->stream)
		code = native_join(comm, args->stream, gate);
	if (code)
		comm_fail(comm, 0, code, "%s: %s", comm_own_name(comm, &name), error_text());
	return comm_error(comm);
}

int staged_order_wait(struct comm *comm)
{
	struct lanes *lanes = comm->lanes;
	const uint64_t number = lanes->staged_number;
	int code = comm_wait(comm, lanes->staged_after);

	if (!code)
		code = host_memory_wait(comm, number);
	if (lanes->staged_number == number) /* another thread may have issued one */
		lanes->staged_number = 0;
	return code;
}
