/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_backend.h - rank 0 of a communicator over a backend that a test drives by hand.
 *
 * The transport keeps every send until the test completes it.  Messages come from other ranks at
 * the time, in the order and in the pieces that the test chooses.  The native slots record their
 * calls and return the codes that the test sets.
 */
#ifndef TESTS_FAKE_BACKEND_H
#define TESTS_FAKE_BACKEND_H

#include "base/error.h"
#include "base/handle.h"
#include "compose/steps.h"
#include "native/native.h"
#include "comm/queue.h"
#include "comm/life.h"
#include "exec/control.h"
#include "watch/report.h"

#include "../lib/tap.h"

#include <poll.h>
#include <unistd.h>

#define FAKE_UNUSED __attribute__((unused))

enum { FAKE_RANKS = 4, FAKE_SENDS = 4096 };

/* The endpoint, and all values that the test sets and reads. */
struct fake {
	coll_send_t *send[FAKE_SENDS]; /* accepted sends, in order; cancelled sends are NULL */
	int sends;
	int refuse; /* the code with which send refuses; 0: accepts */
	int cancels, drops, closes, progresses;
	uint64_t dropped; /* the last cookie */
	/* native */
	coll_args_t issued[FAKE_SENDS];
	int issues, slot_code;
	int queries, query_code, async_code, aborts;
	int begins, ends;
	int records, events; /* number of positions recorded; number of events that exist */
	int passed;          /* events recorded up to this number are complete */
};

/* A communicator of FAKE_RANKS ranks, of which this is rank 0. */
struct rig {
	struct plugin plugin;
	struct fake fake;
	struct context *context;
	struct lane *lane;
	struct bootstrap *others[FAKE_RANKS];
};

/* -------------------------------------------------------------------- the transport -- */

static struct fake *fake_endpoint; /* properties of the next open */

static int32_t fake_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	(void)host;
	(void)err;
	*ep = fake_endpoint;
	return COLL_SUCCESS;
}

static void fake_close(void *ep, int64_t timeout_ms)
{
	struct fake *f = ep;

	(void)timeout_ms;
	f->closes++;
}

static int32_t fake_say(coll_error_t *err, int code)
{
	return code && code != COLL_IN_PROGRESS ? error_fill(err, code, "the fake says %d", code)
						: code;
}

static int32_t fake_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct fake *f = ep;

	if (f->refuse)
		return fake_say(err, f->refuse);
	if (f->sends == FAKE_SENDS)
		bail_out("more sends than the test can hold");
	f->send[f->sends++] = send;
	return COLL_SUCCESS;
}

static int32_t fake_progress(void *ep)
{
	struct fake *f = ep;

	f->progresses++;
	return 0;
}

static void fake_cancel(void *ep, coll_send_t *send)
{
	struct fake *f = ep;

	f->cancels++;
	for (int i = 0; i < f->sends; i++)
		if (f->send[i] == send)
			f->send[i] = NULL;
}

static void fake_drop(void *ep, uint64_t cookie)
{
	struct fake *f = ep;

	f->drops++;
	f->dropped = cookie;
}

/* ---------------------------------------------------------------------- native slots -- */

static int32_t fake_slot(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct fake *f = ep;

	if (f->slot_code)
		return fake_say(err, f->slot_code);
	f->issued[f->issues++ % FAKE_SENDS] = *args;
	return COLL_SUCCESS;
}

static int32_t fake_query(void *ep, coll_error_t *err)
{
	struct fake *f = ep;

	f->queries++;
	return fake_say(err, f->query_code);
}

static int32_t fake_async_error(void *ep, coll_error_t *err)
{
	struct fake *f = ep;

	return fake_say(err, f->async_code);
}

static void fake_abort(void *ep)
{
	struct fake *f = ep;

	f->aborts++;
}

static int32_t fake_group_begin(void *ep, coll_error_t *err)
{
	struct fake *f = ep;

	(void)err;
	f->begins++;
	return COLL_SUCCESS;
}

static int32_t fake_group_end(void *ep, coll_error_t *err)
{
	struct fake *f = ep;

	(void)err;
	f->ends++;
	return COLL_SUCCESS;
}

/* An event holds the number of its last recording. */
static int32_t fake_event_create(void *ep, void **event, coll_error_t *err)
{
	struct fake *f = ep;

	(void)err;
	*event = calloc(1, sizeof(int));
	f->events += *event != NULL;
	return *event ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

static void fake_event_destroy(void *ep, void *event)
{
	struct fake *f = ep;

	f->events--;
	free(event);
}

static int32_t fake_event_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct fake *f = ep;

	(void)stream;
	(void)err;
	*(int *)event = ++f->records;
	return COLL_SUCCESS;
}

static int32_t fake_event_query(void *ep, void *event, coll_error_t *err)
{
	const struct fake *f = ep;

	(void)err;
	return *(const int *)event <= f->passed ? COLL_SUCCESS : COLL_IN_PROGRESS;
}

