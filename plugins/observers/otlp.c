/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * otlp.c - the observer otlp: a span of OpenTelemetry for each call, in the encoding of OTLP as JSON, a line a span.  The
 * OpenTelemetry collector reads the file (its receiver otlpjsonfile), and passes the spans on.
 *
 * The spans of one collective have the same trace id on all ranks, so that a viewer shows the ranks below each other.
 */
#include <coll/observer.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OTLP_LINE = 4096, OTLP_SPAN_INTERNAL = 1, OTLP_STATUS_ERROR = 2 };

/* A line that is being made.  Where a text has no room, `full` becomes 1, and otlp_write leaves the line out. */
struct otlp_line {
	char text[OTLP_LINE];
	size_t used;
	int full;
};

struct otlp {
	const coll_observer_host_t *host;
	FILE *out;
	int messages;      /* the option */
	int64_t offset_ns; /* from the monotonic clock to the time of day */
	uint64_t job;
	uint64_t rank_hash;        /* of the job, the process and the rank */
	struct otlp_line resource; /* with which each line begins */
};

__attribute__((format(printf, 2, 3))) static void otlp_add(struct otlp_line *line, const char *fmt,
							   ...)
{
	const size_t room = sizeof(line->text) - line->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line->text + line->used, room, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room)
		line->full = 1;
	else
		line->used += (size_t)n;
}

/* Adds a string of JSON. */
static void otlp_quote(struct otlp_line *line, const char *text)
{
	char one[8];

	otlp_add(line, "\"");
	while (*text) {
		const int len = (int)json_text_next(&text, one);

		otlp_add(line, "%.*s", len, one);
	}
	otlp_add(line, "\"");
}

static void otlp_text(struct otlp_line *line, const char *key, const char *value)
{
	otlp_add(line, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":",
		 line->text[line->used - 1] == '[' ? "" : ",", key);
	otlp_quote(line, value);
	otlp_add(line, "}}");
}

/* OTLP writes integers of 64 bits as strings. */
static void otlp_int(struct otlp_line *line, const char *key, int64_t value)
{
	otlp_add(line, "%s{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}",
		 line->text[line->used - 1] == '[' ? "" : ",", key, value);
}

/* --------------------------------------------------------------------------- ids -- */

/* Spreads the bits (the finalizer of MurmurHash3), and never returns 0, which no id may be. */
static uint64_t otlp_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ b;

	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	x ^= x >> 33;
	return x ? x : 1;
}

static uint64_t otlp_hash(const char *text)
{
	uint64_t hash = 1;

	while (*text)
		hash = otlp_mix(hash, (unsigned char)*text++);
	return hash;
}

/* Returns the second half of a trace id.  A collective has the same one on all ranks, and any other call has its own. */
static uint64_t otlp_trace(const coll_observed_t *e)
{
	const uint64_t comm = otlp_mix(otlp_hash(e->comm_id), (uint64_t)e->lane);

	if (e->collective)
		return otlp_mix(comm, e->collective);
	return otlp_mix(otlp_mix(comm, (uint64_t)e->world_rank), ~e->number ^ e->what);
}

static uint64_t otlp_span(const struct otlp *otlp, const coll_observed_t *e)
{
	const uint64_t lane = e->comm << 8 ^ (uint64_t)e->lane << 7 ^ e->what;

	return otlp_mix(otlp_mix(otlp->rank_hash, lane), e->number);
}

/* -------------------------------------------------------------------------- spans -- */

