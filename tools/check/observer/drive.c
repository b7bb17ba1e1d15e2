/* SPDX-License-Identifier: BSD-3-Clause */
/* drive.c - an observer in the hands of the kit: see drive.h. */
#include "check/observer/drive.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/path_pattern.h"
#include "check/host/host.h"
#include "lib/tool.h"

enum { DRIVE_RANKS = 8, DRIVE_JOB = 1 };

static const int32_t drive_ranks[DRIVE_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

int drive_load(struct check_case *c, coll_observer_t *table)
{
	const coll_observer_t *own;
	void *handle = dlopen(c->options->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	own = handle ? dlsym(handle, COLL_OBSERVER_SYMBOL) : NULL;
	if (!own) {
		check_fail(c, "cannot load it: %s",
			   handle ? "it has no symbol " COLL_OBSERVER_SYMBOL : dlerror());
		return -1;
	}
	memset(table, 0, sizeof(*table));
	memcpy(table, own, own->size < sizeof(*table) ? own->size : sizeof(*table));
	if (table->open && table->event && table->close)
		return 0;
	check_fail(c, "open, event and close are mandatory");
	return -1;
}

/* ------------------------------------------------------------------- the host table -- */

static const struct drive *drive_of(const coll_observer_host_t *host)
{
	return (const struct drive *)(const void *)((const char *)host -
						    offsetof(struct drive, host));
}

static const coll_option_t *drive_find(const struct drive *d, const char *key)
{
	return check_option_in(d->table.options, d->table.option_count, d->table.option_size, key);
}

static const char *drive_option(const coll_observer_host_t *host, const char *key)
{
	const struct drive *d = drive_of(host);
	const coll_option_t *option = drive_find(d, key);

	return option ? check_option_text(d->c, option) : NULL;
}

static int64_t drive_option_int(const coll_observer_host_t *host, const char *key)
{
	const coll_option_t *option = drive_find(drive_of(host), key);
	const char *text = drive_option(host, key);
	int64_t value;

	return text && !check_option_value(option, text, &value) ? value : 0;
}

static void drive_log(const coll_observer_host_t *host, int32_t level, const char *text)
{
	fprintf(stderr, "log %d of rank %d: %s\n", (int)level, (int)host->rank, text);
}

static coll_result_t drive_expand(const coll_observer_host_t *host, const char *pattern, char *out,
				  uint64_t size, coll_error_t *err)
{
	const struct path_names names = {.host = host->host_name,
					 .rank = host->rank,
					 .pid = (long)getpid(),
					 .job = DRIVE_JOB};
	char why[300];

	if (!path_pattern_check(pattern, "hrpj", why, sizeof(why)) &&
	    !path_pattern_expand(pattern, &names, out, (size_t)size, why, sizeof(why)))
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "the path '%.180s': %s", pattern, why);
	return COLL_ERR_INVALID_ARGUMENT;
}

/* The table is the kit's copy. */
static void drive_want(const coll_observer_host_t *host, uint32_t wants)
{
	struct drive *d = (struct drive *)(uintptr_t)drive_of(host);

	d->table.wants &= wants;
}

/* --------------------------------------------------------------------------- states -- */

int drive_open(struct drive *d, struct check_case *c, int rank)
{
	coll_error_t err = {.size = sizeof(err)};
	coll_result_t code;

	*d = (struct drive){.c = c, .name = c->options->name};
	if (drive_load(c, &d->table))
		return -1;
	d->host = (coll_observer_host_t){.size = sizeof(d->host),
					 .abi_minor = COLL_OBSERVER_ABI_MINOR,
					 .rank = rank,
					 .nranks = DRIVE_RANKS,
					 .host_name = "check",
					 .backend = "simulated",
					 .option = drive_option,
					 .log = drive_log,
					 .expand = drive_expand,
					 .option_int = drive_option_int,
					 .kind_name = coll_kind_name,
					 .dtype_name = coll_dtype_name,
					 .op_name = coll_op_name,
					 .error_text = coll_error_string,
					 .want = drive_want};
	check_slot(c, 0, "open");
	code = d->table.open(&d->host, &d->state, &err);
	check_slot(c, 0, NULL);
	if (!code)
		return 0;
	err.text[sizeof(err.text) - 1] = '\0';
	if (!err.text[0])
		check_fail(c, "open returns %d without a text", (int)code);
	else
		check_skip(c, "the observer cannot be used here: %.400s", err.text);
	return -1;
}

void drive_close(struct drive *d)
{
	check_slot(d->c, 0, "close");
	d->table.close(d->state);
	check_slot(d->c, 0, NULL);
}

/* --------------------------------------------------------------------------- events -- */

coll_observed_t drive_event(const struct drive *d, uint64_t comm, uint64_t number, uint32_t what,
			    int32_t phase)
{
	coll_observed_t e = {.size = sizeof(e),
			     .what = what,
			     .phase = phase,
			     .time_ns = tool_now_ns(),
			     .comm = comm,
			     .comm_id = "7",
			     .rank = d->host.rank,
			     .nranks = DRIVE_RANKS,
			     .world_rank = d->host.rank,
			     .op = -1,
			     .peer = -1,
			     .number = number};

	if (what == COLL_OBSERVE_COMM || what == COLL_OBSERVE_FAILURE)
		return e;
	e.kind = COLL_KIND_ALLREDUCE;
	e.collective = number;
	e.dtype = COLL_FLOAT32;
	e.op = COLL_SUM;
	e.count = 1024;
	e.bytes = 4096;
	e.send_memory = e.recv_memory = COLL_MEM_HOST;
	e.algorithm = phase == COLL_OBSERVED_ISSUED ? NULL : "ring";
	return e;
}

void drive_tell(struct drive *d, const coll_observed_t *event)
{
	const int64_t begin = tool_now_ns();
	int64_t ns;

	if (!(d->table.wants & event->what))
		return;
	check_slot(d->c, 0, "event");
	d->table.event(d->state, event);
	check_slot(d->c, 0, NULL);
	ns = tool_now_ns() - begin;
	d->events++;
	d->longest_ns = ns > d->longest_ns ? ns : d->longest_ns;
}

void drive_comm(struct drive *d, uint64_t comm, int phase)
{
	coll_observed_t e = drive_event(d, comm, 0, COLL_OBSERVE_COMM, phase);

	e.host = "check";
	e.backend = "simulated";
	e.job = DRIVE_JOB;
	e.parent = comm - 1;
	e.world_ranks = phase == COLL_OBSERVED_BEGIN ? drive_ranks : NULL;
	drive_tell(d, &e);
}

/* The BEGIN and END of something within a call. */
static void drive_within(struct drive *d, uint64_t comm, uint64_t number, uint32_t what, int index)
{
	coll_observed_t e = drive_event(d, comm, number, what, COLL_OBSERVED_BEGIN);

	e.step = what == COLL_OBSERVE_STEP ? COLL_STEP_SEND : 0;
	e.index = index;
	e.peer = what == COLL_OBSERVE_STEP ? 1 : -1;
	drive_tell(d, &e);
	e.begin_ns = what == COLL_OBSERVE_WAIT ? e.time_ns : 0;
	e.phase = COLL_OBSERVED_END;
	e.time_ns = tool_now_ns();
	drive_tell(d, &e);
}

void drive_call(struct drive *d, uint64_t comm, uint64_t number, int32_t kind, int32_t code)
{
	const int is_message = kind == COLL_KIND_SEND;
	const uint32_t what = is_message ? COLL_OBSERVE_MESSAGE : COLL_OBSERVE_CALL;
	coll_observed_t e = drive_event(d, comm, number, what, COLL_OBSERVED_ISSUED);

	e.kind = kind;
	e.peer = is_message ? 1 : -1;
	e.tag = is_message ? 5 : 0;
	drive_tell(d, &e);
	e.issued_ns = e.time_ns;
	if (!is_message && !code) {
		e.phase = COLL_OBSERVED_BEGIN;
		e.begin_ns = e.time_ns = tool_now_ns();
		e.algorithm = "ring";
		drive_tell(d, &e);
		drive_within(d, comm, number, COLL_OBSERVE_COPY, 0);
		drive_within(d, comm, number, COLL_OBSERVE_STEP, 1);
		drive_within(d, comm, number, COLL_OBSERVE_WAIT, 0);
	}
	e.phase = COLL_OBSERVED_END;
	e.time_ns = tool_now_ns();
	e.code = code;
	drive_tell(d, &e);
}
