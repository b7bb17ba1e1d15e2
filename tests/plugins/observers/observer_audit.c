/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observer_audit.c - an observer that checks what observer.h promises of the events, and counts them.  close() writes the
 * first fault and the counts to the file of the option `file`, a line "name value" each.
 */
#include <coll/observer.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AUDIT_COMMS = 256, AUDIT_CALLS = 1 << 14, AUDIT_WHATS = 7, AUDIT_PHASES = 3 };

#ifndef AUDIT_NAME
#define AUDIT_NAME "audit"
#endif
#ifndef AUDIT_FLAGS
#define AUDIT_FLAGS 0
#endif

enum { AUDIT_TERSE = (AUDIT_FLAGS & COLL_OBSERVER_TERSE) != 0 };

/* A call or message that has no END yet. */
struct audit_call {
	uint64_t comm, number;
	uint32_t what;
	int32_t lane, kind, begun, steps;
	int64_t issued_ns, begin_ns;
};

struct audit_comm {
	uint64_t comm, last[2][2]; /* the last number of a call, of a message, for each lane */
	int64_t time_ns[2];
	int failed, waits;
};

struct audit {
	const coll_observer_host_t *host;
	pthread_mutex_t lock;
	char path[512], host_name[256], fault[400];
	struct audit_comm comm[AUDIT_COMMS];
	int comms;
	struct audit_call call[AUDIT_CALLS];
	int calls, has_calls;
	long count[AUDIT_WHATS][AUDIT_PHASES], failed_calls, staged, derived, native, bytes;
	long running, beside; /* calls that have begun and not ended; the most at a time */
};

__attribute__((format(printf, 3, 4))) static void audit_fault(struct audit *a,
							      const coll_observed_t *e,
							      const char *fmt, ...)
{
	char text[200];
	va_list args;

	if (a->fault[0])
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(a->fault, sizeof(a->fault),
		 "%s (what %u phase %d comm %" PRIu64 " lane %d kind %d number %" PRIu64 ")", text,
		 e->what, (int)e->phase, e->comm, (int)e->lane, (int)e->kind, e->number);
}

static struct audit_comm *audit_comm_of(struct audit *a, const coll_observed_t *e)
{
	for (int i = 0; i < a->comms; i++)
		if (a->comm[i].comm == e->comm)
			return &a->comm[i];
	return NULL;
}

static struct audit_call *audit_find(struct audit *a, const coll_observed_t *e, uint32_t what)
{
	for (int i = 0; i < a->calls; i++)
		if (a->call[i].comm == e->comm && a->call[i].number == e->number &&
		    a->call[i].lane == e->lane && a->call[i].what == what)
			return &a->call[i];
	return NULL;
}

/* --------------------------------------------------------------------- communicators -- */

static void audit_comm_event(struct audit *a, const coll_observed_t *e)
{
	struct audit_comm *comm = audit_comm_of(a, e);

	if (e->phase == COLL_OBSERVED_BEGIN) {
		if (comm || a->comms == AUDIT_COMMS)
			audit_fault(a, e, "a communicator comes twice");
		else
			a->comm[a->comms++] = (struct audit_comm){.comm = e->comm};
		a->derived += e->parent != 0;
		if (!e->world_ranks || e->world_ranks[e->rank] != e->world_rank || !e->job)
			audit_fault(a, e, "the communicator lacks its ranks or its job");
		if (!e->host || strcmp(e->host, a->host->host_name) || !e->backend ||
		    strcmp(e->backend, a->host->backend))
			audit_fault(a, e, "the communicator lacks its host or backend");
		return;
	}
	if (!comm)
		return;
	for (int i = 0; i < a->calls; i++)
		if (a->call[i].comm == e->comm)
			audit_fault(a, e, "call %" PRIu64 " of kind %d has no END",
				    a->call[i].number, (int)a->call[i].kind);
	if (comm->waits)
		audit_fault(a, e, "%d waits have no END", comm->waits);
	*comm = a->comm[--a->comms];
}

static void audit_common(struct audit *a, const coll_observed_t *e)
{
	struct audit_comm *comm = audit_comm_of(a, e);

	if (!comm) {
		audit_fault(a, e, "an event outside the life of its communicator");
		return;
	}
	if (e->size != sizeof(*e) || !e->comm_id || !e->comm_id[0] || e->rank < 0 ||
	    e->rank >= e->nranks || e->world_rank < 0 || e->lane < 0 || e->lane > 1)
		audit_fault(a, e, "the communicator's fields are not set");
	else if (e->time_ns < comm->time_ns[e->lane])
		audit_fault(a, e, "the time goes back");
	else
		comm->time_ns[e->lane] = e->time_ns;
}

/* ---------------------------------------------------------------- calls and messages -- */