static void otlp_resource(struct otlp_line *line, const coll_observer_host_t *host)
{
	otlp_add(line, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	otlp_text(line, "service.name", "libcoll");
	otlp_text(line, "host.name", host->host_name);
	otlp_int(line, "process.pid", getpid());
	otlp_int(line, "coll.world_rank", host->rank);
	otlp_text(line, "coll.backend", host->backend);
	otlp_add(line, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"libcoll\"},\"spans\":[");
}

static void otlp_attributes(struct otlp_line *line, const struct otlp *otlp,
			    const coll_observed_t *e)
{
	const coll_observer_host_t *host = otlp->host;

	otlp_add(line, "\"attributes\":[");
	otlp_text(line, "coll.communicator", e->comm_id);
	otlp_int(line, "coll.rank", e->rank);
	otlp_int(line, "coll.nranks", e->nranks);
	otlp_int(line, "coll.number", (int64_t)e->number);
	if (e->collective)
		otlp_int(line, "coll.collective", (int64_t)e->collective);
	otlp_int(line, "coll.bytes", (int64_t)e->bytes);
	otlp_int(line, "coll.count", (int64_t)e->count);
	otlp_text(line, "coll.dtype", host->dtype_name(e->dtype));
	if (e->op >= 0)
		otlp_text(line, "coll.op", host->op_name(e->op));
	if (e->peer >= 0)
		otlp_int(line, "coll.peer", e->peer);
	if (e->algorithm)
		otlp_text(line, "coll.algorithm", e->algorithm);
	if (e->begin_ns)
		otlp_int(line, "coll.queued_ns", e->begin_ns - e->issued_ns);
	otlp_add(line, "]");
}

/* A call or message has ended. */
static void otlp_write(const struct otlp *otlp, const coll_observed_t *e)
{
	const int64_t issued = e->issued_ns ? e->issued_ns : e->time_ns;
	struct otlp_line line = otlp->resource;

	otlp_add(&line,
		 "{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64
		 "\",\"name\":\"%s%s\",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
		 "\",\"endTimeUnixNano\":\"%" PRId64 "\",",
		 otlp->job, otlp_trace(e), otlp_span(otlp, e),
		 e->what == COLL_OBSERVE_MESSAGE ? "i" : "", otlp->host->kind_name(e->kind),
		 OTLP_SPAN_INTERNAL, issued + otlp->offset_ns, e->time_ns + otlp->offset_ns);
	otlp_attributes(&line, otlp, e);
	if (e->code) {
		otlp_add(&line, ",\"status\":{\"code\":%d,\"message\":", OTLP_STATUS_ERROR);
		otlp_quote(&line, otlp->host->error_text(e->code));
		otlp_add(&line, "}");
	}
	otlp_add(&line, "}]}]}]}\n");
	if (!line.full)
		(void)fwrite(line.text, 1, line.used, otlp->out);
}

static void otlp_event(void *state, const coll_observed_t *e)
{
	const struct otlp *otlp = state;

	if (e->what == COLL_OBSERVE_FAILURE)
		(void)fflush(otlp->out); /* the program may end soon */
	else if (e->phase == COLL_OBSERVED_END &&
		 (e->what == COLL_OBSERVE_CALL ||
		  (e->what == COLL_OBSERVE_MESSAGE && otlp->messages)))
		otlp_write(otlp, e);
}

/* --------------------------------------------------------------------- open, close -- */

static int64_t otlp_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static coll_result_t otlp_refuse(coll_error_t *err, coll_result_t code, const char *path,
				 const char *reason)
{
	return error_fill(
		err, code,
		"cannot write to '%.300s' (otlp.file): %s; name a file that this user may make",
		path, reason);
}

static coll_result_t otlp_open_file(struct otlp *otlp, const char *path, coll_error_t *err)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
	const int fd = descriptor_lift(open(path, flags, 0600));

	otlp->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (otlp->out)
		return COLL_SUCCESS;
	(void)otlp_refuse(err, COLL_ERR_SYSTEM, path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return COLL_ERR_SYSTEM;
}

static coll_result_t otlp_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	struct otlp *otlp = calloc(1, sizeof(*otlp));
	char path[4096], job[32];
	coll_result_t code;

	if (!otlp)
		return otlp_refuse(err, COLL_ERR_NO_MEMORY, host->option(host, "file"),
				   "no memory");
	code = host->expand(host, host->option(host, "file"), path, sizeof(path), err);
	if (!code)
		code = host->expand(host, "%j", job, sizeof(job), err);
	if (!code)
		code = otlp_open_file(otlp, path, err);
	if (code) {
		free(otlp);
		return code;
	}
	otlp->host = host;
	otlp->job = strtoull(job, NULL, 16);
	otlp->rank_hash = otlp_mix(otlp->job ^ (uint64_t)getpid(), (uint64_t)host->rank);
	otlp_resource(&otlp->resource, host);
	otlp->messages = host->option_int(host, "messages") != 0;
	otlp->offset_ns = otlp_clock(CLOCK_REALTIME) - otlp_clock(CLOCK_MONOTONIC);
	*state = otlp;
	return COLL_SUCCESS;
}

static void otlp_close(void *state)
{
	struct otlp *otlp = state;

	if (fclose(otlp->out))
		otlp->host->log(otlp->host, COLL_LOG_WARN,
				"the last spans could not be written: the file system may be full");
	free(otlp);
}

static const coll_option_t otlp_options[] = {
	{.key = "file",
	 .fallback = "coll.%r.otlp.jsonl",
	 .unit = "",
	 .help = "the file of each rank: %h is its host, %r its rank, %p its process id, %j the "
		 "job",
	 .type = COLL_OPTION_STRING},
	{.key = "messages",
	 .fallback = "no",
	 .unit = "",
	 .help = "spans for coll_isend and coll_irecv too",
	 .type = COLL_OPTION_BOOL},
};

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = COLL_OBSERVE_CALL | COLL_OBSERVE_MESSAGE | COLL_OBSERVE_FAILURE,
	.name = "otlp",
	.version = "1.0",
	.description = "a span of OpenTelemetry for each call, as lines of OTLP in JSON",
	.options = otlp_options,
	.option_count = sizeof(otlp_options) / sizeof(otlp_options[0]),
	.option_size = sizeof(coll_option_t),
	.open = otlp_open,
	.event = otlp_event,
	.close = otlp_close,
};