/* ------------------------------------------------------------------------ the rig -- */

FAKE_UNUSED static void fake_transport(struct plugin *plugin)
{
	plugin->transport = (coll_transport_t){.size = sizeof(coll_transport_t),
					       .send = fake_send,
					       .progress = fake_progress,
					       .cancel = fake_cancel,
					       .drop = fake_drop};
	plugin->backend.transport = &plugin->transport;
}

FAKE_UNUSED static void fake_native(struct plugin *plugin)
{
	plugin->native = (coll_native_t){.size = sizeof(coll_native_t),
					 .allreduce = fake_slot,
					 .broadcast = fake_slot,
					 .send = fake_slot,
					 .recv = fake_slot,
					 .group_begin = fake_group_begin,
					 .group_end = fake_group_end,
					 .query = fake_query,
					 .async_error = fake_async_error,
					 .abort = fake_abort,
					 .event_create = fake_event_create,
					 .event_destroy = fake_event_destroy,
					 .event_record = fake_event_record,
					 .event_query = fake_event_query};
	plugin->backend.native = &plugin->native;
}

/* The test sets the plugin's slots before: see rig_new. */
static void rig_open(struct rig *rig)
{
	struct selection selection;
	struct context_parts parts = {
		.client = &comm_context_client, .selection = &selection, .device = -1};
	struct bootstrap *bootstraps[FAKE_RANKS];
	coll_config_t app;

	rig->plugin.backend.size = sizeof(rig->plugin.backend);
	rig->plugin.backend.name = "fake";
	rig->plugin.backend.memory = COLL_MEM_HOST;
	rig->plugin.backend.open = fake_open;
	rig->plugin.backend.close = fake_close;
	coll_config_init(&app, sizeof(app));
	if (config_load(&app, rules_check_option, &parts.config) ||
	    choose_compile(parts.config, &selection) ||
	    bootstrap_open_local(bootstraps, FAKE_RANKS))
		bail_out("cannot make a context: %s", error_text());
	parts.bootstrap = bootstraps[0];
	memcpy(rig->others, bootstraps, sizeof(bootstraps));
	parts.plugin = &rig->plugin;
	fake_endpoint = &rig->fake;
	if (context_make(&rig->context, &parts) || context_open(rig->context))
		bail_out("cannot make a context: %s", error_text());
	rig->context->next_context_id = 1;
	rig->context->cpus = CPUS_OWN; /* the same algorithms on every machine */
	context_enter(rig->context);
	if (comm_new(&rig->lane, rig->context, 0, 0, FAKE_RANKS, NULL))
		bail_out("cannot make a communicator: %s", error_text());
}

/* The caller holds the lock of the context until rig_free. */
FAKE_UNUSED static struct rig *rig_new(void (*slots)(struct plugin *plugin))
{
	struct rig *rig = calloc(1, sizeof(*rig));

	if (!rig)
		bail_out("no memory");
	slots(&rig->plugin);
	rig_open(rig);
	return rig;
}

FAKE_UNUSED static void rig_free_comm(struct rig *rig, struct lane *lane)
{
	void *handle = lane->comm->handle;

	context_leave(rig->context);
	if (!handle_pin(HANDLE_COMM, handle) || handle_end(handle, "a communicator"))
		bail_out("a communicator has no handle");
	lane_free(lane);
	context_enter(rig->context);
}

FAKE_UNUSED static void rig_free(struct rig *rig)
{
	if (rig->lane)
		rig_free_comm(rig, rig->lane);
	context_leave(rig->context);
	context_unref(rig->context, 0);
	for (int r = 1; r < FAKE_RANKS; r++)
		bootstrap_close(rig->others[r]);
	free(rig);
}

/* ------------------------------------------------------------------------------ calls -- */

/* Makes a call that has passed the check of arguments. */
FAKE_UNUSED static struct call fake_call(struct lane *lane, const coll_args_t *args)
{
	struct call call = call_of_library(lane, args);

	if (kind_at(args->kind)->reduces &&
	    redop_find(lane->comm->redops, "call", args->dtype, args->op, &call.redop))
		bail_out("%s", error_text());
	return call;
}

FAKE_UNUSED static int fake_op(struct lane *lane, const coll_args_t *args, struct op **op)
{
	const struct call call = fake_call(lane, args);

	return op_make(lane, &call, op);
}

/* Makes an allreduce of int32 with an empty schedule, which the test fills before it queues the operation. */
FAKE_UNUSED static struct op *fake_empty_op(struct lane *lane, const void *in, void *out,
					    uint64_t count)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = count};
	struct op *op;

	if (fake_op(lane, &args, &op))
		bail_out("cannot make an operation: %s", error_text());
	sched_reset(&op->sched, 0, FAKE_RANKS, sizeof(int32_t), SIZE_MAX);
	op->stage = PLAN_BUILT;
	op->repeatable = 0;
	return op;
}