static void audit_issued(struct audit *a, const coll_observed_t *e)
{
	struct audit_comm *comm = audit_comm_of(a, e);
	uint64_t *last = comm ? &comm->last[e->lane][e->what == COLL_OBSERVE_MESSAGE] : NULL;

	if (a->calls == AUDIT_CALLS || !last || e->number <= *last) {
		audit_fault(a, e, "the numbers of calls do not grow");
		return;
	}
	*last = e->number;
	a->bytes += (long)e->bytes;
	a->call[a->calls++] = (struct audit_call){.comm = e->comm,
						  .number = e->number,
						  .what = e->what,
						  .lane = e->lane,
						  .kind = e->kind,
						  .issued_ns = e->time_ns};
	if (!strcmp(a->host->kind_name(e->kind), "?"))
		audit_fault(a, e, "a kind without a name");
	if (e->algorithm && e->phase == COLL_OBSERVED_ISSUED)
		audit_fault(a, e, "an algorithm before the BEGIN");
}

static void audit_end(struct audit *a, const coll_observed_t *e, struct audit_call *call)
{
	const int is_call = e->what == COLL_OBSERVE_CALL;

	if (e->issued_ns != call->issued_ns || e->begin_ns != call->begin_ns)
		audit_fault(a, e, "the END has other times than the ISSUED and BEGIN");
	if (e->time_ns < call->issued_ns || e->time_ns < call->begin_ns)
		audit_fault(a, e, "the END is before the ISSUED or BEGIN");
	if (!e->code && is_call && (!call->begun || call->steps))
		audit_fault(a, e, "a call ends well without a BEGIN, or with %d open steps",
			    call->steps);
	if (e->kind != call->kind)
		audit_fault(a, e, "the END is of another kind, %d", call->kind);
	a->running -= call->begun;
	a->failed_calls += is_call && e->code;
	a->native += is_call && e->algorithm && !strcmp(e->algorithm, "native");
	*call = a->call[--a->calls];
}

static void audit_call_event(struct audit *a, const coll_observed_t *e)
{
	struct audit_call *call = audit_find(a, e, e->what);

	if (AUDIT_TERSE && !call && e->phase == COLL_OBSERVED_BEGIN && e->issued_ns == e->time_ns) {
		audit_issued(a, e);
		call = audit_find(a, e, e->what);
	}
	if (e->phase == COLL_OBSERVED_ISSUED) {
		audit_issued(a, e);
	} else if (!call) {
		audit_fault(a, e, "no ISSUED before");
	} else if (e->phase == COLL_OBSERVED_BEGIN) {
		if (call->begun++ || e->kind != call->kind || e->time_ns < call->issued_ns ||
		    e->issued_ns != call->issued_ns)
			audit_fault(a, e, "a BEGIN that does not fit its ISSUED");
		call->begin_ns = e->time_ns;
		a->beside = ++a->running > a->beside ? a->running : a->beside;
	} else {
		audit_end(a, e, call);
	}
}

/* A step of a call that nobody has told of. */
static void audit_step_alone(struct audit *a, const coll_observed_t *e)
{
	const uint64_t size = e->dtype == COLL_INT64 ? 8 : e->dtype == COLL_INT32 ? 4 : 0;

	if (size && e->count * size != e->bytes)
		audit_fault(a, e, "%" PRIu64 " elements of %" PRIu64 " bytes in a step of %" PRIu64,
			    e->count, size, e->bytes);
}

static void audit_step_event(struct audit *a, const coll_observed_t *e)
{
	const uint32_t of = e->what == COLL_OBSERVE_COPY && e->index < 0 ? COLL_OBSERVE_MESSAGE
									 : COLL_OBSERVE_CALL;
	struct audit_call *call = audit_find(a, e, of);

	if (!call || (of == COLL_OBSERVE_CALL && !call->begun))
		audit_fault(a, e, "a step outside its call");
	else if (e->phase == COLL_OBSERVED_BEGIN)
		call->steps++;
	else if (of == COLL_OBSERVE_CALL &&
		 (e->begin_ns < call->begin_ns || e->begin_ns > e->time_ns))
		audit_fault(a, e, "a step that does not end after its begin");
	else if (call->steps > 0)
		call->steps--;
	else if (!AUDIT_TERSE)
		audit_fault(a, e, "a step ends that has not begun");
	a->staged += e->what == COLL_OBSERVE_COPY && e->phase == COLL_OBSERVED_END;
}

static void audit_other(struct audit *a, const coll_observed_t *e)
{
	struct audit_comm *comm = audit_comm_of(a, e);

	if (!comm)
		return;
	if (e->what == COLL_OBSERVE_WAIT)
		comm->waits += e->phase == COLL_OBSERVED_BEGIN ? 1 : -1;
	else if (comm->failed++ || !e->text || !e->text[0] || !e->code)
		audit_fault(a, e, "a failure twice, or without a code or text");
}

