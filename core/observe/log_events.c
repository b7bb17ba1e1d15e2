/* SPDX-License-Identifier: BSD-3-Clause */
/* log_events.c - log lines about calls, their steps, and messages. */
#include "observe/log_events.h"
#include "base/dtype.h"
#include "base/kind.h"

#include <coll/introspect.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------ the text -- */

struct event_text {
	char *text;
	size_t used, size;
	int fields;
};

__attribute__((format(printf, 2, 0))) static void event_add_args(struct event_text *t,
								 const char *fmt, va_list args)
{
	const size_t room = t->size - t->used;
	const int n = vsnprintf(t->text + t->used, room, fmt, args);

	if (n > 0)
		t->used += (size_t)n < room ? (size_t)n : room - 1;
}

__attribute__((format(printf, 2, 3))) static void event_add(struct event_text *t, const char *fmt,
							    ...)
{
	va_list args;

	va_start(args, fmt);
	event_add_args(t, fmt, args);
	va_end(args);
}

/* The first field follows a colon, the others follow commas. */
__attribute__((format(printf, 2, 3))) static void event_field(struct event_text *t, const char *fmt,
							      ...)
{
	va_list args;

	event_add(t, t->fields++ ? ", " : ": ");
	va_start(args, fmt);
	event_add_args(t, fmt, args);
	va_end(args);
}

/* An operation that the application has made has no name. */
static const char *event_op_name(int op)
{
	const char *name = coll_op_name(op);

	return name[0] == '?' ? "own" : name;
}

/* "allreduce number 7, collective 5" */
static void event_add_name(struct event_text *t, const coll_observed_t *e)
{
	const int is_message = e->what == COLL_OBSERVE_MESSAGE;

	event_add(t, "%s%s number %" PRIu64, is_message ? "i" : "",
		  kind_is_valid(e->kind) ? kind_name(e->kind) : "call", e->number);
	if (e->collective)
		event_add(t, ", collective %" PRIu64, e->collective);
	if (e->lane)
		event_add(t, ", on host memory");
}

/* "peer 1, tag 7", "root 0", or nothing */
static void event_add_ranks(struct event_text *t, const coll_observed_t *e, int is_p2p)
{
	if (is_p2p && e->peer < 0)
		event_field(t, "peer any");
	else if (e->peer >= 0)
		event_field(t, "%s %d", is_p2p ? "peer" : "root", e->peer);
	if (is_p2p && e->tag == COLL_ANY_TAG)
		event_field(t, "tag any");
	else if (is_p2p)
		event_field(t, "tag %" PRIu32, (uint32_t)e->tag);
}

/* "4 float32, 16 bytes, op sum, root 0" */
static void event_add_shape(struct event_text *t, const coll_observed_t *e)
{
	const struct kind *kind = kind_at(e->kind);

	if (!kind_is_valid(e->kind))
		return;
	if (kind->send != KIND_NONE || kind->recv != KIND_NONE) {
		event_field(t, "%" PRIu64 " %s", e->count,
			    coll_dtype_size(e->dtype) ? coll_dtype_name(e->dtype) : "elements");
		event_field(t, "%" PRIu64 " bytes", e->bytes);
	}
	if (e->op >= 0)
		event_field(t, "op %s", event_op_name(e->op));
	event_add_ranks(t, e, kind->is_p2p);
	if (e->stream)
		event_field(t, "stream 0x%" PRIx64, e->stream);
}

/* "23.4 us, success".  The time is from the call of the program to the end. */
static void event_add_end(struct event_text *t, const coll_observed_t *e)
{
	const int64_t since = e->issued_ns ? e->issued_ns : e->begin_ns;

	if (since)
		event_field(t, "%.1f us", (double)(e->time_ns - since) / 1000);
	event_field(t, "%s", e->code ? coll_error_string(e->code) : "success");
}

/* ---------------------------------------------------------------------- the events -- */

static void event_call(struct event_text *t, const coll_observed_t *e)
{
	event_add_name(t, e);
	if (e->phase != COLL_OBSERVED_END)
		event_add(t, e->phase == COLL_OBSERVED_ISSUED ? " is issued" : " begins");
	event_add_shape(t, e);
	if (e->algorithm)
		event_field(t, "algorithm %s", e->algorithm);
	if (e->phase == COLL_OBSERVED_END)
		event_add_end(t, e);
}