/* The newest collective of a lane has this signature, as if the queue had appended it. */
FAKE_UNUSED static void fake_log_call(struct lane *lane, const struct signature *call)
{
	*call_log_newest_call(lane) = *call;
	lane->client->issued(lane);
}

/* Completes the schedule of such an operation, and queues it. */
FAKE_UNUSED static void fake_enqueue(struct op *op)
{
	sched_complete(&op->sched);
	op_enqueue(op, 0);
}

FAKE_UNUSED static int fake_issue(struct lane *lane, const coll_args_t *args, uint64_t group)
{
	struct op *op;
	int code = fake_op(lane, args, &op);

	if (!code)
		op_enqueue(op, group);
	return code;
}

/* --------------------------------------------------------------------------- messages -- */

/* Plays the plugin's progress(): announces a message, delivers pieces of it, ends it. */
FAKE_UNUSED static coll_sink_t fake_begin(struct rig *rig, uint32_t peer, uint64_t tag,
					  struct signature signature, uint64_t len)
{
	coll_header_t header = {tag, {signature.meta[0], signature.meta[1]}, len};
	coll_sink_t sink;

	if (rig->context->host.arrive(&rig->context->host, peer, &header, &sink))
		bail_out("the core refuses a message");
	return sink;
}

FAKE_UNUSED static void fake_end(struct rig *rig, coll_sink_t sink, int status)
{
	rig->context->host.arrived(&rig->context->host, sink.cookie, status);
}

FAKE_UNUSED static void fake_message(struct rig *rig, uint32_t peer, uint64_t tag,
				     struct signature signature, const void *bytes, uint64_t len)
{
	coll_sink_t sink = fake_begin(rig, peer, tag, signature, len);

	if (sink.buf && len)
		memcpy(sink.buf, bytes, len);
	else if (len)
		rig->context->host.data(&rig->context->host, sink.cookie, bytes, len);
	fake_end(rig, sink, COLL_SUCCESS);
}

/* A control message that ends with these bytes. */
FAKE_UNUSED static void fake_control_bytes(struct rig *rig, uint32_t peer, const struct lane *lane,
					   int kind, int code, const void *bytes, size_t len)
{
	struct control_body *body = calloc(1, sizeof(*body) + len);

	if (!body)
		bail_out("no memory");
	body->kind = kind;
	body->code = code;
	memcpy(body->text, bytes, len);
	fake_message(rig, peer, tag_control(lane->context_id), (struct signature){{0, 0}}, body,
		     sizeof(*body) + len);
	free(body);
}

FAKE_UNUSED static void fake_control(struct rig *rig, uint32_t peer, const struct lane *lane,
				     int kind, int code, const char *text)
{
	fake_control_bytes(rig, peer, lane, kind, code, text, strlen(text) + 1);
}

/* A report of a rank, with its calls behind it. */
FAKE_UNUSED static void fake_report(struct rig *rig, uint32_t peer, const struct report *report,
				    const struct signature *calls)
{
	const size_t len = sizeof(*report) + report->calls * sizeof(*calls);
	char *bytes = malloc(len);

	if (!bytes)
		bail_out("no memory");
	memcpy(bytes, report, sizeof(*report));
	if (calls)
		memcpy(bytes + sizeof(*report), calls, report->calls * sizeof(*calls));
	fake_control_bytes(rig, peer, rig->lane, CONTROL_REPORT, 0, bytes, len);
	free(bytes);
}

/* A rank destroys its communicator, and names none of its calls. */
FAKE_UNUSED static void fake_leave(struct rig *rig, uint32_t peer)
{
	const struct report report = {.flags = REPORT_LEAVES, .here = {.kind = POSITION_NONE}};

	fake_report(rig, peer, &report, NULL);
}

/* The report in the k-th accepted send, or NULL: the send is another message. */
FAKE_UNUSED static const struct report *fake_sent_report(const struct rig *rig, int k)
{
	const struct control_body *body = rig->fake.send[k]->buf;

	return body->kind == CONTROL_REPORT ? (const void *)body->text : NULL;
}

/* Completes the k-th accepted send. */
FAKE_UNUSED static void fake_complete(struct rig *rig, int k, int status)
{
	if (k >= rig->fake.sends || !rig->fake.send[k])
		bail_out("there is no send %d", k);
	rig->fake.send[k]->status = status;
}

/* Has the core woken the threads that sleep on the context?  Clears the wake-up. */
FAKE_UNUSED static int fake_woken(struct rig *rig)
{
	struct pollfd fd = {.fd = rig->context->waits.wake_fd, .events = POLLIN};
	uint64_t count;

	return poll(&fd, 1, 0) == 1 && read(fd.fd, &count, sizeof(count)) == sizeof(count);
}

#endif