static void audit_event(void *state, const coll_observed_t *e)
{
	struct audit *a = state;
	int what = 0;

	while (what < AUDIT_WHATS - 1 && 1u << what != e->what)
		what++;
	pthread_mutex_lock(&a->lock);
	a->count[what][e->phase]++;
	if (e->what == COLL_OBSERVE_COMM && e->phase == COLL_OBSERVED_BEGIN)
		audit_comm_event(a, e);
	audit_common(a, e);
	if (e->what == COLL_OBSERVE_COMM && e->phase == COLL_OBSERVED_END)
		audit_comm_event(a, e);
	else if (e->what == COLL_OBSERVE_CALL || e->what == COLL_OBSERVE_MESSAGE)
		audit_call_event(a, e);
	else if (!a->has_calls)
		audit_step_alone(a, e);
	else if (e->what == COLL_OBSERVE_STEP || e->what == COLL_OBSERVE_COPY)
		audit_step_event(a, e);
	else if (e->what == COLL_OBSERVE_WAIT || e->what == COLL_OBSERVE_FAILURE)
		audit_other(a, e);
	pthread_mutex_unlock(&a->lock);
}

/* ---------------------------------------------------------------------- open, close -- */

/* Returns 0 if expand takes what it must refuse. */
static int audit_expand_refuses(const coll_observer_host_t *host)
{
	char path[8] = "kept";
	coll_error_t err = {.size = sizeof(err)};

	return host->expand(host, NULL, path, sizeof(path), &err) == COLL_ERR_INVALID_ARGUMENT &&
	       err.text[0] &&
	       host->expand(host, "%h", NULL, 8, &err) == COLL_ERR_INVALID_ARGUMENT &&
	       host->expand(host, "", path, 0, &err) == COLL_ERR_INVALID_ARGUMENT &&
	       host->expand(host, "%x", path, 8, &err) == COLL_ERR_INVALID_ARGUMENT &&
	       !strcmp(path, "kept");
}

static coll_result_t audit_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	struct audit *a = calloc(1, sizeof(*a));
	coll_result_t code;

	if (!a)
		return COLL_ERR_NO_MEMORY;
	a->host = host;
	pthread_mutex_init(&a->lock, NULL);
	code = host->expand(host, host->option(host, "file"), a->path, sizeof(a->path), err);
	if (code) {
		free(a);
		return code;
	}
	if (!audit_expand_refuses(host))
		snprintf(a->fault, sizeof(a->fault), "expand has taken a wrong argument");
	snprintf(a->host_name, sizeof(a->host_name), "%s", host->host_name);
	a->has_calls = host->option_int(host, "calls") != 0;
	if (!host->option_int(host, "steps"))
		host->want(host, ~(uint32_t)COLL_OBSERVE_STEP);
	if (!a->has_calls)
		host->want(host, COLL_OBSERVE_COMM | COLL_OBSERVE_STEP);
	*state = a;
	return COLL_SUCCESS;
}

/* The strings of the host stay until close() returns. */
static void audit_check_host(struct audit *a)
{
	char expanded[256] = "";
	coll_error_t err = {.size = sizeof(err)};

	if (a->fault[0])
		return;
	if (strcmp(a->host->host_name, a->host_name) != 0 ||
	    a->host->expand(a->host, "%h", expanded, sizeof(expanded), &err) ||
	    strcmp(expanded, a->host_name) != 0)
		snprintf(a->fault, sizeof(a->fault), "in close() the host is '%.60s', not '%.60s'",
			 expanded, a->host_name);
}

static void audit_close(void *state)
{
	static const char *const names[AUDIT_WHATS] = {"comm",    "call", "step",   "copy",
						       "message", "wait", "failure"};
	static const char *const phases[AUDIT_PHASES] = {"issued", "begin", "end"};
	struct audit *a = state;
	FILE *out;

	if (a->comms && !a->fault[0])
		snprintf(a->fault, sizeof(a->fault), "communicator %" PRIu64 " has no END",
			 a->comm[0].comm);
	audit_check_host(a);
	out = fopen(a->path, "ae");
	if (out) {
		for (int w = 0; w < AUDIT_WHATS; w++)
			for (int p = 0; p < AUDIT_PHASES; p++)
				fprintf(out, "%s_%s %ld\n", names[w], phases[p], a->count[w][p]);
		fprintf(out,
			"failed_calls %ld\nstaged %ld\nderived %ld\nnative %ld\nbytes %ld\n"
			"beside %ld\npid %ld\nfault %s\n",
			a->failed_calls, a->staged, a->derived, a->native, a->bytes, a->beside,
			(long)getpid(), a->fault);
		fclose(out);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static const coll_option_t audit_options[] = {
	{.key = "file", .fallback = "/dev/null", .type = COLL_OPTION_STRING, .help = "the file"},
	{.key = "steps", .fallback = "yes", .type = COLL_OPTION_BOOL, .help = "steps, too"},
	{.key = "calls", .fallback = "yes", .type = COLL_OPTION_BOOL, .help = "no: steps alone"},
};

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = (1 << AUDIT_WHATS) - 1,
	.name = AUDIT_NAME,
	.version = "1.0",
	.description = "checks the events that observer.h promises",
	.options = audit_options,
	.option_count = 3,
	.option_size = sizeof(coll_option_t),
	.open = audit_open,
	.event = audit_event,
	.close = audit_close,
	.flags = AUDIT_FLAGS,
};