static void event_step(struct event_text *t, const coll_observed_t *e)
{
	static const char *const name[] = {"send",   "receive", "receive and reduce",
					   "reduce", "copy",    "finish"};
	const int known = e->step >= 0 && e->step < (int)(sizeof(name) / sizeof(name[0]));

	event_add_name(t, e);
	event_add(t, " step %d %s: %s, %" PRIu64 " bytes", e->index,
		  e->phase == COLL_OBSERVED_BEGIN ? "begins" : "ends",
		  known ? name[e->step] : "a later kind", e->bytes);
	if (e->peer >= 0)
		event_add(t, ", peer %d", e->peer);
}

static void event_copy(struct event_text *t, const coll_observed_t *e)
{
	event_add_name(t, e);
	event_add(t, " %s a copy to %s: %" PRIu64 " bytes",
		  e->phase == COLL_OBSERVED_BEGIN ? "begins" : "ends",
		  e->step ? "the device" : "host memory", e->bytes);
}

static void event_comm(struct event_text *t, const coll_observed_t *e)
{
	if (e->phase == COLL_OBSERVED_BEGIN)
		event_add(t, "the communicator is made: rank %d of %d, backend %s, job %016" PRIx64,
			  e->rank, e->nranks, e->backend ? e->backend : "unknown", e->job);
	else
		event_add(t, "the communicator is destroyed: rank %d of %d", e->rank, e->nranks);
}

int log_event_text(const coll_observed_t *e, char *text, size_t size)
{
	struct event_text t = {.text = text, .size = size};

	text[0] = '\0';
	switch (e->what) {
	case COLL_OBSERVE_COMM: event_comm(&t, e); break;
	case COLL_OBSERVE_CALL:
	case COLL_OBSERVE_MESSAGE: event_call(&t, e); break;
	case COLL_OBSERVE_STEP: event_step(&t, e); break;
	case COLL_OBSERVE_COPY: event_copy(&t, e); break;
	default: break;
	}
	return t.used > 0;
}

/* -------------------------------------------------------------------- the observer -- */

/* The folder in whose name an event is logged: the one where it happens. */
static const char *event_subsystem(uint32_t what)
{
	return what == COLL_OBSERVE_MESSAGE                             ? "message"
	       : what == COLL_OBSERVE_STEP || what == COLL_OBSERVE_COPY ? "compose"
									: "comm";
}

static int event_level(const coll_observed_t *e)
{
	const int ends = e->phase == COLL_OBSERVED_END || e->what == COLL_OBSERVE_COMM;

	return ends && strcmp(event_subsystem(e->what), "compose") ? COLL_LOG_DEBUG
								   : COLL_LOG_TRACE;
}

static void event_log(void *state, const coll_observed_t *event)
{
	const struct log_about about = {.subsystem = event_subsystem(event->what),
					.comm = event->comm_id,
					.place = *(const struct log_place *)state};
	const int level = event_level(event);
	char text[400];

	if (log_wants(about.subsystem, level) && log_event_text(event, text, sizeof(text)))
		log_about(&about, level, "%s", text);
}

uint32_t log_events_wanted(void)
{
	uint32_t wants = 0;

	if (log_wants("comm", COLL_LOG_DEBUG))
		wants |= COLL_OBSERVE_COMM | COLL_OBSERVE_CALL;
	if (log_wants("compose", COLL_LOG_TRACE))
		wants |= COLL_OBSERVE_STEP | COLL_OBSERVE_COPY;
	if (log_wants("message", COLL_LOG_DEBUG))
		wants |= COLL_OBSERVE_MESSAGE;
	return wants;
}

static void event_close(void *state)
{
	(void)state; /* the opener's */
}

const coll_observer_t log_events_observer = {.size = sizeof(coll_observer_t),
					     .abi_minor = COLL_OBSERVER_ABI_MINOR,
					     .name = "log",
					     .event = event_log,
					     .close = event_close};
