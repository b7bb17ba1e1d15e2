/* SPDX-License-Identifier: BSD-3-Clause */
/* native.c - the state of a backend without a transport: the buffers that it takes, the operations that it has not ended. */
#include "native/native_impl.h"
#include "comm/call_log.h"
#include "device/device.h"
#include "transport/channel.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int native_new(struct native **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	(*out)->until_poll = NATIVE_POLL_EACH;
	return COLL_SUCCESS;
}

void native_free(struct lane *lane)
{
	struct native *n = lane->native;

	for (int i = 0; n && i < NATIVE_MARKERS; i++)
		if (n->marker[i].event && lane->context->ep)
			native_slots(lane)->event_destroy(lane->context->ep, n->marker[i].event);
	free(n);
	lane->native = NULL;
}

/* ---------------------------------------------------------------------- buffers -- */

int native_takes_new(struct lane *lane, const void *ptr)
{
	uintptr_t *set = native_set(lane->native, (uintptr_t)ptr);
	uint32_t kind = COLL_MEM_HOST;
	int device = -1;

	for (int i = 1; i < NATIVE_SET; i++)
		if (set[i] == (uintptr_t)ptr)
			return 1;
	if (lane->context->devices)
		kind = device_kind(ptr, &device);
	if (!(kind & lane->context->memory) ||
	    (kind == COLL_MEM_CUDA && lane->context->device >= 0 &&
	     device != lane->context->device))
		return 0;
	memmove(set + 1, set, (NATIVE_SET - 1) * sizeof(*set));
	set[0] = (uintptr_t)ptr;
	return 1;
}

int native_takes(struct lane *lane, const struct call *call)
{
	const coll_args_t *a = &call->args;

	if (a->sendcounts || a->recvcounts)
		return 0;
	if (call->elements[COLL_BUFFER_SEND]) {
		if (!native_takes_at(lane, a->sendbuf))
			return 0;
		if (a->recvbuf == a->sendbuf)
			return 1;
	}
	return !call->elements[COLL_BUFFER_RECV] || native_takes_at(lane, a->recvbuf);
}

/* ------------------------------------------------------------ operations in its hands -- */

int native_busy(const struct lane *lane)
{
	return lane->native && lane->native->submitted > lane->finished;
}

int native_may_be_aborted(const struct lane *lane)
{
	return atomic_load(&lane->context->notice.ended) || atomic_load(&lane->comm->aborted);
}

void native_want_marker(struct lane *lane)
{
	if (lane->native)
		lane->native->marker_wanted = 1;
}

void native_describe(const struct lane *lane, char *text, size_t size)
{
	const uint64_t last = lane->native->submitted, under_way = last - lane->finished;
	const struct record *op = call_log_record(lane, last);
	size_t used;

	used = (size_t)snprintf(text, size, "%llu operation%s in the hands of backend '%s'",
				(unsigned long long)under_way, under_way == 1 ? "" : "s",
				lane->context->plugin->backend.name);
	if (!op || used + sizeof(", the last ") > size)
		return;
	used += (size_t)snprintf(text + used, size - used, ", the last ");
	call_log_describe(lane, op, text + used, size - used);
}

void native_abort(struct lane *lane)
{
	const coll_native_t *native = lane_native(lane);

	if (native->abort && lane_native_ep(lane))
		native->abort(lane_native_ep(lane));
}

void native_drop_id(const struct context *context, uint32_t context_id)
{
	struct context *control = channel_control(context);

	if (!control || context_id >= (uint32_t)1 << TAG_CONTEXT_BITS)
		return;
	context_lock(control);
	match_forget(&traffic_of(control)->match, ~(uint64_t)0, tag_control(context_id));
	comm_note_freed(control, context_id);
	lock_release(&control->lock);
}
